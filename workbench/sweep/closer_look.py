"""Which subscriptions of a fleet need a closer look: everything that a triage of its own might call anything but healthy.

A sweep's first pass sees slots, not samples: no onset, no cadence, no jump of a commit. So it only clears what has never waited for
half an objective, in the window and in its baseline, with commits that move and offsets that only went forward; the rest is judged
from its samples. No question of the tree is asked here: a plan without them takes half of the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.features.entity_features import fleet_entities
from workbench.features.lag_features import stale_seconds
from workbench.features.subscription_features import GROUP_COLUMNS, OVERVIEW, SUBSCRIPTION, in_order, over_group
from workbench.features.summary_schema import ratio
from workbench.judgement_numbers import APART, PAUSE_SECONDS
from workbench.settings_of_groups import NOTHING_EXPECTED, Expectations
from workbench.spark.parsed_sql_cache import aggregate, columns, extend

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from workbench.thresholds import Thresholds

SCREEN = "needs_look"
_FAILING_SHARE = 0.1  # of the threshold: what has just begun is a small part of a window
_SUMS = (
    "partition_count",
    "lag_messages",
    "lag_known_partitions",
    "lag_slope",
    "arrival_per_second",
    "arrival_recent_per_second",
    "arrival_baseline_per_second",
    "last_sample_age_seconds",
    "sample_interval_seconds",
    "oldest",
    "loss_seconds",
)
# Of the group: its rows have no topic.
_GROUP = {
    **{name: GROUP_COLUMNS[name] for name in ("group_members", "live_members", "baseline_members")},
    "left_alone": "coalesce(bool_or((group_members_low = 0 AND coalesce(greatest(usual_members, usual_fewest_members) > 0, true))"
    " OR group_state IN (2, 3)), false)",
    "group_failing": "coalesce(bool_or(CASE WHEN topic IS NULL THEN failing END), false)",
}


def screened(summary: DataFrame, thresholds: Thresholds, expectations: Expectations = NOTHING_EXPECTED) -> DataFrame:
    """One row per subscription of a fleet.

    Args:
        summary: of `features.summary_of_slots`.
        thresholds: of the tree.
        expectations: objectives of single groups.

    Returns:
        The labels, the columns of `_SUMS` (`features.subscription_features.OVERVIEW`), `group_members`, and the boolean `needs_look`.
    """
    things = extend(
        extend(
            fleet_entities(summary, stale_after_seconds=thresholds.stale_after_seconds),
            {"objective_seconds": expectations.objective_sql(thresholds.time_lag_objective_seconds)},
        ),
        {
            "unclear": _unclear(thresholds),
            "failing": f"failed > 0 AND failed >= {_FAILING_SHARE * thresholds.failing_ratio} * outcomes OR unnamed > 0",
        },
    )
    grouped = aggregate(
        in_order(things),
        SUBSCRIPTION,
        {
            **{name: OVERVIEW[name] for name in _SUMS},
            **_GROUP,
            "unclear": "coalesce(bool_or(unclear), false)",
            "failing": "coalesce(bool_or(failing), false)",
            "oldest_seconds": "min(lag_last_seconds)",
            "newest_seconds": "max(greatest(lag_last_seconds, log_end_last_seconds))",
        },
    )
    spread = grouped.select(*columns(f"* EXCEPT ({', '.join(_GROUP)})", *over_group(_GROUP))).where(
        *columns("partition_count > 0")
    )
    stale = stale_seconds(thresholds.stale_after_seconds, "sample_interval_seconds")
    missed = f"{APART}D * greatest({thresholds.stale_after_seconds}D, coalesce(sample_interval_seconds, 0D))"
    return extend(
        spread,
        {
            SCREEN: "unclear OR failing OR group_failing OR left_alone OR (live_members = 0 AND baseline_members > 0)"
            # Some are measured no more, while others are.
            f" OR coalesce(oldest_seconds < newest_seconds - {missed}, false)"
            " OR coalesce(arrival_recent_per_second = 0 AND arrival_baseline_per_second > 0, false)"
            f" OR lag_known_partitions = 0 OR coalesce(last_sample_age_seconds > {stale}, true)",
            "time_lag_seconds": "oldest.time_lag_seconds",
        },
    )


def _unclear(t: Thresholds) -> str:
    """SQL for a partition that is not certainly well; what is not known about it counts as unclear."""
    waited = ratio("lag_ever_high", "arrival_per_second")
    half = f"{t.growth_floor_ratio} * objective_seconds"
    soon = f"least(objective_seconds, {PAUSE_SECONDS})"
    still = "coalesce(moved_ago_seconds, committed_since_seconds) + committed_last_seconds"
    unclear = (
        "committed_last < log_start"
        f" OR (lag_ever_high > 0 AND coalesce({waited} > {half}, true))"
        f" OR time_lag_seconds > {half}"
        " OR committed < committed_high OR log_end < log_end_high"
        " OR (lag_messages IS NOT NULL AND committed > log_end + 10)"
        " OR lag_ever_bad > 0 OR lag_messages IS NULL"
        # Began in the data: what it passed before its first commit is to be seen.
        " OR coalesce(first_period > 0, false)"
        f" OR (lag_messages > 0 AND {still} >= {soon} AND time_lag_seconds >= {soon})"
    )
    # An idle partition has nothing to wait for, and has lost nothing in the data; one that was deleted reports nothing.
    idle = "coalesce(log_end <= log_start AND log_end = log_end_high, false)"
    lost = "coalesce(committed_last < log_start AND log_start_per_second > 0, false)"
    return f"kind = 'partition' AND ({lost} OR NOT {idle} AND coalesce({unclear}, true))"
