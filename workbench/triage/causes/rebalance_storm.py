"""The group rebalances repeatedly, and reads little in between."""

from __future__ import annotations

from workbench.humanize import listed
from workbench.triage.checks import Check
from workbench.triage.finding import Action, Scope
from workbench.triage.leaf import Leaf
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Verdict
from workbench.triage.wording import rebalances_counted

_CAUSES = {
    "poll_stall": "{who} polls too rarely and is removed from the group",
    "member_crash": "{who} crashes and restarts",
    "deploy": "a rollout restarts {who}",
    "metadata_change": "partitions are being added",
}
# Action for each cause, and its kind.
_CURES = {
    "poll_stall": (
        "{who} polls too rarely: replace it, and find what blocks its thread; until then, lower max.poll.records "
        "or raise max.poll.interval.ms",
        "replace_members",
    ),
    "member_crash": ("{who} crashes and restarts: read its log, and replace it", "replace_members"),
    "deploy": (
        "A rollout restarts the group ({who}): let it finish, or stop it; later use static membership",
        "stop_deploy",
    ),
    "metadata_change": ("Partitions are being added one by one: add them in one step", "stop_changes"),
}


def _who(row: SubscriptionFeatures) -> tuple[str, ...]:
    return row.paused_members if row.storm_cause == "poll_stall" else row.changed_members


def _headline(row: SubscriptionFeatures) -> str:
    why = _CAUSES.get(row.storm_cause or "", "the cause is not visible in the metrics")
    why = why.format(who=listed(sorted(_who(row))))
    return f"Rebalance storm: {rebalances_counted(row, ' rebalances')}; {why}."


def _scope(row: SubscriptionFeatures) -> Scope:
    cause = row.storm_cause
    return Scope(cause=cause, members=_who(row) if cause not in (None, "metadata_change") else ())


def _actions(it: Subject, row: SubscriptionFeatures) -> list[Action]:
    see = Action(
        title="Check which members join and leave", command=it.members, verify="you know which members, and why"
    )
    if row.storm_cause not in _CURES:
        return [see]
    title, kind = _CURES[row.storm_cause]
    who = sorted(_who(row))
    act = Action(
        title=title.format(who=listed(who) or "one member"),
        command=None,
        verify="no rebalance for 5 min",
        kind=kind,
        parameters={"members": who},
        checks=(Check(feature="rebalances", relation="<", value=it.thresholds.rebalances),),
    )
    return [see, act]


LEAF = Leaf(
    verdict=Verdict.REBALANCE_STORM,
    headline=_headline,
    scope=_scope,
    actions=_actions,
    also_true=lambda _row: (),  # the headline names these members already
)
