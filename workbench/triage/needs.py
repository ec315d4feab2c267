"""How much is needed: Little's law on measured rates. Work in the system = arrival rate × time in the system."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]

# Plan for 80 % use: at 100 % any jitter makes a queue that never drains.
TARGET_UTILISATION = 0.8


def processor_threads(row: Row, processors: set[str]) -> int | None:
    """Processor threads that these event types need to keep up with what arrives; None if a rate is not known.

    While queues are full the rate of attempts is what they manage, not what arrives; so the arrivals of the topic are shared out by the
    attempts of all types (each record is one event).
    """
    work = [p for p in row["processors"] if p["attempts"]]
    total = sum(p["attempts"] for p in work)
    if not total or row["arrival_per_second"] is None:
        return None
    busy = 0.0
    for p in work:
        if p["processor"] in processors:
            if p["process_seconds"] is None:
                return None
            busy += row["arrival_per_second"] * p["attempts"] / total * p["process_seconds"]
    return max(1, math.ceil(busy / TARGET_UTILISATION))


def current_threads(row: Row, processors: set[str]) -> int:
    """Processor threads (queues) that these event types have now."""
    return sum(q["processor"] in processors for q in row["queues"])


def consumers(row: Row) -> int | None:
    """Consumers that the arrivals need, at the pace at which each one commits now; None if it is not known."""
    members, arrival = row["group_members"], row["arrival_per_second"]
    lag_slope = row["lag_slope"]
    if not members or arrival is None or lag_slope is None:
        return None
    pace = (arrival - lag_slope) / members
    return math.ceil(arrival / pace / TARGET_UTILISATION) if pace > 0 else None


def drain_seconds(row: Row) -> float | None:
    """Time until nothing waits, if it goes on as in the window; None if it does not drain."""
    if row["lag_messages"] == 0:
        return 0.0
    if row["lag_messages"] is None or row["lag_slope"] is None or row["lag_slope"] >= -1e-9:
        return None
    return float(row["lag_messages"] / -row["lag_slope"])
