"""Spring Boot applications with one listener: their jars by Maven, and the settings that people give them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evaluation.others.java_consumer import Protocol, compiled_with, started
from evaluation.others.maven import maven_jars
from evaluation.others.pages import OnePage
from evaluation.others.spec import SpringConfig
from workbench.lab.lab import LAG_PROFILES
from workbench.lab.lab_broker import create_topic
from workbench.lab.producer_and_consumers import LAB_KAFKA, FleetSpec, LabFleet

if TYPE_CHECKING:
    from workbench.lab.scenario_circumstances import Draw

Boot = Literal["3.5.16", "4.1.2"]
Kind = Literal["record", "manual", "batch"]
Errors = Literal["default", "backoff", "dlt", "retry_topic"]
ClientIds = Literal["unset", "application", "pod"]

PROFILES = [*LAG_PROFILES, "micrometer", "spring_listener", "processes"]
_FOLDER = Path(__file__).with_name("java")
_SOURCES = [_FOLDER / "LabHandler.java", _FOLDER / "LabSpring.java"]
# Which module configures Kafka: Boot 4 has one of its own.
KAFKA_MODULES: dict[Boot, tuple[str, str]] = {
    "3.5.16": ("org.springframework.kafka", "spring-kafka"),
    "4.1.2": ("org.springframework.boot", "spring-boot-starter-kafka"),
}
_BYTES = "org.apache.kafka.common.serialization.ByteArray"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpringMeasured:
    """How an application is built and measured.

    Attributes:
        concurrency: consumers of its listener, each with a thread of its own.
        ack: acknowledgement mode of its container.
        observed: whether Spring observes the listener, which gives its timer other labels.
        histogram: whether the timer has buckets.
        client_ids: whether it names its consumers, or only the application; else all pods have the same names.
        tagged: whether all meters have the label `application`.
    """

    boot: Boot
    kind: Kind
    ack: str
    concurrency: int
    errors: Errors
    observed: bool
    histogram: bool
    client_ids: ClientIds
    tagged: bool
    protocol: Protocol
    max_poll_records: int


def drawn(draw: Draw) -> SpringMeasured:
    """An application as somebody may have built it."""
    choose = draw.random.choice
    boot: Boot = choose(("3.5.16", "4.1.2"))
    kind: Kind = choose(("record", "record", "manual", "batch"))
    acks = {"record": ("BATCH", "RECORD"), "manual": ("MANUAL_IMMEDIATE",), "batch": ("BATCH",)}
    return SpringMeasured(
        boot=boot,
        kind=kind,
        ack=choose(acks[kind]),
        concurrency=choose((1, 1, 2, 3)),
        errors=choose(("default", "backoff", "dlt")),
        observed=choose((False, False, True)),
        histogram=choose((False, True)),
        client_ids=choose(("unset", "application", "pod")),
        tagged=choose((False, True)),
        protocol=choose(("classic", "consumer")) if boot == "4.1.2" else "classic",  # a preview in Boot 3's client
        max_poll_records=choose((50, 500)),
    )


def jars(boot: Boot) -> Path:
    """The folder of what Boot lists for this version.

    Raises:
        SetupError: if there is no Maven, or it fails.
    """
    group, artifact = KAFKA_MODULES[boot]
    options = [f"-Dboot={boot}", f"-Dkafka.group={group}", f"-Dkafka.artifact={artifact}"]
    return maven_jars(f"spring-boot-{boot}", _FOLDER / "spring" / "pom.xml", *options)


def properties(measured: SpringMeasured, name: str, spec: FleetSpec) -> dict[str, str | int | float | bool]:
    """Boot's properties for an instance."""
    client: dict[str, str | int | float | bool] = {
        **(LAB_KAFKA if measured.protocol == "classic" else {}),
        # Its averages cover the last one to two of these, by default 30 s each. A lab compresses time.
        "metrics.sample.window.ms": 3000,
        "metadata.max.age.ms": 5000,
        "group.protocol": measured.protocol,
        **spec.kafka,
    }
    named: dict[ClientIds, dict[str, str]] = {
        "unset": {},
        "application": {"spring.application.name": "shop"},
        "pod": {"spring.kafka.consumer.client-id": name},
    }
    return {
        "lab.kind": measured.kind,
        "lab.errors": measured.errors,
        "spring.kafka.retry.topic.enabled": measured.errors == "retry_topic",
        "spring.kafka.retry.topic.attempts": 3,
        "spring.kafka.retry.topic.delay": "500ms",
        "spring.kafka.listener.ack-mode": measured.ack,
        "spring.kafka.listener.concurrency": measured.concurrency,
        "spring.kafka.listener.observation-enabled": measured.observed,
        "spring.kafka.consumer.auto-offset-reset": "earliest",
        "spring.kafka.consumer.max-poll-records": measured.max_poll_records,
        **{f"spring.kafka.consumer.{it}-deserializer": f"{_BYTES}Deserializer" for it in ("key", "value")},
        **{f"spring.kafka.producer.{it}-serializer": f"{_BYTES}Serializer" for it in ("key", "value")},
        **{f"spring.kafka.consumer.properties.[{it}]": value for it, value in client.items()},
        "management.metrics.distribution.percentiles-histogram.[spring.kafka.listener]": measured.histogram,
        **({"management.metrics.tags.application": "shop"} if measured.tagged else {}),
        "logging.level.root": "warn",
        "logging.level.org.springframework.kafka": "info",
        **named[measured.client_ids],
    }


@dataclass(frozen=True, slots=True)
class Spring(OnePage):
    """A Spring Boot application; see `ConsumerShape`."""

    def profiles(self, _spec: FleetSpec) -> list[str]:
        """See `ConsumerShape`."""
        return PROFILES

    def client_id(self, name: str) -> str:
        """See `ConsumerShape`; of the first consumer of an instance whose consumers have names."""
        return f"{name}-0"

    def command(self, fleet: LabFleet, name: str) -> list[str | Path]:
        """See `ConsumerShape`."""
        spec = fleet.spec
        measured: SpringMeasured = spec.measured
        if measured.errors == "retry_topic" and not fleet.instances:  # which Boot does not create
            create_topic(fleet.lab.bootstrap, f"{spec.topic}-retry", 1)
        place: dict[str, Any] = fleet.place(name)
        told = {
            "spring.kafka.bootstrap-servers": place["bootstrap"],
            "spring.kafka.consumer.group-id": place["group"],
            "lab.topic": place["topic"],
            "lab.listener": "orders",
            **properties(measured, name, spec),
        }
        config = SpringConfig(client_id=name, metrics_port=place["metrics_port"], spring=told)
        class_path = f"{jars(measured.boot)}/*"
        path = f"{compiled_with(class_path, _SOURCES)}:{class_path}"
        return started("-cp", path, "LabSpring", *fleet.files(name, config), heap="128m")
