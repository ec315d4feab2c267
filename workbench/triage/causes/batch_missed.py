"""A run of a batch that was due has committed nothing."""

from __future__ import annotations

from workbench.humanize import counted
from workbench.triage.action_subject import Subject
from workbench.triage.finding import Action
from workbench.triage.outcome_checks import Check
from workbench.triage.question_types import Leaf
from workbench.triage.shared_actions import SHRINKS
from workbench.triage.status import lagging
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Verdict


def _headline(row: Row) -> str:
    there = " Its members are there, but they commit nothing." if row.group_members else ""
    wait = counted(row.lag_messages, "message waits", "messages wait")
    return f"Batch missed: {lagging.batch_due(row)} has committed nothing; {wait}.{there}"


def _actions(it: Subject, _row: Row) -> list[Action]:
    return [
        Action(
            title="See in the scheduler (cron, Airflow, a CronJob of Kubernetes) whether the run was started, and how it ended",
            command=it.members,
            verify="you know why it did not run",
        ),
        Action(
            title="Start the run by hand; it continues at the committed offsets",
            verify="the committed offsets advance, and the lag shrinks",
            kind="restart_consumers",
            parameters={"members": []},
            checks=(Check("committed_recent_per_second", ">", 0.0), SHRINKS),
        ),
    ]


LEAF = Leaf(
    verdict=Verdict.BATCH_MISSED,
    headline=_headline,
    actions=_actions,
    # It begins when the run was due, whatever the lines show before.
    began_ago=lambda row: row.batch_due_ago_seconds,
)
