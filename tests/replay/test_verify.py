"""What counts as processed, and what must never be called so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.replay.fakes import FakeGateway, instant, now_ms, orders, plan_of, request
from workbench.commit_note import parse_note
from workbench.errors import SourceUnreachableError
from workbench.logs.late_records import Late
from workbench.logs.window_end import WindowEnd, window_ends
from workbench.queues.replay_port import LogView
from workbench.queues.snapshot_views import Partition
from workbench.replay.follow import Follower
from workbench.replay.plan_of_given_ranges import make_range_plan
from workbench.replay.planfile import AfterEnd, Plan
from workbench.replay.progress import Pace, ReplayProgress, in_words, progress
from workbench.replay.service_fleet import HeldPartition, InstanceStatus, MemberStatus
from workbench.replay.verify import ReadCounts, VerifyEvidence, VerifyVerdict, overall, verify
from workbench.replay.verify_evidence import Checked, CheckRequest, check
from workbench.settings import Cluster

PLAN = plan_of(orders(partitions=1))
KEY = ("orders", 0)
[PART] = PLAN.partitions
assert PART.target is not None
TARGET = PART.target


def verdict(committed: int | None, plan: Plan = PLAN, **more: Any) -> tuple[VerifyVerdict, str]:
    """Of the one partition."""
    logs = replace(more.pop("logs", LogView(starts={KEY: 0}, ends={KEY: PART.log_end})))
    if not logs.stable_ends:
        logs = replace(logs, stable_ends=logs.ends)
    ends = window_ends(plan, logs, now_ms=now_ms())
    evidence = VerifyEvidence(commits={} if committed is None else {KEY: committed}, logs=logs, ends=ends, **more)
    [found] = verify(plan, evidence)
    return found.verdict, found.reason


def as_planned(plan: Plan) -> dict[Partition, WindowEnd]:
    """The window ends where the plan says."""
    return {part.key: WindowEnd(stop=part.stop, readable=part.stop) for part in plan.partitions}


GONE = LogView(starts={KEY: TARGET + 2}, ends={KEY: PART.log_end})  # retention has come into the window


def held(
    first: int | None, committed: int | None, completed: int | None, *, ranges: bool | None = None
) -> list[InstanceStatus]:
    """An instance that has the partition; with ranges, whether they are complete."""
    part = HeldPartition(topic="orders", partition=0, first_offset=first, committed=committed, completed=completed)
    member = MemberStatus(member="a-0", partitions=[part])
    return [InstanceStatus(client_id="a", group="new", state="running", members=[member], ranges_complete=ranges)]


@pytest.mark.parametrize(
    ("committed", "more", "expected", "words"),
    [
        (PART.stop, {}, VerifyVerdict.VERIFIED, "up to the window's end"),
        (PART.stop + 5, {"logs": LogView(starts={KEY: 0}, ends={KEY: PART.stop + 9})}, VerifyVerdict.VERIFIED, "up to"),
        (None, {}, VerifyVerdict.INCOMPLETE, "no commit"),
        (TARGET - 1, {}, VerifyVerdict.INCOMPLETE, "before the target"),
        (PART.stop - 1, {}, VerifyVerdict.INCOMPLETE, "1 offset is not committed"),
        (PART.stop - 1, {"tails": {KEY: 0}}, VerifyVerdict.VERIFIED, "up to"),
        (PART.stop - 1, {"tails": {KEY: 1}}, VerifyVerdict.INCOMPLETE, "not committed"),
        (
            TARGET,
            {"logs": LogView(starts={KEY: TARGET + 2}, ends={KEY: 10})},
            VerifyVerdict.INCOMPLETE,
            "Retention has deleted",
        ),
        (PART.stop + 5, {}, VerifyVerdict.INCOMPLETE, "after the log end"),
        (PART.stop, {"statuses": held(TARGET, PART.stop, PART.messages)}, VerifyVerdict.VERIFIED, "records completed"),
        (
            PART.stop,
            {"statuses": held(TARGET, PART.stop, PART.messages - 2)},
            VerifyVerdict.CANNOT_TELL,
            "2 are not completed",
        ),
        (PART.stop, {"statuses": held(TARGET + 1, PART.stop, 1)}, VerifyVerdict.VERIFIED, "only later records"),
        (PART.stop, {"statuses": held(None, None, None)}, VerifyVerdict.VERIFIED, "no counts"),
        (
            PART.stop,
            {"statuses": held(TARGET, PART.stop, 2), "counts": {KEY: ReadCounts(records=5)}},
            VerifyVerdict.INCOMPLETE,
            "completed 2 records",
        ),
        (
            PART.stop,
            {"statuses": held(TARGET, PART.stop, 3), "counts": {KEY: ReadCounts(records=3)}},
            VerifyVerdict.VERIFIED,
            "3 records completed",
        ),
        (
            PART.stop,
            {"counts": {KEY: ReadCounts(records=5, processed=4, first_missing=7)}},
            VerifyVerdict.INCOMPLETE,
            "Not processed: 1 of 5 records, from 7 on",
        ),
        (
            PART.stop,
            {"counts": {KEY: ReadCounts(records=5, processed=5)}},
            VerifyVerdict.VERIFIED,
            "5 records, all in the log",
        ),
        (PART.stop, {"logs": GONE}, VerifyVerdict.CANNOT_TELL, "does not prove that they were processed"),
        (
            PART.stop,
            {"logs": GONE, "statuses": held(TARGET, PART.stop, PART.messages)},
            VerifyVerdict.VERIFIED,
            "completed",
        ),
        (PART.stop, {"logs": GONE, "statuses": held(TARGET + 2, PART.stop, 3)}, VerifyVerdict.CANNOT_TELL, "deleted"),
        (PART.stop, {"logs": GONE, "statuses": held(None, None, None)}, VerifyVerdict.CANNOT_TELL, "deleted"),
        (PART.stop, {"logs": GONE, "counts": {KEY: ReadCounts(records=3)}}, VerifyVerdict.CANNOT_TELL, "deleted"),
        (
            PART.stop,
            {"logs": GONE, "counts": {KEY: ReadCounts(records=3, processed=3, gone=2, gone_processed=2)}},
            VerifyVerdict.VERIFIED,
            "all in the log",
        ),
        (
            PART.stop,
            {"logs": GONE, "counts": {KEY: ReadCounts(records=3, processed=3, gone=2, gone_processed=1)}},
            VerifyVerdict.CANNOT_TELL,
            "2 offsets of the window; 1 of them",
        ),
        (PART.stop, {"notes": {KEY: parse_note("skipped=6-7")}}, VerifyVerdict.INCOMPLETE, "not read offsets 6 to 7"),
        (PART.stop, {"notes": {KEY: parse_note("skipped=1-2")}}, VerifyVerdict.VERIFIED, "up to"),
        (PART.stop, {"notes": {KEY: parse_note("skipped=?")}}, VerifyVerdict.CANNOT_TELL, "does not say what"),
        (
            PART.stop,
            {"late": {KEY: Late(records=2, first=12)}},
            VerifyVerdict.INCOMPLETE,
            "2 records of the window behind",
        ),
        (PART.stop, {"late": {KEY: Late(unread=9)}}, VerifyVerdict.CANNOT_TELL, "9 offsets were not read"),
        (
            PART.stop - 1,
            {"late": {KEY: Late(unread=9)}, "tails": {KEY: 1}},
            VerifyVerdict.INCOMPLETE,
            "not committed yet",
        ),
        (PART.stop, {"processed_before": {KEY: 3}}, VerifyVerdict.INCOMPLETE, "before the target were processed"),
    ],
)
def test_each_contradiction_has_its_verdict(
    committed: int | None, more: dict[str, Any], expected: VerifyVerdict, words: str
) -> None:
    """Commits first, then what contradicts or confirms them."""
    found, reason = verdict(committed, **more)
    assert (found, words in reason) == (expected, True), reason


def test_without_the_logs_start_nothing_is_verified() -> None:
    """What retention has taken is not known then."""
    logs = LogView(starts={}, ends={KEY: PART.log_end}, errors={KEY: "Broker: Not leader for partition"})
    assert verdict(PART.stop, logs=logs) == (
        VerifyVerdict.CANNOT_TELL,
        "It does not answer: Broker: Not leader for partition.",
    )


@pytest.mark.parametrize(
    ("completed", "ranges", "expected"),
    [
        (4, True, VerifyVerdict.VERIFIED),
        (3, True, VerifyVerdict.CANNOT_TELL),
        (4, None, VerifyVerdict.CANNOT_TELL),  # without ranges it takes all from 2 to 8
    ],
)
def test_what_lies_between_ranges_is_not_counted(completed: int, ranges: bool | None, expected: VerifyVerdict) -> None:
    """An instance with ranges has no counts for it."""
    plan = make_range_plan(request(), orders(partitions=1), ranges={KEY: [(2, 4), (6, 8)]})
    assert verdict(8, plan, statuses=held(2, 8, completed, ranges=ranges))[0] is expected


def test_the_whole_is_as_bad_as_its_worst_part() -> None:
    """Incomplete before cannot tell before verified; what was not planned has no say."""
    gateway = orders(partitions=3)
    gateway.records["orders", 2] = []
    plan = plan_of(gateway, request(after_end=AfterEnd.SKIP))
    ends = {part.key: part.log_end for part in plan.partitions}
    logs = LogView(starts=dict.fromkeys(ends, 0), ends=ends, stable_ends=ends)
    windows = window_ends(plan, logs, now_ms=now_ms())
    commits = {part.key: part.stop for part in plan.partitions[:2]}
    done = verify(plan, VerifyEvidence(commits=commits, logs=logs, ends=windows))
    assert [item.verdict for item in done] == [
        VerifyVerdict.VERIFIED,
        VerifyVerdict.VERIFIED,
        VerifyVerdict.NOT_PLANNED,
    ]
    assert overall(done) is VerifyVerdict.VERIFIED
    commits["orders", 1] -= 1
    assert overall(verify(plan, VerifyEvidence(commits=commits, logs=logs, ends=windows))) is VerifyVerdict.INCOMPLETE
    assert overall([item for item in done if item.verdict is VerifyVerdict.NOT_PLANNED]) is VerifyVerdict.CANNOT_TELL


@given(st.lists(st.none() | st.integers(0, 12), min_size=4, max_size=4))
def test_progress_is_never_more_than_there_is(committed: list[int | None]) -> None:
    """Between nothing and all, whatever the commits say; complete exactly if each partition is at its stop."""
    plan = plan_of(orders())
    new = {part.key: offset for part, offset in zip(plan.partitions, committed, strict=True) if offset is not None}
    look = progress(plan, new=new, old={}, ends={}, windows=as_planned(plan), members=0, at=0.0)
    assert 0 <= look.done <= look.total == plan.messages
    assert look.done + sum(look.left.values()) == look.total
    assert look.complete == all(
        (offset or 0) >= part.stop for part, offset in zip(plan.partitions, committed, strict=True)
    )
    assert look.new_lag is None


def test_pace_and_eta() -> None:
    """Messages per second over the last minute; no ETA while nothing moves; 0 once it is done."""

    def look(at: float, offset: int) -> ReplayProgress:
        windows = as_planned(PLAN)
        return progress(PLAN, new={KEY: offset}, old={KEY: 8}, ends={KEY: 10}, windows=windows, members=1, at=at)

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


HOUR = 3_600_000


def checked(gateway: FakeGateway, plan: Plan, tail: int | SourceUnreachableError = 0) -> Checked:
    """What `verify` says by the commits; every rest that it reads holds so many records."""

    def count(ranges: Any) -> dict[Partition, int]:
        if isinstance(tail, SourceUnreachableError):
            raise tail
        return dict.fromkeys(ranges, tail)

    return check(plan, Cluster(name="c", bootstrap="b:9092"), gateway, count, CheckRequest())


def reached(gateway: FakeGateway, plan: Plan, offset: int | None = None) -> None:
    """The new group has committed the log's end, or this offset, everywhere."""
    gateway.groups["new"] = {key: gateway.end(key) if offset is None else offset for key in plan.targets}


