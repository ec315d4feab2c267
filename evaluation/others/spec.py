"""Settings of consumers that are no runtime, as files for their processes."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class InstanceConfig(BaseModel):
    """Settings of an instance."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    client_id: str = Field(description="Name of the instance, whatever its consumers are called.")
    metrics_port: int


class ClientConfig(InstanceConfig):
    """Settings of one that is told where to read."""

    bootstrap: str
    group: str
    topic: str
    kafka: dict[str, str | int | float | bool] = {}


class LoopConfig(ClientConfig):
    """Settings of a consumer without the runtime."""

    threads: int = Field(default=0, ge=0, description="Of its pool; 0: the poll loop handles each record itself.")
    in_flight: int = Field(default=1, ge=1, description="So many records are handed out and not finished, at most.")
    commit_seconds: float = Field(default=1.0, gt=0)
    by_type: bool = Field(default=True, description="Whether its histogram tells event types apart.")


class PythonConfig(ClientConfig):
    """Settings of a consumer on a client library written in Python alone."""

    library: Literal["aiokafka", "kafka_python"]
    commit_seconds: float = Field(default=1.0, gt=0)
    by_type: bool = Field(default=True, description="Whether its histogram tells event types apart.")


class JavaConfig(ClientConfig):
    """Settings of a Java consumer."""

    listener: str = Field(description="The label `name` of its timer.")


class SpringConfig(InstanceConfig):
    """Settings of a Spring Boot application."""

    spring: dict[str, str | int | float | bool] = Field(description="Boot's properties.")


class ParallelConfig(ClientConfig):
    """Settings of a parallel consumer."""

    instance_tag: str = Field(description="What it calls itself in its metrics; empty: a UUID.")
    ordering: Literal["KEY", "PARTITION"]
    threads: int


class FastStreamConfig(ClientConfig):
    """Settings of an application on FastStream."""

    library: Literal["aiokafka", "confluent"]
    app_name: str = Field(default="", description="What its middleware is told; empty: nothing.")
    batch: bool = False
    workers: int = Field(default=1, ge=1, description="`max_workers` of its subscriber.")
    ack: str = Field(default="", description="Its policy; empty: FastStream's default.")
    blocking: bool = Field(default=False, description="Whether handlers block the event loop.")
    crashes: bool = Field(default=False, description="Whether a poison record ends the process.")
    client: dict[str, str] = Field(default={}, description="Further arguments of its broker.")


class FaustConfig(InstanceConfig):
    """Settings of an application on Faust."""

    bootstrap: str
    group: str = Field(description="Id of the application.")
    topic: str
    prefix: str = Field(
        default="", description="Of its metrics' names; empty: Faust's default, the application's name."
    )
    concurrency: int = Field(default=1, ge=1, description="Of its agent.")
    retries: bool = Field(default=True, description="Whether its agent tries a record again until it succeeds.")
    blocking: bool = Field(default=False, description="Whether handlers block the event loop.")
    crashes: bool = Field(default=False, description="Whether a poison record ends the process.")
    faust: dict[str, str | int | float | bool] = Field(default={}, description="Further settings of the application.")


class QuarkusConfig(InstanceConfig):
    """Settings of a Quarkus application."""

    channel: str
    patient: bool = Field(description="Whether a record that fails is tried again every second.")
    probed: bool = Field(
        description="Whether it ends when its channel is not alive, as a liveness probe would have it."
    )
    quarkus: dict[str, str | int | float | bool] = Field(description="Quarkus' properties.")


class MicronautConfig(InstanceConfig):
    """Settings of a Micronaut application."""

    micronaut: dict[str, str | int | float | bool] = Field(description="Micronaut's properties.")


class WatermillConfig(ClientConfig):
    """Settings of a consumer on Watermill."""

    named: bool = Field(description="Whether its client is called after the instance.")
    namespace: str = Field(description="Of its metrics; empty: none.")
    poison_queue: str = Field(description="Topic for records that fail; empty: they are sent to the handler again.")
    retries: int = Field(ge=0, description="Of its middleware; 0: it has none.")
    session_ms: int
    heartbeat_ms: int


class CamelConfig(ClientConfig):
    """Settings of a Camel application."""

    camel: dict[str, str | int | float | bool] = Field(description="Options of its Kafka endpoint.")
    seda: int = Field(ge=0, description="Consumers of the SEDA queue behind it; 0: none.")


class StreamConfig(ClientConfig):
    """Settings of a stream of Pekko Connectors Kafka, or of Reactor Kafka."""

    errors: Literal["fail", "restart", "retry"]
    threads: int = Field(description="Records that are handled at the same time.")
    named: bool = Field(description="Whether its consumer is called after the instance.")
