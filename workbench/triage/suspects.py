"""Who stands out: partitions, processors and queues held against their peers and their own baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from workbench.features.summary import extend, lower_median, ratio

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from workbench.settings import Thresholds


def with_suspects(features: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Add what the questions of the tree ask for.

    Args:
        features: of `features.subscriptions`.
        thresholds: of the tree.

    Returns:
        `features` with, among others, the booleans `late`, `growing`, `stalled`, `draining`, `one_slow`, and the arrays
        `stuck_partitions`, `hot_partitions` (numbers), `slow_processors` (names), `hot_queues`, `full_queues` (structs).
    """
    stages = [_lag(thresholds), _partitions(thresholds), _queues(thresholds), _processors(thresholds)]
    for columns in zip_longest(*stages, fillvalue=_NOTHING):  # columns of one stage know nothing of each other
        features = extend(features, {name: sql for part in columns for name, sql in part.items()})
    return features.drop("lags")


_NOTHING: Mapping[str, str] = {}
_Stages = Sequence[Mapping[str, str]]


def _lag(t: Thresholds) -> _Stages:
    """Late, growing, draining: faces of "is it lagging"."""
    floor = t.growth_floor_ratio * t.time_lag_objective_seconds
    # Where the time lag is not known, the lag in units of the arrivals stands in for it.
    estimate = f"coalesce(time_lag_seconds, {ratio('lag_messages', 'arrival_per_second')})"
    late = f"{estimate} > {t.time_lag_objective_seconds}"
    share = f"{t.growth_ratio} * greatest(arrival_per_second, 1)"
    return [
        {
            "few_partitions": f"greatest(1, floor(partition_count * {t.few_partitions_ratio}))",
            "late": late,
            "growing": f"lag_slope > {share} AND {estimate} > {floor} AND lag_messages > 0",
            "draining": f"{late} AND lag_slope < -({share}) AND committed_moved > 0",
        }
    ]


def _partitions(t: Thresholds) -> _Stages:
    """Stuck ones: something waited all the time, and the commit did not move at all. Hot ones: far more lag than is typical."""
    stuck = "p.lag_low > 0 AND p.committed_moved = 0 AND p.committed_samples >= 3"
    mean = "aggregate(lags, 0D, (sum, x) -> sum + x) / size(lags)"
    hot = f"p.lag_messages > {t.hot_factor} * typical_lag AND p.lag_messages > {t.hot_floor_messages}"
    return [
        {
            "stuck_partitions": f"transform(filter(partitions, p -> {stuck}), p -> p.partition)",
            "moving_partitions": "size(filter(partitions, p -> p.committed_moved > 0))",
            "lags": "array_compact(transform(partitions, p -> cast(p.lag_messages AS double)))",
        },
        {
            "stuck_count": "size(stuck_partitions)",
            "stalled": "size(stuck_partitions) > 0",
            "typical_lag": f"CASE WHEN size(lags) > 0 THEN least({mean}, {lower_median('lags')}) END",
            "highest_lag": "array_max(lags)",
        },
        {"hot_partitions": f"transform(filter(partitions, p -> {hot}), p -> p.partition)"},
        {"hot_count": "size(hot_partitions)"},
    ]


def _queues(t: Thresholds) -> _Stages:
    """Full queues; hot ones are full while most of the same processor in the same member idle."""
    full = f"q.fill >= {t.queue_fill_ratio}"
    siblings = "filter(queues, o -> o.processor = q.processor AND o.member = q.member AND o.queue != q.queue)"
    idle = f"filter({siblings}, o -> o.fill <= {t.idle_queue_ratio})"
    return [
        {
            "queue_fill": "array_max(transform(queues, q -> q.fill))",
            "full_queues": f"filter(queues, q -> {full})",
            "hot_queues": f"filter(queues, q -> {full} AND size({siblings}) > 0 AND 2 * size({idle}) > size({siblings}))",
        },
        {
            "full_queue_count": "size(full_queues)",
            "hot_queue_count": "size(hot_queues)",
            "queue_long": f"queue_fill >= {t.queue_fill_ratio}",
            "entry_slow": f"enqueue_mean_seconds >= {t.enqueue_seconds}"
            f" AND enqueue_mean_seconds >= {t.enqueue_ratio} * coalesce(enqueue_baseline_seconds, 0)",
        },
    ]


def _processors(t: Thresholds) -> _Stages:
    """Slow processors: against their own baseline first, then against how much slower their peers have become."""
    peers = "transform(filter(processors, o -> o.processor != p.processor AND o.attempts > 0), o -> o.slow_down)"
    # One that is slow but whose queue is empty holds nobody up.
    held_up = f"coalesce(p.fill >= {t.queue_fill_ratio}, true)"
    slow = (
        f"p.slow_down >= {t.slow_ratio} AND {held_up}"
        f" AND p.slow_down >= {t.slow_peers_ratio} * coalesce({lower_median(peers)}, 0)"
    )
    others = "filter(processors, p -> p.processor != slowest.processor AND p.attempts > 0)"
    return [
        {
            "slow_processors": f"transform(filter(processors, p -> {slow}), p -> p.processor)",
            "unknown_count": f"size(filter(processors, p -> p.attempts > 0 AND p.slow_down IS NULL AND {held_up}))",
            "known_count": "size(filter(processors, p -> p.slow_down IS NOT NULL))",
            "slowest": "array_max(transform(filter(processors, p -> p.slow_down IS NOT NULL), p -> struct("
            "p.slow_down AS slow_down, p.processor AS processor, p.process_seconds AS process_seconds,"
            " p.baseline_seconds AS baseline_seconds, p.attempts AS attempts)))",
            "median_slow_down": lower_median("transform(processors, p -> p.slow_down)"),
        },
        {
            # More than half of them slow is no longer "one": question 10 asks about that.
            "one_slow": "CASE WHEN size(slow_processors) > 0 AND (2 * size(slow_processors) <= size(processors)"
            " OR size(processors) = 1) THEN true WHEN known_count = 0 OR unknown_count > 0 THEN NULL ELSE false END",
            "slowest_seconds": "slowest.process_seconds",
            "slowest_baseline_seconds": "slowest.baseline_seconds",
            "slowest_slow_down": "slowest.slow_down",
            "peers_seconds": lower_median(f"transform({others}, p -> p.process_seconds)"),
            "peers_slow_down": lower_median(f"transform({others}, p -> p.slow_down)"),
        },
    ]
