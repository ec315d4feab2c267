"""Second step: one row per measured entity (partition, member, queue, processor, group), with all its features.

One pass over the summary computes them all: a shuffle per kind of entity would cost more than the arithmetic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.features.group import GROUP_FEATURES, GROUP_SIGNALS, MEMBER_DERIVED, MEMBER_FEATURES, MEMBER_SIGNALS
from workbench.features.lag import LOG_FEATURES, PARTITION_DERIVED, PARTITION_FEATURES, PARTITION_SIGNALS
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
    """Compute the features of all entities that belong to a group.

    Args:
        summary: of `features.summarise`.
        stale_after_seconds: a series whose last sample is older has ended.

    Returns:
        One row per entity: its labels, `kind` (partition | queue | processor | member | group), the features of its kind (null in the
        rows of other kinds), for members `live`, for partitions the time lag and the log's own features, and the inputs
        of these.
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
    # The log is measured once for all its groups, in a row without a group: copy it to the rows of the groups. Rows of other entities
    # are partitioned by their group; otherwise they would all be in one task.
    log = "OVER (PARTITION BY cluster, topic, partition, CASE WHEN partition IS NULL THEN `group` END)"
    shared = ", ".join(LOG_FEATURES)
    spread = rows.select(
        *columns(
            f"* EXCEPT ({shared})",
            f"{_KIND} AS kind",
            *(f"any_value({name}, true) {log} AS {name}" for name in LOG_FEATURES if name != "history"),
            f"flatten(collect_list(history) {log}) AS history",
            # Values without a recent sample count as unknown: an old last value would look like a stuck one.
            f"CASE WHEN lag_last_seconds >= -{stale_after_seconds} THEN lag_last END AS lag_messages",
            f"CASE WHEN committed_last_seconds >= -{stale_after_seconds} THEN committed_last END AS committed",
            *(f"{sql} AS {name}" for name, sql in PARTITION_DERIVED.items()),
            *_derived(stale_after_seconds),
        )
    ).where(*columns("`group` IS NOT NULL"))
    return with_time_lag(spread, stale_after_seconds=stale_after_seconds)


def _derived(stale_after_seconds: float) -> list[str]:
    """Columns of members and processors that are computed from their other features."""
    derived = {
        **MEMBER_DERIVED,
        **PROCESSOR_DERIVED,
        "live": f"({_KIND}) = 'member' AND coalesce(last_seconds >= -{stale_after_seconds}, false)",
    }
    return [f"{sql} AS {name}" for name, sql in derived.items()]


def fleet_entities(summary: DataFrame, *, stale_after_seconds: float) -> DataFrame:
    """Compute the same for a fleet, which has many partitions and few other entities.

    Partitions have a separate pass: only numbers, which Spark sums without an object per row, and a join with the logs, searched by
    bisection. For a single triage one pass for all is faster; a fleet of 25,000 subscriptions took several times longer that way.
    """
    log = "signal IN ('log_end_offset', 'log_start_offset')"
    key = ("cluster", "topic", "partition")
    parts = summary.where(*columns(f"partition IS NOT NULL AND signal IN {PARTITION_SIGNALS}"))
    # Both partitioned by the log's key: neither the join nor the aggregation of its groups then needs another shuffle.
    own = parts.where(*columns(f"NOT {log} AND `group` IS NOT NULL")).repartition(*key)
    known = extend(
        aggregate(own, ("cluster", "`group`", "topic", "partition"), PARTITION_FEATURES),
        {
            "kind": "'partition'",
            **PARTITION_DERIVED,
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
