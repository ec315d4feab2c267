"""Plans of ranges: parsed, merged, planned, checked; old plans stay readable as they were."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.replay.fakes import FakeGateway, instant, now_ms, orders, request
from tests.replay.test_planfile import PLAN
from workbench.errors import GuardError, UsageError, WorkbenchError
from workbench.logs.window_end import window_ends
from workbench.plans.journal import Journal
from workbench.plans.strict_document import canonical_hash, write_file
from workbench.queues.position import Position, joined, merged
from workbench.queues.replay_port import TopicSettings
from workbench.replay.apply import ApplyOptions, apply_plan
from workbench.replay.follow import Follower
from workbench.replay.guard import HINTS, ReplayLimits
from workbench.replay.plan_of_given_ranges import make_range_plan, parse_ranges, records_beyond
from workbench.replay.planfile import Plan, read_plan
from workbench.replay.progress import Pace, in_words, next_steps
from workbench.replay.receipt import ReplayOutcome
from workbench.replay.replay_request import PlanRequest
from workbench.replay.verify import VerifyVerdict
from workbench.replay.verify_evidence import Checked, CheckRequest, check
from workbench.settings import Cluster
from workbench.window import parse_instant

NUMBERS = st.integers(0, 60)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=12))
def test_merged_ranges_hold_the_same_offsets(ranges: list[tuple[int, int]]) -> None:
    """By a naive set; in order, and none touches the next."""
    found = merged(ranges)
    assert {o for a, b in found for o in range(a, b)} == {o for a, b in ranges for o in range(a, b)}
    assert all(before[1] < after[0] for before, after in itertools.pairwise(found))
    assert all(start < end for start, end in found)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=12), st.integers(1, 5))
def test_joined_ranges_are_few_and_hold_the_same_offsets(ranges: list[tuple[int, int]], most: int) -> None:
    """Those with the fewest offsets between them become one: no other choice of as many holds fewer offsets."""
    found, parts = joined(ranges, most=most), merged(ranges)
    assert len(found) == min(most, len(parts))
    assert all(any(low <= start and end <= high for low, high in found) for start, end in parts)
    best = (
        min(
            (sum(parts[b - 1][1] - parts[a][0] for a, b in itertools.pairwise([0, *cuts, len(parts)])))
            for cuts in itertools.combinations(range(1, len(parts)), max(0, len(found) - 1))
        )
        if parts
        else 0
    )
    assert sum(high - low for low, high in found) == best


@given(st.lists(st.lists(NUMBERS, min_size=2, max_size=2), min_size=2, max_size=2))
def test_positions_are_ordered_like_their_numbers(pair: list[list[int]]) -> None:
    """Ledger first, then entry; the text is read back."""
    first, second = (Position(tuple(numbers)) for numbers in pair)
    assert (first < second) == (tuple(pair[0]) < tuple(pair[1]))
    assert Position.parse(str(first)) == first
    with pytest.raises(ValueError, match="not an offset"):
        _ = first.offset


@pytest.mark.parametrize("text", ["", "-1", "1:", "1:2:3:4:5", "١", "1 ", "9" * 30])
def test_what_is_no_position_is_refused(text: str) -> None:
    """Also digits of other scripts, and numbers without end."""
    with pytest.raises(ValueError, match="not a position"):
        Position.parse(text)


@pytest.mark.parametrize("word", ["orders:3", "orders:3:5-5", "orders:3:9-2", "a b:1:0-1", "orders:x:0-1"])
def test_a_wrong_range_is_named(word: str) -> None:
    """With how to write one."""
    with pytest.raises(UsageError, match="is not a range"):
        parse_ranges([word])


def gateway() -> FakeGateway:
    """Two partitions of ten records."""
    found = FakeGateway({("orders", number): [(at, 1000 + at) for at in range(10)] for number in range(2)})
    found.groups["old"] = {("orders", 0): 10, ("orders", 1): 10}
    return found


def plan_of(words: list[str], source: FakeGateway) -> Plan:
    """A plan of these ranges."""
    now = parse_instant("now")
    request = PlanRequest(
        cluster="mine", from_group="old", new_group="new", topics=["orders"], since=now, requested_since="ranges"
    )
    return make_range_plan(request, source, ranges=parse_ranges(words))


def test_a_plan_of_ranges_from_file_to_commit(tmp_path: Path) -> None:
    """Its first positions are committed; its end is fixed; what other consumers would take besides is told beforehand."""
    source = gateway()
    plan = plan_of(["orders:0:2-4", "orders:0:6-7", "orders:1:9-10"], source)
    assert plan.range_table() == {"orders": {0: [(2, 4), (6, 7)], 1: [(9, 10)]}}
    assert plan.messages == 4
    assert [records_beyond(part) for part in plan.partitions] == [5, 0]
    assert any("5 records between and behind" in warning for warning in plan.warnings)
    path = tmp_path / "plan.json"
    write_file(path, plan.document())
    again = read_plan(path)
    assert again == plan
    journal = Journal(path=tmp_path / "journal.jsonl")
    receipt = apply_plan(again, path, source, journal, ApplyOptions(quiet_seconds=0), sleep=lambda _: None)
    assert receipt.outcome is ReplayOutcome.DONE, receipt.reasons
    assert source.groups["new"] == {("orders", 0): 2, ("orders", 1): 9}
    logs = source.logs([part.key for part in plan.partitions], stable=True)
    ends = window_ends(again, logs, now_ms=0)
    assert {key: (end.stop, end.open) for key, end in ends.items()} == {
        ("orders", 0): (7, None),
        ("orders", 1): (10, None),
    }


def test_ranges_that_retention_is_about_to_delete_are_refused(tmp_path: Path) -> None:
    """As a window is: the plan warns, and apply refuses, before the group begins behind what it was to read."""
    source = gateway()
    for log in source.records.values():
        log[:] = [(at, now_ms() - (10 - at) * 60_000) for at, _ in log]
    source.topic_settings["orders"] = TopicSettings(retention_ms=10 * 60_000)
    plan = plan_of(["orders:0:2-4"], source)
    assert any("retention may delete records of the window" in warning for warning in plan.warnings), plan.warnings
    journal, path = Journal(path=tmp_path / "journal.jsonl"), tmp_path / "plan.json"
    receipt = apply_plan(plan, path, source, journal, ApplyOptions(quiet_seconds=0), sleep=lambda _: None)
    assert receipt.outcome is ReplayOutcome.REFUSED
    assert receipt.hints == [HINTS["retention_margin"]]
    late = ApplyOptions(quiet_seconds=0, limits=ReplayLimits(retention_margin_seconds=0.0))
    assert apply_plan(plan, path, source, journal, late, sleep=lambda _: None).outcome is ReplayOutcome.DONE


def test_ranges_outside_of_the_log_are_refused() -> None:
    """Before the start, behind the end, on a partition that is not there."""
    with pytest.raises(GuardError, match="is not within its log"):
        plan_of(["orders:0:5-11"], gateway())
    with pytest.raises(UsageError, match="orders-7 is not among"):
        plan_of(["orders:7:0-1"], gateway())


@pytest.mark.parametrize(
    "change",
    [
        {"ranges": [["2", "4"], ["4", "7"]]},
        {"ranges": [["6", "7"], ["2", "4"]]},
        {"ranges": [["2", "4"]]},
        {"ranges": [["3", "4"], ["6", "7"]]},
        {"ranges": [["1:2", "4"], ["6", "7"]]},
        {"ranges": None},
        {"messages": 4},
    ],
)
def test_ranges_that_make_no_sense_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    """Even where the hash fits."""
    document = plan_of(["orders:0:2-4", "orders:0:6-7"], gateway()).document()
    document["partitions"][0] |= change
    document["hash"] = canonical_hash(document)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document))
    with pytest.raises(WorkbenchError):
        read_plan(path)


def test_a_plan_without_ranges_is_written_as_before(tmp_path: Path) -> None:
    """The same fields and the same hash: earlier versions read it, and files of earlier versions apply."""
    document = PLAN.sealed().document()
    assert document["schema"] == "workbench.replay-plan/1"
    assert all("ranges" not in part for part in document["partitions"])
    path = tmp_path / "plan.json"
    write_file(path, document)
    assert read_plan(path).hash == document["hash"] == canonical_hash(document)


def test_a_plan_file_of_version_0_1_is_read() -> None:
    """Written by an earlier version; its hash still fits, and its offsets are those in it."""
    plan = read_plan(Path(__file__).parent / "old_plan.json")
    assert not plan.is_of_ranges
    assert plan.range_table() is None
    assert plan.targets and all(part.spans == [(part.target, part.stop)] for part in plan.partitions if part.messages)


def test_follow_says_when_all_ranges_are_through_and_offers_the_switch_back() -> None:
    """A range is through once its end is committed, also while a later one of its partition is not."""
    source = gateway()
    plan = plan_of(["orders:0:2-4", "orders:0:6-7", "orders:1:9-10"], source)
    follower = Follower(plan, source, lambda ranges: dict.fromkeys(ranges, 1))
    seen = []
    for commits in ({0: 3, 1: 9}, {0: 4, 1: 9}, {0: 6, 1: 10}, {0: 7, 1: 10}):
        source.groups["new"] = {("orders", number): at for number, at in commits.items()}
        look = follower.look()
        seen.append((look.ranges_through, look.complete))
        assert f"{look.ranges_through} of 3 ranges through" in in_words(look, Pace(), group="new")
    assert seen == [(0, False), (1, False), (2, False), (3, True)]
    steps = next_steps(plan, look, Path("my plan.json"))
    assert steps[0] == "All 3 ranges are through."
    assert "workbench replay cutover 'my plan.json' --fleet fleet.toml --back" in steps[-2]
    assert not any("still has" in line for line in steps)
    source.members["new"] = ["m"]
    assert any("still has 1 member" in line for line in next_steps(plan, follower.look(), Path("plan.json")))
    assert next_steps(PLAN, look, Path("plan.json")) == ["Complete. Next: workbench replay verify plan.json"]


MINUTE = 60_000


def of_windows(source: FakeGateway, since_ms: int, until_ms: int, **changes: Any) -> Plan:
    """A plan of the records of one window."""
    asked = request(since_ms, until=instant(until_ms), **changes)
    return make_range_plan(asked, source, ranges={}, windows=[(asked.since, instant(until_ms))])


def checked(source: FakeGateway, plan: Plan) -> Checked:
    """What `verify` says by the commits; no rest holds a record."""
    return check(plan, Cluster(name="c", bootstrap="b:9092"), source, lambda it: dict.fromkeys(it, 0), CheckRequest())


def quiet() -> tuple[FakeGateway, Plan]:
    """Partition 3 has no record of the window when the plan is made; the new group processes what there is."""
    source = orders()
    begin = now_ms() - 5 * MINUTE
    source.records["orders", 3] = source.records["orders", 3][:3]
    plan = of_windows(source, begin, begin + 3 * MINUTE)
    source.groups["new"] = {part.key: part.stop for part in plan.partitions}
    return source, plan


def test_late_records_where_no_range_was_planned_are_seen(tmp_path: Path) -> None:
    """A producer that was cut off sends what it has kept: a partition without a record of the window gets some."""
    source, plan = quiet()
    assert plan.beside == [("orders", 3, 3)] and plan.whole_topics == ["orders"]
    assert checked(source, plan).verdict is VerifyVerdict.VERIFIED
    source.records["orders", 3] += [(3, plan.windows_ms[0][1]), (4, plan.windows_ms[0][0] + 1)]
    found = checked(source, plan)
    assert found.verdict is VerifyVerdict.INCOMPLETE
    assert any(
        "orders-3 had no record of the window when the plan was made, and has 1 record" in it for it in found.notes
    )
    source.groups["new"]["orders", 3] = 5  # consumers other than the runtime, and where they began is not known
    assert checked(source, plan).verdict is VerifyVerdict.CANNOT_TELL
    write_file(tmp_path / "plan.json", plan.document())
    assert read_plan(tmp_path / "plan.json") == plan


def test_added_partitions_are_seen_by_a_plan_of_windows(tmp_path: Path) -> None:
    """As by any other: apply refuses, and verify cannot tell."""
    source, plan = quiet()
    source.records["orders", 4] = [(0, plan.windows_ms[0][0] + 1)]
    assert checked(source, plan).verdict is VerifyVerdict.CANNOT_TELL
    del source.groups["new"]
    path, journal = tmp_path / "plan.json", Journal(path=tmp_path / "j")
    receipt = apply_plan(plan, path, source, journal, ApplyOptions(quiet_seconds=0), sleep=lambda _: None)
    assert receipt.hints == [HINTS["partitions_added"]]
    chosen = of_windows(source, plan.since_ms, plan.windows_ms[0][1], partitions={"orders": [0]})
    assert (chosen.beside, chosen.whole_topics) == (None, [])


def test_a_window_of_ranges_that_is_not_over_is_never_verified() -> None:
    """More of its records may still arrive, whatever is committed."""
    source = orders()
    plan = of_windows(source, now_ms() - 5 * MINUTE, now_ms() + 60 * MINUTE)
    source.groups["new"] = {part.key: part.stop for part in plan.partitions}
    found = checked(source, plan)
    assert found.verdict is VerifyVerdict.CANNOT_TELL
    assert all("The window ends at" in part.reason for part in found.partitions)
