"""The group catches up with a backlog: a burst of messages arrived, or it stood still."""

from __future__ import annotations

from workbench.humanize import rate
from workbench.numbers import MORE
from workbench.triage import wording
from workbench.triage.actions import SHRINKS
from workbench.triage.finding import Action
from workbench.triage.leaf import Leaf
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import State, Verdict


def _headline(row: SubscriptionFeatures) -> str:
    falling = row.lag_recent_slope if row.lag_recent_slope is not None else row.lag_slope
    pace = rate(abs(falling)) if falling is not None and falling < 0 else "an unknown pace"
    # A standstill leaves a backlog, too.
    burst = row.arrival_ratio is not None and row.arrival_ratio >= MORE
    return f"Draining{' after a burst' if burst else ''}: {wording.age(row)} behind and shrinking by {pace}; {wording.draining(row)}."


def _actions(it: Subject, _row: SubscriptionFeatures) -> list[Action]:
    return [
        Action(
            title="Watch until it is drained",
            command=f"{it.triage} --watch",
            verify="the time lag shrinks",
            checks=(SHRINKS,),
        )
    ]


LEAF = Leaf(verdict=Verdict.PRODUCER_BURST, state=State.DRAINING, headline=_headline, actions=_actions)
