"""The last step: one wide row per subscription, with its partitions, members, queues and processors as arrays beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.features.entities import entities
from workbench.features.group import GROUP_FEATURES
from workbench.features.summary import aggregate, extend, ratio, summarise

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from workbench.window import Window

# The fields of the arrays' elements; the first ones decide the order.
PARTITION_FIELDS = (
    "topic",
    "partition",
    "committed",
    "log_end",
    "log_start",
    "lag_messages",
    "lag_low",
    "lag_mean",
    "lag_slope",
    "lag_samples",
    "lag_bad_samples",
    "lag_last_seconds",
    "committed_moved",
    "committed_samples",
    "committed_per_second",
    "arrival_per_second",
    "log_start_per_second",
    "time_lag_seconds",
    "time_lag_low",
    "time_lag_high",
    "time_lag_method",
    "oldest_incomplete_seconds",
    "fetch_queue_mean",
    "enqueue_sum",
    "enqueue_count",
    "enqueue_baseline_sum",
    "enqueue_baseline_count",
)
MEMBER_FIELDS = (
    "member",
    "live",
    "in_baseline",
    "heartbeat_age_seconds",
    "poll_age_seconds",
    "rebalances",
    "delay_fill",
    "rtt_seconds",
    "rtt_baseline_seconds",
    "rtt_broker",
    "throttle_seconds",
    "paused_mean",
)
QUEUE_FIELDS = ("processor", "member", "queue", "fill", "length_mean", "length_last", "capacity")
PROCESSOR_FIELDS = (
    "processor",
    "topic",
    "process_seconds",
    "baseline_seconds",
    "attempts",
    "rate_per_second",
    "slow_down",
    "retries",
)


def subscriptions(samples: DataFrame, window: Window, *, stale_after_seconds: float) -> DataFrame:
    """All features of all subscriptions in one plan.

    Args:
        samples: in `SAMPLES_STRUCT`.
        window: baseline and window.
        stale_after_seconds: a series whose last sample is older has ended.

    Returns:
        One row per (cluster, group, topic): the columns of `_overview` and `_people`, and the arrays `partitions`, `members`, `queues`,
        `processors`.
    """
    things = entities(summarise(samples, window), stale_after_seconds=stale_after_seconds)
    groups = aggregate(
        things,
        ["cluster", "`group`"],
        {
            "all_partitions": _collected("partition", PARTITION_FIELDS),
            "all_processors": _collected("processor", PROCESSOR_FIELDS),
            "members": _collected("member", MEMBER_FIELDS),
            "queues": _collected("queue", QUEUE_FIELDS),
            **{name: f"max({name})" for name in GROUP_FEATURES},
        },
    )
    # What has no lag and no commit (a topic that only the ends of its log are known of) is no subscription.
    topics = "array_distinct(transform(filter(all_partitions, p -> p.topic IS NOT NULL), p -> p.topic))"
    own = groups.selectExpr("*", f"explode({topics}) AS topic").selectExpr(
        "* EXCEPT (all_partitions, all_processors)",
        "filter(all_partitions, p -> p.topic = topic) AS partitions",
        f"""transform(filter(all_processors, p -> p.topic IS NULL OR p.topic = topic), p -> struct(
            {", ".join(f"p.{name} AS {name}" for name in PROCESSOR_FIELDS)},
            array_max(transform(filter(queues, q -> q.processor = p.processor), q -> q.fill)) AS fill,
            size(filter(queues, q -> q.processor = p.processor)) AS queues)) AS processors""",
    )
    return _people(_overview(own))


def _collected(kind: str, fields: tuple[str, ...]) -> str:
    return f"array_sort(collect_list(struct({', '.join(fields)})) FILTER (WHERE kind = '{kind}'))"


def _sum(array: str, field: str) -> str:
    """SQL for the sum of a field over an array; null if there is none to sum."""
    values = f"filter(transform({array}, x -> cast(x.{field} AS double)), x -> x IS NOT NULL)"
    return f"CASE WHEN size({values}) > 0 THEN aggregate({values}, 0D, (sum, x) -> sum + x) END"


def _max(array: str, field: str, condition: str = "true") -> str:
    return f"array_max(transform(filter({array}, x -> {condition}), x -> x.{field}))"


def _overview(own: DataFrame) -> DataFrame:
    """Partitions to subscriptions.

    Adds: `partition_count`, `lag_messages` (sum of the known ones), `lag_known_partitions`, `lag_slope`, `arrival_per_second`,
    `committed_moved` (sums), `lag_samples`, `lag_bad_samples`, `last_sample_age_seconds`, `oldest` (the partition with the longest time
    lag, as a struct), `time_lag_seconds` (its), `enqueue_mean_seconds`, `enqueue_baseline_seconds`, `fetch_queue_mean` (sum over
    partitions), `loss_seconds` (until retention deletes what is not committed, of the partition that it catches first, if both go on as
    they do; null while retention stands still).
    """
    closing = "(p.log_start_per_second - coalesce(p.committed_per_second, 0))"
    loss = (
        "array_min(transform(partitions, p -> CASE WHEN p.lag_messages > 0 AND"
        f" {closing} > 0 THEN greatest(p.committed - p.log_start, 0) / {closing} END))"
    )
    oldest = (
        "array_max(transform(filter(partitions, p -> p.time_lag_seconds IS NOT NULL), p -> struct("
        "p.time_lag_seconds AS time_lag_seconds, p.time_lag_low AS time_lag_low, p.time_lag_high AS time_lag_high,"
        " p.time_lag_method AS time_lag_method, p.partition AS partition)))"
    )
    rows = extend(
        own,
        {
            "partition_count": "cast(size(partitions) AS bigint)",
            "lag_messages": _sum("partitions", "lag_messages"),
            "lag_known_partitions": "size(filter(partitions, p -> p.lag_messages IS NOT NULL))",
            "lag_slope": _sum("partitions", "lag_slope"),
            "arrival_per_second": _sum("partitions", "arrival_per_second"),
            "committed_moved": _sum("partitions", "committed_moved"),
            "lag_samples": f"coalesce({_sum('partitions', 'lag_samples')}, 0D)",
            "lag_bad_samples": f"coalesce({_sum('partitions', 'lag_bad_samples')}, 0D)",
            "last_sample_age_seconds": f"-{_max('partitions', 'lag_last_seconds')}",
            "oldest": oldest,
            "oldest_incomplete_seconds": _max("partitions", "oldest_incomplete_seconds"),
            "fetch_queue_mean": _sum("partitions", "fetch_queue_mean"),
            "enqueue_mean_seconds": ratio(_sum("partitions", "enqueue_sum"), _sum("partitions", "enqueue_count")),
            "enqueue_baseline_seconds": ratio(
                _sum("partitions", "enqueue_baseline_sum"), _sum("partitions", "enqueue_baseline_count")
            ),
            "loss_seconds": loss,
        },
    )
    return extend(rows, {"time_lag_seconds": "oldest.time_lag_seconds"})


def _people(rows: DataFrame) -> DataFrame:
    """Members to groups.

    Adds: `live_members`, `baseline_members` (by their own signals), `poll_age_seconds` (of the most active one), `rebalances` (of the
    most disturbed one), `delay_fill` (of the fullest), `throttle_seconds`, `rtt_seconds`, `rtt_baseline_seconds` (of the member and
    broker with the longest).
    """
    return extend(
        rows,
        {
            "live_members": "size(filter(members, m -> m.live))",
            "baseline_members": "size(filter(members, m -> m.in_baseline))",
            "poll_age_seconds": "array_min(transform(filter(members, m -> m.live), m -> m.poll_age_seconds))",
            "rebalances": _max("members", "rebalances"),
            "delay_fill": _max("members", "delay_fill", "x.live"),
            "throttle_seconds": _max("members", "throttle_seconds"),
            "rtt_seconds": _max("members", "rtt_seconds"),
            "rtt_baseline_seconds": "array_max(transform(filter(members, m -> m.rtt_seconds IS NOT NULL),"
            " m -> struct(m.rtt_seconds AS rtt, m.rtt_baseline_seconds AS baseline))).baseline",
        },
    )
