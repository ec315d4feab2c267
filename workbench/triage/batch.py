"""Batches: silent between two runs, and late if what arrived before a run still waits after it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from workbench.expectations import Expectations

_NULL = "CAST(NULL AS DOUBLE)"
# An age from the lag and the arrival rate is off by up to twice its value on traffic that varies over the day (`features.timelag`).
_OFF = 2
_KNOWN = "('exact_record', 'interpolated', 'broker_time')"


def due(expectations: Expectations, at: datetime | None, objective: str, otherwise: float) -> Mapping[str, str]:
    """Columns about the schedule alone.

    Args:
        expectations: with the batches.
        at: the window's end.
        objective: SQL for the objective of a group; a run may take so long.
        otherwise: objective of groups without one of their own, in seconds.

    Returns:
        `batch_due_seconds`, for how long the last run is due that must be over; `batch_before_seconds`, the run before it;
        `batch_every_seconds`, the interval of a batch without a cron expression; and `batch_now`, the window's end in seconds since
        1970. NULL for groups that are no batch.
    """
    names = ("batch_due_seconds", "batch_before_seconds", "batch_every_seconds")
    if at is None or not expectations.has_batches:
        return dict.fromkeys((*names, "batch_now"), _NULL)
    found = expectations.batch_sql(at, objective, expectations.longest_objective(otherwise))
    return {**dict(zip(names, found, strict=True)), "batch_now": f"{at.timestamp()!r}D"}


def missed(idle: str, waited: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Columns about the runs, in two stages.

    Args:
        idle: SQL for a partition `p` where nothing can be late.
        waited: SQL for the age of its oldest message by the arrival rate.

    Returns:
        First `batch_ran`, whether a commit has moved since the run was due, and `batch_late`, whether messages from before it wait
        (NULL: the data do not reach back so far). Then `batch_missed`: late, and nothing ran; and `batch_due_ago_seconds`, since when
        that run is due.
    """
    surely = (
        "greatest(coalesce(p.story['waiting'], 0D), coalesce(p.time_lag_low, 0D),"
        " CASE WHEN p.time_lag_method = 'broker_time' THEN p.time_lag_seconds ELSE 0D END)"
    )
    late = (
        f"CASE WHEN {idle} OR p.lag_messages = 0 THEN false WHEN {surely} > batch_due_seconds THEN true"
        f" WHEN p.time_lag_method IN {_KNOWN} THEN false"
        # Nearer to the age of what the last run left than to that of the run before it.
        f" WHEN {waited} <= sqrt(batch_due_seconds * batch_before_seconds) THEN false"
        f" WHEN {waited} > {_OFF} * batch_due_seconds THEN true END"
    )
    moved = "array_min(transform(partitions, p -> p.moved_ago_seconds))"
    oldest = "array_max(transform(partitions, p -> coalesce(p.story['waiting'], p.time_lag_low)))"
    return (
        {
            "batch_ran": "coalesce(exists(partitions, p -> p.moved_ago_seconds < batch_due_seconds), false)",
            "batch_late": f"CASE WHEN batch_due_seconds IS NOT NULL THEN exists(partitions, p -> {late}) END",
        },
        {
            "batch_missed": "coalesce(batch_late AND NOT batch_ran, false)",
            "batch_due_ago_seconds": "CASE WHEN batch_every_seconds IS NULL THEN batch_due_seconds"
            f" ELSE coalesce({moved}, {oldest}) - batch_every_seconds END",
        },
    )
