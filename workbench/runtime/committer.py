"""Commits: on a period, one at a time, never backwards, never past an unfinished event."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from workbench.runtime.config import RuntimeConfig
from workbench.runtime.event import TopicPartition
from workbench.runtime.metrics import RuntimeMetrics
from workbench.runtime.partition import PartitionState
from workbench.runtime.sentinels import Violation
from workbench.runtime.source import RecordSource

_log = logging.getLogger(__name__)

_TOPIC_ID_NOTE = "topic-id="
NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # zeros: what a broker without topic ids (before Kafka 2.8) answers

_Wanted = dict[TopicPartition, tuple[PartitionState, int]]


def noted_topic_id(note: str | None) -> str | None:
    """The id of the topic that a commit was made of, if its note tells."""
    if not note or not note.startswith(_TOPIC_ID_NOTE):
        return None
    topic_id = note.removeprefix(_TOPIC_ID_NOTE)
    return topic_id if topic_id not in ("", NO_TOPIC_ID) else None


def is_of_another_topic(noted: str | None, topic_id: str) -> bool:
    """Whether a commit bears the id of another topic of the same cluster.

    One of another cluster says nothing: commits are copied between clusters with what they bear, and their offsets were translated.
    """
    if noted is None:
        return False
    cluster, _, topic = noted.rpartition(":")
    cluster_now, _, topic_now = topic_id.rpartition(":")
    return cluster == cluster_now and topic != topic_now


class Committer:
    """Commits for one consumer thread, which alone calls it."""

    def __init__(
        self,
        config: RuntimeConfig,
        source: RecordSource,
        metrics: RuntimeMetrics,
        *,
        member: str,
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._source = source
        self._metrics = metrics
        self._member = member
        self._clock = clock
        self._under_way: _Wanted | None = None
        self._last = clock()

    def commit_if_due(self, states: Iterable[PartitionState], *, at_once: bool = False) -> None:
        """Begin a commit if the period is over (or `at_once`) and the last one has ended."""
        if self._under_way is not None:
            result = self._source.commit_result()
            if result is None:
                return  # one at a time, so that an older commit can never overtake a newer one
            self._note(self._under_way, result)
            self._under_way = None
        if not at_once and self._clock() - self._last < self._config.commit_interval_seconds:
            return
        self._last = self._clock()
        wanted = self._wanted(states)
        if wanted:
            self._under_way = wanted
            self._send(wanted, wait=False)

    def commit_now(self, states: Iterable[PartitionState]) -> None:
        """Commit and wait for the answer; for the end of an assignment.

        One that is under way cannot be waited for here (its answer comes by a poll, and this is called inside of one). If it is
        stored after this one, the group's position goes back. Where the partition stays ours, the commit is then sent again;
        where it goes, the broker refuses what is of an older generation.
        """
        wanted = self._wanted(states)
        if wanted:
            self._note(wanted, self._send(wanted, wait=True) or {})

    def _send(self, wanted: _Wanted, *, wait: bool) -> Mapping[TopicPartition, str] | None:
        offsets = {partition: offset for partition, (_, offset) in wanted.items()}
        epochs = {
            partition: epoch
            for partition, (state, offset) in wanted.items()
            if (epoch := state.epoch_before(offset)) is not None
        }
        # Kafka takes a commit of the former owner of a topic that was deleted for one of the topic that has its name now. While the id
        # is not known, the one that we began with stands: what was skipped because of it, if anything was, is skipped still.
        notes = {
            partition: f"{_TOPIC_ID_NOTE}{topic_id}"
            for partition, (state, _) in wanted.items()
            if (topic_id := state.topic_id or state.committed_topic_id) is not None
        }
        return self._source.commit(offsets, wait=wait, epochs=epochs, notes=notes)

    def _wanted(self, states: Iterable[PartitionState]) -> _Wanted:
        wanted: _Wanted = {}
        for state in states:
            offset = state.tracker.committable()
            # Brokers accept a commit that goes back (seen), so "never backwards" is ours to keep.
            if offset is None or state.is_committed:
                continue
            where = f"{state.partition[0]}-{state.partition[1]}@{offset}"
            if not state.watch.may_commit(offset):
                self._metrics.sentinels.count(Violation.COMMIT_GAP, where)
                continue  # a repeat is better than a loss
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
            self._metrics.commits.labels(self._config.group, "failed" if partition in failures else "ok").inc()
