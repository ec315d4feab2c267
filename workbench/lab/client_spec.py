"""Settings of the lab's producers and consumers. They re-read their file, so a fault can begin while they run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from workbench.files import write_text

POISON_HEADER = "poison"


class Traffic(BaseModel):
    """What a producer sends."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    bootstrap: str
    topic: str
    partitions: int
    rate_per_second: float = Field(ge=0)
    event_types: dict[str, float] = Field(description="Event type to its share of the traffic (any scale).")
    keys: int = Field(default=200, ge=1)
    hot_partition: int | None = None
    hot_share: float = Field(
        default=0.0, ge=0, le=1, description="Share of the traffic that goes to the hot partition."
    )
    hot_key: int | None = Field(default=None, description="Number of one key that gets `hot_share` of the traffic.")
    hot_type: str | None = Field(default=None, description="The event type of the hot key's events; None: any.")
    type_partitions: dict[str, list[int]] = Field(
        default={}, description="Event types whose keys all fall on these partitions; the others are spread."
    )
    swing: float = Field(default=0.0, ge=0, lt=1, description="The rate swings by this share up and down ...")
    swing_seconds: float = Field(default=60.0, gt=0, description="... once in this time.")
    poison_partition: int | None = Field(default=None, description="Send one record there that no handler can take.")
    record_bytes: int = Field(default=200, ge=1)
    seed: int = 0


class Behaviour(BaseModel):
    """How the handlers of an instance behave."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    process_seconds: dict[str, float] = Field(description="Event type to the time its handler takes.")
    decode_seconds: float = Field(default=0.0, ge=0, description="Time to decode one record, on the consumer thread.")
    jitter: float = Field(default=0.2, ge=0, lt=1, description="Times vary by this share up and down.")
    poison_fails: bool = True
    dead_share: dict[str, float] = Field(
        default={}, description="Event type to the share of its events that are given up."
    )
    held_members: list[str] = Field(
        default=[], description="Instances that have paused their partitions, and go on polling."
    )
    delay_seconds: dict[str, float] = Field(default={}, description="Event type to the delay of its events.")
    kept_megabytes: int = Field(
        default=0,
        ge=0,
        description="What an instance keeps in memory, while each record leaves two megabytes of garbage.",
    )
    stall_members: list[str] = Field(default=[], description="Instances whose consumer thread stops polling ...")
    stall_seconds: float = Field(default=0.0, ge=0, description="... for this long ...")
    stall_pause_seconds: float = Field(default=1.0, ge=0, description="... and works for this long in between.")


class StartWay(BaseModel):
    """What the network does to some clients: latency for each direction, added by the lab's proxy."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    delay_seconds: dict[str, float] = Field(default={}, description="Beginning of a client id to the latency.")
    hold_fetches: dict[str, float] = Field(
        default={},
        description="Beginning of a client id to a time (s since the epoch): its connections that were open then get no more records.",
    )


class Transaction(BaseModel):
    """What a producer writes in the transaction that it leaves open: a record into each partition."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    bootstrap: str
    topic: str
    partitions: list[int]
    transactional_id: str
    event_type: str


class ExporterFault(BaseModel):
    """What the exporter does wrong for one group: leave it out, or show what is no number."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True)

    group: str
    topic: str
    mode: Literal["hidden", "nan", "minus_one"]


M = TypeVar("M", bound=BaseModel)


class Watched(Generic[M]):
    """A model in a file, read again when the file changes."""

    def __init__(self, path: Path, model: type[M], *, on_change: Callable[[M], None] | None = None) -> None:
        self._path = path
        self._model = model
        self._on_change = on_change
        self._seen = -1
        self.current: M = self._read()

    def _read(self) -> M:
        self._seen = self._path.stat().st_mtime_ns
        return self._model.model_validate_json(self._path.read_text(encoding="utf-8"))

    def refresh(self) -> M:
        """The current content."""
        if self._path.stat().st_mtime_ns != self._seen:
            self.current = self._read()
            if self._on_change is not None:
                self._on_change(self.current)
        return self.current


def write(path: Path, model: BaseModel) -> None:
    """Write a model so that a reader sees the old content or the new, never half of one."""
    write_text(path, model.model_dump_json(indent=1))
