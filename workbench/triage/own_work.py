"""Whose side is the limit: the consumer's own work, or what reaches it? Asked of any consumer, by whatever it exports.

Best first: in-process queues (`anomalies`), messages that were fetched and wait in the client, the time that the thread waits for
records, and process times against the baseline. A consumer without queues of its own is a shape of consumer, and no lack of data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from workbench.features.summary import lower_median, ratio

if TYPE_CHECKING:
    from workbench.settings import Thresholds

_IDLE, _WAITING = 0.2, 0.5  # share of the time: busy below, waiting for records above
_BUSY, _EASY = 0.75, 0.3  # of one thread for each member
_MORE, _LESS = 1.3, 0.8  # times the work of the baseline
READ = "aggregate(partitions, 0D, (sum, p) -> sum + coalesce(p.committed_per_second, 0))"  # messages/s, by all members
NEVER_EMPTY = 20.0  # messages
_MUCH = 4  # times the messages that count as waiting in the client
_AT_QUOTA, _NEAR_QUOTA, _OVER_QUOTA = (
    0.85,
    0.4,
    1.2,
)  # times what it may read: the size of its records is a mean over the log
_MORE_THAN_QUOTA, _FAR_MORE = 1.1, 2.0  # times what it may read arrive
_SURE = 30.0  # times the throttle time that counts, and the baseline's round trip
_GROWN = 1.2  # times what the whole group's arrivals have grown by
_HOT = 1.5  # times the arrivals of a typical partition


def measured_work() -> Mapping[str, str]:
    """Columns about the consumer's own work, from the features alone."""
    members = "CASE WHEN live_members > 0 THEN live_members WHEN group_members_recent > 0 THEN group_members_recent END"
    # The attempts since the last sample before the window; its rate divides them by the time since the first one in it.
    span = "(p.attempts / p.rate_per_second + coalesce(sample_interval_seconds, 0))"
    now = (
        "aggregate(processors, 0D, (sum, p) -> sum + CASE WHEN p.rate_per_second > 0"
        f" THEN coalesce(p.attempts * p.process_seconds / {span}, 0) ELSE 0D END)"
    )
    then = "aggregate(processors, 0D, (sum, p) -> sum + coalesce(p.baseline_rate_per_second * p.baseline_seconds, 0))"
    # A broker that throttles lets a client wait for seconds between two answers: lately it may have read nothing.
    share = f"({ratio(f'greatest(committed_recent_per_second, {READ})', 'read_quota_per_second')})"
    lately = f"({ratio('committed_recent_per_second', 'read_quota_per_second')})"
    arriving = f"({ratio('arrival_per_second', 'read_quota_per_second')})"
    timed = "exists(processors, p -> p.process_seconds IS NOT NULL)"
    return {
        "has_queues": "size(queues) > 0 OR enqueue_mean_seconds IS NOT NULL OR enqueue_baseline_seconds IS NOT NULL",
        "loop_busy": f"CASE WHEN {timed} THEN {ratio(now, members)} END",
        "loop_busy_baseline": f"CASE WHEN {timed} AND {then} > 0 THEN {ratio(then, members)} END",
        "poll_idle": "array_min(transform(filter(members, m -> m.live), m -> m.poll_idle))",
        "fetched_low": "array_max(transform(partitions, p -> p.fetch_queue_recent_low))",
        "quota_share": share,
        # Where more arrives than it may read, the quota is enough of a reason, although it reads in bursts with pauses.
        "at_quota": f"coalesce({lately} <= {_OVER_QUOTA} AND ({share} >= {_AT_QUOTA} OR {arriving} >= {_FAR_MORE}"
        f" OR {share} >= {_NEAR_QUOTA} AND {arriving} >= {_MORE_THAN_QUOTA}), false)",
        "typical_arrival": lower_median("transform(partitions, p -> p.arrival_per_second)"),
    }


