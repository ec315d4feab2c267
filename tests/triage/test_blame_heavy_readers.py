"""Who slows whom: the culprit is named, a busy innocent is not, and what is not measured is "cannot tell"."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow.compute as pc
import pytest

from tests.triage.brokers import RECORD, WINDOW, Line, Made, after, at
from tests.triage.crowds import crowd
from workbench.features.broker_features import neighbourhood
from workbench.queues.tool_words import tools_of
from workbench.thresholds import Thresholds
from workbench.triage.blame_heavy_readers import blame
from workbench.triage.verdict_names import Answer
from workbench.triage.who_holds_up_whom import Impact, actions_of, document

BEGAN = -6.0
HOSTILE_GROUP = "<img src=x onerror=alert(1)>"
LIMITS = Thresholds()


def strained(made: Made, broker: int, begin: float = BEGAN) -> None:
    """Its network threads have no time left, and answers take long to send."""
    made.own(broker, "network_idle", after(begin, 0.1, before=0.9))
    made.own(broker, "response_send_time", after(begin, 1.2, before=0.003), kind="FetchConsumer")
    made.own(broker, "request_handler_idle", at(0.9))
    for signal in ("request_queue_time", "request_local_time"):
        made.own(broker, signal, at(0.004), kind="FetchConsumer")


def neighbours(made: Made, broker: int, *, slow: Line | None, groups: int = 4, clients: bool = True) -> None:
    """Some groups on a broker, each with a client id; `slow` is which share of what arrives they read."""
    for number in range(groups):
        name, rate = f"g{broker}{number}", 200.0 + number
        made.group(name, broker, at(rate), slow, clients=1)
        if clients:
            share = slow or at(1.0)
            made.reads(f"{name}-0", broker, lambda minutes, rate=rate, share=share: rate * RECORD * share(minutes))  # type: ignore[misc]


def hog(
    made: Made, broker: int, *, name: str = "hog", begin: float = BEGAN, until: float = 1.0, rate: float = 5e7
) -> None:
    """A group that begins to read a lot."""
    made.group(name, broker, at(100), after(begin, 0.9, until=until), clients=1)
    made.reads(f"{name}-0", broker, after(begin, rate, until=until))


SLOW = after(BEGAN, 0.6, before=1.0)


def cluster(*, strain: bool = True) -> Made:
    """Three brokers; on broker 1 groups fall behind."""
    made = Made()
    made.well(2, 3)
    if strain:
        strained(made, 1)
    else:
        made.well(1)
    neighbours(made, 1, slow=SLOW)
    neighbours(made, 2, slow=None)
    neighbours(made, 3, slow=None)
    for broker in (1, 2, 3):
        made.traffic(broker, at(5e7))
    return made


def judged(made: Made) -> Impact:
    """Whom it blames."""
    return blame(made.seen(), LIMITS)


def reasons(found: Impact) -> dict[str, str]:
    """Why each reader is not accused."""
    return {it.who: it.because for it in found.cleared}


def test_the_culprit_and_its_victims_are_named() -> None:
    """With brokers, time, bytes before and now, and the groups elsewhere that are well."""
    made = cluster()
    hog(made, 1)
    found = judged(made)
    [cause] = found.causes
    assert found.answer is Answer.YES
    assert cause.offender.name == "hog" and cause.offender.brokers == (1,) and cause.offender.until is None
    assert cause.offender.since == pytest.approx(WINDOW.end.timestamp() + BEGAN * 60, abs=30)
    assert (cause.offender.bytes_per_second_before, cause.offender.bytes_per_second) == (0.0, pytest.approx(5e7))
    assert {it.group for it in cause.victims} == {"g10", "g11", "g12", "g13"}
    assert (cause.groups_served, cause.groups_elsewhere, cause.held_up_elsewhere) == (4, 8, 0)
    assert {it.evidence.signal for it in cause.strains} == {"network_idle", "response_send_time"}
    assert all(
        it.lag_growth_of_arrivals == pytest.approx(0.4, abs=0.05) and it.behind_seconds > 60 for it in cause.victims
    )
    assert found.held_up == {}


def test_a_reader_that_is_busy_all_the_time_is_not_accused() -> None:
    """It reads more than all others, and no more than before."""
    made = cluster()
    hog(made, 1)
    made.group("busy", 1, at(100), clients=1)
    made.reads("busy-0", 1, at(9e7))
    found = judged(made)
    assert [it.offender.name for it in found.causes] == ["hog"]
    assert reasons(found)['group "busy"'] == "it takes no more than before"


def test_a_reader_that_rises_elsewhere_is_not_accused() -> None:
    """Nobody on its own broker begins to wait."""
    made = cluster()
    hog(made, 1)
    hog(made, 2, name="elsewhere", rate=9e7)
    found = judged(made)
    assert [it.offender.name for it in found.causes] == ["hog"]
    assert reasons(found)['group "elsewhere"'] == "no group on its brokers began to wait when it began"


def test_a_reader_that_rises_later_is_not_accused() -> None:
    """Its neighbours waited before it came."""
    made = cluster()
    hog(made, 1, name="later", begin=-2.0)
    found = judged(made)
    assert not found.causes
    assert found.answer is Answer.NO and set(found.held_up or {}) == {"g10", "g11", "g12", "g13"}


def test_nobody_is_accused_if_groups_wait_on_every_broker() -> None:
    """A slow network is no neighbour: who reads more at the same time is innocent."""
    made = Made()
    for broker in (1, 2, 3):
        strained(made, broker)
        neighbours(made, broker, slow=SLOW)
        made.traffic(broker, at(5e7))
    hog(made, 1)
    found = judged(made)
    assert not found.causes
    assert reasons(found)['group "hog"'] == "groups on other brokers are held up as much"


def test_nobody_is_accused_if_the_broker_shows_no_strain() -> None:
    """All of it is measured, and all is well: the groups wait for another reason."""
    made = cluster(strain=False)
    hog(made, 1)
    found = judged(made)
    assert not found.causes
    assert reasons(found)['group "hog"'] == "its brokers show no strain"


@pytest.mark.parametrize(
    ("now", "peers", "accused"),
    [
        (0.021, (0.002, 0.002), True),
        (0.019, (0.002, 0.002), False),
        (0.03, (0.02, 0.02), False),
        # One of the peers has had an incident of its own: the calmest counts.
        (0.046, (0.044, 0.004), True),
        (0.046, (0.044, 0.016), False),
    ],
)
def test_a_broker_that_is_not_calm_clears_nobody(now: float, peers: tuple[float, float], *, accused: bool) -> None:
    """A percentile that is still high from an earlier incident cannot rise threefold; one that is as high everywhere is no strain."""
    made = cluster(strain=False)
    for broker, value in ((1, now), (2, peers[0]), (3, peers[1])):
        made.own(broker, "response_send_time", after(BEGAN, value, before=value / 1.2), kind="FetchConsumer")
    hog(made, 1)
    assert [it.offender.name for it in judged(made).causes] == (["hog"] if accused else [])


def test_a_group_with_a_burst_of_its_own_is_no_victim() -> None:
    """More arrives for it, and it reads as much as before or more."""
    made = cluster()
    hog(made, 1)
    made.group("bursting", 1, after(BEGAN, 900, before=200), after(BEGAN, 0.5, before=1.0))
    [cause] = judged(made).causes
    assert "bursting" not in {it.group for it in cause.victims}


def test_a_group_that_waits_on_other_brokers_too_is_no_victim() -> None:
    """It is slow by itself."""
    made = cluster()
    hog(made, 1)
    for broker in (1, 2):
        made.group("slow", broker, at(200), SLOW)
    [cause] = judged(made).causes
    assert "slow" not in {it.group for it in cause.victims}


def test_two_that_rise_alike_cannot_be_told_apart() -> None:
    """Neither is most of the rise."""
    made = cluster()
    hog(made, 1, name="one")
    hog(made, 1, name="two")
    found = judged(made)
    assert found.answer is Answer.CANNOT_TELL and not found.causes
    assert "one" in found.sentence and "two" in found.sentence


@pytest.mark.parametrize("brokers", [(1, 2), (1, 2, 3)])
def test_a_culprit_on_several_brokers_is_one_cause(brokers: tuple[int, ...]) -> None:
    """On all of them there is no broker to compare with, which is said."""
    made = Made()
    for broker in (1, 2, 3):
        is_hit = broker in brokers
        neighbours(made, broker, slow=SLOW if is_hit else None)
        made.traffic(broker, at(5e7))
        if is_hit:
            strained(made, broker)
            made.reads("hog-0", broker, after(BEGAN, 3e7))
        else:
            made.well(broker)
    found = judged(made)
    [cause] = found.causes
    assert cause.offender.brokers == brokers and cause.offender.bytes_per_second == pytest.approx(3e7 * len(brokers))
    assert len(cause.victims) == 4 * len(brokers)
    assert ("none to compare with" in cause.comparison) == (len(brokers) == 3)


def test_two_culprits_on_two_brokers_are_two_causes() -> None:
    """Each with its own victims."""
    made = Made()
    made.well(3)
    for broker, begin in ((1, -7.0), (2, -5.0)):
        strained(made, broker, begin)
        neighbours(made, broker, slow=after(begin, 0.6, before=1.0))
        hog(made, broker, name=f"hog{broker}", begin=begin)
    neighbours(made, 3, slow=None)
    for broker in (1, 2, 3):
        made.traffic(broker, at(5e7))
    found = judged(made)
    assert {it.offender.name: {one.group[:2] for one in it.victims} for it in found.causes} == {
        "hog1": {"g1"},
        "hog2": {"g2"},
    }


def test_what_has_ended_has_an_end() -> None:
    """The neighbours catch up again."""
    made = Made()
    made.well(2, 3)
    strained(made, 1)
    neighbours(made, 1, slow=lambda minutes: np.where(minutes < -8, 1.0, np.where(minutes < -3, 0.4, 1.3)))
    neighbours(made, 2, slow=None)
    hog(made, 1, begin=-8.0, until=-3.0)
    [cause] = judged(made).causes
    assert cause.offender.until == pytest.approx(WINDOW.end.timestamp() - 180, abs=31)


def test_without_client_ids_a_group_is_found_by_what_its_topics_give() -> None:
    """No quota is set anywhere, so brokers do not measure clients; a topic's bytes are shared out by what each group reads."""
    made = Made()
    made.well(2, 3)
    strained(made, 1)
    neighbours(made, 1, slow=SLOW, clients=False)
    neighbours(made, 2, slow=None, clients=False)
    for number in range(4):
        made.add(
            "topic_reads", {"broker": "kafka-1:9404", "topic": f"g1{number}"}, np.cumsum(2e5 * SLOW(made.minutes)) * 15
        )
    made.group("hog", 1, at(100), after(BEGAN, 0.9), topic="history")
    made.add(
        "topic_reads", {"broker": "kafka-1:9404", "topic": "history"}, np.cumsum(after(BEGAN, 4e7)(made.minutes)) * 15
    )
    found = judged(made)
    [cause] = found.causes
    assert (cause.offender.name, cause.offender.measured_by) == ("hog", "topic_reads")
    assert cause.cap_bytes_per_second is None or cause.cap_bytes_per_second > 0
    [action] = actions_of(cause, tools_of("b:1"))
    assert "client ids are not known" in action.title


