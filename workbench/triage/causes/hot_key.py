"""One queue is full while its siblings are idle, or one member of a pipeline is busy while the others are not: the keys are uneven."""

from __future__ import annotations

from typing import Any

from workbench.humanize import listed, percent, plural, printable
from workbench.judgement_numbers import BUSY, MOST
from workbench.triage.action_subject import Subject
from workbench.triage.finding import Action, Scope
from workbench.triage.operand import Operand
from workbench.triage.outcome_checks import Check
from workbench.triage.question_types import Conclude, Leaf, Measure, Node, always, leaves_open, no, yes
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Verdict


def _words(row: Row) -> str:
    if row.hot_members:
        return f"{_members(row)}, {len(row.members)} in all"
    if row.hot_queue_count is None:
        return "no queues are measured"
    return f"{plural(row.hot_queue_count, 'full queue')} next to idle ones, {row.full_queue_count} full in all"


def _members(row: Row) -> str:
    who = plural(len(row.hot_members), "member")
    return f"{who} ({listed([printable(it) for it in row.hot_members])}) busy all the time next to idle ones"


QUESTION = Node(
    id="one_queue",
    question="Is one queue full while the others are idle (uneven keys)?",
    short="one queue full?",
    rules=(
        yes(
            "busy_member",
            "few members are busy all the time beside idle ones, and what waits has been read, of every partition",
            lambda row: row.hot_members,
        ),
        no("queueless", "it has no queues of its own", lambda row: row.queueless),
        # If most of the full queues have full siblings, the keys are spread evenly, and the cause is another one.
        yes(
            "hot",
            "most full queues stand beside idle ones",
            Operand("hot_queue_count", "queues", ">", number=MOST, of="full_queue_count", why="most of them"),
        ),
        no("even", "no full queue stands beside idle ones", lambda row: row.hot_queue_count is not None),
        leaves_open(
            "unknown",
            "the queues' lengths are not measured",
            always,
            look="the length of its queues: docs/metrics.md has the names",
        ),
    ),
    yes=Conclude(Verdict.HOT_KEY),
    words=_words,
    needs=("queue_length", "queue_capacity"),
    measures=(
        Measure("queue_length", "hot_queue_count", "full queues beside idle ones"),
        Measure("queue_length", "full_queue_count", "full queues in all"),
    ),
    contributes=True,
)


def _headline(row: Row) -> str:
    if row.hot_members:
        return f"Hot key: {_members(row)}."
    number, name = len(row.hot_queues), row.hot_queues[0].processor
    return f"Hot key: {plural(number, 'queue')} of “{printable(name)}” full while the others are idle."


def _scope(row: Row) -> Scope:
    hot = row.hot_queues
    if not hot:
        return Scope(members=row.hot_members)
    return Scope(
        processors=tuple(sorted({queue.processor for queue in hot if queue.processor is not None})),
        queues=tuple(f"{queue.member}/{queue.processor}/{queue.queue}" for queue in hot),
        members=tuple(sorted({queue.member for queue in hot if queue.member is not None})),
    )


def _actions(it: Subject, row: Row) -> list[Action]:
    worst = max(row.partitions, key=lambda p: p.lag_messages or 0)
    where: dict[str, Any] = {"partition": worst.partition}
    if row.hot_members:
        filled = f"keeps {listed([printable(name) for name in row.hot_members])} busy"
        even = Check("members", "<", BUSY, field="busy", items=row.hot_members)
        verify, also = (
            f"its handlers take less than {percent(BUSY)} of its time",
            " (and sum up in two steps: by salt, then by key)",
        )
    else:
        queue, full = row.hot_queues[0], row.limits.queue_fill_ratio
        name, also = queue.processor or "", ""
        filled = f"fills queue {printable(queue.queue)} of {printable(name)}"
        even, where = Check("queues", "<", full, field="fill", items=(name,)), {"processor": name, **where}
        verify = f"the queue is less than {percent(full)} full"
    return [
        Action(
            title=f"Find the key that {filled}, and its producer",
            command=it.tools.commonest_keys(it.topic, worst.partition),
            verify="you know the key, and whether its events must stay in order",
        ),
        Action(
            title=f"If the order of its events does not matter, append a salt to the key{also}; otherwise slow down its producer",
            verify=verify,
            kind="spread_keys",
            parameters=where,
            checks=(even,),
        ),
    ]


LEAF = Leaf(verdict=Verdict.HOT_KEY, headline=_headline, scope=_scope, actions=_actions)
