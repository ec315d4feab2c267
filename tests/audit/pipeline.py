"""A pipeline that loses, doubles, crashes and repeats on purpose: its rows, and the truth beside them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.layers import record_marks
from workbench.layers.rows import AuditRow, WindowCount, signed

WINDOW_MS = 60_000


def hash_of(number: int) -> int:
    """Hash of a record whose id is this number."""
    return record_marks.hash_of(str(number).encode())


@dataclass
class Record:
    """One record: what it is, and when it was created."""

    number: int
    created_ms: int


@dataclass
class Task:
    """Reads a partition and counts what it takes in and gives out; a crash reads again from the last commit."""

    stream: str
    layer: str
    partition: int
    rows: list[AuditRow]
    incarnation: int = 1
    sequence: int = 0

    def write(self, point: str, start: int, stop: int, records: Sequence[Record], at_ms: int) -> None:
        """A row about these positions."""
        windows: dict[int, list[Record]] = {}
        for it in records:
            windows.setdefault(it.created_ms // WINDOW_MS * WINDOW_MS, []).append(it)
        self.sequence += 1
        self.rows.append(
            AuditRow(
                stream=self.stream, layer=self.layer, point=point, topic="t", partition=self.partition, start=start, stop=stop,
                incarnation=self.incarnation, sequence=self.sequence, emitted_ms=at_ms,
                windows=[
                    WindowCount(start_ms=at, count=len(some), sum=signed(sum(hash_of(it.number) for it in some)))
                    for at, some in sorted(windows.items())
                ],
            )
        )  # fmt: skip


@dataclass
class Outcome:
    """What a run has written, and what is true: records by window at each point, each counted as it took effect."""

    rows: list[AuditRow]
    truth: dict[tuple[str, str], Counter[int]]
    lost: set[int] = field(default_factory=set)
    doubled: set[int] = field(default_factory=set)


def run(
    seed: int, *, records: int = 600, lost: int = 0, doubled: int = 0, crashes: int = 3, unaligned: bool = False
) -> Outcome:
    """Gateway → collector over two partitions.

    Args:
        lost, doubled: records that the collector takes in and does not give out, or gives out twice.
        crashes: of the collector, each at any record; what it had not committed is read again.
        unaligned: whether rows end elsewhere than commits, so that a restart straddles them.
    """
    draw = random.Random(seed)
    made = [Record(number, draw.randrange(0, 5 * WINDOW_MS)) for number in range(records)]
    logs: list[list[Record]] = [made[0::2], made[1::2]]
    rows: list[AuditRow] = []
    gone = set(draw.sample(range(records), lost))
    twice = set(draw.sample(sorted(set(range(records)) - gone), doubled))
    for partition, log in enumerate(logs):
        gateway = Task("s", "gateway", partition, rows)
        for start in range(0, len(log), 50):
            gateway.write("out", start, min(start + 50, len(log)), log[start : start + 50], 1_000)
    for partition, log in enumerate(logs):
        _collect(log, partition, rows, gone, twice, draw, crashes, unaligned)
    late = 20 * WINDOW_MS
    for partition, log in enumerate(logs):  # everybody has told up to then
        for layer, points in (("gateway", ("out",)), ("collector", ("in", "out"))):
            task = Task("s", layer, partition, rows, incarnation=1_000, sequence=0)
            for point in points:
                task.write(point, len(log), len(log), (), late)
    again = [it for it in rows if draw.random() < 0.2]  # delivered twice, in any order
    every = rows + again
    draw.shuffle(every)
    truth: dict[tuple[str, str], Counter[int]] = {}
    for layer, point in (("gateway", "out"), ("collector", "in"), ("collector", "out")):
        found = Counter[int]()
        for it in made:
            times = 1
            if (layer, point) == ("collector", "out"):
                times = 0 if it.number in gone else 2 if it.number in twice else 1
            found[it.created_ms // WINDOW_MS * WINDOW_MS] += times
        truth[layer, point] = +found
    return Outcome(every, truth, gone, twice)


def _collect(
    log: list[Record],
    partition: int,
    rows: list[AuditRow],
    gone: set[int],
    twice: set[int],
    draw: random.Random,
    crashes: int,
    unaligned: bool,
) -> None:
    committed, incarnation = 0, 0
    ends = sorted(draw.sample(range(1, len(log)), crashes))
    while committed < len(log):
        incarnation += 1
        task = Task("s", "collector", partition, rows, incarnation=incarnation)
        crash = ends.pop(0) if ends else None
        at = committed
        while at < len(log):
            stop = min(at + draw.randrange(5, 40), len(log))
            if crash is not None and at <= crash < stop:
                if draw.random() < 0.5:  # the row is out, its commit is not
                    _write(task, log, at, stop, gone, twice)
                break
            _write(task, log, at, stop, gone, twice)
            committed = draw.randrange(committed, stop + 1) if unaligned and crash is not None else stop
            at = stop
        else:
            committed = len(log)


def _write(task: Task, log: list[Record], at: int, stop: int, gone: set[int], twice: set[int]) -> None:
    taken = log[at:stop]
    task.write("in", at, stop, taken, 1_000)
    given = [it for it in taken if it.number not in gone]
    given += [it for it in taken if it.number in twice]
    task.write("out", at, stop, given, 1_000)


def named_by(found: Mapping[str, Any]) -> set[tuple[int, int]]:
    """Partition and position of each record that a file of missing records names."""
    return {
        (part["partition"], at)
        for part in found["partitions"]
        for start, stop in part["ranges"]
        for at in range(start, stop)
    }
