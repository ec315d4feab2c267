"""Causes on brokers, for the health report: one line for each, with all the groups that it hits, instead of a riddle for each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.humanize import listed, plural

if TYPE_CHECKING:
    from workbench.triage.broker_findings import BrokerFinding
    from workbench.triage.finding import Action
    from workbench.triage.who_holds_up_whom import Impact

_MOST = 5  # names of groups; the number is said


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLine:
    """One cause.

    Attributes:
        verdict: of a broker by itself; `slows_others` of a group, client or producer.
        headline: what it is, in a sentence.
        groups: that it hits, the worst first.
        action: the first that is advised, and command: of it; None if it has none.
    """

    verdict: str
    headline: str
    brokers: tuple[int, ...]
    groups: tuple[str, ...]
    runbook: str | None
    action: str | None = None
    command: str | None = None

    @property
    def words(self) -> str:
        """Whom it hits, and what to do first."""
        more = len(self.groups) - _MOST
        hit = listed([*self.groups[:_MOST], *([f"{more} more"] if more > 0 else [])])
        found = [f"hits {plural(len(self.groups), 'group')}: {hit}"] if self.groups else []
        return "; ".join([*found, *([f"first: {self.action}"] if self.action else [])])


def lines_of_brokers(
    impact: Impact, actions: Sequence[Sequence[Action]], findings: Sequence[BrokerFinding]
) -> list[BrokerLine]:
    """Of what `impact` found: who slows others first, then brokers in trouble by themselves; those that hit most groups first."""
    found = [
        BrokerLine(
            verdict="slows_others",
            headline=cause.headline,
            brokers=tuple(cause.offender.brokers),
            groups=tuple(it.group for it in cause.victims),
            runbook=None,
            **_first(advised),
        )
        for cause, advised in zip(impact.causes, actions, strict=True)
    ]
    found += [
        BrokerLine(
            verdict=str(it.verdict),
            headline=it.headline,
            brokers=tuple(it.brokers),
            groups=tuple(it.groups),
            runbook=it.verdict.runbook,
            **_first(it.actions),
        )
        for it in findings
    ]
    return sorted(found, key=lambda it: (it.verdict != "slows_others", -len(it.groups)))


def _first(actions: Sequence[Action]) -> dict[str, str | None]:
    return {"action": actions[0].title, "command": actions[0].command} if actions else {}