def judged_work(t: Thresholds) -> Mapping[str, str]:
    """Columns that judge those of `measured_work`.

    `own_work` is true if the consumer's work takes the time, false if it waits for what does not reach it, NULL if that is not known:
    a thread that neither waits for records nor handles them may wait for its commits, over a slow network, or do what nobody measures.
    """
    # Of all the threads that never wait, the handlers take so little. (A hot partition keeps one member busy.)
    never = f"size(filter(members, m -> m.live AND m.poll_idle <= {_IDLE}))"
    throttled = f"throttle_seconds >= {_SURE} * {t.throttle_seconds}"
    # What one answer brought may be waiting at this moment, but the handlers have little to do, and the next answer is far away.
    held_back = f"{throttled} AND loop_busy <= {_EASY} AND loop_busy <= {_LESS} * loop_busy_baseline"
    waits = f"fetch_queue_mean < {t.fetch_queue_messages} AND lag_messages >= {_MUCH * t.fetch_queue_messages}"
    return {
        "own_work": f"""CASE WHEN {held_back} THEN false
            WHEN fetched_low >= {NEVER_EMPTY} THEN true
            WHEN poll_idle <= {_IDLE} AND loop_busy * live_members <= {_EASY} * {never} THEN NULL
            WHEN poll_idle <= {_IDLE} THEN true WHEN poll_idle >= {_WAITING} THEN false WHEN {waits} THEN false
            WHEN loop_busy <= {_LESS} * loop_busy_baseline THEN false
            WHEN loop_busy >= {_MORE} * loop_busy_baseline AND loop_busy >= {_EASY} THEN true
            WHEN loop_busy >= {_BUSY} THEN true WHEN loop_busy <= {_EASY} THEN false END""",
        # Its client or its handlers are measured, and no queue is: it has none, or none that counts.
        "queueless": "NOT has_queues AND coalesce(poll_idle, loop_busy, fetched_low, throttle_seconds, rtt_seconds) IS NOT NULL",
        # Facts that explain a lag, whatever else is not known.
        "surely_throttled": f"coalesce({throttled}, false) OR throttle_seconds IS NULL AND at_quota",
        "surely_slow_network": f"coalesce(rtt_seconds >= {t.rtt_seconds}"
        f" AND rtt_seconds >= {_SURE} * rtt_baseline_seconds, false)",
        # Members that work all the time, and whose work is kept, do not rebalance all the time.
        "works_on": f"coalesce(loop_busy >= {_BUSY} AND {_kept_work()}, false)",
        # A client's statistics come with a poll: new ones prove it, as does work that ends.
        "polling": "CASE WHEN poll_age_seconds IS NOT NULL OR exists(members, m -> m.live AND NOT m.stats_stand)"
        " OR exists(processors, p -> p.attempts > 0) THEN true END",
    }


def _kept_work() -> str:
    """SQL for whether what is handled is committed, too, and not handled again by the next owner."""
    handled = "aggregate(processors, 0D, (sum, p) -> sum + coalesce(p.rate_per_second, 0))"
    return f"{READ} >= {_LESS} * {handled}"


def told_by_partitions() -> Mapping[str, str]:
    """Columns for a lag in few partitions, to which more arrives than to the others, while nothing stands still; and for the pace."""
    late = "CASE WHEN size(behind_partitions) > 0 THEN filter(partitions, p -> array_contains(behind_partitions, p.partition))"
    late += " ELSE partitions END"
    read = f"aggregate({late}, 0D, (sum, p) -> sum + p.committed_recent_per_second)"
    before = f"aggregate({late}, 0D, (sum, p) -> sum + p.arrival_baseline_per_second)"
    theirs = "filter(partitions, p -> array_contains(behind_partitions, p.partition))"
    hot = "filter(partitions, p -> array_contains(hot_partitions, p.partition))"
    return {
        # Where it kept up before, its pace was that of the arrivals. Fewer members have less of it.
        "pace_ratio": f"({ratio(read, before)}) * greatest(1, coalesce(usual_members / nullif(group_members_recent, 0), 1))",
        "hot_arrival_ratio": ratio(f"array_max(transform({hot}, p -> p.arrival_per_second))", "typical_arrival"),
        # As a multiple of what the whole group's arrivals have grown by.
        "hot_growth": ratio(
            f"array_max(transform({hot}, p -> {ratio('p.arrival_per_second', 'p.arrival_baseline_per_second')}))",
            "arrival_ratio",
        ),
        "surely_hot": "queueless AND size(frozen_partitions) = 0 AND size(standing_partitions) = 0"
        # Its members may be busy with them; if their handlers are measured, these are asked.
        " AND (NOT coalesce(own_work, false) OR median_slow_down IS NULL AND slowest_slow_down IS NULL"
        f" AND forall({theirs}, p -> coalesce(p.arrival_per_second >= {_GROWN} * arrival_ratio * p.arrival_baseline_per_second,"
        " false)))"
        " AND size(behind_partitions) BETWEEN 1 AND least(few_partitions, partition_count - 1)"
        f" AND forall({theirs}, p -> coalesce(p.arrival_per_second >= {_HOT} * typical_arrival, false))",
    }
