"""The group lags, or may lag, and a signal that decides why is missing. Every question without an answer leads here."""

from __future__ import annotations

from workbench.humanize import listed
from workbench.triage import wording
from workbench.triage.actions import quotas_of
from workbench.triage.finding import Action
from workbench.triage.leaf import Leaf
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Answer, State, Verdict
from workbench.triage.walk import open_questions

_SPENDS = "See where a member spends its time (py-spy record --pid PID --duration 30, or a thread dump)"
# The question that is open → what tells the candidates apart for the least effort; it can be done now.
_LOOKS = {
    "lagging": "Compare the committed offsets with the log's ends",
    "consuming": "See which member owns which partition, and whether it is alive",
    "rebalancing": "See twice, a minute apart, whether the same members have the same partitions",
    "stuck": "See what the owner of the partitions that stand still does (py-spy dump, jstack)",
    "queue_backed_up": "See three times what a member does: in its handler, or waiting for records?"
    " (py-spy dump --pid PID, jstack PID)",
    "throttled": "See whether a quota applies to these clients",
    "one_slow": _SPENDS,
    "all_slow": _SPENDS,
}


def _look(it: Subject, row: SubscriptionFeatures) -> Action | None:
    first = open_questions(row.answers)[:1]
    if not first or first[0].id not in _LOOKS:
        return None
    title = _LOOKS[first[0].id]
    if first[0].id == "consuming" and row.idle_members:
        title = f"See what {listed(row.idle_members)} does: in a handler, paused, or waiting? (py-spy dump --pid PID, jstack PID)"
    return Action(
        title=title,
        command=quotas_of(it) if first[0].id == "throttled" else it.members,
        verify=f"question {first[0].number} has an answer: {first[0].question}",
    )


def _actions(it: Subject, row: SubscriptionFeatures) -> list[Action]:
    if (look := _look(it, row)) is not None:
        return [look]
    return [
        Action(
            title="Look at the group's members while you add the missing signals",
            command=it.members,
            verify="the open question has an answer",
        )
    ]


def _headline(row: SubscriptionFeatures) -> str:
    if row.unseen and row.answers["lagging"] is Answer.CANNOT_TELL:
        return "Cannot tell whether it lags: only its own clients measure that, and they do not see what they do not fetch."
    if row.dark_partitions and row.answers["lagging"] is Answer.CANNOT_TELL:
        dark = f"{'partition' if len(row.dark_partitions) == 1 else 'partitions'} {listed(row.dark_partitions)}"
        return f"Cannot tell whether it lags: nothing is measured any more of {dark}. Of the others: {wording.lagging(row)}."
    if row.batch_due_seconds is not None and row.answers["lagging"] is Answer.CANNOT_TELL:
        return f"Cannot tell whether a run was missed: {wording.lagging(row)}."
    return f"Cannot tell why: {wording.lagging(row)}."


LEAF = Leaf(
    verdict=Verdict.CANNOT_TELL,
    state=State.CANNOT_TELL,
    headline=_headline,
    actions=_actions,
)
