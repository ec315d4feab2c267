"""Sizing by Little's law on measured rates: work in the system = arrival rate × time in the system."""

from __future__ import annotations

import math
from dataclasses import dataclass

from workbench.humanize import count, duration, percent, plural, rate
from workbench.judgement_numbers import CATCH_UP, UTILISATION
from workbench.triage.subscription import SubscriptionFeatures


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """Number of threads or consumers that are needed.

    Attributes:
        keep_up: enough to process what arrives.
        drain: enough to drain the backlog within `drain_seconds` as well.
        words: the calculation, for a person to check.
        what: what is counted: "threads" or "consumers".
    """

    keep_up: int
    drain: int
    drain_seconds: float
    words: str
    what: str


def _up(number: float) -> int:
    """Round up, but not because of the last bit of a floating-point quotient."""
    return math.ceil(number - 1e-9)


def processor_threads(row: SubscriptionFeatures, processors: set[str]) -> Sizing | None:
    """Processor threads that these event types need; None if a rate is not known.

    While queues are full, the rate of attempts is the throughput and not the arrival rate. So the arrivals of the topic are divided
    among the event types as the attempts were before the incident (each record is one event).
    """
    work = [p for p in row.processors if p.attempts or p.baseline_attempts]
    before = any(p.baseline_attempts for p in work)
    weighed = [(p, (p.baseline_attempts if before else p.attempts) or 0.0) for p in work]
    total, arrival = sum(weight for _, weight in weighed), row.arrival_per_second
    mine = [(weight, p.process_seconds) for p, weight in weighed if p.processor in processors]
    timed = [(weight, seconds) for weight, seconds in mine if seconds is not None]
    if not total or arrival is None or not mine or len(timed) < len(mine):
        return None
    share = sum(part for part, _ in timed) / total
    # Seconds of work for these types per record of the topic.
    seconds = sum(part / total * each for part, each in timed)
    window = CATCH_UP * row.limits.time_lag_objective_seconds
    busy = arrival * seconds
    more = (row.lag_messages or 0) / window * seconds
    keep_up = max(1, _up(busy / UTILISATION))
    drain = max(1, _up((busy + more) / UTILISATION))
    each = seconds / share if share else 0.0
    words = (
        f"{rate(arrival * share)} × {duration(each)} ÷ {percent(UTILISATION)} = "
        f"{plural(keep_up, 'thread')} to keep up, "
        f"{drain} to drain {count(row.lag_messages or 0)} in {duration(window)}"
    )
    return Sizing(keep_up=keep_up, drain=drain, drain_seconds=window, words=words, what="threads")


def current_threads(row: SubscriptionFeatures, processors: set[str]) -> int:
    """Minimum number of processor threads that these event types have now: one for each queue, or all busy ones (rate × time)."""
    queues = sum(q.processor in processors for q in row.queues)
    mine = [p for p in row.processors if p.processor in processors]
    busy = sum((p.rate_per_second or 0.0) * (p.process_seconds or 0.0) for p in mine)
    return max(queues, round(busy))


def loaded_members(row: SubscriptionFeatures, processors: set[str]) -> tuple[int, int]:
    """(members whose queues of these event types fill up, members that have such queues). Threads of other members would be idle."""
    fills: dict[str, float] = {}
    for queue in row.queues:
        if queue.processor in processors and queue.member is not None and queue.fill is not None:
            fills[queue.member] = max(queue.fill, fills.get(queue.member, 0.0))
    return sum(fill >= row.limits.queue_fill_ratio for fill in fills.values()), len(fills)


def threads_in_members(row: SubscriptionFeatures, processors: set[str], threads: int) -> tuple[int, str]:
    """Total threads so that the busiest member has enough, if all members have the same number; and the reason in words."""
    loaded, members = loaded_members(row, processors)
    of = plural(members, "member")
    if 0 < loaded < members:  # only the partitions of some members hold their keys
        each, why = -(-threads // loaded), f"most of these events go to {loaded} of {of}"
    elif members and (partitions := row.partition_count):  # partitions cannot be divided: one member has the most
        most = -(-partitions // members)
        each, why = _up(threads * most / partitions), f"one of {of} has {most} of {plural(partitions, 'partition')}"
        if each * members <= threads:
            return threads, ""
    else:
        return threads, ""
    return each * members, f", {each} in each member, since {why}"


def consumers(row: SubscriptionFeatures) -> Sizing | None:
    """Consumers that are needed at the rate at which each one with a partition commits now; None if that rate is not known.

    A partition has one consumer, and a consumer without one reads nothing. With 8 partitions, 5, 6 or 7 consumers all leave two
    partitions to one consumer, so they keep up with no more than 4 do. In such a case the result is the next number that helps.
    """
    members, arrival, partitions = row.group_members, row.arrival_per_second, row.partition_count
    if not members or arrival is None or row.lag_slope is None:
        return None
    pace = (arrival - row.lag_slope) / (min(members, partitions) if partitions else members)
    if pace <= 0:
        return None
    window = CATCH_UP * row.limits.time_lag_objective_seconds
    exact = max(1, _up(arrival / pace / UTILISATION))  # where nothing arrives, what waits is still to be read
    keep_up = _whole_partitions(exact, partitions)
    draining = arrival + (row.lag_messages or 0) / window
    drain = _whole_partitions(max(1, _up(draining / pace / UTILISATION)), partitions)
    whole = f", {keep_up} to divide {plural(partitions, 'partition')} evenly enough" if keep_up != exact else ""
    words = (
        f"{rate(arrival)} arriving ÷ {rate(pace)} per consumer ÷ {percent(UTILISATION)} = "
        f"{plural(exact, 'consumer')} to keep up{whole}, "
        f"{drain} to drain {count(row.lag_messages or 0)} in {duration(window)}"
    )
    if partitions and drain > partitions:
        words += f" (with {plural(partitions, 'partition')}, no more than {partitions} have work)"
    return Sizing(keep_up=keep_up, drain=drain, drain_seconds=window, words=words, what="consumers")


def _whole_partitions(needed: int, partitions: int | None) -> int:
    """Fewest consumers whose busiest one has as few partitions as `needed` allows; `needed` if there are fewer partitions."""
    if not partitions or needed >= partitions:
        return needed
    most = partitions // needed  # maximum for the busiest consumer
    return -(-partitions // most)


def drain_seconds(lag: float | None, slope: float | None) -> float | None:
    """Seconds until a lag of so many messages is 0 if it changes by `slope` messages/s; None if it does not shrink."""
    if lag == 0:
        return 0.0
    if lag is None or slope is None or slope >= -1e-9:
        return None
    return float(lag / -slope)
