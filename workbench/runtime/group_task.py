"""One task: a group on some topics, with its consumer threads, processor threads and their shared parts.

A task belongs to one group: a switch to another group ends it and starts another task, so nothing of the old group (a metric, a late
completion, a queue) is mistaken for the new one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from time import monotonic, sleep, time
from typing import Any

from workbench.errors import ConfigError
from workbench.runtime.audit_row_writer import RowPlaces, RowWriter
from workbench.runtime.audit_rows_of_task import SKIPPED, Auditor
from workbench.runtime.byte_rate_limit import ByteBudget
from workbench.runtime.config import RuntimeConfig
from workbench.runtime.consumer_thread import ConsumerThread
from workbench.runtime.event import Decoder, Event, Handler, TopicPartition
from workbench.runtime.handler_result import runs_later
from workbench.runtime.partition_pauses import HeldBytes
from workbench.runtime.processors import ANY_TYPE, Processors
from workbench.runtime.ranges_to_process import GroupEnds, topics_not_read
from workbench.runtime.runtime_metrics import GaugeReading, RuntimeMetrics
from workbench.runtime.runtime_queue import LetterWriter, Remade, queue_of, ranges_of
from workbench.runtime.source import RecordSource
from workbench.signals import ProcessingOutcome

_log = logging.getLogger(__name__)

_LOG_ENDS_PERIOD_SECONDS = 1.0
# Time for processor threads to end after the drain; a handler that takes longer runs until the process ends.
_POOL_STOP_SECONDS = 1.0
_LETTERS_SECONDS = 5.0
_OLD_END_SECONDS = 5.0
PROCESS_STARTED = time()  # seconds since the epoch; precise enough to tell restarts apart

MakeSource = Callable[[RuntimeConfig, str], RecordSource]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seams:
    """Dependencies of a task besides the message queue; tests replace them."""

    clock: Callable[[], float] = monotonic
    wall_clock: Callable[[], float] = time
    sleep: Callable[[float], object] = sleep
    make_producer: Any = None  # of dead letters; None: the queue's own
    rows: RowWriter | None = None  # for an audit; None: the queue's own


REAL = Seams()


class Task:
    """One task; see the module. Its parts are created first, so a wrong setting is reported before anything starts."""

    def __init__(
        self,
        config: RuntimeConfig,
        handlers: Mapping[str, Handler],
        *,
        decode: Decoder,
        make_source: MakeSource | None,
        probe_log_ends: bool = True,
        seams: Seams = REAL,
    ) -> None:
        if others := topics_not_read(
            config.topics, config.ranges or {}
        ):  # a switch brings ranges that no settings have checked
            raise ConfigError(f"ranges: {others[0]} is none of the topics, so its ranges would never end.")
        self.config = config
        self.metrics = RuntimeMetrics(config.group, member=config.client_id, gauges=self._gauges)
        queue = self.queue = queue_of(config)
        self.processors = Processors(
            _with_own_pools(handlers, config),
            config,
            reporter=self,
            sentinels=self.metrics.sentinels,
            clock=seams.clock,
        )
        budget = ByteBudget(config.max_bytes_per_second, clock=seams.clock) if config.max_bytes_per_second else None
        self.held_bytes = HeldBytes(config.max_held_bytes)
        self.metrics.held_bytes = lambda: {it.member: self.held_bytes.of(it.member) for it in self.consumers}
        self.consumers: list[ConsumerThread] = []
        self.log_ends = queue.log_watch(
            config,
            partitions=self._assigned,
            period_seconds=_LOG_ENDS_PERIOD_SECONDS,
            on_remade=self._remade,
            enabled=probe_log_ends,
        )
        ranges = ranges_of(config)
        self._group_ends = (
            GroupEnds(ranges, config.group, queue.commits(config)) if ranges is not None and probe_log_ends else None
        )
        self._letters: LetterWriter | None = None
        self._rows: RowWriter | None = None
        try:
            if config.audit is not None:
                self._rows = seams.rows or queue.rows(config, config.audit.topic)
            for member in (f"{config.client_id}-{index}" for index in range(config.consumers)):
                source = (make_source or queue.source)(config, member)
                consumer = ConsumerThread(
                    config,
                    source,
                    member=member,
                    decode=decode,
                    processors=self.processors,
                    metrics=self.metrics,
                    give_up=self.dead,
                    budget=budget,
                    held_bytes=self.held_bytes,
                    topic_ids=self.log_ends,
                    auditor=self._auditor(config, seams, queue.row_places(source)),
                    clock=seams.clock,
                    wall_clock=seams.wall_clock,
                    sleep=seams.sleep,
                )
                self.consumers.append(consumer)
            if config.dead_letter_topic:
                own = {} if seams.make_producer is None else {"make_producer": seams.make_producer}
                self._letters = queue.letters(config, config.dead_letter_topic, clock=seams.clock, **own)
        except BaseException:
            self.discard()
            raise

    def _auditor(self, config: RuntimeConfig, seams: Seams, places: RowPlaces | None) -> Auditor | None:
        if config.audit is None or self._rows is None:
            return None
        return Auditor(
            config.audit,
            self._rows,
            group=config.group,
            places=places,
            log_end=self._fresh_log_end,
            ranges=config.ranges,
            clock=seams.clock,
            wall_clock=seams.wall_clock,
        )

    # Life

    def start(self) -> None:
        """Start all threads; returns immediately."""
        for pool in self.processors:
            pool.start()
        self.log_ends.start()
        for consumer in self.consumers:
            consumer.start()

    def discard(self) -> None:
        """Release the parts of a task that will not be started."""
        for consumer in self.consumers:
            consumer.source.close()
        for writer in (self._letters, self._rows):
            if writer is not None:
                writer.close(0)

    @property
    def failure(self) -> BaseException | None:
        """Error that ended a consumer thread, a processor thread or the dead-letter thread; or None."""
        parts = (*self.consumers, *self.processors, *((self._letters,) if self._letters is not None else ()))
        return next((part.failure for part in parts if part.failure is not None), None)

    def is_alive(self) -> bool:
        """Whether all consumer threads run and no other part has failed."""
        return self.failure is None and all(consumer.is_alive() for consumer in self.consumers)

    def drain(self) -> None:
        """Stop reading; finish and commit what was read. The members stay in the group."""
        for consumer in self.consumers:
            consumer.hold.set()

    def resume(self) -> None:
        """Continue reading after a drain."""
        for consumer in self.consumers:
            consumer.hold.clear()

    @property
    def is_through(self) -> bool:
        """Whether all ranges are read and committed, by this instance and by all others of the group; never without ranges."""
        mine = all(consumer.is_through for consumer in self.consumers)
        return mine and (self._group_ends is None or self._group_ends.are_reached())

    @property
    def unproved(self) -> list[TopicPartition]:
        """Partitions of whose ranges some records were never read, as far as the commits tell."""
        of_group = self._group_ends.unproved if self._group_ends is not None else ()
        return sorted({*of_group, *(part for consumer in self.consumers for part in consumer.unproved)})

    @property
    def is_complete(self) -> bool:
        """Whether all records of the ranges are processed; never without ranges."""
        return self.is_through and not self.unproved

    @property
    def is_held(self) -> bool:
        """Whether a drain was requested."""
        return any(consumer.hold.is_set() for consumer in self.consumers)

    @property
    def is_settled(self) -> bool:
        """Whether everything read is committed; more may be read at any moment."""
        states = [state for consumer in self.consumers for state in list(consumer.partitions.values())]
        return all(state.is_done and state.is_committed for state in states)

    @property
    def is_drained(self) -> bool:
        """Whether reading has stopped and everything read is committed."""
        return all(consumer.is_holding for consumer in self.consumers) and self.is_settled

    def stop(self) -> bool:
        """Stop reading, finish events in flight (up to `shutdown_seconds`), commit, and leave the group.

        Returns whether all handlers have ended; a handler that has not keeps its thread, and its late report changes nothing.
        """
        for consumer in self.consumers:
            consumer.stop()
        deadline = monotonic() + self.config.shutdown_seconds + self.config.rebalance_drain_seconds
        for consumer in self.consumers:
            consumer.join(max(0.0, deadline - monotonic()))
        ended = [pool.stop(_POOL_STOP_SECONDS) for pool in self.processors]
        self.log_ends.stop()
        for writer in (self._letters, self._rows):
            if writer is not None:
                writer.close(_LETTERS_SECONDS)
        return all(ended)

    # Reports of processors (any processor thread)

    def attempted(self, event: Event, seconds: float, outcome: ProcessingOutcome) -> None:
        """See `Reporter`."""
        self.metrics.attempted(event.record.topic, event.type, outcome, seconds)
        if outcome is ProcessingOutcome.SKIP and (audit := event.owner.audit) is not None:
            audit.left_out(event.offset, SKIPPED)

    def succeeded(self, event: Event, seconds: float) -> None:
        """See `Reporter`."""
        self.metrics.attempted(event.record.topic, event.type, ProcessingOutcome.OK, seconds)
        event.owner.completions.append(event)

    def finished(self, event: Event) -> None:
        """See `Reporter`."""
        event.owner.completions.append(event)

    def dead(self, event: Event, code: object) -> None:
        """See `Reporter`."""
        if (audit := event.owner.audit) is not None:
            audit.gave_up(event.offset, code)
        if self._letters is None:
            self.finished(event)
            return
        owner = event.owner
        with owner.gate:  # before the event leaves its worker: a revocation checks both
            owner.given_up_until = max(owner.given_up_until, event.offset)
        self.metrics.dead_letter(event.record.topic, self.config.client_id, event.type).inc()
        self._letters.put(event, code, safe=lambda: self.finished(event))

    def wanted(self, event: Event) -> bool:
        """See `Reporter`."""
        owner = event.owner
        if not owner.draining:
            return not owner.revoked
        with owner.gate:
            return not owner.revoked and event.offset <= owner.drain_until

    def _remade(self, remade: Remade) -> None:
        for consumer in self.consumers:
            consumer.remade.append(remade)

    # Values for a scrape (the HTTP server's threads)

    def _assigned(self) -> list[TopicPartition]:
        return [partition for consumer in self.consumers for partition in list(consumer.partitions)]

    def _gauges(self) -> Iterator[GaugeReading]:
        group, now = self.config.group, monotonic()
        for consumer in self.consumers:
            yield from self._member_gauges(consumer, group, now)
            yield from self._partition_gauges(consumer, group, now)
        for pool in self.processors:
            for slot in pool.slots:
                labels = (group, self.config.client_id, pool.name, str(slot.index))
                yield "queue_length", labels, len(slot.queue)
                yield "queue_capacity", labels, slot.queue.capacity
                yield "in_flight", labels, slot.in_flight

    def _member_gauges(self, consumer: ConsumerThread, group: str, now: float) -> Iterator[GaugeReading]:
        labels = (group, consumer.member)
        yield "rebalances", labels, consumer.rebalances
        yield "start_time", labels, PROCESS_STARTED
        yield "poll_age", labels, now - consumer.last_poll
        yield "delayed_length", labels, len(consumer.delayed)
        yield "delayed_capacity", labels, consumer.delayed.capacity
        yield "paused_partitions", labels, sum(state.paused for state in list(consumer.partitions.values()))
        health = consumer.source.health()
        if health is None:
            return
        if health.heartbeat_age is not None:
            yield "heartbeat_age", labels, health.heartbeat_age + (now - health.taken_at)
        for broker, seen in health.brokers.items():
            if seen.rtt_seconds is not None:
                yield "broker_rtt", (*labels, broker), seen.rtt_seconds
            if seen.throttle_seconds is not None:
                yield "throttle_time", (*labels, broker), seen.throttle_seconds
        for (topic, partition), waiting in health.fetch_queue.items():
            if (topic, partition) in consumer.partitions:
                yield "fetch_queue_length", (group, topic, str(partition), consumer.member), waiting

    def _partition_gauges(self, consumer: ConsumerThread, group: str, now: float) -> Iterator[GaugeReading]:
        now_ms = time() * 1000
        for (topic, number), state in list(consumer.partitions.items()):
            labels = (group, topic, str(number), consumer.member)
            end = self.log_end(topic, number)
            if end is not None:  # records read or committed since the last request are in the log, too
                end = max(end, state.position or 0, state.committed or 0)
            if self.queue.counts_records:
                yield from self._offset_gauges(labels, end, state.committed)
            time_lag = state.time_lag(now_ms=now_ms, log_end=end)
            if time_lag is not None:
                yield "time_lag", labels, time_lag
            oldest = state.tracker.oldest
            yield "oldest_incomplete_age", labels, now - oldest[2] if oldest else 0.0

    def _offset_gauges(
        self, labels: tuple[str, str, str, str], end: int | None, committed: int | None
    ) -> Iterator[GaugeReading]:
        _, topic, number, _ = labels
        start = self.log_ends.starts.get((topic, int(number)))
        if end is not None:
            yield "log_end_offset", (topic, number), end
        if start is not None:
            yield "log_start_offset", (topic, number), start
        if committed is not None:
            yield "committed_offset", labels, committed
            if end is not None:
                yield "consumer_lag", labels, end - committed

    def _fresh_log_end(self, topic: str, partition: int) -> int | None:
        """Log end offset, unless the answer is old: who is cut off from the broker has not read everything."""
        return self.log_end(topic, partition) if monotonic() - self.log_ends.ends_at < _OLD_END_SECONDS else None

    def log_end(self, topic: str, partition: int) -> int | None:
        """Log end offset of the broker's last answer."""
        return self.log_ends.ends.get((topic, partition))


def check_handlers(handlers: Mapping[str, Handler], config: RuntimeConfig) -> None:
    """Raise ConfigError if there is no handler, if one would not run, or if a configured type has none."""
    if not handlers:
        raise ConfigError("The runtime has no processor.", hint='Add one for each event type, or one for "*".')
    for name, handler in handlers.items():
        if runs_later(handler):
            raise ConfigError(
                f"The processor of {name!r} is an async function or a generator: a call does not run it, its events would be lost.",
                hint="Processors run in threads: write it with def and return, or call asyncio.run in it.",
            )
    for name in config.processors:
        if name not in handlers and ANY_TYPE not in handlers:
            raise ConfigError(
                f"processors.{name}: the event type {name!r} is configured, but no processor handles it.",
                hint=f"There are processors for: {', '.join(sorted(handlers))}.",
            )


def _with_own_pools(handlers: Mapping[str, Handler], config: RuntimeConfig) -> dict[str, Handler]:
    """Give types with their own settings a separate pool, even if `"*"` handles them."""
    if ANY_TYPE not in handlers:
        return dict(handlers)
    return {**dict.fromkeys(config.processors, handlers[ANY_TYPE]), **handlers}
