"""The end of a replay: never a group that is still needed."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.replay.fakes import FakeGateway, instant, killed_before_its_last_line, now_ms, orders, request
from tests.replay.fakes import plan_of as plan_of_window
from tests.replay.test_plan_of_given_ranges import gateway, plan_of
from workbench.errors import EvidenceError, GuardError
from workbench.plans.journal import Journal, only_one
from workbench.queues.snapshot_views import Partition
from workbench.replay.follow import check_same_cluster
from workbench.replay.group_gap import left_to_old
from workbench.replay.retire import retire, retired_path

RANGES = ["orders:0:2-4", "orders:1:5-10"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the plan, and for the state."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def replayed() -> FakeGateway:
    """Where the new group has processed both ranges."""
    source = gateway()
    source.groups["new"] = {("orders", 0): 4, ("orders", 1): 10}
    return source


def test_the_new_group_is_deleted_once_it_is_through(place: Path) -> None:
    """Its commits are kept in a file; the old group is as it was; the journal has both lines; once more is safe."""
    source = replayed()
    plan = plan_of(RANGES, gateway())
    journal = Journal(path=place / "journal.jsonl")
    for _ in range(2):
        retire(plan, place / "plan.json", source, journal, stays=False, now_ms=0)
    assert "new" not in source.groups
    assert source.groups["old"] == {("orders", 0): 10, ("orders", 1): 10}
    assert json.loads(retired_path(place / "plan.json").read_text())["commits"] == [["orders", 0, 4], ["orders", 1, 10]]
    assert [(it.action, it.phase, it.outcome) for it in journal.read()[0]] == [
        ("retire", "begin", None),
        ("retire", "end", "done"),
    ]


def test_a_removal_that_was_killed_before_it_told_so_is_told_by_the_next_run(place: Path) -> None:
    """Else the journal would end with an interruption for good, and triage would go on to wait for that replay."""
    source, journal = replayed(), Journal(path=place / "journal.jsonl")
    plan = plan_of(RANGES, gateway())
    for _ in range(2):
        retire(plan, place / "plan.json", source, journal, stays=False, now_ms=0)
        killed_before_its_last_line(journal)
    retire(plan, place / "plan.json", source, journal, stays=False, now_ms=0)
    assert [(it.phase, it.outcome) for it in journal.read()[0]][-1] == ("end", "done")
    assert json.loads(retired_path(place / "plan.json").read_text())["commits"] == [["orders", 0, 4], ["orders", 1, 10]]


def test_a_group_whose_topic_was_made_anew_is_kept(place: Path) -> None:
    """Its commits are of another log, so they do not prove that it processed the window."""
    source = replayed()
    plan = plan_of(RANGES, gateway())
    source.topic_ids["orders"] = "another id"
    with pytest.raises(GuardError, match="deleted and recreated"):
        retire(plan, place / "plan.json", source, Journal(path=place / "j"), stays=False, now_ms=0)
    assert set(source.groups) == {"old", "new"}


def test_a_topic_that_was_deleted_is_no_broker_that_does_not_answer(place: Path) -> None:
    """Trying again would not help: verify, follow and retire say what has happened. A hidden topic is another matter."""
    source, plan = replayed(), plan_of(RANGES, gateway())
    source.records = {key: it for key, it in source.records.items() if key[0] != "orders"}
    with pytest.raises(EvidenceError, match="topic 'orders' was deleted since the plan was made"):
        check_same_cluster(plan, source)
    with pytest.raises(EvidenceError, match="topic 'orders' was deleted since the plan was made"):
        retire(plan, place / "plan.json", source, Journal(path=place / "j"), stays=False, now_ms=0)
    assert set(source.groups) == {"old", "new"}
    source.denied.add("orders")
    check_same_cluster(plan, source)


@pytest.mark.parametrize("stays", [False, True])
def test_a_group_with_members_is_not_deleted(place: Path, stays: bool) -> None:
    """Whichever it is."""
    source = replayed()
    source.members["old" if stays else "new"] = ["svc-0"]
    plan = plan_of(RANGES, gateway())
    with pytest.raises(GuardError, match="1 member"):
        retire(plan, place / "plan.json", source, Journal(path=place / "j"), stays=stays, now_ms=0)
    assert set(source.groups) == {"old", "new"}


def test_what_is_left_only_to_it_keeps_it(place: Path) -> None:
    """Records of the window; a place to continue that the old group has lost; partitions beyond the plan."""
    plan = plan_of(RANGES, gateway())

    def refused(source: FakeGateway, words: str, *, stays: bool = False) -> None:
        with pytest.raises(GuardError, match=words):
            retire(plan, place / "plan.json", source, Journal(path=place / "j"), stays=stays, now_ms=0)
        assert set(source.groups) == {"old", "new"}

    source = replayed()
    source.groups["new"]["orders", 1] = 9
    refused(source, "has not processed the whole window: orders-1")
    source = replayed()
    del source.groups["new"]["orders", 1]
    refused(source, "has not processed the whole window: orders-1")
    source = replayed()
    del source.groups["old"]["orders", 0]
    refused(source, "no commit on orders-0 any more")
    source = replayed()
    source.records["payments", 0] = []
    source.groups["new"]["payments", 0] = 0
    refused(source, "Only 'new' has a commit on payments-0")
    source = replayed()
    source.groups["old"]["payments", 0] = 3
    refused(source, "no commit on payments-0, which 'old' has read", stays=True)
    source = replayed()
    source.topic_ids["orders"] = "another"
    refused(
        source, "orders was deleted and recreated since the plan was made: it cannot be told what is left", stays=True
    )


@pytest.mark.parametrize("stays", [False, True])
def test_commits_that_are_hidden_are_not_deleted_with_the_group(place: Path, stays: bool) -> None:
    """Its commits are taken away as far as they are seen, and the group stands on with the others; that is told."""
    source = replayed()
    group = "old" if stays else "new"
    source.records["secret", 0] = [(0, 0)]
    source.groups[group]["secret", 0] = 7
    source.denied = {"secret"}
    plan = plan_of(RANGES, gateway())
    found = retire(plan, place / "plan.json", source, Journal(path=place / "j"), stays=stays, now_ms=0)
    assert source.groups[group] == {("secret", 0): 7}
    assert found.stands
    assert ("delete", group) not in source.writes


def test_a_retire_that_took_a_part_goes_on(place: Path) -> None:
    """One commit may not be taken away: an error by name. The next run is judged by all that was there, and keeps the file of it."""
    source = replayed()
    source.hides = True
    plan, journal = plan_of(RANGES, gateway()), Journal(path=place / "j")
    take = source.delete_commits

    def one(group: str, partitions: Collection[Partition]) -> Mapping[Partition, str]:
        take(group, [key for key in partitions if key[1] == 0])
        return {("orders", 1): "the topic may not be described with these credentials"}

    source.delete_commits = one  # type: ignore[method-assign]
    with pytest.raises(GuardError, match="still has 1 commit, the first on orders-1: the topic may not be described"):
        retire(plan, place / "plan.json", source, journal, stays=False, now_ms=0)
    source.delete_commits = take  # type: ignore[method-assign]
    found = retire(plan, place / "plan.json", source, journal, stays=False, now_ms=0)
    assert found.commits == {("orders", 0): 4, ("orders", 1): 10}
    assert source.groups["new"] == {}
    assert json.loads(retired_path(place / "plan.json").read_text())["commits"] == [["orders", 0, 4], ["orders", 1, 10]]
    # A group of that name that was applied to since is another one: it has to prove its window itself.
    source.groups["new"] = {("orders", 0): 4}
    with pytest.raises(GuardError, match="whole window: orders-1"):
        retire(plan, place / "plan.json", source, journal, stays=False, now_ms=0)


def test_the_new_group_can_stay(place: Path) -> None:
    """Then the old one is deleted."""
    source = replayed()
    retire(plan_of(RANGES, gateway()), place / "plan.json", source, Journal(path=place / "j"), stays=True, now_ms=0)
    assert set(source.groups) == {"new"}


@pytest.mark.parametrize("busy", ["old", "new"])
def test_nothing_is_deleted_while_another_plan_changes_one_of_the_groups(place: Path, busy: str) -> None:
    """A second plan that commits to the old group would lose what it has just written."""
    source = replayed()
    plan = plan_of(RANGES, gateway())
    with only_one(busy), pytest.raises(GuardError, match=f"Another process is changing the group '{busy}'"):
        retire(plan, place / "plan.json", source, Journal(path=place / "j"), stays=True, now_ms=0)
    assert set(source.groups) == {"old", "new"}


def test_a_window_that_ends_with_markers_is_done(place: Path) -> None:
    """A consumer commits behind the last record, and a transaction's marker follows: nothing is left. A record there is."""
    source = gateway()
    source.ends = {("orders", 0): 11, ("orders", 1): 11}
    plan = plan_of(["orders:0:5-11", "orders:1:5-11"], source)
    source.groups["new"] = {("orders", 0): 10, ("orders", 1): 9}

    def once() -> None:
        retire(plan, place / "plan.json", source, Journal(path=place / "j"), stays=False, now_ms=0)

    with pytest.raises(GuardError, match="whole window: orders-1"):
        once()
    source.groups["new"]["orders", 1] = 10
    source.unreadable = "Topic authorization failed."
    with pytest.raises(GuardError, match="whole window"):
        once()
    source.unreadable = None
    once()
    assert "new" not in source.groups


