"""Features of queues and processors: fill, process time, and comparison with the baseline."""

from __future__ import annotations

from workbench.features.summary_schema import NOW, in_quarters, lasted, lower_median, of, quarters, ratio, sql_list
from workbench.signals import FAILURES, ProcessingOutcome

_TOOK = "process_time"


def _mean(period: int) -> str:
    """Seconds of one attempt: of the sums of a histogram, else the mean that the client tells, of a call with a batch of records."""
    counted = ratio(
        of("sum", "increase", _TOOK, stat="sum", period=period),
        of("sum", "increase", _TOOK, stat="count", period=period),
    )
    told = ratio(
        of("max", "mean", _TOOK, stat="mean", period=period),
        f"coalesce({of('max', 'mean', _TOOK, stat='batch', period=period)}, 1D)",
    )
    return f"coalesce({counted}, {told})"


_FAILED = f"stat IN {sql_list(FAILURES)}"
# A word that an exporter has of its own: a failure, or none. What counts records alone has the stat "value".
_UNNAMED = f"coalesce(stat, 'value') NOT IN {sql_list([*ProcessingOutcome, 'value'])}"


def _outcomes(period: int, where: str = "true") -> str:
    return f"sum(increase) FILTER (WHERE signal = 'processed' AND period = {period} AND {where})"


# In-process queues, over the window: `capacity` (events), `fill` (mean, 0 to 1), `length_recent_low` and `length_usual` (events).
QUEUE_FEATURES = {
    "length_recent_low": of("max", "recent_lowest", "queue_length"),
    "length_usual": lower_median(quarters("mean", "queue_length")),
    "capacity": of("max", "last", "queue_capacity"),
    "fill": ratio(of("max", "mean", "queue_length"), of("max", "last", "queue_capacity")),
}

# As `features.subscription_measurements.ProcessorFeatures` says; `quarters` and `failing_quarters` are of the baseline's.
PROCESSOR_FEATURES = {
    "process_seconds": _mean(NOW),
    "attempts": of("sum", "increase", _TOOK, stat="count"),
    "baseline_attempts": of("sum", "increase", _TOOK, stat="count", baseline=True),
    "rate_per_second": ratio(of("sum", "increase", _TOOK, stat="count"), lasted(_TOOK, stat="count")),
    "baseline_rate_per_second": ratio(
        of("sum", "increase", _TOOK, stat="count", baseline=True), lasted(_TOOK, stat="count", baseline=True)
    ),
    "retries": of("sum", "increase", "processed", stat="retry"),
    "baseline_retries": of("sum", "increase", "processed", stat="retry", baseline=True),
    "failed": _outcomes(NOW, _FAILED),
    "outcomes": _outcomes(NOW, f"NOT {_UNNAMED}"),
    "unnamed": _outcomes(NOW, _UNNAMED),
    "wordless": _outcomes(NOW, "coalesce(stat, 'value') = 'value'"),
    "failing_quarters": in_quarters(
        lambda at: ratio(f"coalesce({_outcomes(at, _FAILED)}, 0)", _outcomes(at, f"NOT {_UNNAMED}"))
    ),
    "unnamed_quarters": in_quarters(lambda at: ratio(f"coalesce({_outcomes(at, _UNNAMED)}, 0)", _outcomes(at))),
    "quarters": in_quarters(_mean),
}
# `baseline_seconds` is the lower median of the quarters; `slow_down` is the window's mean divided by it.
# `failing_baseline` is the share of failures in the best quarter: it may have begun in the middle of the baseline;
# `unnamed_baseline` is the same of attempts whose word nobody knows.
PROCESSOR_DERIVED = {
    "failing_baseline": "array_min(array_compact(failing_quarters))",
    "unnamed_baseline": "array_min(array_compact(unnamed_quarters))",
    "baseline_seconds": lower_median("quarters"),
    "slow_down": ratio("process_seconds", lower_median("quarters")),
}