def test_who_commits_is_not_accused_of_what_another_reads_of_its_topic() -> None:
    """A reader without commits makes the broker give so much of the topic: no record of the group explains it."""
    made = Made()
    made.well(2, 3)
    strained(made, 1)
    neighbours(made, 1, slow=SLOW, clients=False)
    neighbours(made, 2, slow=None, clients=False)
    for number in range(4):
        more = after(BEGAN, 4e7)(made.minutes) if number == 0 else 0.0
        made.add(
            "topic_reads",
            {"broker": "kafka-1:9404", "topic": f"g1{number}"},
            np.cumsum(2e5 * SLOW(made.minutes) + more) * 15,
        )
    made.traffic(1, after(BEGAN, 4.05e7, before=8e5))
    made.traffic(2, at(8e5))
    found = judged(made)
    assert not found.causes and set(found.held_up or {}) == {"g10", "g11", "g12", "g13"}
    assert found.answer is Answer.CANNOT_TELL and "somebody whose reads no source tells" in found.sentence


def test_a_client_of_no_group_and_a_producer_can_be_culprits() -> None:
    """One that assigns its partitions itself, and one that writes."""
    made = cluster()
    made.reads("backup", 1, after(BEGAN, 5e7))
    [cause] = judged(made).causes
    assert (cause.offender.kind, cause.offender.clients) == ("client", ("backup",))
    made = cluster()
    made.add("client_writes", {"broker": "kafka-1:9404", "member": "loader"}, after(BEGAN, 5e7)(made.minutes))
    [cause] = judged(made).causes
    assert (cause.offender.kind, cause.offender.name) == ("writer", "loader")
    assert "producer_byte_rate=" in (actions_of(cause, tools_of("b:1"))[0].command or "")


