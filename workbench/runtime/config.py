"""Settings of the runtime; every field has its unit in its name, a default, and the reason for it."""

from __future__ import annotations

import difflib
import json
import os
import re
import socket
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from workbench.errors import ConfigError
from workbench.limited_reads import first_problem, read_toml
from workbench.masking import secret_values
from workbench.runtime.ranges_to_process import RangeTable, checked_ranges, topics_not_read

ENVIRONMENT_PREFIX = "WORKBENCH_RUNTIME_"

# Properties that would break a guarantee of the runtime, and why.
_RESERVED = {
    "enable.auto.commit": "the runtime commits processed records; the client would commit records that were only read",
    "enable.auto.offset.store": "the runtime commits processed records; the client would commit records that were only read",
    "bootstrap.servers": "set bootstrap",
    "group.id": "set group",
    "client.id": "set client_id",
    "stats_cb": "the runtime reads the statistics",
    "error_cb": "the runtime reports the errors",
    "on_commit": "the runtime reads the results of its commits",
}

_PULSAR_DRAIN_SECONDS = 2.0
_PULSAR_TOPIC = re.compile(r"(?:persistent://)?[-=:.\w]+/[-=:.\w]+/[^\s/][^\s]*")


class AuditConfig(BaseModel):
    """What the runtime tells an audit (docs/audit.md): how many records it took in, handled, left out and gave up, by position."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    topic: str = Field(min_length=1, max_length=249, description="Topic that takes the rows.")
    layer: str | None = Field(
        default=None, min_length=1, max_length=249, description="Name of this layer; none: the group."
    )
    stream: str | None = Field(
        default=None, min_length=1, max_length=249, description="Name of the stream; none: the topic of each record."
    )
    window_seconds: float = Field(default=60.0, ge=1, le=86_400, description="Length of the windows.")
    wait_seconds: float = Field(
        default=5.0,
        ge=0,
        le=60,
        description="Longest wait of a commit for its rows; after that the commit goes on, and the audit cannot tell. "
        "5 s: longer than an election of a leader usually takes.",
    )


class ProcessorConfig(BaseModel):
    """Settings of the processor of one event type."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    threads: int = Field(default=4, ge=1, le=1024, description="Processor threads. 4: I/O-bound handlers.")
    queues: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Queues that the threads share; none: one per thread. With fewer queues, a slow key blocks fewer other keys.",
    )
    queue_capacity: int = Field(
        default=1000, ge=1, description="Capacity of each queue in events. 1,000: about a second of work at 1 ms."
    )
    max_attempts: int = Field(
        default=5,
        ge=1,
        description="Attempts before an event becomes a dead letter. 5 attempts take about 1.5 s with the default back-off.",
    )
    retry_backoff_seconds: float = Field(
        default=0.1, ge=0, description="Wait before the second attempt; doubles with each further one."
    )
    retry_backoff_max_seconds: float = Field(default=10.0, ge=0, description="Longest back-off.")
    timeout_seconds: float = Field(
        default=60.0, gt=0, description="An attempt that takes longer has failed, and is not repeated."
    )
    delay_seconds: float = Field(
        default=0.0, ge=0, description="Handle each event this long after its event time; at most delay_max_seconds."
    )

    @model_validator(mode="after")
    def _every_queue_is_served(self) -> ProcessorConfig:
        if self.queues is not None and self.queues > self.threads:
            raise ValueError(f"queues is {self.queues}, more than the {self.threads} threads that serve them")
        return self


