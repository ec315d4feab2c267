"""Is the consumer's own work the limit: queues, processors, keys, threads?"""

from __future__ import annotations

from workbench.numbers import BUSY, MORE, MOST, NEVER_EMPTY, NOISE, PART
from workbench.settings import Thresholds
from workbench.triage.facts.unknown import Known, above, all_of, any_of, at_least, at_most, below, first_known, times
from workbench.triage.rule import Operand, always, leaves_open, no, proves, yes
from workbench.triage.rules.reading import KEPT_PACE
from workbench.triage.subscription import SubscriptionFeatures as Row

_HAS_ROOM = Operand("loop_busy", "busy threads a member", "<=", number=MOST, why="less than half of the time is theirs")
_FILL = Operand("queue_fill", "of capacity", ">=", setting="queue_fill_ratio")
_ENTRY = Operand("enqueue_mean_seconds", "s", ">=", setting="enqueue_seconds")
_EMPTY = (
    Operand("queue_fill", "of capacity", "<", setting="queue_fill_ratio"),
    Operand("enqueue_mean_seconds", "s", "<", setting="enqueue_seconds"),
)


def queues_are_full(row: Row) -> Known:
    """Whether queue length or enqueue time say so."""
    return any_of(row.queue_long, row.entry_slow)


def _queues_say(row: Row) -> bool:
    return row.has_queues and first_known(row.queue_long, row.entry_slow) is not None


def _not_slower(row: Row, _t: Thresholds) -> bool:
    """Without process times: more is read than ever was needed before, or only a few partitions, to which more arrives, are late.

    Slower handlers would read less, and hold up every partition of a member.
    """
    if not row.queueless or row.median_slow_down is not None or row.slowest_slow_down is not None:
        return False
    kept = all_of(at_least(row.pace_ratio, KEPT_PACE), at_least(row.arrival_ratio, MORE))
    return kept is True or row.surely_hot is True


OWN_WORK = (
    # One of the two signals of queues is enough.
    yes("queues", "its queues are backed up", lambda row, _: row.has_queues and queues_are_full(row), _FILL, _ENTRY),
    yes(
        "delayed",
        "its delay queue is full",
        lambda row, _: _queues_say(row) and row.delay_full is True,
        Operand("delay_fill", "of capacity", ">=", setting="delay_fill_ratio"),
    ),
    yes(
        "inside",
        "what waits has been read, and waits inside",
        lambda row, _: _queues_say(row) and row.held_inside is True,
    ),
    no("empty", "its queues are not backed up", lambda row, _: _queues_say(row), *_EMPTY),
    leaves_open(
        "no_queue",
        "it has queues, and neither their length nor the enqueue time is measured",
        lambda row, _: row.has_queues,
    ),
    # A consumer without queues is judged by its client and its handlers; a fact that explains the lag by itself needs neither.
    yes("works", "its handlers take the time, or fetched messages wait for them", lambda row, _: row.own_work is True),
    no("waits", "its threads wait for what does not reach them", lambda row, _: row.own_work is False),
    leaves_open(
        "not_measured",
        "nothing shows whether its threads work or wait",
        always,
        look="a profile of the process: does it handle records, or wait for them?",
    ),
)

DELAY_FULL = (
    yes(
        "full",
        "the delay queue is full",
        lambda row, _: row.delay_full is True,
        Operand("delay_fill", "of capacity", ">=", setting="delay_fill_ratio"),
        Operand("delay_high", "of capacity at most", ">=", setting="delay_high_ratio"),
    ),
    no("none", "it has no delay queue, or one with room", lambda row, _: row.queueless or row.delay_full is False),
    leaves_open("unknown", "the delay queue is not measured", always),
)

