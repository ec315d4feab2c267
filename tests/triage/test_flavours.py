"""The same story told by other brokers' metrics: the same culprit and victims, and what a profile lacks is open, not well."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.profiles.pages import PAGES
from tests.triage.brokers import EVERY, RECORD, WINDOW, Made, after, at
from tests.triage.test_blame_heavy_readers import BEGAN, SLOW, neighbours, strained
from tests.triage.test_brokers import quiet
from workbench.api.who_slows_whom import impact_of
from workbench.collect.capture import Capture, new_info
from workbench.collect.scrape import Page, page_series
from workbench.features.broker_features import OF_SERVERS, Neighbourhood, neighbourhood
from workbench.profiles import MappingRule, Profile, load_profile
from workbench.queues.tool_words import tools_of
from workbench.reference.broker_profile_table import FROM_KAFKA, lacking, of_brokers, offenders
from workbench.samples import GROUPS_SCHEMA, SampleBatch, concat_series, most_trusted
from workbench.thresholds import Thresholds
from workbench.triage.blame_heavy_readers import blame
from workbench.triage.broker_findings import BrokerVerdict
from workbench.triage.brokers import judge_brokers
from workbench.triage.verdict_names import Answer
from workbench.triage.who_holds_up_whom import BlamedCause

LIMITS = Thresholds()
OURS = "jmx_kafka_broker"
PROFILES = {it.name: it for it in of_brokers()}
ABLE = [name for name, it in PROFILES.items() if offenders(it) != "nobody"]
RATE = 50_000.0  # records/s that the culprit reads


def one_of(pattern: str) -> str:
    """A text that a pattern of a profile matches."""
    text = next((it for it in (pattern.split("|")[0], "orders", "x") if re.fullmatch(pattern, it)), None)
    assert text is not None, pattern
    return text


def value_of(rule: MappingRule, kind: str) -> str:
    """A value of `stat_label` that means a kind."""
    tried = [kind, *rule.stats, f"my-cluster-broker-{kind}", "get_object", "put_object"]
    return next(it for it in tried if kind.startswith((rule.kind_of(it) or "none").split(" ")[0]))


def exported(profile: Profile, signal: str, row: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """How the exporter of a profile writes a series: the metric's name and its labels."""
    rule, kind = profile.signals[signal], str(row["stat"])
    labels = {theirs: str(row[ours]) for ours, theirs in rule.labels.items() if row[ours] is not None}
    if rule.stat_label is not None and rule.stat_label not in labels:
        labels[rule.stat_label] = value_of(rule, kind)
    for label, pattern in rule.where.items():
        if label not in labels and pattern:
            labels[label] = one_of(pattern)
    return rule.kinds.get(kind, rule.metric), labels


def in_names_of(made: Made, profile: Profile) -> pa.Table:
    """The samples as they come through a profile from its exporter's names; what Kafka itself tells comes as ever."""
    samples = made.samples()
    batch = SampleBatch("c", profile.name)
    address = (
        profile.signals.get("server_start_time") or next(iter(profile.signals.values()))
    ).stat_label == "instance"
    by_series = samples.group_by(["signal", "broker", "topic", "partition", "member", "stat"]).aggregate(
        [("ts", "list"), ("value", "list")]
    )
    for row in by_series.to_pylist():
        signal = row["signal"]
        if signal not in profile.signals or signal in FROM_KAFKA:
            continue
        if address:  # its name of a broker is its id
            row["broker"] = re.sub(r"kafka-(\d+):.*", r"\1", row["broker"])
        metric, labels = exported(profile, signal, row)
        found = profile.meaning(metric, labels)
        assert found is not None and found.signal == signal, (metric, labels, found)
        times = [round(it.timestamp() * 1e6) for it in row["ts_list"]]
        theirs = np.array(row["value_list"], float) / (found.scale or 1.0)
        batch.add(signal, found.labels, times, theirs, stat=found.stat, scale=found.scale)
    own = samples.filter(pc.is_in(samples["signal"], pa.array(sorted(FROM_KAFKA))))
    return pa.concat_tables([own, batch.to_arrow()])


def told_all(made: Made) -> Made:
    """What brokers tell in several ways is told in each: idle time beside the share, bytes of topics beside those of clients."""
    rows = made.samples().to_pylist()
    idle: dict[str, list[float]] = {}
    for row in rows:
        if row["signal"] == "request_handler_idle":
            idle.setdefault(row["broker"], []).append(row["value"])
    for broker, values in idle.items():
        made.add("request_handler_idle_time", {"broker": broker}, np.cumsum(values) * EVERY)
    commits: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        if row["signal"] == "committed_offset":
            commits.setdefault((row["topic"], row["partition"]), []).append(row["value"])
    for (topic, broker), values in commits.items():
        read = (np.array(values) - values[0]) * RECORD
        made.add("topic_reads", {"broker": f"kafka-{broker}:9404", "topic": topic}, read)
        made.add("topic_writes", {"broker": f"kafka-{broker}:9404", "topic": topic}, read)
    return made


def story() -> Made:
    """A group on broker 1 begins to read a backlog, and its neighbours there wait."""
    made = Made()
    made.well(2, 3)
    strained(made, 1)
    neighbours(made, 1, slow=SLOW)
    for broker in (2, 3):
        neighbours(made, broker, slow=None)
    made.group("hog", 1, at(100.0), after(BEGAN, RATE / 100, before=0.9), clients=1, backlog=3e7)
    made.reads("hog-0", 1, after(BEGAN, RATE * RECORD, before=90 * RECORD))
    for broker in (1, 2, 3):
        made.traffic(broker, after(BEGAN, RATE * RECORD + 1e6, before=1e6) if broker == 1 else at(1e6))
    return told_all(made)


