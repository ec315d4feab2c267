"""Applying: guards, the order of things, what is read back, and every point at which it may be cut off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.replay.fakes import FakeGateway, killed_before_its_last_line, now_ms, orders, plan_of, request
from workbench.errors import GuardError, OutputError, SourceUnreachableError, UsageError
from workbench.plans.journal import Journal, begun_replays, only_one
from workbench.plans.strict_document import write_file
from workbench.queues.replay_port import TopicSettings
from workbench.queues.snapshot_views import Partition
from workbench.replay.apply import ApplyOptions, apply_plan
from workbench.replay.guard import HINTS, ReplayLimits
from workbench.replay.planfile import AfterEnd, Plan
from workbench.replay.receipt import Receipt, ReplayOutcome, Status, read_rollback, receipt_path, rollback_path
from workbench.replay.rollback_of_apply import roll_back


class Place:
    """A plan on disk, its gateway and its journal."""

    def __init__(self, folder: Path, gateway: FakeGateway, plan: Plan | None = None) -> None:
        self.gateway = gateway
        self.plan = plan or plan_of(gateway)
        self.path = folder / "plan.json"
        write_file(self.path, self.plan.document())
        self.journal = Journal(path=folder / "journal.jsonl")
        self.slept: list[float] = []
        gateway.calls = 0

    def apply(self, *, dry_run: bool = False, quiet: float | None = 0.0, **limits: Any) -> Receipt:
        """Apply it without waiting."""
        options = ApplyOptions(limits=ReplayLimits(**limits), quiet_seconds=quiet, dry_run=dry_run)
        return apply_plan(self.plan, self.path, self.gateway, self.journal, options, sleep=self.slept.append)

    def phases(self) -> list[tuple[str, str | None]]:
        """Of the journal."""
        return [(entry.phase, entry.outcome) for entry in self.journal.read()[0]]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Four partitions, a new group that does not exist."""
    return Place(tmp_path, orders())


def test_it_commits_reads_back_and_leaves_papers(place: Place) -> None:
    """Done means read back; rollback file, receipt and two lines of the journal lie there; the old group is untouched."""
    before = dict(place.gateway.groups["old"])
    receipt = place.apply()
    assert receipt.outcome is ReplayOutcome.DONE
    assert {part.status for part in receipt.partitions} == {Status.COMMITTED}
    assert place.gateway.groups["new"] == place.plan.targets
    assert place.gateway.groups["old"] == before
    assert read_rollback(rollback_path(place.path)).before == []
    assert json.loads(receipt_path(place.path).read_text())["outcome"] == "done"
    begin, end = place.journal.read()[0]
    assert (begin.phase, end.phase, end.outcome) == ("begin", "end", "done")
    assert end.changes == [("orders", n, None, place.plan.targets["orders", n], None) for n in range(4)]
    assert end.plan == place.plan.hash


def test_again_changes_nothing(place: Place) -> None:
    """A second run writes nothing and says done."""
    place.apply()
    writes = len(place.gateway.writes)
    receipt = place.apply()
    assert (receipt.outcome, receipt.resumed) == (ReplayOutcome.DONE, True)
    assert len(place.gateway.writes) == writes
    assert {part.status for part in receipt.partitions} == {Status.UNCHANGED}


def test_a_dry_run_writes_nothing(place: Place, tmp_path: Path) -> None:
    """Neither to the cluster nor to the disk."""
    before = sorted(tmp_path.iterdir())
    receipt = place.apply(dry_run=True)
    assert receipt.outcome is ReplayOutcome.DRY_RUN
    assert {part.status for part in receipt.partitions} == {Status.WOULD_COMMIT}
    assert place.gateway.writes == []
    assert "new" not in place.gateway.groups
    assert sorted(path for path in tmp_path.iterdir() if path.name != "state") == before


def test_the_rollback_file_is_there_before_the_first_write(place: Place) -> None:
    """And so is the journal's first line."""
    seen: list[bool] = []

    def look() -> None:
        seen.extend([rollback_path(place.path).exists(), place.phases() == [("begin", None)]])

    place.gateway.before_commit = look
    place.apply()
    assert seen == [True, True]


