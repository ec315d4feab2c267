"""A cause on brokers is one incident, one row and one message; what each group shows by itself stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.serve.serving import HOSTILE, Office, Running, alert, judged, running
from tests.serve.test_incidents import post
from tests.serve.test_opened_pages import Person, told
from tests.triage.brokers import WINDOW, Made, after
from tests.triage.test_blame_heavy_readers import cluster, hog
from workbench.api.load_measurements import Measured
from workbench.api.who_slows_whom import ImpactResult, impact_of
from workbench.collect.capture import Capture, new_info
from workbench.serve import fleet_verdicts
from workbench.serve.broker_causes import SharedCause, is_over, origin_of, origins_of
from workbench.serve.incident_actions import Handling, handle
from workbench.serve.judge_groups import Question, with_origins
from workbench.serve.kept_verdict import Judged, attributed, no_longer_found

GROUPS = [f"g{number}" for number in range(500)]
HOG = SharedCause(
    key="slows:group:backfill",
    name='group "backfill" on broker 1',
    verdict="slows_others",
    headline='Group "backfill" reads 50 MB/s from broker 1 (before: 0 B/s), and 500 groups there are held up.',
    brokers=(1,),
    groups=tuple(GROUPS),
    offender="backfill",
    facts=("500 of 500 groups that share its brokers fell behind after it began; of 90 on other brokers 0 did.",),
    actions=(("Cap client id backfill-0 at 20 MB/s", "kafka-configs.sh --alter", "the groups catch up"),),
)


@pytest.fixture
def office(tmp_path: Path) -> Office:
    """A worker without threads."""
    return Office(tmp_path, cluster="prod", look_again="10s")


@pytest.fixture
def server(office: Office) -> Iterator[Running]:
    """Its server."""
    with running(office, threads=False) as found:
        yield found


def compared(made: Made) -> ImpactResult:
    """What `workbench impact` finds."""
    info = new_info(cluster="prod", source="watch", profiles=["jmx_kafka_broker"], window=WINDOW)
    return impact_of(Capture(info=info, samples=made.samples(), groups=made.groups()), made.seen())


def stormy() -> list[Judged]:
    """Three verdicts among 500 groups that one offender holds up, the offender, and one that is slow by itself."""
    verdicts = ("slow_network", "too_few_consumers", "cannot_tell")
    groups = [judged(it, "orders", verdicts[number % 3]) for number, it in enumerate(GROUPS)]
    return [*groups, judged("backfill", "orders", "cold_read"), judged("alone", "orders", "slow_processor")]


def storm(office: Office) -> None:
    """500 alerts, in messages of fifty."""
    office.oracle.says = lambda _q: attributed(stormy(), [HOG])
    for start in range(0, 500, 50):
        post(office, *(alert(it) for it in GROUPS[start : start + 50]))
    office.worker.judge_alerts()


def test_a_storm_of_500_alerts_is_one_message_that_names_whose_fault_it_is(office: Office) -> None:
    """Whatever each group shows by itself; and the end is one message, too."""
    storm(office)
    assert office.send() == ["new"]
    message = office.postman.parcels[0].message
    assert message.origin == 'group "backfill" on broker 1' and message.total == 500
    assert (message.verdict, message.headline) == ("slows_others", HOG.headline)
    assert message.actions[0].startswith("Cap client id backfill-0")
    assert all(group for group, _, _ in message.members)
    office.clock.now += 400
    office.oracle.says = lambda _q: [judged(it, "orders", "healthy") for it in (*GROUPS, "backfill")]
    office.worker.look_again()
    assert office.send() == ["new", "recovered"]
    assert "Over: group" in office.postman.parcels[1].message.headline
    assert office.store.number("SELECT count(*) FROM incident WHERE closed IS NULL") == 0


def test_an_incident_stands_while_a_group_waits_though_it_is_no_longer_seen(office: Office) -> None:
    """A comparison with the hour before does not see what has lasted for longer: no news is sent of that."""
    storm(office)
    office.send()
    office.clock.now += 4000
    office.oracle.says = lambda _q: [*stormy(), no_longer_found(HOG.key)]
    office.worker.look_again()
    assert office.oracle.questions[-1].followed == ((HOG.key, "slows_others"),)
    assert "" not in office.oracle.questions[-1].groups
    assert office.send() == ["new"]
    row = office.store.row("SELECT verdict, closed FROM incident")
    assert row is not None and (row["verdict"], row["closed"]) == ("slows_others", None)


def opened_apart(office: Office) -> list[Judged]:
    """Two groups with an incident each, told; their verdicts before the cause on brokers is found."""
    apart = [judged("g0", "orders", "slow_network"), judged("g1", "orders", "too_few_consumers")]
    office.oracle.says = lambda _q: apart
    post(office, alert("g0"), alert("g1"))
    office.worker.judge_alerts()
    assert office.send() == ["new", "new"]
    return apart


def test_incidents_that_were_opened_apart_become_one_when_the_cause_is_found(office: Office) -> None:
    """The first look could not compare brokers; the second does. One of the two goes on, with the alerts of both."""
    apart = opened_apart(office)
    office.clock.now += 400
    office.oracle.says = lambda _q: attributed(apart, [HOG])
    office.worker.look_again()
    [still] = office.store.rows("SELECT id, verdict FROM incident WHERE closed IS NULL")
    assert still["verdict"] == "slows_others"
    assert office.store.number("SELECT count(*) FROM alert WHERE incident = ?", (still["id"],)) == 2
    members = office.store.rows("SELECT grp FROM member WHERE incident = ? AND origin IS NULL", (still["id"],))
    assert {it["grp"] for it in members} == {"g0", "g1"}
    assert sorted(office.send()[2:]) == ["ended", "verdict"]


def test_an_incident_that_moves_into_a_muted_one_ends_the_mute(office: Office) -> None:
    """Whoever muted that one did not know of this one, which would be silent in it."""
    apart = opened_apart(office)
    [muted] = office.store.rows("SELECT incident AS id FROM member WHERE grp = 'g0'")
    assert handle(office.store, muted["id"], Handling.MUTE, author="Ada", hours=24, settings=office.settings)

    def look(says: Sequence[Judged]) -> None:
        office.clock.now += 400
        office.worker._look_at.clear()
        office.oracle.says = lambda _q: attributed(list(says), [HOG])
        office.worker.look_again()

    look(apart[:1])
    assert office.send() == ["new", "new"]
    look(apart)
    [still] = office.store.rows("SELECT id FROM incident WHERE closed IS NULL")
    assert still["id"] == muted["id"]
    assert sorted(office.send()[2:]) == ["ended", "verdict"]


def test_an_alert_about_a_broker_is_of_the_cause_and_ends_with_it(office: Office) -> None:
    """No group waits: the brokers themselves are what it is about. While their metrics are away it does not end."""
    lost = replace(HOG, key="brokers", name="broker 3", verdict="leaderless", headline="2 partitions.", groups=())
    office.oracle.says = lambda _q: attributed([judged("g0", "orders", "healthy")], [lost])
    post(office, alert("", "", alertname="KafkaOfflinePartitions"))
    office.worker.judge_alerts()
    assert office.send() == ["new"]
    assert office.postman.parcels[0].message.verdict == "leaderless"
    assert office.postman.parcels[0].message.total == 0
    office.clock.now += 400
    office.oracle.says = lambda _q: [judged("g0", "orders", "healthy")]
    office.worker.look_again()
    assert office.send() == ["new"]
    office.clock.now += 400
    office.oracle.says = lambda _q: [judged("g0", "orders", "healthy"), no_longer_found("brokers")]
    office.worker.look_again()
    assert office.send() == ["new", "recovered"]


def test_a_victim_that_is_muted_calls_nobody(office: Office) -> None:
    """As long as all that it hits are."""
    office.oracle.says = lambda _q: attributed([judged("g0", "orders", "slow_network", muted="until Monday")], [HOG])
    post(office, alert("g0"))
    office.worker.judge_alerts()
    assert office.send() == []


def test_the_fleet_has_one_row_for_a_cause_and_its_page_lists_whom_it_holds_up(office: Office, server: Running) -> None:
    """A group that is searched for is found, points to the cause, and says what it shows by itself."""
    storm(office)
    fleet_verdicts.record(office.store, "prod", attributed(stormy(), [HOG]), every_seconds=300)
    person = Person(server.url)
    page = told(person.see("/", text=""))
    rows = person.see("/").split("<h2>Groups on topics</h2>")[1].count("<tr>") - 1
    assert rows == 2, "the cause, and who is slow by himself"
    assert "stands for 501 groups" in page and "alone" in page
    assert "336 lagging" in page and "166 cannot tell" in page, "the counts are of groups on topics"
    assert 'held up by <a href="/incidents/' in person.see("/", text="g17")
    listed = told(person.see("/", cluster="prod", cause=HOG.key))
    assert "1 to 100 of 501" in listed and "kafka-configs.sh --alter" in listed and "alone" not in listed
    group = told(person.see("/group", cluster="prod", group="g1"))
    assert "Held up by group &#34;backfill&#34; on broker 1" in group and "g1 is too_few_consumers." in group
    incident = person.see("/incidents/" + office.store.rows("SELECT id FROM incident")[0]["id"])
    shown = told(incident)
    assert "group &#34;backfill&#34; on broker 1: slows others" in shown
    assert "It hits 500 groups" in shown and "of 90 on other brokers 0 did" in shown
    fleet_verdicts.record(office.store, "prod", stormy(), every_seconds=300)
    assert "stands for" not in person.see("/")
    assert "no longer found" in person.see("/", cluster="prod", cause=HOG.key)


def test_programs_get_the_cause_beside_every_subscription(office: Office, server: Running) -> None:
    """Those that it holds up are subscriptions still; the incident has it whole."""
    storm(office)
    fleet_verdicts.record(office.store, "prod", attributed(stormy(), [HOG]), every_seconds=300)
    person = Person(server.url)
    person.headers["Authorization"] = f"Bearer {_token()}"
    found = person.get(f"{server.url}/api/fleet", timeout=10).json()
    assert len(found["subscriptions"]) == 502 and found["causes"][0]["origin"]["group_count"] == 500
    assert {it["cause"] for it in found["subscriptions"]} == {None, HOG.key}
    name = office.store.rows("SELECT id FROM incident")[0]["id"]
    incident = person.get(f"{server.url}/api/incidents/{name}", timeout=10).json()
    assert incident["origin"]["offender"] == "backfill" and incident["subscription_count"] == 500


def test_a_hostile_name_of_an_offender_is_text_everywhere(office: Office, server: Running) -> None:
    """On pages and in messages."""
    bad = replace(HOG, key=f"slows:group:{HOSTILE}", name=HOSTILE, headline=HOSTILE, facts=(HOSTILE,), offender=HOSTILE)
    found = attributed([judged("g0", "orders", "slow_network")], [bad])
    office.oracle.says = lambda _q: found
    post(office, alert("g0"))
    office.worker.judge_alerts()
    fleet_verdicts.record(office.store, "prod", found, every_seconds=300)
    person = Person(server.url)
    name = office.store.rows("SELECT id FROM incident")[0]["id"]
    for page in (person.see("/"), person.see(f"/incidents/{name}"), person.see("/group", cluster="prod", group="g0")):
        assert "<img" not in page and "\u202e" not in page and "\x1b" not in page


def test_who_slows_others_is_one_origin_with_its_brokers_trouble() -> None:
    """The cap with its command, what speaks for it; what is wrong with the same broker only is said with it."""
    made = cluster()
    hog(made, 1)
    made.own(1, "under_replicated", after(-6, 2.0))
    [found] = origins_of(compared(made))
    assert (found.offender, found.brokers, found.name) == ("hog", (1,), 'group "hog" on broker 1')
    assert set(found.groups) == {"g10", "g11", "g12", "g13"}
    assert any("without all replicas" in it for it in found.facts) and "does not prove" in found.facts[-1]
    assert "consumer_byte_rate=" in (found.actions[0][1] or "")
    assert origin_of(found.to_json()) == replace(found, group_count=4)


def test_all_that_is_wrong_with_brokers_by_themselves_is_one_origin() -> None:
    """Of the groups on them, those that wait; the others are not hit. What is not measured does not end it."""
    made = cluster(strain=False)
    made.own(1, "under_replicated", after(-9, 4.0))
    made.own(1, "offline", after(-9, 2.0))
    result = compared(made)
    [found] = origins_of(result)
    assert (found.key, found.verdict) == ("brokers", "leaderless")
    assert any("without all replicas" in it for it in found.facts)
    assert is_over("brokers", "leaderless", result)
    unknown = replace(result, brokers=replace(result.brokers, unknown={"leaderless": ("offline",)}))
    assert not is_over("brokers", "leaderless", unknown)


def test_a_broker_that_tells_nothing_any_more_is_named() -> None:
    """The others only say that they miss it."""
    made = cluster(strain=False)
    made.own(1, "under_replicated", after(-9, 4.0))
    made.own(2, "under_replicated", after(-9, 4.0))
    lost = replace(compared(made), brokers=replace(compared(made).brokers, silent=(3,)))
    [found] = origins_of(lost)
    assert (found.name, found.brokers) == ("broker 3", (3,))
    assert found.facts[0] == "Broker 3 tells nothing of itself any more."


def test_a_healthy_group_of_a_slow_broker_is_not_hit() -> None:
    """And a group's own cause is taken once, by the first origin."""
    both: Sequence[SharedCause] = [HOG, replace(HOG, key="brokers", name="broker 1", verdict="request_queue_full")]
    found = attributed([judged("g0", "orders", "healthy"), judged("g1", "orders", "slow_network")], both)
    assert [it.cause for it in found] == ["healthy", HOG.key, HOG.key, "brokers"]


def test_the_judge_compares_brokers_and_says_what_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the verdicts of a triage; a comparison that fails leaves them as they are."""
    made = cluster()
    hog(made, 1)
    info = new_info(cluster="prod", source="watch", profiles=["jmx_kafka_broker"], window=WINDOW)
    kept = Measured(capture=Capture(info=info, samples=made.samples(), groups=made.groups()), window=WINDOW)
    alone = [judged("g10", "t", "slow_network"), judged("g20", "t", "slow_processor")]
    question = Question(cluster="prod", followed=(("slows:group:other", "slows_others"), ("brokers", "leaderless")))
    found = with_origins(alone, kept, question)
    assert {it.group: it.cause for it in found if it.group} == {
        "g10": "slows:group:hog",
        "g20": "slow_processor",
    }
    ended = [it.topic for it in found if not it.group and it.origin is None]
    assert ended == ["slows:group:other", "brokers"]
    monkeypatch.setattr("workbench.features.broker_features.neighbourhood", lambda *_words: 1 / 0)
    assert with_origins(alone, kept, question) == alone


def _token() -> str:
    from tests.serve.serving import TOKEN

    return TOKEN
