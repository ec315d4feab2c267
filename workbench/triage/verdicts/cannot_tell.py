"""The group lags, or may lag, and a signal that decides why is missing. Every question without an answer leads here."""

from __future__ import annotations

from workbench.triage import wording
from workbench.triage.finding import Action
from workbench.triage.leaf import Leaf
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import State, Verdict


def _actions(it: Subject, _row: SubscriptionFeatures) -> list[Action]:
    return [
        Action(
            title="Look at the group's members while you add the missing signals",
            command=it.members,
            verify="the open question has an answer",
        )
    ]


LEAF = Leaf(
    verdict=Verdict.CANNOT_TELL,
    state=State.CANNOT_TELL,
    headline=lambda row: f"Cannot tell why: {wording.lagging(row)}.",
    actions=_actions,
)
