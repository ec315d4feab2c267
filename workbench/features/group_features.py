"""Features of groups and members: membership, polls, rebalances and network."""

from __future__ import annotations

from workbench.features.lag_features import FETCHED
from workbench.features.summary_schema import NOW, STORY, lasted, lower_median, of, quarters, ratio
from workbench.judgement_numbers import FEW_SAMPLES
from workbench.signals import GROUP_STATES

_EMPTY = GROUP_STATES["empty"]
_RTT, _REMOTE = "broker_rtt", "remote_reads"
_STANDS = (
    "bool_and(last = recent_lowest AND abs(recent_slope) < 1e-12)"
    f" FILTER (WHERE signal = '{_RTT}' AND period = {NOW} AND samples >= {FEW_SAMPLES})"
)


def _stopped(signal: str, *, baseline: bool = False) -> str:
    """SQL for the share of all periods, or of the time, in which the group's processes stood still, all of them together."""
    stopped, every = (of("sum", "increase", signal, stat=it, baseline=baseline) for it in ("stopped", "all"))
    return ratio(stopped, every)


def _restarts(period: int) -> str:
    """SQL for how often a member started anew: by the start times of its process if they are known, else by counter resets."""
    starts, resets = of("max", "starts", "start_time", period=period), of("max", "resets", "rebalances", period=period)
    return f"coalesce({starts} - 1, {resets})"


def _members(counted: str, state: str, *, some: int | None = None) -> str:
    """SQL for a number of members; where none are counted, 0 for a group whose state says that it has none, else `some`."""
    has_some = f" WHEN {state} > {_EMPTY} THEN {some}" if some is not None else ""
    return f"coalesce({counted}, CASE WHEN {state} <= {_EMPTY} THEN 0{has_some} END)"


# Of the group, as `features.subscription_measurements.MeasuredSubscription` says (the state: `signals.GROUP_STATES`).
GROUP_FEATURES = {
    "group_members": _members(of("max", "last", "group_members"), of("max", "last", "group_state")),
    "group_members_recent": _members(
        of("max", "last_two_high", "group_members"), of("max", "last_two_high", "group_state")
    ),
    "group_members_low": _members(of("min", "low", "group_members"), of("min", "low", "group_state")),
    "group_state": of("max", "last", "group_state"),
    "reassigning_low": of("min", "low", "reassigning_partitions"),
    "read_quota_per_second": of("max", "last", "read_quota"),
    "remote_bytes_per_second": ratio(of("sum", "increase", _REMOTE), lasted(_REMOTE)),
    "remote_bytes_before": ratio(of("sum", "increase", _REMOTE, baseline=True), lasted(_REMOTE, baseline=True)),
    "restoring_messages": of("max", "last", "restoring"),
    "restoring_per_second": of("max", "recent_slope", "restoring"),
    "cpu_stopped_share": _stopped("cpu_periods"),
    "cpu_stopped_before": _stopped("cpu_periods", baseline=True),
    "gc_share": _stopped("gc_time"),
    "gc_share_before": _stopped("gc_time", baseline=True),
    "group_state_mean": of("max", "mean", "group_state"),
    "usual_fewest_members": _members(
        lower_median(quarters("low", "group_members")), lower_median(quarters("low", "group_state")), some=1
    ),
    "usual_members": lower_median(quarters("mean", "group_members")),
    # How the subscription is judged (`features.condense_by_subscription`).
    "onset_seconds": of("min", "last", STORY, stat="group_onset"),
    "without_baseline": of("max", "last", STORY, stat="group_without_baseline"),
    "work_since_onset": of("max", "last", STORY, stat="group_work_since_onset"),
    "count_disproved": of("max", "last", STORY, stat="group_count_disproved"),
    "emptied": of("max", "last", STORY, stat="group_emptied"),
    "rejoined": of("max", "last", STORY, stat="group_rejoined"),
    "comes_again": of("max", "last", STORY, stat="group_comes_again"),
    "repeated_seconds": of("max", "last", STORY, stat="group_repeated"),
    "shared_stand_seconds": of("max", "last", STORY, stat="group_shared_stand"),
}

# As `features.subscription_measurements.MemberFeatures` says; `seen_every` is the time between two samples of a member, in seconds.
MEMBER_FEATURES = {
    "poll_age_seconds": of("max", "last", "poll_age"),
    "first_seconds": f"min(first_seconds) FILTER (WHERE period = {NOW})",
    "last_seconds": f"max(last_seconds) FILTER (WHERE period = {NOW})",
    "seen_every": f"min((last_seconds - first_seconds) / (samples - 1)) FILTER (WHERE period = {NOW} AND samples > 2)",
    "poll_age_high": of("max", "high", "poll_age"),
    "poll_age_low": of("min", "low", "poll_age"),
    "poll_age_usual": lower_median(quarters("high", "poll_age")),
    "rebalances": of("max", "increase", "rebalances"),
    "rebalances_since": f"sum(increase) FILTER (WHERE signal = 'rebalances' AND period >= {NOW})",  # the onset
    "rebalanced_ago": f"-{of('max', 'moved_seconds', 'rebalances')}",
    "rebalances_apart": of("max", "longest_gap", "rebalances"),
    "restarts": _restarts(NOW),
    "restarts_before": _restarts(NOW - 1),
    "in_baseline": f"min(period) < {NOW}",
    "delay_fill": ratio(of("max", "mean", "delayed_length"), of("max", "last", "delayed_capacity")),
    "delayed_capacity": of("max", "last", "delayed_capacity"),
    "delay_high": ratio(of("max", "high", "delayed_length"), of("max", "last", "delayed_capacity")),
    "rtt_seconds": of("max", "mean", _RTT),
    "rtt_broker": f"max_by(broker, mean) FILTER (WHERE signal = '{_RTT}' AND period = {NOW})",
    "rtt_quarters": quarters("mean", _RTT),
    "throttle_seconds": of("max", "mean", "throttle_time"),
    "paused_mean": of("max", "mean", "paused_partitions"),
    "poll_idle": of("max", "mean", "poll_idle"),
    "worked_ago_seconds": f"-{of('max', 'last', STORY, stat='member_worked')}",
    "against_peers": of("max", "last", STORY, stat="member_against_peers"),
    "busy": of("max", "last", STORY, stat="member_busy"),
    "held_seconds": f"-{of('max', 'last', STORY, stat='member_held')}",
    **FETCHED,  # of a client that tells one number for all of its partitions
    # A client's statistics that stay as they are, although they used to change: it does not serve them any more.
    "stats_stand": f"CASE WHEN NOT {_STANDS} THEN false"
    f" WHEN bool_or(low != high) FILTER (WHERE signal = '{_RTT}' AND period < {NOW}) THEN {_STANDS} END",
}
MEMBER_DERIVED = {"rtt_baseline_seconds": lower_median("rtt_quarters")}
