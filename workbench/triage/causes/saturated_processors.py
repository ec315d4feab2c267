"""Queues are full at normal process times: too few threads for the arrival rate."""

from __future__ import annotations

from workbench.humanize import listed, plural, rate
from workbench.triage import capacity
from workbench.triage.action_subject import Subject
from workbench.triage.causes.burst import FAR_MORE
from workbench.triage.finding import Action, Scope
from workbench.triage.question_types import Ask, Conclude, Leaf, Measure, Node, always, leaves_open, no, yes
from workbench.triage.shared_actions import DUMPS, more_threads
from workbench.triage.status.limited_by_own_work import FULL, LOST_PACE
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Verdict


def _words(row: Row) -> str:
    if row.has_queues:
        return f"{plural(len(row.queues), 'queue')} of its own"
    return "none that are measured: records are handled where they are polled" if row.queueless else "not known"


QUESTION = Node(
    id="threads",
    question="Has the consumer queues and threads of its own, so that there could be more of them?",
    short="threads of its own?",
    rules=(
        no("loop", "it handles records in the thread that polls", lambda row: row.queueless),
        LOST_PACE,
        yes(
            "queues",
            "it has queues of its own, and they are full at usual process times: too few threads",
            lambda row: row.has_queues and row.full_queues,
            FULL,
        ),
        leaves_open(
            "room",
            "entering its queues takes long, and none is measured to be full: a thread that hangs holds up its queue alone",
            lambda row: row.has_queues,
            look=f"a thread dump of the process ({DUMPS})",
        ),
        leaves_open(
            "unknown",
            "nothing shows how the consumer works",
            always,
            look="a profile of the process: does it handle records, or wait for them?",
        ),
    ),
    yes=Conclude(
        Verdict.SATURATED_PROCESSORS,
        unless=((FAR_MORE.holds, Verdict.BURST, "far more arrives than usual (question 22)"),),
    ),
    # The room of a poll loop is members and partitions.
    no=Ask("frozen"),
    words=_words,
    needs=("queue_length",),
    measures=(Measure("process_time", "loop_busy", "busy handler threads per consumer"),),
)


def _full(row: Row) -> list[str]:
    return sorted({queue.processor for queue in row.full_queues if queue.processor is not None})


def _headline(row: Row) -> str:
    arriving = f", with {rate(row.arrival_per_second)} arriving" if row.arrival_per_second is not None else ""
    return f"Processors are saturated: queues of {listed(_full(row))} are full at normal process times{arriving}."


def _actions(_it: Subject, row: Row) -> list[Action]:
    title = f"Raise the processor threads of {listed(_full(row))}, or add an instance"
    return [more_threads(row, set(_full(row)), title)]


LEAF = Leaf(
    verdict=Verdict.SATURATED_PROCESSORS,
    headline=_headline,
    scope=lambda row: Scope(processors=tuple(_full(row))),
    sizing=lambda row: capacity.processor_threads(row, set(_full(row))),
    actions=_actions,
)
