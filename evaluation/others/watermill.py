"""Consumers on Go's Watermill: built once, out of the tree, and started as its documents have it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evaluation.foreign.programs import built
from evaluation.others.pages import OnePage
from evaluation.others.spec import WatermillConfig
from workbench.lab.lab import LAG_PROFILES
from workbench.lab.producer_and_consumers import LAB_KAFKA, FleetSpec, LabFleet
from workbench.user_folders import cache_dir


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermillMeasured:
    """How such a consumer is set up.

    Attributes:
        namespace: of its metrics; empty: none, as its documents begin.
        named: whether its client is called after the pod; else all are "watermill".
        poison_queue: whether records that fail go to a topic of their own; else they are sent to the handler again, for ever.
        retries: of its middleware.
    """

    namespace: str = ""
    named: bool = False
    poison_queue: bool = False
    retries: int = 0


@dataclass(frozen=True, slots=True)
class Watermill(OnePage):
    """A router with one handler, which takes the records of each partition in turn; see `ConsumerShape`."""

    def profiles(self, _spec: FleetSpec) -> list[str]:
        """See `ConsumerShape`."""
        return [*LAG_PROFILES, "watermill"]

    def command(self, fleet: LabFleet, name: str) -> list[str | Path]:
        """See `ConsumerShape`."""
        measured: WatermillMeasured = fleet.spec.measured
        folder = cache_dir() / "lab-watermill"
        built(Path(__file__).with_name("go"), folder, ["go", "build", "-mod=mod", "-o", "watermill", "."])
        config = WatermillConfig(
            **fleet.place(name),
            named=measured.named,
            namespace=measured.namespace,
            poison_queue=fleet.spec.settings["dead_letter_topic"] if measured.poison_queue else "",
            retries=measured.retries,
            session_ms=int(LAB_KAFKA["session.timeout.ms"]),
            heartbeat_ms=int(LAB_KAFKA["heartbeat.interval.ms"]),
        )
        return [folder / "watermill", *fleet.files(name, config)]