def test_what_retention_has_taken_does_not_keep_it_for_ever(place: Path) -> None:
    """Whether it was processed cannot be told; a person may say that it is enough. Also where the commit stands before the log."""
    for commit in (10, 7):
        source = replayed()
        source.groups["new"]["orders", 1] = commit
        source.starts["orders", 1] = 10
        plan = plan_of(RANGES, gateway())
        with pytest.raises(
            GuardError, match="cannot be told whether 'new' processed the whole window, on orders-1"
        ) as caught:
            retire(plan, place / "plan.json", source, Journal(path=place / "j"), stays=False, now_ms=0)
        assert "--allow-unproven" in (caught.value.hint or "")
        retire(plan, place / "plan.json", source, Journal(path=place / "j"), stays=False, now_ms=0, allow_unproven=True)
        assert "new" not in source.groups


@given(st.integers(0, 10), st.integers(2, 10))
def test_what_is_left_to_the_old_group_is_counted_naively(old: int, new: int) -> None:
    """Between its commit and that of the new one, which has read its ranges alone."""
    plan = plan_of(["orders:0:2-4", "orders:0:6-7"], gateway())
    read = {2, 3, 6}
    left = [at for at in range(old, new) if at not in read]
    found = left_to_old(plan.partitions, old={("orders", 0): old}, new={("orders", 0): new})
    assert found == ({("orders", 0): len(left)} if left else {})


