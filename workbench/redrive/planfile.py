"""Redrive plan: versioned and hashed; it names every dead letter that will be produced, and where."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from workbench.errors import UsageError
from workbench.humanize import plural
from workbench.limited_reads import is_web_address
from workbench.masking import remember, secrets_in_url
from workbench.plans.strict_document import SHORT_HASH, Offset, StrictDocument, canonical_hash, read_document, sealed_by
from workbench.queues.group_kinds import REDRIVE_PREFIX, is_redrive_plan
from workbench.redrive.picked_letter_offsets import Picks
from workbench.redrive.selection import Selection

SCHEMA = "workbench.redrive-plan/1"
_ID_LENGTH = 32  # of the hash
MOST_PLAN_BYTES = 256 << 20  # of a file; about 30 million letters that are not next to each other
_MOST_LETTERS = 100_000_000  # of a partition: `verify` holds their offsets in memory


class To(StrEnum):
    """Where the letters go."""

    SOURCE = "source"  # back to the topic in their headers
    TOPIC = "topic"  # all to one topic
    HTTP = "http"  # to a REST service, one request per letter


class Dedup(StrEnum):
    """Which letters are the same record; the first one goes, the others stay."""

    ORIGIN = "origin"  # same source topic, partition and offset
    CONTENT = "content"  # same target, key and value
    NONE = "none"


class Order(StrEnum):
    """The order of the letters of one key."""

    ORIGIN = "origin"  # of the source records, also where the letters are in another order or in several partitions
    LOG = "log"  # of the dead letters within their partition


class Left(StrEnum):
    """Why a letter stays."""

    NOT_SELECTED = "not_selected"
    ALREADY = "already_redriven"  # by an earlier plan, or discarded
    DUPLICATE = "duplicate"
    POISON = "poison"  # came back too often
    NO_SOURCE = "no_source"  # the headers do not name a topic
    NO_TARGET = "no_target"  # the topic does not exist, may not be described, or is not a possible target
    LEFT_OUT = "value_left_out"  # the letter lacks the record's value, or its headers
    TOO_LARGE = "too_large"  # for the target topic
    NO_KEY = "no_key"  # the target is compacted, and refuses records without a key
    WRONG_TIME = "timestamp_refused"  # outside of the target's limits
    UNREADABLE = "unreadable"  # its headers cannot be read
    OVER_LIMIT = "over_limit"  # selected, after the first `most`


class Destination(StrictDocument):
    """Where the letters go.

    Attributes:
        fallback: source topic of letters whose headers do not name it.
        partition: "origin" keeps the partition number of the source record; "key" chooses it by the key as Java's producers do.
        timestamps: "new" is the time of the redrive; "original" that of the source record, which retention may delete at once.
    """

    kind: To = Field(strict=False)
    topic: str | None = None
    url: str | None = None
    fallback: str | None = None
    partition: Literal["origin", "key"] = "origin"
    timestamps: Literal["new", "original"] = "new"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.topic is not None) != (self.kind is To.TOPIC) or (self.url is not None) != (self.kind is To.HTTP):
            raise ValueError("a topic belongs to the kind topic, and a URL to the kind http")
        if self.url is not None and not is_web_address(self.url):
            raise ValueError("url is not an http or https URL")
        if self.url is not None:
            remember(*secrets_in_url(self.url))
            if any(secrets_in_url(self.url)):
                raise ValueError("url has a password: a plan is a file that people share")
        return self


class LetterPartition(StrictDocument):
    """Letters of one partition of the dead-letter topic.

    Attributes:
        log_start: when the plan was made.
        stop: end of the plan: the last stable offset at that time.
        picks: offsets that are produced in the order of the log.
        letters: picks, and those in the plan's `ordered`.
        bytes: of the letters with their headers.
        checksum: sum of the CRC-32 of target, key and value of the letters.
        first_timestamp: of the oldest letter, ms since the epoch; None without one.
    """

    partition: Offset
    log_start: Offset
    stop: Offset
    picks: str
    letters: int = Field(ge=0, le=_MOST_LETTERS)
    bytes: Offset
    checksum: Offset
    first_timestamp: int | None = None

    @field_validator("picks")
    @classmethod
    def _ranges(cls, value: str) -> str:
        Picks.parse(value)
        return value

    @cached_property
    def parsed(self) -> Picks:
        """The picks."""
        return Picks.parse(self.picks)

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if self.parsed.ends and (self.parsed.starts[0] < self.log_start or self.parsed.ends[-1] > self.stop):
            raise ValueError(f"partition {self.partition}: a pick is outside of {self.log_start}…{self.stop}")
        return self


class TargetTopic(StrictDocument):
    """A topic that receives records.

    Attributes:
        ends: log end of each partition when the plan was made; `verify` reads from there.
        origins: (partition, first offset, last offset) of the source records, if they were in this topic.
    """

    topic: str = Field(min_length=1, max_length=249)
    topic_id: str | None
    ends: list[Offset]
    letters: Offset
    bytes: Offset
    origins: list[tuple[Offset, Offset, Offset]] = Field(default_factory=list, strict=False)


class RedrivePlan(StrictDocument):
    """A planned redrive of one dead-letter topic.

    Attributes:
        headers: mapping of the settings that was used for unknown headers.
        ordered: letters of keys whose order is not that of one partition: (partition, offset) in the order to produce.
        again: letters that other plans have handled may be produced once more.
        max_rounds: a letter that was redriven so often stays.
        max_records_per_second, max_bytes_per_second: cap; None: none.
        left: number of letters that stay, by reason.
        errors: number of letters by class of error, the most frequent ones.
        gave_up: number of letters by the consumer group that gave them up, if the headers say it.
    """

    schema_: Literal["workbench.redrive-plan/1"] = Field(alias="schema", default="workbench.redrive-plan/1")
    hash: str = ""
    created_at: str
    created_by: str
    host: str
    reason: str | None
    cluster: str
    cluster_id: str = Field(min_length=1)
    topic: str = Field(min_length=1, max_length=249)
    topic_id: str | None
    headers: dict[str, str] = Field(default_factory=dict)
    selection: Selection
    destination: Destination
    dedup: Dedup = Field(strict=False)
    order: Order = Field(strict=False)
    again: bool = False
    max_rounds: int = Field(ge=1)
    max_records_per_second: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    max_bytes_per_second: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    partitions: list[LetterPartition]
    ordered: list[tuple[Offset, Offset]] = Field(default_factory=list, strict=False)
    targets: list[TargetTopic]
    left: dict[str, Offset]
    errors: dict[str, Offset]
    gave_up: dict[str, Offset] = Field(default_factory=dict)
    warnings: list[str]

    model_config = ConfigDict(
        hide_input_in_errors=True, extra="forbid", frozen=True, strict=True, populate_by_name=True
    )

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if datetime.fromisoformat(self.created_at).tzinfo is None:
            raise ValueError("created_at has no time zone")
        known = {part.partition: part for part in self.partitions}
        if len(known) != len(self.partitions) or len({it.topic for it in self.targets}) != len(self.targets):
            raise ValueError("a partition or a target is listed twice")
        if len(set(self.ordered)) != len(self.ordered):
            raise ValueError("ordered lists a letter twice")
        ordered = Counter(number for number, _ in self.ordered)
        for number, offset in self.ordered:
            part = known.get(number)
            if part is None or not part.log_start <= offset < part.stop or offset in part.parsed:
                raise ValueError(f"ordered: {number}:{offset} is not in the plan, or is picked as well")
        for part in self.partitions:
            if part.letters != len(part.parsed) + ordered.get(part.partition, 0):
                raise ValueError(
                    f"partition {part.partition}: {plural(part.letters, 'letter is', 'letters are')} not as many as its offsets"
                )
        if self.topic in {it.topic for it in self.targets}:
            raise ValueError("the dead-letter topic is its own target")
        return self

    @property
    def short_hash(self) -> str:
        """First characters of the hash, which a person types to confirm."""
        return self.hash[:SHORT_HASH]

    @property
    def id(self) -> str:
        """Name of the plan in Kafka: in headers, as transactional id, and as the group of its progress."""
        return group_of_hash(self.hash)

    @property
    def order_group(self) -> str:
        """Group whose offset counts the letters of `ordered` that were produced."""
        return self.id + "-ordered"

    @property
    def letters(self) -> int:
        """Letters of all partitions."""
        return sum(part.letters for part in self.partitions)

    @property
    def bytes(self) -> int:
        """Bytes of all letters."""
        return sum(part.bytes for part in self.partitions)

    @cached_property
    def by_partition(self) -> dict[int, LetterPartition]:
        """Partitions by number."""
        return {part.partition: part for part in self.partitions}

    def planned(self) -> dict[int, set[int]]:
        """All planned offsets, by partition."""
        found = {part.partition: set(part.parsed) for part in self.partitions}
        for number, offset in self.ordered:
            found[number].add(offset)
        return found

    def sealed(self) -> RedrivePlan:
        """Copy of the plan with its hash."""
        return self.model_copy(update={"hash": canonical_hash(self.document())})


def group_of_hash(full: str) -> str:
    """Name of a plan in Kafka."""
    return REDRIVE_PREFIX + full[:_ID_LENGTH]


def plan_of_group(group: str) -> str | None:
    """First characters of a plan's hash, if this is the group of a plan's progress."""
    if not is_redrive_plan(group):
        return None
    return group.removeprefix(REDRIVE_PREFIX).removesuffix("-ordered")


def read_redrive_plan(path: Path) -> RedrivePlan:
    """Read a plan and check it.

    Raises:
        UsageError: if the file cannot be read or is not a redrive plan.
        GuardError: if a field or the hash of the plan was changed.
    """
    document = read_document(path, "plan", most_bytes=MOST_PLAN_BYTES)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise UsageError(f"{path} is not a redrive plan.", hint="`workbench dlq plan` makes one.")
    return sealed_by(RedrivePlan, document, path)
