"""Consumer thread: reads records, decodes them to events, puts these in queues, and commits finished offsets.

Only this thread changes the state of its partitions. Processor threads only append to `completions`, so the tracker needs no lock,
and a completion, a rebalance and a commit cannot race.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import monotonic, sleep, time

from workbench.commit_note import CommitNote, parse_note
from workbench.humanize import plural
from workbench.runtime.audit_rows_of_task import NOT_DECODED, Auditor
from workbench.runtime.byte_rate_limit import ByteBudget
from workbench.runtime.committer import Committer
from workbench.runtime.config import RuntimeConfig
from workbench.runtime.decoding import Decoding
from workbench.runtime.delay_queue import DelayQueue
from workbench.runtime.draining import begin_drain, has_drained, not_drained, with_former
from workbench.runtime.event import UNDECODABLE, Decoder, Event, Record, TopicPartition, body_bytes, record_bytes, runs
from workbench.runtime.partition_pauses import Flow, HeldBytes
from workbench.runtime.partition_state import PartitionState, Passed, Reached
from workbench.runtime.placing_in_queues import Placing
from workbench.runtime.processors import Processors
from workbench.runtime.recreated_topics import LogIdentity, TopicIds, let_go
from workbench.runtime.runtime_metrics import RuntimeMetrics
from workbench.runtime.runtime_queue import Remade, ranges_of
from workbench.runtime.source import RecordSource

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.05
_BUSY_POLL_SECONDS = 0.02  # interval of retries while an event waits for room
# Decoding may be slow; decoded events wait at most this long before they are placed.
_PLACE_EVERY_SECONDS = 0.01
_HOUSEKEEPING_SECONDS = 0.1
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
        held_bytes: HeldBytes,
        topic_ids: TopicIds,
        auditor: Auditor | None = None,
        clock: Callable[[], float] = monotonic,
        wall_clock: Callable[[], float] = time,
        sleep: Callable[[float], object] = sleep,
    ) -> None:
        self.member = member
        self.partitions: dict[TopicPartition, PartitionState] = {}
        self.rebalances, self.last_poll = 0, clock()
        self._config = config
        self._source = source
        self._decoding = Decoding(config, decode, metrics)
        self._processors = processors
        self._metrics = metrics
        self._give_up = give_up
        self._budget = budget
        self._ranges = ranges_of(config)
        self._notes: dict[TopicPartition, CommitNote] = {}  # of released partitions
        self._resets: deque[Reached] = deque()  # of this poll
        self._flow = Flow(config, source, held_bytes, member=member)
        self._clock = clock
        self._sleep = sleep
        self._completions: deque[Event | Passed] = deque()
        self._placing = Placing(config, processors, metrics, give_up=give_up, clock=clock, wall_clock=wall_clock)
        self._identity = LogIdentity(config, source, metrics, self.partitions, topic_ids, member=member, clock=clock)
        self._auditor, self._wall_clock = auditor, wall_clock
        self._committer = Committer(config, source, metrics, member=member, clock=clock, auditor=auditor, sleep=sleep)
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
        limit = self._flow.records(self._config.max_poll_records)
        if self._budget is not None:
            if self._budget.holds_off(self._stopping.wait, since_poll=self._clock() - self.last_poll):
                self._keep_house()
                return
            limit = self._budget.records(limit)
        self.last_poll = self._clock()
        records = self._source.poll(limit, self._poll_timeout())
        if self._budget is not None:
            self._budget.spent(
                len(records), sum(len(record.value or b"") + len(record.key or b"") for record in records)
            )
        self._flow.took(records)
        self._take_in(records)
        # First: an end that was reached after a reset says nothing of what the reset has passed over.
        while self._resets:
            self._reached(self._resets.popleft())
        if self._ranges is not None:
            for partition, end in self._source.take_ends().items():
                self._reached(Reached(partition, end))
        self._keep_house()

    def _reached(self, mark: Reached) -> None:
        state = self.partitions.get(mark.partition)
        if state is None or state.draining:
            return
        if state.held_back is not None:
            state.held_back.append(mark)  # behind the records that came before it
        else:
            self._pass(state, mark)

    def _pass(self, state: PartitionState, mark: Reached) -> None:
        """Everything below the mark that can be read was taken in."""
        if not mark.is_reset:
            if state.range_end is not None and mark.offset >= state.range_end:
                state.taken_in_to(state.range_end)  # the last offsets may have no record
            return
        if state.position is None and mark.lost is None:
            state.position = mark.offset  # it had no start to begin at; now it is to be committed
            state.tracker.begin(mark.offset)
        # The client may have been further than the last record: offsets without one.
        elif mark.offset > (read := max(state.position or 0, mark.lost or 0)):
            self._identity.skip(state, read, mark.offset)
        elif state.position is None or mark.offset < state.position:
            self._identity.begin_anew(state, mark.offset)

    @property
    def is_through(self) -> bool:
        """Whether all its partitions are read to the end of their ranges, and committed; any thread may call it."""
        if self._ranges is None or not self.rebalances:
            return False
        states = list(self.partitions.values())
        return all(
            state.ended and state.is_done and (state.committed or 0) >= (state.range_end or 0) for state in states
        )

    @property
    def is_complete(self) -> bool:
        """Whether all records of its ranges are processed and committed; any thread may call it."""
        return self.is_through and not self.unproved

    @property
    def unproved(self) -> list[TopicPartition]:
        """Partitions of whose ranges records were skipped; any thread may call it."""
        now = [(state.partition, state.note) for state in list(self.partitions.values())]
        return self._ranges.unproved((*self._notes.items(), *now)) if self._ranges is not None else []

    def _poll_timeout(self) -> float:
        if self._placing.is_holding or self._completions:
            return _BUSY_POLL_SECONDS
        return _POLL_SECONDS

    def _take_in(self, records: Sequence[Record]) -> None:
        ready: list[Event] = []
        clock, decode, ranges = self._clock, self._decoding.event, self._ranges
        placed_at = clock()
        for run, offsets in runs(records) if ranges is None else runs(records, ranges.of_record):
            first, end = run[0], offsets[-1] + 1
            state = self.partitions.get(first[:2])
            if state is None or state.draining:
                continue  # returned just before its partition was revoked; the next owner reads it again
            if state.position is not None and first.offset < state.position:
                state = self._begin_anew(state, first.offset)
            sizes = record_bytes(run, bodies := body_bytes(run))
            if state.held_back is not None:
                state.held_bytes += sum(sizes)
                state.watch.received(offsets)
                state.held_back += run
                continue
            if ranges is not None and not ranges.wants(state.partition, first.offset):
                # Behind the last range, the partition ends; before it, the records count as finished, also those that were held back.
                state.taken_in_to(min(end, state.range_end or 0))
                state.watch.completed(offsets)
                continue
            timestamps = state.takes(run, offsets, sizes, placed_at)
            if state.audit is not None:
                state.audit.took(run, offsets, timestamps, bodies, round(self._wall_clock() * 1000))
            # From here on this is the path of every record, and each attribute costs as much as all of this.
            lane, counted = state.partition, 0
            for record, offset, size in zip(run, offsets, sizes, strict=True):
                event, now = decode(record), clock()
                if event is None:
                    if state.audit is not None:
                        state.audit.left_out(offset, NOT_DECODED)
                    self._completions.append(Passed(state, offset, size))
                else:
                    event.owner, event.decoded_at = state, now
                    event.offset, event.size = offset, size
                    event.lane = event.key or lane
                    if event.type == UNDECODABLE and event.payload is None:
                        self._give_up(event, UNDECODABLE)
                    else:
                        ready.append(event)
                if now - placed_at > _PLACE_EVERY_SECONDS:
                    done = bisect_right(offsets, offset)
                    self._metrics.decoded(first.topic, self.member, done - counted)
                    counted = done
                    self._placing.place(ready)
                    ready.clear()
                    placed_at = now
                    if now - self._last_housekeeping > _HOUSEKEEPING_SECONDS:
                        self._keep_house(in_batch=True)
            self._metrics.decoded(first.topic, self.member, len(run) - counted)
        self._placing.place(ready)

    def _begin_anew(self, state: PartitionState, offset: int) -> PartitionState:
        """See `LogIdentity.begin_anew`. What was held back of the former log exists nowhere else: it is taken in first."""
        if state.held_back:
            self._take_in_again(let_go(state))
            state = self.partitions[state.partition]
            if state.position is None or offset >= state.position:
                return state
        return self._identity.begin_anew(state, offset)

    def _take_in_again(self, released: Sequence[Record | Reached]) -> None:
        """Take in what was held back, in order."""
        records: list[Record] = []
        for item in released:
            if isinstance(item, Record):
                records.append(item)
                continue
            self._take_in(records)
            records.clear()
            if (state := self.partitions.get(item.partition)) is not None:
                self._pass(state, item)
        self._take_in(records)

    # Housekeeping

    def _keep_house(self, *, in_batch: bool = False) -> None:
        self._last_housekeeping = self._clock()
        self._collect_completions()
        if not in_batch and (released := self._identity.look(release=not self._stopping.is_set())):
            self._take_in_again(released)
        self._placing.go_on()
        on_hold = self.hold.is_set()  # read once: a hold that comes now has paused nothing yet
        self._flow.pause_and_resume(self.partitions, on_hold=on_hold)
        self.is_holding = on_hold
        self._committer.commit_if_due(self.partitions.values())
        for pool in self._processors:
            pool.check_timeouts()

    def _collect_completions(self) -> None:
        completions = self._completions
        now_ms = round(self._wall_clock() * 1000) if self._auditor is not None else 0
        finished: defaultdict[PartitionState, list[int]] = defaultdict(list)
        while completions:
            done = completions.popleft()
            state = done.owner
            state.held_bytes -= done.size
            finished[state].append(done.offset)
        for state, offsets in finished.items():
            if not state.revoked:
                state.finished(offsets, now_ms)
        for state in self.partitions.values():
            log: PartitionState | None = state
            while log is not None:
                log.tracker.committable()  # also forgets finished offsets, of former logs, too
                log = log.former
            if state.former is not None and state.former.is_done:
                state.former = None

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
            state.note = parse_note((notes or {}).get(partition))
            state.committed_topic_id = state.note.topic_id
            if partition in begin:
                state.tracker.begin(begin[partition])
            if self._ranges is not None:
                state.range_end = self._ranges.end(partition)
                if notes is not None:  # else this queue's positions have no place for one
                    self._ranges.check_commit(self._config.group, partition, offset, state.note)
                state.note = replace(state.note, ranges=self._ranges.mark(partition))
            if self._auditor is not None:
                state.audit = self._auditor.begin(partition, state.note, first)
            state.enqueue_time = self._metrics.enqueue_time(topic, number, self.member)
            self.partitions[partition] = state
            self._identity.doubt(state)

    def on_reset(self, partition: TopicPartition, offset: int, lost: int | None) -> None:
        """See `AssignmentListener`."""
        self._resets.append(Reached(partition, offset, lost, is_reset=True))

    def on_leaving(self, partitions: Sequence[TopicPartition]) -> None:
        """See `AssignmentListener`."""
        for state in with_former(self.partitions, partitions):
            if not state.draining:
                is_former = state is not self.partitions.get(state.partition)
                begin_drain(state, self._processors, collect=self._collect_completions, is_former=is_former)
                state.drain_by = self._clock() + self._config.rebalance_drain_seconds

    def has_left(self, partition: TopicPartition) -> bool:
        """See `AssignmentListener`."""
        states = with_former(self.partitions, [partition])
        return all(has_drained(it) or self._clock() >= it.drain_by for it in states)

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """See `AssignmentListener`: finish events in flight, commit, then release the partitions."""
        self.on_leaving(partitions)
        states = with_former(self.partitions, partitions)
        self._collect_completions()
        if late := not_drained(states, clock=self._clock, step=self._drain_step):
            _log.warning(
                "%s: events of %s did not finish within %g s; the next owner handles them again, and what was finished after them",
                self.member, ", ".join(late), self._config.rebalance_drain_seconds)  # fmt: skip
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
        self._committer.lose(self.partitions[it] for it in partitions if it in self.partitions)
        self._let_go(with_former(self.partitions, partitions))

    def _drain_step(self) -> None:
        self._placing.go_on()
        for pool in self._processors:
            pool.check_timeouts()
        self._sleep(_DRAIN_STEP_SECONDS)
        self._collect_completions()

    def _let_go(self, states: Sequence[PartitionState]) -> None:
        # librdkafka keeps a pause beyond the assignment: after a reassignment nothing would resume the partition.
        # Resume now and not at the next assignment: librdkafka races there (its issue 5591).
        if paused := {state.partition for state in states if state.paused}:
            self._source.resume(paused)
        self._resets = deque(it for it in self._resets if it.partition not in {state.partition for state in states})
        for state in states:
            state.revoked = True
            self._notes[state.partition] = state.note
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
            for state in states:
                if state.held_back:  # not taken in: the next owner reads it
                    let_go(state)
                    state.held_back = []
            if all(state.is_done for state in states):
                # A commit is rejected while the group rebalances (another instance of a deploy has just joined); polling ends that.
                self._committer.commit_if_due(states, at_once=True)
                if all(state.is_committed for state in states):
                    return
            self._source.poll(1, _BUSY_POLL_SECONDS)  # stay in the group
        self._committer.commit_now(self.partitions.values())