@pytest.mark.parametrize("missing", ["journal", "rollback"])
def test_without_papers_nothing_is_written(place: Place, missing: str) -> None:
    """A journal or rollback file that cannot be written stops it before the cluster is touched."""
    if missing == "journal":
        place.journal.path.mkdir()
    else:
        rollback_path(place.path).mkdir()
    with pytest.raises(UsageError):
        place.apply()
    assert place.gateway.writes == []


def guard_cases() -> list[Any]:
    """What may have changed since the plan was made, and the guard that sees it."""

    def moved_on(gateway: FakeGateway) -> None:
        gateway.starts["orders", 1] = 9

    def anew(gateway: FakeGateway) -> None:
        gateway.records["orders", 2] = [(0, now_ms())]

    def more(gateway: FakeGateway) -> None:
        gateway.records["orders", 4] = []

    def gone(gateway: FakeGateway) -> None:
        del gateway.records["orders", 3]

    def compacted_away(gateway: FakeGateway) -> None:
        del gateway.records["orders", 0][5]

    def anew_and_shorter(gateway: FakeGateway) -> None:
        for part in gateway.records:
            gateway.records[part] = [(offset, now_ms()) for offset in range(7)]

    def anew_and_longer(gateway: FakeGateway) -> None:
        for part in gateway.records:
            gateway.records[part] = [(offset, 0 if offset < 5 else now_ms()) for offset in range(50)]

    def anew_and_alike(gateway: FakeGateway) -> None:
        gateway.topic_ids["orders"] = "another id"

    def no_topic(gateway: FakeGateway) -> None:
        gateway.records.clear()

    return [
        pytest.param("other_cluster", lambda g: setattr(g, "cluster_id", "another"), id="other_cluster"),
        pytest.param("live_members", lambda g: g.members.update(new=["a-0"]), id="live_members"),
        pytest.param("existing_commits", lambda g: g.groups.update(new={("x", 0): 1}), id="existing_commits"),
        pytest.param("target_deleted", moved_on, id="target_deleted"),
        pytest.param("target_deleted", compacted_away, id="compacted_away"),
        pytest.param("log_changed", anew, id="log_changed"),
        pytest.param("log_changed", anew_and_shorter, id="anew_and_shorter"),
        pytest.param("log_changed", anew_and_longer, id="anew_and_longer"),
        pytest.param("log_changed", anew_and_alike, id="anew_and_alike"),
        pytest.param("partitions_added", more, id="partitions_added"),
        pytest.param("partition_gone", gone, id="partition_gone"),
        pytest.param("topic_gone", no_topic, id="topic_gone"),
        pytest.param("under_replicated", lambda g: setattr(g, "under_replicated", (("orders", 0),)), id="replicas"),
        pytest.param(
            "retention_margin",
            lambda g: g.topic_settings.update(orders=TopicSettings(retention_ms=6 * 60_000)),
            id="retention_margin",
        ),
    ]


@pytest.mark.parametrize(("code", "change"), guard_cases())
def test_each_guard_refuses(place: Place, code: str, change: Any) -> None:
    """Nothing is written, every partition says refused, and the hint is the guard's own."""
    change(place.gateway)
    receipt = place.apply()
    assert receipt.outcome is ReplayOutcome.REFUSED
    assert receipt.hints == [HINTS[code]]
    assert receipt.reasons
    assert {part.status for part in receipt.partitions} == {Status.REFUSED}
    assert place.gateway.writes == []
    assert place.phases() == []
    assert not rollback_path(place.path).exists()


def test_live_members_are_told_for_each_partition(place: Place) -> None:
    """With who they are."""
    place.gateway.members["new"] = ["svc-0", "svc-1"]
    receipt = place.apply()
    assert [part.error for part in receipt.partitions] == ["The group is stable with 2 members: svc-0 and svc-1."] * 4


