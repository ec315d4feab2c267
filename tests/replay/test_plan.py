"""Planning against a naive oracle that looks at every record."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.replay.fakes import FakeGateway, instant, now_ms, orders, plan_of, request
from workbench.api.plan_view import plan_html
from workbench.errors import GuardError, UnknownGroupError, UsageError
from workbench.queues.replay_port import TopicSettings
from workbench.replay.group_gap import gaps
from workbench.replay.guard import Now, ReplayLimits, check_logs
from workbench.replay.plan import bytes_per_broker, chosen_partitions, kafka_command, to_csv
from workbench.replay.plan_of_given_ranges import make_range_plan
from workbench.replay.planfile import AfterEnd, Resolution
from workbench.window import instant_ms

BASE = now_ms() - 1_000_000


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[tuple[int, int]], int, int]:
    """Records with gaps in their offsets and times in any order, a start and an end of the log."""
    gaps = draw(st.lists(st.integers(1, 4), max_size=12))
    start = draw(st.integers(0, 50))
    offset, records = start - 1, []
    for gap in gaps:
        offset += gap
        records.append((offset, BASE + draw(st.integers(-50, 50))))
    return records, start, offset + 1 + draw(st.integers(0, 3))


@given(
    st.lists(logs(), min_size=1, max_size=5),
    st.integers(-60, 60),
    st.none() | st.integers(1, 60),
    st.sampled_from(["skip", "end"]),
    st.none() | st.integers(0, 15),
)
def test_each_partition_is_what_a_naive_scan_says(
    drawn: list[tuple[list[tuple[int, int]], int, int]], since: int, length: int | None, policy: str, most: int | None
) -> None:
    """Every record of the window is in the range, wherever it lies in the log, or the plan says that it cannot tell.

    Where there is none at or after the start, the policy decides. `exact` is only what was seen in order.
    """
    parts = {("orders", number): log for number, log in enumerate(drawn)}
    gateway = FakeGateway(
        {part: log[0] for part, log in parts.items()},
        starts={part: log[1] for part, log in parts.items()},
        ends={part: log[2] for part, log in parts.items()},
        groups={"old": {("orders", 0): 0}},
        most_read=most,
    )
    since_ms, until_ms = BASE + since, None if length is None else BASE + since + length
    changes = {"after_end": AfterEnd(policy), "until": None if until_ms is None else instant(until_ms)}
    plan = plan_of(gateway, request(since_ms, **changes))
    for planned in plan.partitions:
        records, start, end = parts[planned.key]
        later = [(offset, ts) for offset, ts in records if ts >= since_ms]
        wanted = [offset for offset, ts in later if until_ms is None or ts < until_ms]
        after = next((offset for offset, ts in records if until_ms is not None and ts >= until_ms), end)
        assert (planned.log_start, planned.log_end) == (start, end)
        if not later:
            assert planned.resolution is (Resolution.AFTER_END if end > start else Resolution.EMPTY)
            assert planned.target == (end if policy == "end" else None)
            assert planned.messages == 0
            assert planned.target_timestamp is None
            continue
        assert planned.target is not None and planned.messages == planned.stop - planned.target
        missing = [offset for offset in wanted if not planned.target <= offset < planned.stop]
        if planned.resolution is Resolution.UNREAD:
            assert most is not None
            assert any("cannot be told whether all messages of the window" in warning for warning in plan.warnings)
            continue
        assert not missing, "a record of the window would be skipped"
        if not wanted:
            assert (planned.target, planned.messages) == (later[0][0], 0)
            assert planned.resolution is Resolution.NONE_INSIDE
            assert any("no message of the window" in warning for warning in plan.warnings)
            continue
        assert (planned.target, planned.stop) == (wanted[0], max(after, wanted[-1] + 1))
        if planned.resolution is Resolution.UNORDERED:
            assert any("out of order" in warning for warning in plan.warnings)
            continue
        before = planned.target == start and planned.target_timestamp != since_ms
        assert planned.resolution is (Resolution.BEFORE_START if before else Resolution.EXACT)
        if most is None and until_ms is not None:
            inside = [ts for offset, ts in records if planned.target <= offset < planned.stop]
            assert min(inside) >= since_ms
            assert max(inside) < until_ms
    assert plan.messages == sum(part.messages for part in plan.partitions)


@given(
    st.lists(st.lists(st.integers(0, 12), max_size=12), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6)), min_size=1, max_size=3),
    st.none() | st.integers(0, 12),
)
def test_ranges_of_windows_have_what_a_naive_scan_finds(
    drawn: list[list[int]], windows: list[tuple[int, int]], most: int | None
) -> None:
    """Every record of every window is in a range; or its offset is among those that the plan names as not read; or it is refused."""
    gateway = FakeGateway(
        {("orders", number): [(at, BASE + ts) for at, ts in enumerate(log)] for number, log in enumerate(drawn)},
        groups={"old": {("orders", 0): 0}},
        most_read=most,
    )
    asked = [(instant(BASE + since), instant(BASE + since + length)) for since, length in windows]
    wanted = {
        (number, at)
        for number, log in enumerate(drawn)
        for at, ts in enumerate(log)
        if any(since <= ts < since + length for since, length in windows)
    }
    try:
        plan = make_range_plan(request(BASE), gateway, ranges={}, windows=asked)
    except GuardError as error:
        assert not wanted if "in any of the ranges" in error.message else "it cannot be told" in error.message
        return
    planned = {(part.partition, at) for part in plan.partitions for low, high in part.spans for at in range(low, high)}
    unread = {(number, at) for _, number, low, high in plan.unread or () for at in range(low, high)}
    assert wanted <= planned | unread
    assert most is not None or not unread
    assert bool(unread) == any("cannot be told whether all messages" in warning for warning in plan.warnings)


def lagging(*, late: int, ahead: bool = False) -> FakeGateway:
    """A hundred records, a second apart; behind them a later one, and some that are dated into the window of seconds 20 to 60.

    `ahead`: the first record is of a clock that is an hour ahead.
    """
    times = [*range(100), 200, *range(30, 30 + late)]
    log = [(at, BASE + 1000 * seconds) for at, seconds in enumerate(times)]
    if ahead:
        log = [(0, BASE + 3_600_000), *((at + 1, ts) for at, ts in log)]
    return FakeGateway({("orders", 0): log}, groups={"old": {("orders", 0): len(log)}})


WINDOW = {"since": instant(BASE + 20_000), "until": instant(BASE + 60_000)}


@pytest.mark.parametrize("ahead", [False, True])
def test_late_records_of_a_window_are_planned_and_told(ahead: bool) -> None:
    """A phone without a network, and a clock that is an hour ahead: no record is left out, and the plan does not call it exact."""
    gateway = lagging(late=7, ahead=ahead)
    [part] = (plan := plan_of(gateway, request(**WINDOW))).partitions
    assert (part.target, part.stop) == (20 + ahead, 108 + ahead)
    assert part.resolution is Resolution.UNORDERED
    late = 47 if ahead else 7
    assert any(f"leaves out {late} messages of the window" in warning for warning in plan.warnings)


@pytest.mark.parametrize(
    ("by_broker", "resolution"), [(0, Resolution.EXACT), (50, Resolution.EXACT), (70, Resolution.UNREAD)]
)
def test_times_of_the_broker_are_in_order(by_broker: int, resolution: Resolution) -> None:
    """Such a topic need not be read, if its records behind the window have the broker's times already: it may have been changed."""
    log = [(at, BASE + 1000 * at) for at in range(1000)]
    gateway = FakeGateway({("orders", 0): log}, groups={"old": {("orders", 0): 1000}}, most_read=150)
    gateway.topic_settings = {"orders": TopicSettings(retention_ms=-1, appends_time=True)}
    gateway.by_broker_from = by_broker
    [part] = plan_of(gateway, request(**WINDOW)).partitions
    assert part.resolution is resolution


