"""Scores: AC@1, AC@3, wrong and "cannot tell" apart, scope, grounding, with Wilson intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluation.stories import END
from evaluation.stories.score import Mark, mark_of
from evaluation.tiers.cases import Case
from workbench.triage.finding import Finding
from workbench.triage.question_order import TREE
from workbench.triage.verdict_names import State

_Z = 1.959964  # 95 %


def wilson(hits: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a share (E. B. Wilson, 1927); (0, 1) of nothing."""
    if not of:
        return 0.0, 1.0
    share, z2 = hits / of, _Z * _Z
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = _Z * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of)) / (1 + z2 / of)
    return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one method said of one case.

    Attributes:
        ranking: verdicts, the first one first; for "cannot tell" its candidates follow.
        mark: how the first one did.
        grounded, compared: numbers behind the answers that agree with what was injected, and how many could be compared.
        both: of two faults, whether both are named, for "cannot tell" as its first two candidates; outright: not counting candidates.
        first: whether the larger comes first, as the verdict or the first candidate. None with one fault.
        disagreements: the numbers that do not agree, in words.
    """

    case: Case
    method: str
    ranking: tuple[str, ...]
    mark: Mark
    grounded: int = 0
    compared: int = 0
    both: bool | None = None
    outright: bool | None = None
    first: bool | None = None
    disagreements: tuple[str, ...] = ()
    words: str = field(default="", compare=False)

    @property
    def top(self) -> bool:
        """AC@1."""
        return self.mark is Mark.RIGHT

    @property
    def top3(self) -> bool:
        """AC@3: an accepted verdict is among the first three."""
        named = [it for it in self.ranking if it != "cannot_tell"][:3]
        return self.top or bool(self.case.truth.verdicts & set(named))

    def to_json(self) -> dict[str, Any]:
        """One line of the results."""
        return {
            "case": self.case.name,
            "tier": self.case.tier,
            "fault": self.case.fault,
            "method": self.method,
            "ranking": list(self.ranking),
            "mark": str(self.mark),
            "grounded": self.grounded,
            "compared": self.compared,
            **({"both": self.both, "outright": self.outright, "first": self.first} if self.both is not None else {}),
            **({"disagreements": list(self.disagreements)} if self.disagreements else {}),
            "words": self.words,
        }


def of_finding(case: Case, finding: Finding | None, method: str = "workbench") -> Outcome:
    """What triage said of a case."""
    if finding is None:
        return Outcome(case=case, method=method, ranking=(), mark=Mark.UNKNOWN)
    verdict = str(finding.verdict)
    mark = mark_of(case.truth, verdict, finding.state, finding)
    if case.also and verdict in case.also:
        mark = Mark.RIGHT  # one of two; which is the larger is counted apart
    agree, differ = grounding(case, finding) if mark is Mark.RIGHT and case.truth.sick else ([], [])
    both = outright = first = None
    if case.also:
        said, guessed = named(finding), {str(it) for it in finding.candidates[:2]}
        outright = bool(case.truth.verdicts & said) and bool(case.also & said)
        both = bool(case.truth.verdicts & (said | guessed)) and bool(case.also & (said | guessed))
        first = (str(finding.candidates[0]) if finding.candidates else verdict) in case.truth.verdicts
    return Outcome(
        case=case,
        method=method,
        ranking=(verdict, *map(str, finding.candidates)),
        mark=mark,
        grounded=len(agree),
        compared=len(agree) + len(differ),
        both=both,
        outright=outright,
        first=first,
        disagreements=tuple(differ),
        words=finding.headline,
    )


# The question that a second fault answers with yes, off the path.
_QUESTIONS = {
    "throttled": "throttled",
    "slow_network": "slow_network",
    "slow_downstream": "all_slow",
    "slow_processor": "one_slow",
    "stuck_partition": "stuck",
}


def named(finding: Finding) -> set[str]:
    """The verdict, and what else the finding says takes a part: beside it, or of what is not read."""
    shown = " ".join(finding.contributing)
    said = {
        verdict for verdict, node in _QUESTIONS.items() if f"{TREE[node].short.rstrip('?').capitalize()}: " in shown
    }
    parts = {part.cause for part in finding.shortfall.parts} if finding.shortfall is not None else set()
    found = {str(finding.verdict)} | said | parts
    # A single handler is one and all.
    return found | {"slow_processor", "slow_downstream"} if found & {"slow_processor", "slow_downstream"} else found


def grounding(case: Case, finding: Finding) -> tuple[list[str], list[str]]:
    """Numbers behind the verdict that agree with what was injected, and those that do not: names, and words for the latter."""
    row, true = finding.features, case.injected
    agree: list[str] = []
    differ: list[str] = []

    def compare(name: str, found: float | None, wanted: float | None, *, share: float, slack: float) -> None:
        if found is None or wanted is None:
            return
        if abs(found - wanted) <= share * abs(wanted) + slack:
            agree.append(name)
        else:
            differ.append(f"{name} {found:.4g}, injected {wanted:.4g}")

    # Between two scrapes the lag changes by what arrives in them, and an exporter's numbers are up to a scrape old.
    moved = 2 * case.scrape_seconds * max(true.arrival_per_second, 0.1)
    # Where arrivals change within the window, or the log begins anew, a mean over it says nothing of the end.
    steady = case.fault not in ("burst", "batch_then_frozen", "saturated", "recreated", "on_and_off")
    if steady:
        compare("lag_messages", finding.lag_messages, true.lag_messages, share=0.1, slack=moved + 5)
        compare("arrival_per_second", finding.arrival_per_second, true.arrival_per_second, share=0.25, slack=1.0)
    verdict = str(finding.verdict)
    if verdict == "throttled":
        compare("throttle_seconds", row.throttle_seconds, true.throttle_seconds, share=0.3, slack=0.01)
    elif verdict == "slow_network":
        compare("rtt_seconds", row.rtt_seconds, true.rtt_seconds, share=0.3, slack=0.01)
    elif verdict in ("slow_processor", "slow_downstream"):
        wanted = true.process_seconds
        for it in row.processors:
            if it.processor in wanted:
                compare(
                    f"process_seconds {it.processor}", it.process_seconds, wanted[it.processor], share=0.3, slack=0.001
                )
    elif verdict == "stuck_partition" and true.stopped and len(true.stopped) < (row.partition_count or 0):
        compare(
            "stuck partitions", float(set(finding.scope.partitions) == set(true.stopped)), 1.0, share=0.0, slack=0.0
        )
    if finding.since is not None and true.onset_seconds is not None and case.truth.onset is not None:
        ago = (END - finding.since).total_seconds()
        compare("onset_seconds", ago, case.truth.onset, share=0.05, slack=5 * case.scrape_seconds)
    return agree, differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a table."""

    name: str
    cases: int
    top: int
    top3: int
    wrong: int
    withheld: int
    calm: int
    grounded: int
    compared: int

    def to_json(self) -> dict[str, Any]:
        """With shares and intervals."""
        low, high = wilson(self.top, self.cases)
        return {
            "name": self.name,
            "cases": self.cases,
            "AC@1": share(self.top, self.cases),
            "AC@1 95 %": [round(low, 4), round(high, 4)],
            "AC@3": share(self.top3, self.cases),
            "wrong": share(self.wrong, self.cases),
            "cannot tell": share(self.withheld, self.cases),
            "called calm": self.calm,
            "grounding": share(self.grounded, self.compared),
        }

    def __str__(self) -> str:
        low, high = wilson(self.top, self.cases)
        return (
            f"{self.name:<34}{self.cases:>6}{_percent(self.top, self.cases):>8} [{low:>5.1%}, {high:>6.1%}]"
            f"{_percent(self.top3, self.cases):>8}{_percent(self.wrong, self.cases):>8}"
            f"{_percent(self.withheld, self.cases):>8}{self.calm:>6}{_percent(self.grounded, self.compared):>9}"
        )


