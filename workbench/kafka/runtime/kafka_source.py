"""Kafka source, with confluent-kafka."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from workbench.commit_note import CommitNote, format_note
from workbench.errors import SourceUnreachableError
from workbench.humanize import plural
from workbench.kafka.clients_without_brokers import STATISTICS, made_in
from workbench.kafka.runtime.client_errors import PERMANENT, TRANSIENT
from workbench.kafka.runtime.client_statistics import parse_statistics
from workbench.kafka.runtime.start_positions import (
    FirstStart,
    Policy,
    begin_at,
    check_ranges,
    failures_of,
    next_offset,
    offsets_of,
    persistently,
    place,
)
from workbench.read_kafka_headers import UNREADABLE, headers_of
from workbench.runtime.config import RuntimeConfig
from workbench.runtime.event import Record, UnreadableHeaders
from workbench.runtime.event import TopicPartition as Partition
from workbench.runtime.ranges_to_process import Ranges
from workbench.runtime.source import AssignmentListener, SourceHealth

_log = logging.getLogger(__name__)

_COMMITTED_TIMEOUT_SECONDS = 10.0
_NO_EPOCH = -1
_COMMIT_PAUSE_SECONDS = 0.05
_PLACE_SECONDS = 2.0  # for a log's start and end, in a poll
_PLACE_AGAIN_SECONDS = 10.0  # after no answer: the other partitions are read meanwhile
_UNKNOWN_NOTE = format_note(CommitNote(is_readable=False))

_DEFAULTS: dict[str, str | int | float | bool] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "partition.assignment.strategy": "cooperative-sticky",
    **STATISTICS,
    # With the default of 1 s, fetching stops for 1 s each time the queue was full (measured).
    "fetch.queue.backoff.ms": 10,
    # The runtime has its own bounded queues, so the client needs no deep one; and a pause discards its content.
    "queued.min.messages": 2000,
    "queued.max.messages.kbytes": 16_384,
    "fetch.wait.max.ms": 100,
}


class KafkaSource:
    """A `Source` over one confluent-kafka consumer."""

    def __init__(self, config: RuntimeConfig, *, member: str) -> None:
        properties: dict[str, Any] = {**_DEFAULTS, **config.kafka}
        if properties["statistics.interval.ms"] in (0, "0"):  # none: nothing would tell that it has no brokers left
            properties |= STATISTICS
        if properties.get("group.protocol") == "consumer":  # KIP-848: the broker controls these
            for name in ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms"):
                properties.pop(name, None)
        if config.consumers > 1 and "group.instance.id" in properties:
            # Members with the same id fence each other forever.
            properties["group.instance.id"] = f"{properties['group.instance.id']}-{member.rpartition('-')[2]}"
        properties |= {
            "bootstrap.servers": config.bootstrap,
            "group.id": config.group,
            "client.id": member,
            "stats_cb": self._on_stats,
            "error_cb": lambda error: _log.warning("%s: %s", member, error),
            "on_commit": self._on_commit,
        }
        # At least once: a group without a commit starts at the log start.
        self._policy = Policy.of(properties.get("auto.offset.reset", "earliest"))
        if config.start_at is not None or config.ranges is not None:
            self._policy = Policy.EARLIEST  # if retention overtakes a start, read the remaining log
        self._first_start = FirstStart()
        self._has_joined = False
        # Where a position is lost, the client would move it, and nobody could tell that from progress. So it only says so.
        properties["auto.offset.reset"] = "error"
        self._ranges = Ranges(config.ranges) if config.ranges is not None else None
        if config.ranges is not None:
            properties["enable.partition.eof"] = True  # the last offsets of a range may have no record
        self._ends: dict[Partition, int] = {}
        self._lost: dict[Partition, tuple[int | None, str]] = {}  # positions outside of the log, and the client's words
        self._place_at = 0.0
        self._begun: dict[Partition, int] = {}  # where partitions were to begin, unless at their commits
        self._moved_now: set[Partition] = set()  # assigned or given up within a poll
        self._unchecked: set[Partition] = set()  # assigned ones whose ranges are not held against their logs yet
        self._group = config.group
        self._patience_seconds = config.rebalance_drain_seconds
        self._make = lambda: Consumer(properties, logger=_log)
        self._consumer, self._made_seconds = made_in(self._make)
        self._start_at_ms = round(config.start_at.timestamp() * 1000) if config.start_at is not None else None
        strategy = str(properties.get("partition.assignment.strategy", ""))
        self._incremental = "cooperative" in strategy or properties.get("group.protocol") == "consumer"
        self._health: SourceHealth | None = None
        self._commit_under_way = False
        self._commit_failures: dict[Partition, str] = {}
        self._closing = False
        self._listener: AssignmentListener  # from `subscribe` on
        self._join: Callable[[], None] = lambda: None  # until `subscribe`
        # Target offsets of partitions before their first record is returned; see `_seek`.
        self._seeks: dict[Partition, TopicPartition] = {}
        self._dropped: set[Partition] = set()  # those of which records came before their seek
        self._notes: dict[Partition, str] = {}  # of the commits of the last assignment

    def subscribe(self, topics: Sequence[str], listener: AssignmentListener) -> None:
        """Join the group."""

        self._listener = listener

        def on_assign(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            if self._closing:
                return  # the client releases them at once, and does not ask the broker
            assigned = [(part.topic, part.partition) for part in partitions]
            self._moved_now.update(assigned)
            if self._ranges is not None:
                self._unchecked.update(assigned)
            if not partitions:
                listener.on_assigned({}, {}, {})
            else:
                listener.on_assigned(*self._placed(partitions), self._notes)
            self._has_joined = True

        def on_revoke(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            listener.on_revoked(self._given_up(partitions))

        def on_lost(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            listener.on_lost(self._given_up(partitions))

        self._join = lambda: self._consumer.subscribe(
            list(topics), on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost
        )
        if self._policy is not Policy.LATEST:
            self._join()

    def _is_first_start_known(self) -> bool:
        """Join the group once it is: a member that does not read must not hold partitions."""
        if not self._first_start.is_known:
            if not self._first_start.learn(self._consumer):
                self._consumer.consume(1, 0)  # else nobody hears why the client has no answer
                return False
            self._join()
        return True

    def _given_up(self, partitions: list[TopicPartition]) -> list[Partition]:
        found = [(part.topic, part.partition) for part in partitions]
        for partition in found:
            for of in (self._seeks, self._lost, self._begun, self._ends):
                of.pop(partition, None)
        self._moved_now.update(found)
        self._dropped.difference_update(found)
        self._unchecked.difference_update(found)
        return found

    def _noted(self, answers: list[TopicPartition]) -> dict[Partition, int | None]:
        self._notes = {(part.topic, part.partition): part.metadata for part in answers if part.metadata}
        for part in answers:
            if part.error is None and part.offset > 0 and part.leader_epoch not in (None, _NO_EPOCH):
                self._seeks[part.topic, part.partition] = TopicPartition(
                    part.topic, part.partition, part.offset, leader_epoch=part.leader_epoch
                )
        return offsets_of(answers)

    def _seek(self) -> None:
        """Seek partitions to the log start, or to their commits so that librdkafka checks the leader epochs of those.

        A log may have been truncated below its commit and have grown beyond it since. librdkafka checks the epoch after a seek, but not
        at the start of an assignment (observed with 2.16). If the log was truncated, it goes back to the point of truncation.
        """
        for partition, at in list(self._seeks.items()):
            try:
                self._consumer.seek(at)
                self._begun[partition] = at.offset
            except KafkaException as error:
                if error.args[0].code() == KafkaError._STATE:
                    continue  # it does not fetch yet
                if at.offset == OFFSET_BEGINNING or partition in self._dropped:  # its position is behind unread records
                    where = "the log start" if at.offset == OFFSET_BEGINNING else f"its commit {at.offset}"
                    raise SourceUnreachableError(
                        f"{partition[0]}-{partition[1]} cannot be reset to {where}: {error.args[0].str()}.",
                        hint="Restart the service; it then starts there, according to the commit.",
                    ) from error
                _log.warning("%s-%d cannot seek to %d: %s", *partition, at.offset, error)
            del self._seeks[partition]
            self._dropped.discard(partition)

    def _committed_if_known(self, partitions: list[TopicPartition]) -> dict[Partition, int | None]:
        """Committed offsets; None if there is none, or if it is not known: the client then asks, and notes count as unreadable."""
        try:
            return self._noted(
                persistently(lambda: self._consumer.committed(partitions, timeout=_COMMITTED_TIMEOUT_SECONDS))
                if partitions
                else []
            )
        except KafkaException as error:
            _log.warning("committed offsets are not available yet: %s", error)
            self._notes = {(part.topic, part.partition): _UNKNOWN_NOTE for part in partitions}
            return {(part.topic, part.partition): None for part in partitions}

    def _placed(self, partitions: list[TopicPartition]) -> tuple[dict[Partition, int | None], dict[Partition, int]]:
        """Committed offsets, and start offsets of partitions without a commit; these are committed if the broker accepts it now.

        Raises:
            SourceUnreachableError: if a start must be known, and the broker does not answer.
        """
        try:
            if self._start_at_ms is None and self._ranges is None:
                committed = self._committed_if_known(partitions)
            else:
                committed = self._noted(
                    persistently(lambda: self._consumer.committed(partitions, timeout=_COMMITTED_TIMEOUT_SECONDS))
                )
            none = [part for part, at in committed.items() if at is None and self._notes.get(part) != _UNKNOWN_NOTE]
            begin = self._begin(none, self._start_at_ms)
        except KafkaException as error:
            raise SourceUnreachableError(
                f"The start offset of {plural(len(partitions), 'partition')} is unknown: {error.args[0].str()}",
                hint="Restart the service when the broker answers; commits are kept.",
            ) from error
        # Before the assignment: that may make the client rejoin at once, and the commit would have an old generation.
        failures = (self.commit(begin, wait=True, notes=self._notes) or {}) if begin else {}
        for partition, why in failures.items():
            # For example while another member joins. The next commit retries it.
            _log.warning("the start offset of %s-%d is not committed yet: %s", *partition, why)
        self._begun |= {part: begin.get(part, self._policy.start) for part in none}
        placed = [
            TopicPartition(part.topic, part.partition, self._begun.get((part.topic, part.partition), part.offset))
            for part in partitions
        ]
        (self._consumer.incremental_assign if self._incremental else self._consumer.assign)(placed)
        return committed | {part: offset for part, offset in begin.items() if part not in failures}, begin

    def _begin(self, partitions: Sequence[Partition], start_at_ms: int | None) -> dict[Partition, int]:
        if self._ranges is not None:
            of_ranges = {part: self._ranges.start(part) for part in partitions}
            return {part: start for part, start in of_ranges.items() if start is not None}
        if start_at_ms is not None:
            return begin_at(self._consumer, partitions, start_at_ms)
        if self._policy is not Policy.LATEST:
            return {}
        begin, notes = self._first_start.begin(self._consumer, partitions)
        self._notes |= notes
        return begin

    def poll(self, max_records: int, timeout: float) -> list[Record]:
        """See `Source.poll`.

        Raises:
            SourceUnreachableError: for errors that no further poll resolves: missing permission, fenced, no start offset.
            GuardError: for ranges that the logs do not have.
        """
        if self._policy is Policy.LATEST and not self._is_first_start_known():
            return []
        if self._seeks:
            self._seek()
        if self._ranges is not None and self._unchecked and check_ranges(self._consumer, self._ranges, self._unchecked):
            self._unchecked.clear()
        # consume() waits for its full timeout unless it gets all records it asks for; so wait for one, then take what is there. An
        # error ends the member: the batch is lost, and later commits would skip it.
        messages = self._consumer.consume(1, timeout)
        if messages and max_records > 1:
            self._moved_now.clear()
            messages += self._consumer.consume(max_records - 1, 0)
            if (messages[0].topic(), messages[0].partition()) in self._moved_now:
                del messages[0]  # of an assignment that has ended since
        records = []
        message: Any  # a message without an error has a topic, partition and offset; the client's types do not say so
        for message in messages:
            failure = message.error()
            if failure is None:
                if self._seeks and (partition := (message.topic(), message.partition())) in self._seeks:
                    self._dropped.add(partition)
                    continue  # it comes again once it was sent there
                headers = headers_of(message)
                if headers is UNREADABLE:  # one such record must not end each owner in turn
                    _log.warning(
                        "unreadable headers of %s-%d@%d", message.topic(), message.partition(), message.offset()
                    )
                    headers = UnreadableHeaders()
                records.append(
                    Record(
                        message.topic(),
                        message.partition(),
                        message.offset(),
                        message.key(),
                        message.value(),
                        message.timestamp()[1],
                        headers,
                        message.leader_epoch(),
                    )
                )
            elif failure.code() == KafkaError._AUTO_OFFSET_RESET and self._policy is not Policy.ERROR:
                self._lose(message, failure.str())
            elif failure.fatal() or failure.code() in PERMANENT:
                raise SourceUnreachableError(
                    f"Group {self._group} cannot continue: {failure.str()} ({failure.name()}).",
                    hint=PERMANENT.get(failure.code(), PERMANENT[KafkaError._FATAL]),
                )
            elif failure.code() == KafkaError._PARTITION_EOF:
                # Of a partition that is to be sent elsewhere, the end is told again once it is there.
                if (partition := (message.topic(), message.partition())) not in self._seeks:
                    self._ends[partition] = message.offset()
            else:
                _log.warning("the broker reports: %s", failure)
        if self._lost and time.monotonic() >= self._place_at:
            self._place_lost()
        return records

    def _lose(self, message: Any, why: str) -> None:
        """A position is outside of the log, or there is none. The client reads nothing of the partition until it is placed."""
        partition, offset = (message.topic(), message.partition()), message.offset()
        sought = self._seeks.get(partition)
        if sought is not None and sought.offset == OFFSET_BEGINNING:
            offset = 0  # it was to begin anew
        elif sought is not None:
            offset = sought.offset  # what was returned before the seek was dropped
        self._lost[partition] = (offset if offset is not None and offset >= 0 else None), why

    def _place_lost(self) -> None:
        for partition, (lost, why) in list(self._lost.items()):
            try:
                low, high = self._consumer.get_watermark_offsets(TopicPartition(*partition), timeout=_PLACE_SECONDS)
                start = next_offset(lost, why, low, high)
                if start is None:
                    start = self._begin([partition], None).get(partition, low)
            except KafkaException as error:
                _log.warning("%s-%d has no position, and its log's start is not known yet: %s", *partition, error)
                self._place_at = time.monotonic() + _PLACE_AGAIN_SECONDS
                continue
            try:
                place(self._consumer, partition, start, incremental=self._incremental, begun=self._begun)
            except KafkaException as error:
                raise SourceUnreachableError(
                    f"{partition[0]}-{partition[1]} cannot be read from {start}: {error.args[0].str()}.",
                    hint="Restart the service; it then starts at the commit.",
                ) from error
            self._seeks.pop(partition, None)
            self._dropped.discard(partition)
            del self._lost[partition]
            self._listener.on_reset(partition, start, lost)

    def take_ends(self) -> Mapping[Partition, int]:
        """See `Source.take_ends`."""
        ends, self._ends = self._ends, {}
        return ends

    def pause(self, partitions: Iterable[Partition]) -> None:
        """See `Source.pause`."""
        self._consumer.pause([TopicPartition(*part) for part in partitions])

    def resume(self, partitions: Iterable[Partition]) -> None:
        """See `Source.resume`."""
        self._consumer.resume([TopicPartition(*part) for part in partitions])

    def rewind(self, partitions: Iterable[Partition]) -> None:
        """See `Source.rewind`."""
        self._seeks |= {partition: TopicPartition(*partition, OFFSET_BEGINNING) for partition in partitions}
        self._seek()

    def commit(
        self,
        offsets: Mapping[Partition, int],
        *,
        wait: bool,
        epochs: Mapping[Partition, int] | None = None,
        notes: Mapping[Partition, str] | None = None,
    ) -> dict[Partition, str] | None:
        """See `Source.commit`."""
        epochs, notes = epochs or {}, notes or {}
        wanted = [
            TopicPartition(*partition, offset, notes.get(partition, ""), epochs.get(partition, _NO_EPOCH))
            for partition, offset in offsets.items()
        ]
        if wait:
            return self._commit_and_wait(wanted)
        try:
            self._commit_under_way = True
            self._consumer.commit(offsets=wanted, asynchronous=True)
        except KafkaException as error:
            self._commit_under_way = False
            self._commit_failures = dict.fromkeys(offsets, str(error))
        return None

    def _commit_and_wait(self, wanted: list[TopicPartition]) -> dict[Partition, str]:
        """Commit; repeat what fails for a moment only, within the time that a rebalance may be held up."""
        deadline = time.monotonic() + self._patience_seconds
        while True:
            try:
                answers = self._consumer.commit(offsets=wanted, asynchronous=False) or []
                failed = {(part.topic, part.partition): part.error for part in answers if part.error is not None}
            except KafkaException as error:
                failed = {(part.topic, part.partition): error.args[0] for part in wanted}
            transient = any(error.code() in TRANSIENT for error in failed.values())
            if not transient or time.monotonic() >= deadline:
                return {partition: str(error) for partition, error in failed.items()}
            wanted = [part for part in wanted if (part.topic, part.partition) in failed]
            time.sleep(_COMMIT_PAUSE_SECONDS)

    def commit_result(self) -> dict[Partition, str] | None:
        """See `Source.commit_result`."""
        return None if self._commit_under_way else self._commit_failures

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        failures = failures_of(partitions)
        if error is not None:
            failures = {(part.topic, part.partition): str(error) for part in partitions} | failures
        self._commit_failures = failures
        self._commit_under_way = False

    def health(self) -> SourceHealth | None:
        """See `Source.health`."""
        return self._health

    def _on_stats(self, text: str) -> None:
        found = parse_statistics(text, taken_at=time.monotonic(), made_seconds=self._made_seconds)
        known, self._health = self._health, found
        if known is not None and self._health is None:
            _log.warning("the client's statistics cannot be read: round trips and throttling are unknown")

    def rejoin(self) -> None:
        """See `Source.rejoin`."""
        self._closing = True
        self._consumer.close()
        self._closing = self._commit_under_way = False  # a commit without an answer belongs to released partitions
        self._commit_failures = {}
        was_stranded, self._health = self._health is not None and self._health.is_stranded, None
        for of in (self._seeks, self._dropped, self._lost, self._begun, self._ends, self._unchecked):
            of.clear()
        self._consumer, self._made_seconds = made_in(self._make)
        if self._policy is not Policy.LATEST or self._first_start.is_known:
            if self._has_joined or not was_stranded:  # else it has begun nothing yet
                self._first_start.is_over()
            self._join()

    def close(self) -> None:
        """See `Source.close`."""
        self._closing = True
        self._consumer.close()
