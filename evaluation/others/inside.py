"""Java consumers that are measured from inside: OpenTelemetry's agent, Strimzi's reporter, and a parallel consumer's own meters."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from evaluation.others import java_consumer
from evaluation.others.java_consumer import PROGRAMS, JavaMeasured, compiled_with, started
from evaluation.others.maven import maven_jars
from evaluation.others.pages import AgentsPage, OnePage
from evaluation.others.spec import JavaConfig, ParallelConfig
from workbench.lab.lab import LAG_PROFILES
from workbench.lab.producer_and_consumers import LAB_KAFKA, FleetSpec, LabFleet

if TYPE_CHECKING:
    from workbench.lab.scenario_circumstances import Draw

By = Literal["otel", "strimzi"]
Ordering = Literal["KEY", "PARTITION"]

_FOLDER = Path(__file__).with_name("java")
_PARALLEL = [_FOLDER / f"{it}.java" for it in ("Hasty", "LabHandler", "LabParallel")]
_PROFILES: dict[By, list[str]] = {
    "otel": ["otel_kafka_clients", "otel_messaging"],
    "strimzi": ["strimzi_reporter"],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideMeasured:
    """How such a consumer is set up.

    Attributes:
        java: its client.
        messaging: whether OpenTelemetry's agent exports the messaging conventions; receives: whether it also measures polls.
        ordering: of a parallel consumer. named: whether its instances have names; else each calls itself by a UUID.
    """

    java: JavaMeasured = field(default_factory=JavaMeasured)
    messaging: bool = True
    receives: bool = False
    ordering: Ordering = "KEY"
    named: bool = True


def drawn(draw: Draw) -> InsideMeasured:
    """A consumer as somebody may have set it up."""
    choose = draw.random.choice
    return InsideMeasured(
        java=JavaMeasured(protocol=choose(("classic", "consumer")), max_poll_records=choose((50, 500))),
        messaging=choose((True, True, False)),
        receives=choose((True, False)),
        ordering=choose(("KEY", "KEY", "PARTITION")),
        named=choose((True, False)),
    )


def _agent(measured: InsideMeasured, port: int) -> list[str]:
    told = {
        "otel.service.name": "shop",
        "otel.metrics.exporter": "prometheus",
        "otel.traces.exporter": "none",
        "otel.logs.exporter": "none",
        "otel.exporter.prometheus.host": "127.0.0.1",
        "otel.exporter.prometheus.port": port,
        "otel.semconv-stability.opt-in": "messaging" if measured.messaging else "",
        "otel.instrumentation.messaging.experimental.receive-telemetry.enabled": str(measured.receives).lower(),
    }
    agent = next(maven_jars("otel-agent-2.33.1", _FOLDER / "otel" / "pom.xml").glob("opentelemetry-javaagent-*.jar"))
    return [f"-javaagent:{agent}", *(f"-D{name}={value}" for name, value in told.items())]


@dataclass(frozen=True, slots=True)
class Inside(AgentsPage):
    """A plain Java consumer with an agent or a reporter that has a page of its own; see `ConsumerShape`."""

    by: By

    def profiles(self, _spec: FleetSpec) -> list[str]:
        """See `ConsumerShape`."""
        return [*LAG_PROFILES, *_PROFILES[self.by]]

    def command(self, fleet: LabFleet, name: str) -> list[str | Path]:
        """See `ConsumerShape`."""
        measured: InsideMeasured = fleet.spec.measured
        kafka = {**java_consumer.kafka_settings(measured.java, LAB_KAFKA), **fleet.spec.kafka}
        port, program = fleet.port(f"{name} agent"), PROGRAMS["java"]
        path, before = f"{java_consumer.compiled(program)}:{program.jars.classpath}", list[str]()
        if self.by == "otel":
            before = _agent(measured, port)
        else:
            path += f":{maven_jars('strimzi-reporter-0.3.0', _FOLDER / 'strimzi' / 'pom.xml')}/*"
            kafka |= {
                "metric.reporters": "io.strimzi.kafka.metrics.prometheus.ClientMetricsReporter",
                "prometheus.metrics.reporter.listener": f"http://127.0.0.1:{port}",
            }
        config = JavaConfig(**fleet.place(name), listener="orders", kafka=kafka)
        return started(*before, "-cp", path, program.main, *fleet.files(name, config))


@dataclass(frozen=True, slots=True)
class Parallel(OnePage):
    """Confluent's Parallel Consumer with Micrometer; see `ConsumerShape`."""

    def profiles(self, _spec: FleetSpec) -> list[str]:
        """See `ConsumerShape`."""
        return [*LAG_PROFILES, "parallel_consumer", "micrometer"]

    def command(self, fleet: LabFleet, name: str) -> list[str | Path]:
        """See `ConsumerShape`."""
        spec = fleet.spec
        measured: InsideMeasured = spec.measured
        # The library brings a client of Kafka 3.9, which has a preview of the new protocol.
        kafka = {**java_consumer.kafka_settings(JavaMeasured(), LAB_KAFKA), **spec.kafka}
        config = ParallelConfig(
            **fleet.place(name),
            instance_tag=name if measured.named else "",
            ordering=measured.ordering,
            threads=spec.threads,
            kafka=kafka,
        )
        jars = f"{maven_jars('parallel-consumer-0.5.3.3', _FOLDER / 'parallel' / 'pom.xml')}/*"
        path = f"{compiled_with(jars, _PARALLEL)}:{jars}"
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        return started(quiet, "-cp", path, "LabParallel", *fleet.files(name, config))