ONE_SLOW = (
    no(
        "room",
        "handlers that take less than half of a loop's time cannot hold it up",
        lambda row, _: row.queueless and at_most(row.loop_busy, MOST) is True,
        _HAS_ROOM,
    ),
    no("not_slower", "it reads more than ever was needed before, or only where more arrives it is late", _not_slower),
    proves(
        "towers",
        "one processor takes ten times as long as its peers, and most of all the time; no good time is known to compare with",
        lambda row, _: bool(row.slow_by_peers),
    ),
    yes(
        "slow",
        "one processor is slow against its own baseline and its peers",
        lambda row, _: row.one_slow is True,
        Operand("slowest_slow_down", "× its baseline", ">=", setting="slow_ratio"),
        Operand("slowest_slow_down", "× its baseline", ">=", setting="slow_peers_ratio", of="peers_slow_down"),
    ),
    no("none", "no processor is slow against its own baseline and its peers", lambda row, _: row.one_slow is False),
    leaves_open(
        "no_baseline",
        "process times, or a good time to compare them with, are not known",
        always,
        look="load more (--baseline 6h), so that the data show a good time",
    ),
)

ONE_QUEUE = (
    no("queueless", "it has no queues of its own", lambda row, _: row.queueless),
    # If most of the full queues have full siblings, the keys are spread evenly, and the cause is another one.
    yes(
        "hot",
        "most full queues stand beside idle ones",
        lambda row, _: (
            above(row.hot_queue_count, 0) is True and 2 * (row.hot_queue_count or 0) > (row.full_queue_count or 0)
        ),
        Operand("hot_queue_count", "queues", ">", number=MOST, of="full_queue_count", why="most of them"),
    ),
    no("even", "no full queue stands beside idle ones", lambda row, _: row.hot_queue_count is not None),
    leaves_open("unknown", "the queues' lengths are not measured", always),
)


def _handlers_have_room(row: Row, t: Thresholds) -> bool:
    # Unless their threads never wait: then more of the time is theirs than is measured.
    never_waits = all_of(row.own_work, at_least(row.median_slow_down, t.all_slow_ratio)) is True
    return row.queueless and at_most(row.loop_busy, MOST) is True and not never_waits


def _threads_idle(row: Row, t: Thresholds) -> bool:
    """Full queues before idle threads are no want of threads: something holds them."""
    idle = below(row.busy_share, PART) is True or queues_are_full(row) is not True
    return not row.queueless and below(row.median_slow_down, t.all_slow_ratio) is True and idle


ALL_SLOW = (
    no("room", "handlers that take less than half of a loop's time are not the reason", _handlers_have_room, _HAS_ROOM),
    no("not_slower", "it reads more than ever was needed before, or only where more arrives it is late", _not_slower),
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
    no("as_before", "the typical processor takes as long as before", lambda row, _: row.median_slow_down is not None),
    leaves_open(
        "no_baseline",
        "process times, or a good time to compare them with, are not known",
        always,
        look="load more (--baseline 6h), so that the data show a good time",
    ),
)


def _has_room_in_between(row: Row, _t: Thresholds) -> bool:
    # A lag that rises with every commit's sawtooth looks the same, but its consumer works more than in good times, and always has
    # something left to do.
    if row.comes_and_goes is not True:
        return False
    fetched = at_least(row.fetched_low, NEVER_EMPTY)
    always_busy = any_of(fetched, at_least(row.loop_busy, BUSY) if row.fetched_low is None else False)
    more = above(row.loop_busy, times((1 + NOISE), row.loop_busy_baseline))
    return all_of(row.growing, always_busy, more) is not True


THREADS = (
    yes("queues", "it has queues and threads of its own", lambda row, _: row.has_queues),
    leaves_open(
        "in_between",
        "it is late again and again, and has room in between: more of it is no cure",
        _has_room_in_between,
        look="what happens at the same times: a job, a flush, a collection of garbage",
    ),
    no("loop", "it handles records in the thread that polls", lambda row, _: row.queueless),
    leaves_open("unknown", "nothing shows how the consumer works", always),
)
