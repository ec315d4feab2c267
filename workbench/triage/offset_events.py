"""Columns of what happened to the offsets, and of what arrives: losses, skips, resets, silence, bursts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from workbench.features.summary import ratio

if TYPE_CHECKING:
    from workbench.settings import Thresholds

_SKIP_RATE = 50_000.0  # messages/s: more than most consumers handle
_UNREAD, _READ = 0.3, 0.6  # of what a commit has passed: counters and commits are not measured at the same moments
_CAPACITY = 3.0  # times what was read next, while still behind


def events(t: Thresholds) -> Mapping[str, str]:
    """What happened to the offsets, and what arrives: losses, resets, silence, bursts."""

    def total(name: str, where: str = "true") -> str:
        return f"aggregate(filter(partitions, p -> p.story['{name}'] > 0 AND {where}), 0D, (sum, p) -> sum + p.story['{name}'])"

    fast = f"p.story['skip_pace'] >= {t.skip_pace_ratio}"
    half_as_fast = f"p.story['skip_pace'] >= {t.skip_pace_ratio / 2}"
    # The handlers were counted: that decides, whatever the pace.
    counted = "p.story['skip_read'] IS NOT NULL"
    unread = f"coalesce(p.story['skip_read'] < {_UNREAD}, false)"
    # The first records of a new partition: nothing tells them from those that were read at once.
    new = "coalesce(p.story['skip_new'] = 1, false)"
    doubted = "coalesce(p.story['skip_doubt'] = 1, false)"
    # Who is behind reads as fast as it can, unless a quota holds it up afterwards.
    free = "NOT coalesce(throttle_seconds > 0, false)"
    too_much = f"coalesce(p.story['skip_capacity'] >= {_CAPACITY}, false) AND {free}"
    too_fast = f"({half_as_fast} OR {too_much} OR {new} OR {doubted})"
    unsure = f"CASE WHEN {counted} THEN p.story['skip_read'] BETWEEN {_UNREAD} AND {_READ} ELSE {too_fast} END"
    # Who can soon be asked needs no guess.
    early = "coalesce(p.story['skip_early'] = 1, false)"
    sure = f"(NOT {counted} AND {fast} AND NOT {new} AND NOT {early})"
    rate = f"{total('skip_rate', sure)} >= {_SKIP_RATE}"

    def those(where: str) -> str:
        return f"transform(filter(partitions, p -> p.story['skipped'] > 0 AND {where}), p -> p.partition)"

    return {
        "skipped_partitions": f"CASE WHEN {rate} THEN {those(f'({unread} OR {sure})')} ELSE {those(unread)} END",
        "doubtful_partitions": f"CASE WHEN {rate} THEN cast(array() AS array<int>) ELSE {those(unsure)} END",
        "lost_messages": total("lost"),
        # A slow topic's consumer has room to read whole hours in seconds, so the pace counts, too.
        "skipped_messages": f"{total('skipped', unread)} + CASE WHEN {rate} THEN {total('skipped', sure)} ELSE 0D END",
        # Half as fast is too fast to be sure that it was read.
        "doubtful_messages": f"CASE WHEN {rate} THEN 0D ELSE {total('skipped', unsure)} END",
        "back_messages": total("back"),
        "above_end_messages": total("above_end"),
        "quiet_seconds": "array_min(transform(partitions, p -> p.story['quiet']))",
        "usual_gap_seconds": "array_min(transform(partitions, p -> p.story['usual_gap']))",
        "arrival_ratio": ratio("arrival_per_second", "arrival_baseline_per_second"),
        "failing_share": ratio(
            "aggregate(processors, 0D, (sum, p) -> sum + coalesce(p.failed, 0))",
            "aggregate(processors, 0D, (sum, p) -> sum + coalesce(p.outcomes, 0))",
        ),
        "failing_baseline_share": ratio(
            "aggregate(processors, 0D, (sum, p) -> sum + p.failing_baseline * coalesce(p.outcomes, 0))",
            "aggregate(processors, 0D, (sum, p) -> sum + coalesce(p.outcomes, 0))",
        ),
    }
