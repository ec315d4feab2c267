"""Capacity advice: what is counted, and what cannot be."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from workbench.report.sizing_advice import sizing_of
from workbench.samples import SampleBatch

PAGES = ("server_start_time", [{"broker": f"kafka-{number}:7071"} for number in range(3)])
CLIENTS = ("broker_rtt", [{"group": "g", "member": "m", "broker": str(number)} for number in (1, 2)])


@pytest.mark.parametrize(
    ("told", "brokers"),
    [((), None), ((CLIENTS,), 2), ((PAGES,), 3), ((PAGES, CLIENTS), 3)],
    ids=["nothing", "clients", "pages", "both"],
)
def test_a_broker_is_one_whoever_tells_of_it(told: tuple[Any, ...], brokers: int | None) -> None:
    """Its own page has its address, and a client its id: counted twice, each would seem to have half of its partitions."""
    batch = SampleBatch("prod", "test")
    for signal, labels in told:
        for each in labels:
            batch.add(signal, each, [1_795_000_000_000_000], [1.0])
    finding: Any = SimpleNamespace(
        topic="orders", partitions=range(6000), arrival_per_second=None, scope=SimpleNamespace(needed=None)
    )
    capture: Any = SimpleNamespace(samples=batch.to_arrow())
    found = sizing_of([finding], capture)
    assert (found.partitions, found.brokers) == (6000, brokers)
    each = {2: "about 3,000 each", 3: "about 2,000 each"}
    assert each.get(brokers or 0, "Partitions per broker: unknown") in "".join((*found.advice, *found.unknown))