def test_what_may_be_allowed_is_allowed(tmp_path: Path) -> None:
    """Earlier commits, missing replicas and a short retention, each by its own word; other topics' commits stay."""
    gateway = orders()
    gateway.groups["new"] = {("orders", 0): 1, ("other", 0): 7}
    gateway.topic_settings["orders"] = TopicSettings(retention_ms=60_000)
    place = Place(tmp_path, gateway)
    gateway.under_replicated = (("orders", 0),)
    receipt = place.apply(allow_existing=True, allow_under_replicated=True, retention_margin_seconds=0.0)
    assert receipt.outcome is ReplayOutcome.DONE
    assert gateway.groups["new"] == {**place.plan.targets, ("other", 0): 7}
    assert read_rollback(rollback_path(place.path)).commits == {("orders", 0): 1, ("other", 0): 7}


def test_a_broker_without_room_is_refused_by_its_name(place: Place) -> None:
    """Only one that leads partitions of the plan, and unless it is allowed."""
    options = {
        "limits": ReplayLimits(),
        "quiet_seconds": 0.0,
        "busy": {1: "its network threads are idle for 5 %", 9: "x"},
    }

    def applied(**changes: Any) -> Receipt:
        chosen = ApplyOptions(**{**options, **changes})
        return apply_plan(place.plan, place.path, place.gateway, place.journal, chosen, sleep=place.slept.append)

    receipt = applied()
    assert receipt.outcome is ReplayOutcome.REFUSED and place.gateway.writes == []
    [reason] = receipt.reasons
    assert reason.startswith("Broker 1, which leads ") and "idle for 5 %" in reason
    assert "workbench impact" in receipt.hints[0]
    assert applied(dry_run=True).outcome is ReplayOutcome.REFUSED
    assert applied(limits=ReplayLimits(allow_busy_brokers=True)).outcome is ReplayOutcome.DONE
    assert applied(busy={}, notes=("Not known.",), dry_run=True).hints == ["Not known."]


def test_retention_by_size_is_seen_by_its_speed(place: Place) -> None:
    """The log's start has come half of the way to the target since the plan was made: no time is left."""
    for part in place.gateway.records:
        place.gateway.starts[part] = 3
    receipt = place.apply()
    assert receipt.outcome is ReplayOutcome.REFUSED
    assert "Retention may delete" in receipt.reasons[0]


def test_commits_that_move_are_seen(place: Place) -> None:
    """A consumer that uses assign() is no member, but it commits: two looks find it."""
    place.gateway.groups["new"] = {("orders", 0): 1}
    options = ApplyOptions(limits=ReplayLimits(allow_existing=True), quiet_seconds=6.0)

    def sleep(seconds: float) -> None:
        assert 5.0 < seconds <= 6.0
        place.gateway.groups["new"]["orders", 0] = 2

    receipt = apply_plan(place.plan, place.path, place.gateway, place.journal, options, sleep=sleep)
    assert receipt.outcome is ReplayOutcome.REFUSED
    assert receipt.partitions[0].error == "Its commit moved from 1 to 2 within 6 s."
    assert receipt.partitions[1].error is None


def test_a_member_that_joins_in_between_is_caught_by_the_answers(place: Place) -> None:
    """All partitions fail, none is called done; the journal says failed."""
    place.gateway.before_commit = lambda: place.gateway.members.update(new=["late-0"])
    receipt = place.apply()
    assert receipt.outcome is ReplayOutcome.FAILED
    assert all("UNKNOWN_MEMBER_ID" in (part.error or "") for part in receipt.partitions)
    assert any("joined the group between" in reason for reason in receipt.reasons)
    assert place.phases()[-1] == ("end", "failed")


def test_a_partial_failure_is_partial_and_can_be_finished(place: Place) -> None:
    """What failed is named; a second run does only that; the rollback file is still the first one."""
    place.gateway.refuse["orders", 2] = "NOT_ENOUGH_REPLICAS"
    receipt = place.apply()
    assert receipt.outcome is ReplayOutcome.PARTIAL
    assert [part.partition for part in receipt.partitions if part.status is Status.FAILED] == [2]
    papers = rollback_path(place.path).read_bytes()
    place.gateway.refuse.clear()
    assert place.apply().outcome is ReplayOutcome.DONE
    assert place.gateway.groups["new"] == place.plan.targets
    assert rollback_path(place.path).read_bytes() == papers
    assert place.phases() == [("begin", None), ("end", "partial"), ("begin", None), ("end", "done")]