def produce(gateway: FakeGateway, at_ms: int, number: int) -> None:
    """Records of one instant at the end of each partition."""
    for log in gateway.records.values():
        log += [(log[-1][0] + 1 + more, at_ms) for more in range(number)]


def test_a_window_that_is_not_over_is_never_verified() -> None:
    """`until` lies in the future: cannot tell at its end, incomplete before; the plan says so beforehand."""
    gateway, until = orders(), now_ms() + HOUR
    plan = plan_of(gateway, request(until=instant(until)))
    assert any("ends in 60 min" in text or "ends in 1 h" in text for text in plan.warnings), plan.warnings
    reached(gateway, plan)
    found = checked(gateway, plan)
    assert found.verdict is VerifyVerdict.CANNOT_TELL
    assert "window ends at" in found.partitions[0].reason
    produce(gateway, now_ms(), 50)
    assert checked(gateway, plan, tail=50).verdict is VerifyVerdict.INCOMPLETE


def test_a_window_that_ended_after_the_plan_was_made_is_looked_up_again() -> None:
    """What came before `until` and after the plan counts; the first record at or after `until` closes it."""
    gateway = orders()
    plan = plan_of(gateway, request(until=instant(now_ms() - 1)))
    stop = gateway.end(("orders", 0))
    produce(gateway, plan.until_ms - 1 if plan.until_ms else 0, 3)
    produce(gateway, plan.until_ms or 0, 5)
    reached(gateway, plan, stop)
    found = checked(gateway, plan, tail=3)
    assert (found.verdict, found.partitions[0].stop) == (VerifyVerdict.INCOMPLETE, stop + 3)
    reached(gateway, plan, stop + 3)
    assert checked(gateway, plan).verdict is VerifyVerdict.VERIFIED


