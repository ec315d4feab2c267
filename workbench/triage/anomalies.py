"""Outliers: partitions, processors and queues compared with their peers and their own baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from workbench.expectations import NOTHING_EXPECTED, Expectations
from workbench.features.summary import NOW, lower_median, ratio
from workbench.spark.columns import extend

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from workbench.settings import Thresholds


def with_suspects(
    features: DataFrame, thresholds: Thresholds, expectations: Expectations = NOTHING_EXPECTED
) -> DataFrame:
    """Add the columns that the questions of the tree test.

    Args:
        features: of `features.subscriptions`.
        thresholds: of the tree.
        expectations: objectives and commit intervals of single groups.

    Returns:
        `features` with, among others, the booleans `late`, `growing`, `stalled`, `draining`, `one_slow`, and the arrays
        `stuck_partitions`, `hot_partitions` (numbers), `slow_processors` (names), `hot_queues`, `full_queues` (structs).
    """
    limits = _Limits.of(thresholds, expectations)
    if expectations:
        features = extend(features, limits.columns)
        limits = _Limits("objective_seconds", "commit_every_seconds", {})
    stages = [
        [limits.columns],
        _lag(thresholds, limits),
        _partitions(thresholds, limits),
        _members(thresholds),
        _queues(thresholds),
        _processors(thresholds),
    ]
    for columns in zip_longest(*stages, fillvalue=_NOTHING):  # columns of one stage do not depend on each other
        features = extend(features, {name: sql for part in columns for name, sql in part.items()})
    return features


class _Limits(NamedTuple):
    """SQL for the objective and the commit interval of a subscription, in seconds, and the columns that hold them."""

    objective: str
    commit_every: str
    columns: Mapping[str, str]

    @classmethod
    def of(cls, t: Thresholds, expectations: Expectations) -> _Limits:
        objective = expectations.sql("time_lag_objective", t.time_lag_objective_seconds)
        commit_every = expectations.sql("commit_every", t.commit_every_seconds)
        return cls(objective, commit_every, {"objective_seconds": objective, "commit_every_seconds": commit_every})


_SECOND_LOW = 1.5  # times the floor
_NOTHING: Mapping[str, str] = {}
_Stages = Sequence[Mapping[str, str]]


def _lag(t: Thresholds, limits: _Limits) -> _Stages:
    """Late, growing, draining, abandoned: the parts of "is it lagging".

    All of them use the lows of the last third of the window. Commits at long intervals make a sawtooth whose lows return to nearly 0,
    and a single odd sample must neither cause a verdict nor prevent one.
    """
    # A group that commits every ten minutes is up to ten minutes behind in the best of times.
    floor = f"({t.growth_floor_ratio} * {limits.objective} + {limits.commit_every})"
    # The lag divided by the arrival rate replaces the time lag where that is not known, or has a single sample.
    waited = _waited("p.lag_recent_low", "p.arrival_per_second")
    surely = _waited("p.lag_recent_low", "p.arrival_per_second", at_least=True)
    lowest = _waited("p.lag_recent_lowest", "p.arrival_per_second")
    objective = f"({limits.objective} + {limits.commit_every})"
    # Between two commits of a sawtooth there is at least one low near 0, and a second one not much above it.
    kept_up = f"({{lowest}} <= {floor} AND {{second}} <= {_SECOND_LOW} * {floor})"
    late = (
        f"(p.time_lag_seconds > {objective} AND NOT coalesce({kept_up.format(lowest=lowest, second=waited)}, false))"
        f" OR coalesce({surely} > {objective}, CASE WHEN p.time_lag_seconds IS NOT NULL THEN false END)"
    )
    # Empty, or never committed with no arrivals: nothing can be late there.
    idle = (
        "coalesce(p.log_end <= p.log_start, false)"
        " OR (coalesce(p.lag_ever_samples, 0) = 0 AND coalesce(p.arrival_per_second = 0, false))"
    )
    share = f"{t.growth_ratio} * greatest(arrival_per_second, 1)"
    return [
        {
            # The D and the 1e-9: as a decimal, a third of 12 would be 3.9999 and become 3.
            "few_partitions": f"greatest(1, floor(partition_count * {t.few_partitions_ratio!r}D + 1e-9D))",
            "late": f"exists(partitions, p -> NOT ({idle}) AND ({late}))",
            # The burst has ended and the lag shrinks: it is draining.
            "burst_over": f"arrival_recent_per_second < {t.burst_over_ratio} * arrival_per_second AND lag_recent_slope < -({share})",
            "waited_seconds": _waited("lag_recent_low", "arrival_per_second", at_least=True),
            "waited_lowest_seconds": _waited("lag_recent_lowest", "arrival_per_second", at_least=True),
            "abandoned": "lag_messages > 0 AND lag_recent_low > 0 AND (group_members_recent = 0"
            " OR (live_members = 0 AND baseline_members > 0 AND committed_recent_per_second = 0))",
        },
        {
            "growing": f"lag_slope > {share} AND lag_messages > 0"
            f" AND NOT {kept_up.format(lowest='waited_lowest_seconds', second='waited_seconds')}"
            " AND NOT coalesce(burst_over, false)",
            "draining": f"late AND ((lag_slope < -({share}) AND coalesce(lag_recent_slope < 0, true)) OR burst_over)"
            " AND committed_moved > 0",
        },
    ]


def _waited(low: str, arrival: str, *, at_least: bool = False) -> str:
    """SQL for the time that the arrivals took to make this lag: 0 without lag, null for a lag without arrivals.

    The oldest of n messages arrived at least n - 1 intervals ago (`at_least`), and at most n. With rare messages this is the difference
    between now and a minute ago.
    """
    oldest = f"greatest({low} - 1, 0)" if at_least else low
    return f"CASE WHEN {low} = 0 THEN 0D ELSE {ratio(oldest, arrival)} END"


def _partitions(t: Thresholds, limits: _Limits) -> _Stages:
    """Stuck partitions: lag all the time, and no commit advanced. Hot partitions: far more lag than is typical."""
    floor = f"({t.growth_floor_ratio} * {limits.objective} + 2 * {limits.commit_every})"
    # In a short window (or with a long commit interval) a missing commit proves nothing; hence the age.
    stuck = (
        "p.lag_recent_low > 0 AND p.committed_moved = 0 AND p.committed_samples >= 3"
        f" AND coalesce(p.time_lag_seconds > {floor}, true)"
    )
    silent = "p.lag_recent_low > 0 AND coalesce(p.committed_samples, 0) < 3"
    mean = "aggregate(lags, 0D, (sum, x) -> sum + x) / size(lags)"
    hot = f"p.lag_messages > {t.hot_factor} * typical_lag AND p.lag_messages > {t.hot_floor_messages}"
    return [
        {
            "stuck_partitions": f"transform(filter(partitions, p -> {stuck}), p -> p.partition)",
            "moving_partitions": "size(filter(partitions, p -> p.committed_moved > 0))",
            "silent_partitions": f"size(filter(partitions, p -> {silent}))",
            "new_partitions": f"size(filter(partitions, p -> p.first_period = {NOW}))",
            "lags": "array_compact(transform(partitions, p -> cast(p.lag_messages AS double)))",
        },
        {
            "stuck_count": "size(stuck_partitions)",
            "stalled": "size(stuck_partitions) > 0",
            "typical_lag": f"CASE WHEN size(lags) > 0 THEN least({mean}, {lower_median('lags')}) END",
            "highest_lag": "array_max(lags)",
        },
        {
            "hot_partitions": f"transform(filter(partitions, p -> {hot}), p -> p.partition)",
            "hot_count": f"size(filter(partitions, p -> {hot}))",
        },
    ]


def _members(t: Thresholds) -> _Stages:
    """Members that do not poll, joined or left; and the cause of a rebalance storm."""
    hung = f"m.live AND m.poll_age_seconds > {t.poll_age_seconds}"
    paused = f"m.poll_age_high > {t.poll_age_seconds}"
    # Members that left, joined or restarted in the window. (Without a baseline, every member is new.)
    came_or_went = (
        "coalesce(m.restarts > 0, false) OR (m.last_seconds IS NOT NULL AND NOT m.live)"
        " OR (NOT m.in_baseline AND baseline_members > 0)"
    )
    return [
        {
            "hung_members": f"transform(filter(members, m -> {hung}), m -> m.member)",
            "paused_members": f"transform(filter(members, m -> {paused}), m -> m.member)",
            "changed_members": f"transform(filter(members, m -> {came_or_went}), m -> m.member)",
            "most_restarts": "array_max(transform(members, m -> m.restarts))",
            "known_members": "size(filter(members, m -> m.last_seconds IS NOT NULL))",
        },
        {
            # A deploy restarts many members once; a crash loop restarts the same ones; too rare polls restart none.
            # A slow deploy may have reached only a few members by the end of the window, but none of them twice.
            "storm_cause": f"""CASE
                WHEN size(changed_members) >= 2 AND (coalesce(most_restarts, 0) <= 1
                    OR 2 * size(changed_members) >= known_members AND most_restarts <= {t.deploy_restarts}) THEN 'deploy'
                WHEN size(changed_members) > 0 THEN 'member_crash'
                WHEN size(paused_members) > 0 THEN 'poll_stall'
                WHEN new_partitions > 0 AND new_partitions < partition_count THEN 'metadata_change' END""",
        },
    ]


def _queues(t: Thresholds) -> _Stages:
    """Full queues; a hot queue is full while most others of its processor and member are idle."""
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
            "full_queue_count": "CASE WHEN queue_fill IS NOT NULL THEN size(full_queues) END",
            "hot_queue_count": "CASE WHEN queue_fill IS NOT NULL THEN size(hot_queues) END",
            "delay_full": f"delay_fill >= {t.delay_fill_ratio} AND delay_high >= {t.delay_high_ratio}",
            "queue_long": f"queue_fill >= {t.queue_fill_ratio}",
            "entry_slow": f"enqueue_mean_seconds >= {t.enqueue_seconds}"
            f" AND enqueue_mean_seconds >= {t.enqueue_ratio} * coalesce(enqueue_baseline_seconds, 0)",
        },
    ]


def _processors(t: Thresholds) -> _Stages:
    """Slow processors: compared with their own baseline first, then with the slow-down of their peers."""
    peers = "transform(filter(processors, o -> o.processor != p.processor AND o.attempts > 0), o -> o.slow_down)"
    # A slow processor with an empty queue delays nothing.
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
            # If more than half of them are slow, it is no longer "one": question 10 covers that.
            "one_slow": "CASE WHEN size(slow_processors) > 0 AND (2 * size(slow_processors) <= size(processors)"
            " OR size(processors) = 1) THEN true WHEN known_count = 0 OR unknown_count > 0 THEN NULL ELSE false END",
            "slowest_seconds": "slowest.process_seconds",
            "slowest_baseline_seconds": "slowest.baseline_seconds",
            "slowest_slow_down": "slowest.slow_down",
            "peers_seconds": lower_median(f"transform({others}, p -> p.process_seconds)"),
            "peers_slow_down": lower_median(f"transform({others}, p -> p.slow_down)"),
        },
    ]