def seen(made: Made, profile: Profile) -> Neighbourhood:
    """On the grid."""
    return neighbourhood(in_names_of(made, profile), made.groups(), WINDOW)


def told(cause: BlamedCause) -> tuple[str, tuple[int, ...], set[str]]:
    """Culprit, brokers, victims."""
    return cause.offender.name, cause.offender.brokers, {it.group for it in cause.victims}


@pytest.mark.parametrize("name", ABLE)
def test_the_same_story_has_the_same_culprit_and_victims(name: str) -> None:
    """Whatever the metrics are called; and by what the culprit's bytes were measured is as the documents say."""
    found = blame(seen(story(), PROFILES[name]), LIMITS)
    [ours] = blame(seen(story(), PROFILES[OURS]), LIMITS).causes
    assert found.answer is Answer.YES, found.sentence
    [cause] = found.causes
    assert told(cause) == told(ours) == ("hog", (1,), {"g10", "g11", "g12", "g13"})
    by_client = "client_reads" in PROFILES[name].signals
    assert cause.offender.measured_by == ("client_reads" if by_client else "topic_reads")
    assert cause.offender.bytes_per_second == pytest.approx(RATE * RECORD, rel=0.1)
    signals = {it.evidence.signal for it in cause.strains}
    assert signals == {it.evidence.signal for it in ours.strains if it.evidence.signal in PROFILES[name].signals}


@pytest.mark.parametrize("name", sorted(PROFILES.keys() - set(ABLE)))
def test_where_nobody_can_be_accused_it_cannot_be_told(name: str) -> None:
    """With what is not measured."""
    found = blame(seen(story(), PROFILES[name]), LIMITS)
    assert found.answer is Answer.CANNOT_TELL and "broker_traffic" in found.missing and not found.causes


@pytest.mark.parametrize("name", PROFILES)
def test_what_a_profile_lacks_is_open_as_the_table_says(name: str) -> None:
    """Of brokers that are well, each verdict is a no or open, with the signals that the profile has no metric for."""
    profile = PROFILES[name]
    made = told_all(quiet())
    made.batch.add("missing_replicas", {"topic": "g10", "partition": 1}, [round(made.at[-1] * 1e6)], [0])
    for broker in (1, 2, 3):
        made.own(broker, "offline", at(0.0))
    look = judge_brokers(
        at_hand := seen(made, profile), blame(at_hand, LIMITS), LIMITS, tools_of("b:1"), no_replicas=profile.no_replicas
    )
    assert not look.findings
    assert look.unknown == lacking(profile)
    assert set(look.unsuited) == ({BrokerVerdict.UNDER_REPLICATED} if profile.no_replicas else set())


@pytest.mark.parametrize(
    ("profiles", "is_asked"), [([OURS], True), (["automq"], False), (["nowhere", "bmq_like"], False)]
)
def test_brokers_without_replicas_raise_no_alarm_of_replication(profiles: list[str], *, is_asked: bool) -> None:
    """Although a source says that a replica is missing; and the reason is told. A profile that is not here says nothing."""
    made = quiet()
    made.own(1, "under_replicated", after(-10, 4.0))
    made.batch.add("missing_replicas", {"topic": "g10", "partition": 1}, [round(made.at[-1] * 1e6)], [1])
    info = new_info(cluster="prod", source="watch", profiles=profiles, window=WINDOW)
    kept = Capture(info=info, samples=made.samples(), groups=made.groups())
    found = impact_of(kept, neighbourhood(kept.samples, kept.groups, WINDOW))
    verdicts = {it.verdict for it in found.brokers.findings}
    assert (BrokerVerdict.UNDER_REPLICATED in verdicts) == is_asked
    reasons = found.to_json()["unsuited"]
    assert reasons == ({} if is_asked else {"under_replicated": load_profile(profiles[-1]).no_replicas})


def test_every_signal_of_servers_is_read_by_some_profile() -> None:
    """None is there for nothing."""
    assert set(OF_SERVERS) <= set().union(*(it.signals for it in PROFILES.values()))


def test_brokers_of_one_cluster_may_have_exporters_of_several_kinds() -> None:
    """Each counts by its own, also one whose agent is older and names a counter otherwise; a second look at one broker does not."""
    example = PAGES["jmx_broker_example"]
    pages = {
        "b1:1": PAGES["jmx_kafka_broker"],
        "b2:1": example.replace('"1",resource="app-info"', '"2",resource="app-info"'),
        "b3:1": example.replace('"1",resource="app-info"', '"3",resource="app-info"').replace("_count_total", "_count"),
    }
    profiles = [load_profile(name) for name in (OURS, "jmx_broker_example")]
    at_once = [
        page_series(
            Page(url=f"http://{host}/metrics", taken_at=WINDOW.end.timestamp() - ago, text=text), profiles, cluster="c"
        )
        for ago in (30, 0)
        for host, text in pages.items()
    ]
    samples = most_trusted([concat_series(it) for it in zip(*at_once, strict=True)]).merged().to_samples()
    found = neighbourhood(samples, GROUPS_SCHEMA.empty_table(), WINDOW)
    assert dict(found.addresses) == {1: "b1:1", 2: "b2:1", 3: "b3:1"}
    for own in found.servers.values():
        assert {"request_handler_idle", "broker_traffic", "metadata_requests"} <= {signal for signal, _ in own}
    assert {client for client, broker in found.clients if broker == 3} >= {"reader", "tail-0"}