def test_records_of_the_window_where_nothing_was_planned_leave_it_open() -> None:
    """Policy skip, and then they came: the plan committed nothing there, so nobody knows who got them."""
    gateway = orders()
    gateway.records["orders", 3] = []
    plan = plan_of(gateway, request(until=instant(now_ms() - 1), after_end=AfterEnd.SKIP))
    reached(gateway, plan)
    assert checked(gateway, plan).verdict is VerifyVerdict.VERIFIED
    gateway.records["orders", 3] = [(0, (plan.until_ms or 0) - 1)]
    assert checked(gateway, plan).verdict is VerifyVerdict.CANNOT_TELL


@pytest.mark.parametrize("with_until", [False, True])
@pytest.mark.parametrize("begins", [3, 7])
@pytest.mark.parametrize("when", ["planned", "verified"])
def test_an_open_transaction_is_never_verified(when: str, begins: int, with_until: bool) -> None:
    """Before the target or within the window, open at the plan or only later: cannot tell, until it has ended."""
    gateway = orders()
    if when == "planned":
        gateway.stable = dict.fromkeys(gateway.records, begins)
    plan = plan_of(gateway, request(until=instant(now_ms()) if with_until else None))
    assert {part.stop for part in plan.partitions} == {10}
    gateway.stable = dict.fromkeys(gateway.records, begins)
    reached(gateway, plan, max(5, begins))
    found = checked(gateway, plan)
    assert found.verdict is VerifyVerdict.CANNOT_TELL
    assert f"transaction is open at {begins}" in found.partitions[0].reason
    look = Follower(plan, gateway, lambda ranges: dict.fromkeys(ranges, 0)).look()
    assert not look.complete
    gateway.stable.clear()
    assert checked(gateway, plan, tail=1).verdict is VerifyVerdict.INCOMPLETE
    reached(gateway, plan)
    assert checked(gateway, plan).verdict is VerifyVerdict.VERIFIED


