"""A plan as a file: versioned, hashed, and refused with a named reason if one bit of it is not as it was written."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from workbench.errors import GuardError, UsageError
from workbench.files import atomic_write
from workbench.inputs import first_problem, read_within
from workbench.replay.connect import SHORT_HASH
from workbench.replay.gateway import Partition

_MOST_BYTES = 64 << 20  # a plan of 200,000 partitions
Offset = Annotated[int, Field(ge=0)]


class Resolution(StrEnum):
    """What the requested instant met in a partition."""

    EXACT = "exact"  # there are records before it and at or after it
    BEFORE_START = "before_start"  # the first record that is kept is later
    AFTER_END = "after_end"  # every record is earlier
    EMPTY = "empty"  # there is no record


class AfterEnd(StrEnum):
    """What to do where no record is at or after the instant; asked for, never guessed."""

    FAIL = "fail"
    SKIP = "skip"  # commit nothing: the consumers' own `auto.offset.reset` decides
    END = "end"  # commit the end: only what comes after it


class Strict(BaseModel):
    """A part of a file: no unknown field, no silent conversion, no change after it was read."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid", frozen=True, strict=True)


class PlannedPartition(Strict):
    """What happens to one partition.

    Attributes:
        log_start, log_end: of the log when it was planned.
        old_committed: the old group's; None if it never committed.
        target: offset to commit for the new group; None: none (policy skip).
        target_timestamp: of the record at the target, ms since the epoch; None where there is none.
        stop: the window's end: first record at or after `until`, else the log's end (see `window_end`).
        messages: offsets from target to stop; an upper bound where a topic is compacted or transactional.
        bytes_estimate: messages times the mean size of sampled records; None if none could be read.
    """

    topic: str = Field(min_length=1, max_length=249)
    partition: Offset
    log_start: Offset
    log_end: Offset
    old_committed: Offset | None
    target: Offset | None
    target_timestamp: int | None
    stop: Offset
    messages: Offset
    bytes_estimate: Offset | None
    resolution: Resolution = Field(strict=False)
    leader: int

    @property
    def key(self) -> Partition:
        """Topic and number."""
        return self.topic, self.partition

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        name = f"{self.topic}-{self.partition}"
        if self.log_start > self.log_end:
            raise ValueError(f"{name}: log_start {self.log_start} is after log_end {self.log_end}")
        if self.target is not None and not self.log_start <= self.target <= self.log_end:
            raise ValueError(f"{name}: target {self.target} is outside of the log {self.log_start}…{self.log_end}")
        if self.messages != (0 if self.target is None else max(0, self.stop - self.target)):
            raise ValueError(f"{name}: {self.messages} messages do not fit between target and stop")
        found = self.resolution in (Resolution.EXACT, Resolution.BEFORE_START)
        if found and (self.target is None or self.target_timestamp is None):
            raise ValueError(f"{name}: {self.resolution.value} without a record")
        if not found and (self.target_timestamp is not None or self.target not in (None, self.log_end)):
            raise ValueError(f"{name}: {self.resolution.value}, but the target is not the end")
        return self


class Plan(Strict):
    """A replay that is intended: read it, keep it, apply it.

    Attributes:
        since, until: the window [since, until) as ISO 8601 in UTC; until None: up to the end when it was planned.
        requested_since, requested_until: as they were typed.
        whole_topics: topics of which all partitions are planned.
        topic_ids: of the topics, where the brokers have some: one of the same name that is made anew has another one.
    """

    schema_: Literal["workbench.replay-plan/1"] = Field(alias="schema", default="workbench.replay-plan/1")
    hash: str = ""
    created_at: str
    created_by: str
    host: str
    reason: str | None
    cluster: str
    cluster_id: str = Field(min_length=1)
    from_group: str = Field(min_length=1)
    new_group: str = Field(min_length=1)
    since: str
    until: str | None
    requested_since: str
    requested_until: str | None
    after_end: AfterEnd = Field(strict=False)
    whole_topics: list[str]
    warnings: list[str]
    topic_ids: dict[str, str] = {}  # plans of earlier versions have none
    partitions: list[PlannedPartition] = Field(min_length=1)

    model_config = ConfigDict(
        hide_input_in_errors=True, extra="forbid", frozen=True, strict=True, populate_by_name=True
    )

    @model_validator(mode="after")
    def _is_one_intention(self) -> Self:
        if self.from_group == self.new_group:
            raise ValueError("from_group and new_group are the same group")
        for name in ("created_at", "since", "until"):
            text = getattr(self, name)
            if text is not None and datetime.fromisoformat(text).tzinfo is None:
                raise ValueError(f"{name} {text!r} has no time zone")
        if self.until is not None and self.until_ms is not None and self.until_ms <= self.since_ms:
            raise ValueError("until is not after since")
        twice = [key for key, number in Counter(part.key for part in self.partitions).items() if number > 1]
        if twice:
            raise ValueError(f"{twice[0][0]}-{twice[0][1]} is planned twice")
        if self.after_end is AfterEnd.FAIL and any(part.target_timestamp is None for part in self.partitions):
            raise ValueError("after_end is fail, but a partition without a record is planned")
        return self

    @property
    def since_ms(self) -> int:
        """Start of the window, ms since the epoch."""
        return instant_ms(datetime.fromisoformat(self.since))

    @property
    def until_ms(self) -> int | None:
        """End of the window, ms since the epoch."""
        return None if self.until is None else instant_ms(datetime.fromisoformat(self.until))

    @property
    def short_hash(self) -> str:
        """What a person types to confirm."""
        return self.hash[:SHORT_HASH]

    @property
    def targets(self) -> dict[Partition, int]:
        """What is to be committed."""
        return {part.key: part.target for part in self.partitions if part.target is not None}

    @property
    def topics(self) -> list[str]:
        """In the order of the plan."""
        return list(dict.fromkeys(part.topic for part in self.partitions))

    @property
    def messages(self) -> int:
        """Of all partitions."""
        return sum(part.messages for part in self.partitions)

    @property
    def bytes_estimate(self) -> int | None:
        """Of all partitions; None if one with messages could not be estimated."""
        sizes = [part.bytes_estimate for part in self.partitions if part.messages]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def document(self) -> dict[str, Any]:
        """As plain values, in the order of the fields."""
        return self.model_dump(mode="json", by_alias=True)

    def sealed(self) -> Plan:
        """The plan with its hash."""
        return self.model_copy(update={"hash": canonical_hash(self.document())})


