"""Plan file: versioned and hashed; a changed file is refused with a reason."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from workbench.errors import UsageError
from workbench.humanize import plural
from workbench.plans.strict_document import SHORT_HASH, Offset, StrictDocument, canonical_hash, read_document, sealed_by
from workbench.queues.position import Position
from workbench.queues.snapshot_views import Partition
from workbench.queues.systems import SYSTEM_NAMES
from workbench.window import instant_ms

SCHEMA_2 = "workbench.replay-plan/2"


class Resolution(StrEnum):
    """Result of the timestamp lookup in a partition."""

    EXACT = "exact"  # records before it, and at or after it
    BEFORE_START = "before_start"  # the first available record is later
    UNORDERED = (
        "unordered"  # timestamps are out of order: every record of the window is in the range, and others are too
    )
    UNREAD = "unread"  # it is not known whether records of the window lie behind its end: too many to read
    NONE_INSIDE = "none_inside"  # records before the window and after it, none in it
    AFTER_END = "after_end"  # all records are earlier
    EMPTY = "empty"  # no records
    GIVEN = "given"  # the offsets were asked for, in a plan of ranges


# Where Kafka has a record at or after the start.
WITH_RECORD = (
    Resolution.EXACT,
    Resolution.BEFORE_START,
    Resolution.UNORDERED,
    Resolution.UNREAD,
    Resolution.NONE_INSIDE,
)


class AfterEnd(StrEnum):
    """Policy for partitions without a record at or after the start; always explicit."""

    FAIL = "fail"
    SKIP = "skip"  # commit nothing: the consumers' `auto.offset.reset` decides
    END = "end"  # commit the log end: only new records


class PlannedPartition(StrictDocument):
    """Plan for one partition.

    Attributes:
        log_start, log_end: at the time of planning.
        old_committed: the old group's committed offset; None if it never committed.
        target: offset to commit for the new group; None: none (policy skip).
        target_timestamp: of the record at the target, ms since the epoch; None if there is none.
        stop: the window's end: behind its last known record, else the log's end (see `window_end`).
        messages: offsets from target to stop; an upper bound where a topic is compacted or transactional.
        ranges: in a plan of ranges, positions [start, stop) in order; the first starts at the target, the last ends at the stop.
        bytes_estimate: messages times the mean size of sampled records; None without samples.
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
    ranges: list[tuple[str, str]] | None = Field(default=None, strict=False)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Ranges of offsets [start, stop); one in a plan without ranges, and none without a target."""
        if self.ranges is not None:
            return [(Position.parse(start).offset, Position.parse(stop).offset) for start, stop in self.ranges]
        return [(self.target, self.stop)] if self.target is not None and self.messages else []

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
        if (self.ranges is not None) != (self.resolution is Resolution.GIVEN):
            raise ValueError(f"{name}: ranges and the resolution given belong together")
        if self.ranges is not None:
            self._check_ranges(name)
            return self
        if self.messages != (0 if self.target is None else max(0, self.stop - self.target)):
            raise ValueError(
                f"{name}: {plural(self.messages, 'message does', 'messages do')} not fit between target and stop"
            )
        found = self.resolution in WITH_RECORD
        if found and (self.target is None or self.target_timestamp is None):
            raise ValueError(f"{name}: {self.resolution.value} without a record")
        if not found and (self.target_timestamp is not None or self.target not in (None, self.log_end)):
            raise ValueError(f"{name}: {self.resolution.value}, but the target is not the end")
        return self

    def _check_ranges(self, name: str) -> None:
        spans, last = self.spans, -1
        for start, stop in spans:
            if start <= last or stop <= start:
                raise ValueError(f"{name}: the range {start} to {stop} is not after the one before it")
            last = stop
        if not spans or spans[0][0] != self.target or spans[-1][1] != self.stop or self.stop > self.log_end:
            raise ValueError(f"{name}: the ranges do not begin at the target, or do not end at the stop within the log")
        if self.messages != sum(stop - start for start, stop in spans):
            raise ValueError(f"{name}: {plural(self.messages, 'message does', 'messages do')} not fit into the ranges")


class Plan(StrictDocument):
    """A planned replay.

    Attributes:
        since, until: the window [since, until) as ISO 8601 in UTC; until None: up to the log end at the time of planning.
        requested_since, requested_until: as they were typed.
        whole_topics: topics of which all partitions are planned.
        topic_ids: of the topics, if the brokers have them; a recreated topic has another id.
        windows: in a plan of ranges, the windows of time [since, until) that were asked for, as ISO 8601 in UTC.
        unread: in a plan of ranges, unread offsets (topic, partition, start, stop), where more records of the windows may be.
        beside: in a plan of windows, partitions without a range, and where their logs ended (topic, partition, log end): records of the
            windows that come later lie behind that.
    """

    schema_: Literal["workbench.replay-plan/1", "workbench.replay-plan/2"] = Field(
        alias="schema", default="workbench.replay-plan/1"
    )
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
    topic_ids: dict[str, str] = Field(default={})  # plans of earlier versions have no topic ids
    windows: list[tuple[str, str]] | None = Field(default=None, strict=False)
    unread: list[tuple[str, Offset, Offset, Offset]] | None = Field(default=None, strict=False)
    beside: list[tuple[str, Offset, Offset]] | None = Field(default=None, strict=False)
    partitions: list[PlannedPartition] = Field(min_length=1)

    model_config = ConfigDict(
        hide_input_in_errors=True, extra="forbid", frozen=True, strict=True, populate_by_name=True
    )

    @model_validator(mode="after")
    def _is_one_intention(self) -> Self:
        if self.from_group == self.new_group:
            raise ValueError("from_group and new_group are the same group")
        named = [(name, getattr(self, name)) for name in ("created_at", "since", "until")]
        for name, text in [*named, *(("windows", text) for window in self.windows or () for text in window)]:
            if text is not None and datetime.fromisoformat(text).tzinfo is None:
                raise ValueError(f"{name} {text!r} has no time zone")
        if any(until <= since for since, until in self.windows_ms):
            raise ValueError("until is not after since")
        if (self.windows or self.unread or self.beside) and not self.is_of_ranges:
            raise ValueError("windows, unread and beside belong to a plan of ranges")
        twice = [key for key, number in Counter(part.key for part in self.partitions).items() if number > 1]
        if twice:
            raise ValueError(f"{twice[0][0]}-{twice[0][1]} is planned twice")
        if any((part.ranges is not None) != self.is_of_ranges for part in self.partitions):
            raise ValueError("a plan of ranges has ranges in every partition, and no other plan has them")
        if (
            self.after_end is AfterEnd.FAIL
            and not self.is_of_ranges
            and any(part.target_timestamp is None for part in self.partitions)
        ):
            raise ValueError("after_end is fail, but a partition without a record is planned")
        return self

    @property
    def is_of_ranges(self) -> bool:
        """Whether it has exact ranges of offsets, with an end (`replay-plan/2`)."""
        return self.schema_ == SCHEMA_2

    def range_table(self) -> dict[str, dict[int, list[tuple[int, int]]]] | None:
        """Ranges by topic and partition, as the runtime takes them; None for a plan without ranges."""
        if not self.is_of_ranges:
            return None
        table: dict[str, dict[int, list[tuple[int, int]]]] = {}
        for part in self.partitions:
            table.setdefault(part.topic, {})[part.partition] = part.spans
        return table

    @property
    def since_ms(self) -> int:
        """Start of the window, ms since the epoch."""
        return instant_ms(datetime.fromisoformat(self.since))

    @property
    def until_ms(self) -> int | None:
        """End of the window, ms since the epoch."""
        return None if self.until is None else instant_ms(datetime.fromisoformat(self.until))

    @property
    def windows_ms(self) -> list[tuple[int, int]]:
        """Windows of time [since, until) with an end, ms since the epoch; none in a plan of offsets, or up to the logs' ends."""
        if self.windows:
            return [
                (instant_ms(datetime.fromisoformat(since)), instant_ms(datetime.fromisoformat(until)))
                for since, until in self.windows
            ]
        return [] if self.until_ms is None else [(self.since_ms, self.until_ms)]

    @property
    def short_hash(self) -> str:
        """First characters of the hash, which a person types to confirm."""
        return self.hash[:SHORT_HASH]

    @property
    def targets(self) -> dict[Partition, int]:
        """Offsets to commit."""
        return {part.key: part.target for part in self.partitions if part.target is not None}

    @property
    def known(self) -> set[Partition]:
        """Partitions that were there when the plan was made, as far as it says."""
        return {part.key for part in self.partitions} | {(topic, number) for topic, number, _ in self.beside or ()}

    @property
    def topics(self) -> list[str]:
        """Topics in the order of the plan."""
        return list(dict.fromkeys(part.topic for part in self.partitions))

    @property
    def messages(self) -> int:
        """Messages of all partitions."""
        return sum(part.messages for part in self.partitions)

    @property
    def bytes_estimate(self) -> int | None:
        """Estimated bytes of all partitions; None if one with messages has no estimate."""
        sizes = [part.bytes_estimate for part in self.partitions if part.messages]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def document(self) -> dict[str, Any]:
        """Plain values in the order of the fields; what a plan does not have is left out, as in earlier versions."""
        found = self.model_dump(mode="json", by_alias=True)
        for name in ("windows", "unread", "beside"):
            if found[name] is None:
                del found[name]
        if not self.is_of_ranges:
            for part in found["partitions"]:
                del part["ranges"]
        return found

    def sealed(self) -> Plan:
        """Copy of the plan with its hash."""
        return self.model_copy(update={"hash": canonical_hash(self.document())})


def read_plan(path: Path) -> Plan:
    """Read a plan and check it.

    Raises:
        UsageError: if the file cannot be read or is not a plan.
        GuardError: if a field or the hash of the plan was changed.
    """
    document = read_document(path, "plan")
    schema = str(document.get("schema", "")) if isinstance(document, dict) else ""
    for system, label in SYSTEM_NAMES.items():
        if schema.startswith(f"workbench.{system}-replay"):
            raise UsageError(
                f"{path} is of a replay on {label}, where this does not work yet.",
                hint=f"See docs/{system}.md, Replay.",
            )
    if not schema.startswith("workbench.replay-plan/"):
        raise UsageError(f"{path} is not a replay plan.", hint="`workbench replay plan` makes one.")
    return sealed_by(Plan, document, path)
