"""One queue is full while its siblings are idle: the keys are uneven."""

from __future__ import annotations

from workbench.humanize import percent, plural, printable
from workbench.judgement_numbers import MOST
from workbench.triage.action_subject import Subject
from workbench.triage.finding import Action, Scope
from workbench.triage.operand import Operand
from workbench.triage.outcome_checks import Check
from workbench.triage.question_types import Conclude, Leaf, Measure, Node, always, leaves_open, no, yes
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Verdict


def _words(row: Row) -> str:
    if row.hot_queue_count is None:
        return "no queues are measured"
    return f"{plural(row.hot_queue_count, 'full queue')} next to idle ones, {row.full_queue_count} full in all"


QUESTION = Node(
    id="one_queue",
    question="Is one queue full while the others are idle (uneven keys)?",
    short="one queue full?",
    rules=(
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
    number, name = len(row.hot_queues), row.hot_queues[0].processor
    return f"Hot key: {plural(number, 'queue')} of “{printable(name)}” full while the others are idle."


def _scope(row: Row) -> Scope:
    hot = row.hot_queues
    return Scope(
        processors=tuple(sorted({queue.processor for queue in hot if queue.processor is not None})),
        queues=tuple(f"{queue.member}/{queue.processor}/{queue.queue}" for queue in hot),
        members=tuple(sorted({queue.member for queue in hot if queue.member is not None})),
    )


def _actions(it: Subject, row: Row) -> list[Action]:
    queue = row.hot_queues[0]
    name = queue.processor or ""
    worst = max(row.partitions, key=lambda p: p.lag_messages or 0)
    even = Check("queues", "<", row.limits.queue_fill_ratio, field="fill", items=(name,))
    return [
        Action(
            title=f"Find the key that fills queue {printable(queue.queue)} of {printable(name)}, and its producer",
            command=it.tools.commonest_keys(it.topic, worst.partition),
            verify="you know the key, and whether its events must stay in order",
        ),
        Action(
            title="If the order of its events does not matter, append a salt to the key; otherwise slow down its producer",
            verify=f"the queue is less than {percent(row.limits.queue_fill_ratio)} full",
            kind="spread_keys",
            parameters={"processor": name, "partition": worst.partition},
            checks=(even,),
        ),
    ]


LEAF = Leaf(verdict=Verdict.HOT_KEY, headline=_headline, scope=_scope, actions=_actions)
