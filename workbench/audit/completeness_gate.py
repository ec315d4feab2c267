"""The gate of a downstream job: may it begin with these windows, by the grade of its stream?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from workbench.audit.layer_latency import bucket_floor
from workbench.audit.window_verdicts import Arrival, WindowState
from workbench.audit_settings import Grade
from workbench.humanize import listed, plural
from workbench.json_values import fields_of

# A share of few records says nothing: below this number, one lost record is a breach whatever the grade.
LEAST_RECORDS = 1_000


class Passage(StrEnum):
    """GO: begin. BREACH: too much is lost or doubled. WAIT: some windows are not final. UNKNOWN: it cannot be told."""

    GO = "pass"
    BREACH = "breach"
    WAIT = "wait"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The answer.

    Attributes:
        reasons: sentences, the worst first.
        windows: number of windows and edges that were judged.
        lost, doubled: at least so many records.
    """

    passage: Passage
    reasons: Sequence[str]
    windows: int
    lost: int
    doubled: int

    def document(self) -> dict[str, Any]:
        """As `workbench audit gate --json` prints it."""
        return {"schema": "workbench.audit-gate/1", **fields_of(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyLimit:
    """How long 99 of 100 records may take to the last layer.

    Attributes:
        limit_ms: at most.
        p99_ms: upper bound of the bucket that it lies in; None: longer than all of them, or not known.
        records: number of those whose time is known.
    """

    limit_ms: int
    p99_ms: int | None
    records: int

    def problem(self) -> tuple[bool | None, str] | None:
        """Whether it is surely too long (None: cannot be told), and that in words; None if it is not."""
        if not self.records:
            return None, "No row tells how long records took to the last layer."
        if self.p99_ms is not None and self.p99_ms <= self.limit_ms:
            return None
        words = (
            f"1 of 100 records took over {self.at_least_ms:,} ms to the last layer; {self.limit_ms:,} ms are allowed."
        )
        return (True if self.is_too_long else None), words

    @property
    def at_least_ms(self) -> int:
        """Lower bound of the bucket."""
        return bucket_floor(self.p99_ms)

    @property
    def is_too_long(self) -> bool:
        """Whether it surely is."""
        return self.records > 0 and self.at_least_ms >= self.limit_ms


def judge(
    rows: Sequence[Mapping[str, Any]],
    grade: Grade,
    latency: LatencyLimit | None = None,
    *,
    unheard: Sequence[str] = (),
    unfinished: Sequence[str] = (),
) -> Gate:
    """Judge the windows of one stream.

    Args:
        rows: of `edges`, for the windows in question.
        latency: None: it is not judged.
        unheard: edges of which nobody tells at all.
        unfinished: edges whose layers have not told of the end of the last window and its lateness.
    """
    lost, doubled = sum(row["lost_low"] for row in rows), sum(row["doubled_low"] for row in rows)
    if not rows:
        words = "No row of this stream tells of these windows: perhaps nothing came, perhaps nobody counted."
        return Gate(passage=Passage.UNKNOWN, reasons=(words,), windows=0, lost=0, doubled=0)
    breaches: list[str] = []
    unknown = [f"{edge}: no row tells of it." for edge in unheard]
    waiting = [f"{edge}: its layers have not told of the end yet." for edge in unfinished]
    for edge in sorted({row["edge"] for row in rows}):
        mine = [row for row in rows if row["edge"] == edge]
        over = [row for row in mine if row["state"] in (WindowState.FINAL, WindowState.AMENDED)]
        if len(over) < len(mine):
            waiting.append(f"{edge}: {plural(len(mine) - len(over), 'window is', 'windows are')} not final.")
        if (breach := _breach(over, grade)) is not None:
            breaches.append(f"{edge}: {breach}")
        if grade is not Grade.S0 and (others := [row for row in over if row["arrival"] == Arrival.LOSS_DUP]):
            unknown.append(
                f"{edge}: as many records arrived as were sent, and others, in {plural(len(others), 'window')}."
            )
        if grade is Grade.S0 and (
            bare := [row for row in over if row["arrival"] == Arrival.OK and row["same"] is None]
        ):
            unknown.append(
                f"{edge}: as many records arrived as were sent; without ids of all it cannot be told whether they are the same, "
                f"in {plural(len(bare), 'window')}."
            )
        if odd := [row for row in over if row["arrival"] == Arrival.UNKNOWN]:
            gone = sum(row["lost_high"] for row in odd)
            unknown.append(
                f"{edge}: of {plural(len(odd), 'window')} it cannot be told; up to {plural(gone, 'record')} may be missing."
            )
    if latency is not None and (found := latency.problem()) is not None:
        (breaches if found[0] else unknown).append(found[1])
    passage = Passage.BREACH if breaches else Passage.UNKNOWN if unknown else Passage.WAIT if waiting else Passage.GO
    reasons = (*breaches, *unknown, *waiting)
    return Gate(passage=passage, reasons=reasons, windows=len(rows), lost=lost, doubled=doubled)


def _breach(rows: Sequence[Mapping[str, Any]], grade: Grade) -> str | None:
    sure = [row for row in rows if row["arrival"] != Arrival.UNKNOWN]
    return breach_of(
        grade,
        sent=sum(row["from_low"] for row in sure),
        lost=sum(row["lost_low"] for row in sure),
        doubled=sum(row["doubled_low"] for row in sure),
        others=sum(row["arrival"] == Arrival.LOSS_DUP for row in sure),
    )


def breach_of(grade: Grade, *, sent: int, lost: int, doubled: int, others: int) -> str | None:
    """What a grade does not allow, of the final windows of an edge, in words; None if it allows all of it.

    Args:
        sent, lost, doubled: records.
        others: windows with as many records as were sent, and not the same ones.
    """
    wrong = lost + doubled
    if wrong and (sent < LEAST_RECORDS or (sent - wrong) / sent < grade.completeness):
        found = [f"{plural(lost, 'record')} lost"] if lost else []
        found += [f"{plural(doubled, 'record')} doubled"] if doubled else []
        return f"{listed(found)} of {sent:,}; {grade} allows {1 - grade.completeness:.2%}."
    if others and grade is Grade.S0:
        return f"as many records arrived as were sent, and others, in {plural(others, 'window')}."
    return None