def test_what_cannot_be_read_is_not_called_exact() -> None:
    """No right to read the topic: the plan says so, and is made."""
    gateway = lagging(late=0)
    gateway.unreadable = "Topic authorization failed."
    [part] = (plan := plan_of(gateway, request(**WINDOW))).partitions
    assert part.resolution is Resolution.UNREAD
    assert any("Topic authorization failed" in warning for warning in plan.warnings)
    with pytest.raises(GuardError, match="it cannot be told"):
        make_range_plan(
            request(), lagging_unread(), ranges={}, windows=[(instant(BASE + 150_000), instant(BASE + 160_000))]
        )


def lagging_unread() -> FakeGateway:
    """Whose records cannot be read."""
    gateway = lagging(late=0)
    gateway.unreadable = "Topic authorization failed."
    return gateway


def test_older_records_behind_the_start_are_told() -> None:
    """Without an end nothing is left out; but the start is the record of a wrong clock, and what follows is replayed too."""
    gateway = lagging(late=0, ahead=True)
    [part] = (plan := plan_of(gateway, request(BASE + 20_000))).partitions
    assert (part.target, part.resolution) == (0, Resolution.BEFORE_START)
    assert any("At least 20 messages older than the start" in warning for warning in plan.warnings)


def test_a_plan_of_an_unordered_window_can_be_applied() -> None:
    """Its first record by Kafka's lookup is the wrong clock's, before the target: no sign of another log."""
    gateway = lagging(late=3, ahead=True)
    plan = plan_of(gateway, request(**WINDOW))
    now = Now(
        cluster=gateway.cluster(), commits={}, group=gateway.group("new"), settings=gateway.settings(["orders"]),
        logs=gateway.logs([("orders", 0)], instants_ms=[plan.since_ms]), now_ms=BASE,
    )  # fmt: skip
    assert check_logs(plan, now, ReplayLimits()) == []
    gateway.records["orders", 0][1] = (1, BASE + 25_000)
    gateway.records["orders", 0][0] = (0, BASE)
    again = gateway.logs([("orders", 0)], instants_ms=[plan.since_ms])
    [refusal] = check_logs(plan, replace(now, logs=again), ReplayLimits())
    assert refusal.code == "log_changed"