def test_a_plan_that_ended_before_an_open_transaction_ends_at_the_log_now() -> None:
    """Plans of earlier versions did: their stop may even lie before the target, with nothing to verify."""
    plan = plan_of(orders(partitions=1))
    [part] = plan.partitions
    old = plan.model_copy(update={"partitions": [part.model_copy(update={"stop": 3, "messages": 0})]})
    logs = LogView(starts={KEY: 0}, ends={KEY: 10}, stable_ends={KEY: 10})
    assert window_ends(old, logs, now_ms=now_ms())[KEY] == WindowEnd(stop=10, readable=10)


def test_a_partition_that_does_not_answer_is_not_verified() -> None:
    """Without its ends nobody knows whether the window is closed."""
    logs = LogView(starts={}, ends={}, stable_ends={}, errors={KEY: "no leader"})
    ends = window_ends(PLAN, logs, now_ms=now_ms())
    [found] = verify(PLAN, VerifyEvidence(commits={KEY: PART.stop}, logs=logs, ends=ends))
    assert (found.verdict, "no leader" in found.reason) == (VerifyVerdict.CANNOT_TELL, True)


def test_a_log_that_ends_before_the_window_is_another_one() -> None:
    """The topic was made anew since: what the commit means is not known."""
    gateway = orders()
    plan = plan_of(gateway)
    for part in gateway.records:
        gateway.records[part] = gateway.records[part][:7]
    reached(gateway, plan)
    found = checked(gateway, plan)
    assert (found.verdict, "recreated" in found.partitions[0].reason) == (VerifyVerdict.CANNOT_TELL, True)


