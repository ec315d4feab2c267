"""Transactional producer of a redrive: records and the position in the plan take effect together, or not at all.

The transactional id comes from the plan. A new producer of the same plan fences the former one, and Kafka aborts what that one had
open. So the committed position says exactly which letters were produced, whatever was killed and when.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from workbench.collect.kafka_errors import error_words, is_denied
from workbench.errors import GuardError, SourceUnreachableError, WorkbenchError
from workbench.redrive.gateway import Positions
from workbench.redrive.letters import Headers, Letter
from workbench.redrive.planfile import RedrivePlan
from workbench.replay.plan import NO_RIGHT

_TRANSACTION_TIMEOUT_MS = 60_000
_COMMIT_SECONDS = 45.0  # below the transaction's timeout
_POLL_SECONDS = 0.05
_ABORT_SECONDS = 2.0
_MAX_MESSAGE_BYTES = 1_000_000_000  # only the topic's limit counts
_STABLE_PAUSE_SECONDS = 0.2


class KafkaSink:
    """See `Sink`; the module says why it is exactly once."""

    def __init__(
        self, bootstrap: str, properties: Mapping[str, Any], plan: RedrivePlan, *, timeout_seconds: float = 30.0
    ) -> None:
        self._common = {"client.id": "workbench-redrive", "log_level": 0, **properties, "bootstrap.servers": bootstrap}
        self._plan, self._timeout = plan, timeout_seconds
        self._bootstrap = bootstrap
        self._producer: Any = None
        self._readers: list[Any] = []
        self._metadata: dict[str, Any] = {}
        self._in_transaction = False
        self._failed: Any = None

    def begin(self) -> None:
        """See `Sink.begin`."""
        from confluent_kafka import Consumer, KafkaException, Producer

        self._producer = Producer(
            {
                "linger.ms": 5,
                "compression.type": "lz4",
                "message.max.bytes": _MAX_MESSAGE_BYTES,
                "partitioner": "murmur2_random",  # that of Java's producers
                **self._common,
                "transactional.id": self._plan.id,
                "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                "delivery.report.only.error": True,
                "on_delivery": self._on_failure,
            }
        )
        self._until(lambda: self._producer.init_transactions(self._timeout), "begin", self._timeout)
        for group in (self._plan.id, self._plan.order_group):
            try:
                reader = Consumer({**self._common, "group.id": group, "enable.auto.commit": False})
            except KafkaException as error:
                raise self._unreachable("begin", error) from None
            self._readers.append(reader)
            self._metadata[group] = reader.consumer_group_metadata()

    def _on_failure(self, error: Any, message: Any) -> None:
        if error is not None and self._failed is None:
            self._failed = (error, message.topic())

    def progress(self) -> tuple[Positions, int | None]:
        """See `Sink.progress`."""
        positions = self._commits(self._plan.id)
        return positions, self._commits(self._plan.order_group).get(0)

    def _commits(self, group: str) -> dict[int, int]:
        """Committed offsets, once no transaction is about to change them."""
        from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
        from confluent_kafka.admin import AdminClient

        admin, deadline = AdminClient(self._common), time.monotonic() + self._timeout
        while True:
            error: Any
            try:
                future = admin.list_consumer_group_offsets(
                    [ConsumerGroupTopicPartitions(group)], require_stable=True, request_timeout=self._timeout
                )[group]
                parts = future.result(self._timeout).topic_partitions
                errors = [part.error for part in parts if part.error is not None]
                if not errors:
                    return {p.partition: p.offset for p in parts if p.topic == self._plan.topic and p.offset >= 0}
                error = errors[0]
            except KafkaException as failure:
                error = failure.args[0]
                if (
                    error.code() in (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.NOT_COORDINATOR)
                    and time.monotonic() > deadline
                ):
                    return {}
                if error.code() == KafkaError.GROUP_ID_NOT_FOUND:
                    return {}
            except TimeoutError as failure:
                error = failure
            if time.monotonic() > deadline or (not isinstance(error, TimeoutError) and is_denied(error)):
                raise self._unreachable("read its progress", error)
            time.sleep(_STABLE_PAUSE_SECONDS)

    def send(
        self, topic: str, partition: int | None, letter: Letter, headers: Headers, timestamp_ms: int | None
    ) -> None:
        """See `Sink.send`."""
        from confluent_kafka import KafkaException

        if not self._in_transaction:
            self._begin()
        place: dict[str, Any] = {} if partition is None else {"partition": partition}
        if timestamp_ms is not None:
            place["timestamp"] = timestamp_ms
        while True:
            try:
                self._producer.produce(topic, letter.value, letter.key, headers=headers, **place)
                return
            except BufferError:
                self._producer.poll(_POLL_SECONDS)
            except KafkaException as error:
                raise self._refused("produce", error) from None
            if self._failed is not None:
                raise self._refused("produce", self._failed[0])

    def _begin(self) -> None:
        from confluent_kafka import KafkaException

        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            raise self._refused("begin a transaction", error) from None
        self._in_transaction = True

    def commit(self, positions: Positions, ordered: int | None) -> None:
        """See `Sink.commit`."""
        from confluent_kafka import TopicPartition

        if not self._in_transaction:
            self._begin()
        offsets = {self._plan.id: [TopicPartition(self._plan.topic, number, at) for number, at in positions.items()]}
        if ordered is not None:
            offsets[self._plan.order_group] = [TopicPartition(self._plan.topic, 0, ordered)]
        for group, places in offsets.items():
            if places:
                self._until(
                    lambda group=group, places=places: self._producer.send_offsets_to_transaction(  # type: ignore[misc]
                        places, self._metadata[group], _COMMIT_SECONDS
                    ),
                    "add its position to the transaction",
                    _COMMIT_SECONDS,
                )
        self._until(lambda: self._producer.commit_transaction(_COMMIT_SECONDS), "commit", _COMMIT_SECONDS)
        self._in_transaction = False
        if self._failed is not None:
            raise self._refused("produce", self._failed[0])

    def _until(self, call: Callable[[], None], what: str, seconds: float) -> None:
        """Call again while the client says that it may; the call is one that can be repeated."""
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + seconds
        while True:
            try:
                call()
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise self._refused(what, error) from None

    def _refused(self, what: str, error: Any) -> WorkbenchError:
        from confluent_kafka import KafkaError

        inner = error.args[0] if isinstance(error, BaseException) else error
        cause = self._failed[0] if self._failed is not None else inner
        if inner.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
            return GuardError(
                f"Another process has taken over the plan {self._plan.short_hash}: nothing more is produced here.",
                hint="See: workbench dlq follow.",
            )
        if cause.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return GuardError(
                f"The topic {self._failed[1] if self._failed else '?'!r} refuses a record: it is too large.",
                hint="Raise its max.message.bytes, or plan without that letter. What was committed stays; apply again continues.",
            )
        return self._unreachable(what, error)

    def _unreachable(self, what: str, error: Any) -> WorkbenchError:
        if is_denied(error):
            return GuardError(
                f"The redrive cannot {what}: {error_words(error)}.",
                hint=f"It needs WRITE on the target topics and on transactional id {self._plan.id!r}, READ on that group. {NO_RIGHT}",
            )
        return SourceUnreachableError(f"Kafka at {self._bootstrap}: the redrive cannot {what}: {error_words(error)}.")

    def close(self) -> None:
        """See `Sink.close`; the next producer of the plan, or the timeout, aborts what is open."""
        from confluent_kafka import KafkaException

        if self._producer is not None:
            if self._in_transaction:
                self._producer.purge()
                with suppress(KafkaException):
                    self._producer.abort_transaction(_ABORT_SECONDS)
            self._producer = None
        for reader in self._readers:
            reader.close()
        self._readers = []
