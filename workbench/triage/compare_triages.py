"""Comparison of two triage runs of the same subscriptions: changes, and whether the checks of the earlier actions pass now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workbench.humanize import counted, duration, printable
from workbench.triage.finding import Action, Finding
from workbench.triage.outcome_checks import all_hold
from workbench.triage.triage_engine import Triage
from workbench.triage.verdict_names import Answer, State

SCHEMA = "workbench.triage-compare/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """An action of the first run, and whether its checks pass in the second."""

    action: Action
    holds: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingChange:
    """One subscription in both runs; None where a run does not have it."""

    cluster: str
    group: str
    topic: str
    before: Finding | None
    after: Finding | None
    checks: tuple[Verified, ...] = ()

    @property
    def settled(self) -> bool:
        """Whether it has recovered, or a check of an advised action passes."""
        if self.after is None or self.before is None:
            return False
        return self.after.state is State.HEALTHY or any(it.holds is Answer.YES for it in self.checks)

    @property
    def words(self) -> str:
        """Describe the change in one line."""
        name = f"{printable(self.group)} ← {printable(self.topic)}"
        if self.before is None:
            return f"{name}: new; {_state(self.after)}"
        if self.after is None:
            return f"{name}: was {_state(self.before)}; no longer there"
        return f"{name}: {_state(self.before)} → {_state(self.after)}"

    def to_json(self) -> dict[str, Any]:
        """The change as plain values for JSON."""
        return {
            "cluster": self.cluster,
            "group": self.group,
            "topic": self.topic,
            "before": _brief(self.before),
            "after": _brief(self.after),
            "settled": self.settled,
            "checks": [
                {"title": it.action.title, "verify": it.action.verify, "holds": str(it.holds)} for it in self.checks
            ],
        }


def compare(before: Triage, after: Triage) -> list[FindingChange]:
    """Compare every subscription of either run, in the order of the first one."""
    old, new = ({(it.cluster, it.group, it.topic): it for it in run.findings} for run in (before, after))
    return [_change(key, old.get(key), new.get(key)) for key in dict.fromkeys([*old, *new])]


def _change(key: tuple[str, str, str], before: Finding | None, after: Finding | None) -> FindingChange:
    cluster, group, topic = key
    checks: tuple[Verified, ...] = ()
    if before is not None and after is not None and before.state is not State.HEALTHY:
        checks = tuple(
            Verified(action=action, holds=all_hold(action.checks, after.features))
            for action in before.actions
            if action.checks
        )
    return FindingChange(cluster=cluster, group=group, topic=topic, before=before, after=after, checks=checks)


def _state(finding: Finding | None) -> str:
    if finding is None:
        return "unknown"
    late = f", {duration(finding.time_lag.seconds)} behind" if finding.time_lag.seconds is not None else ""
    return f"{finding.verdict} ({counted(finding.lag_messages, 'message')}{late})"


def _brief(finding: Finding | None) -> dict[str, Any] | None:
    if finding is None:
        return None
    return {
        "verdict": str(finding.verdict),
        "state": str(finding.state),
        "headline": finding.headline,
        "time_lag_seconds": finding.time_lag.seconds,
        "lag_messages": finding.lag_messages,
        "eta_drain_seconds": finding.eta_drain_seconds,
    }
