"""What is true beside the verdict: of two faults at once the second one, which the path to the first does not ask about.

A fact that is measured (a quota that holds fetches back, long round trips, slower handlers) stays one if something else is the larger
limit, or if what the larger one is cannot be told.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.humanize import listed, numbered, plural, times
from workbench.triage.causes.rebalance_storm import reconciling
from workbench.triage.causes.slow_downstream import fetched_wait, held_by_own_work
from workbench.triage.causes.slow_network import is_slow
from workbench.triage.question_order import TREE
from workbench.triage.question_types import Leaf, Node
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_names import Answer, State, Verdict

_V = Verdict
# What a client or the broker says, whatever the limit is; and the question that says it.
_HARD = {"throttled": _V.THROTTLED, "stuck": _V.STUCK_PARTITION, "rebalancing": _V.REBALANCE_STORM}


def proven(row: SubscriptionFeatures) -> tuple[Verdict, ...]:
    """Causes of a lag that the data prove, the most certain first, whether or not they are the limit."""
    if row.answers["lagging"] is not Answer.YES:
        return ()
    found = [verdict for node, verdict in _HARD.items() if row.answers[node] is Answer.YES]
    return (*found, *((_V.SLOW_NETWORK,) if is_slow(row) else ()))


def also_true(row: SubscriptionFeatures, path: Sequence[Node], leaf: Leaf) -> tuple[str, ...]:
    """Other facts, off the path, in sentences; only for subscriptions that lag, or are about to."""
    asked = {node.id for node in path}
    if leaf.verdict is _V.CANNOT_TELL and row.answers["lagging"] is Answer.YES:
        told = [*_which(row), *_network(row, asked), *_answered(row, asked, (*_HARD, "failing"))]
    elif leaf.state is State.LAGGING:
        told = [
            *([] if leaf.names_members else _changed_members(row)),
            *_network(row, asked),
            *_answered(row, asked, [it.id for it in TREE.values() if _adds_to(leaf, it)]),
            *_idle_and_slower(row, asked),
            *_others_slower(row, leaf.verdict),
        ]
    elif row.late_in_seconds is not None:
        told = _answered(row, asked, tuple(_HARD))
    else:
        return ()
    return tuple(told)


def _adds_to(leaf: Leaf, node: Node) -> bool:
    return node.contributes and node.id != "slow_network" and leaf.verdict not in node.verdicts


def _changed_members(row: SubscriptionFeatures) -> list[str]:
    """Members that joined or left, and partitions that wait for a member."""
    changed, waits = row.changed_members, reconciling(row)
    return [
        *([f"Members that joined, left or restarted in the window: {listed(sorted(changed))}."] if changed else []),
        *([f"The group is {waits}."] if waits else []),
    ]


def _which(row: SubscriptionFeatures) -> list[str]:
    """A few partitions that are behind, while the others are not."""
    known = sum(it.lag_messages is not None for it in row.partitions if it.partition not in row.behind_partitions)
    others = plural(known, "other partition keeps", "other partitions keep")
    which = numbered("partition", row.behind_partitions)
    return (
        [f"Behind {'is' if len(row.behind_partitions) == 1 else 'are'} {which}; {others} up."]
        if row.few_are_behind
        else []
    )


def _answered(row: SubscriptionFeatures, asked: set[str], questions: Sequence[str]) -> list[str]:
    """Those of the questions, off the path, that the data answer with yes."""
    return [
        said_of(node, node.words(row))
        for node in TREE.values()
        if node.id in questions
        and node.id not in asked
        and row.answers[node.id] is Answer.YES
        and not (node.id == "all_slow" and row.known_count == 1)  # it is the one that is slow
    ]


def _network(row: SubscriptionFeatures, asked: set[str]) -> list[str]:
    node = TREE["slow_network"]
    return [said_of(node, node.words(row))] if node.id not in asked and is_slow(row) else []


def _idle_and_slower(row: SubscriptionFeatures, asked: set[str]) -> list[str]:
    """Handlers of a poll loop that takes its time elsewhere hold nothing up yet. They would, without the other fault."""
    if not row.queueless:
        return []
    one, every = TREE["one_slow"], TREE["all_slow"]
    if one.id not in asked and row.answers[one.id] is Answer.NO and row.one_slow:
        return [said_of(one, one.words(row))]
    slower = (row.median_slow_down or 0.0) >= row.limits.all_slow_ratio and (row.known_count or 0) > 1
    unasked = every.id not in asked and row.answers[every.id] is Answer.NO
    return [said_of(every, every.words(row))] if slower and unasked else []


def _others_slower(row: SubscriptionFeatures, verdict: Verdict) -> list[str]:
    """Beside a partition that stands still, the others are read more slowly, and not because of it."""
    late = held_by_own_work(row) if verdict is _V.STUCK_PARTITION else []
    pace = row.pace_of(late)
    if pace is None:
        return []
    waits = "messages wait in the client, and " if fetched_wait(row) else ""
    return [f"Own work slower: {waits}the other partitions are read at {times(pace)} their usual pace."]


def said_of(node: Node, words: str) -> str:
    """What a question has found, in a sentence."""
    return f"{node.short.rstrip('?').capitalize()}: {words}."