HEAD = f"{'':<34}{'cases':>6}{'AC@1':>8} {'95 %':^16}{'AC@3':>8}{'wrong':>8}{'open':>8}{'calm':>6}{'grounded':>9}"


def row(name: str, outcomes: Sequence[Outcome]) -> Row:
    """Sick cases only."""
    return Row(
        name=name,
        cases=len(outcomes),
        top=sum(it.top for it in outcomes),
        top3=sum(it.top3 for it in outcomes),
        wrong=sum(it.mark is Mark.WRONG for it in outcomes),
        withheld=sum(it.mark is Mark.UNKNOWN for it in outcomes),
        calm=sum(it.mark is Mark.CALM for it in outcomes),
        grounded=sum(it.grounded for it in outcomes),
        compared=sum(it.compared for it in outcomes),
    )


def rows(outcomes: Sequence[Outcome], by: Callable[[Outcome], str]) -> list[Row]:
    """A row for each name."""
    names = sorted({by(it) for it in outcomes})
    return [row(name, [it for it in outcomes if by(it) == name]) for name in names]


def alarms(outcomes: Sequence[Outcome]) -> int:
    """Of well cases."""
    return sum(it.mark is Mark.ALARM for it in outcomes if not it.case.truth.sick)


def curve(outcomes: Sequence[Outcome]) -> list[tuple[float, float]]:
    """Risk and coverage: (share of cases that got a verdict, share of wrong ones among these), as verdicts are withheld one by one.

    The order is that of what a finding is sure of: with a cause, then "cannot tell" read as its first candidate.
    """
    answered = [it for it in outcomes if it.mark is not Mark.UNKNOWN]
    guessed = [it for it in outcomes if it.mark is Mark.UNKNOWN and len(it.ranking) > 1]
    points = []
    total = max(1, len(outcomes))
    wrong = sum(it.mark in (Mark.WRONG, Mark.CALM) for it in answered)
    if answered:
        points.append((len(answered) / total, wrong / len(answered)))
    if guessed:
        more = sum(it.ranking[1] not in it.case.truth.verdicts for it in guessed)
        known = len(answered) + len(guessed)
        points.append((known / total, (wrong + more) / known))
    return points


def share(part: int, whole: int) -> float | None:
    """None of nothing."""
    return round(part / whole, 4) if whole else None


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def state_right(case: Case, finding: Finding | None) -> bool:
    """Whether sick and well are told apart, whatever the cause: the status."""
    if finding is None:
        return False
    calm = finding.state in (State.HEALTHY, State.DRAINING)
    if case.truth.sick:
        return not calm or case.truth.calm_is_fine
    return calm or str(finding.verdict) in case.truth.verdicts
