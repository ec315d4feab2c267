"""The second step: one row per thing that is measured (partition, member, queue, processor, group), with all its features.

One pass over the summary computes them all: a shuffle for each kind of thing would cost more than the arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.features.group import GROUP_FEATURES, GROUP_SIGNALS, MEMBER_DERIVED, MEMBER_FEATURES, MEMBER_SIGNALS
from workbench.features.lag import LOG_FEATURES, PARTITION_FEATURES, PARTITION_SIGNALS
from workbench.features.queues import (
    PROCESSOR_DERIVED,
    PROCESSOR_FEATURES,
    PROCESSOR_SIGNALS,
    QUEUE_FEATURES,
    QUEUE_SIGNALS,
)
from workbench.features.timelag import bracketed_by_search, with_search, with_time_lag
from workbench.spark.columns import aggregate, columns, extend

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEY = ("cluster", "`group`", "topic", "partition", "member", "processor", "queue")
_SIGNALS = (*PARTITION_SIGNALS, *GROUP_SIGNALS, *MEMBER_SIGNALS, *QUEUE_SIGNALS, *PROCESSOR_SIGNALS)
_KIND = """CASE WHEN partition IS NOT NULL THEN 'partition' WHEN queue IS NOT NULL THEN 'queue'
                WHEN processor IS NOT NULL THEN 'processor' WHEN member IS NOT NULL THEN 'member' ELSE 'group' END"""


def entities(summary: DataFrame, *, stale_after_seconds: float) -> DataFrame:
    """Features of all things that belong to a group.

    Args:
        summary: of `features.summarise`.
        stale_after_seconds: a series whose last sample is older has ended.

    Returns:
        One row per thing: its labels, `kind` (partition | queue | processor | member | group), the features of its kind (null in the
        rows of other kinds), for members `live`, and for partitions the time lag and the log's own features; and what
        these were made of.
    """
    rows = aggregate(
        summary.where(*columns(f"signal IN {_SIGNALS}")),
        _KEY,
        {
            **PARTITION_FEATURES,
            **LOG_FEATURES,
            **GROUP_FEATURES,
            **MEMBER_FEATURES,
            **QUEUE_FEATURES,
            **PROCESSOR_FEATURES,
        },
    )
    # The log is measured once for all its groups, in a row without a group: hand it to the rows of the groups. Rows that are no
    # partition's are kept apart by their group, or they would all meet in one place.
    log = "OVER (PARTITION BY cluster, topic, partition, CASE WHEN partition IS NULL THEN `group` END)"
    shared = ", ".join(LOG_FEATURES)
    spread = rows.select(
        *columns(
            f"* EXCEPT ({shared})",
            f"{_KIND} AS kind",
            *(f"any_value({name}, true) {log} AS {name}" for name in LOG_FEATURES if name != "history"),
            f"flatten(collect_list(history) {log}) AS history",
            # What has not been reported for a while is not known any more: a last value would pass for a standing still.
            f"CASE WHEN lag_last_seconds >= -{stale_after_seconds} THEN lag_last END AS lag_messages",
            f"CASE WHEN committed_last_seconds >= -{stale_after_seconds} THEN committed_last END AS committed",
            *_derived(stale_after_seconds),
        )
    ).where(*columns("`group` IS NOT NULL"))
    return with_time_lag(spread, stale_after_seconds=stale_after_seconds)


def _derived(stale_after_seconds: float) -> list[str]:
    """Columns of members and processors that are made of their other features."""
    derived = {
        **MEMBER_DERIVED,
        **PROCESSOR_DERIVED,
        "live": f"({_KIND}) = 'member' AND coalesce(last_seconds >= -{stale_after_seconds}, false)",
    }
    return [f"{sql} AS {name}" for name, sql in derived.items()]


def fleet_entities(summary: DataFrame, *, stale_after_seconds: float) -> DataFrame:
    """The same for a fleet, where partitions are many and everything else is little.

    Partitions have a pass of their own: only numbers, which Spark adds up without an object for each, and a join with the logs that
    are looked through by halving. One triage has less to do with one pass for all; a fleet of 25,000 took several times longer so.
    """
    log = "signal IN ('log_end_offset', 'log_start_offset')"
    key = ("cluster", "topic", "partition")
    parts = summary.where(*columns(f"partition IS NOT NULL AND signal IN {PARTITION_SIGNALS}"))
    # By the log's key for both: the join finds them in place, and so does the aggregation of what the groups read of it.
    own = parts.where(*columns(f"NOT {log} AND `group` IS NOT NULL")).repartition(*key)
    known = extend(
        aggregate(own, ("cluster", "`group`", "topic", "partition"), PARTITION_FEATURES),
        {
            "kind": "'partition'",
            "lag_messages": f"CASE WHEN lag_last_seconds >= -{stale_after_seconds} THEN lag_last END",
            "committed": f"CASE WHEN committed_last_seconds >= -{stale_after_seconds} THEN committed_last END",
        },
    )
    logs = with_search(aggregate(parts.where(*columns(log)).repartition(*key), key, LOG_FEATURES))
    joined = known.join(logs.hint("shuffle_hash"), list(key), "left")
    partitions = with_time_lag(joined, stale_after_seconds=stale_after_seconds, brackets=bracketed_by_search)
    others = aggregate(
        summary.where(*columns(f"partition IS NULL AND `group` IS NOT NULL AND signal IN {_SIGNALS}")),
        _KEY,
        {**GROUP_FEATURES, **MEMBER_FEATURES, **QUEUE_FEATURES, **PROCESSOR_FEATURES},
    ).select(*columns("*", f"{_KIND} AS kind", *_derived(stale_after_seconds)))
    return partitions.unionByName(others, allowMissingColumns=True)
