"""No member consumes: the group has no members, or they do not poll."""

from __future__ import annotations

from workbench.humanize import duration, listed
from workbench.triage.checks import Check
from workbench.triage.finding import Action, Scope
from workbench.triage.leaf import Leaf
from workbench.triage.subject import Subject
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


def _hung_or_gone(row: SubscriptionFeatures) -> tuple[str, ...]:
    return row.hung_members or tuple(m.member for m in row.members if not m.live)


def _actions(it: Subject, row: SubscriptionFeatures) -> list[Action]:
    hung, who = row.hung_members, _hung_or_gone(row)
    names = f" ({listed(who)})" if who else ""
    if hung:
        polls = Check(
            feature="members", field="poll_age_seconds", items=hung, relation="<", value=it.thresholds.poll_age_seconds
        )
        return [
            Action(
                title=f"Take a thread dump of the hanging members{names} (py-spy dump, jstack)",
                command=it.members,
                verify="you know what they wait for",
            ),
            _restart(f"Restart the hanging members{names}", "every member polls again", who, polls),
        ]
    moves = (
        Check(feature="group_members", relation=">", value=0),
        Check(feature="committed_moved", relation=">", value=0),
    )
    return [
        Action(
            title=f"Check whether the consumers run, and why they stopped{names}",
            command=it.members,
            verify="members > 0",
        ),
        _restart(
            "Start them again; they resume at their committed offsets",
            "members > 0, and the committed offsets advance within 1 min",
            who,
            *moves,
        ),
    ]


def _restart(title: str, verify: str, who: tuple[str, ...], *checks: Check) -> Action:
    return Action(
        title=title,
        command=None,
        verify=verify,
        kind="restart_consumers",
        parameters={"members": list(who)},
        checks=checks,
    )


LEAF = Leaf(
    verdict=Verdict.CONSUMER_STOPPED,
    headline=_headline,
    scope=lambda row: Scope(members=_hung_or_gone(row)),
    actions=_actions,
)