def test_silence_of_the_answer_is_not_success(place: Place) -> None:
    """The call ends without an error, but what is read back is not what was wanted."""
    place.gateway.before_commit = lambda: None
    original = place.gateway.commit
    place.gateway.commit = lambda group, offsets: (original(group, {("orders", 0): offsets["orders", 0]}), {})[1]  # type: ignore[method-assign]
    receipt = place.apply()
    assert receipt.outcome is ReplayOutcome.PARTIAL
    assert [part.error for part in receipt.partitions[1:]] == ["read back as no commit"] * 3


@pytest.mark.parametrize("after_writing", [False, True])
@pytest.mark.parametrize("call", range(1, 10))
def test_cut_off_anywhere_it_ends_the_same(tmp_path: Path, call: int, after_writing: bool) -> None:
    """The n-th call fails; run again, the group is as planned, and the rollback file still leads back to the beginning."""
    gateway = orders()
    gateway.groups["new"] = {("orders", 0): 1}
    place = Place(tmp_path, gateway)
    gateway.die_at, gateway.die_after_writing = call, after_writing
    try:
        place.apply(allow_existing=True)
    except SourceUnreachableError:
        gateway.die_at = None
        receipt = place.apply(allow_existing=True)
        assert receipt.outcome is ReplayOutcome.DONE
    gateway.die_at = None
    assert gateway.groups["new"] == place.plan.targets
    rollback = read_rollback(rollback_path(place.path))
    assert rollback.commits == {("orders", 0): 1}
    back = roll_back(rollback, gateway, place.journal, sleep=lambda _: None)
    assert not back.failed
    assert gateway.groups["new"] == {("orders", 0): 1}


def test_a_rollback_that_was_killed_before_it_told_so_is_told_by_the_next_run(place: Place) -> None:
    """It finds nothing to change, and says that in the journal: nobody waits for the replay any more."""
    place.apply()
    rollback = read_rollback(rollback_path(place.path))
    roll_back(rollback, place.gateway, place.journal, sleep=lambda _: None)
    killed_before_its_last_line(place.journal)
    assert begun_replays(place.journal.read()[0])
    for _ in range(2):
        roll_back(rollback, place.gateway, place.journal, sleep=lambda _: None)
    assert [(it.action, it.phase) for it in place.journal.read()[0]][2:] == [("rollback", "begin"), ("rollback", "end")]
    assert begun_replays(place.journal.read()[0]) == {}


def test_a_group_that_has_moved_on_is_not_thrown_back(place: Place) -> None:
    """Applying again once its consumers have begun would replay what is done: refused."""
    place.apply()
    place.gateway.groups["new"]["orders", 0] += 1
    receipt = place.apply(allow_existing=True)
    assert receipt.outcome is ReplayOutcome.REFUSED
    assert "has moved to" in receipt.reasons[0]


def test_papers_of_another_plan_are_not_overwritten(place: Place) -> None:
    """The way back of one plan must not be lost to another one of the same name."""
    place.apply()
    other = plan_of(place.gateway, request(reason="other"))
    write_file(place.path, other.document())
    with pytest.raises(GuardError, match="belongs to another plan"):
        apply_plan(other, place.path, place.gateway, place.journal, ApplyOptions())


def test_two_at_once_are_one_too_many(place: Place) -> None:
    """The second one is refused, without waiting."""
    with only_one("new"), pytest.raises(GuardError, match="Another process"):
        place.apply()
    assert place.apply().outcome is ReplayOutcome.DONE


def test_the_way_back_from_a_group_that_did_not_exist(place: Place) -> None:
    """It is deleted; and it is in the journal."""
    place.apply()
    found = roll_back(read_rollback(rollback_path(place.path)), place.gateway, place.journal, sleep=lambda _: None)
    assert (found.deleted, found.failed) == (True, {})
    assert "new" not in place.gateway.groups
    last = place.journal.read()[0][-1]
    assert (last.action, last.outcome, last.changes[0][2:4]) == (
        "rollback",
        "done",
        (place.plan.targets["orders", 0], None),
    )