def test_a_topic_that_was_made_anew_tells_nothing() -> None:
    """Its log may have grown as long as the former one's: its id tells."""
    gateway = orders()
    plan = plan_of(gateway)
    reached(gateway, plan)
    gateway.topic_ids["orders"] = "another id"
    found = checked(gateway, plan)
    assert (found.verdict, "recreated" in found.partitions[0].reason) == (VerifyVerdict.CANNOT_TELL, True)


def test_a_topic_that_was_made_anew_is_never_through() -> None:
    """What `follow` calls complete is what `verify` may verify: commits are of another log, which is as long by now."""
    gateway = orders()
    plan = plan_of(gateway)
    reached(gateway, plan)
    gateway.topic_ids["orders"] = "another id"
    look = Follower(plan, gateway, lambda ranges: dict.fromkeys(ranges, 0)).look()
    assert (look.complete, look.left) == (False, {})
    assert "recreated" in in_words(look, Pace(), group="new")


def test_a_partition_that_was_added_since_may_have_records_of_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody planned where the group begins there: with `auto.offset.reset=latest` it skips them, whatever it commits."""
    gateway = orders()
    plan = plan_of(gateway, request(until=instant(now_ms() + HOUR)))
    reached(gateway, plan)
    gateway.records["orders", 4] = [(0, now_ms())]
    gateway.groups["new"]["orders", 4] = 1
    produce(gateway, (plan.until_ms or 0) + 1, 1)
    later = (plan.until_ms or 0) / 1000 + 60
    monkeypatch.setattr("workbench.replay.verify_evidence.time.time", lambda: later)
    found = checked(gateway, plan)
    assert found.verdict is VerifyVerdict.CANNOT_TELL
    assert any("orders-4 was added since" in note and "1 record" in note for note in found.notes), found.notes
    gateway.most_read = 0
    assert checked(gateway, plan).verdict is VerifyVerdict.CANNOT_TELL
    gateway.most_read = None
    for records in ([(0, (plan.until_ms or 0) + 1)], []):
        gateway.records["orders", 4] = records
        assert checked(gateway, plan).verdict is VerifyVerdict.VERIFIED


def test_a_rest_that_cannot_be_read_is_not_called_unprocessed() -> None:
    """It may be transaction markers alone: without the right to read it nobody can tell."""
    gateway = orders()
    plan = plan_of(gateway)
    reached(gateway, plan, 9)
    found = checked(gateway, plan, tail=SourceUnreachableError("Topic authorization failed."))
    assert (found.verdict, "authorization" in found.partitions[0].reason) == (VerifyVerdict.CANNOT_TELL, True)


def test_follow_goes_on_until_the_window_is_over() -> None:
    """All that is there is committed, but `until` has not passed: not complete, and it says why; then it is."""
    gateway = orders()
    plan = plan_of(gateway, request(until=instant(now_ms() + HOUR)))
    reached(gateway, plan)
    clock = [float(now_ms())]
    follower = Follower(plan, gateway, lambda ranges: dict.fromkeys(ranges, 0), now_ms=lambda: clock[0])
    look = follower.look()
    assert (look.complete, look.left) == (False, {})
    assert "window ends at" in in_words(look, Pace(), group="new")
    produce(gateway, (plan.until_ms or 0) - 1, 2)
    clock[0] = float(plan.until_ms or 0)
    assert set(follower.look().left.values()) == {2}
    reached(gateway, plan)
    assert follower.look().complete


def test_markers_before_an_open_end_do_not_hide_what_comes_later() -> None:
    """A rest without records was read once; when the window grows, its new rest is another one."""
    gateway = orders(partitions=1)
    plan = plan_of(gateway, request(until=instant(now_ms() + HOUR)))
    reached(gateway, plan, 9)
    follower = Follower(plan, gateway, lambda ranges: dict.fromkeys(ranges, 0))
    assert [follower.look().left for _ in range(4)][-1] == {}
    produce(gateway, now_ms(), 4)
    assert follower.look().left == {KEY: 5}


def test_retention_that_overtakes_the_group_is_never_verified() -> None:
    """The commit jumps over what is deleted: the group's consumers were moved on, and nothing tells that but the log's start."""
    gateway = orders()
    plan = plan_of(gateway)
    gateway.starts = dict.fromkeys(gateway.records, 7)
    reached(gateway, plan)
    found = checked(gateway, plan)
    assert (found.verdict, "offsets 5 to 6" in found.partitions[0].reason) == (VerifyVerdict.CANNOT_TELL, True)
    gateway.stored["new"] = {("orders", 1): "skipped=5-6 topic-id=c:t"}
    found = checked(gateway, plan)
    assert [it.verdict for it in found.partitions[:2]] == [VerifyVerdict.CANNOT_TELL, VerifyVerdict.INCOMPLETE]
    assert found.verdict is VerifyVerdict.INCOMPLETE


def test_follow_does_not_forget_what_it_saw() -> None:
    """The group stood before the log's start at one look, and behind the window at the next: it ends, and says what is lost."""
    gateway = orders(partitions=1)
    plan = plan_of(gateway)
    gateway.groups["new"], gateway.starts[KEY] = {KEY: TARGET}, TARGET + 2
    follower = Follower(plan, gateway, lambda ranges: dict.fromkeys(ranges, 1))
    assert not follower.look().complete
    reached(gateway, plan)
    look = follower.look()
    assert look.complete
    assert look.doubt == f"orders-0: Retention has deleted offsets {TARGET} to {TARGET + 1} before they were processed."
    assert "cannot be told" in in_words(look, Pace(), group="new")
    look = Follower(plan, gateway, lambda ranges: dict.fromkeys(ranges, 1)).look()
    assert look.complete
    assert "does not prove" in (look.doubt or "")