def test_without_a_policy_nothing_is_guessed() -> None:
    """A partition without a record at or after the instant: refused, with names and the choices."""
    gateway = orders()
    gateway.records["orders", 1] = []
    gateway.records["orders", 2] = gateway.records["orders", 2][:2]
    with pytest.raises(
        GuardError,
        match=r"1 partition with earlier records alone and 1 partition without a record: orders-1 and orders-2",
    ) as caught:
        plan_of(gateway)
    assert "--after-end" in (caught.value.hint or "")
    assert "in the future" not in caught.value.message


def test_a_start_in_the_future_is_said_first() -> None:
    """It is a slip of the day or the zone; no partition is to blame."""
    asked = replace(request(), since=datetime.now(UTC) + timedelta(hours=24, minutes=1))
    with pytest.raises(GuardError, match=r"^The start is 1 d in the future\. There is no record"):
        plan_of(orders(), asked)


def test_planning_writes_nothing_and_asks_little() -> None:
    """Zero writes; the number of calls does not depend on the number of partitions."""
    calls = []
    for partitions in (1, 3_000):
        gateway = orders(partitions=partitions, records=2)
        plan_of(gateway, request(now_ms() - 60_000))
        assert gateway.writes == []
        assert set(gateway.groups) == {"old"}
        calls.append(gateway.calls)
    assert calls[0] == calls[1] <= 9  # one of them for who else reads the topic, one for records older than the start