@pytest.mark.parametrize("signal", ["leader", "consumer_lag", "broker_traffic"])
def test_a_missing_signal_is_named_and_nobody_is_cleared(signal: str) -> None:
    """Without it the answer is "cannot tell", whoever is busy."""
    made = cluster()
    samples = made.samples()
    left = samples.filter(pc.not_equal(samples["signal"], signal))
    found = blame(neighbourhood(left, made.groups(), WINDOW), LIMITS)
    assert found.answer is Answer.CANNOT_TELL
    assert signal in found.missing and signal in found.sentence


def test_a_window_without_a_baseline_cannot_tell() -> None:
    """There is no before."""
    made = cluster()
    hog(made, 1)
    found = blame(neighbourhood(made.samples(), made.groups(), replace(WINDOW, baseline_start=WINDOW.start)), LIMITS)
    assert found.answer is Answer.CANNOT_TELL and "before" in found.sentence


def test_the_cap_has_its_command_and_its_way_back() -> None:
    """For each client id; a hostile name stays one word of a shell."""
    made = cluster()
    made.group("hog", 1, at(100), after(BEGAN, 0.9))
    made.reads("a'; rm -rf /", 1, after(BEGAN, 5e7))
    [cause] = judged(made).causes
    assert cause.cap_bytes_per_second is not None and 0 < cause.cap_bytes_per_second < cause.offender.bytes_per_second
    limit, back = actions_of(cause, tools_of("b:1"))
    word = """'a'"'"'; rm -rf /'"""
    assert limit.command == (
        f"kafka-configs --bootstrap-server b:1 --entity-type clients --entity-name {word} --alter"
        f" --add-config consumer_byte_rate={round(cause.cap_bytes_per_second)}"
    )
    assert back.command == (
        f"kafka-configs --bootstrap-server b:1 --entity-type clients --entity-name {word} --alter"
        " --delete-config consumer_byte_rate"
    )


