"""The group lags, or may lag, and a signal that decides why is missing. Every question without an answer leads here."""

from __future__ import annotations

from workbench.humanize import listed, shell_word
from workbench.triage import wording
from workbench.triage.actions import DUMPS, quotas_of
from workbench.triage.finding import Action
from workbench.triage.leaf import Leaf
from workbench.triage.node import Node
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.tree import TREE
from workbench.triage.verdict import Answer, State, Verdict

_SPENDS = f"See three times where a member spends its time ({DUMPS})"
# The question that is open → what tells the candidates apart for the least effort; it can be done now.
_LOOKS = {
    "lagging": "Compare the committed offsets with the log's ends",
    "consuming": "See which member owns which partition, and whether it is alive",
    "rebalancing": "See twice, a minute apart, whether the same members have the same partitions",
    "stuck": f"See what the owner of the partitions that stand still does ({DUMPS})",
    "queue_backed_up": f"See three times what a member does: in its handler, or waiting for records? ({DUMPS})",
    "throttled": "See whether a quota applies to these clients",
    "one_slow": _SPENDS,
    "all_slow": _SPENDS,
}


def _record(it: Subject, partition: int, offset: float, *also: str) -> str:
    """Shell command that prints the record at an offset."""
    words = " ".join(("", *also)) if also else ""
    return f"kcat -b {it.brokers} -C -t {shell_word(it.topic)} -p {partition} -o {round(offset)} -c 1 -J{words}"


def _passed(it: Subject, row: SubscriptionFeatures) -> Action | None:
    """Whether records that a commit passed were handled: their effect says so."""
    passed = row.told("skipped")
    if not row.doubtful_partitions:
        return None
    partition = max(row.doubtful_partitions, key=lambda number: passed[number])
    offset = row.told("skipped_from")[partition]
    return Action(
        title=f"See whether the records from offset {round(offset):,} of partition {partition} on have had their effect (a row, a call,"
        " a line in the consumer's log); if not, they were skipped: replay them by time, into a new group",
        command=_record(it, partition, offset),
        verify="you know whether the consumer handled this record",
    )


def _blocked(it: Subject, row: SubscriptionFeatures) -> Action | None:
    """Whether a consumer is given anything of what waits."""
    first = next((part for part in row.partitions if part.partition in row.unmoved_partitions), None)
    if first is None or first.committed is None:
        return None
    return Action(
        title=f"Read partition {first.partition} from offset {round(first.committed):,} on as a consumer of transactions does: nothing"
        " comes if these records were aborted, and then all is well",
        command=_record(it, first.partition, first.committed, "-e", "-X", "isolation.level=read_committed"),
        verify="a record comes: that one blocks the partition; nothing comes: nothing waits",
    )


def _ended_at(row: SubscriptionFeatures) -> list[Node]:
    """The question that ended the walk."""
    return [TREE[row.path[-1]]] if row.path else []


def _look(it: Subject, row: SubscriptionFeatures) -> Action | None:
    first = _ended_at(row)
    if first and first[0].id == "lost" and (passed := _passed(it, row)) is not None:
        return passed
    if first and first[0].id == "lagging" and (blocked := _blocked(it, row)) is not None:
        return blocked
    if not first or first[0].id not in _LOOKS:
        return None
    title = _LOOKS[first[0].id]
    if first[0].id == "consuming" and row.idle_members:
        title = f"See what {listed(row.idle_members)} does: in a handler, paused, or waiting? ({DUMPS})"
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
    if row.path[-1:] == ("lost",):
        return f"Cannot tell whether records were skipped: {wording.lost(row)}."
    if row.unmoved_partitions and row.answers["lagging"] is Answer.CANNOT_TELL:
        return f"Cannot tell whether it is stuck: {wording.unmoved(row)}."
    if row.unseen and row.answers["lagging"] is Answer.CANNOT_TELL:
        return "Cannot tell whether it lags: only its own clients measure that, and they do not see what they do not fetch."
    if row.dark_partitions and row.answers["lagging"] is Answer.CANNOT_TELL:
        dark = f"{'partition' if len(row.dark_partitions) == 1 else 'partitions'} {listed(row.dark_partitions)}"
        return f"Cannot tell whether it lags: nothing is measured any more of {dark}. Of the others: {wording.lagging(row)}."
    if row.batch_due_seconds is not None and row.answers["lagging"] is Answer.CANNOT_TELL:
        return f"Cannot tell whether a run was missed: {wording.lagging(row)}."
    return f"Cannot tell why: {wording.lagging(row)}.{_open(row)}"


def _open(row: SubscriptionFeatures) -> str:
    """The reason that left the first question open."""
    first = _ended_at(row)
    if not first or first[0].id not in row.reasons:
        return ""
    return f" Not decided, because {first[0].rule(row.reasons[first[0].id]).because}."


LEAF = Leaf(
    verdict=Verdict.CANNOT_TELL,
    state=State.CANNOT_TELL,
    headline=_headline,
    actions=_actions,
)
