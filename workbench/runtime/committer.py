"""Commits: periodic, one at a time, never backwards, never past an unfinished event."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from time import sleep

from workbench.commit_note import CommitNote, format_note
from workbench.runtime.audit_row_writer import RowsUnderWay
from workbench.runtime.audit_rows_of_task import Auditor, PartitionAudit
from workbench.runtime.config import RuntimeConfig
from workbench.runtime.event import TopicPartition
from workbench.runtime.guarantee_counters import Violation
from workbench.runtime.partition_state import PartitionState
from workbench.runtime.runtime_metrics import RuntimeMetrics
from workbench.runtime.source import RecordSource

_log = logging.getLogger(__name__)

_ROWS_STEP_SECONDS = 0.005

_Wanted = dict[TopicPartition, tuple[PartitionState, int]]


def is_of_another_topic(noted: str | None, topic_id: str) -> bool:
    """Whether a commit has the id of another topic of the same cluster.

    The id of another cluster proves nothing: replication copies commits with their metadata and translates their offsets.
    """
    if noted is None:
        return False
    cluster, _, topic = noted.rpartition(":")
    cluster_now, _, topic_now = topic_id.rpartition(":")
    return cluster == cluster_now and topic != topic_now


class Committer:
    """Commits of one consumer thread; only that thread calls it."""

    def __init__(
        self,
        config: RuntimeConfig,
        source: RecordSource,
        metrics: RuntimeMetrics,
        *,
        member: str,
        clock: Callable[[], float],
        auditor: Auditor | None = None,
        sleep: Callable[[float], object] = sleep,
    ) -> None:
        self._config = config
        self._source = source
        self._metrics = metrics
        self._member = member
        self._clock = clock
        self._auditor = auditor
        self._sleep = sleep
        # A commit whose rows are on their way, and since when.
        self._told: tuple[_Wanted, RowsUnderWay, float] | None = None
        self._under_way: _Wanted | None = None
        self._last = clock()

    def commit_if_due(self, states: Iterable[PartitionState], *, at_once: bool = False) -> None:
        """Start a commit if the interval has passed (or `at_once`) and the last commit has ended."""
        if self._under_way is not None:
            result = self._source.commit_result()
            if result is None:
                return  # one at a time, so that an older commit can never overtake a newer one
            self._note(self._under_way, result)
            self._under_way = None
        states = list(states)
        if self._told is not None and self._auditor is not None:
            wanted, written, since = self._told
            if not written.is_over and not self._auditor.is_late(since):
                return
            self._told = None
            alive = set(map(id, states))  # not revoked, and not of a former log
            self._begin(
                {
                    part: it
                    for part, it in wanted.items()
                    if id(it[0]) in alive and (it[1] > _committed(it[0]) or it[0].commit_again)
                }
            )
            return
        if not at_once and self._clock() - self._last < self._config.commit_interval_seconds:
            return
        self._last = self._clock()
        wanted = self._wanted(states)
        if (told := self._tell(wanted, states)) is not None:
            self._told = wanted, told, self._clock()
        else:
            self._begin(wanted)

    def _begin(self, wanted: _Wanted) -> None:
        if wanted:
            self._under_way = wanted
            self._send(wanted, wait=False)

    def _tell(self, wanted: _Wanted, states: Sequence[PartitionState]) -> RowsUnderWay | None:
        """Write the rows of what is to be committed, and of what was committed by the claim; and signs of life."""
        if self._auditor is None:
            return None
        self._auditor.begin_rows(state.audit for state in states)
        due: list[tuple[PartitionState, PartitionAudit, int]] = []
        for state in states:
            if (audit := state.audit) is None:
                continue
            # A row ends where a commit does, so that what is read again begins with a row.
            ends = (_committed(state), wanted[state.partition][1] if state.partition in wanted else -1)
            audit.spare(_committed(state))
            stops = audit.ends(ends) if audit.is_claimed else []
            position = state.position if state.is_done else None
            if not stops and self._auditor.is_due(state.partition, audit, position=position):
                stops = [audit.meter.start]
            due += [(state, audit, stop) for stop in stops]
        return self._auditor.write((state.partition, audit, offset, state.note.skipped) for state, audit, offset in due)

    def commit_now(self, states: Iterable[PartitionState]) -> None:
        """Commit and wait for the answer; used at the end of an assignment.

        A commit in flight cannot be awaited here (a poll delivers its result, and this is called inside a poll). If the broker stores
        it after this one, the committed offset goes back. If the partition stays assigned, the commit is then repeated; if not, the
        broker rejects commits of an older generation.
        """
        states = list(states)
        wanted = self._wanted(states)
        if self._told is not None:
            self._await(self._told[1])  # of a commit that waits for them, and may be of the same partitions
        self._await(self._tell(wanted, states))
        if wanted:
            self._note(wanted, self._send(wanted, wait=True) or {})
            self._await(self._tell({}, states))  # of partitions that this commit has claimed

    def lose(self, states: Iterable[PartitionState]) -> None:
        """Nothing can be committed any more; what was, is told."""
        self._await(self._tell({}, list(states)))

    def _await(self, told: RowsUnderWay | None) -> None:
        since = self._clock()
        while told is not None and self._auditor is not None and not (told.is_over or self._auditor.is_late(since)):
            self._sleep(_ROWS_STEP_SECONDS)

    def _send(self, wanted: _Wanted, *, wait: bool) -> Mapping[TopicPartition, str] | None:
        offsets = {partition: offset for partition, (_, offset) in wanted.items()}
        epochs = {
            partition: epoch
            for partition, (state, offset) in wanted.items()
            if (epoch := state.epoch_before(offset)) is not None
        }
        # Kafka applies a late commit for a deleted topic to the new topic of the same name. While the new id is not known, the commit
        # keeps the id of the start: records that were skipped because of it, if any, stay skipped.
        notes = {partition: text for partition, (state, _) in wanted.items() if (text := format_note(_note_of(state)))}
        return self._source.commit(offsets, wait=wait, epochs=epochs, notes=notes)

    def _wanted(self, states: Iterable[PartitionState]) -> _Wanted:
        wanted: _Wanted = {}
        for state in states:
            offset = state.tracker.committable()
            # Brokers accept a commit that goes back (observed), so the runtime must prevent it.
            if offset is None or state.is_committed:
                continue
            where = f"{state.partition[0]}-{state.partition[1]}@{offset}"
            if not state.watch.may_commit(offset):
                self._metrics.sentinels.count(Violation.COMMIT_GAP, where)
                continue  # processing twice is better than losing
            if state.watch.goes_back(offset):
                self._metrics.sentinels.count(Violation.COMMIT_BACKWARDS, where)
                continue
            wanted[state.partition] = (state, offset)
        return wanted

    def _note(self, wanted: _Wanted, failures: Mapping[TopicPartition, str]) -> None:
        for partition, (state, offset) in wanted.items():
            if partition in failures:
                _log.warning("%s: commit of %s-%d failed: %s", self._member, *partition, failures[partition])
            elif not state.revoked:
                if state.committed is not None and offset < state.committed:
                    state.commit_again = True  # `commit_now` has overtaken it
                else:
                    state.committed, state.commit_again = offset, False
                if state.audit is not None:
                    state.audit.committed()
            self._metrics.commits.labels(self._config.group, "failed" if partition in failures else "ok").inc()


def _note_of(state: PartitionState) -> CommitNote:
    audit = state.audit.incarnation if state.audit is not None else state.note.audit
    return replace(state.note, topic_id=state.topic_id or state.committed_topic_id, audit=audit)


def _committed(state: PartitionState) -> int:
    return -1 if state.committed is None else state.committed
