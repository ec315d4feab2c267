"""Rules of the State Manager: a commit never passes what is not finished (seed 000's three cases of the heap tops)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from workbench.runtime.offset_tracker import OffsetTracker


def test_the_three_cases_of_the_tops() -> None:
    """Older at work: wait. Equal: commit. Finished is older than anything at work (a replay): drop it."""
    tracker = OffsetTracker()
    for offset in (5, 6, 7):
        tracker.started([offset], [0], 0.0)
    tracker.finished([6])
    assert tracker.committable() is None
    tracker.finished([5])
    assert tracker.committable() == 7
    tracker.finished([3])
    assert tracker.committable() == 7
    assert tracker.anomalies == 1


def test_gaps_hold_nothing_up() -> None:
    """Compaction and transaction markers leave holes in the offsets; only what was received counts."""
    tracker = OffsetTracker()
    for offset in (10, 40, 41, 90):
        tracker.started([offset], [0], 0.0)
    for offset in (41, 10, 40):
        tracker.finished([offset])
    assert tracker.committable() == 42
    assert tracker.oldest is not None
    assert tracker.oldest[0] == 90


class Oracle(RuleBasedStateMachine):
    """The tracker beside a plain list of what was received and a set of what is finished."""

    def __init__(self) -> None:
        super().__init__()
        self.tracker = OffsetTracker()
        self.received: list[int] = []
        self.done: set[int] = set()
        self.committed = -1

    @rule(gaps=st.lists(st.integers(1, 5), min_size=1, max_size=5))
    def receive(self, gaps: list[int]) -> None:
        last = self.received[-1] if self.received else -1
        offsets = [last + sum(gaps[: number + 1]) for number in range(len(gaps))]
        self.received += offsets
        self.tracker.started(offsets, [2 * offset for offset in offsets], float(offsets[0]))

    @precondition(lambda self: len(self.done) < len(self.received))
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        ready = [it for it in self.received if it not in self.done]
        offsets = data.draw(st.lists(st.sampled_from(ready), min_size=1, unique=True))
        self.done.update(offsets)
        self.tracker.finished(offsets)

    @precondition(lambda self: bool(self.done))
    @rule(data=st.data())
    def finish_again(self, data: st.DataObject) -> None:
        self.tracker.finished([data.draw(st.sampled_from(sorted(self.done)))])

    @invariant()
    def commits_are_contiguous_and_never_go_back(self) -> None:
        expected = None
        for offset in self.received:
            if offset not in self.done:
                break
            expected = offset + 1
        found = self.tracker.committable()
        assert found == expected
        if found is not None:
            assert found >= self.committed
            self.committed = found

    @invariant()
    def the_oldest_is_the_first_unfinished(self) -> None:
        self.tracker.committable()
        open_ones = [offset for offset in self.received if offset not in self.done]
        oldest = self.tracker.oldest
        assert (oldest[0] if oldest else None) == (open_ones[0] if open_ones else None)
        if oldest is not None:
            assert oldest[1] == 2 * oldest[0], "its own timestamp"
            assert oldest[2] <= oldest[0], "the time of the batch it came in"
        below = self.received.index(open_ones[0]) if open_ones else len(self.received)
        assert self.tracker.uncommitted == len(self.received) - below


TestOracle = Oracle.TestCase


@given(st.permutations(range(12)))
def test_any_order_of_completion_ends_at_the_same_commit(order: list[int]) -> None:
    """When all are finished, all can be committed."""
    tracker = OffsetTracker()
    for offset in range(12):
        tracker.started([offset], [0], 0.0)
    for offset in order:
        tracker.finished([offset])
        tracker.committable()
    assert tracker.committable() == 12
    assert tracker.uncommitted == 0
