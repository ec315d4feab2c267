"""Which subscriptions of a fleet need a closer look: everything that a triage of its own might call anything but healthy.

A sweep's first pass sees slots, not samples: no onset, no cadence, no jump of a commit. So it only clears what has never waited for
half an objective, in the window and in its baseline, with offsets that only went forward; the rest is judged from its samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.features.summary import ratio
from workbench.spark.columns import extend
from workbench.triage.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from workbench.settings import Thresholds

SCREEN = "needs_look"


def with_screen(answered: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Add the boolean `needs_look`.

    Args:
        answered: of `triage.engine.answered_fleet`.
        thresholds: of the tree.
    """
    waited = ratio("p.lag_ever_high", "p.arrival_per_second")
    half = f"{thresholds.growth_floor_ratio} * objective_seconds"
    unclear = (
        f"(p.lag_ever_high > 0 AND coalesce({waited} > {half}, true))"
        f" OR p.time_lag_seconds > {half}"
        " OR p.committed < p.committed_high OR p.log_end < p.log_end_high"
        " OR (p.lag_messages IS NOT NULL AND p.committed > p.log_end + 10)"
        " OR p.lag_bad_samples > 0 OR p.lag_messages IS NULL"
    )
    # An idle partition has nothing to wait for; one that was deleted reports nothing.
    idle = "coalesce(p.log_end <= p.log_start AND p.log_end = p.log_end_high, false)"
    group = (
        "(group_members_low = 0 AND usual_members > 0) OR group_state IN (2, 3)"
        " OR (arrival_recent_per_second = 0 AND arrival_baseline_per_second > 0)"
    )
    return extend(
        answered,
        {
            SCREEN: f"verdict != '{Verdict.HEALTHY}' OR coalesce({group}, false)"
            f" OR exists(partitions, p -> NOT {idle} AND coalesce({unclear}, true))"
        },
    )
