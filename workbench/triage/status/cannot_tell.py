"""The group lags, or may lag, and a signal that decides why is missing. Every question without an answer leads here."""

from __future__ import annotations

from workbench.humanize import counted, duration, listed, numbered
from workbench.triage.action_subject import Subject
from workbench.triage.finding import Action
from workbench.triage.question_order import TREE
from workbench.triage.question_types import Leaf, Node
from workbench.triage.shared_actions import DUMPS
from workbench.triage.status import lagging, lost
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Answer, State, Verdict


def _unmoved(row: Row) -> str:
    which = row.unmoved_partitions
    waited = min((seconds for it, seconds in row.told("unmoved").items() if it in which), default=0.0)
    waiting = sum(it.lag_messages or 0.0 for it in row.partitions if it.partition in which)
    return (
        f"{counted(waiting, 'offset')} at the end of {numbered('partition', which)} waited for {duration(waited)} or"
        " more, and nothing arrives there; a record that blocks the partition looks like that, and so do the records of an aborted"
        " transaction, which no consumer is given"
    )


def _short(row: Row) -> str:
    which = row.short_partitions
    return (
        f"each commit of {numbered('partition', which)} rests one record before the end, whatever arrives; one that is made of the last"
        " record's offset instead of the next one's looks like that, and then nothing waits; so does a consumer that handles a record"
        " when the next one comes"
    )


_EFFECT = (
    "have had their effect (a row, a call, a line in the consumer's log); if not, they were skipped: replay them by time, into a new"
    f" group{lost.NO_RECORD}"
)


def _passed(it: Subject, row: Row) -> Action | None:
    """Whether records that a commit passed were handled: their effect says so."""
    passed = row.told("skipped")
    if not row.doubtful_partitions:
        return None
    partition = max(row.doubtful_partitions, key=lambda number: passed[number])
    offset = row.told("skipped_from").get(partition)
    if offset is None:  # only the lag is measured
        ago = duration(row.told("skipped_ago").get(partition))
        return Action(
            title=f"See whether the records that waited {ago} before the window's end, when the lag fell in one step, {_EFFECT}",
            command=it.describe,
            verify="you know whether the consumer handled these records",
        )
    return Action(
        title=f"See whether the records from offset {round(offset):,} of partition {partition} on {_EFFECT}",
        command=it.tools.read_record(it.topic, partition, round(offset)),
        verify="you know whether the consumer handled this record",
    )


def _blocked(it: Subject, row: Row) -> Action | None:
    """Whether a consumer is given anything of what waits, or was given it."""
    if row.short_partitions and not row.unmoved_partitions:
        last = next(part for part in row.partitions if part.partition in row.short_partitions)
        if last.committed is None:
            return None
        return Action(
            title=f"See whether the record at offset {round(last.committed):,} of partition {last.partition} has had its effect (a row,"
            " a call, a line in the consumer's log); if so, nothing waits: let the consumer commit the offset of the next record",
            command=it.tools.read_record(it.topic, last.partition, round(last.committed)),
            verify="you know whether the consumer handled this record",
        )
    first = next((part for part in row.partitions if part.partition in row.unmoved_partitions), None)
    if first is None or first.committed is None:
        return None
    return Action(
        title=f"Read partition {first.partition} from offset {round(first.committed):,} on as a consumer of transactions does: nothing"
        " comes if these records were aborted, and then all is well",
        command=it.tools.read_on(it.topic, first.partition, round(first.committed)),
        verify="a record comes: that one blocks the partition; nothing comes: nothing waits",
    )


def _ended_at(row: Row) -> Node | None:
    """The question that ended the walk."""
    return TREE[row.path[-1]] if row.path else None


def _actions(it: Subject, row: Row) -> list[Action]:
    at = _ended_at(row)
    own = {"lost": _passed, "lagging": _blocked}.get(at.id) if at is not None else None
    if own is not None and (look := own(it, row)) is not None:
        return [look]
    if at is None or at.look is None:
        why = row.reasons.get(at.id) if at is not None else None
        decides = at.rule(why).look if at is not None and why is not None else None
        title = f"To decide: {decides}" if decides else "Look at the group's members while you add the missing signals"
        return [Action(title=title, command=it.members, verify="the open question has an answer")]
    does = "does" if len(row.idle_members) == 1 else "do"
    idle = f"See what {listed(row.idle_members)} {does}: in a handler, paused, or waiting? ({DUMPS})"
    return [
        Action(
            title=idle if at.id == "consuming" and row.idle_members else at.look,
            command=it.tools.list_quotas() if at.id == "throttled" else it.members,
            verify=f"question {at.number} has an answer: {at.question}",
        )
    ]


def _headline(row: Row) -> str:
    at, words = _ended_at(row), lagging.words(row)
    if at is not None and at.id == "lost":
        return f"Cannot tell whether records were skipped: {lost.words(row)}."
    if row.answers["lagging"] is Answer.CANNOT_TELL:
        if row.unmoved_partitions:
            return f"Cannot tell whether it is stuck: {_unmoved(row)}."
        if row.short_partitions:
            return f"Cannot tell whether anything waits: {_short(row)}."
        if row.unseen:
            return "Cannot tell whether it lags: only its own clients measure that, and they do not see what they do not fetch."
        if row.dark_partitions:
            dark = numbered("partition", row.dark_partitions)
            return f"Cannot tell whether it lags: nothing is measured any more of {dark}. Of the others: {words}."
        if without := lagging.without_commit(row):
            never = numbered("partition", without)
            return f"Cannot tell whether it lags: no commit of {never} is known, where records wait. Of the others: {words}."
        if row.batch_due_seconds is not None:
            return f"Cannot tell whether a run was missed: {words}."
    why = row.reasons.get(at.id) if at is not None else None
    decided = f" Not decided, because {at.rule(why).because}." if at is not None and why is not None else ""
    return f"Cannot tell why: {words}.{decided}"


LEAF = Leaf(verdict=Verdict.CANNOT_TELL, state=State.CANNOT_TELL, headline=_headline, actions=_actions)
