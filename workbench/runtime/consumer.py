"""Consumer thread: reads records, decodes them to events, puts these in queues, and commits finished offsets.

Only this thread changes the state of its partitions. Processor threads only append to `completions`, so the tracker needs no lock,
and a completion, a rebalance and a commit cannot race.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic, sleep, time

from workbench.humanize import plural
from workbench.runtime.budget import ByteBudget
from workbench.runtime.committer import Committer, noted_topic_id
from workbench.runtime.config import RuntimeConfig
from workbench.runtime.decoding import Decoding
from workbench.runtime.delay import DelayQueue
from workbench.runtime.event import UNDECODABLE, Decoder, Event, Record, TopicPartition
from workbench.runtime.identity import LogIdentity, TopicIds
from workbench.runtime.metrics import RuntimeMetrics
from workbench.runtime.offsets import Remade
from workbench.runtime.partition import PartitionState
from workbench.runtime.placing import Placing
from workbench.runtime.processors import Processors
from workbench.runtime.ranges import Ranges
from workbench.runtime.source import RecordSource

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.05
_BUSY_POLL_SECONDS = 0.02  # interval of retries while an event waits for room
# Decoding may be slow; decoded events wait at most this long before they are placed.
_PLACE_EVERY_SECONDS = 0.01
_HOUSEKEEPING_SECONDS = 0.1
# A paused partition resumes when its queue is half empty, not at the first free place: a pause discards what the client has
# prefetched, so flapping would fetch the same records repeatedly.
_RESUME_FILL = 0.5
# A byte budget may forbid reading for a long time (one record can exceed it); the member must still poll.
_LONGEST_WITHOUT_POLL_SECONDS = 5.0
_BUDGET_STEP_SECONDS = 0.02
_DRAIN_STEP_SECONDS = 0.005


class ConsumerThread:
    """One member of the group."""

    def __init__(
        self,
        config: RuntimeConfig,
        source: RecordSource,
        *,
        member: str,
        decode: Decoder,
        processors: Processors,
        metrics: RuntimeMetrics,
        give_up: Callable[[Event, str], None],
        budget: ByteBudget | None = None,
        topic_ids: TopicIds,
        clock: Callable[[], float] = monotonic,
        wall_clock: Callable[[], float] = time,
        sleep: Callable[[float], object] = sleep,
    ) -> None:
        self.member = member
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self.rebalances = 0
        self.last_poll = clock()
        self._config = config
        self._source = source
        self._decoding = Decoding(config, decode, metrics)
        self._processors = processors
        self._metrics = metrics
        self._give_up = give_up
        self._budget = budget
        self._ranges = Ranges(config.ranges) if config.ranges is not None else None
        self._assigned_now: set[TopicPartition] = set()
        self._clock = clock
        self._sleep = sleep
        self._completions: deque[tuple[PartitionState, int]] = deque()
        self._placing = Placing(config, processors, metrics, give_up=give_up, clock=clock, wall_clock=wall_clock)
        self._identity = LogIdentity(config, source, metrics, self.partitions, topic_ids, member=member, clock=clock)
        self._committer = Committer(config, source, metrics, member=member, clock=clock)
        self._last_housekeeping = clock()
        self._stopping = threading.Event()
        self.hold = threading.Event()  # while set, nothing is read; records already read are still processed
        self.is_holding = (
            False  # whether all partitions are paused for that; `partitions` then shows everything that was read
        )
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=member, daemon=True)

    @property
    def delayed(self) -> DelayQueue:
        """Its delay queue."""
        return self._placing.delayed

    @property
    def source(self) -> RecordSource:
        """Its source, for health readings."""
        return self._source

    @property
    def remade(self) -> deque[Remade]:
        """Report deleted and recreated topics; any thread may append."""
        return self._identity.remade

    def start(self) -> None:
        """Join the group and start reading."""
        self._thread.start()

    def stop(self) -> None:
        """Request to finish events in flight and leave the group."""
        self._stopping.set()

    def join(self, seconds: float) -> bool:
        """Wait for the thread's end; return whether it ended. A thread that was never started ends now."""
        if self._thread.ident is None:
            self._source.close()
            return True
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def is_alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread.is_alive()

    # The loop

    def _run(self) -> None:
        try:
            self._source.subscribe(self._config.topics, self)
            while not self._stopping.is_set():
                self._step()
            self._finish()
        except BaseException as error:
            self.failure = error
            _log.exception("the consumer thread %s has ended", self.member)
        finally:
            self._source.close()

    def _step(self) -> None:
        limit = self._config.max_poll_records
        if self._budget is not None:
            if self._must_wait(self._budget):
                self._keep_house()
                return
            limit = self._budget.records(limit)
        self.last_poll = self._clock()
        self._assigned_now.clear()
        records = self._source.poll(limit, self._poll_timeout())
        if self._budget is not None:
            self._budget.spent(
                len(records), sum(len(record.value or b"") + len(record.key or b"") for record in records)
            )
        self._take_in(records)
        if self._ranges is not None:
            self._note_ends(self._ranges)
        self._keep_house()

    def _note_ends(self, ranges: Ranges) -> None:
        """Partitions whose log ends at the end of their ranges: the last offsets may have no record."""
        for partition, offset in self._source.take_ends().items():
            state = self.partitions.get(partition)
            # An end from before a reassignment in the same poll says nothing about the new position.
            if state is not None and partition not in self._assigned_now and offset >= ranges.end(partition):
                state.ended = True

    @property
    def is_complete(self) -> bool:
        """Whether all its partitions are read to the end of their ranges, and committed; any thread may call it."""
        ranges = self._ranges
        if ranges is None:
            return False
        states = list(self.partitions.values())
        return all(state.ended and (state.committed or 0) >= ranges.end(state.partition) for state in states)

    def _must_wait(self, budget: ByteBudget) -> bool:
        """Wait briefly if the budget forbids reading, but not beyond the poll interval."""
        seconds = budget.wait_seconds()
        if seconds <= 0 or self._clock() - self.last_poll > _LONGEST_WITHOUT_POLL_SECONDS:
            return False
        self._stopping.wait(min(seconds, _BUDGET_STEP_SECONDS))
        return True

    def _poll_timeout(self) -> float:
        if self._placing.is_holding or self._completions:
            return _BUSY_POLL_SECONDS
        return _POLL_SECONDS

    def _take_in(self, records: Sequence[Record]) -> None:
        ready: list[Event] = []
        clock, partitions, decode = self._clock, self.partitions, self._decoding.event
        decoded: dict[str, int] = {}
        placed_at = clock()
        for record in records:
            # Unpacked at once: this is the path of every record, and each attribute costs as much as all of this.
            topic, number, offset, _, _, timestamp_ms, _, epoch = record
            state = partitions.get((topic, number))
            if state is None or state.draining:
                continue  # returned just before its partition was revoked; the next owner reads it again
            if state.position is not None and offset < state.position:
                state = self._identity.begin_anew(state, offset)
            if state.held_back is not None:
                state.held_back.append(record)
                continue
            if self._ranges is not None and not self._ranges.wants(state.partition, offset):
                self._leave_out(state, record, self._ranges.end(state.partition))
                continue
            event = decode(record)
            now = clock()
            if topic in decoded:
                decoded[topic] += 1
            else:
                decoded[topic] = 1
            if state.first_offset is None:
                state.first_offset = offset
            state.position = offset + 1
            state.last_timestamp_ms = timestamp_ms
            if epoch != state.epoch:
                state.of_epoch(offset, epoch)
            state.tracker.started(offset, timestamp_ms, now)
            state.watch.received(offset)
            if event is None:
                self._completions.append((state, offset))
                continue
            event.owner, event.decoded_at = state, now
            if event.type == UNDECODABLE and event.payload is None:
                self._give_up(event, UNDECODABLE)
                continue
            ready.append(event)
            if now - placed_at > _PLACE_EVERY_SECONDS:
                self._placing.place(ready)
                ready.clear()
                self._count_decoded(decoded)
                placed_at = now
                if now - self._last_housekeeping > _HOUSEKEEPING_SECONDS:
                    self._keep_house(in_batch=True)
        self._placing.place(ready)
        self._count_decoded(decoded)

    def _leave_out(self, state: PartitionState, record: Record, end: int) -> None:
        """A record that is in no range: behind the last one the partition ends; before it, the record counts as finished."""
        if record.offset >= end:
            state.ended = True
            return
        state.position = record.offset + 1
        state.tracker.started(record.offset, record.timestamp_ms, self._clock())
        state.watch.received(record.offset)
        self._completions.append((state, record.offset))

    def _count_decoded(self, decoded: dict[str, int]) -> None:
        for topic, count in decoded.items():
            self._metrics.deserialized(topic, self.member, count)
        decoded.clear()

    # Housekeeping

    def _keep_house(self, *, in_batch: bool = False) -> None:
        self._last_housekeeping = self._clock()
        self._collect_completions()
        if not in_batch and (released := self._identity.look(release=not self.hold.is_set())):
            self._take_in(released)
        self._placing.go_on()
        self._pause_and_resume()
        self._committer.commit_if_due(self.partitions.values())
        for pool in self._processors:
            pool.check_timeouts()

    def _collect_completions(self) -> None:
        completions = self._completions
        while completions:
            state, offset = completions.popleft()
            if not state.revoked:
                state.tracker.finished(offset)
                state.watch.completed(offset)
                state.completed += 1
        for state in self.partitions.values():
            if state.ended and self._ranges is not None and not state.tracker.uncommitted and not state.draining:
                end = self._ranges.end(state.partition)
                if end > max(state.tracker.committable() or 0, state.committed or 0):
                    state.tracker.begin(end)  # its last offsets had no record
            log: PartitionState | None = state
            while log is not None:
                log.tracker.committable()  # also forgets finished offsets, of former logs, too
                log = log.former
            if state.former is not None and state.former.is_done:
                state.former = None

    def _pause_and_resume(self) -> None:
        pause, resume = [], []
        on_hold = self.hold.is_set()
        for partition, state in self.partitions.items():
            if not state.paused and (on_hold or self._is_full(state)):
                state.paused = True
                pause.append(partition)
            elif state.paused and not on_hold and self._has_room(state):
                state.paused = False
                resume.append(partition)
        if pause:
            self._source.pause(pause)
        self.is_holding = on_hold
        if resume:
            self._source.resume(resume)

    def _is_full(self, state: PartitionState) -> bool:
        config = self._config
        return (
            bool(state.held_back)
            or state.ended
            or state.held_events > config.carry_over_per_partition
            or state.tracker.uncommitted >= config.max_uncommitted_per_partition
        )

    def _has_room(self, state: PartitionState) -> bool:
        config = self._config
        if (
            state.held_back
            or state.ended
            or state.held_events > config.carry_over_per_partition * _RESUME_FILL
            or state.tracker.uncommitted > config.max_uncommitted_per_partition * _RESUME_FILL
        ):
            return False
        if not state.held_events and any(bound.fill() > _RESUME_FILL for bound in state.blocked_by):
            return False
        state.blocked_by.clear()
        return True

    # Assignment (called by the source on this thread, inside poll or close)

    def on_assigned(
        self,
        committed: Mapping[TopicPartition, int | None],
        begin: Mapping[TopicPartition, int] | None = None,
        notes: Mapping[TopicPartition, str] | None = None,
    ) -> None:
        """See `AssignmentListener`."""
        self.rebalances += 1
        self.is_holding = False
        begin = begin or {}
        for partition, offset in committed.items():
            topic, number = partition
            first = begin.get(partition, offset)
            state = PartitionState(partition, self._completions, position=first, committed=offset)
            state.committed_topic_id = noted_topic_id((notes or {}).get(partition))
            if partition in begin:
                state.tracker.begin(begin[partition])
            if self._ranges is not None:
                self._assigned_now.add(partition)
                state.ended = (first or 0) >= self._ranges.end(partition)
            state.enqueue_time = self._metrics.enqueue_time(topic, number, self.member)
            self.partitions[partition] = state
            self._identity.doubt(state)

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """See `AssignmentListener`: finish events in flight, commit, then release the partitions."""
        states = self._states(partitions)
        for state in states:
            self._begin_drain(state)
        self._drain(states, self._config.rebalance_drain_seconds)
        self._committer.commit_now(
            self.partitions[partition] for partition in partitions if partition in self.partitions
        )
        self._let_go(states)

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """See `AssignmentListener`: another member may have them already, so nothing is committed."""
        _log.warning(
            "%s: %s lost: the broker has fenced this member, usually because its heartbeats came too late; events after the last "
            "commit are processed again",
            self.member,
            plural(len(partitions), "partition"),
        )
        self._let_go(self._states(partitions))

    def _states(self, partitions: Sequence[TopicPartition]) -> list[PartitionState]:
        """States of the assigned ones of these partitions, and of their former logs."""
        found = []
        for partition in partitions:
            state = self.partitions.get(partition)
            while state is not None:
                found.append(state)
                state = state.former
        return found

    def _begin_drain(self, state: PartitionState) -> None:
        """From here on, start only events below one that is finished or in flight.

        Every event below it must finish; otherwise finished events above a hole could not be committed and would be repeated elsewhere.
        No event above it has started, so the next owner reads those.
        """
        with state.gate:  # a processor that sees `draining` waits for the bound here
            state.draining = True
            # Only now read the events in flight: a processor first publishes its event, then checks `draining`.
            at_work = (event for pool in self._processors for slot in pool.slots for event in slot.at_work())
            mine = (event.record.offset for event in at_work if event.owner is state)
            self._collect_completions()
            state.drain_until = max(*mine, state.tracker.highest_finished, state.given_up_until, -1)
            if state is not self.partitions.get(state.partition) and state.position is not None:
                state.drain_until = state.position - 1  # of a former log: no next owner can read its records

    def _drain(self, states: Sequence[PartitionState], seconds: float) -> None:
        """Wait until every event up to each partition's bound is finished and its dead letter is delivered."""
        deadline = self._clock() + seconds
        while True:
            self._collect_completions()
            if all(state.watch.may_commit(state.drain_until + 1) for state in states) or self._clock() >= deadline:
                return
            self._placing.go_on()
            for pool in self._processors:
                pool.check_timeouts()
            self._sleep(_DRAIN_STEP_SECONDS)

    def _let_go(self, states: Sequence[PartitionState]) -> None:
        # librdkafka keeps a pause beyond the assignment: after a reassignment nothing would resume the partition.
        # Resume now and not at the next assignment: librdkafka races there (its issue 5591).
        if paused := {state.partition for state in states if state.paused}:
            self._source.resume(paused)
        for state in states:
            state.revoked = True
            self.partitions.pop(state.partition, None)
            self._metrics.forget_partition(*state.partition, self.member)
        self._placing.discard_revoked()

    def _finish(self) -> None:
        """Stop reading, process everything that was read, commit. Closing the source then revokes the partitions."""
        self.hold.set()  # partitions assigned meanwhile are not read either
        deadline = self._clock() + self._config.shutdown_seconds
        while self._clock() < deadline:
            self._keep_house()  # keep committing: one stuck event must not prevent the commits of other partitions
            states = self.partitions.values()
            if all(state.is_done for state in states):
                # A commit is rejected while the group rebalances (another instance of a deploy has just joined); polling ends that.
                self._committer.commit_if_due(states, at_once=True)
                if all(state.is_committed for state in states):
                    return
            self._source.poll(1, _BUSY_POLL_SECONDS)  # stay in the group
        self._committer.commit_now(self.partitions.values())
