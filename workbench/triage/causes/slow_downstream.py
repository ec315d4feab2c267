"""All processors are slower than their baseline: a shared dependency is slow."""

from __future__ import annotations

from workbench.humanize import times as multiple
from workbench.numbers import MOST, PART
from workbench.settings import Thresholds
from workbench.triage.actions import (
    DUMPS,
)
from workbench.triage.cause import (
    Ask,
    Conclude,
    Leaf,
    Measure,
    Node,
    Operand,
    always,
    leaves_open,
    no,
    yes,
)
from workbench.triage.checks import Check
from workbench.triage.facts.unknown import (
    all_of,
    at_least,
    at_most,
    below,
)
from workbench.triage.finding import Action
from workbench.triage.status.own_work import HAS_ROOM, not_slower, queues_are_full
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict import Verdict


def _handlers_have_room(row: Row, t: Thresholds) -> bool:
    # Unless their threads never wait: then more of the time is theirs than is measured.
    never_waits = all_of(row.own_work, at_least(row.median_slow_down, t.all_slow_ratio)) is True
    return row.queueless and at_most(row.loop_busy, MOST) is True and not never_waits


def _threads_idle(row: Row, t: Thresholds) -> bool:
    """Full queues before idle threads are no want of threads: something holds them."""
    idle = below(row.busy_share, PART) is True or queues_are_full(row) is not True
    return not row.queueless and below(row.median_slow_down, t.all_slow_ratio) is True and idle


def _words(row: Row) -> str:
    if row.median_slow_down is None:
        return "no baseline of process times"
    return f"half of the processors take at least {multiple(row.median_slow_down)} their baseline"


QUESTION = Node(
    id="all_slow",
    question="Are all processors slower than their baseline?",
    short="all slower?",
    rules=(
        no(
            "room",
            "handlers that take less than half of a loop's time are not the reason",
            _handlers_have_room,
            HAS_ROOM,
        ),
        no(
            "not_slower", "it reads more than ever was needed before, or only where more arrives it is late", not_slower
        ),
        leaves_open(
            "idle_threads",
            "queues are full, or were, before threads with little to do: something holds them that is not measured",
            _threads_idle,
            Operand(
                "busy_share",
                "of a thread for each queue",
                "<",
                number=PART,
                why="then threads are not what is short",
            ),
            look="a thread dump of the process",
        ),
        yes(
            "slower",
            "the typical processor takes longer than before",
            lambda row, t: at_least(row.median_slow_down, t.all_slow_ratio),
            Operand("median_slow_down", "× its baseline", ">=", setting="all_slow_ratio"),
        ),
        no(
            "as_before",
            "the typical processor takes as long as before",
            lambda row, _: row.median_slow_down is not None,
        ),
        leaves_open(
            "no_baseline",
            "process times, or a good time to compare them with, are not known",
            always,
            look="load more (--baseline 6h), so that the data show a good time",
        ),
    ),
    yes=Conclude(Verdict.SLOW_DOWNSTREAM),
    no=Ask("threads"),
    words=_words,
    needs=("process_time",),
    measures=(Measure("process_time", "median_slow_down", "× their baseline", threshold="all_slow_ratio"),),
    look=f"See three times where a member spends its time ({DUMPS})",
    contributes=True,
)


def _headline(row: Row) -> str:
    factor = multiple(row.median_slow_down)
    return f"All processors are slow: they take {factor} their baseline, which points to a shared dependency."


def _actions(it: Subject, _row: Row) -> list[Action]:
    return [
        Action(
            title=f"Check what all processors depend on, and what changed there{it.when}: database, service, lock, the host",
            command=it.changes,
            verify="process times are back at their baseline",
            checks=(Check(feature="median_slow_down", relation="<", value=it.thresholds.all_slow_ratio),),
        )
    ]


LEAF = Leaf(verdict=Verdict.SLOW_DOWNSTREAM, headline=_headline, actions=_actions)