def test_the_old_group_is_kept_while_records_are_left_to_it(place: Path) -> None:
    """It stopped before the new one's start; or behind the ranges, which are all that the new one has read."""
    source = orders()
    plan = plan_of_window(source)
    source.groups = {"old": dict.fromkeys(source.records, 2), "new": dict.fromkeys(source.records, 10)}

    def once(**more: bool) -> None:
        retire(plan, place / "plan.json", source, Journal(path=place / "j"), stays=True, now_ms=0, **more)

    with pytest.raises(GuardError, match="12 messages are left to 'old' alone"):
        once()
    source.groups["old"] = dict.fromkeys(source.records, 5)
    once()
    source.groups["old"] = dict.fromkeys(source.records, 4)
    with pytest.raises(GuardError, match="4 messages are left"):
        once()
    once(allow_gap=True)
    assert set(source.groups) == {"new"}


def test_a_partition_that_was_added_since_keeps_the_group(place: Path) -> None:
    """It may have records of the window, and nobody planned where the group begins there; `verify` cannot tell, either."""
    source = orders()
    until = now_ms() + 3_600_000
    plan = plan_of_window(source, request(until=instant(until)))
    source.groups["new"] = dict.fromkeys(source.records, 10)
    source.records["orders", 4] = [(0, now_ms())]

    def once(**more: bool) -> None:
        retire(plan, place / "plan.json", source, Journal(path=place / "j"), stays=False, now_ms=until + 60_000, **more)

    with pytest.raises(GuardError, match="orders-4 was added since the plan was made, and has 1 record of the window"):
        once()
    source.records["orders", 4] = [(0, until + 1)]
    once()
    assert "new" not in source.groups


def test_a_window_that_is_not_over_is_not_retired(place: Path) -> None:
    """All that is there is committed, but more may come; or a transaction is open, which decides what counts."""
    source = orders()
    until = now_ms() + 3_600_000
    plan = plan_of_window(source, request(until=instant(until)))
    source.groups["new"] = dict.fromkeys(source.records, 10)

    def once(ms: int) -> None:
        retire(plan, place / "plan.json", source, Journal(path=place / "j"), stays=False, now_ms=ms)

    with pytest.raises(GuardError, match="more of its records may still arrive"):
        once(now_ms())
    source.stable = {("orders", 0): 9}
    with pytest.raises(GuardError, match="A transaction is open at 9"):
        once(until + 1)
    source.stable.clear()
    once(until + 1)
    assert "new" not in source.groups
