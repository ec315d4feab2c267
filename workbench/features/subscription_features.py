"""Last step: one wide row per subscription, with its partitions, members, queues and processors as arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from workbench.features.entity_features import entities
from workbench.features.group_features import GROUP_FEATURES
from workbench.features.subscription_measurements import (
    MeasuredSubscription,
    MemberFeatures,
    PartitionFeatures,
    ProcessorFeatures,
    QueueFeatures,
    names_of,
)
from workbench.features.summary_schema import ratio
from workbench.spark.parsed_sql_cache import aggregate, columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_BY_GROUP = "OVER (PARTITION BY cluster, `group`)"
SUBSCRIPTION = ("cluster", "`group`", "topic")

# Fields of the arrays' elements; the first ones determine the order. A processor's fill comes from its queues and is added later.
_ELEMENTS = {
    "partition": names_of(PartitionFeatures),
    "processor": names_of(ProcessorFeatures, without=("fill",)),
    "member": names_of(MemberFeatures),
    "queue": names_of(QueueFeatures),
}


def of_summary(summary: DataFrame, *, stale_after_seconds: float, present: Collection[str] | None = None) -> DataFrame:
    """Compute all features of all subscriptions in one plan; arguments are those of `features.entity_features.entities`.

    Returns:
        One row per (cluster, group, topic): the columns of `features.subscription_measurements.MeasuredSubscription`.
    """
    things = entities(summary, stale_after_seconds=stale_after_seconds, present=present)
    grouped = aggregate(things, SUBSCRIPTION, {**OVERVIEW, **GROUP_COLUMNS, **_DETAILS})
    return _finished(grouped.where(*columns("partition_count > 0")))


def over_group(names: Iterable[str]) -> list[str]:
    """SQL that copies values of the group, which are in its row without a topic, to its rows with one.

    There they are null, 0, false or empty, so the maximum finds them.
    """
    return [f"max({name}) {_BY_GROUP} AS {name}" for name in names]


def in_order(things: DataFrame) -> DataFrame:
    """All entities of a group in one partition and always in the same order: sums of doubles depend on it."""
    order = ("cluster", "group", "topic", "kind", "partition", "member", "processor", "queue")
    return things.repartition("cluster", "group").sortWithinPartitions(*order)


def _finished(grouped: DataFrame) -> DataFrame:
    # Each processor with the fill and the number of its queues.
    with_fill = f"""transform(processors, p -> struct({", ".join(f"p.{name} AS {name}" for name in _ELEMENTS["processor"])},
        array_max(transform(filter(queues, q -> q.processor = p.processor), q -> q.fill)) AS fill))"""
    # A map cannot be sorted, so it is made at the end.
    named = ", ".join(f"p.{name} AS {name}" for name in _ELEMENTS["partition"] if name != "story")
    with_story = f"transform(partitions, p -> struct({named}, map_from_entries(p.story) AS story))"
    return grouped.select(
        *columns(
            "* EXCEPT (processors, partitions)",
            f"{with_fill} AS processors",
            f"{with_story} AS partitions",
            "oldest.time_lag_seconds AS time_lag_seconds",
        )
    )


_DETAILS = {
    f"{kind}s": f"array_sort(collect_list(struct({', '.join(names)})) FILTER (WHERE kind = '{kind}'))"
    for kind, names in _ELEMENTS.items()
}
_ENTRY = ratio("enqueue_sum", "enqueue_count")
_closing = "(log_start_per_second - coalesce(committed_per_second, 0))"

# Of the partitions, as `features.subscription_measurements.MeasuredSubscription` says; sums are of the known ones.
OVERVIEW = {
    "partition_count": "count(partition)",
    "lag_messages": "sum(lag_messages)",
    "lag_known_partitions": "count(lag_messages)",
    "lag_slope": "sum(lag_slope)",
    "lag_recent_low": "sum(lag_recent_low)",
    "lag_recent_lowest": "sum(lag_recent_lowest)",
    "lag_recent_slope": "sum(lag_recent_slope)",
    "arrival_per_second": "sum(arrival_per_second)",
    "arrival_recent_per_second": "sum(arrival_recent_per_second)",
    "arrival_baseline_per_second": "sum(arrival_baseline_per_second)",
    "committed_moved": "sum(committed_moved)",
    "committed_recent_per_second": "sum(committed_recent_per_second)",
    "lag_samples": "coalesce(sum(lag_samples), 0)",
    # A partition that never had a lag and has no known messages has no commit: the exporter's placeholder is right then.
    "lag_bad_samples": "coalesce(sum(CASE WHEN coalesce(lag_ever_samples, 0) = 0 AND coalesce(log_end <= log_start, true)"
    " THEN 0 ELSE lag_bad_samples END), 0)",
    "last_sample_age_seconds": "-max(lag_last_seconds)",
    "sample_interval_seconds": "max(lag_interval_seconds)",
    # What waits for an unknown time is never 0 s old.
    "oldest": "max_by(struct(time_lag_seconds, time_lag_low, time_lag_high, time_lag_method, partition),"
    " coalesce(time_lag_seconds, CASE WHEN lag_messages > 2 THEN 0.001D END))",
    "oldest_incomplete_seconds": "max(oldest_incomplete_seconds)",
    # librdkafka forwards the partitions of a member to one queue, and each of them shows its whole length: it counts once.
    "fetch_queue_mean": "CASE WHEN count(fetch_queue_mean) > 0"
    " THEN aggregate(array_sort(collect_set(fetch_queue_mean)), 0D, (sum, x) -> sum + x) END",
    # Of the partition with the longest time lag: one full queue delays only the partitions of its keys.
    "enqueue_mean_seconds": f"max({_ENTRY})",
    "enqueue_baseline_seconds": f"max_by({ratio('enqueue_baseline_sum', 'enqueue_baseline_count')}, {_ENTRY})",
    # By segments where the partition's story shows them; at the mean rate in a sweep's first pass.
    "loss_seconds": "min(CASE WHEN lag_messages > 0 THEN CASE WHEN story IS NOT NULL THEN loss_told"
    f" WHEN {_closing} > 0 THEN greatest(committed - log_start, 0) / {_closing} END END)",
}
_POLLERS = "count_if(live AND poll_age_seconds IS NOT NULL)"
# Of the group, likewise.
GROUP_COLUMNS = {
    **{name: f"max({name})" for name in GROUP_FEATURES if name in names_of(MeasuredSubscription)},
    # A count that commits have disproved is one of others: then those count that tell of their polls.
    "group_members": "coalesce(CASE WHEN max(count_disproved) IS NULL THEN max(group_members) END,"
    f" CASE WHEN max(count_disproved) = 1 AND {_POLLERS} > 0 THEN cast({_POLLERS} AS double) END)",
    "live_members": "count_if(live)",
    "baseline_members": "count_if(kind = 'member' AND in_baseline)",
    "queued_more": "max(queued_more)",
    "poll_age_seconds": "min(poll_age_seconds) FILTER (WHERE live)",
    "rebalances": "max(rebalances)",
    "rebalances_since": "max(rebalances_since)",
    "rebalanced_ago": "min(rebalanced_ago)",
    "rebalances_apart": "max(rebalances_apart)",
    "delay_fill": "max(delay_fill) FILTER (WHERE live)",
    "delay_high": "max(delay_high) FILTER (WHERE live)",
    "throttle_seconds": "max(throttle_seconds)",
    "rtt_seconds": "max(rtt_seconds)",
    # Of that member; one that came later has none of its own, and is compared with what the slowest of the others had.
    "rtt_baseline_seconds": "coalesce(max_by(rtt_baseline_seconds, rtt_seconds), max(rtt_baseline_seconds))",
}