def test_follow_reads_the_notes_of_the_group() -> None:
    """Its members say themselves that they were moved on."""
    gateway = orders(partitions=1)
    plan = plan_of(gateway)
    reached(gateway, plan)
    follower = Follower(plan, gateway, lambda ranges: dict.fromkeys(ranges, 1))
    assert follower.look().doubt is None
    gateway.stored["new"] = {KEY: f"skipped={TARGET}-{TARGET}"}
    assert follower.look().doubt == f"orders-0: Its members have not read offsets {TARGET}."


def windowed(gateway: FakeGateway, *, ranges: bool) -> Plan:
    """A plan of the minutes 5 to 2 before now, which have ended."""
    since, until = instant(now_ms() - 5 * 60_000), instant(now_ms() - 2 * 60_000)
    asked = request(since=since, until=until)
    return make_range_plan(asked, gateway, ranges={}, windows=[(since, until)]) if ranges else plan_of(gateway, asked)


@pytest.mark.parametrize("ranges", [False, True])
def test_late_records_since_the_plan_are_looked_for(ranges: bool) -> None:
    """They lie behind the window's end and have its time. Those that the group has passed it got; what is not read is not known."""
    gateway = orders()
    plan = windowed(gateway, ranges=ranges)
    gateway.groups["new"] = {part.key: part.stop for part in plan.partitions}
    assert checked(gateway, plan).verdict is VerifyVerdict.VERIFIED
    gateway.most_read = 0
    found = checked(gateway, plan)
    # Planning has read up to the log's end, and what a plan of ranges has is fixed.
    assert found.verdict is (VerifyVerdict.VERIFIED if ranges else VerifyVerdict.CANNOT_TELL)
    gateway.most_read = None
    gateway.records["orders", 2].append((10, now_ms() - 4 * 60_000))
    found = checked(gateway, plan)
    assert found.verdict is VerifyVerdict.INCOMPLETE
    assert [it.partition for it in found.partitions if "behind its end, from 10 on" in it.reason] == [2]
    gateway.groups["new"]["orders", 2] = 11
    assert checked(gateway, plan).verdict is VerifyVerdict.VERIFIED


def test_a_partition_that_planning_did_not_read_is_not_forgotten() -> None:
    """No record of the window was found there within the limit, so the plan of ranges has nothing of it: verify says so."""
    gateway = orders(partitions=2, records=10)
    gateway.records["orders", 1] = [
        (0, now_ms()),
        *((at, now_ms() - HOUR) for at in range(1, 9)),
        (9, now_ms() - 4 * 60_000),
    ]
    gateway.most_read = 8
    plan = windowed(gateway, ranges=True)
    assert [part.partition for part in plan.partitions] == [0]
    assert plan.unread is not None and plan.unread[0][:2] == ("orders", 1)
    gateway.groups["new"] = {part.key: part.stop for part in plan.partitions}
    gateway.most_read = 0
    found = checked(gateway, plan)
    assert found.verdict is VerifyVerdict.CANNOT_TELL
    assert any("orders-1 is not in the plan" in note for note in found.notes)
    gateway.most_read = None
    found = checked(gateway, plan)
    assert found.verdict is VerifyVerdict.INCOMPLETE


