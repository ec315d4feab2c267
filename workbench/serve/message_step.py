"""The next step of one target about one incident: what is true of it, against what it was told. Pure; `who_is_told` applies it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from workbench.triage.verdict_names import Verdict

LATE = "late"  # cause of an incident without a verdict


class Phase(StrEnum):
    """What a target knows of an incident."""

    OWED = "owed"
    TOLD = "told"
    NAMED = "named"
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What is true of an incident, for those who are not muted.

    Attributes:
        verdict: `late` while there is none. concerned: whether any member is not muted. well: whether all of those are healthy.
        joined: revision at which the last of them came. ending: why it was closed; None: it is open.
    """

    verdict: str
    concerned: bool
    well: bool
    joined: int
    ending: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a target knows: the verdict, up to which revision, and when it was last told (seconds since 1970)."""

    phase: Phase
    verdict: str
    well: bool
    revision: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What to do: a message of this kind now, or look again at `due`; `over`: nothing follows."""

    kind: str | None = None
    due: float | None = None
    over: bool = False


def decide(truth: Truth, told: Told, *, now: float, quiet: float) -> Step:
    """The next step of one target; "first" and "ends" are for `Telling` to group with those of other incidents."""
    rests = is_recent(told.at, now, quiet)
    if told.phase is Phase.OVER:
        return Step(over=True)
    if told.phase is Phase.OWED:
        return Step(kind="first") if truth.concerned else Step(over=truth.ending is not None)
    if told.phase is Phase.NAMED:
        kind = "ends" if truth.ending is not None else "first" if _has_grown(truth, told) else None
        return Step(due=told.at + quiet) if rests and kind is not None else Step(kind=kind)
    if truth.ending is not None:
        kind = truth.ending if truth.ending in ("healthy", "recovered") else "ended"
        return Step(kind=None if told.well else kind, over=True)
    if not truth.concerned:
        return Step()
    if truth.well:
        return Step() if told.well else Step(kind="recovered")
    if truth.verdict != told.verdict or told.well:
        # A verdict that gets lost for a short time, for instance while data are missing, is no news.
        if rests and truth.verdict == Verdict.CANNOT_TELL and told.verdict != LATE:
            return Step(due=told.at + quiet)
        return Step(kind="verdict")
    if _has_grown(truth, told):
        return Step(due=told.at + quiet) if rests else Step(kind="grows")
    return Step()


def _has_grown(truth: Truth, told: Told) -> bool:
    return truth.concerned and truth.joined > told.revision


def is_recent(at: float, now: float, seconds: float) -> bool:
    """Whether something was so lately; a time in the future comes from a clock that was set back, and says nothing."""
    return 0 <= now - at < seconds