def test_the_instant_is_rounded_up_to_whole_milliseconds() -> None:
    """A record in the same millisecond, but before the instant, is not replayed."""
    base = datetime(2026, 11, 21, tzinfo=UTC)
    assert instant_ms(base + timedelta(microseconds=1)) == instant_ms(base) + 1
    assert instant_ms(base + timedelta(milliseconds=1)) == instant_ms(base) + 1
    assert instant_ms(datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=UTC)) == 0


def test_what_cannot_be_meant_is_refused() -> None:
    """The same group twice, a window that ends before it starts, a topic, partition or group that is not there."""
    with pytest.raises(UsageError, match="both 'old'"):
        request(new_group="old")
    with pytest.raises(UsageError, match="not after its start"):
        request(until=instant(0))
    for changes in ({"topics": ["order"]}, {"partitions": {"orders": [9]}}, {"from_group": "odl"}):
        with pytest.raises(UnknownGroupError):
            plan_of(orders(), request(**changes))


def test_named_partitions_only() -> None:
    """--partition narrows the plan, which then does not claim the whole topic."""
    plan = plan_of(orders(), request(partitions={"orders": [2, 0, 2]}))
    assert [part.partition for part in plan.partitions] == [0, 2]
    assert plan.whole_topics == []
    assert chosen_partitions(orders().cluster(), request()) == [("orders", number) for number in range(4)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"topic_settings": {"orders": TopicSettings(retention_ms=-1, compacted=True)}}, "compacted"),
        ({"topic_settings": {"orders": TopicSettings(retention_ms=301_000)}}, "retention may delete"),
        ({"topic_settings": {"orders": TopicSettings()}}, "retention cannot be read"),
        ({"under_replicated": (("orders", 0),)}, "lack a replica"),
    ],
)
def test_what_one_should_know_is_told(change: dict[str, object], words: str) -> None:
    """Compaction, retention, replicas; and always idempotence and assign()."""
    gateway = orders()
    for name, value in change.items():
        setattr(gateway, name, value)
    warnings = plan_of(gateway).warnings
    assert any(words in warning for warning in warnings), warnings
    assert any("idempotent" in warning for warning in warnings)
    assert any("assign()" in warning for warning in warnings)


def test_what_nobody_would_process_is_told() -> None:
    """Between the old group's commit and the target; where nothing is committed the new group begins at the end."""
    gateway = orders()
    gateway.records["orders", 3] = gateway.records["orders", 3][:3]
    gateway.groups["old"] = {("orders", 0): 3, ("orders", 1): 5, ("orders", 3): 1}
    plan = plan_of(gateway, request(after_end=AfterEnd.SKIP))
    assert [part.target for part in plan.partitions] == [5, 5, 5, None]
    assert gaps(plan.partitions, gateway.groups["old"]) == {("orders", 0): 2, ("orders", 3): 2}
    assert any("not yet processed 4 messages" in warning for warning in plan.warnings)
    assert not any("not yet processed" in warning for warning in plan_of(orders()).warnings)


def test_what_the_old_group_reads_and_never_committed_is_told() -> None:
    """It may be at its first record still, one that it cannot process; a partition that it does not read is not its matter."""
    gateway = orders()
    del gateway.groups["old"]["orders", 1], gateway.groups["old"]["orders", 2]
    gateway.members["old"], gateway.assigned["old"] = ["a"], [("orders", 1)]
    assert any("not yet processed 5 messages before the targets" in warning for warning in plan_of(gateway).warnings)


