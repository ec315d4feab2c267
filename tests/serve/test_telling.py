"""Who is told what: late, muted, folded, retried, closed; one bad item; the number of the lead; memories of the first version."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.serve.serving import Office, alert, judged
from tests.serve.test_incidents import post
from workbench.errors import UnknownClusterError
from workbench.serve import database_migrations as schema
from workbench.serve import fleet_verdicts
from workbench.serve.alert_journal import waiting
from workbench.serve.incidents import due, followed
from workbench.serve.kept_verdict import Judged
from workbench.serve.message_step import Phase, Step, Told, Truth, decide
from workbench.serve.outbox import claim, refused
from workbench.serve.page_queries import Reading
from workbench.serve.send_message import NotTakenError
from workbench.serve.server_database import LeadLostError
from workbench.serve.sqlite import FileStore
from workbench.serve.worker import Worker
from workbench.serve_settings import Target

MANAGER = Target(name="am", kind="alertmanager", url="http://127.0.0.1:9")


@pytest.fixture
def office(tmp_path: Path) -> Office:
    """A worker without threads."""
    return Office(tmp_path, quiet="PT5M", look_again="PT1M")


def says(office: Office, **values: Any) -> None:
    """What the triage says of each group from now on."""
    office.oracle.says = lambda q: [judged(it, **values) for it in q.groups]


def later(office: Office, seconds: float = 61) -> list[str]:
    """Look again after some time, and send."""
    office.clock.now += seconds
    office.worker._look_at.clear()
    office.worker.look_again()
    return office.send()


TRUTH = Truth(verdict="slow_processor", concerned=True, well=False, joined=1, ending=None)
TOLD = Told(phase=Phase.TOLD, verdict="slow_processor", well=False, revision=2, at=1000.0)


@pytest.mark.parametrize(
    ("truth", "told", "step"),
    [
        ({}, {"phase": Phase.OWED}, Step(kind="first")),
        ({"concerned": False}, {"phase": Phase.OWED}, Step()),
        ({"concerned": False, "ending": "recovered"}, {"phase": Phase.OWED}, Step(over=True)),
        ({}, {}, Step()),
        ({"verdict": "hot_partition"}, {}, Step(kind="verdict")),
        ({"verdict": "cannot_tell"}, {}, Step(due=1300.0)),
        ({"verdict": "cannot_tell"}, {"verdict": "late"}, Step(kind="verdict")),
        ({"joined": 3}, {}, Step(due=1300.0)),
        ({"joined": 3}, {"at": 0.0}, Step(kind="grows")),
        ({"joined": 3}, {"at": 9000.0}, Step(kind="grows")),
        ({"well": True}, {}, Step(kind="recovered")),
        ({"ending": "recovered"}, {}, Step(kind="recovered", over=True)),
        ({"ending": "recovered"}, {"well": True}, Step(over=True)),
        ({"ending": "moved", "concerned": False}, {}, Step(kind="ended", over=True)),
        ({"verdict": "hot_partition"}, {"phase": Phase.NAMED}, Step()),
        ({"ending": "recovered"}, {"phase": Phase.NAMED, "at": 0.0}, Step(kind="ends")),
        ({"joined": 3}, {"phase": Phase.NAMED}, Step(due=1300.0)),
        ({"joined": 3}, {"phase": Phase.NAMED, "at": 0.0}, Step(kind="first")),
        ({"joined": 3, "concerned": False}, {"phase": Phase.NAMED, "at": 0.0}, Step()),
    ],
)
def test_each_step_follows_from_what_is_true_and_what_was_told(
    truth: dict[str, Any], told: dict[str, Any], step: Step
) -> None:
    """One row for each transition; a time in the future comes from a clock that was set back, and holds nothing up."""
    assert decide(replace(TRUTH, **truth), replace(TOLD, **told), now=1010.0, quiet=300.0) == step


def test_a_late_alert_that_turns_out_healthy_is_told_so(office: Office) -> None:
    """Its incident is closed, and does not swallow the next late alert."""
    post(office, alert("a"))
    office.clock.now += 61
    office.worker.pass_on_late()
    says(office, verdict="healthy")
    office.worker.judge_alerts()
    assert office.send() == ["new", "healthy"]
    post(office, alert("b"))
    office.clock.now += 61
    office.worker.pass_on_late()
    assert office.send() == ["new", "healthy", "new"]


def test_a_cause_that_comes_after_the_digest_is_told_when_it_is_quiet(office: Office) -> None:
    """And the end of those that a digest named is told in one message."""
    office.oracle.says = lambda q: [judged(it, cause=it) for it in q.groups]
    post(office, *(alert(f"g{number}") for number in range(6)))
    office.worker.judge_alerts()
    post(office, alert("g6"))
    office.worker.judge_alerts()
    assert office.send() == ["new"] * 3 + ["digest"]
    later(office, 301)
    assert any(group == "g6" for it in office.postman.parcels for group, _, _ in it.message.members)
    says(office, verdict="healthy")
    later(office, 301)
    assert later(office).count("ends") == 1
    [ends] = [it.message for it in office.postman.parcels if it.message.kind == "ends"]
    assert len(ends.other_incidents) == 2 and all(line.startswith("over: ") for line in ends.others)


def test_the_end_of_a_mute_is_news_and_the_end_of_a_muted_group_is_none(office: Office) -> None:
    """Nobody hears of a muted group, neither that it grows nor that it recovers."""
    says(office, muted="until later")
    post(office, alert("a"))
    office.worker.judge_alerts()
    post(office, alert("b"))
    office.worker.judge_alerts()
    assert later(office, 301) == []
    office.oracle.says = lambda _q: [judged("a"), judged("b", muted="until later")]
    assert later(office) == ["new"]
    assert [group for group, _, _ in office.postman.parcels[0].message.members] == ["a"]
    says(office, verdict="healthy")
    assert later(office) == ["new", "recovered"]


def test_messages_of_an_incident_arrive_in_their_order(office: Office) -> None:
    """A later one waits while an earlier one is tried again; another incident's does not."""
    office.postman.fails = [NotTakenError("away", passing=True)] * 6
    post(office, alert("a"))
    office.worker.judge_alerts()
    for _ in range(6):
        office.clock.now += 901
        office.send()
    office.oracle.says = lambda q: [judged(it, verdict="healthy" if it == "a" else "hot_key") for it in q.groups]
    office.clock.now += 61
    office.worker.look_again()
    post(office, alert("b"))
    office.worker.judge_alerts()
    assert office.send() == ["new"]
    office.clock.now += 901
    assert office.send() == ["new", "new", "recovered"]