def test_the_way_back_is_guarded_too(place: Place) -> None:
    """Members, progress and another cluster stop it; progress can be given up on purpose."""
    place.apply()
    rollback = read_rollback(rollback_path(place.path))
    place.gateway.members["new"] = ["svc-0"]
    with pytest.raises(GuardError, match="svc-0"):
        roll_back(rollback, place.gateway, place.journal, sleep=lambda _: None)
    place.gateway.members.clear()
    place.gateway.groups["new"]["orders", 0] += 1
    with pytest.raises(GuardError, match="moved on"):
        roll_back(rollback, place.gateway, place.journal, sleep=lambda _: None)
    place.gateway.cluster_id = "another"
    with pytest.raises(GuardError, match="another"):
        roll_back(rollback, place.gateway, place.journal, sleep=lambda _: None)
    place.gateway.cluster_id = place.plan.cluster_id
    assert not roll_back(rollback, place.gateway, place.journal, discard_progress=True, sleep=lambda _: None).failed
    assert "new" not in place.gateway.groups


@pytest.mark.parametrize("topic", ["orders", "payments"])
def test_a_rollback_writes_no_offset_of_a_topic_that_was_made_anew(place: Place, topic: str) -> None:
    """Planned or not: the group would begin behind the first records of the new topic. The others are as they were, and it says so."""
    gateway = place.gateway
    gateway.records["payments", 0] = [(at, at) for at in range(50)]
    gateway.groups["new"] = {("orders", 0): 2, ("payments", 0): 40}
    place.apply(allow_existing=True)
    gateway.topic_ids[topic] = "another id"
    for key in [key for key in gateway.groups["new"] if key[0] == topic]:
        del gateway.groups["new"][key]  # as Kafka does
    found = roll_back(read_rollback(rollback_path(place.path)), gateway, place.journal, sleep=lambda _: None)
    kept = {("orders", 0): 2, ("payments", 0): 40}
    lost = {key: at for key, at in kept.items() if key[0] == topic}
    assert gateway.groups["new"] == {key: at for key, at in kept.items() if key not in lost}
    assert found.failed.keys() == lost.keys()
    assert all("deleted and recreated" in words for words in found.failed.values())


@pytest.mark.parametrize("commits", [{("orders", 0): 1}, {}])
def test_a_group_that_was_there_is_not_deleted(place: Place, commits: dict[Partition, int]) -> None:
    """It may have commits that these credentials do not see, and they would go with it: the plan's own are taken away one by one."""
    gateway = place.gateway
    gateway.groups["new"], gateway.writes = dict(commits), []
    place.apply(allow_existing=True)
    found = roll_back(read_rollback(rollback_path(place.path)), gateway, place.journal, sleep=lambda _: None)
    assert (found.deleted, found.failed, gateway.groups["new"]) == (False, {}, commits)
    assert ("forget", "new") in gateway.writes and ("delete", "new") not in gateway.writes


def test_records_that_come_after_the_plan_where_it_begins_at_the_end(tmp_path: Path) -> None:
    """They are what the group is to begin with, on a live topic at any moment; one before the end means another log."""
    gateway = orders()
    gateway.records["orders", 3] = gateway.records["orders", 3][:3]
    place = Place(tmp_path, gateway, plan_of(gateway, request(after_end=AfterEnd.END)))
    gateway.records["orders", 3].append((3, now_ms()))
    assert place.apply(dry_run=True).outcome is ReplayOutcome.DRY_RUN
    gateway.records["orders", 3][2:] = [(2, now_ms()), (3, now_ms())]
    assert "was the topic recreated" in place.apply().reasons[0]


def test_a_tampered_rollback_file_is_refused(place: Place) -> None:
    """It would commit offsets that were never there."""
    place.apply()
    path = rollback_path(place.path)
    path.write_text(path.read_text().replace("orders", "orderz"))
    with pytest.raises(GuardError):
        read_rollback(path)
    with pytest.raises(GuardError):
        place.apply()


