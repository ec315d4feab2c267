"""Outliers: partitions, processors and queues compared with their peers and their own baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

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
    objective = expectations.sql("time_lag_objective", thresholds.time_lag_objective_seconds)
    commit_every = expectations.sql("commit_every", thresholds.commit_every_seconds)
    first = {
        "objective_seconds": objective,
        "commit_every_seconds": commit_every,
        # Four of the later columns need it.
        "frozen_partitions": f"transform(filter(partitions, p -> {_frozen(objective, commit_every)}), p -> p.partition)",
    }
    features = extend(features, first)
    stages = [
        _lag(thresholds),
        _partitions(thresholds),
        _members(thresholds),
        _queues(thresholds),
        _processors(thresholds),
    ]
    for columns in zip_longest(*stages, fillvalue=_NOTHING):  # columns of one stage do not depend on each other
        features = extend(features, {name: sql for part in columns for name, sql in part.items()})
    return features


_IS_FROZEN = "array_contains(frozen_partitions, p.partition)"
_SECOND_LOW = 1.5  # times the floor
_NOTHING: Mapping[str, str] = {}
_Stages = Sequence[Mapping[str, str]]


def _lag(t: Thresholds) -> _Stages:
    """Late, growing, draining, abandoned: the parts of "is it lagging".

    All of them use the lows of the last third of the window. Commits at long intervals make a sawtooth whose lows return to nearly 0,
    and a single odd sample must neither cause a verdict nor prevent one.
    """
    # A group that commits every ten minutes is up to ten minutes behind in the best of times.
    floor = f"({t.growth_floor_ratio} * objective_seconds + commit_every_seconds)"
    # The lag divided by the arrival rate replaces the time lag where that is not known, or has a single sample.
    waited = _waited("p.lag_recent_low", "p.arrival_per_second")
    surely = _waited("p.lag_recent_low", "p.arrival_per_second", at_least=True)
    lowest = _waited("p.lag_recent_lowest", "p.arrival_per_second")
    objective = "(objective_seconds + commit_every_seconds)"
    # Between two commits of a sawtooth there is at least one low near 0, and a second one not much above it.
    kept_up = f"({{lowest}} <= {floor} AND {{second}} <= {_SECOND_LOW} * {floor})"
    late = (
        f"{_IS_FROZEN} OR (p.time_lag_seconds > {objective} AND NOT coalesce({kept_up.format(lowest=lowest, second=waited)}, false))"
        f" OR coalesce({surely} > {objective}, CASE WHEN p.time_lag_seconds IS NOT NULL THEN false END)"
    )
    # Empty, or never committed with no arrivals: nothing can be late there.
    idle = (
        "coalesce(p.log_end <= p.log_start, false)"
        " OR (coalesce(p.lag_ever_samples, 0) = 0 AND coalesce(p.arrival_per_second = 0, false))"
    )
    share = f"{t.growth_ratio} * greatest(arrival_per_second, 1)"
    # A sum hides the partition that does not shrink.
    behind = f"p.time_lag_seconds > {objective} AND p.lag_messages > 0"
    not_shrinking = f"{_IS_FROZEN} OR ({behind} AND p.lag_slope > 0 AND p.lag_recent_slope > 0)"
    to_drain = ratio("lag_messages", "-least(lag_slope, coalesce(lag_recent_slope, lag_slope))")
    return [
        {
            # The D and the 1e-9: as a decimal, a third of 12 would be 3.9999 and become 3.
            "few_partitions": f"greatest(1, floor(partition_count * {t.few_partitions_ratio!r}D + 1e-9D))",
            "all_shrink": f"NOT exists(partitions, p -> {not_shrinking})",
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
            " AND committed_moved > 0 AND coalesce(all_shrink, true)"
            # An end that is days away, or after the loss of messages, calms nobody.
            f" AND coalesce({to_drain} <= greatest({_LONGEST_DRAIN_SECONDS}, 2 * coalesce(time_lag_seconds, 0)), true)"
            f" AND coalesce({to_drain} < loss_seconds, true)",
        },
    ]


_SCRAPES = 2  # one may fall between two commits
_SOONEST_SECONDS = 90.0  # a rebalance or a long garbage collection takes some tens of seconds
_LONGEST_DRAIN_SECONDS = 3600.0


def _frozen(objective: str, commit_every: str) -> str:
    """SQL for a partition whose commit has stopped, for twice its usual rhythm, while messages wait as long.

    Without a rhythm (no commit has moved, and none is expected) this is not known, and counts as false.
    """
    rhythm = f"CASE WHEN {commit_every} > 0 THEN {commit_every} ELSE p.cadence_seconds END"
    patience = (
        f"greatest(2 * ({rhythm}), {_SCRAPES} * coalesce(p.committed_interval_seconds, 0),"
        f" least({objective}, {_SOONEST_SECONDS}))"
    )
    # Up to the last sample: what came after it is not known.
    still = "(coalesce(p.moved_ago_seconds, p.committed_since_seconds) + p.committed_last_seconds)"
    return (
        f"coalesce(p.committed IS NOT NULL AND p.lag_messages > 0 AND ({rhythm}) IS NOT NULL AND {still} >= {patience}"
        f" AND coalesce(p.time_lag_seconds > {patience}, p.lag_recent_lowest > 0), false)"
    )


def _waited(low: str, arrival: str, *, at_least: bool = False) -> str:
    """SQL for the time that the arrivals took to make this lag: 0 without lag, null for a lag without arrivals.

    The oldest of n messages arrived at least n - 1 intervals ago (`at_least`), and at most n. With rare messages this is the difference
    between now and a minute ago.
    """
    oldest = f"greatest({low} - 1, 0)" if at_least else low
    return f"CASE WHEN {low} = 0 THEN 0D ELSE {ratio(oldest, arrival)} END"


def _partitions(t: Thresholds) -> _Stages:
    """Stuck partitions: lag all the time, and no commit advanced. Hot partitions: far more lag than is typical."""
    floor = f"({t.growth_floor_ratio} * objective_seconds + 2 * commit_every_seconds)"
    # Slow events hold commits up for a while, too, so a frozen partition is not stuck yet: the questions about queues come first.
    # In a short window (or with a long commit interval) a missing commit proves nothing; hence the age.
    stuck = (
        "(p.lag_recent_low > 0 AND p.committed_moved = 0 AND p.committed_samples >= 3"
        f" AND coalesce(p.time_lag_seconds > {floor}, true))"
    )
    silent = "p.lag_recent_low > 0 AND coalesce(p.committed_samples, 0) < 3"
    mean = "aggregate(lags, 0D, (sum, x) -> sum + x) / size(lags)"
    hot = f"p.lag_messages > {t.hot_factor} * typical_lag AND p.lag_messages > {t.hot_floor_messages}"
    return [
        {
            "stuck_partitions": f"transform(filter(partitions, p -> {stuck}), p -> p.partition)",
            "moving_partitions": f"size(filter(partitions, p -> p.committed_moved > 0 AND NOT {_IS_FROZEN}))",
            "silent_partitions": f"size(filter(partitions, p -> {silent}))",
            "new_partitions": f"size(filter(partitions, p -> p.first_period = {NOW}))",
            "lags": "array_compact(transform(partitions, p -> cast(p.lag_messages AS double)))",
        },
        {
            "stuck_count": "size(stuck_partitions)",
            "stalled": "size(stuck_partitions) > 0 OR size(frozen_partitions) > 0",
            "frozen_count": "size(frozen_partitions)",
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
