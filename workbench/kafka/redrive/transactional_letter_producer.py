"""Transactional producer of a redrive: records and the position in the plan take effect together, or not at all.

The transactional id comes from the plan. A new producer of the same plan fences the former one, and Kafka aborts what that one had
open. So the committed position says exactly which letters were produced, whatever was killed and when.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from hashlib import sha256
from typing import Any

from workbench.errors import GuardError, SourceUnreachableError
from workbench.humanize import plural
from workbench.kafka.librdkafka_errors import error_words, is_denied
from workbench.kafka.redrive.committed_progress import read_progress
from workbench.queues.group_kinds import REDRIVE_PREFIX
from workbench.redrive.commit_marks import Place, PlanProgress
from workbench.redrive.letter_headers import Headers, Letter
from workbench.redrive.planfile import RedrivePlan
from workbench.redrive.redrive_ports import NO_MARKS, FencedError, LettersRefusedError, Marks, Positions, SlowError

_TRANSACTION_TIMEOUT_MS = 60_000
_COMMIT_SECONDS = 45.0  # below the transaction's timeout
_POLL_SECONDS = 0.05
_ABORT_SECONDS = 2.0
_MAX_MESSAGE_BYTES = 1_000_000_000  # only the topic's limit counts
_FLUSH_SECONDS = 1.0
_CLAIM_TRIES = 8
_PRODUCE = "produce"


def claim_id(plan: RedrivePlan) -> str:
    """Transactional id of all claims of letters of the plan's topic."""
    return f"{REDRIVE_PREFIX}claim-{sha256((plan.topic_id or plan.topic).encode()).hexdigest()[:24]}"


@cache
def _metadata_of(group: str) -> Any:
    """Metadata of a group for transactions; nobody joins it. The client knows no broker, so no request is under way when it goes."""
    from confluent_kafka import Consumer

    reader = Consumer({"group.id": group, "log_level": 0})
    try:
        return reader.consumer_group_metadata()
    finally:
        reader.close()


@cache
def _fences() -> frozenset[int]:
    from confluent_kafka import KafkaError

    return frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})


@cache
def _refusals() -> frozenset[int]:
    """Errors of records that stay whatever is tried."""
    from confluent_kafka import KafkaError

    names: tuple[str, ...] = (
        "MSG_SIZE_TOO_LARGE",
        "RECORD_LIST_TOO_LARGE",
        "INVALID_TIMESTAMP",
        "INVALID_RECORD",
        "_INVALID_ARG",
    )
    names += ("_INVALID_DIFFERENT_RECORD", "UNSUPPORTED_FOR_MESSAGE_FORMAT", "POLICY_VIOLATION")
    return frozenset(getattr(KafkaError, name) for name in names if hasattr(KafkaError, name))


@cache
def _local_refusals() -> frozenset[int]:
    """Errors of `produce` itself, which are about this record alone."""
    from confluent_kafka import KafkaError

    return frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError._INVALID_ARG})


