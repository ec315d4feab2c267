"""Age of the oldest unread message without reading records: offset lookups by timestamp, for all partitions at once.

A broker answers "first offset at or after this timestamp" from its index, in one request for all partitions that it leads. So a
bisection finds the age of the first uncommitted message: a few rounds of one request per leader, for any number of groups. If the
producers' clocks differ, the log is not sorted by time, and the bounds are only as good as the clocks. Two contradictions show, and
leave the age unknown: records that are dated in the future, and a log that grows while no record is dated since (event times).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.queues.observer import Age
from workbench.queues.snapshot_views import Partition, Snapshot

# From 1 s to 32 days, each √2 times the one before: finer than any action needs.
RUNGS = tuple(2 ** (step / 2) for step in range(44))


AHEAD_SECONDS = 60.0  # clocks that are kept by NTP differ by far less
_YOUNG = 12  # of `RUNGS`: a minute; what is younger is no reason to ask again


@dataclass(slots=True)
class _Wanted:
    part: Partition
    committed: int  # or where the log begins behind that
    low: int = -1  # index of the highest step that the age certainly exceeds
    high: int = len(RUNGS)


def ages(kafka: KafkaCluster, snapshot: Snapshot, incomplete: list[str]) -> Mapping[tuple[str, str, int], Age]:
    """Find the age of the oldest unread message by group and partition; 0 without lag; unknown ones are left out.

    Args:
        kafka: the cluster of the snapshot.
        snapshot: with the commits.
        incomplete: receives what could not be looked up.
    """
    deadline = time.monotonic() + kafka.deadline_seconds
    wanted: dict[tuple[Partition, int], _Wanted] = {}
    for (group, topic, number), committed in snapshot.commits.items():
        if committed is not None and snapshot.lag(group, topic, number):
            # What is deleted has no time any more: an instant before the log's start would find a record behind the commit.
            first = max(committed, snapshot.starts.get((topic, number), 0))
            if first < snapshot.ends[topic, number]:
                wanted.setdefault(((topic, number), committed), _Wanted((topic, number), first))
    settled = _close_in(kafka, snapshot, list(wanted.values()), deadline, incomplete)
    settled -= _contradicted(
        kafka, snapshot, [it for it in wanted.values() if it.part in settled], deadline, incomplete
    )
    found: dict[tuple[str, str, int], Age] = {}
    for key, committed in snapshot.commits.items():
        lag = snapshot.lag(*key)
        if lag == 0:
            found[key] = Age(low=0.0, high=0.0)
        elif lag is not None and committed is not None:
            it = wanted.get(((key[1], key[2]), committed))
            if it is not None and it.part in settled:
                is_there = it.committed == committed  # else what was deleted is older by an unknown time
                high = RUNGS[it.high] if it.high < len(RUNGS) and is_there else None
                found[key] = Age(low=RUNGS[it.low] if it.low >= 0 else 0.0, high=high)
    return found


def _contradicted(
    kafka: KafkaCluster, snapshot: Snapshot, wanted: list[_Wanted], deadline: float, incomplete: list[str]
) -> set[Partition]:
    """Partitions whose timestamps say another thing than their offsets."""
    topics: dict[str, Any] = {}
    young = sorted({it.part for it in wanted if it.low < 0})
    ahead = kafka.offsets_at(young, snapshot.taken_at + AHEAD_SECONDS, deadline, incomplete, topics) if young else {}
    dated_ahead = {part for part, first in ahead.items() if first is not None}
    old = sorted({it.part for it in wanted if it.low >= _YOUNG})
    now = kafka.offsets_at(old, snapshot.taken_at - RUNGS[_YOUNG], deadline, incomplete, topics) if old else {}
    silent = [part for part, first in now.items() if first is None]
    ends = kafka.ends_of(silent, deadline, incomplete, topics) if silent else {}
    growing = {part for part, end in ends.items() if end > snapshot.ends.get(part, end)}
    for parts, why in (
        (dated_ahead, "its records are dated in the future: a producer's clock is ahead"),
        (growing, "it grows, and no record is dated later than a minute ago: these are times of events"),
    ):
        incomplete += [f"age of what waits in {topic} {number}: {why}" for topic, number in sorted(parts)]
    return dated_ahead | growing


def _close_in(
    kafka: KafkaCluster, snapshot: Snapshot, wanted: list[_Wanted], deadline: float, incomplete: list[str]
) -> set[Partition]:
    """Bisect until the bounds of each age are adjacent steps; return the partitions that answered every request."""
    answered = {it.part for it in wanted}
    topics: dict[str, Any] = {}
    while True:
        rounds: dict[int, dict[Partition, list[_Wanted]]] = defaultdict(dict)
        for it in wanted:
            if it.high - it.low > 1 and it.part in answered:
                rounds[(it.low + it.high) // 2].setdefault(it.part, []).append(it)
        if not rounds:
            return answered
        for rung, parts in rounds.items():
            instant = snapshot.taken_at - RUNGS[rung]
            offsets = kafka.offsets_at(sorted(parts), instant, deadline, incomplete, topics)
            for part, asked in parts.items():
                if part not in offsets:
                    answered.discard(part)
                    continue
                first = offsets[part]
                for it in asked:
                    # No record since then, or the first one since then is after the commit: the unread message is older.
                    if first is None or it.committed < first:
                        it.low = rung
                    else:
                        it.high = rung
