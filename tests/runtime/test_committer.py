"""Rules of commits: one at a time, never backwards, and again where their order at the broker is not known."""

from __future__ import annotations

from collections import deque

import pytest

from tests.runtime.helpers import Clock
from tests.runtime.memory import MemorySource
from tests.runtime.test_runtime import config
from workbench.runtime.committer import Committer, is_of_another_topic
from workbench.runtime.offset_tracker import OffsetTracker
from workbench.runtime.partition_state import PartitionState
from workbench.runtime.runtime_metrics import RuntimeMetrics


class Made:
    """A committer on a log in memory, with one partition of which records are done."""

    def __init__(self) -> None:
        self.source, self.clock = MemorySource(1, alone=False), Clock()
        self.metrics = RuntimeMetrics("g", gauges=lambda: ())
        self.committer = Committer(config(), self.source, self.metrics, member="m", clock=self.clock)
        self.state = PartitionState(("t", 0), deque())
        self.done_up_to = 0

    def do(self, end: int) -> None:
        for offset in range(self.done_up_to, end):
            self.state.tracker.started([offset], [0], 0.0)
            self.state.watch.received([offset])
            self.state.tracker.finished([offset])
            self.state.watch.completed([offset])
        self.done_up_to = end

    def period(self) -> None:
        self.clock.now += 1
        self.committer.commit_if_due([self.state])


def test_one_at_a_time() -> None:
    """While a commit is under way none is begun; its answer comes with a poll."""
    it = Made()
    it.do(3)
    it.period()
    it.do(5)
    it.period()
    assert it.source.history == []
    assert it.state.committed is None
    it.source.poll(1, 0)
    it.period()
    assert (it.state.committed, it.source.history) == (3, [{("t", 0): 3}])
    it.source.poll(1, 0)
    it.period()
    assert (it.state.committed, it.state.is_committed) == (5, True)


def test_a_commit_that_was_overtaken_is_followed_by_another() -> None:
    """The answer to an older commit comes after a newer one was stored: its place at the broker is not known."""
    it = Made()
    it.do(3)
    it.period()
    it.do(5)
    it.committer.commit_now([it.state])
    assert it.state.committed == 5
    it.source.poll(1, 0)
    it.period()  # the older one's answer
    assert it.state.committed == 5
    count = len(it.source.history)
    it.source.poll(1, 0)
    it.period()
    assert it.source.history[count:] == [{("t", 0): 5}]
    assert it.state.is_committed
    assert set(it.metrics.sentinels.readings().values()) == {0}


def test_a_refused_commit_is_sent_again() -> None:
    """As while another member joins; without a wait for something new to commit."""
    it = Made()
    it.source.broker.refuses = lambda _partition: "REBALANCE_IN_PROGRESS"
    it.do(3)
    it.committer.commit_now([it.state])
    assert it.state.committed is None
    it.source.broker.refuses = lambda _partition: None
    it.period()
    it.source.poll(1, 0)
    it.period()
    assert it.source.committed == {("t", 0): 3}


def test_a_commit_that_would_go_back_is_counted_and_not_sent() -> None:
    """Brokers accept it (seen), so the promise is ours."""
    it = Made()
    it.do(5)
    it.committer.commit_now([it.state])
    it.state.tracker = OffsetTracker()
    it.state.tracker.begin(2)
    it.state.committed = None
    it.committer.commit_now([it.state])
    assert it.source.history == [{("t", 0): 5}]
    assert it.metrics.sentinels.readings()["commit_backwards"] == 1


@pytest.mark.parametrize(
    ("noted", "another"),
    [(None, False), ("c:new", False), ("c:old", True), ("dr:old", False), ("dr:new", False)],
)
def test_a_commit_of_another_topic_is_told_within_one_cluster_only(noted: str | None, another: bool) -> None:
    """A copy of the commits in a second cluster bears ids of the first."""
    assert is_of_another_topic(noted, "c:new") is another