def test_an_end_without_a_recovery_is_told_and_what_lasts_is_repeated(tmp_path: Path) -> None:
    """To an Alertmanager, which forgets what is not repeated: under the same key."""
    office = Office(tmp_path, targets=[MANAGER], look_again="PT1M")
    post(office, alert())
    office.worker.judge_alerts()
    for _ in range(5):
        later(office, 901)
    assert len({it.key for it in office.postman.parcels}) == 1 and len(office.postman.parcels) > 3
    post(office, alert(status="resolved"))
    office.oracle.says = lambda _q: []
    assert later(office, 3700)[-1] == "ended"
    assert office.store.number("SELECT count(*) FROM incident WHERE closed IS NULL") == 0


def test_an_incident_of_an_unknown_cluster_ends(office: Office) -> None:
    """Its end needs no triage."""

    def unknown(_question: object) -> list[Judged]:
        raise UnknownClusterError("There is no cluster 'typo'.")

    office.oracle.says = unknown
    post(office, alert(cluster="typo"))
    office.worker.judge_alerts()
    post(office, alert(cluster="typo", status="resolved"))
    assert later(office, 3700) == ["new", "ended"]


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**300])
def test_a_number_that_nothing_can_hold_is_not_known(office: Office, number: int) -> None:
    """It stops neither its own alert nor another one."""
    office.oracle.says = lambda q: [judged(it, lag_messages=number if it == "huge" else 5) for it in q.groups]
    post(office, alert("huge"), alert("good"))
    office.worker.judge_alerts()
    assert waiting(office.store) == [] and office.send() == ["new"]
    fleet_verdicts.record(
        office.store, "prod", [judged("huge", lag_messages=number), judged("good")], every_seconds=300
    )
    rows = {row["grp"]: row["lag"] for row in Reading(office.store).fleet()[1]}
    assert rows == {"huge": None, "good": 1000}


def test_one_bad_item_fails_alone(office: Office) -> None:
    """Of a batch of alerts, and of a fleet: the others are done, and the alert is told as one without a verdict."""
    bad: Any = object()
    office.oracle.says = lambda q: [judged(it, headline=bad if it == "bad" else "x") for it in q.groups]
    post(office, *(alert(name) for name in ("a", "bad", "c")))
    office.worker.judge_alerts()
    assert waiting(office.store) == []
    verdicts = {row["grp"]: row["verdict"] for row in office.store.rows("SELECT grp, verdict FROM member")}
    assert verdicts == {"a": "slow_processor", "bad": "cannot_tell", "c": "slow_processor"}
    fleet_verdicts.record(
        office.store, "prod", [judged("a"), judged("bad", headline=bad), judged("c")], every_seconds=300
    )
    assert {row["grp"] for row in Reading(office.store).fleet()[1]} == {"a", "c"}


