"""Safety checks of a redrive, and the ledger: when in doubt, nothing is produced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.redrive.fakes import FakeCluster, FakeSink, KilledError
from tests.redrive.making import SOURCE, TOPIC, gateway_of, letter_of, now_of, plan_from
from tests.redrive.test_properties import run_of
from tests.replay.test_apply import FullDisk
from workbench.errors import EvidenceError, GuardError, OutputError, SourceUnreachableError, UsageError
from workbench.plans.journal import Journal
from workbench.plans.strict_document import write_file
from workbench.queues.replay_port import LogView, Quotas, TopicSettings
from workbench.redrive import receipt as receipt_module
from workbench.redrive import redrive_ledger
from workbench.redrive.apply import RedriveOutcome
from workbench.redrive.commit_marks import PlanProgress
from workbench.redrive.discard import discard
from workbench.redrive.guard import RedriveLimits, check_redrive
from workbench.redrive.picked_letter_offsets import Picks
from workbench.redrive.plan import bytes_per_broker_of
from workbench.redrive.planfile import read_redrive_plan
from workbench.redrive.redrive_ledger import EndedPlan, Ledger
from workbench.redrive.redrive_ports import Marks, Positions

LETTERS = [letter_of(0, at, b"k%d" % at, (0, at)) for at in range(10)]
PLAN = plan_from(LETTERS)


def codes(ledger: Ledger, of: FakeCluster | None = None, **changes: object) -> list[str]:
    """Why the plan would be refused now."""
    now = replace(now_of(PLAN, of or FakeCluster(LETTERS), ledger), **changes)  # type: ignore[arg-type]
    return [it.code for it in check_redrive(PLAN, now, RedriveLimits(retention_margin_seconds=0))]


def test_a_plan_that_was_begun_and_whose_position_is_gone_is_refused(tmp_path: Path) -> None:
    """Kafka forgets positions; beginning again would produce every record twice."""
    ledger = Ledger(tmp_path)
    assert codes(ledger) == []
    assert codes(ledger, was_started=True) == ["position_expired"]
    assert codes(ledger, now_ms=8 * 86_400_000.0 + now_of(PLAN, FakeCluster(LETTERS), ledger).now_ms) == ["too_old"]
    began = FakeCluster(LETTERS, positions={0: 3})
    assert codes(ledger, began, now_ms=8 * 86_400_000.0 + now_of(PLAN, began, ledger).now_ms) == []


def test_letters_of_another_plan_and_missing_rights_are_refused(tmp_path: Path) -> None:
    """Each with its own reason; a deleted letter counts only if it is still to be produced."""
    ledger = Ledger(tmp_path)
    assert codes(ledger, handled={0: Picks.of([4])}) == ["handled"]
    assert codes(ledger, lacking=("These credentials lack WRITE on the topic 'orders'.",)) == ["not_allowed"]
    now = now_of(PLAN, FakeCluster(LETTERS), ledger)
    assert codes(ledger, logs=replace(now.logs, starts={(TOPIC, 0): 3})) == ["letters_deleted"]
    after = FakeCluster(LETTERS, positions={0: 3})
    assert codes(ledger, after, logs=replace(now.logs, starts={(TOPIC, 0): 3})) == []
    assert codes(ledger, logs=replace(now.logs, ends={(TOPIC, 0): 4})) == ["log_changed"]
    assert codes(ledger, cluster=replace(now.cluster, cluster_id="another-cluster")) == ["other_cluster"]
    limits = RedriveLimits(retention_margin_seconds=600)
    short = replace(now, settings={TOPIC: TopicSettings(retention_ms=1000)})
    assert [it.code for it in check_redrive(PLAN, short, limits)] == ["retention_margin"]


def test_a_hidden_topic_is_a_missing_permission_and_no_expired_position(tmp_path: Path) -> None:
    """Brokers do not show the commits on it either: to plan the rest again would produce letters twice."""
    view = now_of(PLAN, FakeCluster(LETTERS), Ledger(tmp_path)).cluster
    for name in (TOPIC, SOURCE):
        hidden = replace(
            view, topics={it: view.topics[it] for it in view.topics if it != name}, denied={name: "not authorized"}
        )
        began = FakeCluster(LETTERS, positions={} if name == TOPIC else {0: 3})
        now = replace(now_of(PLAN, began, Ledger(tmp_path)), cluster=hidden, was_started=True)
        if name == TOPIC:
            now = replace(now, logs=LogView(starts={}, ends={}))
        refused = check_redrive(PLAN, now, RedriveLimits(retention_margin_seconds=0))
        assert [it.code for it in refused] == ["not_allowed"]
        assert f"may not describe the topic '{name}'" in refused[0].message


def test_a_run_refuses_when_its_position_disappears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when it disappears between the checks and the first transaction."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    cluster = FakeCluster(LETTERS)
    cluster.steps_left = 12
    with pytest.raises(KilledError):
        run_of(PLAN, cluster, tmp_path).run()
    cluster.steps_left = None
    assert cluster.positions
    cluster.positions.clear()
    records = len(cluster.records)
    assert run_of(PLAN, cluster, tmp_path).run().outcome is RedriveOutcome.REFUSED
    run = run_of(PLAN, cluster, tmp_path)
    look = run.look
    run.look = lambda: replace(look(), was_started=False)
    with pytest.raises(GuardError, match="expired"):
        run.run()
    assert len(cluster.records) == records


def test_a_changed_plan_file_is_refused(tmp_path: Path) -> None:
    """One offset more, and the hash does not fit."""
    path = tmp_path / "plan.json"
    write_file(path, PLAN.document())
    assert read_redrive_plan(path) == PLAN
    path.write_text(path.read_text().replace('"max_rounds": 3', '"max_rounds": 9'))
    with pytest.raises(GuardError, match="was changed"):
        read_redrive_plan(path)
    path.write_text("{}")
    with pytest.raises(UsageError, match="not a redrive plan"):
        read_redrive_plan(path)


def test_discarded_letters_are_left_out_and_the_group_stops_before_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The position moves forward only, up to the first letter that is not in the plan; the journal has who and why."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    some = [it for it in LETTERS if it.offset != 4]
    plan, gateway = plan_from(some), gateway_of(LETTERS)
    gateway.groups["readers"] = {(TOPIC, 0): 2}
    journal, ledger = Journal(path=tmp_path / "journal.jsonl"), Ledger(tmp_path / "ledger")
    found = discard(plan, gateway, FakeCluster(LETTERS), journal, ledger, reason="test data", group="readers")
    assert gateway.groups["readers"] == {(TOPIC, 0): 4}
    assert found.held == {(TOPIC, 0): 4} and found.letters == 9
    assert [(it.phase, it.action, it.detail) for it in journal.read()[0]] == [
        ("begin", "discard", "test data"),
        ("end", "discard", "test data"),
    ]
    ask = (TOPIC, plan.topic_id, plan.cluster_id, lambda _group: {}, list[str](), lambda _plan: PlanProgress())
    handled, discarded = ledger.handled(*ask)
    assert list(handled[0]) == [0, 1, 2, 3, 5, 6, 7, 8, 9] and discarded == handled
    ledger.end(plan, EndedPlan(outcome="done", at="2026-11-23T00:00:00+00:00"))
    with pytest.raises(GuardError, match="was applied"):
        discard(plan, gateway, FakeCluster(LETTERS), journal, ledger, reason="x")
    assert ledger.handled(*ask) == (handled, {})


def test_a_group_with_members_is_not_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is marked."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    gateway = gateway_of(LETTERS)
    gateway.groups["readers"], gateway.members["readers"] = {(TOPIC, 0): 0}, ["somebody"]
    ledger = Ledger(tmp_path / "ledger")
    with pytest.raises(GuardError, match="1 member"):
        discard(PLAN, gateway, FakeCluster(LETTERS), Journal(path=tmp_path / "j"), ledger, reason="x", group="readers")
    assert ledger.ended(PLAN) is None


def test_a_group_that_commits_while_the_letters_are_read_is_not_moved_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member came, has processed further than the letters, and has left again before the write."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    gateway, letters = gateway_of(LETTERS), FakeCluster(LETTERS)
    gateway.groups["readers"] = {(TOPIC, 0): 0}
    plan, ledger = plan_from([it for it in LETTERS if it.offset < 5]), Ledger(tmp_path / "ledger")
    read = letters.read

    def meanwhile(start: Mapping[int, int], stop: Mapping[int, int]) -> Iterator[Any]:
        gateway.groups["readers"][TOPIC, 0] = 10
        return iter(read(start, stop))

    monkeypatch.setattr(letters, "read", meanwhile)
    with pytest.raises(GuardError, match="has committed while the letters were read"):
        discard(plan, gateway, letters, Journal(path=tmp_path / "j"), ledger, reason="x", group="readers")
    assert gateway.groups["readers"] == {(TOPIC, 0): 10} and gateway.writes == []
    assert ledger.ended(plan) is None


def test_a_group_that_commits_while_the_letters_are_claimed_is_not_moved_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim takes seconds, too. The letters are marked by then; discarding again goes on from where the group is."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    gateway, journal, ledger = gateway_of(LETTERS), Journal(path=tmp_path / "j"), Ledger(tmp_path / "ledger")
    gateway.groups["readers"] = {(TOPIC, 0): 0}
    plan, letters = plan_from([it for it in LETTERS if it.offset < 5]), FakeCluster(LETTERS)

    def claim() -> None:
        gateway.groups["readers"][TOPIC, 0] = 10

    with pytest.raises(GuardError, match="marked as discarded, and the group 'readers' has committed meanwhile"):
        discard(plan, gateway, letters, journal, ledger, reason="x", group="readers", claim=claim)
    assert gateway.groups["readers"] == {(TOPIC, 0): 10} and gateway.writes == []
    assert journal.read()[0][-1].outcome == "partial"
    assert discard(plan, gateway, letters, journal, ledger, reason="x", group="readers").moved == {}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"topic_ids": {TOPIC: "another id"}}, "deleted and recreated"),
        ({"cluster_id": "another cluster"}, "for the cluster"),
        ({"ends": {(TOPIC, 0): 9}}, "truncated"),
    ],
)
def test_letters_of_another_log_are_not_discarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, object], words: str
) -> None:
    """The offsets of the plan are other letters there: a group would be moved past what nobody has looked at."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    gateway = gateway_of(LETTERS)
    gateway.groups["readers"] = {(TOPIC, 0): 0}
    for name, value in change.items():
        setattr(gateway, name, value)
    journal, ledger = Journal(path=tmp_path / "j"), Ledger(tmp_path / "ledger")
    with pytest.raises(GuardError, match=words):
        discard(PLAN, gateway, FakeCluster(LETTERS), journal, ledger, reason="x", group="readers")
    assert gateway.groups["readers"] == {(TOPIC, 0): 0} and ledger.ended(PLAN) is None and journal.read() == ([], 0)


