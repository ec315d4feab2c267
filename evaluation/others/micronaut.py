"""Micronaut applications with one Kafka listener: their jars by Maven, and the settings that people give them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from evaluation.others.java_consumer import compiled_with, started
from evaluation.others.maven import maven_jars
from evaluation.others.pages import OnePage
from evaluation.others.spec import MicronautConfig
from workbench.lab.lab import LAG_PROFILES
from workbench.lab.producer_and_consumers import LAB_KAFKA, FleetSpec, LabFleet

if TYPE_CHECKING:
    from workbench.lab.scenario_circumstances import Draw

Kind = Literal["auto", "resume", "retry", "batch", "manual"]

_FOLDER = Path(__file__).with_name("java")
_BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


@dataclass(frozen=True, slots=True, kw_only=True)
class MicronautMeasured:
    """How an application is set up and measured.

    Attributes:
        kind: which of `MicronautListeners` it is: how it takes records, commits, and what it does with one that fails.
        named: whether clients are called after their pods; else all pods call them the same.
        timed: whether the timer of its method (`@Timed`) has a profile.
        max_poll_records: records of a poll.
    """

    kind: Kind = "auto"
    named: bool = True
    timed: bool = True
    max_poll_records: int = 500


def drawn(draw: Draw) -> MicronautMeasured:
    """An application as somebody may have set it up."""
    choose = draw.random.choice
    return MicronautMeasured(
        kind=choose(("auto", "resume", "retry", "batch", "manual")),
        named=choose((True, False)),
        timed=choose((True, True, False)),
        max_poll_records=choose((50, 500)),
    )


@dataclass(frozen=True, slots=True)
class Micronaut(OnePage):
    """A Micronaut application; see `ConsumerShape`."""

    def profiles(self, spec: FleetSpec) -> list[str]:
        """See `ConsumerShape`."""
        timer = [str(Path(__file__).with_name("timed_method.yaml"))] if spec.measured.timed else []
        return [*LAG_PROFILES, "micronaut", *timer, "processes"]

    def command(self, fleet: LabFleet, name: str) -> list[str | Path]:
        """See `ConsumerShape`."""
        spec, place = fleet.spec, fleet.place(name)
        measured: MicronautMeasured = spec.measured
        client = {
            **LAB_KAFKA,
            "key.deserializer": _BYTES,
            "value.deserializer": _BYTES,
            "max.poll.records": measured.max_poll_records,
            # Its averages cover the last one to two of these, by default 30 s each. A lab compresses time.
            "metrics.sample.window.ms": 3000,
            "metadata.max.age.ms": 5000,
            **spec.kafka,
        }
        told = {
            "kafka.bootstrap.servers": place["bootstrap"],
            "lab.kind": measured.kind,
            "lab.group": place["group"],
            "lab.topic": place["topic"],
            "lab.client": name if measured.named else "",  # it is called after the application and the class then
            "lab.threads": spec.consumers,
            "micronaut.application.name": "shop",
            **{f"kafka.consumers.default.{it}": value for it, value in client.items()},
        }
        config = MicronautConfig(client_id=name, metrics_port=place["metrics_port"], micronaut=told)
        jars = f"{maven_jars('micronaut-4.10.11', _FOLDER / 'micronaut' / 'pom.xml')}/*"
        sources = [_FOLDER / f"{it}.java" for it in ("LabHandler", "LabMicronaut", "MicronautListeners")]
        words = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{compiled_with(jars, sources)}:{jars}"]
        return started(*words, "LabMicronaut", *fleet.files(name, config))