@pytest.mark.parametrize(
    ("quotas", "words", "change"),
    [
        (None, "note it first", "--delete-config consumer_byte_rate"),
        ({}, "it has none now", "--delete-config consumer_byte_rate"),
        ({("hog-0", True): 5.0}, "it has none now", "--delete-config consumer_byte_rate"),
        ({("hog-0", False): 9e7}, "set the former cap", "--add-config consumer_byte_rate=90000000"),
    ],
)
def test_the_way_back_is_to_what_was_there(
    quotas: dict[tuple[str, bool], float] | None, words: str, change: str
) -> None:
    """A cap that is taken away would take a former one away, too."""
    made = cluster()
    hog(made, 1)
    [cause] = judged(made).causes
    back = actions_of(cause, tools_of("b:1"), quotas)[1]
    assert words in back.title and (back.command or "").endswith(change)


def test_every_client_id_is_capped_at_once() -> None:
    """One that is left out would read on; a member that no broker names reads nothing, and hides nothing."""
    made = cluster()
    made.group("hog", 1, at(100), after(BEGAN, 0.9), clients=11)
    for number in range(10):
        made.reads(f"hog-{number}", 1, after(BEGAN, 5e6))
    [cause] = judged(made).causes
    assert (cause.offender.name, cause.offender.bytes_per_second) == ("hog", pytest.approx(5e7))
    limit, back = actions_of(cause, tools_of("b:1"), {})
    assert (limit.command or "").startswith("for id in hog-0 hog-1 hog-10 hog-2 hog-3")
    assert '--entity-name "$id" --alter --add-config' in (limit.command or "")
    assert "--delete-config" in (back.command or "") and len(limit.parameters["clients"]) == 11


def test_a_cap_never_gives_more_than_is_set() -> None:
    """Client ids of one group may have quotas of their own."""
    made = cluster()
    made.group("hog", 1, at(100), after(BEGAN, 0.9), clients=2)
    for number in range(2):
        made.reads(f"hog-{number}", 1, after(BEGAN, 2.5e7))
    [cause] = judged(made).causes
    limit, back = actions_of(cause, tools_of("b:1"), {("hog-0", False): 1e6})
    assert limit.parameters["clients"] == back.parameters["clients"] == ["hog-1"]
    [action] = actions_of(cause, tools_of("b:1"), {("hog-0", False): 1e6, ("hog-1", False): 1e6})
    assert action.title.startswith('Pause group "hog"') and "--alter" not in (action.command or "")