def test_a_dry_run_says_what_each_broker_reads_and_writes(tmp_path: Path) -> None:
    """Reads by the leaders of the dead-letter topic, writes by those of the targets; nothing is produced."""
    cluster, ledger = FakeCluster(LETTERS), Ledger(tmp_path)
    view = now_of(PLAN, cluster, ledger).cluster
    leaders = {TOPIC: {0: 1, 1: 2, 2: 3}, SOURCE: {0: 1, 1: 2}}
    topics = {name: replace(view.topics[name], leaders=leaders[name]) for name in (TOPIC, SOURCE)}
    found = bytes_per_broker_of(PLAN, replace(view, topics=topics))
    assert found == {1: (PLAN.bytes, PLAN.bytes // 2), 2: (0, PLAN.bytes // 2)}
    receipt = run_of(PLAN, cluster, tmp_path).run(dry_run=True)
    assert receipt.notes[0] == "No cap: as fast as the brokers take it."
    assert any(note.startswith("Broker ") for note in receipt.notes)
    assert receipt.notes[-1] == "Quotas of this user: unknown."
    assert cluster.records == []
    run = run_of(PLAN, cluster, tmp_path)
    now = replace(now_of(PLAN, cluster, ledger), quotas=Quotas(user="svc", producer_bytes=PLAN.bytes / 100))
    run.look = lambda: now
    assert "svc to write" in run.run(dry_run=True).notes[-1]
    assert "about 1 min 40 s, and less where records are compressed" in run.run(dry_run=True).notes[-1]
    now = replace(now, quotas=Quotas(user="svc"))
    assert run.run(dry_run=True).notes[-1] == "Quotas of svc: none."


class SilentSink(FakeSink):
    """Its records are never taken, and it cannot say why."""

    def commit(self, positions: Positions, ordered: int | None, marks: Marks) -> None:
        """Takes the positions alone."""
        if self.pending:
            raise SourceUnreachableError("Unknown partition.")
        super().commit(positions, ordered, marks)


@pytest.mark.parametrize("name", [SOURCE, TOPIC])
@pytest.mark.parametrize("is_hidden", [False, True])
def test_a_topic_that_is_deleted_while_it_runs_ends_the_run(tmp_path: Path, name: str, is_hidden: bool) -> None:
    """No further try helps. Where it is hidden, or the cluster does not answer, nobody knows, and it is tried again."""
    cluster, slept = FakeCluster(LETTERS), []
    view = now_of(PLAN, cluster, Ledger(tmp_path)).cluster
    run = run_of(PLAN, cluster, tmp_path)
    run.make_sink, run.sleep = lambda: SilentSink(cluster), slept.append
    denied = {name: "not authorized"} if is_hidden else {}
    run.topics = lambda: replace(view, topics={it: view.topics[it] for it in view.topics if it != name}, denied=denied)
    with pytest.raises(
        SourceUnreachableError if is_hidden else EvidenceError, match=None if is_hidden else "not exist any more"
    ):
        run.run()
    assert bool(slept) == is_hidden


def test_a_full_disk_at_the_end_does_not_hide_that_everything_was_produced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither of the ledger nor of the receipt; another run then notes the end, and produces nothing."""
    cluster, is_full = FakeCluster(LETTERS), True

    def on_disk(path: Path, document: dict[str, Any]) -> None:
        if is_full and path.name != "plan.json":
            raise UsageError(f"{path} cannot be written: No space left on device.", hint="Choose another path.")
        write_file(path, document)

    monkeypatch.setattr(redrive_ledger, "write_file", on_disk)
    monkeypatch.setattr(receipt_module, "write_file", on_disk)
    with pytest.raises(OutputError, match=r"its letters are produced\), and Kafka has that"):
        run_of(PLAN, cluster, tmp_path).run()
    records = list(cluster.records)
    assert len(records) == PLAN.letters
    is_full = False
    receipt = run_of(PLAN, cluster, tmp_path).run()
    assert (receipt.outcome, cluster.records) == (RedriveOutcome.DONE, records)
    is_full = True
    with pytest.raises(OutputError, match=r"Done: .* But the receipt could not be written"):
        receipt_module.keep_receipt(tmp_path / "plan.json", receipt)


def test_a_full_disk_does_not_hide_why_a_redrive_failed(tmp_path: Path) -> None:
    """Kafka stops answering, and the journal cannot note it: both are told, as an error of Kafka."""

    class Dead(FakeSink):
        def begin(self, *, careful: bool = False) -> None:
            raise SourceUnreachableError(f"Kafka does not answer (careful: {careful}).")

    run, cluster = run_of(PLAN, FakeCluster(LETTERS), tmp_path), FakeCluster(LETTERS)
    run.make_sink = lambda: Dead(cluster)
    run.sleep = lambda _: None
    run.journal = FullDisk(path=run.journal.path)
    with pytest.raises(
        SourceUnreachableError, match=r"Kafka does not answer .* Nor could the end be written to the journal"
    ):
        run.run()


def test_a_target_that_was_recreated_while_it_ran_is_told_at_the_end(tmp_path: Path) -> None:
    """It takes the rest of the records without a word, and has none of those before."""
    cluster = FakeCluster(LETTERS)
    view = now_of(PLAN, cluster, Ledger(tmp_path)).cluster
    other = replace(view.topics[SOURCE], topic_id="another")
    run = run_of(PLAN, cluster, tmp_path)
    run.topics = lambda: replace(view, topics={**view.topics, SOURCE: other})
    with pytest.raises(EvidenceError, match="deleted and recreated since the plan was made"):
        run.run()


def test_letters_behind_an_open_transaction_are_not_none() -> None:
    """Who plans is told of them, also if there is no other letter."""
    gateway = gateway_of(LETTERS)
    gateway.stable = {(TOPIC, 0): 0}
    with pytest.raises(GuardError, match=r"cannot be read yet: partitions 0\."):
        plan_from([], gateway=gateway)
    gateway.stable = {(TOPIC, 0): 5}
    plan = plan_from(LETTERS[:5], gateway=gateway)
    assert "Letters behind an open transaction are not in the plan: partitions 0." in plan.warnings
