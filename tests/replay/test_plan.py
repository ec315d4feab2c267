"""Planning against a naive oracle that looks at every record."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.replay.fakes import FakeGateway, instant, now_ms, orders, plan_of, request
from workbench.api.plan_view import plan_html
from workbench.errors import GuardError, UnknownGroupError, UsageError
from workbench.replay.gateway import TopicSettings
from workbench.replay.plan import bytes_per_broker, chosen_partitions, gaps, kafka_command, to_csv
from workbench.replay.planfile import AfterEnd, Resolution, instant_ms

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
)
def test_each_partition_is_what_a_naive_scan_says(
    drawn: list[tuple[list[tuple[int, int]], int, int]], since: int, length: int | None, policy: str
) -> None:
    """First record at or after the instant; where there is none, the policy; messages up to the window's end."""
    parts = {("orders", number): log for number, log in enumerate(drawn)}
    gateway = FakeGateway(
        {part: log[0] for part, log in parts.items()},
        starts={part: log[1] for part, log in parts.items()},
        ends={part: log[2] for part, log in parts.items()},
        groups={"old": {("orders", 0): 0}},
    )
    since_ms, until_ms = BASE + since, None if length is None else BASE + since + length
    changes = {"after_end": AfterEnd(policy), "until": None if until_ms is None else instant(until_ms)}
    plan = plan_of(gateway, request(since_ms, **changes))
    for planned in plan.partitions:
        records, start, end = parts[planned.key]
        later = [(offset, ts) for offset, ts in records if ts >= since_ms]
        stop = next((offset for offset, ts in records if until_ms is not None and ts >= until_ms), end)
        assert (planned.log_start, planned.log_end, planned.stop) == (start, end, stop)
        if later:
            target, timestamp = later[0]
            before = target == start and timestamp > since_ms
            assert planned.resolution is (Resolution.BEFORE_START if before else Resolution.EXACT)
            assert (planned.target, planned.target_timestamp) == (target, timestamp)
            assert planned.messages == max(0, stop - target)
            wanted = [offset for offset, ts in records if ts >= since_ms and (until_ms is None or ts < until_ms)]
            assert all(offset >= target for offset in wanted), "a record of the window would be skipped"
        else:
            assert planned.resolution is (Resolution.AFTER_END if end > start else Resolution.EMPTY)
            assert planned.target == (end if policy == "end" else None)
            assert planned.messages == 0
            assert planned.target_timestamp is None
    assert plan.messages == sum(part.messages for part in plan.partitions)


def test_without_a_policy_nothing_is_guessed() -> None:
    """A partition without a record at or after the instant: refused, with names and the choices."""
    gateway = orders()
    gateway.records["orders", 1] = []
    gateway.records["orders", 2] = gateway.records["orders", 2][:2]
    with pytest.raises(
        GuardError, match=r"1 partition after_end and 1 partition empty: orders-1 and orders-2"
    ) as caught:
        plan_of(gateway)
    assert "--after-end" in (caught.value.hint or "")


def test_planning_writes_nothing_and_asks_little() -> None:
    """Zero writes; the number of calls does not depend on the number of partitions."""
    calls = []
    for partitions in (1, 3_000):
        gateway = orders(partitions=partitions, records=2)
        plan_of(gateway, request(now_ms() - 60_000))
        assert gateway.writes == []
        assert set(gateway.groups) == {"old"}
        calls.append(gateway.calls)
    assert calls[0] == calls[1] <= 7


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
    from workbench.cli.replay_show import preflight_lines

    plan = plan_of(orders(4))
    assert not any("no partition" in line for line in preflight_lines(plan, None, 4))
    assert any(line.startswith("2 instances of 6 may get no partition") for line in preflight_lines(plan, None, 6))


def test_the_command_of_kafkas_own_tool_can_be_copied() -> None:
    """In a panel: whole, with a button beside it."""
    page = plan_html(plan_of(orders()), Path("plan.json"), "b:9092")
    assert re.search(r"<code>[^<]*--reset-offsets[^<]*</code><button class=\"copy\"", page), page[-600:]
