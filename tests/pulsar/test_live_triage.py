"""Triage of a real standalone: every incident that one broker can have is named, and what only looks like one is not."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.pulsar.incidents import GROUP, Incidents, acknowledge, incidents, make_all
from workbench.api.measurement_requests import Measurements
from workbench.api.pulsar_triage import look_twice
from workbench.api.triages import exit_code
from workbench.cli.triage import command
from workbench.errors import ExitCode
from workbench.judgement_numbers import FLUSH_SECONDS, PAUSE_SECONDS
from workbench.lab.pulsar import PulsarStandalone
from workbench.settings import Cluster, checked_cluster
from workbench.thresholds import Thresholds
from workbench.triage.finding import Finding
from workbench.triage.pulsar.what_servers_tell import servers_of
from workbench.triage.triage_engine import Triage
from workbench.triage.verdict_names import State

pytestmark = [pytest.mark.lab, pytest.mark.slow]

OBJECTIVE_SECONDS = 20.0
LIMITS = Thresholds(time_lag_objective_seconds=OBJECTIVE_SECONDS)


@pytest.fixture(scope="module")
def at(standalone: PulsarStandalone) -> Iterator[Incidents]:
    """Its incidents."""
    with incidents(standalone) as made:
        yield made


@pytest.fixture(scope="module")
def expected(at: Incidents) -> dict[str, str]:
    """All incidents, old enough to be judged."""
    made = make_all(at)
    time.sleep(PAUSE_SECONDS + OBJECTIVE_SECONDS)
    return made


def of(standalone: PulsarStandalone) -> Cluster:
    """Its settings."""
    return checked_cluster(
        {"name": "events", "system": "pulsar", "timeout_seconds": 30, "pulsar": {"admin_url": standalone.admin_url}}
    )


def look(standalone: PulsarStandalone, *groups: str) -> Triage:
    """A triage of these groups, or of all."""
    return look_twice(Measurements(cluster="events", groups=groups), of(standalone), LIMITS).triage


@pytest.fixture(scope="module")
def triage(standalone: PulsarStandalone, expected: dict[str, str]) -> Triage:
    """One triage of all."""
    found = look(standalone)
    for it in sorted(found.findings, key=lambda it: it.topic):
        print(f"{it.topic:<28}{expected[it.topic.split('/')[1]]:<22}{it.verdict:<22}{it.headline}")
    return found


def finding(triage: Triage, namespace: str) -> Finding:
    """That of a namespace's topic."""
    [it] = [it for it in triage.findings if it.topic == f"public/{namespace}/orders"]
    return it


def test_every_incident_has_its_verdict_and_nothing_else_has_one(triage: Triage, expected: dict[str, str]) -> None:
    """Nineteen incidents, one of which nobody can tell, and six subscriptions on which nothing is wrong."""
    assert {it.topic.split("/")[1]: str(it.verdict) for it in triage.findings} == expected
    assert triage.incomplete == ()
    assert exit_code(triage) is ExitCode.FINDINGS
    calm = ("delayed", "healthy", "compacted", "batches", "some-refused", "skew")
    assert {it.state for it in triage.findings if it.topic.split("/")[1] in calm} == {State.HEALTHY}


def test_the_partition_and_its_numbers_are_named(triage: Triage) -> None:
    """A hole on one of three partitions; the limit that is reached; who holds the keys; what the limit lets through."""
    hole = finding(triage, "hole-in-one")
    assert hole.headline.startswith("Partition 1: A hole: ")
    assert hole.scope.partitions == (1,)
    assert "2 partitions healthy." in hole.also_seen
    assert "(the limit is 20)" in finding(triage, "blocked").headline
    assert "holds (" in finding(triage, "keys").headline
    assert finding(triage, "hot-key").headline.startswith("Keys of ")
    assert "a limit of 5 messages/s" in finding(triage, "throttled").headline
    assert finding(triage, "expiring").also_seen[0].startswith("It lags, too. Nobody is connected")


def test_the_command_says_the_same(
    standalone: PulsarStandalone, expected: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In JSON and on a terminal, by the name of one topic's subscription, with the exit codes of a triage of Kafka."""
    file = tmp_path / "workbench.toml"
    file.write_text(
        f'[thresholds]\ntime_lag_objective_seconds = {OBJECTIVE_SECONDS}\n[clusters.events]\nsystem = "pulsar"\n'
        f'[clusters.events.pulsar]\nadmin_url = "{standalone.admin_url}"\n'
    )
    monkeypatch.setenv("WORKBENCH_CONFIG", str(file))
    given = ["--cluster", "events", "--observe", "3s"]
    dead = [*given, "--group", f"{GROUP}@public/dead/orders"]
    run = CliRunner().invoke(command, [*dead, "--json"], standalone_mode=False)
    assert (run.exception, run.return_value) == (None, ExitCode.FINDINGS)
    [told] = json.loads(run.stdout)["findings"]
    assert (told["verdict"], told["lag_entries"], told["path"][-1]["node"]) == (
        "dead_subscription",
        50,
        "nobody_connected",
    )
    shown = CliRunner().invoke(command, dead, standalone_mode=False)
    assert "workbench runbooks show DeadSubscription" in shown.stdout and "50 entries" in shown.stdout
    calm = CliRunner().invoke(command, [*given, "--group", f"{GROUP}@public/healthy/orders"], standalone_mode=False)
    assert (calm.exception, calm.return_value) == (None, ExitCode.OK)
    assert expected["healthy"] == "healthy"


def test_its_broker_tells_the_rest(standalone: PulsarStandalone, triage: Triage) -> None:
    """Without a setting: the page of its admin. What one standalone does not have, and what is known for too short, is open."""
    found = look_twice(Measurements(cluster="events", groups=()), of(standalone), LIMITS).capture
    told = set(found.samples["signal"].to_pylist())
    assert told == {"load_usage", "entry_writes", "cache_misses", "acknowledgement_writes", "store_write_time"}
    servers = servers_of(found.samples, brokers=1, end_seconds=found.window.end.timestamp())
    assert (servers.bad_reports, servers.unload_times, servers.quarantines, servers.busiest_share) == (
        0,
        None,
        None,
        None,
    )
    assert servers.ack_share is not None and 0 < servers.ack_share < 1 and servers.ack_writers
    assert all(0 < it < FLUSH_SECONDS for it in servers.write_seconds.values())
    assert servers.misses["public/restarts/orders"] > 0
    assert "entries/s of the topic are not in the cache" in finding(triage, "restarts").headline


def test_the_advice_cures(standalone: PulsarStandalone, at: Incidents, expected: dict[str, str]) -> None:
    """Who reads on, and a higher limit: what was lagging is catching up, or is healthy."""
    assert expected["dead"] == "dead_subscription"
    consumer = at.subscribe("persistent://public/dead/orders")
    at.read(consumer, acknowledge)
    at.admin("DELETE", "namespaces/public/throttled/subscriptionDispatchRate")
    time.sleep(5)
    found = look(standalone, f"{GROUP}@public/dead/orders", f"{GROUP}@public/throttled/orders")
    assert {it.state for it in found.findings} <= {State.HEALTHY, State.DRAINING}, [
        it.headline for it in found.findings
    ]
