"""No member consumes: the group has no members, or they do not poll."""

from __future__ import annotations

from workbench.humanize import duration, listed
from workbench.triage.actions import consume_again, hung_or_gone
from workbench.triage.finding import Scope
from workbench.triage.leaf import Leaf
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Verdict


def _headline(row: SubscriptionFeatures) -> str:
    if row.group_members == 0:
        return "Consumer stopped: the group has no members."
    hung = row.hung_members
    if hung and len(hung) < (row.live_members or 0):
        ages = [m.poll_age_seconds for m in row.members if m.member in hung and m.poll_age_seconds is not None]
        if not ages:
            return (
                f"A member hangs: the statistics of {listed(hung)} no longer change, and its partitions are not read."
            )
        oldest = max(ages)
        return f"A member hangs: {listed(hung)} has not polled for {duration(oldest)}, so its partitions are not read."
    if hung and row.poll_age_seconds is None:
        return "Consumer stopped: the members' statistics no longer change, and no commits arrive."
    if row.poll_age_seconds is not None and row.live_members:
        return f"Consumer stopped: no member has polled for {duration(row.poll_age_seconds)}."
    return "Consumer stopped: the earlier members no longer report metrics, and no commits arrive."


LEAF = Leaf(
    verdict=Verdict.CONSUMER_STOPPED,
    headline=_headline,
    scope=lambda row: Scope(members=hung_or_gone(row)),
    actions=consume_again,
)
