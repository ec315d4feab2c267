"""Camel applications with a Kafka route: their jars by Maven, and the options that people give their endpoint."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evaluation.others.java_consumer import compiled_with, started
from evaluation.others.maven import maven_jars
from evaluation.others.pages import AgentsPage
from evaluation.others.spec import CamelConfig
from workbench.lab.kafka_jars import JMX_AGENTS, ensure
from workbench.lab.lab import LAG_PROFILES
from workbench.lab.producer_and_consumers import LAB_KAFKA, FleetSpec, LabFleet

_FOLDER = Path(__file__).with_name("java")


@dataclass(frozen=True, slots=True, kw_only=True)
class CamelMeasured:
    """How an application is set up.

    Attributes:
        breaks: whether a record that fails is read again (`breakOnFirstError`); else it is left out.
        manual: whether the route commits each record itself.
        seda: consumers of a SEDA queue behind the route; 0: none.
        max_poll_records: records of a poll.
    """

    breaks: bool = False
    manual: bool = False
    seda: int = 0
    max_poll_records: int = 500


@dataclass(frozen=True, slots=True)
class Camel(AgentsPage):
    """A Camel application behind the JMX agent; see `ConsumerShape`."""

    def profiles(self, _spec: FleetSpec) -> list[str]:
        """See `ConsumerShape`."""
        return [*LAG_PROFILES, "jmx_exporter_plain", "camel"]

    def command(self, fleet: LabFleet, name: str) -> list[str | Path]:
        """See `ConsumerShape`."""
        spec = fleet.spec
        measured: CamelMeasured = spec.measured
        told: dict[str, str | int | float | bool] = {
            "autoOffsetReset": "earliest",
            "autoCommitIntervalMs": 1000,
            "autoCommitEnable": not measured.manual,
            "allowManualCommit": measured.manual,
            "breakOnFirstError": measured.breaks,
            "consumersCount": spec.consumers,
            "maxPollRecords": measured.max_poll_records,
            "sessionTimeoutMs": LAB_KAFKA["session.timeout.ms"],
            "heartbeatIntervalMs": LAB_KAFKA["heartbeat.interval.ms"],
            # Its averages cover the last one to two of these, by default 30 s each. A lab compresses time.
            "additionalProperties.metrics.sample.window.ms": 3000,
            "metadataMaxAgeMs": 5000,
            **spec.kafka,
        }
        agent = next(ensure(JMX_AGENTS["1.0.1"]).glob("*.jar"))
        [page] = self.more_pages(fleet, name)
        jars = f"{maven_jars('camel-4.18.0', _FOLDER / 'camel' / 'pom.xml')}/*"
        path = f"{compiled_with(jars, [_FOLDER / f'{it}.java' for it in ('LabHandler', 'LabCamel')])}:{jars}"
        files = fleet.files(name, CamelConfig(**fleet.place(name), camel=told, seda=measured.seda))
        words = [f"-javaagent:{agent}={page}:{_FOLDER / 'jmx_plain.yaml'}", "-cp", path]
        return started(*words, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "LabCamel", *files)
