"""Java consumers of the lab behind the real JMX agent: each set of rules, both generations of the agent, both protocols.

A listener, a Kafka Streams application, and a sink of Kafka Connect.
"""

from __future__ import annotations

import urllib.request
from functools import partial
from pathlib import Path

import pytest

from evaluation.others import java_consumer
from evaluation.others.java_consumer import JavaMeasured, kafka_settings
from tests.waiting import wait_for
from workbench.collect.scrape import Page, page_series
from workbench.collect.source_join import with_groups
from workbench.errors import SetupError
from workbench.lab.client_spec import Behaviour, Traffic
from workbench.lab.kafka_jars import JMX_AGENTS
from workbench.lab.lab import Lab
from workbench.lab.producer_and_consumers import FleetSpec, LabFleet
from workbench.profiles import load_profile
from workbench.samples import SeriesTable
from workbench.spark.java import Java

WAYS = (
    JavaMeasured(rules="plain", agent="0.20.0", protocol="classic"),
    JavaMeasured(rules="connect", agent="0.20.0", protocol="consumer"),
    JavaMeasured(rules="strimzi", agent="1.0.1", protocol="classic", max_poll_records=50),
    JavaMeasured(rules="connect", agent="1.0.1", protocol="classic"),
    JavaMeasured(rules="plain", agent="1.0.1", protocol="consumer"),
)


def page_of(address: str) -> str:
    """A metrics page."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def series_of(fleet: LabFleet, name: str, profile: str) -> SeriesTable:
    """What a profile reads from both pages of an instance."""
    known = load_profile(profile)
    agent = f"127.0.0.1:{fleet.port(f'{name} agent')}"
    pages = [page_of(address) for address in (agent, *fleet.addresses())]
    [found] = page_series(Page(url="http://page", taken_at=1000.0, text="\n".join(pages)), [known], cluster="c")
    return with_groups(found, known, {name: fleet.spec.group})


@pytest.mark.lab
@pytest.mark.parametrize("measured", WAYS, ids=lambda it: f"{it.rules}-{it.agent}-{it.protocol}")
def test_a_live_page_has_every_signal_of_its_profile(lab: Lab, tmp_path: Path, measured: JavaMeasured) -> None:
    """Of a topic with a dot, which the client exports under two spellings, each partition counts once."""
    tag = f"{measured.rules}-{measured.agent.replace('.', '')}-{measured.protocol}"
    topic, group = f"java.events-{tag}", f"java-{tag}"
    spec = FleetSpec(
        topic=topic, group=group, partitions=3, instances=1, consumers=1, processors={}, consumer="java", measured=measured,
        traffic=Traffic(bootstrap=lab.bootstrap, topic=topic, partitions=3, rate_per_second=60, event_types={"order": 1.0}),
        behaviour=Behaviour(process_seconds={"order": 0.002}),
    )  # fmt: skip
    profile = java_consumer.PROFILES[measured.rules]
    with LabFleet.start(lab, spec, tmp_path / "fleet") as fleet:
        [name] = fleet.instances
        wanted = set(load_profile(profile).signals)

        def complete() -> bool:
            rows = series_of(fleet, name, profile).to_samples().to_pylist()
            lags = [row["partition"] for row in rows if row["signal"] == "consumer_lag"]
            return {row["signal"] for row in rows} == wanted and sorted(lags) == [0, 1, 2]

        wait_for(complete, 60, pause_seconds=0.5)
        rows = series_of(fleet, name, profile).to_samples().to_pylist()
        assert {row["topic"] for row in rows} == {None, topic}
        assert {(row["group"], row["member"]) for row in rows} == {(group, name)}
        wait_for(lambda: "spring_kafka_listener_seconds_count{" in page_of(fleet.addresses()[0]), 30)


# The profile of what only the program itself shows.
OWN = {"streams": "kafka_streams", "connect_sink": "connect_sink"}


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.parametrize("agent", sorted(JMX_AGENTS))
@pytest.mark.parametrize("consumer", OWN)
def test_a_live_page_of_streams_and_of_a_sink_has_every_signal(
    lab: Lab, tmp_path: Path, consumer: str, agent: str
) -> None:
    """What the program shows, and what its consumer shows under the client id that Kafka knows."""
    name = f"{consumer.replace('_', '-')}-{agent.replace('.', '')}"
    spec = FleetSpec(
        topic=f"{name}.events", group=name, partitions=3, instances=1, consumers=1, processors={}, consumer=consumer,
        measured=JavaMeasured(rules="plain", agent=agent),
        traffic=Traffic(bootstrap=lab.bootstrap, topic=f"{name}.events", partitions=3, rate_per_second=60, event_types={"order": 1.0}),
        behaviour=Behaviour(process_seconds={"order": 0.002}),
    )  # fmt: skip
    with LabFleet.start(lab, spec, tmp_path / "fleet") as fleet:
        [client] = fleet.client_ids(f"{name}-0")
        agent_page = f"127.0.0.1:{fleet.port(f'{name}-0 agent')}"
        for profile in ("jmx_exporter_plain", OWN[consumer]):
            wait_for(partial(shows_all, agent_page, profile, client), 90, pause_seconds=0.5)


def shows_all(address: str, profile: str, client: str) -> bool:
    """Whether a page has every signal of a profile for one client, and for no other."""
    known = load_profile(profile)
    [found] = page_series(Page(url="http://page", taken_at=1000.0, text=page_of(address)), [known], cluster="c")
    rows = with_groups(found, known, {client: "group"}).to_samples().to_pylist()
    return {row["signal"] for row in rows} == set(known.signals) and {row["member"] for row in rows} == {client}


def test_a_group_of_the_new_protocol_gets_its_times_from_the_broker() -> None:
    """Its client refuses to start with a session timeout of its own."""
    timing: dict[str, str | int | float | bool] = {"session.timeout.ms": 6000}
    assert kafka_settings(JavaMeasured(protocol="classic"), timing)["session.timeout.ms"] == 6000
    for protocol in ("consumer", "streams"):
        assert "session.timeout.ms" not in kafka_settings(JavaMeasured(protocol=protocol), timing)


def test_a_client_is_found_by_the_name_of_its_instance_or_group() -> None:
    """Quotas and scopes name whole client ids; a slow network begins with those of a group."""
    assert java_consumer.client_id("streams", "pay-0") == "pay-0-StreamThread-1-consumer"
    assert java_consumer.client_id("connect_sink", "pay-0") == "connector-consumer-pay-0-0"
    assert java_consumer.client_id("loop", "pay-0") == java_consumer.client_id("java", "pay-0") == "pay-0"
    assert java_consumer.client_id("connect_sink", "pay", whole=False) == "connector-consumer-pay"
    assert java_consumer.client_id("streams", "pay", whole=False) == "pay"


def test_a_java_without_a_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime alone cannot compile the lab's consumer."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    alone = Java(program=tmp_path / "java", version=17, found_in="test")
    monkeypatch.setattr(java_consumer, "find_java", lambda: alone)
    with pytest.raises(SetupError, match="Java compiler"):
        java_consumer.compiled()