class PulsarRuntimeConfig(BaseModel):
    """Of a task that reads a Pulsar: its group is the name of a subscription, its topics are tenant/namespace/topic."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    subscription: str = Field(
        default="failover",
        description="failover: other members take over; exclusive: another member waits until this one has gone.",
    )
    token: SecretStr | None = Field(default=None, description="Token (JWT) of the role that consumes.")
    ca_file: str | None = Field(default=None, description="File of certificate authorities (PEM); none: the system's.")

    @field_validator("subscription")
    @classmethod
    def _keeps_an_order(cls, value: str) -> str:
        if value in ("shared", "key_shared"):
            raise ValueError(
                f"{value} has no position below which everything is handled, and the runtime promises one; "
                "use failover or exclusive, or a client of Pulsar's own"
            )
        if value not in ("failover", "exclusive"):
            raise ValueError("must be failover or exclusive")
        return value


class RuntimeConfig(BaseModel):
    """Settings of one task: a consumer group on some topics, its consumers and its processors."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    system: Literal["kafka", "pulsar"] = Field(default="kafka", description="Which message queue it is.")
    bootstrap: str = Field(
        description="host:port of one or more brokers, separated by commas; of a Pulsar its service URL, pulsar://host:6650."
    )
    group: str = Field(min_length=1, description="The consumer group, or subscription.")
    topics: list[str] = Field(min_length=1, description="Topics to read.")
    client_id: str = Field(
        default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}",
        min_length=1,
        description="Name of this instance. Each consumer thread is a member and appends `-0`, `-1`, …",
    )
    consumers: int = Field(
        default=1, ge=1, le=256, description="Consumer threads. Threads beyond the number of partitions stay idle."
    )
    processors: dict[str, ProcessorConfig] = Field(
        default_factory=dict, description="Settings by event type; other types use `default_processor`."
    )
    default_processor: ProcessorConfig = Field(
        default_factory=ProcessorConfig, description="Settings of the event types that `processors` does not name."
    )
    max_poll_records: int = Field(
        default=500, ge=1, le=10_000, description="Records per poll. 500 was the fastest in measurements."
    )
    commit_interval_seconds: float = Field(
        default=1.0, gt=0, description="Time between commits. A crash repeats at most this much time of work."
    )
    max_uncommitted_per_partition: int = Field(
        default=10_000,
        ge=1,
        description="Limit of records read beyond the committed offset; limits the memory behind a stuck record.",
    )
    carry_over_per_partition: int = Field(
        default=1000,
        ge=0,
        description="Records that may wait for a full queue while others pass; above this limit the partition is paused.",
    )
    max_held_bytes: int = Field(
        default=64 << 20,
        ge=1,
        description="Limit in bytes of the records that are read and not finished; above it, partitions are paused. "
        "64 MiB: with records of 1 MB still more than the threads can handle at once; the counts alone would allow 12 GB.",
    )
    delay_capacity: int = Field(
        default=10_000, ge=1, description="Capacity of the delay queue of a consumer thread, in events."
    )
    delay_max_seconds: float = Field(default=60.0, gt=0, le=60.0, description="Longest delay; one minute at most.")
    rebalance_drain_seconds: float = Field(
        default=5.0,
        ge=0,
        description="Time for events in flight to finish before their partition is revoked; more time means fewer repeats. Of a Pulsar "
        "2 s, unless it is set, and all members need the same: the next one of a failover waits for so long before it begins.",
    )
    shutdown_seconds: float = Field(default=30.0, ge=0, description="Time for events in flight to finish on shutdown.")
    dead_letter_topic: str | None = Field(
        default=None, description="Topic for dead letters; none: dead letters are only counted."
    )
    audit: AuditConfig | None = Field(default=None, description="What is told to an audit; none: nothing.")
    max_bytes_per_second: int | None = Field(
        default=None, ge=1000, description="Limit on reading, for a replay beside live traffic; none: no limit."
    )
    start_at: datetime | None = Field(
        default=None,
        description="Start of partitions without a commit: the first record at or after this timestamp (with a time zone).",
    )
    ranges: dict[str, dict[int, list[tuple[int, int]]]] | None = Field(
        default=None,
        description="Process only these offset ranges (topic, partition, [start, end)), and end once the group has committed them. "
        "With ranges by POST /replay, the process stays, for the way back.",
    )
    switch_file: Path | None = Field(
        default=None,
        description="File in which a switch of the group (POST /replay) is kept, so that a restart comes back in the new group.",
    )
    admin_token: SecretStr | None = Field(
        default=None, description="Bearer token of the admin API. Without a token, the admin API is off."
    )
    metrics_address: str = Field(
        default="127.0.0.1", description="Address of the metrics page and the admin API; loopback by default."
    )
    metrics_port: int = Field(
        default=0, ge=0, le=65_535, description="Port of the metrics page and the admin API; 0: any free port."
    )
    kafka: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Further librdkafka properties (security and the like)."
    )
    pulsar: PulsarRuntimeConfig = Field(
        default_factory=PulsarRuntimeConfig, description="Settings of a task that reads a Pulsar."
    )

    @field_validator("start_at")
    @classmethod
    def _has_a_zone(cls, value: datetime | None) -> datetime | None:
        if value is not None and value.tzinfo is None:
            raise ValueError("a timestamp needs a time zone, as in 2026-11-21T03:00:00+08:00")
        return value

    @field_validator("ranges")
    @classmethod
    def _ranges_in_order(cls, value: RangeTable | None) -> RangeTable | None:
        if value is not None:
            checked_ranges(value)
        return value

    @field_validator("kafka")
    @classmethod
    def _leaves_the_runtime_its_own(
        cls, value: dict[str, str | int | float | bool]
    ) -> dict[str, str | int | float | bool]:
        for name, why in _RESERVED.items():
            if name in value:
                raise ValueError(f"{name} cannot be set in the kafka table: {why}")
        return value

    @model_validator(mode="after")
    def _letters_do_not_come_back(self) -> RuntimeConfig:
        for topic in self.topics:
            try:
                read = re.match(topic, self.dead_letter_topic or "") if topic.startswith("^") else None
            except (re.error, RecursionError) as error:
                raise ValueError(f"topics: {topic} is not a valid pattern: {error}") from None
            if self.dead_letter_topic is not None and (read or topic == self.dead_letter_topic):
                raise ValueError(
                    f"dead_letter_topic {self.dead_letter_topic} is one of the topics ({topic}): "
                    "its dead letters would be read again forever"
                )
        return self

    @model_validator(mode="after")
    def _rows_do_not_come_back(self) -> RuntimeConfig:
        if self.audit is not None and self.audit.topic in self.topics:
            raise ValueError(
                f"audit.topic {self.audit.topic} is one of the topics: its rows would be read and counted forever"
            )
        return self

    @model_validator(mode="after")
    def _ranges_are_read(self) -> RuntimeConfig:
        if self.ranges and (others := topics_not_read(self.topics, self.ranges)):
            raise ValueError(f"ranges: {others[0]} is none of the topics, so its ranges would never end")
        return self

    @model_validator(mode="before")
    @classmethod
    def _ends_in_time(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("system") == "pulsar":
            return {"rebalance_drain_seconds": _PULSAR_DRAIN_SECONDS, **values}
        return values

    @model_validator(mode="after")
    def _fits_the_queue(self) -> RuntimeConfig:
        if self.system == "kafka":
            return self
        if self.kafka:
            raise ValueError("kafka: system is pulsar, so these properties are of no use")
        for name in ("start_at", "switch_file"):
            if getattr(self, name) is not None:
                raise ValueError(f"{name} does not work on a Pulsar yet")
        written = [("audit.topic", self.audit.topic)] if self.audit is not None else []
        for name, topic in (*(("topics", it) for it in self.topics), *written):
            if not _PULSAR_TOPIC.fullmatch(topic):
                raise ValueError(f"{name}: {topic} is no tenant/namespace/topic")
        return self

    @model_validator(mode="after")
    def _delays_fit(self) -> RuntimeConfig:
        for name, processor in {**self.processors, "default_processor": self.default_processor}.items():
            if processor.delay_seconds > self.delay_max_seconds:
                raise ValueError(
                    f"{name}.delay_seconds is {processor.delay_seconds:g}, over delay_max_seconds = {self.delay_max_seconds:g}"
                )
        return self

    def secrets(self) -> list[str]:
        """Tokens, and what is secret of the client's properties."""
        tokens = [it.get_secret_value() for it in (self.admin_token, self.pulsar.token) if it is not None]
        return [*tokens, *secret_values(self.kafka)]

    @classmethod
    def parse(cls, values: dict[str, Any], *, where: str = "runtime settings") -> RuntimeConfig:
        """Check plain values.

        Raises:
            ConfigError: naming the first field that is wrong.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            problem = first_problem(error, whole="the settings")
            reason = "there is no such field" if problem.is_unknown else problem.reason
            similar = _similar(problem.field.rpartition(".")[2]) if problem.is_unknown else None
            raise ConfigError(
                f"{where}: {problem.field}: {reason}.",
                hint=similar or "Fields, units and defaults: workbench runtime settings.",
            ) from None

    @classmethod
    def from_toml(cls, path: Path, *, environ: Mapping[str, str] | None = None) -> RuntimeConfig:
        """Read a TOML file (its table `[runtime]`, or else all of it); the variables of `environ` override it.

        Raises:
            ConfigError: if it cannot be read or a field is wrong.
        """
        values = read_toml(path, what="The settings file")
        table = values.get("runtime", values)
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: runtime: must be a table.")
        return cls.parse(_overlaid(table, environ or {}), where=str(path))

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> RuntimeConfig:
        """Read `WORKBENCH_RUNTIME_GROUP`, `WORKBENCH_RUNTIME_TOPICS='["orders"]'` and so on.

        Raises:
            ConfigError: if a field is wrong.
        """
        return cls.parse(_overlaid({}, os.environ if environ is None else environ), where="the environment")

    def processor(self, event_type: str) -> ProcessorConfig:
        """Settings for one event type."""
        return self.processors.get(event_type, self.default_processor)


TABLES: dict[str, type[BaseModel]] = {
    "[runtime]": RuntimeConfig,
    "[runtime.processors.<event type>]": ProcessorConfig,
    "[runtime.pulsar]": PulsarRuntimeConfig,
}  # of its file


def _similar(name: str) -> str | None:
    """Suggest a similar field: for `commit_interval_ms`, `commit_interval_seconds`."""
    fields = [*RuntimeConfig.model_fields, *ProcessorConfig.model_fields]
    stem = name.removesuffix("_ms").removesuffix("_s").removesuffix("_minutes")
    close = difflib.get_close_matches(name, fields, n=1) or [field for field in fields if field.startswith(stem)][:1]
    return f"Did you mean {close[0]}?" if close else None


def _overlaid(values: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Override settings with those of the environment; `__` in a variable's name separates table and field.

    A value is parsed as JSON if the field is a list or a table, and used as text if it does not parse (a group may be named `12`).
    """
    merged = json.loads(json.dumps(values, default=str)) if values else {}
    services = _services(environ)
    for name, text in environ.items():
        if not name.startswith(ENVIRONMENT_PREFIX) or _is_of_a_service(name, text, services):
            continue
        *tables, last = name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
        place = merged
        for table in tables:
            place = place.setdefault(table, {})
            if not isinstance(place, dict):
                raise ConfigError(f"{name}: {table} is not a table.")
        place[last] = _parsed(text)
    return merged


# What Kubernetes and Docker set for a service in each container (enableServiceLinks), behind its name.
_OF_A_SERVICE = re.compile(r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)")


def _services(environ: Mapping[str, str]) -> list[str]:
    """Names of services, as variables begin: WORKBENCH_RUNTIME for a Service named workbench-runtime."""
    return [name.removesuffix("_SERVICE_HOST") for name in environ if name.endswith("_SERVICE_HOST")]


def _is_of_a_service(name: str, text: str, services: Sequence[str]) -> bool:
    """Whether a variable tells of a service: not a setting. A port is then a URL, as WORKBENCH_RUNTIME_METRICS_PORT=tcp://10.0.0.1:80."""
    found = any(name.startswith(it) and _OF_A_SERVICE.fullmatch(name, len(it)) for it in services)
    is_field = name.removeprefix(ENVIRONMENT_PREFIX).lower() in RuntimeConfig.model_fields
    return found and (not is_field or "://" in text)


def _parsed(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, list | dict) else text
