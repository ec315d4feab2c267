"""Detection of truncated logs and recreated topics.

Offsets then refer to other records. Records below the position or the commit are not skipped: reading restarts at the log start.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from workbench.commit_note import merged
from workbench.errors import GuardError
from workbench.runtime.committer import is_of_another_topic
from workbench.runtime.config import RuntimeConfig
from workbench.runtime.event import Record, TopicPartition, record_bytes
from workbench.runtime.partition_state import PartitionState, Reached
from workbench.runtime.runtime_metrics import RuntimeMetrics
from workbench.runtime.runtime_queue import Remade
from workbench.runtime.source import RecordSource

_log = logging.getLogger(__name__)

_PERIOD_SECONDS = 0.1
# Longest wait for the topic id from the broker; after that, the commit is trusted.
_LONGEST_DOUBT_SECONDS = 5.0


class TopicIds(Protocol):
    """Source of topic ids."""

    def known(self, topic: str) -> tuple[str, float] | None:
        """Id, and the time of the request to the broker (monotonic seconds); None if it is not known."""

    def ask_soon(self, topic: str) -> bool:
        """Request the id again; return whether a request will be made."""


def let_go(state: PartitionState) -> list[Record | Reached]:
    """Take out what a partition holds back, and end its doubt; who takes it in counts its records anew."""
    released, state.held_back = state.held_back or [], None
    state.held_bytes -= sum(record_bytes([item for item in released if isinstance(item, Record)]))
    return released


class LogIdentity:
    """Detects truncated logs and recreated topics for one consumer thread; only that thread calls it (except `remade`)."""

    def __init__(
        self,
        config: RuntimeConfig,
        source: RecordSource,
        metrics: RuntimeMetrics,
        partitions: dict[TopicPartition, PartitionState],
        ids: TopicIds,
        *,
        member: str,
        clock: Callable[[], float],
    ) -> None:
        self.remade: deque[Remade] = deque()  # recreated topics; any thread may append
        self._config = config
        self._source = source
        self._metrics = metrics
        self._partitions = partitions
        self._ids = ids
        self._member = member
        self._clock = clock
        self._client_ids: dict[str, str] = {}  # of topics, as the current client knows them
        self._next_look = clock()

    def doubt(self, state: PartitionState) -> None:
        """Hold back the records of a partition until its topic id was requested again, if its commit has an id.

        The topic may have been recreated and have grown beyond the commit: its later records would be processed before its first ones.
        """
        if state.committed_topic_id is not None and state.position and self._ids.ask_soon(state.partition[0]):
            state.held_back, state.doubted_at = [], self._clock()

    def begin_anew(self, old: PartitionState, offset: int) -> PartitionState:
        """Restart at the lower offset of a client reset: truncated log, or recreated topic.

        Records of the former log exist nowhere else, so they are still processed. But their offsets now refer to other records, so they
        are not committed. The new start is committed although it is below the commit: a restart would skip the records between.

        Raises:
            GuardError: if the partition has ranges.
        """
        topic, number = old.partition
        if old.range_end:
            raise GuardError(
                f"The log of {topic}-{number} was truncated or recreated, so its ranges name other records than were meant.",
                hint="Make a new plan for the records that the log has now.",
            )
        _log.error(
            "the log of %s-%d was truncated or recreated: offset %d instead of %s (commit %s). "
            "Reading from there; records read before are still handled.",
            topic, number, offset, old.position, old.committed,
        )  # fmt: skip
        self._metrics.log_restarts.labels(self._config.group, topic).inc()
        state = PartitionState(
            old.partition,
            old.completions,
            position=offset,
            former=old,
            range_end=old.range_end,
            paused=old.paused,
            note=replace(
                old.note,
                skipped=merged((start, min(end, offset)) for start, end in old.note.skipped if start < offset),
                partitions=None,  # of the former log
            ),
            began_anew=(self._clock(), offset),
            # Not checked yet: it tells whether the log was truncated or belongs to another topic.
            committed_topic_id=old.committed_topic_id if old.topic_id is None else old.topic_id,
        )
        state.audit = old.audit.anew(offset) if old.audit is not None else None
        state.tracker.begin(offset)
        state.enqueue_time = old.enqueue_time
        self._partitions[old.partition] = state
        self.doubt(state)
        return state

    def skip(self, state: PartitionState, start: int, end: int) -> None:
        """Go on behind offsets [start, end) that were to be read and are gone: an error, a metric, and a note in all later commits."""
        topic, number = state.partition
        _log.error(
            "%s-%d: the offsets %d to %d were deleted before they were read; reading goes on at %d. Commits of the group say so.",
            topic, number, start, end - 1, end,
        )  # fmt: skip
        self._metrics.skipped_offsets.labels(self._config.group, topic).inc(end - start)
        state.skip(start, end)

    def look(self, *, release: bool) -> list[Record | Reached]:
        """Seek to the start of recreated topics, unless the client has done so: it may have continued at its old position, or
        have started at a commit of the former topic.

        Call it only between batches: records of a batch that was read before a rewind would look like the start of the new log.

        Returns:
            What was held back and is no longer in doubt, in order; empty without `release`.
        """
        if self._clock() < self._next_look and not self.remade:
            return []
        self._next_look = self._clock() + _PERIOD_SECONDS
        while self.remade:
            self._note_remade(self.remade.popleft())
        for state in list(self._partitions.values()):
            if state.topic_id is None:
                self._compare(state)
        released = self._no_longer_doubted() if release else []
        self._renew_client()
        return released

    def _note_remade(self, remade: Remade) -> None:
        states = [state for state in self._partitions.values() if state.partition[0] == remade.topic]
        self._rewind(
            [
                state
                for state in states
                if state.position
                and not state.has_begun_anew(since=remade.last_seen, start=remade.starts.get(state.partition, 0))
            ],
            remade.starts,
        )
        for state in states:
            self._partitions[state.partition].topic_id = remade.topic_id

    def _compare(self, state: PartitionState) -> None:
        known = self._ids.known(state.partition[0])
        if known is None or (state.held_back is not None and known[1] < state.doubted_at):
            return  # an answer from before the assignment is outdated
        if is_of_another_topic(state.committed_topic_id, known[0]) and state.position:
            self._rewind([state], {})
        self._partitions[state.partition].topic_id = known[0]

    def _no_longer_doubted(self) -> list[Record | Reached]:
        released: list[Record | Reached] = []
        for state in self._partitions.values():
            if state.held_back is None:
                continue
            if state.topic_id is None:
                if self._clock() - state.doubted_at < _LONGEST_DOUBT_SECONDS:
                    continue
                _log.warning("the id of topic %s is unknown; its commits are used without a check", state.partition[0])
            released += let_go(state)
        return released

    def _renew_client(self) -> None:
        topics = {
            *self._config.topics,
            *(topic for topic, _ in self._partitions),
        }  # assigned or not, and those that patterns match
        met = {topic: known[0] for topic in topics if (known := self._ids.known(topic)) is not None}
        health = self._source.health()
        why = ""
        if any(self._client_ids.setdefault(topic, topic_id) != topic_id for topic, topic_id in met.items()):
            # The client knows leader epochs of the former topic, and may wait for them forever (observed with librdkafka 2.16).
            why = "a topic was recreated"
        elif health is not None and health.is_stranded:
            why = "its client was told that the cluster has no brokers, and asks none again"
        if why:
            _log.error("%s rejoins with a new client, because %s", self._member, why)
            self._client_ids.clear()
            self._source.rejoin()

    def _rewind(self, states: Sequence[PartitionState], starts: Mapping[TopicPartition, int]) -> None:
        for state in states:
            # From here on, records come from the log start and are not in doubt. What was held back comes again.
            let_go(state)
            self.begin_anew(state, starts.get(state.partition, 0)).held_back = None
        if states:
            self._source.rewind([state.partition for state in states])
