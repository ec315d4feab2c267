"""The group shares out its partitions again and again, and reads little in between."""

from __future__ import annotations

from workbench.humanize import count, listed
from workbench.triage.checks import Check
from workbench.triage.finding import Action, Scope
from workbench.triage.leaf import Leaf
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Verdict

_CAUSES = {
    "poll_stall": "{who} polls too rarely and is put out of the group",
    "member_crash": "{who} dies and comes back",
    "deploy": "a rollout goes through {who}",
    "metadata_change": "partitions are being added",
}
# What to do about each cause, and the kind of that action.
_CURES = {
    "poll_stall": (
        "{who} polls too rarely: replace it, and find what blocks its thread; until then fewer records for each poll "
        "(max.poll.records) or more time (max.poll.interval.ms)",
        "replace_members",
    ),
    "member_crash": ("{who} dies and comes back: read its log, and put another one in its place", "replace_members"),
    "deploy": (
        "A rollout goes through the group ({who}): let it end, or stop it; later use static membership",
        "stop_deploy",
    ),
    "metadata_change": ("Partitions are being added one by one: add them in one go", "stop_changes"),
}


def _who(row: SubscriptionFeatures) -> tuple[str, ...]:
    return row.paused_members if row.storm_cause == "poll_stall" else row.changed_members


def _headline(row: SubscriptionFeatures) -> str:
    why = _CAUSES.get(row.storm_cause or "", "what causes them is not to be seen")
    why = why.format(who=listed(sorted(_who(row))))
    return f"Rebalance storm: {count(row.rebalances)} rebalances in the window; {why}."


def _scope(row: SubscriptionFeatures) -> Scope:
    cause = row.storm_cause
    return Scope(cause=cause, members=_who(row) if cause not in (None, "metadata_change") else ())


def _actions(it: Subject, row: SubscriptionFeatures) -> list[Action]:
    see = Action(title="See which members come and go", command=it.members, verify="you know who, and why")
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
    also_true=lambda _row: (),  # who came and went is the storm itself
)