def test_a_commit_proves_nothing_where_the_plan_commits_nothing() -> None:
    """Consumers of the whole topic began at the end of the log there, and have committed behind records of the window."""
    gateway = orders()
    gateway.records["orders", 3] = []
    plan = plan_of(gateway, request(until=instant(now_ms() - 1), after_end=AfterEnd.SKIP))
    until = plan.until_ms or 0
    reached(gateway, plan)
    gateway.records["orders", 3] = [(0, until + 1), (1, until - 1), (2, until + 2)]
    for committed in (2, 3):
        gateway.groups["new"]["orders", 3] = committed
        assert checked(gateway, plan).verdict is VerifyVerdict.CANNOT_TELL
    gateway.records["orders", 3][1] = (1, until + 1)
    assert checked(gateway, plan).verdict is VerifyVerdict.VERIFIED


def test_a_commit_proves_nothing_in_a_partition_that_is_not_planned() -> None:
    """Planning did not read all of it; other consumers of the group have passed it from an unknown place on."""
    gateway = orders(partitions=2)
    late = (9, now_ms() - 4 * 60_000)
    gateway.records["orders", 1] = [(0, now_ms()), *((at, now_ms() - HOUR) for at in range(1, 9)), late]
    gateway.most_read = 8
    plan = windowed(gateway, ranges=True)
    assert [part.partition for part in plan.partitions] == [0]
    gateway.groups["new"] = {part.key: part.stop for part in plan.partitions} | {("orders", 1): 10}
    gateway.most_read = None
    assert checked(gateway, plan).verdict is VerifyVerdict.CANNOT_TELL
    gateway.records["orders", 1][9] = (9, now_ms() - HOUR)
    assert checked(gateway, plan).verdict is VerifyVerdict.VERIFIED


@pytest.mark.parametrize(
    ("late_at", "committed", "expected"),
    [
        (7, 15, VerifyVerdict.INCOMPLETE),  # between the ranges, of which the runtime has committed the last one
        (13, 15, VerifyVerdict.VERIFIED),  # in the range of the other window
        (7, 17, VerifyVerdict.VERIFIED),  # beyond the ranges: consumers that do not stop at them have read everything
        (None, 15, VerifyVerdict.VERIFIED),
    ],
)
def test_a_commit_behind_ranges_says_nothing_of_what_is_between(
    late_at: int | None, committed: int, expected: VerifyVerdict
) -> None:
    """Planning could not read all behind the first window, and the second window's range is behind that."""
    now = now_ms()
    times = [now - 10 * HOUR] * 5 + [now - 7 * HOUR] * 7 + [now - 4 * HOUR] * 3 + [now - HOUR] * 3
    if late_at is not None:
        times[late_at] = now - 10 * HOUR
    gateway = FakeGateway({("orders", 0): list(enumerate(times))}, groups={"old": {("orders", 0): 18}})
    gateway.most_read = 1
    windows = [(instant(now - 11 * HOUR), instant(now - 9 * HOUR)), (instant(now - 5 * HOUR), instant(now - 3 * HOUR))]
    asked = request(since=windows[0][0], until=windows[1][1])
    plan = make_range_plan(asked, gateway, ranges={}, windows=windows)
    assert plan.partitions[0].spans == [(0, 5), (12, 15)]
    assert plan.unread is not None
    gateway.most_read = None
    gateway.groups["new"] = {("orders", 0): committed}
    assert checked(gateway, plan).verdict is expected
    gateway.most_read = 0
    assert checked(gateway, plan).verdict is VerifyVerdict.CANNOT_TELL


def test_a_window_that_only_this_clock_calls_over_is_told_as_such() -> None:
    """It may be ahead of those of the brokers and producers; a record from behind the window proves that it is over."""
    gateway = orders()
    until = max(at for log in gateway.records.values() for _, at in log) + 1_000
    plan = plan_of(gateway, request(until=instant(until)))
    reached(gateway, plan)
    found = checked(gateway, plan)
    assert any("by this machine's clock alone" in note for note in found.notes)
    produce(gateway, until, 1)
    assert not any("clock" in note for note in checked(gateway, plan).notes)
    whole = plan_of(gateway)
    assert not any("clock" in note for note in checked(gateway, whole).notes)