def instant_ms(instant: datetime) -> int:
    """The first millisecond that is not before the instant; Kafka's timestamps are whole milliseconds."""
    from datetime import UTC, timedelta

    span = instant - datetime(1970, 1, 1, tzinfo=UTC)
    return (
        -(-span // timedelta(milliseconds=1)) if span % timedelta(milliseconds=1) else span // timedelta(milliseconds=1)
    )


def canonical_hash(document: dict[str, Any]) -> str:
    """SHA-256 over the document without its hash, keys sorted and no spaces: whitespace and order of keys do not count."""
    bare = {name: value for name, value in document.items() if name != "hash"}
    text = json.dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def read_plan(path: Path) -> Plan:
    """Read a plan and check it.

    Raises:
        UsageError: if the file cannot be read or is no plan.
        GuardError: if it is one, but a field or the hash is not as it was written.
    """
    document = read_document(path, "plan")
    if not isinstance(document, dict) or not str(document.get("schema", "")).startswith("workbench.replay-plan/"):
        raise UsageError(f"{path} is not a replay plan.", hint="Make one with: workbench replay plan.")
    plan = validated(Plan, document, path, "plan")
    expected = canonical_hash(document)
    if plan.hash != expected:
        shown = plan.hash[:SHORT_HASH] or "missing"
        raise GuardError(
            f"{path} was changed after it was written: its hash is {shown}, its content's {expected[:SHORT_HASH]}.",
            hint="Make a new plan; plans are not edited by hand.",
        )
    return plan


def read_document(path: Path, what: str) -> Any:
    """JSON from a file, where no key may stand twice.

    Raises:
        UsageError: if it cannot be read or is no JSON.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError(
                f"the key {next(key for key, n in Counter(k for k, _ in pairs).items() if n > 1)!r} occurs twice"
            )
        return found

    def number(text: str) -> None:
        raise ValueError(f"{text} is not a number")

    try:
        return json.loads(read_within(path, _MOST_BYTES).decode(), object_pairs_hook=once, parse_constant=number)
    except OSError as error:
        raise UsageError(f"The {what} {path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        reason = str(error) or type(error).__name__
        raise UsageError(f"The {what} {path} is not JSON: {reason}.", hint=f"Make a new {what}.") from None


M = TypeVar("M", bound=BaseModel)


def validated(model: type[M], document: Any, path: Path, what: str) -> M:
    """The document as a model.

    Raises:
        GuardError: naming the first field that is wrong.
    """
    try:
        return model.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise GuardError(
            f"The {what} {path} is not valid: {first_problem(error, whole='the file')}.", hint=f"Make a new {what}."
        ) from None


def _legible(document: dict[str, Any]) -> str:
    """JSON with a line for each field and for each item of a list: for people and for diff, at the speed of the C encoder."""

    def text(value: Any) -> str:
        return json.dumps(value, allow_nan=False)

    fields = []
    for name, value in document.items():
        if isinstance(value, list) and len(value) > 1:
            fields.append(f" {text(name)}: [\n" + ",\n".join("  " + text(item) for item in value) + "\n ]")
        else:
            fields.append(f" {text(name)}: {text(value)}")
    return "{\n" + ",\n".join(fields) + "\n}\n"


def write_file(path: Path, document: dict[str, Any]) -> None:
    """Write JSON so that it is on the disk, whole, before this returns; a reader never sees half of it.

    Raises:
        UsageError: if the folder cannot be written to.
    """
    try:
        with atomic_write(path, durable=True) as temporary:
            temporary.write_text(_legible(document), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.", hint="Choose another path.") from None
