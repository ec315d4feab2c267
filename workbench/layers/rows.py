"""Rows of an audit (`workbench.audit/1`): what one layer has taken in or given out of one partition, by positions and not by time.

A row covers the positions [start, stop) of a source partition. It is written *before* the commit that ends at `stop`, so a crash loses
no row; what is then read again is covered once more by a later incarnation, and a position's newest row counts (`audit.audit_ledger`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Annotated, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from workbench.errors import UsageError
from workbench.limited_reads import first_problem
from workbench.plans.strict_document import StrictDocument

SCHEMA = "workbench.audit/1"
Point = Literal["in", "out", "rejected", "dead"]
POINTS: tuple[Point, ...] = ("in", "out", "rejected", "dead")
# Upper bounds of the latency's buckets, in milliseconds; the last bucket has none.
LATENCY_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000)
# Of positions whose records were gone before anybody read them: whatever any task tells of a position counts more.
GONE = 0
LATEST_MS = 253_402_300_799_000  # the end of year 9999: later times cannot be shown
# Of the rows that a meter tells at once: about 100 kB of JSON, a tenth of what a broker takes in a message by default.
SPLIT_WINDOWS = 1_000
_MOST_WINDOWS = 10_000
_Count = Annotated[int, Field(ge=0)]
_Name = Annotated[str, Field(min_length=1, max_length=249)]
_SIGNED = 1 << 63


class WindowCount(StrictDocument):
    """Records of one window of event time.

    Attributes:
        start_ms: of the window, ms since the epoch.
        sum: of the records' 64-bit hashes, modulo 2^64, as a signed number: whatever the order, equal for equal records. None: records
            without an id are among them.
    """

    start_ms: Annotated[int, Field(ge=0, le=LATEST_MS)]
    count: _Count
    bytes: _Count = 0
    sum: Annotated[int, Field(ge=-_SIGNED, lt=_SIGNED)] | None = None


class AuditRow(StrictDocument):
    """One row. Without windows it is a heartbeat: the layer lives, has read all that there is, and nothing has come.

    Attributes:
        topic, partition, start, stop: positions [start, stop) of the source that it covers.
        incarnation: of the task that has written it: a later one of a partition has a larger number, the same task or another. 0: the
            records of these positions were gone before they were read.
        sequence: of its rows; a row that was delivered twice has the same.
        adds: name of a repair, such as the group of a replay; empty: it is none. It gives records out once more on purpose: they come
            on top of what others have given out of these positions, and replace nothing.
        of_process: the positions are numbers of a process's own, which nobody goes on with after its end.
        emitted_ms: when it was written, ms since the epoch; 0: it only says that somebody begins to read there.
        created_ms, updated_ms: counts by latency (`LATENCY_MS`), since the record's creation and since the layer before.
        errors: records by class of error, where the point is `rejected` or `dead`.
    """

    schema_: Literal["workbench.audit/1"] = Field(alias="schema", default="workbench.audit/1")
    stream: _Name
    layer: _Name
    point: Point
    topic: _Name
    partition: _Count
    start: _Count
    stop: _Count
    incarnation: _Count
    sequence: _Count
    adds: Annotated[str, Field(max_length=249)] = ""
    of_process: bool = False
    emitted_ms: _Count
    windows: Annotated[list[WindowCount], Field(max_length=_MOST_WINDOWS)] = Field(default_factory=list)
    created_ms: Annotated[list[_Count], Field(max_length=len(LATENCY_MS) + 1)] = Field(default_factory=list)
    updated_ms: Annotated[list[_Count], Field(max_length=len(LATENCY_MS) + 1)] = Field(default_factory=list)
    errors: dict[str, _Count] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if self.stop < self.start:
            raise ValueError(f"stop {self.stop} is before start {self.start}")
        count = sum(it.count for it in self.windows)
        if self.point == "in" and count > self.stop - self.start:  # a layer may give out more than it took in
            raise ValueError(f"{count} records do not fit into {self.stop - self.start} positions")
        if len({it.start_ms for it in self.windows}) < len(self.windows):
            raise ValueError("a window occurs twice")
        return self

    def line(self) -> str:
        """As one JSON line."""
        return json.dumps(self.model_dump(mode="json", by_alias=True), separators=(",", ":"), allow_nan=False)


_ROWS = TypeAdapter(list[AuditRow])


def texts_of(rows: Iterable[AuditRow]) -> list[str]:
    """Rows as JSON, a list of those that one task tells at once of the same positions, by all of its points.

    Each text is written whole or not at all. A point that is missing looks as if it had nothing to tell: of a record that was rejected,
    the ledger would see that it came in and did not come out.
    """
    return [f"[{','.join(it.line() for it in some)}]" for _, some in groupby(rows, key=lambda it: it.sequence)]


def parse_lines(lines: Iterable[str]) -> Iterator[AuditRow]:
    """Read rows, of which each line has one or a list, as JSON; empty lines are left out.

    Raises:
        UsageError: naming the first line that is none.
    """
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield from _ROWS.validate_json(line if line.lstrip().startswith("[") else f"[{line}]")
            except ValidationError as error:
                problem = first_problem(error, whole="the row")
                raise UsageError(
                    f"Line {number} is no row of an audit: {problem}.", hint=f"Rows are {SCHEMA}."
                ) from None


def signed(number: int) -> int:
    """A number modulo 2^64, as Spark has it: signed."""
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >= _SIGNED else number
