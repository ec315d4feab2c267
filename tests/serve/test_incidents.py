"""From alerts to messages, step by step: deduplication, causes, storms, changes, recovery, deadlines."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.serve.serving import NOW, Office, alert, judged, webhook
from workbench.alerts import parse_alerts
from workbench.errors import ConfigError, SourceUnreachableError
from workbench.serve.alert_journal import Accepted, FullError, accept, waiting
from workbench.serve.incident_actions import add_note
from workbench.serve.incidents import conclude
from workbench.serve.judge_groups import GivenWayError, Question
from workbench.serve.kept_verdict import Judged
from workbench.serve.send_message import NotTakenError
from workbench.serve.worker import Worker


@pytest.fixture
def office(tmp_path: Path) -> Office:
    """A worker without threads."""
    return Office(tmp_path)


def post(office: Office, *alerts: object) -> Accepted:
    """Accept a message as the webhook does."""
    return accept(office.store, parse_alerts(webhook(*alerts)), cluster=None, most_waiting=office.settings.most_waiting)


def test_an_alert_becomes_one_message_with_its_verdict(office: Office) -> None:
    """The same alert again, as Alertmanager repeats it, is known and says nothing."""
    assert post(office, alert()) == Accepted(new=1)
    assert post(office, alert()) == Accepted(known=1)
    assert office.worker.judge_alerts()
    assert not office.worker.judge_alerts()
    assert office.send() == ["new"]
    [parcel] = office.postman.parcels
    assert parcel.message.verdict == "slow_processor"
    assert post(office, alert()) == Accepted(known=1)
    office.worker.judge_alerts()
    assert office.send() == ["new"]
    assert [it.groups for it in office.oracle.questions] == [("payments",)]


def test_500_alerts_with_one_cause_are_one_message(office: Office) -> None:
    """A hundred are judged at a time, so the first verdict is told early; what follows is told after the quiet time."""
    office.oracle.says = lambda _q: [
        judged(f"g{n}", verdict="slow_network", cause="slow_network:1") for n in range(600)
    ]
    for start in range(0, 500, 50):
        post(office, *(alert(f"g{n}") for n in range(start, start + 50)))
    office.worker.judge_alerts()
    assert office.send() == ["new"]
    assert office.store.number("SELECT count(*) FROM member") == 500
    post(office, *(alert(f"g{n}") for n in range(500, 520)))
    office.worker.judge_alerts()
    assert office.send() == ["new"]
    office.clock.now += 301
    office.worker.look_again()
    assert office.send() == ["new", "grows"]
    assert office.postman.parcels[1].message.total == 520
    assert [len(it.groups) for it in office.oracle.questions] == [100] * 5 + [20, 520]


def test_many_causes_are_three_messages_and_a_digest(office: Office) -> None:
    """Whatever comes in the next minutes is only on the pages: a night with forty causes is not forty messages."""
    office.oracle.says = lambda _q: [judged(f"g{n}", cause=f"cause {n}") for n in range(60)]
    post(office, *(alert(f"g{n}") for n in range(40)))
    office.worker.judge_alerts()
    assert office.send() == ["new"] * 3 + ["digest"]
    assert len(office.postman.parcels[3].message.others) == 36
    post(office, *(alert(f"g{n}") for n in range(40, 60)))
    office.worker.judge_alerts()
    assert office.send() == ["new"] * 3 + ["digest"]
    assert office.store.number("SELECT count(*) FROM incident") == 60


def test_a_changed_verdict_is_told_and_so_is_the_recovery(office: Office) -> None:
    """A verdict that is lost for a minute is no news; the end closes the incident."""
    post(office, alert())
    office.worker.judge_alerts()
    for seconds, verdict in (
        (61, "slow_processor"),
        (61, "cannot_tell"),
        (61, "hot_key"),
        (61, "hot_key"),
        (61, "healthy"),
    ):
        office.clock.now += seconds
        office.oracle.says = lambda _q, verdict=verdict: [judged(verdict=verdict)]  # type: ignore[misc]
        assert office.worker.look_again()
    assert office.send() == ["new", "verdict", "recovered"]
    assert [it.message.before for it in office.postman.parcels] == [None, "slow_processor", "hot_key"]
    assert office.store.number("SELECT count(*) FROM incident WHERE closed IS NULL") == 0
    office.clock.now += 61
    assert not office.worker.look_again()


def test_a_resolved_alert_is_looked_at_at_once(office: Office) -> None:
    """No minute passes until the recovery is told."""
    post(office, alert())
    office.worker.judge_alerts()
    assert not office.worker.look_again()
    assert post(office, alert(status="resolved")) == Accepted(resolved=1)
    office.oracle.says = lambda _q: [judged(verdict="healthy")]
    assert office.worker.look_again()
    assert office.send() == ["new", "recovered"]


def test_an_alert_that_goes_on_after_the_recovery_says_nothing_new(office: Office) -> None:
    """Until it lags again: that is a new incident."""
    post(office, alert())
    office.worker.judge_alerts()
    office.clock.now += 61
    office.oracle.says = lambda _q: [judged(verdict="healthy")]
    office.worker.look_again()
    post(office, alert())
    office.worker.judge_alerts()
    assert office.send() == ["new", "recovered"]
    office.oracle.says = lambda _q: [judged()]
    office.clock.now += 3600
    post(office, alert())
    office.worker.judge_alerts()
    assert office.send() == ["new", "recovered", "new"]


def test_an_alert_of_a_healthy_subscription_is_answered(office: Office) -> None:
    """The person on call gets to know that nothing lags; the incident is closed at once."""
    office.oracle.says = lambda _q: [judged(verdict="healthy")]
    post(office, alert())
    office.worker.judge_alerts()
    assert office.send() == ["healthy"]
    assert office.store.number("SELECT count(*) FROM incident WHERE closed IS NULL") == 0


def test_past_the_deadline_the_alert_is_passed_on_and_its_verdict_follows(office: Office) -> None:
    """In the same incident."""
    post(office, alert())
    assert office.worker.pass_on_late() == 0
    office.clock.now += 61
    assert office.worker.pass_on_late() == 1
    assert office.worker.pass_on_late() == 0
    assert office.send() == ["new"]
    assert "has not ended within 1 min" in office.postman.parcels[0].message.headline
    office.worker.judge_alerts()
    assert office.send() == ["new", "verdict"]
    assert len({it.message.incident for it in office.postman.parcels}) == 1
    assert office.postman.parcels[1].message.verdict == "slow_processor"


def test_sources_that_do_not_answer_are_told_and_asked_again(office: Office) -> None:
    """One message for all alerts of the cluster; the verdict follows when they are back."""

    def gone(_question: object) -> list[object]:
        raise SourceUnreachableError("Prometheus at prom:9090 does not answer.")

    office.oracle.says = gone  # type: ignore[assignment]
    post(office, alert("a"), alert("b"))
    office.worker.judge_alerts()
    assert office.send() == ["new"]
    assert "Prometheus at prom:9090 does not answer" in office.postman.parcels[0].message.headline
    office.clock.now += 61
    office.worker.look_again()
    office.oracle.says = lambda _q: [judged("a"), judged("b")]
    office.clock.now += 61
    office.worker.look_again()
    assert office.send() == ["new", "verdict"]


def test_an_alert_whose_group_has_no_data_is_told(office: Office) -> None:
    """An alert never ends in nothing: not without data, not without a cluster."""
    office.oracle.says = lambda _q: []
    post(office, alert("ghost"), alert("nowhere", cluster=""))
    office.worker.judge_alerts()
    office.send()
    headlines = " ".join(it.message.headline for it in office.postman.parcels)
    assert "no data of this group" in headlines
    assert "names no cluster" in headlines


def test_an_alert_that_began_anew_fires_once(office: Office) -> None:
    """Whoever sends alerts was started anew and never says that the former firing has ended: the incident ends with the new one."""
    office.oracle.says = lambda _q: []
    first = alert("ghost")
    again = {**first, "startsAt": datetime.fromtimestamp(NOW + 300, UTC).isoformat()}
    post(office, first)
    office.worker.judge_alerts()
    office.clock.now += 400
    post(office, again)
    office.worker.judge_alerts()
    post(office, {**again, "status": "resolved"})
    office.clock.now += 2 * 3600
    office.worker.tell_due()
    assert office.store.number("SELECT count(*) FROM incident WHERE closed IS NULL") == 0
    assert office.send()[-1] == "ended"


def test_a_message_that_was_overtaken_makes_nothing_fire_for_ever(office: Office) -> None:
    """An alert that has begun anew has ended before, whichever of the two is told first, and however often."""
    older, newer = ({**alert(), "startsAt": datetime.fromtimestamp(NOW - ago, UTC).isoformat()} for ago in (300, 60))
    for told in (newer, older, older):
        post(office, told)
        office.worker.judge_alerts()
    post(office, {**newer, "status": "resolved"})
    firing = office.store.rows("SELECT started, firing, state FROM alert")
    assert [(row["firing"], row["state"]) for row in firing] == [(0, "judged")] * 2


def test_a_verdict_that_was_under_way_at_the_deadline_joins_what_was_told(office: Office) -> None:
    """The alert was passed on while its triage ran: its verdict belongs to that incident, and no second one stays open."""
    post(office, alert())
    under_way = waiting(office.store)
    office.clock.now += 61
    office.worker.pass_on_late()
    conclude(office.store, under_way, [judged()], office.settings)
    assert [row["verdict"] for row in office.store.rows("SELECT verdict FROM incident")] == ["slow_processor"]
    assert office.send() == ["new", "verdict"]


def test_our_own_alert_is_not_judged(office: Office) -> None:
    """What this server has posted to an Alertmanager comes back through its webhook."""
    post(office, alert(alertname="WorkbenchVerdict"))
    assert waiting(office.store) == []


def test_a_muted_group_calls_nobody(office: Office) -> None:
    """It is on the pages all the same."""
    office.oracle.says = lambda _q: [judged(muted="until 2026-12-01: migration")]
    post(office, alert())
    office.worker.judge_alerts()
    assert office.send() == []
    assert office.store.number("SELECT count(*) FROM incident") == 1


def test_a_full_queue_refuses_the_whole_message(tmp_path: Path) -> None:
    """Nothing of it is kept, so nothing is acknowledged that is not kept."""
    office = Office(tmp_path, most_waiting=3)
    post(office, alert("a"), alert("b"))
    with pytest.raises(FullError):
        post(office, alert("c"), alert("d"))
    assert office.store.number("SELECT count(*) FROM alert") == 2
    office.worker.judge_alerts()
    assert post(office, alert("c"), alert("d")) == Accepted(new=2)


def test_a_message_that_is_refused_is_sent_later_or_given_up(office: Office) -> None:
    """429 and 5xx pass; 404 does not. What comes after is not held up."""
    office.postman.fails = [NotTakenError("it answers 503", passing=True)]
    post(office, alert())
    office.worker.judge_alerts()
    assert office.send() == []
    office.clock.now += 0.5
    assert office.send() == []
    office.clock.now += 1
    assert office.send() == ["new"]
    office.postman.fails = [NotTakenError("it answers 404", passing=False)]
    office.oracle.says = lambda _q: [judged("b", cause="other")]
    post(office, alert("b"))
    office.worker.judge_alerts()
    office.clock.now += 9999
    assert office.send() == ["new"]
    assert office.store.number("SELECT count(*) FROM outbox WHERE state = 'failed'") == 1


def test_a_cluster_has_its_own_targets(tmp_path: Path) -> None:
    """A target with `clusters` gets nothing of others."""
    target = {"name": "t", "kind": "webhook", "url": "http://127.0.0.1:9/", "clusters": ["test"]}
    office = Office(tmp_path, targets=[target])
    post(office, alert(), alert(cluster="test", number=1))
    office.worker.judge_alerts()
    office.send()
    assert [it.message.cluster for it in office.postman.parcels] == ["test"]


def test_the_memory_knows_an_earlier_incident_like_it(office: Office) -> None:
    """With what was done, if somebody wrote it down; the same subscription before others of the cluster."""
    post(office, alert("refund"))
    office.oracle.says = lambda q: [judged(it) for it in q.groups]
    office.worker.judge_alerts()
    incident = office.store.rows("SELECT id FROM incident")[0]["id"]
    assert add_note(
        office.store, incident, author="ann", kind="resolution", words="rolled back 2.4.1; password=hunter22"
    )
    office.clock.now += 61
    office.oracle.says = lambda q: [judged(q.groups[0], verdict="healthy")]
    office.worker.look_again()
    office.oracle.says = lambda q: [judged(it) for it in q.groups]
    office.clock.now += 86_400
    post(office, alert("refund", number=1), alert("other", number=1))
    office.worker.judge_alerts()
    office.send()
    like = office.postman.parcels[-1].message.like
    assert like is not None
    assert "slow processor, refund ← orders; what was done: rolled back 2.4.1" in like
    assert "hunter22" not in like


def test_a_long_triage_is_not_repeated_at_once(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeated triages of a large cluster leave most of the time to new alerts."""
    monkeypatch.setattr("workbench.serve.worker._REST", 1e9)
    post(office, alert())
    office.worker.judge_alerts()
    office.clock.now += 61
    assert office.worker.look_again()
    office.clock.now += 61
    assert not office.worker.look_again()
    post(office, alert("b"))
    assert office.worker.judge_alerts()


