"""The questions, in the order in which they are asked; triage walks them, the report draws them, docs/tree.md lists them.

`meaning_of_rule_words.WHY_THIS_ORDER` says why. Those about queues, processors, the network, and the number of consumers and partitions
follow the usual procedure for a consumer framework with in-process queues: enqueue time and queue length first, then process time by
event type, then the network, then the number of consumers and of partitions. A consumer without queues is asked the same of its client
and its handlers.
"""

from __future__ import annotations

from dataclasses import replace

from workbench.triage.causes import (
    burst,
    cold_read,
    consumer_stopped,
    delay_backlog,
    hot_key,
    hot_partition,
    rebalance_storm,
    saturated_processors,
    slow_downstream,
    slow_network,
    slow_processor,
    stuck_partition,
    throttled,
    too_few_consumers,
)
from workbench.triage.question_types import NEXT, Ask
from workbench.triage.status import (
    data_usable,
    draining,
    failing,
    lagging,
    limited_by_own_work,
    lost,
    nothing_arrives,
    reset,
)

# What each part of the questions asks for. A no leads to the next one, unless the question says otherwise.
PARTS = {
    "Is there data, was something lost, does it lag?": (
        data_usable.QUESTION,
        lost.QUESTION,
        reset.QUESTION,
        lagging.QUESTION,
    ),
    "It does not lag.": (draining.QUESTION, failing.QUESTION, nothing_arrives.QUESTION),
    "It lags. Does anybody read?": (consumer_stopped.QUESTION, rebalance_storm.QUESTION, stuck_partition.STUCK),
    "Is its own work the limit?": (
        limited_by_own_work.QUESTION,
        delay_backlog.QUESTION,
        slow_processor.QUESTION,
        hot_key.QUESTION,
        slow_downstream.QUESTION,
        saturated_processors.QUESTION,
    ),
    "Is it held up from outside, or short of room?": (
        throttled.QUESTION,
        slow_network.QUESTION,
        stuck_partition.FROZEN,
        cold_read.QUESTION,
        hot_partition.QUESTION,
        burst.QUESTION,
        failing.SLOWED,
        too_few_consumers.QUESTION,
    ),
}
_ORDER = tuple(it for part in PARTS.values() for it in part)
TREE = {
    it.id: replace(it, number=number, no=Ask(_ORDER[number].id) if it.no is NEXT else it.no)
    for number, it in enumerate(_ORDER, 1)
}
ROOT = _ORDER[0].id
