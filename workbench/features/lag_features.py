"""Features of partitions: lag in messages, its trend, and commits.

A feature is a name and its SQL over the summary's rows; `features.entity_features` computes them all in one pass.
"""

from __future__ import annotations

from workbench.features.summary_schema import STORY, lasted, lower_median, of, quarters, ratio, spread
from workbench.judgement_numbers import APART, STALE, USUAL_SECONDS

_LAG, _COMMITTED, _TIME_LAG, _ENQUEUE = "consumer_lag", "committed_offset", "time_lag", "enqueue_time"
_END, _START, _STABLE = "log_end_offset", "log_start_offset", "last_stable_offset"
_LOCAL = "local_start_offset"

# Messages that were fetched and wait in a client.
FETCHED = {
    "fetch_queue_mean": of("max", "mean", "fetch_queue_length"),
    "fetch_queue_recent_low": of("max", "recent_lowest", "fetch_queue_length"),
}
# `features.subscription_measurements.PartitionFeatures` and what it is made of, over the window unless noted; `gap_quarters`
# are the longest times between two changes of the commit in each quarter of the baseline.
PARTITION_FEATURES = {
    "lag_last": of("max", "last", _LAG),
    "lag_mean": of("avg", "mean", _LAG),
    "lag_slope": of("max", "slope", _LAG),
    "recent_low": of("max", "recent_low", _LAG),
    "recent_lowest": of("max", "recent_lowest", _LAG),
    "lag_recent_slope": of("max", "recent_slope", _LAG),
    "lag_samples": of("sum", "samples", _LAG),
    "lag_bad_samples": of("sum", "bad_samples", _LAG),
    "lag_ever_bad": of("sum", "bad_samples", _LAG, period=None),
    "lag_ever_high": of("max", "high", _LAG, period=None),
    "committed_high": of("max", "high", _COMMITTED, period=None),
    "lag_ever_samples": of("sum", "samples", _LAG, period=None),
    "first_period": "min(period)",
    "lag_last_seconds": of("max", "last_seconds", _LAG),
    "lag_interval_seconds": ratio(
        f"{of('max', 'last_seconds', _LAG)} - {of('min', 'first_seconds', _LAG, period=None)}",
        f"{of('sum', 'samples', _LAG, period=None)} - 1",
    ),
    "committed_last": of("max", "last", _COMMITTED),
    "committed_last_seconds": of("max", "last_seconds", _COMMITTED),
    "committed_moved": spread(_COMMITTED),
    "committed_samples": of("sum", "samples", _COMMITTED),
    "committed_interval_seconds": ratio(lasted(_COMMITTED), f"{of('sum', 'samples', _COMMITTED)} - 1"),
    "committed_since_seconds": f"-{of('min', 'first_seconds', _COMMITTED, period=None)}",
    "moved_ago_seconds": f"-{of('max', 'moved_seconds', _COMMITTED, period=None)}",
    "gap_now": of("max", "longest_gap", _COMMITTED),
    "gap_quarters": quarters("longest_gap", _COMMITTED),
    "loss_told": of("max", "last", STORY, stat="loss_in"),
    "other_clock": of("max", "last", STORY, stat="other_clock"),
    "mark": f"coalesce({of('max', 'last', STORY, stat='mark')}, 0D)",
    "cadence_told": of("max", "last", STORY, stat="cadence"),
    "committed_per_second": of("max", "slope", _COMMITTED),
    "committed_recent_per_second": of("max", "recent_slope", _COMMITTED),
    "time_lag_exact_seconds": of("max", "last", _TIME_LAG, stat="value"),
    "time_lag_age_seconds": f"-{of('max', 'last_seconds', _TIME_LAG, stat='value')}",
    "time_lag_told_seconds": of("max", "last", _TIME_LAG, stat="estimate"),
    "time_lag_told_age_seconds": f"-{of('max', 'last_seconds', _TIME_LAG, stat='estimate')}",
    "oldest_incomplete_seconds": of("max", "last", "oldest_incomplete_age"),
    "assigned": of("max", "last", "assigned"),
    **FETCHED,  # of the member that has most of it
    "enqueue_sum": of("sum", "increase", _ENQUEUE, stat="sum"),
    "enqueue_count": of("sum", "increase", _ENQUEUE, stat="count"),
    "enqueue_baseline_sum": of("sum", "increase", _ENQUEUE, stat="sum", baseline=True),
    "enqueue_baseline_count": of("sum", "increase", _ENQUEUE, stat="count", baseline=True),
}

# `cadence_seconds`: the usual longest time between two commits, by the baseline, or else by the window.
PARTITION_DERIVED = {"cadence_seconds": f"coalesce(cadence_told, {lower_median('gap_quarters')}, gap_now)"}
# The facts of `history.partition_series.PartitionHistory` by name; a fleet has none.
STORY_OF_PARTITION = (
    f"collect_list(struct(stat AS key, last AS value)) FILTER (WHERE signal = '{STORY}' AND partition IS NOT NULL)"
)
NO_STORY = "cast(NULL AS array<struct<key: string, value: double>>)"


def stale_seconds(stale_after_seconds: float, interval: str) -> str:
    """SQL for the age from which a lag or a commit counts as unknown: some missed scrapes, and a clock that is a minute off, are none.

    `interval` is SQL for the seconds between two samples.
    """
    return f"greatest({APART * stale_after_seconds!r}D, {STALE} * coalesce({interval}, 0))"


# Of the log itself, for all groups: `log_end`, `log_start`, `stable_last`, `local_start` (last),
# `arrival_per_second` (messages/s, over the window; over its last third where the log was made anew or cut in the window: its end went
# back, and the way from the lowest to the highest is no arrival), `arrival_recent_per_second` (over its last third),
# `log_start_per_second` (messages/s, over baseline and window: retention deletes whole segments, so it moves in steps), `history`.
LOG_FEATURES = {
    "log_end": of("max", "last", _END),
    "log_start": of("max", "last", _START),
    "stable_last": of("max", "last", _STABLE),
    "stable_last_seconds": of("max", "last_seconds", _STABLE),
    "local_start": of("max", "last", _LOCAL),
    "log_end_high": of("max", "high", _END, period=None),
    "log_end_last_seconds": of("max", "last_seconds", _END),
    "arrival_per_second": f"CASE WHEN {of('max', 'last', _END)} >= {of('max', 'high', _END)} THEN "
    + ratio(spread(_END), lasted(_END))
    + f" WHEN {of('max', 'recent_slope', _END)} >= 0 THEN {of('max', 'recent_slope', _END)} END",
    "arrived": spread(_END),
    "ever_arrived": spread(_END, period=None),
    "arrival_recent_per_second": of("max", "recent_slope", _END),
    # What is usual cannot be known from a few minutes.
    "arrival_baseline_per_second": f"CASE WHEN {lasted(_END, baseline=True)} >= {USUAL_SECONDS} THEN "
    + lower_median(quarters("slope", _END))
    + " END",
    "log_start_per_second": ratio(spread(_START, period=None), lasted(_START, period=None)),
    "history": f"flatten(collect_list(history) FILTER (WHERE signal = '{_END}'))",
}