def test_what_was_found_under_an_earlier_lead_is_not_written(tmp_path: Path) -> None:
    """Neither by the judging nor by the sending thread."""
    office = Office(tmp_path)
    second = FileStore(tmp_path / "serve.sqlite", clock=office.clock) if isinstance(office.store, FileStore) else None
    office.worker.take_lead()
    lead = office.store.lead
    post(office, alert())
    office.worker.judge_alerts()
    office.clock.now += 61
    [incident] = due(office.store, office.settings)
    parcel = claim(office.store, "oncall", lead=lead)
    assert parcel is not None
    if second is not None:
        assert not second.leads()
        office.store.resign()
        assert second.leads() and second.lead == (lead or 0) + 1
    else:
        office.store.resign()
        assert office.store.leads() and office.store.lead == (lead or 0) + 1
    with pytest.raises(LeadLostError):
        followed(office.store, incident, [judged(verdict="healthy")], office.settings, lead=lead)
    with pytest.raises(LeadLostError):
        refused(office.store, parcel, "x", passing=False)
    with pytest.raises(LeadLostError):
        fleet_verdicts.record(office.store, "prod", [judged()], every_seconds=300, lead=lead)
    assert office.store.number("SELECT count(*) FROM incident WHERE closed IS NULL") == 1


def test_messages_survive_a_clock_that_is_set_back(office: Office) -> None:
    """What was due is due; an incident is looked at again."""
    post(office, alert())
    office.worker.judge_alerts()
    office.clock.now -= 7200
    assert office.send() == ["new"]
    says(office, verdict="healthy")
    assert later(office) == ["new", "recovered"]


def test_an_alert_that_fires_again_after_its_end_fires(office: Office) -> None:
    """Firing, resolved, firing of one start."""
    for status in ("firing", "resolved", "firing"):
        post(office, alert(status=status))
    assert [row["firing"] for row in office.store.rows("SELECT firing FROM alert")] == [1]


def test_a_thread_that_ends_ends_the_process(tmp_path: Path) -> None:
    """And no exception ends the thread that watches deadlines."""
    office, ended = Office(tmp_path), list[bool]()
    office.worker._give_up = lambda: ended.append(True)
    office.worker._until_stopped(lambda: None)
    assert ended == [True]


def test_a_memory_of_the_first_version_opens_and_goes_on(tmp_path: Path) -> None:
    """Open incidents stay told; earlier ones are found."""
    path = tmp_path / "serve.sqlite"
    db = sqlite3.connect(path)
    for statement in schema._FIRST.split(";\n"):
        db.execute(statement)
    db.execute("PRAGMA user_version = 1")
    row = "INSERT INTO incident VALUES (?, 'prod', 'slow_processor', 'slow_processor', 'lagging', 'h', 1, 1, ?, 1, 1, "
    row += "'slow_processor', 1, 1, NULL, NULL)"
    db.execute(row, ("open", None))
    db.execute(row, ("closed", 2.0))
    for incident in ("open", "closed"):
        db.execute(
            "INSERT INTO member VALUES (?, 'payments', 'orders', 'slow_processor', 'lagging', 'h', 1, 1, 1)",
            (incident,),
        )
        db.execute(
            "INSERT INTO finding (incident, cluster, grp, topic, at, verdict, state, headline) "
            "VALUES (?, 'prod', 'payments', 'orders', 1, 'slow_processor', 'lagging', 'h')", (incident,),
        )  # fmt: skip
        db.execute(
            "INSERT INTO outbox (key, incident, target, message, state, due, made) VALUES (?, ?, 'oncall', '{}', 'sent', 1, 1)",
            (incident, incident),
        )
    db.execute(
        "INSERT INTO alert (fingerprint, started, received, name, cluster, grp, topic, state, firing, incident) "
        "VALUES ('f', '', 1, 'n', 'prod', 'payments', 'orders', 'judged', 1, 'open')"
    )
    db.commit()
    db.close()
    office = Office(tmp_path, look_again="PT1M")
    office.worker.take_lead()
    says(office, verdict="healthy")
    assert later(office) == ["recovered"]
    assert office.store.number("SELECT count(*) FROM had") == 6


def test_a_target_that_is_not_named_for_a_while_is_told_of_what_is_open(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    """A start with other settings gives up what waits for it, and says so; whoever is named again does not know of the incident."""
    office.worker.take_lead()
    post(office, alert())
    office.worker.judge_alerts()
    office.postman.fails = [NotTakenError("down", passing=True)]
    assert office.send() == []

    def started_with(*targets: Target) -> None:
        office.store.resign()
        office.settings = office.settings.model_copy(update={"targets": list(targets)})
        office.worker = Worker(office.store, office.oracle, office.settings, sender=office.postman)
        office.worker.take_lead()
        office.worker.tell_due()

    target = office.settings.targets[0]
    started_with()
    assert f"what waited for {target.name} is given up, 1 message" in caplog.text
    assert office.send() == []
    for _ in range(2):
        started_with(target)
        assert office.send() == ["new"]
