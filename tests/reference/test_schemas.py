"""Rules of `workbench schema`: what is printed is what the schema says, and nothing that it does not know.

Documents that need Spark or a broker are held against their schemas where they are made: `valid(name, …)` in those tests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from tests.cli.running import run_here
from tests.redrive.test_guard import PLAN as REDRIVE
from tests.reference.valid import valid
from tests.replay.fakes import orders, plan_of
from tests.replay.test_apply import Place
from tests.triage.test_checks import finding, look
from workbench.api.groups_now import SnapshotResult
from workbench.api.letter_redrives import LetterTopics
from workbench.cli import root
from workbench.cli.replay_follow import look_document
from workbench.queues.snapshot_views import GroupView, Member, Snapshot
from workbench.queues.tool_words import tools_of
from workbench.redrive.dead_letter_topics import LetterTopic
from workbench.redrive.receipt import RedriveOutcome, RedriveReceipt
from workbench.reference.schemas import DOCUMENTS, schema
from workbench.replay.verify_evidence import CheckRequest, check
from workbench.settings import Cluster
from workbench.triage.verdict_names import Verdict
from workbench.triage.who_holds_up_whom import actions_of

TESTS = Path(__file__).parents[1]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A plan in a folder, on a log in memory."""
    yield Place(tmp_path, orders())


def printed(*words: str) -> Any:
    """What a command prints with `--json`."""
    return json.loads(CliRunner().invoke(root, [*words, "--json"]).stdout)


@pytest.mark.parametrize("name", [it.name for it in DOCUMENTS])
def test_each_is_a_valid_schema_and_the_command_prints_it(name: str) -> None:
    """With what it is, and no field of an object left open by mistake."""
    found = json.loads(CliRunner().invoke(root, ["schema", name]).stdout)
    assert found == json.loads(json.dumps(schema(name)))
    Draft202012Validator.check_schema(found)
    [it] = [it for it in DOCUMENTS if it.name == name]
    assert len(it.says) > 10
    top = found.get("items", found)
    assert top["additionalProperties"] is False
    for inner in found.get("$defs", {}).values():
        assert "properties" not in inner or inner["additionalProperties"] is False


def test_every_document_is_held_against_real_output() -> None:
    """Somewhere in the tests."""
    texts = "".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    assert [it.name for it in DOCUMENTS if f'valid("{it.name}"' not in texts] == [
        "incidents",
        "incident-state",
        "fleet",
    ]
    assert "valid(name, answer.json())" in (TESTS / "serve" / "test_app.py").read_text(encoding="utf-8")


def test_an_unknown_field_or_a_missing_one_is_refused() -> None:
    """Or the other tests could not fail."""
    told = printed("tree", "throttled")
    valid("tree", told)
    for wrong in (told | {"more": 1}, {key: it for key, it in told.items() if key != "words"}, told | {"words": None}):
        with pytest.raises(AssertionError, match="tree: "):
            valid("tree", wrong)


def test_commands_that_need_no_cluster(tmp_path: Path) -> None:
    """Tree, settings, profiles, doctor and events."""
    valid("tree", printed("tree"))
    valid("settings", printed("settings"))
    valid("profiles", printed("profiles", "list"))
    (tmp_path / "workbench.toml").write_text("[clusters.c]\n", encoding="utf-8")
    told = run_here("doctor", "--json", cwd=tmp_path)
    valid("doctor", json.loads(told.stdout))
    run_here("events", "add", "--cluster", "c", "--service", "pay", "--version", "2", cwd=tmp_path)
    run_here("events", "add", "--cluster", "c", "--kind", "config", "--text", "a quota", "--group", "g", cwd=tmp_path)
    events = json.loads(run_here("events", "list", "--cluster", "c", "--json", cwd=tmp_path).stdout)
    assert len(valid("events", events)) == 2


def test_two_looks_compared() -> None:
    """Also of a subscription that is gone."""
    from workbench.triage.compare_triages import SCHEMA, compare

    before, after = look(finding(Verdict.CONSUMER_STOPPED), finding(Verdict.HEALTHY, group="gone")), look()
    changes = [it.to_json() for it in compare(before, after)]
    window = before.window.to_json()
    valid("triage-compare", {"schema": SCHEMA, "before": window, "after": window, "changes": changes})
    valid("triage", before.to_json())


