"""How much is needed: Little's law on measured rates. Work in the system = arrival rate × time in the system."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.humanize import count, duration, percent, plural, rate
from workbench.triage.verdict import Verdict

Row = Mapping[str, Any]

# Plan for 80 % use: at 100 % any jitter makes a queue that never drains.
TARGET_UTILISATION = 0.8
# What waits should be gone within this many times the objective: 30 min at 2 min.
DRAIN_OBJECTIVES = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """How many of something are needed.

    Attributes:
        keep_up: so many that what arrives does not pile up.
        drain: so many that what waits is gone within `drain_seconds` as well.
        words: the sum, as a person would check it.
    """

    keep_up: int
    drain: int
    drain_seconds: float
    words: str


def _up(number: float) -> int:
    """Rounded up, but not by the last bit of a floating-point quotient."""
    return math.ceil(number - 1e-9)


def processor_threads(row: Row, processors: set[str], *, objective_seconds: float) -> Sizing | None:
    """Processor threads that these event types need; None if a rate is not known.

    While queues are full the rate of attempts is what they manage, not what arrives; so the arrivals of the topic are shared out as
    the attempts were before the incident (each record is one event).
    """
    work = [p for p in row["processors"] if p["attempts"] or p["baseline_attempts"]]
    before = sum(p["baseline_attempts"] or 0 for p in work)
    weight = "baseline_attempts" if before else "attempts"
    total = sum(p[weight] or 0 for p in work)
    arrival = row["arrival_per_second"]
    if not total or arrival is None:
        return None
    mine = [p for p in work if p["processor"] in processors]
    if not mine or any(p["process_seconds"] is None for p in mine):
        return None
    share = sum(p[weight] or 0 for p in mine) / total
    # Seconds of work that one record of the topic makes for these types.
    seconds = sum((p[weight] or 0) / total * p["process_seconds"] for p in mine)
    window = DRAIN_OBJECTIVES * objective_seconds
    busy = arrival * seconds
    more = (row["lag_messages"] or 0) / window * seconds
    keep_up = max(1, _up(busy / TARGET_UTILISATION))
    drain = max(1, _up((busy + more) / TARGET_UTILISATION))
    each = seconds / share if share else 0.0
    words = (
        f"{rate(arrival * share)} × {duration(each)} ÷ {percent(TARGET_UTILISATION)} = "
        f"{plural(keep_up, 'thread')} to keep up, "
        f"{drain} to drain {count(row['lag_messages'] or 0)} in {duration(window)}"
    )
    return Sizing(keep_up=keep_up, drain=drain, drain_seconds=window, words=words)


def sizing_for(verdict: Verdict, row: Row, *, objective_seconds: float) -> Sizing | None:
    """What a verdict is a lack of, if it is one of capacity."""
    match verdict:
        case Verdict.SLOW_PROCESSOR:
            return processor_threads(row, set(row["slow_processors"]), objective_seconds=objective_seconds)
        case Verdict.SATURATED_PROCESSORS:
            names = {queue["processor"] for queue in row["full_queues"]}
            return processor_threads(row, names, objective_seconds=objective_seconds)
        case Verdict.TOO_FEW_CONSUMERS | Verdict.PARTITION_CEILING:
            return consumers(row, objective_seconds=objective_seconds)
        case _:
            return None


def current_threads(row: Row, processors: set[str]) -> int:
    """Processor threads that these event types have now, at least: one for each queue, and all that are busy (rate × time)."""
    queues = sum(q["processor"] in processors for q in row["queues"])
    mine = [p for p in row["processors"] if p["processor"] in processors]
    busy = sum((p.get("rate_per_second") or 0.0) * (p["process_seconds"] or 0.0) for p in mine)
    return max(queues, round(busy))


def loaded_members(row: Row, processors: set[str], *, fill_ratio: float) -> tuple[int, int]:
    """(members whose queues of these event types fill up, members that have such queues): threads of the others have nothing to do."""
    fills: dict[str, float] = {}
    for queue in row["queues"]:
        if queue["processor"] in processors and queue.get("member") is not None and queue["fill"] is not None:
            fills[queue["member"]] = max(queue["fill"], fills.get(queue["member"], 0.0))
    return sum(fill >= fill_ratio for fill in fills.values()), len(fills)


def threads_in_members(row: Row, processors: set[str], threads: int, *, fill_ratio: float) -> tuple[int, str]:
    """So many threads in all that those who get the events have enough of them, every member being alike; and why, in words."""
    loaded, members = loaded_members(row, processors, fill_ratio=fill_ratio)
    if 0 < loaded < members:  # their keys are in the partitions of some members only
        each = -(-threads // loaded)
        return each * members, f", {each} in each member, since only {loaded} of {members} get enough of these events"
    if members and (partitions := row["partition_count"]):  # partitions are whole: somebody has the most
        most = -(-partitions // members)
        each = _up(threads * most / partitions)
        if each * members > threads:
            return (
                each * members,
                f", {each} in each member, since one of {members} has {most} of {partitions} partitions",
            )
    return threads, ""


def consumers(row: Row, *, objective_seconds: float) -> Sizing | None:
    """Consumers that are needed, at the pace at which each one commits now; None if it is not known.

    Partitions go to consumers whole: of 8 partitions, 5, 6 and 7 consumers all leave two of them to one consumer, so that they keep up
    with no more than 4 do. Where that makes a difference, the number is the next one that does help.
    """
    members, arrival, partitions = row["group_members"], row["arrival_per_second"], row["partition_count"]
    lag_slope = row["lag_slope"]
    if not members or arrival is None or lag_slope is None:
        return None
    pace = (arrival - lag_slope) / members
    if pace <= 0:
        return None
    window = DRAIN_OBJECTIVES * objective_seconds
    exact = _up(arrival / pace / TARGET_UTILISATION)
    keep_up = _whole_partitions(exact, partitions)
    drain = _whole_partitions(
        _up((arrival + (row["lag_messages"] or 0) / window) / pace / TARGET_UTILISATION), partitions
    )
    whole = f", {keep_up} since {plural(partitions, 'partition')} are not cut" if keep_up != exact else ""
    words = (
        f"{rate(arrival)} arriving ÷ {rate(pace)} by each ÷ {percent(TARGET_UTILISATION)} = "
        f"{plural(exact, 'consumer')} to keep up{whole}, "
        f"{drain} to drain {count(row['lag_messages'] or 0)} in {duration(window)}"
    )
    return Sizing(keep_up=keep_up, drain=drain, drain_seconds=window, words=words)


def _whole_partitions(needed: int, partitions: int | None) -> int:
    """The fewest consumers with no more than a fair share of `needed` ones each, in whole partitions; `needed` if there are too few."""
    if not partitions or needed >= partitions:
        return needed
    most = partitions // needed  # partitions that the busiest consumer may have
    return -(-partitions // most)


def drain_seconds(row: Row) -> float | None:
    """Time until nothing waits, if it goes on as in the window; None if it does not drain.

    While it drains, the pace of the last third of the window counts: what was before the turn says nothing about what is left.
    """
    lag, slope, recent = row["lag_messages"], row["lag_slope"], row["lag_recent_slope"]
    if lag == 0:
        return 0.0
    if recent is not None and recent < 0 and row["draining"]:
        slope = recent
    if lag is None or slope is None or slope >= -1e-9:
        return None
    return float(lag / -slope)
