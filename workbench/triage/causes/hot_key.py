"""One queue is full while its siblings are idle: the keys are uneven."""

from __future__ import annotations

from workbench.humanize import plural, printable
from workbench.triage.actions import commonest_keys
from workbench.triage.checks import Check
from workbench.triage.finding import Action, Scope
from workbench.triage.leaf import Leaf
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Verdict


def _headline(row: SubscriptionFeatures) -> str:
    number, name = len(row.hot_queues), row.hot_queues[0].processor
    return f"Hot key: {plural(number, 'queue')} of “{printable(name)}” full while the others are idle."


def _scope(row: SubscriptionFeatures) -> Scope:
    hot = row.hot_queues
    return Scope(
        processors=tuple(sorted({queue.processor for queue in hot if queue.processor is not None})),
        queues=tuple(f"{queue.member}/{queue.processor}/{queue.queue}" for queue in hot),
        members=tuple(sorted({queue.member for queue in hot if queue.member is not None})),
    )


def _actions(it: Subject, row: SubscriptionFeatures) -> list[Action]:
    queue = row.hot_queues[0]
    name = queue.processor or ""
    worst = max(row.partitions, key=lambda p: p.lag_messages or 0)
    even = Check(feature="queues", field="fill", items=(name,), relation="<", value=it.thresholds.queue_fill_ratio)
    return [
        Action(
            title=f"Find the key that fills queue {printable(queue.queue)} of {printable(name)}, and its producer",
            command=commonest_keys(it, worst.partition),
            verify="you know the key, and whether its events must stay in order",
        ),
        Action(
            title="If the order of its events does not matter, append a salt to the key; otherwise slow down its producer",
            command=None,
            verify="the queue is no fuller than the others",
            kind="spread_keys",
            parameters={"processor": name, "partition": worst.partition},
            checks=(even,),
        ),
    ]


LEAF = Leaf(verdict=Verdict.HOT_KEY, headline=_headline, scope=_scope, actions=_actions)