def test_a_snapshot() -> None:
    """By partition, and ranked; with what is not known."""
    part = ("orders", 0)
    member = Member(member_id="m", client_id="c", host="h", partitions=(part,), target=None)
    view = GroupView(group="g", state="stable", protocol="classic", coordinator=1, members=(member,))
    other = GroupView(group="hidden", state="not_permitted", protocol="unknown", coordinator=None, members=())
    taken = Snapshot(taken_at=1.5e9, groups=(view, other), commits={("g", *part): 5}, ends={part: 9}, starts={})
    found = SnapshotResult(cluster="prod", groups=taken, ranked=None, incomplete=("a part",))
    told = valid("snapshot", found.to_json())
    assert [it["lag_messages"] for it in told["partitions"]] == [4]
    from workbench.api.groups_now import _ranked

    ranked = SnapshotResult(cluster="prod", groups=taken, ranked=_ranked(taken, None), incomplete=())
    valid("snapshot-ranked", ranked.to_json())
    aged = SnapshotResult(cluster="prod", groups=taken, ranked=_ranked(taken, {}), incomplete=())
    assert valid("snapshot-ranked", aged.to_json())["subscriptions"][0]["time_lag_low"] is None


def test_who_slows_whom() -> None:
    """With a culprit, and without; with what is not measured, and what is wrong with a broker."""
    from tests.triage.brokers import Made, after
    from tests.triage.test_blame_heavy_readers import cluster, hog, judged
    from workbench.api.who_slows_whom import ImpactResult
    from workbench.thresholds import Thresholds
    from workbench.triage.brokers import judge_brokers

    def result(made: Made) -> ImpactResult:
        found, tools = judged(made), tools_of("b:1")
        look = judge_brokers(made.seen(), found, Thresholds(), tools)
        actions = tuple(actions_of(it, tools) for it in found.causes)
        return ImpactResult(
            cluster="prod", found=found, actions=actions, brokers=look, incomplete=("a part",), seen=made.seen()
        )

    made = cluster()
    told = valid("impact", result(made).to_json())
    assert told["answer"] == "no" and told["unknown"]["flush_slow"] == ["log_flush_time or segment_failovers"]
    hog(made, 1)
    made.own(2, "under_replicated", after(-8, 3.0))
    told = valid("impact", result(made).to_json())
    assert sorted(it["group"] for it in told["causes"][0]["victims"]) == ["g10", "g11", "g12", "g13"]
    assert [it["verdict"] for it in told["broker_findings"]] == ["under_replicated"]


def test_a_replay_from_plan_to_verdict(place: Place) -> None:
    """The files that lie beside the plan, and what follow, verify and log print."""
    valid("plan", json.loads(place.path.read_text(encoding="utf-8")))
    valid("receipt", place.apply().document())
    for name, path in (("receipt", "plan.receipt.json"), ("rollback", "plan.rollback.json")):
        valid(name, json.loads((place.path.parent / path).read_text(encoding="utf-8")))
    valid("rollback", json.loads((place.path.parent / "plan.rollback.json").read_text(encoding="utf-8")))
    lines = place.journal.path.read_text(encoding="utf-8").splitlines()
    valid("journal", [json.loads(it) for it in lines])
    cluster = Cluster(name="c", bootstrap="b:9092")
    found = check(place.plan, cluster, place.gateway, lambda ranges: dict.fromkeys(ranges, 1), CheckRequest())
    valid("replay-verify", found.document())


def test_a_look_at_a_replay(place: Place) -> None:
    """Before any consumer runs."""
    from workbench.replay.follow import Follower
    from workbench.replay.progress import Pace

    place.apply()
    seen = Follower(
        plan=place.plan, gateway=place.gateway, count_records=lambda ranges: dict.fromkeys(ranges, 1)
    ).look()
    valid("replay-progress", look_document(plan_of(orders()), seen, Pace()))


def test_dead_letters() -> None:
    """The list, a plan and a receipt."""
    topic = LetterTopic(
        topic="t-dlt", partitions=3, letters=10, oldest_seconds=None, per_hour=2, errors={"E": 3}, sources={}, frameworks={},
        sampled=3,
        gaps=0,
        silent=0,
    )  # fmt: skip
    valid("dlq-list", LetterTopics(cluster="c", topics=(topic,)).to_json())
    valid("redrive-plan", REDRIVE.document())
    made = RedriveReceipt(plan="x", outcome=RedriveOutcome.DONE, letters=10, produced=9, refused={"0:3": "INVALID"})
    valid("redrive-receipt", made.document())


def test_a_run_of_a_report(tmp_path: Path) -> None:
    """As `run.json`, and as the commands print it, with its folder."""
    from tests.report.runs.test_record import recorded
    from workbench.report.runs.run_record import RECORD

    recorded(tmp_path, "health-1", 1)
    told = json.loads((tmp_path / "health-1" / RECORD).read_text(encoding="utf-8"))
    valid("run", told | {"folder": "x", "repeated": False})


def test_the_list_names_the_nearest_document() -> None:
    """For a typing error."""
    assert "triage" in CliRunner().invoke(root, ["schema"]).stdout
    assert {it["name"] for it in printed("schema")} == {it.name for it in DOCUMENTS}
    assert "Did you mean `snapshot`" in str(CliRunner().invoke(root, ["schema", "snapshots"]).exception)
