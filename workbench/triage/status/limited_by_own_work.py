"""Is the consumer's own work the limit, or what reaches it?"""

from __future__ import annotations

from workbench.humanize import counted, duration, percent, plural
from workbench.judgement_numbers import LESS, MORE, MOST, NOISE
from workbench.triage.facts.unknown_numbers import Known, all_of, any_of, at_least, first_known
from workbench.triage.facts.work_or_arrivals import WORK_REASONS
from workbench.triage.operand import Operand, Reason
from workbench.triage.question_types import Ask, Measure, Node, Rule, always, leaves_open, no, yes
from workbench.triage.shared_actions import DUMPS, LOAD_MORE
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Answer

KEPT_PACE = 1 - NOISE  # times the pace before
HAS_ROOM = Operand(
    "loop_busy", "busy handler threads per consumer", "<=", number=MOST, why="less than half of the time is theirs"
)


FULL = Operand("queue_fill", "of capacity", ">=", setting="queue_fill_ratio")


def queues_are_full(row: Row) -> Known:
    """Whether queue length or enqueue time say so."""
    return any_of(row.queue_long, row.entry_slow)


def _queues_say(row: Row) -> bool:
    return row.has_queues and first_known(row.queue_long, row.entry_slow) is not None


def _not_slower(row: Row) -> bool:
    """Without process times: more is read than ever was needed before, or only a few partitions, to which more arrives, are late.

    Slower handlers would read less, and hold up every partition of a member.
    """
    if not row.queueless or row.median_slow_down is not None or row.slowest_slow_down is not None:
        return False
    kept = all_of(at_least(row.pace_ratio, KEPT_PACE), at_least(row.arrival_ratio, MORE))
    return kept is True or row.surely_hot is True


# What is short of members or threads reads as much as it ever did.
LOST_PACE = leaves_open(
    "lost_pace",
    "each member reads less than before: something slows them that was not found",
    Operand("pace_ratio", "× the pace before", "<", number=LESS),
    look="what changed when it began",
)
# Rules of both questions about process times.
NOT_SLOWER = no(
    "not_slower",
    "process times are not compared, but it reads as fast as before while more arrives, or only the few partitions that"
    " get far more are late",
    _not_slower,
)
NO_BASELINE = leaves_open(
    "no_baseline",
    "process times, or a good time to compare them with, are not known",
    always,
    look=f"where process times are measured, {LOAD_MORE}; else a histogram of them",
)


def _words(row: Row) -> str:
    if row.queueless:
        return _own_work(row)
    if row.queue_fill is None and row.enqueue_mean_seconds is None:
        return "no queue metrics"
    parts = []
    if row.queue_fill is not None:
        parts.append(
            f"{row.full_queue_count} of {plural(len(row.queues), 'queue')} backed up (fullest {percent(row.queue_fill)})"
        )
    if row.enqueue_mean_seconds is not None:
        was = row.enqueue_baseline_seconds
        parts.append(
            f"enqueue time {duration(row.enqueue_mean_seconds)}" + (f", was {duration(was)}" if was is not None else "")
        )
    return ", ".join(parts)


def since(row: Row) -> str:
    """Of which time the work of members is told: its words, after a number of theirs."""
    return " since it fell behind" if row.work_since_onset else ""


def _own_work(row: Row) -> str:
    parts = []
    if (more := row.queued_more) is not None and more > 0:
        parts.append(f"at least {counted(more, 'record')} more than usual in one of them")
    if row.fetched_low is not None:
        if row.fetched_low >= 1:
            wait = counted(row.fetched_low, "fetched message waits", "fetched messages wait")
            parts.append(f"at least {wait} in the client")
        else:
            parts.append("at times no fetched message waits in the client")
    if row.poll_idle is not None:
        parts.append(f"its busiest thread waits for records {percent(row.poll_idle)} of the time{since(row)}")
    if row.loop_busy is not None:
        was = f", was {percent(row.loop_busy_baseline)}" if row.loop_busy_baseline is not None else ""
        parts.append(f"handlers take {percent(row.loop_busy)} of a member's time{since(row)}{was}")
    queues = "no queues of its own; " if row.queued_more is None else "nothing tells how much its queues hold; "
    return queues + (", ".join(parts) or "nothing shows what takes its time")


def _rule(reason: Reason[Known]) -> Rule:
    return Rule(
        reason.id,
        Answer.CANNOT_TELL if reason.says is None else Answer.YES if reason.says else Answer.NO,
        reason.because,
        reason.holds,
        reason.operands,
        look="a profile of the process: does it handle records, or wait for them?" if reason.says is None else None,
        either=reason.either,
    )


QUESTION = Node(
    id="queue_backed_up",
    question="Is the consumer's own work the limit (queue length, enqueue time; else fetched messages, idle time, process time)?",
    short="consumer too slow?",
    rules=(
        yes(
            "full",
            "one of its queues is full",
            lambda row: row.has_queues and row.full_queues,
            FULL,
        ),
        yes(
            "delayed",
            "its delay queue is full: then nothing enters the others",
            lambda row: row.has_queues and row.delay_full,
            Operand("delay_fill", "of capacity", ">=", setting="delay_fill_ratio"),
            Operand("delay_high", "of capacity at most", ">=", setting="delay_high_ratio"),
        ),
        yes(
            "slow_entry",
            "entering its queues takes long, and longer than before",
            lambda row: row.has_queues and row.entry_slow,
            Operand("enqueue_mean_seconds", "s", ">=", setting="enqueue_seconds"),
            Operand("enqueue_mean_seconds", "s", ">=", setting="enqueue_ratio", of="enqueue_baseline_seconds"),
        ),
        yes(
            "inside",
            "it has queues, and most of what is late has been read and waits inside",
            lambda row: _queues_say(row) and row.held_inside,
        ),
        no("empty", "its queues are not backed up", _queues_say),
        leaves_open(
            "no_queue",
            "it has queues, and neither how full they are nor the enqueue time is measured",
            lambda row: row.has_queues,
            look="length and capacity of its queues: docs/metrics.md has the names",
        ),
        # A consumer without queues is judged by its client and its handlers; a fact that explains the lag by itself needs neither.
        *(_rule(it) for it in WORK_REASONS),
    ),
    yes=Ask("delay_full"),
    no=Ask("throttled"),
    words=_words,
    needs=("queue_length", "enqueue_time", "fetch_queue_length", "poll_idle", "process_time"),
    measures=(
        Measure("fetch_queue_length", "fetched_low", "fetched messages wait at least"),
        Measure("poll_idle", "poll_idle", "of the time waiting for records"),
        Measure("process_time", "loop_busy", "busy handler threads per consumer", baseline="loop_busy_baseline"),
        Measure("queue_length", "queue_fill", "of capacity", threshold="queue_fill_ratio"),
        Measure(
            "enqueue_time",
            "enqueue_mean_seconds",
            "s",
            threshold="enqueue_seconds",
            baseline="enqueue_baseline_seconds",
        ),
    ),
    look=f"See three times what a member does: in its handler, or waiting for records? ({DUMPS})",
)
