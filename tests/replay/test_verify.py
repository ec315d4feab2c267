"""What counts as processed, and what must never be called so."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.replay.fakes import FakeGateway, orders, plan_of, request
from workbench.replay.fleet import HeldPartition, InstanceStatus, MemberStatus
from workbench.replay.follow import Follower
from workbench.replay.gateway import LogView
from workbench.replay.planfile import AfterEnd, Plan
from workbench.replay.progress import Pace, Progress, progress
from workbench.replay.verify import Evidence, ReadCounts, Verdict, overall, verify

PLAN = plan_of(orders(partitions=1))
KEY = ("orders", 0)
[PART] = PLAN.partitions
assert PART.target is not None
TARGET = PART.target


def verdict(committed: int | None, plan: Plan = PLAN, **more: Any) -> tuple[Verdict, str]:
    """Of the one partition."""
    logs = more.pop("logs", LogView(starts={KEY: 0}, ends={KEY: PART.log_end}))
    evidence = Evidence(commits={} if committed is None else {KEY: committed}, logs=logs, **more)
    [found] = verify(plan, evidence)
    return found.verdict, found.reason


def held(first: int | None, committed: int | None, completed: int | None) -> list[InstanceStatus]:
    """An instance that has the partition."""
    part = HeldPartition(topic="orders", partition=0, first_offset=first, committed=committed, completed=completed)
    member = MemberStatus(member="a-0", partitions=[part])
    return [InstanceStatus(client_id="a", group="new", state="running", members=[member])]


@pytest.mark.parametrize(
    ("committed", "more", "expected", "words"),
    [
        (PART.stop, {}, Verdict.VERIFIED, "up to the window's end"),
        (PART.stop + 5, {"logs": LogView(starts={KEY: 0}, ends={KEY: PART.stop + 9})}, Verdict.VERIFIED, "up to"),
        (None, {}, Verdict.INCOMPLETE, "no commit"),
        (TARGET - 1, {}, Verdict.INCOMPLETE, "before the target"),
        (PART.stop - 1, {}, Verdict.INCOMPLETE, "1 offsets are not committed"),
        (PART.stop - 1, {"tails": {KEY: 0}}, Verdict.VERIFIED, "up to"),
        (PART.stop - 1, {"tails": {KEY: 1}}, Verdict.INCOMPLETE, "not committed"),
        (
            TARGET,
            {"logs": LogView(starts={KEY: TARGET + 2}, ends={KEY: 10})},
            Verdict.INCOMPLETE,
            "Retention has deleted",
        ),
        (PART.stop + 5, {}, Verdict.INCOMPLETE, "behind the log's end"),
        (PART.stop, {"statuses": held(TARGET, PART.stop, PART.messages)}, Verdict.VERIFIED, "records completed"),
        (PART.stop, {"statuses": held(TARGET, PART.stop, PART.messages - 2)}, Verdict.CANNOT_TELL, "2 are open"),
        (PART.stop, {"statuses": held(TARGET + 1, PART.stop, 1)}, Verdict.VERIFIED, "only of what came after"),
        (PART.stop, {"statuses": held(None, None, None)}, Verdict.VERIFIED, "no counts"),
        (
            PART.stop,
            {"statuses": held(TARGET, PART.stop, 2), "counts": {KEY: ReadCounts(records=5)}},
            Verdict.INCOMPLETE,
            "completed 2 records",
        ),
        (
            PART.stop,
            {"statuses": held(TARGET, PART.stop, 3), "counts": {KEY: ReadCounts(records=3)}},
            Verdict.VERIFIED,
            "3 records completed",
        ),
        (
            PART.stop,
            {"counts": {KEY: ReadCounts(records=5, processed=4, first_missing=7)}},
            Verdict.INCOMPLETE,
            "1 of 5 records were not processed, from 7 on",
        ),
        (PART.stop, {"counts": {KEY: ReadCounts(records=5, processed=5)}}, Verdict.VERIFIED, "All 5"),
        (PART.stop, {"processed_before": {KEY: 3}}, Verdict.INCOMPLETE, "before the target were processed"),
    ],
)
def test_each_contradiction_has_its_verdict(
    committed: int | None, more: dict[str, Any], expected: Verdict, words: str
) -> None:
    """Commits first, then what contradicts or confirms them."""
    found, reason = verdict(committed, **more)
    assert (found, words in reason) == (expected, True), reason


def test_the_whole_is_as_bad_as_its_worst_part() -> None:
    """Incomplete before cannot tell before verified; what was not planned has no say."""
    gateway = orders(partitions=3)
    gateway.records["orders", 2] = []
    plan = plan_of(gateway, request(after_end=AfterEnd.SKIP))
    ends = {part.key: part.log_end for part in plan.partitions}
    logs = LogView(starts=dict.fromkeys(ends, 0), ends=ends)
    commits = {part.key: part.stop for part in plan.partitions[:2]}
    done = verify(plan, Evidence(commits=commits, logs=logs))
    assert [item.verdict for item in done] == [Verdict.VERIFIED, Verdict.VERIFIED, Verdict.NOT_PLANNED]
    assert overall(done) is Verdict.VERIFIED
    commits["orders", 1] -= 1
    assert overall(verify(plan, Evidence(commits=commits, logs=logs))) is Verdict.INCOMPLETE
    assert overall([item for item in done if item.verdict is Verdict.NOT_PLANNED]) is Verdict.CANNOT_TELL


@given(st.lists(st.none() | st.integers(0, 12), min_size=4, max_size=4))
def test_progress_is_never_more_than_there_is(committed: list[int | None]) -> None:
    """Between nothing and all, whatever the commits say; complete exactly if each partition is at its stop."""
    plan = plan_of(orders())
    new = {part.key: offset for part, offset in zip(plan.partitions, committed, strict=True) if offset is not None}
    look = progress(plan, new=new, old={}, ends={}, members=0, at=0.0)
    assert 0 <= look.done <= look.total == plan.messages
    assert look.done + sum(look.left.values()) == look.total
    assert look.complete == all(
        (offset or 0) >= part.stop for part, offset in zip(plan.partitions, committed, strict=True)
    )
    assert look.new_lag is None


def test_pace_and_eta() -> None:
    """Messages per second over the last minute; no ETA while nothing moves; 0 once it is done."""

    def look(at: float, offset: int) -> Progress:
        return progress(PLAN, new={KEY: offset}, old={KEY: 8}, ends={KEY: 10}, members=1, at=at)

    pace = Pace()
    assert (pace.per_second, pace.eta_seconds) == (None, None)
    pace.add(look(0, TARGET))
    pace.add(look(10, TARGET))
    assert (pace.per_second, pace.eta_seconds) == (0.0, None)
    pace.add(look(20, TARGET + 2))
    assert pace.per_second == 0.1
    assert pace.eta_seconds == pytest.approx((PART.messages - 2) / 0.1)
    pace.add(look(85, PART.stop))  # the first looks are more than a minute old
    assert pace.per_second == pytest.approx((PART.messages - 2) / 65)
    assert pace.eta_seconds == 0.0
    assert look(0, 4).old_lag == 2


def test_a_tail_of_markers_is_looked_at_once_nothing_moves() -> None:
    """The commit stays one short of the end; after some looks the rest is read, holds no record, and it is complete."""
    gateway: FakeGateway = orders(partitions=1)
    plan = plan_of(gateway)
    [part] = plan.partitions
    gateway.groups["new"] = {KEY: part.stop - 1}
    asked: list[object] = []

    def count(ranges: Any) -> dict[tuple[str, int], int]:
        asked.append(dict(ranges))
        return dict.fromkeys(ranges, 0)

    looks = list(Follower(plan, gateway, count).run(interval_seconds=0, stop=lambda _: False))
    assert looks[-1].complete
    assert not looks[-2].complete
    assert asked == [{KEY: (part.stop - 1, part.stop)}]