def test_a_spark_that_has_died_ends_the_process(tmp_path: Path) -> None:
    """It cannot come back within it; a failing source is no reason."""
    ended: list[bool] = []
    office = Office(tmp_path)
    worker = Worker(office.store, office.oracle, office.settings, give_up=lambda: ended.append(True))

    def dead(_question: object) -> list[object]:
        raise ConnectionRefusedError

    office.oracle.says = dead  # type: ignore[assignment]
    for number in range(3):
        assert not ended
        post(office, alert(number=number))
        worker.judge_alerts()
    assert ended == [True]
    assert office.send() == ["new"]


def test_the_fleet_gives_way_to_alerts(tmp_path: Path) -> None:
    """Its turn comes again afterwards."""
    office = Office(tmp_path)
    worker = Worker(office.store, office.oracle, office.settings, clusters=lambda: {"prod": None})

    def gives_way(question: Question) -> list[Judged]:
        if question.give_way():
            raise GivenWayError("New alerts come first.")
        return [judged()]

    office.oracle.says = gives_way
    post(office, alert())
    assert worker.judge_fleet()
    assert office.store.number("SELECT count(*) FROM fleet") == 0
    assert worker.judge_alerts()
    assert worker.judge_fleet()
    assert office.store.number("SELECT count(*) FROM fleet") == 1
    assert not worker.judge_fleet()


def test_broken_settings_are_logged_once_and_no_failure_of_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They are replaced below it: no fleet is judged meanwhile, nobody who asks gets an error, and it goes on when they are whole."""
    office, is_broken = Office(tmp_path), True

    def clusters() -> dict[str, None]:
        if is_broken:
            raise ConfigError("The settings file cannot be read.")
        return {"prod": None}

    worker = Worker(office.store, office.oracle, office.settings, clusters=clusters)
    worker.take_lead()
    assert not worker.judge_fleet() and not worker.judge_fleet() and not worker.ask("prod")
    assert caplog.text.count("no fleet is judged until the settings can be read") == 1
    is_broken = False
    assert worker.judge_fleet()
