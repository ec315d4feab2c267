"""Time lag of a partition: age of the oldest message that is not committed, with method and bounds.

Methods, best first:
    exact_record         the consumer reports the record's timestamp, and offsets do not contradict it; or there is no lag
    interpolated         the log end passed the committed offset between two samples: that is when the message was produced
    broker_time          an exporter's estimate, from the broker's timestamps or its own table
    extrapolated_capped  the committed offset is older than the first sample: at least so old; if anything arrives, its production is
                         extrapolated, at most 10 minutes (of an idle log's last two messages, which may be transactions' markers: not)
    unknown              neither

An estimate from the retention line or beyond the samples is off by up to 2 × on traffic that varies over the day (measured on a
diurnal simulation), so the extrapolation is capped and labelled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.features.summary_schema import ratio
from workbench.judgement_numbers import EXTRAPOLATED_SECONDS
from workbench.spark.parsed_sql_cache import columns, extend

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def bracketed(partitions: DataFrame) -> DataFrame:
    """Add `before` and `after`, the samples of the log end around the commit, and the `oldest` and `newest` sample.

    Producing the first uncommitted message took the log end from <= committed to > committed.
    """
    return extend(
        partitions,
        {
            "before": "array_max(filter(history, h -> h.value <= committed))",
            "after": "array_min(filter(history, h -> h.value > committed))",
            "oldest": "array_min(history)",
            "newest": "array_max(history)",
        },
    )


_SEARCHED = 1 << 15  # samples; a longer history is scanned linearly
_STEPS = ", ".join(str(_SEARCHED >> step) for step in range(1, _SEARCHED.bit_length()))


def with_search(logs: DataFrame) -> DataFrame:
    """Prepare logs for `bracketed_by_search`: `history` in order of time, `oldest`, `newest`, `log_ends` (values), `rising`."""
    ordered = extend(
        logs.select(*columns("* EXCEPT (history)", "sort_array(history) AS history")), {"log_ends": "history.value"}
    )
    return extend(
        ordered,
        {
            "rising": f"size(log_ends) < {_SEARCHED} AND log_ends = sort_array(log_ends)",
            "oldest": "get(history, 0)",
            "newest": "get(history, size(history) - 1)",
        },
    )


def bracketed_by_search(partitions: DataFrame) -> DataFrame:
    """Do the same by bisection, for rows joined to `with_search`: hundreds of thousands of rows with long histories."""
    positioned = extend(
        partitions,
        {
            "passed": f"CASE WHEN rising AND committed IS NOT NULL THEN aggregate(array({_STEPS}), 0, (at, step) ->"
            " at + CASE WHEN get(log_ends, at + step - 1) <= committed THEN step ELSE 0 END) END"
        },
    )
    return extend(
        positioned,
        {
            "before": "CASE WHEN passed IS NOT NULL THEN get(history, passed - 1)"
            " ELSE array_max(filter(history, h -> h.value <= committed)) END",
            "after": "CASE WHEN passed IS NOT NULL THEN get(history, passed)"
            " ELSE array_min(filter(history, h -> h.value > committed)) END",
        },
    )


def with_time_lag(
    partitions: DataFrame, *, stale_after_seconds: float, brackets: Callable[[DataFrame], DataFrame] = bracketed
) -> DataFrame:
    """Add `time_lag_seconds`, `time_lag_low`, `time_lag_high` (s) and `time_lag_method` to partitions, and the inputs of these.

    Args:
        partitions: rows with the features of `features.lag_features`; `history` holds (seconds, value) of the log end.
        stale_after_seconds: an older value from the consumer itself does not count: a dead consumer reports nothing new.
        brackets: finds the samples around the commit.
    """
    rate = ratio("newest.value - oldest.value", "newest.seconds - oldest.seconds")
    fresh = (
        f"time_lag_exact_seconds IS NOT NULL AND other_clock IS NULL AND time_lag_age_seconds <= {stale_after_seconds}"
    )
    by_record = f"{fresh} AND coalesce(lag_messages > 0, true)"
    produced = "(before.seconds + (after.seconds - before.seconds) * (committed - before.value) / (after.value - before.value))"
    labelled = extend(
        brackets(partitions),
        {
            "further_back": f"CASE WHEN {rate} > 0"
            f" THEN least((oldest.value - committed) / ({rate}), {EXTRAPOLATED_SECONDS}D) ELSE 0D END",
            "time_lag_method": f"""CASE WHEN partition IS NULL THEN NULL WHEN lag_messages = 0 OR ({fresh}) THEN 'exact_record'
                WHEN lag_messages IS NULL OR committed IS NULL THEN 'unknown'
                WHEN before IS NOT NULL AND after IS NOT NULL THEN 'interpolated'
                WHEN time_lag_told_age_seconds <= {stale_after_seconds} AND time_lag_told_seconds IS NOT NULL THEN 'broker_time'
                WHEN after IS NOT NULL AND ({rate} > 0 OR lag_messages > 2) THEN 'extrapolated_capped'
                ELSE 'unknown' END""",
        },
    )
    return extend(
        labelled,
        {
            "time_lag_seconds": f"""CASE time_lag_method
                WHEN 'exact_record' THEN CASE WHEN {by_record} THEN time_lag_exact_seconds ELSE 0D END
                WHEN 'interpolated' THEN -{produced}
                WHEN 'broker_time' THEN time_lag_told_seconds
                WHEN 'extrapolated_capped' THEN further_back - oldest.seconds END""",
            "time_lag_low": f"""CASE time_lag_method
                WHEN 'exact_record' THEN CASE WHEN {by_record} THEN time_lag_exact_seconds ELSE 0D END
                WHEN 'interpolated' THEN -after.seconds
                WHEN 'extrapolated_capped' THEN -oldest.seconds END""",
            # A value from some seconds ago has aged by that time, if the message is still unread.
            "time_lag_high": f"""CASE time_lag_method
                WHEN 'exact_record' THEN
                    CASE WHEN {by_record} THEN time_lag_exact_seconds + time_lag_age_seconds ELSE 0D END
                WHEN 'interpolated' THEN -before.seconds END""",
        },
    )
