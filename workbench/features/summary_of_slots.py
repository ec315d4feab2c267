"""Combine condensed slots to a summary, the input of `features.entity_features`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from workbench.features.summary_schema import CUMULATIVE, LABELS, MEMBERLESS, sql_list
from workbench.spark.parsed_sql_cache import aggregate, columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LABELS = ", ".join(f"`{name}`" for name in LABELS)


def of_slots(slots: DataFrame, ends: Sequence[datetime], *, counters: bool = True) -> DataFrame:
    """Combine slots (`condense.SUMMARY_SCHEMA`) to a summary with the columns of `of_periods`.

    Args:
        ends: of the slots, oldest first: the quarters of the baseline and the window. A slot that has not landed has no rows.
        counters: whether there may be counters; a lag exporter has none, which saves two shuffles.
    """
    periods = " ".join(f"WHEN {round(at.timestamp() * 1e6)} THEN {number}" for number, at in enumerate(ends))
    timed = slots.select(*columns("*", f"CASE slot_us {periods} END AS period")).where(*columns("period IS NOT NULL"))
    return of_periods(timed, ends[-1].timestamp(), counters=counters)


def of_periods(timed: DataFrame, end: float, *, counters: bool = True) -> DataFrame:
    """Do the same for slots with their `period`.

    Args:
        end: of the window, seconds since the epoch.

    Returns:
        One row per (labels, signal, stat, period) with: `samples`, `bad_samples` (unusable ones), `first`, `last`, `low`, `high`,
        `mean` (signal's unit), `first_seconds`, `last_seconds` (time relative to the window's end, so ≤ 0), `increase` (counters:
        growth within the period, resets taken care of), `resets` (counters: how often they restarted), `slope` (gauges: unit per
        second, least squares), `recent_slope` (the same over the last third of the window), and of single signals: `recent_low`
        (the lag's second lowest value in the last third: one odd sample does not count; `recent_lowest` is the lowest),
        `moved_seconds`, `longest_gap` (of commits and rebalances: the last change, and the longest time between two, in seconds),
        `last_two_high` (of the members and the state, the higher of the last two samples), `starts` (the different start
        times), `history` (of log ends: the samples themselves).
    """
    gauges = timed.where(*columns(f"signal NOT IN {sql_list(CUMULATIVE)}")).select(
        *columns(
            *(f"`{name}`" for name in LABELS),
            *("signal", "stat", "period", "samples", "bad_samples", "first", "last", "low", "high", "mean"),
            f"first_us / 1e6D - {end!r}D AS first_seconds",
            f"last_us / 1e6D - {end!r}D AS last_seconds",
            "cast(NULL AS double) AS increase",
            "cast(NULL AS bigint) AS resets",
            *("slope", "recent_slope", "recent_low", "recent_lowest", "last_two_high", "starts"),
            f"moved_us / 1e6D - {end!r}D AS moved_seconds",
            "longest_gap",
            f"transform(history, h -> struct(h.us / 1e6D - {end!r}D AS seconds, h.value AS value)) AS history",
        )
    )
    return gauges.unionByName(_counters(timed, end), allowMissingColumns=True) if counters else gauges


def _counters(timed: DataFrame, end: float) -> DataFrame:
    """Growth within and between the slots; then all series of an entity together, whichever member reported it."""
    series = f"OVER (PARTITION BY {_LABELS}, signal, stat, source ORDER BY first_us)"
    counted = timed.where(*columns(f"signal IN {sql_list(CUMULATIVE)} AND samples > 0"))
    joined = counted.select(*columns("*", f"lag(last) {series} AS before")).select(
        *columns(
            "*",
            "CASE WHEN first >= before THEN first - before WHEN before IS NOT NULL THEN first END AS between",
            "CASE WHEN first < before THEN 1 ELSE 0 END AS reset_between",
        )
    )
    member = f"CASE WHEN signal NOT IN {sql_list(MEMBERLESS)} THEN member END AS member"
    keys = [f"`{name}`" if name != "member" else member for name in LABELS]
    return aggregate(
        joined,
        (*keys, "signal", "stat", "period"),
        {
            "samples": "sum(samples)",
            "bad_samples": "sum(bad_samples)",
            "first": "min_by(first, first_us)",
            "last": "max_by(last, last_us)",
            "low": "min(low)",
            "high": "max(high)",
            "mean": "sum(mean * samples) / sum(samples)",
            "first_seconds": f"min(first_us) / 1e6D - {end!r}D",
            "last_seconds": f"max(last_us) / 1e6D - {end!r}D",
            # The growth of a single value without an earlier one is unknown.
            "increase": "sum(CASE WHEN increase IS NOT NULL OR between IS NOT NULL"
            " THEN coalesce(increase, 0D) + coalesce(between, 0D) END)",
            "resets": "sum(coalesce(resets, 0) + reset_between)",
            "moved_seconds": f"max(moved_us) / 1e6D - {end!r}D",
            "longest_gap": "max(longest_gap)",
        },
    )
