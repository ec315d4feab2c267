"""Spring Boot applications of the lab: what their runs are about, and what a real one shows, of both generations of Boot."""

from __future__ import annotations

import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from evaluation.others.scenarios import OTHERS, make_scenario
from evaluation.others.spring import KAFKA_MODULES, Boot, SpringMeasured, drawn
from tests.waiting import wait_for
from workbench.collect.scrape import Page, page_series
from workbench.lab.client_spec import Behaviour, Traffic
from workbench.lab.lab import Lab
from workbench.lab.producer_and_consumers import FleetSpec, LabFleet
from workbench.lab.scenario_circumstances import Draw
from workbench.profiles import load_profile

SPRING = [name for name in OTHERS if name.startswith("spring_")]


@pytest.mark.parametrize("seed", range(12))
def test_a_truth_names_members_only_where_pods_name_their_consumers(seed: int) -> None:
    """Java's default ids are the same in every pod, and several consumers of a pod hang together."""
    made = make_scenario("spring_hangs", seed, bootstrap="b", run_id="r")
    measured: SpringMeasured = made.spec.measured
    named = measured.client_ids == "pod" and measured.concurrency == 1
    assert ("members" in made.scope) is named
    assert all(name.endswith("-0") for name in made.scope.get("members", ()))


@pytest.mark.parametrize("name", SPRING)
@pytest.mark.parametrize("seed", range(12))
def test_consumers_have_equally_many_partitions(name: str, seed: int) -> None:
    """Else one of them would be late alone; only of those that are too many some have none."""
    spec = make_scenario(name, seed, bootstrap="b", run_id="r").spec
    members = spec.instances * spec.measured.concurrency
    assert (spec.partitions % members == 0) is (name != "spring_idle_members")
    assert spec.consumers in (spec.measured.concurrency, 3 * spec.measured.concurrency)


def page_of(address: str) -> str:
    """A metrics page."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.parametrize(
    ("boot", "observed"), [(boot, observed) for boot in KAFKA_MODULES for observed in (False, True)]
)
def test_a_live_page_has_every_signal_of_its_profiles(lab: Lab, tmp_path: Path, boot: Boot, *, observed: bool) -> None:
    """What Micrometer makes of Kafka's metrics, and the listener's timer, whose labels are others where Spring observes it."""
    name = f"spring-{boot.replace('.', '')}-{'observed' if observed else 'timed'}"
    measured = replace(
        drawn(Draw(name, 1, lab.bootstrap)), boot=boot, kind="record", ack="BATCH", observed=observed, concurrency=1,
        protocol="classic",
    )  # fmt: skip
    spec = FleetSpec(
        topic=f"{name}.events", group=name, partitions=3, instances=1, consumers=1, processors={}, consumer="spring", measured=measured,
        traffic=Traffic(bootstrap=lab.bootstrap, topic=f"{name}.events", partitions=3, rate_per_second=60, event_types={"order": 1.0}),
        behaviour=Behaviour(process_seconds={"order": 0.002}),
    )  # fmt: skip
    profiles = [load_profile(it) for it in ("micrometer", "spring_listener")]
    with LabFleet.start(lab, spec, tmp_path / "fleet") as fleet:
        [address] = fleet.addresses()

        def complete() -> bool:
            page = Page(url=f"http://{address}", taken_at=1000.0, text=page_of(address))
            found = page_series(page, profiles, cluster="c")
            told = [
                set(it.names["signal"].to_pylist()) == set(of.signals) for it, of in zip(found, profiles, strict=True)
            ]
            groups = set(found[1].names["group"].to_pylist())
            return all(told) and groups == ({name} if observed else {None})

        wait_for(complete, 60, pause_seconds=0.5)
