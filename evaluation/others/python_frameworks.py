"""Applications on FastStream and Faust: how the lab starts them, with the settings that people give them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evaluation.others.pages import OnePage
from evaluation.others.spec import FastStreamConfig, FaustConfig
from workbench.lab.lab import LAG_PROFILES
from workbench.lab.producer_and_consumers import LAB_KAFKA, FleetSpec, LabFleet

if TYPE_CHECKING:
    from workbench.lab.scenario_circumstances import Draw

Errors = Literal["retry", "skip", "crash"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkMeasured:
    """How an application is built and measured.

    Attributes:
        library: what FastStream is based on. batch, ack, workers: of its subscriber; Faust's agent has so many actors.
        errors: what becomes of a poison record.
        named: whether the application tells its name in its metrics; Faust does by default.
        blocking: whether handlers block the event loop.
    """

    library: Literal["aiokafka", "confluent"] = "aiokafka"
    batch: bool = False
    ack: str = ""
    workers: int = 1
    errors: Errors = "skip"
    named: bool = True
    blocking: bool = False


def drawn(draw: Draw) -> FrameworkMeasured:
    """An application as somebody may have built it."""
    choose = draw.random.choice
    library = choose(("aiokafka", "aiokafka", "confluent"))
    batch = choose((False, False, True))
    ack = choose(("", "", "ack", "reject_on_error", "nack_on_error"))
    # With `max_workers` and another policy than the default, each worker on aiokafka is a member of its own.
    workers = 1 if batch else choose((1, 1, 3)) if ack == "" else choose((1, 2)) if library == "aiokafka" else 1
    return FrameworkMeasured(
        library=library,
        batch=batch,
        ack=ack,
        workers=workers,
        named=choose((True, True, False)),
    )


class FastStream(OnePage):
    """An application on FastStream; see `ConsumerShape`."""

    def profiles(self, _spec: FleetSpec) -> list[str]:
        """See `ConsumerShape`."""
        return [*LAG_PROFILES, "faststream"]

    def command(self, fleet: LabFleet, name: str) -> list[str | Path]:
        """See `ConsumerShape`."""
        spec, measured = fleet.spec, fleet.spec.measured
        config = FastStreamConfig(
            **fleet.place(name),
            library=measured.library,
            app_name=f"{spec.group}-app" if measured.named else "",
            batch=measured.batch,
            workers=measured.workers,
            ack=measured.ack,
            blocking=measured.blocking,
            crashes=measured.errors == "crash",
            client={"client_id": name} if spec.proxied else {},  # by default the same for all of them
            kafka={**LAB_KAFKA, **spec.kafka},
        )
        return [sys.executable, "-m", "evaluation.others.faststream_app", *fleet.files(name, config)]


class Faust(OnePage):
    """An application on Faust; see `ConsumerShape`."""

    def profiles(self, _spec: FleetSpec) -> list[str]:
        """See `ConsumerShape`."""
        return [*LAG_PROFILES, "faust"]

    def command(self, fleet: LabFleet, name: str) -> list[str | Path]:
        """See `ConsumerShape`."""
        spec, measured = fleet.spec, fleet.spec.measured
        named = {"broker_client_id": name} if spec.proxied else {}
        more: dict[str, Any] = {**named, "broker_session_timeout": 6.0, "broker_heartbeat_interval": 0.5, **spec.kafka}
        config = FaustConfig(
            **fleet.place(name),
            prefix="" if measured.named else "faust",
            concurrency=measured.workers,
            retries=measured.errors == "retry",
            blocking=measured.blocking,
            crashes=measured.errors == "crash",
            faust=more,
        )
        return [sys.executable, "-m", "evaluation.others.faust_app", *fleet.files(name, config)]
