"""Columns of what happened to the offsets, and of what arrives: losses, skips, resets, silence, bursts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from workbench.features.summary import ratio

if TYPE_CHECKING:
    from workbench.settings import Thresholds

_SKIP_RATE = 500.0  # messages/s
_UNREAD = 0.5  # of what a commit has passed


def events(t: Thresholds) -> Mapping[str, str]:
    """What happened to the offsets, and what arrives: losses, resets, silence, bursts."""

    def total(name: str, where: str = "true") -> str:
        return f"aggregate(filter(partitions, p -> p.story['{name}'] > 0 AND {where}), 0D, (sum, p) -> sum + p.story['{name}'])"

    fast = f"p.story['skip_pace'] >= {t.skip_pace_ratio}"
    half_as_fast = f"p.story['skip_pace'] >= {t.skip_pace_ratio / 2}"
    # As many records were handled as commits have passed, these included: they were read, however fast. That is known of the window.
    tried = "aggregate(processors, 0D, (sum, p) -> sum + coalesce(p.attempts, 0) - coalesce(p.retries, 0))"
    inside = "p.story['skip_inside'] = 1"
    handled = f"coalesce(committed_moved - {tried} <= {_UNREAD} * {total('skipped', inside)}, false)"
    sure = f"{fast} AND CASE WHEN {inside} THEN NOT {handled} ELSE {tried} = 0 END"
    unsure = f"{half_as_fast} AND NOT ({inside} AND {handled})"
    return {
        "lost_messages": total("lost"),
        # A slow topic's consumer has room to read whole hours in seconds, so the pace counts, too.
        "skipped_messages": f"CASE WHEN {total('skip_rate', sure)} >= {_SKIP_RATE} THEN {total('skipped', sure)} ELSE 0D END",
        # Half as fast is too fast to be sure that it was read.
        "doubtful_messages": f"CASE WHEN {total('skip_rate', sure)} >= {_SKIP_RATE} THEN 0D ELSE {total('skipped', unsure)} END",
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
