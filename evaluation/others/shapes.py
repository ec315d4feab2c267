"""How the lab starts consumers that are no runtime, and what they show."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from evaluation.others import java_consumer
from evaluation.others.camel import Camel
from evaluation.others.inside import Inside, Parallel
from evaluation.others.java_consumer import PROGRAMS
from evaluation.others.micronaut import Micronaut
from evaluation.others.pages import AgentsPage, OnePage
from evaluation.others.python_frameworks import FastStream, Faust
from evaluation.others.reactive import Pekko, Quarkus, Reactor
from evaluation.others.spec import JavaConfig, LoopConfig, PythonConfig
from evaluation.others.spring import Spring
from evaluation.others.watermill import Watermill
from workbench.lab.lab import LAG_PROFILES
from workbench.lab.producer_and_consumers import LAB_KAFKA, SHAPES, FleetSpec, LabFleet

HANDLER_PROFILES = [*LAG_PROFILES, str(Path(__file__).with_name("handlers.yaml"))]
CLIENT_PROFILES = [*HANDLER_PROFILES, "librdkafka"]
_IN_FLIGHT = 3  # times the threads of a pool


def _python(fleet: LabFleet, name: str, module: str, config: BaseModel) -> list[str | Path]:
    return [sys.executable, "-m", module, *fleet.files(name, config)]


@dataclass(frozen=True, slots=True)
class Loop(OnePage):
    """A poll loop on librdkafka, or a pool of threads behind one."""

    is_pool: bool

    def profiles(self, _spec: FleetSpec) -> list[str]:
        """See `Shape`."""
        return CLIENT_PROFILES

    def command(self, fleet: LabFleet, name: str) -> list[str | Path]:
        """See `Shape`."""
        spec = fleet.spec
        pooled: dict[str, Any] = {}
        if self.is_pool:
            pooled = {"threads": spec.threads, "in_flight": _IN_FLIGHT * spec.threads}
        kafka = {**LAB_KAFKA, **spec.kafka}
        config = LoopConfig(**fleet.place(name), by_type=spec.by_type, kafka=kafka, **pooled)
        return _python(fleet, name, "evaluation.others.loop", config)


@dataclass(frozen=True, slots=True)
class PythonClient(OnePage):
    """A client library written in Python alone."""

    library: Literal["aiokafka", "kafka_python"]

    def profiles(self, _spec: FleetSpec) -> list[str]:
        """See `Shape`."""
        return HANDLER_PROFILES

    def command(self, fleet: LabFleet, name: str) -> list[str | Path]:
        """See `Shape`."""
        spec = fleet.spec
        kafka = {**LAB_KAFKA, **spec.kafka}
        config = PythonConfig(library=self.library, **fleet.place(name), by_type=spec.by_type, kafka=kafka)
        return _python(fleet, name, "evaluation.others.python_clients", config)


@dataclass(frozen=True, slots=True)
class Java(AgentsPage):
    """A Java program behind the JMX agent, which has a page of its own."""

    program: str

    def profiles(self, spec: FleetSpec) -> list[str]:
        """See `Shape`."""
        program, rules = PROGRAMS[self.program], spec.measured.rules
        more = program.plain_profiles if rules == "plain" else ()
        return [*LAG_PROFILES, java_consumer.PROFILES[rules], *program.profiles, *more]

    def client_id(self, name: str) -> str:
        """See `Shape`."""
        return java_consumer.client_id(self.program, name)

    def command(self, fleet: LabFleet, name: str) -> list[str | Path]:
        """See `Shape`."""
        spec = fleet.spec
        kafka = {**java_consumer.kafka_settings(spec.measured, LAB_KAFKA), **spec.kafka}
        config = JavaConfig(**fleet.place(name), listener=f"{spec.group}-listener-0", kafka=kafka)
        port, files = fleet.port(f"{name} agent"), fleet.files(name, config)
        return java_consumer.command(spec.measured, jmx_port=port, files=files, program=PROGRAMS[self.program])


def add_shapes() -> None:
    """Make the lab know them."""
    SHAPES.update({"loop": Loop(is_pool=False), "pool": Loop(is_pool=True)})
    SHAPES.update({"aiokafka": PythonClient("aiokafka"), "kafka_python": PythonClient("kafka_python")})
    SHAPES.update({"spring": Spring(), "faststream": FastStream(), "faust": Faust()})
    SHAPES.update({"java_otel": Inside("otel"), "java_strimzi": Inside("strimzi"), "parallel": Parallel()})
    SHAPES.update({"micronaut": Micronaut(), "watermill": Watermill(), "camel": Camel()})
    SHAPES.update({"quarkus": Quarkus(), "pekko": Pekko(), "reactor": Reactor()})
    SHAPES.update({name: Java(name) for name in PROGRAMS})