def test_all_targets_are_judged_and_not_only_what_was_pending(place: Place) -> None:
    """A resumed run writes what is missing; meanwhile a commit of the first run moves: partial, in the receipt and the journal."""
    place.gateway.refuse["orders", 1] = "NOT_ENOUGH_REPLICAS"
    assert place.apply().outcome is ReplayOutcome.PARTIAL
    place.gateway.refuse.clear()
    place.gateway.before_commit = lambda: place.gateway.groups["new"].update({("orders", 0): 9})
    receipt = place.apply()
    assert receipt.outcome is ReplayOutcome.PARTIAL
    assert [(part.partition, part.error) for part in receipt.partitions if part.error] == [(0, "read back as 9")]
    end = place.journal.read()[0][-1]
    assert (end.outcome, end.changes[-1]) == (
        "partial",
        ("orders", 0, place.plan.targets["orders", 0], place.plan.targets["orders", 0], "read back as 9"),
    )


def test_a_topic_made_anew_is_refused_also_where_everything_is_to_be_replayed(tmp_path: Path) -> None:
    """The target is the log's first offset, which every log has: what tells is that the log's end went back."""
    gateway = orders()
    place = Place(tmp_path, gateway, plan_of(gateway, request(since_ms=now_ms() - 3_600_000)))
    assert set(place.plan.targets.values()) == {0}
    for part in gateway.records:
        gateway.records[part] = [(offset, now_ms()) for offset in range(3)]
    receipt = place.apply()
    assert receipt.outcome is ReplayOutcome.REFUSED
    assert "recreated" in receipt.reasons[0]
    assert gateway.writes == []


def test_brokers_without_topic_ids_are_no_hindrance(tmp_path: Path) -> None:
    """An id that is not known then or now says nothing; the logs are still looked at."""
    gateway = orders()
    plan = plan_of(gateway).model_copy(update={"topic_ids": {}}).sealed()
    assert Place(tmp_path, gateway, plan).apply().outcome is ReplayOutcome.DONE


class FullDisk(Journal):
    """A journal whose disk is full when the end is to be written."""

    def append(self, **fields: Any) -> Any:
        if fields["phase"] == "begin":
            return Journal.append(self, **fields)
        return Journal.append(Journal(path=Path("/dev/full")), **fields)


@pytest.mark.parametrize("outcome", [ReplayOutcome.DONE, ReplayOutcome.PARTIAL])
@pytest.mark.parametrize("missing", ["journal", "receipt"])
def test_what_was_written_is_said_although_it_cannot_be_noted(
    place: Place, missing: str, outcome: ReplayOutcome
) -> None:
    """The disk is full after the write: the outcome comes first, never that nothing was changed; the journal keeps its beginning."""
    if outcome is ReplayOutcome.PARTIAL:
        place.gateway.refuse["orders", 1] = "NOT_ENOUGH_REPLICAS"
    if missing == "journal":
        place.journal = FullDisk(path=place.journal.path)
    else:
        receipt_path(place.path).mkdir()
    with pytest.raises(OutputError) as caught:
        place.apply()
    assert caught.value.message.startswith("Done: every" if outcome is ReplayOutcome.DONE else "PARTIAL: some")
    assert ("last line" if missing == "journal" else "receipt") in caught.value.message
    assert "othing is changed" not in caught.value.message + (caught.value.hint or "")
    assert len(place.gateway.groups["new"]) == (4 if outcome is ReplayOutcome.DONE else 3)
    assert place.phases()[0] == ("begin", None)
    assert receipt_path(place.path).is_file() == (missing == "journal")


def test_a_rollback_says_that_it_was_made_although_it_cannot_be_noted(place: Place) -> None:
    """As applying does."""
    place.apply()
    journal = FullDisk(path=place.journal.path)
    with pytest.raises(OutputError, match=r"The group 'new' was changed back \(outcome: done\)"):
        roll_back(read_rollback(rollback_path(place.path)), place.gateway, journal, sleep=lambda _: None)
    assert "new" not in place.gateway.groups
