"""Second step: one row per measured entity (partition, member, queue, processor, group), with all its features.

One pass over the summary computes them all: a shuffle per kind of entity would cost more than the arithmetic.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from workbench.features.group_features import GROUP_FEATURES, MEMBER_DERIVED, MEMBER_FEATURES
from workbench.features.lag_features import (
    LOG_FEATURES,
    NO_STORY,
    PARTITION_DERIVED,
    PARTITION_FEATURES,
    STORY_OF_PARTITION,
    stale_seconds,
)
from workbench.features.queue_features import PROCESSOR_DERIVED, PROCESSOR_FEATURES, QUEUE_FEATURES
from workbench.features.summary_schema import signals_in
from workbench.features.timelag import bracketed_by_search, with_search, with_time_lag
from workbench.judgement_numbers import MISSED
from workbench.spark.parsed_sql_cache import aggregate, columns, extend

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_KEY = ("cluster", "`group`", "topic", "partition", "member", "processor", "queue")
_OF_PARTITIONS = {**PARTITION_FEATURES, **LOG_FEATURES}
_OF_OTHERS = {**GROUP_FEATURES, **MEMBER_FEATURES, **QUEUE_FEATURES, **PROCESSOR_FEATURES}
_FEATURES = {**_OF_PARTITIONS, **_OF_OTHERS, "story": STORY_OF_PARTITION}
# A heartbeat says no more than that its member is there.
_SIGNALS = (*signals_in({**_OF_PARTITIONS, **_OF_OTHERS}), "heartbeat_age")
# What a member tells of a processor is its queue's; how long a processor takes is the group's (`MEMBERLESS`).
_KIND = """CASE WHEN partition IS NOT NULL THEN 'partition'
                WHEN queue IS NOT NULL OR (processor IS NOT NULL AND member IS NOT NULL) THEN 'queue'
                WHEN processor IS NOT NULL THEN 'processor' WHEN member IS NOT NULL THEN 'member' ELSE 'group' END"""


def entities(summary: DataFrame, *, stale_after_seconds: float, present: Collection[str] | None = None) -> DataFrame:
    """Compute the features of all entities that belong to a group.

    Args:
        summary: of `features.condense_by_subscription`, where every subscription has its own rows, those of its logs among them.
        stale_after_seconds: a series whose last sample is older has ended.
        present: the signals of which there are rows; None: any. What the others would be is known before: two thirds of the features,
            where only a lag exporter tells.

    Returns:
        One row per entity: its labels, `kind` (partition | queue | processor | member | group), the features of its kind (null in the
        rows of other kinds), for members `live`, for partitions the time lag and the log's own features, and the inputs
        of these.
    """
    rows = aggregate(
        summary.where(*columns(f"signal IN {_SIGNALS} AND `group` IS NOT NULL")),
        _KEY,
        _FEATURES if present is None else _known_of(present),
    )
    derived = {**_of_partitions(stale_after_seconds), **_derived(stale_after_seconds, heard=_HEARD)}
    known = extend(rows, {"kind": _KIND, **derived})
    return with_time_lag(known, stale_after_seconds=stale_after_seconds)


def _known_of(present: Collection[str]) -> dict[str, str]:
    """All features; Spark makes constants of those that ask for other signals."""

    def asked(found: re.Match[str]) -> str:
        return found[0] if found[1] in present else "false"

    return {name: re.sub(r"signal = '(\w+)'", asked, sql) for name, sql in _FEATURES.items()}


# When anything of the group was measured last: a pause of all measurements, such as a restart of Prometheus, is no end of a member.
_HEARD = "least(max(coalesce(lag_last_seconds, last_seconds)) OVER (PARTITION BY cluster, `group`), 0D)"


def _of_partitions(stale_after_seconds: float) -> dict[str, str]:
    """Columns of partitions computed from their other features.

    Values without a recent sample count as unknown: an old last value would look like a stuck one. A commit that lies before the log's
    start stands for that start: what was deleted in between does not wait, nor does the mark of a transaction at the log's end.
    """
    stale = stale_seconds(stale_after_seconds, "lag_interval_seconds")
    committed = f"CASE WHEN committed_last_seconds >= -{stale} THEN committed_last END"
    # `greatest` and `least` pass over what is not known: nothing is deleted then, and an unknown lag stays unknown.
    unread = f"(greatest(log_start - ({committed}), 0D) + mark)"
    return {
        **PARTITION_DERIVED,
        "lag_messages": f"CASE WHEN lag_last_seconds >= -{stale} THEN lag_last - least({unread}, lag_last) END",
        "lag_recent_low": f"recent_low - least({unread}, recent_low)",
        "lag_recent_lowest": f"recent_lowest - least({unread}, recent_lowest)",
        "committed": f"({committed}) + {unread}",
        "last_stable": f"CASE WHEN stable_last_seconds >= -{stale} THEN stable_last END",
    }


def _derived(stale_after_seconds: float, *, heard: str = "0D") -> dict[str, str]:
    """Columns of members and processors computed from their other features; members are judged as of `heard` (seconds, ≤ 0)."""
    reports = f"coalesce(last_seconds >= {heard} - greatest({stale_after_seconds}, {MISSED} * coalesce(seen_every, 0)), false)"
    return {
        **MEMBER_DERIVED,
        **PROCESSOR_DERIVED,
        "live": f"({_KIND}) = 'member' AND {reports}",
        # A channel or an executor tells what waits in it, and not what it holds; tasks of a scheduler always wait.
        "queued_more": f"CASE WHEN capacity IS NULL AND {reports} THEN length_recent_low - length_usual END",
    }


def fleet_entities(summary: DataFrame, *, stale_after_seconds: float) -> DataFrame:
    """Compute the same for a fleet, which has many partitions and few other entities.

    Partitions have a separate pass: only numbers, which Spark sums without an object per row, and a join with the logs, searched by
    bisection. For a single triage one pass for all is faster; a fleet of 25,000 subscriptions took several times longer that way.
    """
    log = f"signal IN {signals_in(LOG_FEATURES)}"
    key = ("cluster", "topic", "partition")
    parts = summary.where(*columns(f"partition IS NOT NULL AND signal IN {signals_in(_OF_PARTITIONS)}"))
    # Both partitioned by the log's key: neither the join nor the aggregation of its groups then needs another shuffle.
    own = parts.where(*columns(f"NOT {log} AND `group` IS NOT NULL")).repartition(*key)
    counted = aggregate(own, ("cluster", "`group`", "topic", "partition"), PARTITION_FEATURES)
    logs = with_search(aggregate(parts.where(*columns(log)).repartition(*key), key, LOG_FEATURES))
    joined = extend(counted, {"story": NO_STORY}).join(logs.hint("shuffle_hash"), list(key), "left")
    known = extend(joined, {"kind": "'partition'", **_of_partitions(stale_after_seconds)})
    partitions = with_time_lag(known, stale_after_seconds=stale_after_seconds, brackets=bracketed_by_search)
    others = aggregate(
        summary.where(*columns(f"partition IS NULL AND `group` IS NOT NULL AND signal IN {_SIGNALS}")),
        _KEY,
        _OF_OTHERS,
    )
    others = extend(others, {"kind": _KIND, **_derived(stale_after_seconds)})
    return partitions.unionByName(others, allowMissingColumns=True)
