"""What a scenario is, and how the circumstances of one are drawn from its seed.

The rates are derived from the fault's arithmetic (use = arrivals × time / threads), not tried out: a healthy fleet runs at 5 to 60 %
of its capacity, a sick one at 150 % and more.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from workbench.lab.client_spec import Behaviour, Traffic
from workbench.lab.producer_and_consumers import RUNTIME, FleetSpec, LabFleet
from workbench.runtime import ProcessorConfig
from workbench.triage.verdict_names import Verdict

TYPES = ("order", "refund", "invoice", "shipment", "signup", "review", "payout", "coupon")
Fault = Callable[[LabFleet], None]  # makes something happen to a fleet
_QUEUE_CAPACITY = 40  # small, so that a queue is full within seconds
QUICK_SECONDS = 0.003


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One run to be.

    Attributes:
        steady_seconds: the healthy time before the fault.
        incident_seconds: the time from the fault to the look.
        fault: what happens then.
        expected: the verdict, and the parts of its scope that must be right.
        side: questions off the path that must be answered with yes: what is also true.
        also: other verdicts that are as right.
        loss_ahead: whether the finding must warn of what retention is about to delete.
    """

    name: str
    seed: int
    spec: FleetSpec
    steady_seconds: float
    incident_seconds: float
    fault: Fault
    expected: Verdict
    scope: dict[str, Any] = field(default_factory=dict)
    side: tuple[str, ...] = ()
    loss_ahead: bool = False
    also: tuple[Verdict, ...] = ()


def behaving(**changes: Any) -> Fault:
    """From now on, the handlers behave so."""
    return lambda fleet: fleet.set_behaviour(**changes)


def sending(**changes: Any) -> Fault:
    """From now on, the producer sends so."""
    return lambda fleet: fleet.set_traffic(**changes)


def growing(factor: float) -> Fault:
    """From now on, so many times the traffic."""
    return lambda fleet: fleet.set_traffic(rate_per_second=fleet.traffic.rate_per_second * factor)


class Draw:
    """Draws the circumstances of a run from its seed."""

    def __init__(self, name: str, seed: int, bootstrap: str) -> None:
        self.random = random.Random(f"{name}/{seed}")  # noqa: S311 - chance, not secrets
        self.name, self.seed = name, seed
        self.bootstrap = bootstrap
        self.partitions = self.random.choice((6, 8, 9, 12))
        self.instances = self.random.choice((2, 3))
        self.consumers = 1
        self.rate = self.random.uniform(160, 260)
        self.threads = 2
        names = self.random.sample(TYPES, self.random.choice((4, 5)))
        self.types = {name: self.random.uniform(1.0, 2.0) for name in names}
        self.max_uncommitted = 10_000
        self.max_attempts = 3
        self.proxied = False
        self.settings: dict[str, Any] = {}
        self.kafka: dict[str, str | int | float | bool] = {}
        self.topic = "events"
        self.topic_settings: dict[str, str] = {}
        self.consumer = RUNTIME
        self.measured: Any = None
        self.by_type = True

    def share(self, event_type: str) -> float:
        """Share of the traffic of one type."""
        return self.types[event_type] / sum(self.types.values())

    def process_seconds(self, use: float) -> dict[str, float]:
        """Process times that use the processors of each type to this share of their capacity."""
        slots = self.instances * self.threads
        return {name: use * slots / (self.rate * self.share(name)) for name in self.types}

    def calm(self, *, most: float = 0.3) -> Behaviour:
        """Handlers that use a small share of their capacity, at most this one."""
        return Behaviour(process_seconds=self.process_seconds(self.random.uniform(0.1, most)))

    def scenario(
        self,
        behaviour: Behaviour,
        fault: Fault,
        expected: Verdict,
        *,
        run_id: str = "",
        names: tuple[str, str] | None = None,
        scope: dict[str, Any] | None = None,
        keys: int = 240,
        side: tuple[str, ...] = (),
        loss_ahead: bool = False,
        also: tuple[Verdict, ...] = (),
        **traffic_options: Any,
    ) -> Scenario:
        """Put it together; further options are those of `Traffic`."""
        topic, group = names or (f"{self.topic}-{run_id}", f"svc-{run_id}")
        traffic = Traffic(
            bootstrap=self.bootstrap,
            topic=topic,
            partitions=self.partitions,
            rate_per_second=self.rate,
            event_types=self.types,
            keys=keys,
            seed=self.seed,
            **traffic_options,
        )
        pool = ProcessorConfig(
            threads=self.threads,
            queue_capacity=_QUEUE_CAPACITY,
            max_attempts=self.max_attempts,
            retry_backoff_seconds=0.2,
            retry_backoff_max_seconds=1.0,
        )
        return Scenario(
            name=self.name,
            seed=self.seed,
            spec=FleetSpec(
                topic=topic,
                group=group,
                partitions=self.partitions,
                traffic=traffic,
                behaviour=behaviour,
                instances=self.instances,
                consumers=self.consumers,
                processors=dict.fromkeys(self.types, pool),
                max_uncommitted_per_partition=self.max_uncommitted,
                proxied=self.proxied,
                settings=self.settings,
                kafka=self.kafka,
                topic_settings=self.topic_settings,
                consumer=self.consumer,
                measured=self.measured,
                threads=self.threads,
                by_type=self.by_type,
            ),
            steady_seconds=self.random.uniform(18, 24),
            incident_seconds=self.random.uniform(28, 32),
            fault=fault,
            expected=expected,
            scope=scope or {},
            side=side,
            loss_ahead=loss_ahead,
            also=also,
        )

    def group(self, run_id: str) -> str:
        """The group's name of a run."""
        return f"svc-{run_id}"

    def decode_seconds(self, use: float) -> float:
        """Time to decode that uses the consumer threads to this share of their capacity."""
        return use * self.instances * self.consumers / self.rate


Make = Callable[[Draw, str], Scenario]
