"""Columns about the members of a group: which hang, which came or went, and what a rebalance storm comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from workbench.features.summary import ratio
from workbench.signals import GROUP_STATES
from workbench.triage.own_work import READ

if TYPE_CHECKING:
    from workbench.settings import Thresholds


SOONEST_SECONDS = 90.0  # a rebalance or a long garbage collection takes some tens of seconds
_KEEPS_UP = (
    "p.arrival_per_second > 0 AND coalesce(p.story['late'] = 0 AND p.story['pauses'] = 0, false)"
    " AND NOT array_contains(behind_partitions, p.partition) AND NOT array_contains(standing_partitions, p.partition)"
    " AND NOT array_contains(frozen_partitions, p.partition)"
    " AND p.moved_ago_seconds + p.committed_last_seconds <= 2 * greatest(p.committed_interval_seconds, coalesce(p.cadence_seconds, 0))"
)
_NEXT_BATCH = 1.5  # times the longest so far, of any member: all run the same program
_MEMBERS = "nullif(group_members, 0)"
_OTHERS = 0.3  # times as long ago
_AS_LONG = 0.7  # times as long as the partitions that have stopped
_STOPPED = "array_contains(frozen_partitions, p.partition)"


def membership(t: Thresholds) -> Sequence[Mapping[str, str]]:
    """Members that do not poll, joined or left; and the cause of a rebalance storm."""
    # Some handlers take minutes: what is usual is no hang.
    hung = (
        "m.live AND m.poll_age_seconds IS NULL AND m.stats_stand"
        f" OR m.live AND m.poll_age_seconds > greatest({t.poll_age_seconds}, 1.5 * coalesce(m.poll_age_usual, 0))"
        # Without a good time to compare with: not once in the whole window.
        f" AND (m.poll_age_usual IS NOT NULL OR m.poll_age_low > {t.poll_age_seconds})"
        # Nor is a batch of slow records, after which it polls again. The next one has what has arrived in the meantime: the more the
        # group falls behind, the longer.
        f" AND NOT coalesce(own_work AND m.poll_age_seconds <= greatest({_NEXT_BATCH}, {ratio('arrival_per_second', READ)})"
        " * array_max(transform(filter(members, o -> o.live), o -> o.poll_age_ended)), false)"
        # Where most are behind, a member that hangs leaves all of its own standing, which are as many as anybody's.
        " AND NOT coalesce(own_work AND 2 * size(behind_partitions) > partition_count"
        f" AND size(frozen_partitions) < floor(size(filter(partitions, p -> p.arrival_per_second > 0)) / {_MEMBERS}), false)"
    )
    # Its handlers finish nothing, while others do, and as many partitions as it may own have stopped.
    idle = (
        "m.live AND forall(members, o -> o.poll_age_seconds IS NULL AND o.stats_stand IS NULL)"
        f" AND m.worked_ago_seconds >= least(objective_seconds, {SOONEST_SECONDS})"
        f" AND exists(members, o -> o.worked_ago_seconds <= {_OTHERS} * m.worked_ago_seconds)"
        " AND group_members <= partition_count AND size(frozen_partitions) >="
        f" greatest(1, floor(partition_count / {_MEMBERS}))"
        f" AND m.worked_ago_seconds >= {_AS_LONG} * array_min(transform(filter(partitions, p -> {_STOPPED}), p -> p.moved_ago_seconds))"
    )
    paused = f"m.poll_age_high > {t.poll_age_seconds}"
    # Members that left, joined or restarted in the window. (Without a baseline, every member is new.)
    came_or_went = (
        "coalesce(m.restarts > 0, false) OR (m.last_seconds IS NOT NULL AND NOT m.live)"
        " OR (NOT m.in_baseline AND baseline_members > 0)"
    )
    return [
        {
            "idle_members": f"transform(filter(members, m -> coalesce({idle}, false)), m -> m.member)",
            # Members that wait for each other, most of the time and now.
            "rejoining": f"group_state IN ({GROUP_STATES['preparing_rebalance']}, {GROUP_STATES['completing_rebalance']})"
            " AND group_state_mean < 3.2",
            "paused_members": f"transform(filter(members, m -> {paused}), m -> m.member)",
            "changed_members": f"transform(filter(members, m -> {came_or_went}), m -> m.member)",
            # Started after the baseline, and gone again: a crash loop under new names.
            "passing_members": "size(filter(members, m -> NOT m.in_baseline AND m.last_seconds IS NOT NULL AND NOT m.live))",
            "most_restarts": "array_max(transform(members, m -> m.restarts))",
            "known_members": "size(filter(members, m -> m.last_seconds IS NOT NULL))",
        },
        {
            "hung_members": f"transform(filter(members, m -> {hung}), m -> m.member)",
            # A rebalance stops all partitions, or moves them between members that come and go. What has surely been stuck for so
            # long was not moved, whichever its members are.
            "most_keep_up": f"coalesce(2 * size(filter(partitions, p -> {_KEEPS_UP})) >= partition_count"
            " AND size(changed_members) = 0 AND (known_members > 0 OR size(stuck_partitions) > 0), false)",
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
