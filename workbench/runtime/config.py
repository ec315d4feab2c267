"""Settings of the runtime; every field has its unit in its name, a default, and the reason for it."""

from __future__ import annotations

import os
import socket
import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from workbench.errors import ConfigError


class ProcessorConfig(BaseModel):
    """How events of one type are handled."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    threads: int = Field(
        default=4, ge=1, le=1024, description="Processor threads, each with a queue of its own. 4: I/O-bound handlers."
    )
    queue_capacity: int = Field(
        default=1000, ge=1, description="Events each queue holds. 1,000: about a second of work at 1 ms."
    )
    max_attempts: int = Field(
        default=5, ge=1, description="Tries before an event is given up. 5 spans about 1.5 s with the default back-off."
    )
    retry_backoff_seconds: float = Field(
        default=0.1, ge=0, description="Wait before the second try; doubles with each further one."
    )
    retry_backoff_max_seconds: float = Field(default=10.0, ge=0, description="The back-off grows no longer than this.")
    timeout_seconds: float = Field(
        default=60.0, gt=0, description="A try that takes longer has failed, and is not repeated (seed 000)."
    )
    delay_seconds: float = Field(
        default=0.0, ge=0, description="Handle each event this long after its event time; bounded by delay_max_seconds."
    )


class RuntimeConfig(BaseModel):
    """Settings of one task: a consumer group on some topics, its consumers and its processors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bootstrap: str = Field(description="host:port of some brokers, with commas between them.")
    group: str = Field(min_length=1, description="The consumer group.")
    topics: list[str] = Field(min_length=1, description="Topics to read.")
    client_id: str = Field(
        default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}",
        min_length=1,
        description="Name of this instance; `-0`, `-1`, … is put behind it, one member for each consumer thread.",
    )
    consumers: int = Field(
        default=1, ge=1, le=256, description="Consumer threads. More than there are partitions stand by without work."
    )
    processors: dict[str, ProcessorConfig] = Field(
        default_factory=dict, description="By event type; types that are not named use `default_processor`."
    )
    default_processor: ProcessorConfig = Field(default_factory=ProcessorConfig)
    max_poll_records: int = Field(
        default=500, ge=1, le=10_000, description="Records taken at once. 500 was the fastest measured."
    )
    commit_interval_seconds: float = Field(
        default=1.0, gt=0, description="Time between commits; what a crash repeats at most, in time."
    )
    max_uncommitted_per_partition: int = Field(
        default=10_000,
        ge=1,
        description="Records read beyond the committed offset; bounds memory behind one stuck record.",
    )
    delay_capacity: int = Field(default=10_000, ge=1, description="Events the delay queue of a consumer thread holds.")
    delay_max_seconds: float = Field(
        default=60.0, gt=0, le=60.0, description="Longest delay. One minute is the bound of seed 000."
    )
    rebalance_drain_seconds: float = Field(
        default=5.0,
        ge=0,
        description="Time that events at work get to finish before their partition is given away; fewer repeats after.",
    )
    shutdown_seconds: float = Field(default=30.0, ge=0, description="Time that a stop waits for events at work.")
    dead_letter_topic: str | None = Field(default=None, description="Where given-up events go; None: only counted.")
    metrics_address: str = Field(default="127.0.0.1", description="Address of the metrics page; loopback by default.")
    metrics_port: int = Field(default=0, ge=0, le=65_535, description="Port of the metrics page; 0: any free one.")
    kafka: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Further librdkafka properties (security and the like)."
    )

    @model_validator(mode="after")
    def _delays_fit(self) -> RuntimeConfig:
        for name, processor in {**self.processors, "default_processor": self.default_processor}.items():
            if processor.delay_seconds > self.delay_max_seconds:
                raise ValueError(
                    f"{name}.delay_seconds is {processor.delay_seconds:g}, over delay_max_seconds = {self.delay_max_seconds:g}"
                )
        return self

    @classmethod
    def parse(cls, values: dict[str, Any], *, where: str = "runtime settings") -> RuntimeConfig:
        """Check plain values.

        Raises:
            ConfigError: naming the first field that is wrong.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"]) or "the whole"
            raise ConfigError(
                f"{where}: {name}: {first['msg']}.", hint="Fields, units and defaults: workbench.runtime.RuntimeConfig."
            ) from None

    @classmethod
    def from_toml(cls, path: Path) -> RuntimeConfig:
        """Read a TOML file; its table `[runtime]`, or the whole file if there is none.

        Raises:
            ConfigError: if it cannot be read or a field is wrong.
        """
        try:
            values = tomllib.loads(path.read_text())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{path} cannot be read: {error}.") from None
        return cls.parse(values.get("runtime", values), where=str(path))

    def processor(self, event_type: str) -> ProcessorConfig:
        """Settings for one event type."""
        return self.processors.get(event_type, self.default_processor)
