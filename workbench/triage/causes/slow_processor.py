"""The handler of one event type is slow, compared with its own baseline and its peers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from workbench.features.subscription_measurements import ProcessorFeatures
from workbench.humanize import count, duration, listed, plural, printable
from workbench.humanize import times as multiple
from workbench.judgement_numbers import MORE
from workbench.triage import capacity
from workbench.triage.action_subject import Subject
from workbench.triage.finding import Action, Scope
from workbench.triage.held_up_process import held_up_actions, held_up_words
from workbench.triage.operand import Operand
from workbench.triage.outcome_checks import Check
from workbench.triage.question_types import Conclude, Leaf, Measure, Node, no, proves, yes
from workbench.triage.shared_actions import DUMPS, more_threads
from workbench.triage.status.limited_by_own_work import HAS_ROOM, NO_BASELINE, NOT_SLOWER, since
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Answer, Verdict

if TYPE_CHECKING:
    from workbench.features.chart_series import Series
    from workbench.triage.question_types import Sign


def no_comparison(row: Row) -> str:
    """Why process times are not compared: more data show what is usual, and none show what nobody measures."""
    measured = any(it.process_seconds is not None for it in row.processors)
    return "no baseline of process times" if measured else "process times are not measured"


def _words(row: Row) -> str:
    if row.slow_by_peers:
        longest = max(
            (it for it in row.processors if it.processor in row.slow_by_peers), key=lambda it: it.process_seconds or 0.0
        )
        return f"{printable(longest.processor)} {duration(longest.process_seconds)}, ten times its peers' or more; no baseline"
    slowest = row.slowest
    if slowest is None:
        return no_comparison(row)
    text = (
        f"{printable(slowest.processor)} {duration(slowest.process_seconds)} (n = {count(slowest.attempts)}{since(row)}), "
        f"{multiple(slowest.slow_down)} its baseline {duration(slowest.baseline_seconds)}"
    )
    return text + (f"; others {duration(row.peers_seconds)}" if row.peers_seconds is not None else "")


QUESTION = Node(
    id="one_slow",
    question="Is one processor slow compared with its peers and its own baseline?",
    short="one processor slow?",
    rules=(
        no(
            "room",
            "handlers that take less than half of a loop's time cannot hold it up",
            lambda row: row.queueless and HAS_ROOM.holds(row),
            HAS_ROOM,
        ),
        NOT_SLOWER,
        no("member", "one member is slow at whatever it handles (question 15)", lambda row: row.slow_members),
        proves(
            "towers",
            "one processor takes ten times as long as its peers, and most of all the time; no good time is known to compare with",
            lambda row: row.slow_by_peers,
        ),
        yes(
            "slow",
            "one processor's slow-down is large, also against the median slow-down of its peers",
            lambda row: row.one_slow,
            Operand("slowest_slow_down", "× its baseline", ">=", setting="slow_ratio"),
            Operand(
                "slowest_slow_down", "× its peers' slow-down", ">=", setting="slow_peers_ratio", of="peers_slow_down"
            ),
        ),
        no("none", "no processor is slow against its own baseline and its peers", lambda row: row.one_slow is False),
        NO_BASELINE,
    ),
    yes=Conclude(Verdict.SLOW_PROCESSOR),
    words=_words,
    needs=("process_time",),
    measures=(
        Measure(
            "process_time",
            "slowest_seconds",
            "s",
            threshold="slow_ratio",
            times="its baseline",
            baseline="slowest_baseline_seconds",
            peers="peers_seconds",
        ),
        Measure("process_time", "slowest_slow_down", "× its baseline", threshold="slow_ratio", peers="peers_slow_down"),
    ),
    look=f"See three times where a member spends its time ({DUMPS})",
    contributes=True,
)


def _headline(row: Row) -> str:
    slow = [p for p in row.processors if p.processor in row.slow_processors]
    if len(slow) == 1:
        [it] = slow
        peers, took = row.peers_seconds, it.process_seconds
        if it.slow_down is None:
            return (
                f"One processor is slow: event type “{printable(it.processor)}” takes {duration(took)}, ten times its peers'"
                " time or more, and most of all the time; the data show no good time to compare with."
            )
        if len(row.processors) == 1:
            times_slower = f"{multiple(it.slow_down)} its own baseline"
            return f"The handler is slow: it takes {duration(took)}, {times_slower}{held_up_words(row)}."
        against = f" and {multiple(took / peers)} its peers" if peers and took is not None else ""
        return (
            f"One processor is slow: event type “{printable(it.processor)}” takes {duration(took)}, "
            f"{multiple(it.slow_down)} its own baseline{against}."
        )
    return f"{plural(len(slow), 'processor is', 'processors are')} slow: event types {listed([p.processor for p in slow])}."


def _actions(it: Subject, row: Row) -> list[Action]:
    names = sorted(row.slow_processors)
    shown = listed(names)
    others = [
        it.process_seconds for it in row.processors if it.processor not in names and it.process_seconds is not None
    ]
    usual = max(others, default=0.0) if row.slow_by_peers else row.slowest_baseline_seconds or 0.0
    limit = usual * row.limits.slow_ratio
    as_usual = Check("processors", "<", limit, field="process_seconds", items=tuple(names))
    alone = len(row.processors) == 1
    # The only one may have no name of its own: a profile without event types calls it "all".
    handler = "the handler" if alone else f"the handler of {shown}"
    verify = (
        f"process time of {handler} is below {duration(limit)}, {multiple(row.limits.slow_ratio)} the {duration(usual)} of"
        f" {'its peers' if row.slow_by_peers else 'before'}"
    )
    # What holds the process up would slow down others, too.
    held_up = held_up_actions(it, row, as_before=as_usual, verify=verify) if alone else []
    return [
        *held_up,
        Action(
            title=f"Check what changed{it.when} in {handler}, or in what it calls",
            command=it.changes,
            verify=verify,
            checks=(as_usual,),
        ),
        # A poll loop has no threads to add.
        *([more_threads(row, set(names), f"Raise the processor threads of {shown}")] if not row.queueless else []),
    ]


def _onset(series: Series, row: Row) -> Sign:
    """Process time of the slowest processor, and its threshold."""
    slowest = row.slowest
    if slowest is None:
        return None, 0.0
    mine = [line.values for line in series.process_time if line.name == slowest.processor]
    return (mine[0] if mine else None), row.limits.slow_ratio * (slowest.baseline_seconds or 0.0)


def _work(processors: Sequence[ProcessorFeatures], *, usual: bool = False) -> float:
    """Seconds of work per second, with the process times of now or of the baseline."""
    return sum(
        (it.rate_per_second or 0.0) * ((it.baseline_seconds if usual else it.process_seconds) or 0.0)
        for it in processors
    )


def handlers_work(row: Row) -> tuple[list[ProcessorFeatures], list[ProcessorFeatures], float, float]:
    """Handlers with known times, the slow ones of these, and the seconds of work per second now and with the usual times.

    Without handlers if they wait for records, or are about as fast as usual. If all of them are slow, none is.
    """
    waits = row.answers.get("queue_backed_up") is Answer.NO or (not row.has_queues and row.own_work is False)
    timed = [it for it in row.processors if it.process_seconds and it.baseline_seconds and it.rate_per_second]
    now, usual = _work(timed), _work(timed, usual=True)
    if waits or not usual or now < MORE * usual:
        return [], [], 0.0, 0.0
    slow = [it for it in timed if it.processor in row.slow_processors]
    return timed, slow if len(slow) < len(timed) else [], now, usual


def _share(row: Row, arriving: float) -> Iterator[tuple[str, float]]:
    timed, slow, now, usual = handlers_work(row)
    if slow:
        names = listed([it.processor for it in slow])
        words = f"{names} takes {multiple(_work(slow) / _work(slow, usual=True))} its usual time"
        yield words, arriving * (1 - usual / now)
    elif len(timed) == 1:
        yield f"handlers take {multiple(now / usual)} their usual time", arriving * (1 - usual / now)


LEAF = Leaf(
    verdict=Verdict.SLOW_PROCESSOR,
    headline=_headline,
    scope=lambda row: Scope(processors=row.slow_processors, cause=row.held_up_by if len(row.processors) == 1 else None),
    sizing=lambda row: capacity.processor_threads(row, set(row.slow_processors)),
    actions=_actions,
    share=_share,
    onset=_onset,
)