class KafkaSink:
    """See `Sink`; the module says why it is exactly once."""

    takes_at_once = False

    def __init__(
        self,
        bootstrap: str,
        properties: Mapping[str, Any],
        plan: RedrivePlan,
        *,
        timeout_seconds: float = 30.0,
        batch_bytes: int | None = None,
    ) -> None:
        """`batch_bytes`: of one batch of records, if a target takes no more at once than that."""
        self._common = {
            "client.id": "workbench-redrive",
            "log_level": 0,
            "allow.auto.create.topics": False,  # a target that is deleted meanwhile would be made anew, with the brokers' defaults
            **properties,
            "bootstrap.servers": bootstrap,
        }
        self._plan, self._timeout, self._security = plan, timeout_seconds, properties
        self._batch = {"batch.size": max(1, batch_bytes)} if batch_bytes is not None and batch_bytes < 1_000_000 else {}
        self._bootstrap = bootstrap
        self._producer: Any = None
        self._in_transaction = False
        self._opened, self._sent, self._careful = 0.0, 0, False
        # Of this transaction; and whether the client has chosen partitions by the key there.
        self._targets: dict[str, bool] = {}
        self._failed: Any = None
        self._named: dict[Place, str] = {}

    def begin(self, *, careful: bool = False) -> None:
        """See `Sink.begin`."""
        from confluent_kafka import Producer

        self._careful = careful
        self._producer = Producer(
            {
                "linger.ms": 5,
                "compression.type": "lz4",
                "message.max.bytes": _MAX_MESSAGE_BYTES,
                **({"batch.num.messages": 1} if careful else self._batch),
                "partitioner": "murmur2_random",  # that of Java's producers
                **self._common,
                "transactional.id": self._plan.id,
                "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
                "delivery.report.only.error": True,
                "on_delivery": self._on_failure,
            }
        )
        self._until(lambda: self._producer.init_transactions(self._timeout), "begin", self._timeout)

    def _on_failure(self, error: Any, message: Any) -> None:
        if error is not None and self._failed is None:
            self._failed = (error, message.topic())

    def _on_outcome(self, place: Place, error: Any, message: Any) -> None:
        """Of a careful sink. A broker refuses a whole batch (4.2, seen), and here each record is its own batch."""
        if error is not None:
            if error.code() in _refusals():
                self._named[place] = error.name()
            self._on_failure(error, message)

    def progress(self) -> PlanProgress:
        """See `Sink.progress`."""
        return read_progress(
            self._bootstrap, self._security, self._plan, timeout_seconds=self._timeout, unreachable=self._unreachable
        )

    def claim(self, positions: Positions, ordered: int | None, marks: Marks, check: Callable[[], None]) -> PlanProgress:
        """See `Sink.claim`.

        One transactional id for all claims of the topic: who begins later fences who began before and has not committed yet. So between
        the check and the commit of a claim, no other one can have been committed.
        """
        from confluent_kafka import Producer

        for attempt in range(1, _CLAIM_TRIES + 1):
            producer = Producer({**self._common, "transactional.id": claim_id(self._plan)})
            try:
                self._until(lambda: producer.init_transactions(self._timeout), "claim its letters", self._timeout)  # noqa: B023
                if (found := self.progress()).positions:
                    return found
                check()
                self._until(producer.begin_transaction, "claim its letters", _COMMIT_SECONDS)
                self._add_positions(producer, positions, ordered, marks)
                self._until(lambda: producer.commit_transaction(_COMMIT_SECONDS), "claim its letters", _COMMIT_SECONDS)  # noqa: B023
                return self._shown()
            except FencedError:
                if attempt == _CLAIM_TRIES:
                    raise GuardError(
                        f"Other processes claim letters of {self._plan.topic!r} at the same time.",
                        hint="Apply again: nothing was produced.",
                    ) from None
                time.sleep(random.uniform(0.1, 1.0) * attempt)  # noqa: S311 - so that two do not fence each other for ever
        raise AssertionError

    def _shown(self) -> PlanProgress:
        """What is committed, once Kafka shows it.

        Of a new group, it tells no position, and no error, until the transaction's markers are written (4.2, seen). A second look
        in that moment would take the plan for one that has not begun, or whose position has expired.
        """
        deadline = time.monotonic() + self._timeout
        while not (found := self.progress()).positions:
            if time.monotonic() > deadline:
                raise SourceUnreachableError(
                    f"Kafka at {self._bootstrap} does not show the position of the plan {self._plan.short_hash} yet.",
                    hint="Apply again: nothing was produced.",
                )
            time.sleep(_POLL_SECONDS)
        return found

    def _add_positions(self, producer: Any, positions: Positions, ordered: int | None, marks: Marks) -> None:
        from confluent_kafka import TopicPartition

        topic = self._plan.topic
        offsets = {
            self._plan.id: [
                TopicPartition(topic, number, at, marks.get(number, "")) for number, at in positions.items()
            ]
        }
        if ordered is not None:
            offsets[self._plan.order_group] = [TopicPartition(topic, 0, ordered)]
        for group, places in offsets.items():
            if places:
                self._until(
                    lambda group=group, places=places: producer.send_offsets_to_transaction(  # type: ignore[misc]
                        places, _metadata_of(group), _COMMIT_SECONDS
                    ),
                    "add its position to the transaction",
                    _COMMIT_SECONDS,
                )

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
        self._targets[topic] = partition is None or self._targets.get(topic, False)
        if self._careful:
            place["on_delivery"] = partial(self._on_outcome, (letter.partition, letter.offset))
        self._sent += 1
        while True:
            try:
                self._producer.produce(topic, letter.value, letter.key, headers=headers, **place)
                break
            except BufferError:
                self._producer.poll(_POLL_SECONDS)
                self._check_time()
            except KafkaException as error:
                if error.args[0].code() in _local_refusals():
                    self._named[letter.partition, letter.offset] = error.args[0].name()
                raise self._refused(_PRODUCE, error) from None
            except (ValueError, TypeError, OverflowError, SystemError) as error:  # the client cannot encode it
                code = type(error).__name__
                raise LettersRefusedError(code, f"{code}: {error}", {(letter.partition, letter.offset): code}) from None
        if self._failed is not None:
            raise self._refused(_PRODUCE, self._failed[0])

    def _begin(self) -> None:
        from confluent_kafka import KafkaException

        try:
            self._producer.begin_transaction()
        except KafkaException as error:
            raise self._refused("begin a transaction", error) from None
        self._in_transaction, self._opened, self._sent = True, time.monotonic(), 0
        self._targets.clear()

    def _check_time(self) -> None:
        """End while there is time to abort; Kafka would end the transaction later, and fence this producer."""
        if time.monotonic() - self._opened < _COMMIT_SECONDS:
            return
        if len(self._producer) < self._sent:
            raise SlowError(f"{plural(self._sent, 'record was', 'records were')} not taken in {_COMMIT_SECONDS:g} s")
        raise SourceUnreachableError(
            f"Kafka at {self._bootstrap}: no record was taken in {_COMMIT_SECONDS:g} s.",
            hint="See the quotas of this user.",
        )

    def commit(self, positions: Positions, ordered: int | None, marks: Marks = NO_MARKS) -> None:
        """See `Sink.commit`."""
        if not self._in_transaction:
            self._begin()
        self._add_positions(self._producer, positions, ordered, marks)
        while self._producer.flush(_FLUSH_SECONDS):
            if self._failed is not None:
                raise self._refused(_PRODUCE, self._failed[0])
            self._check_time()
            self._check_targets()  # the client itself waits long for a topic that is gone
        if self._failed is not None:
            raise self._refused(_PRODUCE, self._failed[0])
        self._check_targets()
        self._until(lambda: self._producer.commit_transaction(_COMMIT_SECONDS), "commit", _COMMIT_SECONDS)
        self._in_transaction = False

    def _check_targets(self) -> None:
        """A target that has gained partitions splits keys where the client has chosen partitions by the key; one may be gone.

        Asked for each transaction before it is committed, because the client notices new partitions by itself at any time before.
        """
        from confluent_kafka import KafkaException

        planned = {it.topic: len(it.ends) for it in self._plan.targets}
        for topic, is_by_key in self._targets.items():
            try:
                found = self._producer.list_topics(topic, timeout=self._timeout).topics[topic]
            except KafkaException as error:
                raise self._refused("ask for the partitions of its target", error) from None
            # The caller asks whether it is gone: a broker that restarts may not know it either.
            if found.error is not None:
                raise self._refused(_PRODUCE, found.error)
            if is_by_key and len(found.partitions) != planned.get(topic, len(found.partitions)):
                raise GuardError(
                    f"{topic!r} had {plural(planned[topic], 'partition')} when the plan was made, now {len(found.partitions)}: "
                    "keys would be split.",
                    hint="Give the plan up (dlq give-up), and make a new one of what is left.",
                )

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

    def _refused(self, what: str, error: Any) -> Exception:
        inner = error.args[0] if isinstance(error, BaseException) else error
        if self._careful and self._producer is not None:  # more outcomes are on their way
            self._producer.flush(_FLUSH_SECONDS)
        cause = self._failed[0] if self._failed is not None else inner
        if inner.code() in _fences() or cause.code() in _fences():
            return FencedError(
                f"Another process has taken over the plan {self._plan.short_hash}: nothing more is produced here.",
                hint="See: workbench dlq follow PLAN",
            )
        if cause.code() in _refusals() and (self._failed is not None or what == _PRODUCE):  # not of the position
            return LettersRefusedError(cause.name(), error_words(cause), dict(self._named))
        return self._unreachable(what, cause if is_denied(cause) else error)

    def _unreachable(self, what: str, error: Any) -> Exception:
        if is_denied(error):
            return GuardError(
                f"The redrive cannot {what}: {error_words(error)}.",
                hint=f"Grant these credentials WRITE on the target topics and on transactional id {self._plan.id!r}, READ on that"
                f" group and on {self._plan.topic!r}, or use others in workbench.toml.",
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
