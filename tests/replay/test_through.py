"""One statement of whether a window is done: what is left, what is gone, and what speaks against a commit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.replay.test_plan_of_given_ranges import gateway, plan_of
from workbench.commit_note import CommitNote
from workbench.logs.window_done import Through, reading_ends, through

PART = plan_of(["orders:0:2-4", "orders:0:6-9"], gateway()).partitions[0]
OFFSETS = st.integers(0, 12)


@given(st.none() | OFFSETS, OFFSETS, st.none() | st.integers(0, 1))
def test_nothing_is_left_only_where_no_offset_is_or_no_record(
    committed: int | None, log_start: int, tail: int | None
) -> None:
    """By a naive set of offsets: left are those behind the commit that are there; deleted are those of the ranges that are not."""
    found = through(PART, committed, PART.stop, log_start=log_start, tail=tail)
    done = committed is not None and tail == 0
    behind = set() if done else set(range(max(2, committed or 0), 9))
    wanted = {at for low, high in PART.spans for at in range(low, high)}
    assert found.left == len({at for at in behind if at >= log_start})
    assert {at for low, high in found.deleted for at in range(low, high)} == {
        at for at in behind & wanted if at < log_start
    }
    assert (found.doubt is not None) == any(at < log_start for at in wanted)


def test_a_note_of_the_runtime_is_certain() -> None:
    """Only what belongs to the ranges counts; one that cannot be read leaves everything open."""
    note = CommitNote(skipped=((0, 3), (4, 7)))
    found = through(PART, 9, 9, log_start=0, note=note)
    assert (found.left, list(found.skipped)) == (0, [(2, 3), (6, 7)])
    assert found.reservation == "Its members have not read offsets 2 and 6."
    assert through(PART, 9, 9, log_start=0, note=CommitNote(skipped=((4, 6),))).reservation is None
    unreadable = through(PART, 9, 9, log_start=0, note=CommitNote(is_readable=False))
    assert "does not say what" in (unreadable.reservation or "")


def test_what_is_not_known_is_no_doubt_by_itself() -> None:
    """Without the log's start, the window's end says that the partition does not answer."""
    assert through(PART, 9, 9, log_start=None) == Through(reached=9, left=0)


def test_who_stops_at_ranges_has_nothing_to_read_behind_them() -> None:
    """Others read up to the log's end, and so do all on partitions that the plan does not have."""
    plan = plan_of(["orders:0:2-4"], gateway())
    ends = {("orders", 0): 10, ("orders", 1): 10}
    assert reading_ends(plan, ends, stops_at_ranges=True) == {("orders", 0): 4, ("orders", 1): 10}
    assert reading_ends(plan, ends, stops_at_ranges=False) == ends