def test_a_quota_says_how_long_it_takes_at_least() -> None:
    """By the broker that has most to send, with the old group's client ids; a group without members tells none."""
    gateway = orders()
    gateway.members, gateway.quota = {"old": ["pod-1"]}, 20.0  # 20 records of 100 bytes
    [words] = [it for it in plan_of(gateway).warnings if "by a quota" in it]
    assert "'old' may read 20 B/s of each broker, by a quota" in words
    assert "those of 'new' would, with the same client ids, take at least 1 min 40 s" in words
    assert "Retention" not in words
    gateway.topic_settings = {
        "orders": TopicSettings(retention_ms=6 * 60_000)
    }  # the window's first record is older than 4 min
    [words] = [it for it in plan_of(gateway).warnings if "by a quota" in it]
    assert "Retention may delete records of it in" in words
    gateway.members = {}
    assert not any("by a quota" in it for it in plan_of(gateway).warnings)


@pytest.mark.parametrize(
    ("start", "told"), [(5, None), (8, "60 % of the window (12 messages)"), (50, "100 % of the window")]
)
def test_what_is_in_remote_storage_alone_is_told(start: int, told: str | None) -> None:
    """By the beginning of the brokers' own disks, with the bytes that each broker reads from there; nothing where nobody tells."""
    gateway = orders()
    gateway.local_start = start
    words = [it for it in plan_of(gateway).warnings if "remote storage" in it]
    assert len(words) == (told is not None)
    if told is not None:
        assert told in words[0] and "by broker 1" in words[0]
    gateway.local_start = None
    assert not any("remote storage" in it for it in plan_of(gateway).warnings)


def test_the_way_out_of_our_tool() -> None:
    """The CSV has a line for each target, and the command quotes what a shell would misread."""
    plan = plan_of(orders(), request(new_group="it's $new"))
    assert to_csv(plan).splitlines()[0] == f"orders,0,{plan.partitions[0].target}"
    assert len(to_csv(plan).splitlines()) == 4
    assert re.search(r"--group 'it'\"'\"'s \$new' --reset-offsets", kafka_command(plan, "b:9092"))


def test_bytes_fall_to_the_leaders() -> None:
    """Messages times the mean size; not known for one partition means not known for its broker."""
    plan = plan_of(orders())
    assert bytes_per_broker(plan) == {1: plan.messages * 100}
    blind = plan.model_copy(
        update={"partitions": [plan.partitions[0].model_copy(update={"bytes_estimate": None}), *plan.partitions[1:]]}
    )
    assert bytes_per_broker(blind) == {1: None}


def test_instances_without_a_partition_are_told_before_a_cutover() -> None:
    """Only then: as many instances as partitions all take part."""
    from workbench.cli.replay_output import preflight_lines

    plan = plan_of(orders(4))
    assert not any("no partition" in line for line in preflight_lines(plan, None, 4))
    assert any(line.startswith("2 instances of 6 may get no partition") for line in preflight_lines(plan, None, 6))


def test_the_command_of_kafkas_own_tool_can_be_copied() -> None:
    """In a panel: whole, with a button beside it."""
    page = plan_html(plan_of(orders()), Path("plan.json"), "b:9092")
    assert re.search(r"<code>[^<]*--reset-offsets[^<]*</code><button class=\"copy\"", page), page[-600:]


def test_who_else_reads_the_topic_is_told() -> None:
    """Groups with commits there, active or not; not the two of the plan; and what is not known of that."""
    gateway = orders()
    gateway.groups |= {"billing": {("orders", 0): 1}, "audit": {("orders", 1): 1}, "far": {("other", 0): 1}, "new": {}}
    gateway.members = {"billing": ["b-0", "b-1"]}
    [words] = [it for it in plan_of(gateway).warnings if "read these topics" in it]
    assert words.startswith("2 other groups read these topics: audit (0 members) and billing (2 members).")
    gateway.others_unknown = "these credentials do not list all groups"
    assert any("cannot be told who else reads" in it and "do not list" in it for it in plan_of(gateway).warnings)
    assert not any("else reads" in it or "read these topics" in it for it in plan_of(orders()).warnings)
    many = orders()
    many.groups |= {f"group-{number}": {("orders", 0): 1} for number in range(12)}
    assert any("12 other groups" in it and "and 4 more" in it for it in plan_of(many).warnings)
