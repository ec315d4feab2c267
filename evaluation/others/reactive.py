"""Java consumers that poll in one thread and handle in others: Quarkus with SmallRye Reactive Messaging, Pekko and Reactor.

All of them pause what they read while those who handle it have enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from evaluation.others import java_consumer
from evaluation.others.java_consumer import JavaMeasured, compiled_with, started
from evaluation.others.maven import maven_built, maven_jars
from evaluation.others.pages import AgentsPage, OnePage
from evaluation.others.spec import QuarkusConfig, StreamConfig
from workbench.lab.kafka_jars import JMX_AGENTS, ensure
from workbench.lab.lab import LAG_PROFILES
from workbench.lab.producer_and_consumers import LAB_KAFKA, FleetSpec, LabFleet

if TYPE_CHECKING:
    from workbench.lab.scenario_circumstances import Draw

Channel = Literal["orders", "orders-pool", "orders-batch"]
Failure = Literal["fail", "exit", "dead-letter-queue", "patient"]
Errors = Literal["fail", "restart", "retry"]

_FOLDER = Path(__file__).with_name("java")
_BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactiveMeasured:
    """How such an application is set up.

    Attributes:
        channel: of Quarkus: one by one, in a pool, or in batches.
        failure: what Quarkus does with a record that fails; `exit`: the channel fails, and so does the liveness probe, which ends the
            process; `patient`: the method tries it again, and does not return.
        errors: what Pekko's stream does then: it ends, it is started anew, or the stage tries the record again.
        named: whether clients are called after their pods; else all pods call them the same.
        max_poll_records: records of a poll.
        commit: Quarkus' strategy.
        observed: whether Quarkus times the messages of its channels, which it does not by default.
    """

    channel: Channel = "orders"
    failure: Failure = "fail"
    errors: Errors = "fail"
    commit: Literal["throttled", "latest"] = "throttled"
    observed: bool = True
    named: bool = True
    max_poll_records: int = 500


def drawn(draw: Draw) -> ReactiveMeasured:
    """An application as somebody may have set it up."""
    choose = draw.random.choice
    channel: Channel = choose(("orders", "orders", "orders-pool", "orders-batch"))
    return ReactiveMeasured(
        channel=channel,
        failure="patient",
        errors="retry",
        commit=choose(("throttled", "throttled", "latest")) if channel == "orders" else "throttled",
        observed=choose((True, True, False)),
        named=choose((True, False)),
        max_poll_records=choose((50, 500)),
    )


@dataclass(frozen=True, slots=True)
class Quarkus(OnePage):
    """A Quarkus application with one channel; see `ConsumerShape`."""

    def profiles(self, _spec: FleetSpec) -> list[str]:
        """See `ConsumerShape`."""
        return [*LAG_PROFILES, "micrometer", "quarkus_messaging", "processes"]

    def command(self, fleet: LabFleet, name: str) -> list[str | Path]:
        """See `ConsumerShape`."""
        spec, place = fleet.spec, fleet.place(name)
        measured: ReactiveMeasured = spec.measured
        channel = {
            "bootstrap.servers": place["bootstrap"],
            "group.id": place["group"],
            "topic": place["topic"],
            "key.deserializer": _BYTES,
            "value.deserializer": _BYTES,
            "auto.offset.reset": "earliest",
            "commit-strategy": measured.commit,
            "auto.commit.interval.ms": 1000,
            "failure-strategy": measured.failure if measured.failure == "dead-letter-queue" else "fail",
            "batch": measured.channel == "orders-batch",
            "pausable": True,
            "max.poll.records": measured.max_poll_records,
            "metrics.sample.window.ms": 3000,
            "metadata.max.age.ms": 5000,
            **LAB_KAFKA,
            **({"client.id": name} if measured.named else {}),
            **({"dead-letter-queue.topic": letters} if (letters := spec.settings.get("dead_letter_topic")) else {}),
            **spec.kafka,
        }
        told: dict[str, str | int | float | bool] = {
            "quarkus.http.host-enabled": False,
            "smallrye.messaging.observation.enabled": measured.observed,
            "smallrye.messaging.worker.orders-workers.max-concurrency": spec.threads,
            **{f"mp.messaging.incoming.{it}.enabled": it == measured.channel for it in get_args(Channel)},
            **{f"mp.messaging.incoming.{measured.channel}.{it}": value for it, value in channel.items()},
        }
        config = QuarkusConfig(
            client_id=name,
            metrics_port=place["metrics_port"],
            channel=measured.channel,
            patient=measured.failure == "patient",
            probed=measured.failure == "exit",
            quarkus=told,
        )
        sources = [_FOLDER / f"{it}.java" for it in ("Hasty", "LabHandler", "LabQuarkus")]
        jar = maven_built("quarkus", _FOLDER / "quarkus", sources) / "quarkus-app" / "quarkus-run.jar"
        return started("-jar", jar, *fleet.files(name, config))


def _stream_config(fleet: LabFleet, name: str) -> StreamConfig:
    spec = fleet.spec
    measured: ReactiveMeasured = spec.measured
    client = JavaMeasured(max_poll_records=measured.max_poll_records)
    return StreamConfig(
        **fleet.place(name),
        errors=measured.errors,
        threads=spec.threads,
        named=measured.named,
        kafka={**java_consumer.kafka_settings(client, LAB_KAFKA), **spec.kafka},
    )


def _program(main: str, jars: str) -> list[str | Path]:
    """What runs a stream of the lab with these jars."""
    path = f"{compiled_with(jars, [_FOLDER / f'{it}.java' for it in ('Hasty', 'LabHandler', main)])}:{jars}"
    return ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", path, main]


@dataclass(frozen=True, slots=True)
class Pekko(AgentsPage):
    """A stream of Pekko Connectors Kafka behind the JMX agent; see `ConsumerShape`."""

    def profiles(self, _spec: FleetSpec) -> list[str]:
        """See `ConsumerShape`."""
        return [*LAG_PROFILES, "jmx_exporter_plain"]

    def command(self, fleet: LabFleet, name: str) -> list[str | Path]:
        """See `ConsumerShape`."""
        agent = next(ensure(JMX_AGENTS["1.0.1"]).glob("*.jar"))
        [page] = self.more_pages(fleet, name)
        jars = f"{maven_jars('pekko-connectors-kafka-1.1.0', _FOLDER / 'pekko' / 'pom.xml')}/*"
        files = fleet.files(name, _stream_config(fleet, name))
        return started(f"-javaagent:{agent}={page}:{_FOLDER / 'jmx_plain.yaml'}", *_program("LabPekko", jars), *files)


@dataclass(frozen=True, slots=True)
class Reactor(OnePage):
    """A receiver of Reactor Kafka with Micrometer; see `ConsumerShape`."""

    def profiles(self, _spec: FleetSpec) -> list[str]:
        """See `ConsumerShape`."""
        return [*LAG_PROFILES, "micrometer"]

    def command(self, fleet: LabFleet, name: str) -> list[str | Path]:
        """See `ConsumerShape`."""
        jars = f"{maven_jars('reactor-kafka-1.3.23', _FOLDER / 'reactor' / 'pom.xml')}/*"
        return started(*_program("LabReactor", jars), *fleet.files(name, _stream_config(fleet, name)))