@pytest.mark.parametrize("by_topic", [True, False])
def test_a_client_id_that_several_groups_have_is_not_capped(*, by_topic: bool) -> None:
    """Clients' defaults ("rdkafka", "sarama") are of everybody: a cap would hit the victims."""
    made = Made()
    made.well(2, 3)
    strained(made, 1)
    neighbours(made, 1, slow=SLOW, clients=False)
    neighbours(made, 2, slow=None, clients=False)
    made.group("hog", 1, at(100), after(BEGAN, 0.9), clients=1)
    made.views = [
        replace(it, members=tuple(replace(member, client_id="rdkafka") for member in it.members)) for it in made.views
    ]
    made.reads("rdkafka", 1, after(BEGAN, 5e7, before=8e5))
    if by_topic:
        for name, line in ((f"g1{it}", lambda minutes: 2e5 * SLOW(minutes)) for it in range(4)):
            made.add("topic_reads", {"broker": "kafka-1:9404", "topic": name}, np.cumsum(line(made.minutes)) * 15)
        made.add(
            "topic_reads", {"broker": "kafka-1:9404", "topic": "hog"}, np.cumsum(after(BEGAN, 5e7)(made.minutes)) * 15
        )
    made.traffic(1, after(BEGAN, 5e7, before=8e5))
    [cause] = judged(made).causes
    assert (cause.offender.kind, cause.offender.name) == (("group", "hog") if by_topic else ("client", "rdkafka"))
    [action] = actions_of(cause, tools_of("b:1"), {})
    assert "--alter" not in (action.command or "") and "other groups use client id rdkafka" in action.title
    assert cause.cap_bytes_per_second is None and cause.offender.shared_clients == ("rdkafka",)


def test_an_empty_client_id_is_none() -> None:
    """Kafka's tools would set the default of all clients."""
    made = cluster()
    made.group("hog", 1, at(100), clients=1)
    made.views = [replace(it, members=tuple(replace(one, client_id="") for one in it.members)) for it in made.views]
    assert not made.seen().clients_of


def test_a_small_writer_is_not_accused_beside_a_large_reader() -> None:
    """It is all that is written more, and next to nothing of what the broker moves."""
    made = cluster()
    hog(made, 1)
    for broker in (1, 2, 3):
        made.traffic(broker, at(1e7), kind="BytesInPerSec")
    made.add("client_writes", {"broker": "kafka-1:9404", "member": "etl"}, after(BEGAN, 1.5e6)(made.minutes))
    found = judged(made)
    assert [it.offender.name for it in found.causes] == ["hog"]
    assert reasons(found)['producer "etl"'] == "it takes hardly more than before"


def test_the_others_keep_what_they_need_under_the_cap() -> None:
    """A broker gave 10 MB/s in all, and the others took 4 MB/s before: 80 % of 10 less 4."""
    made = Made()
    made.well(2)
    strained(made, 1)
    neighbours(made, 2, slow=None)
    made.group("g", 1, at(4000), SLOW, clients=1)
    made.reads("g-0", 1, lambda minutes: 4e6 * SLOW(minutes))
    hog(made, 1, rate=7.6e6)
    made.traffic(1, lambda minutes: np.where(minutes >= BEGAN, 1e7, 4e6))
    [cause] = judged(made).causes
    assert cause.cap_bytes_per_second == pytest.approx(min(8e6 - 4e6, 3.8e6), rel=0.02)


@pytest.mark.parametrize("begin", [(-8.0, -3.5), (-22.0, -12.0)])
def test_in_a_crowd_no_innocent_is_accused_and_nearly_all_culprits_are(begin: tuple[float, float]) -> None:
    """Over clusters by chance, begun in the window or before; a victim that is not late yet is none, so not all of them are."""
    guilty = accused = hurt = named = 0
    for seed in range(40):
        it = crowd(seed, begin=begin)
        found = judged(it.made)
        offenders = {one.offender.name for one in found.causes}
        victims = {one.group for cause in found.causes for one in cause.victims}
        assert offenders <= it.guilty, (seed, found.sentence)
        assert victims <= it.hurt, (seed, victims - it.hurt)
        guilty, accused = guilty + len(it.guilty), accused + len(offenders)
        hurt, named = hurt + len(it.hurt), named + len(victims)
    assert guilty > 20 and accused >= 0.9 * guilty
    assert named >= 0.85 * hurt


def test_the_document_says_what_was_compared() -> None:
    """JSON with ISO times, for programs."""
    made = cluster()
    hog(made, 1)
    found = judged(made)
    [cause] = document(found, "c", [actions_of(it, tools_of("b:1")) for it in found.causes])["causes"]
    assert cause["offender"]["clients"] == ["hog-0"]
    assert cause["strains"][0]["before"] is not None and cause["actions"][0]["parameters"]["clients"] == ["hog-0"]
