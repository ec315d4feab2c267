"""What a task counts is in the ledger once, whenever it is killed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from workbench.audit.audit_frames import frame_of_rows
from workbench.audit.audit_ledger import counts
from workbench.audit.window_verdicts import Arrival, StreamShape, edges
from workbench.errors import UsageError
from workbench.layers.meter import Meter
from workbench.layers.record_marks import hash_of
from workbench.layers.rows import LATEST_MS, WindowCount, parse_lines

LENGTH = 200


class KilledError(Exception):
    """The process is gone."""


def meter(lines: list[str], start: int, incarnation: int, *, layer: str = "collector", at: float = 1_000.0) -> Meter:
    """One that takes in and gives out."""
    return Meter(
        "s", layer, topic="t", partition=0, start=start, write=lines.extend, incarnation=incarnation, now_ms=lambda: at
    )


def pipeline(seed: int) -> list[str]:
    """A gateway, and a collector that is killed again and again: in its work, between rows, between rows and commit."""
    draw, lines = random.Random(seed), list[str]()
    gateway = Meter(
        "s",
        "gateway",
        topic="t",
        partition=0,
        start=0,
        write=lines.extend,
        points=("out",),
        incarnation=1,
        now_ms=lambda: 1_000.0,
    )
    for offset in range(LENGTH):
        gateway.count("out", offset, str(offset).encode(), created_ms=offset * 1_000)
    gateway.flush(LENGTH)
    committed, incarnation, kills = 0, 0, 8
    while committed < LENGTH:
        incarnation += 1
        committed, kills = _work(lines, committed, incarnation, draw, kills)
    for layer, number in (("gateway", 99), ("collector", 99)):
        late = meter(lines, LENGTH, number, layer=layer, at=1e9)
        late.points = ("out",) if layer == "gateway" else ("in", "out")
        late.flush(LENGTH)
    return lines


def _work(lines: list[str], committed: int, incarnation: int, draw: random.Random, kills: int) -> tuple[int, int]:
    kept: list[str] = []
    mine = meter(kept, committed, incarnation)
    at = committed
    try:
        while at < LENGTH:
            stop = min(LENGTH, at + draw.randrange(1, 30))
            order = list(range(at, stop))
            draw.shuffle(order)
            for offset in order:
                if kills and draw.random() < 0.02:
                    raise KilledError
                for point in ("in", "out"):
                    mine.count(point, offset, str(offset).encode(), created_ms=offset * 1_000)  # type: ignore[arg-type]
            mine.flush(stop)
            if kills and draw.random() < 0.3:
                del kept[
                    len(kept) - draw.randrange(0, 2) :
                ]  # what was told last did not arrive, so nothing is committed
                raise KilledError
            committed = at = stop
    except KilledError:
        kills -= 1
    lines += kept
    return committed, kills


@pytest.mark.jvm
def test_every_record_is_counted_once_whenever_the_task_is_killed(spark: Any) -> None:
    """Of eight pipelines, at both points, to the record and to the hash."""
    parsed = {f"s{seed}": parse_lines(pipeline(seed)) for seed in range(8)}
    rows = frame_of_rows(
        spark, [row.model_copy(update={"stream": name}) for name, mine in parsed.items() for row in mine]
    )
    found = Counter[tuple[str, str, str]]()
    for row in counts(rows).collect():
        assert row["low"] == row["high"]
        found[row["stream"], row["layer"], row["point"]] += row["low"]
    places = [("gateway", "out"), ("collector", "in"), ("collector", "out")]
    assert found == {(stream, *place): LENGTH for stream in parsed for place in places}
    judged = edges(rows, StreamShape(layers=("gateway", "collector"))).select("arrival", "same").collect()
    assert {(row["arrival"], row["same"]) for row in judged} == {(Arrival.OK, True)}


def test_what_finishes_out_of_order_waits_for_its_row() -> None:
    """A record behind the flushed position is not in this row, and is in the next one."""
    lines: list[str] = []
    mine = meter(lines, 10, 1)
    for offset in (12, 10, 11):
        mine.count("in", offset, b"x", created_ms=0, size=7)
    mine.flush(12)
    mine.flush(13)
    rows = [it for it in parse_lines(lines) if it.point == "in"]
    assert [(it.start, it.stop, [w.count for w in it.windows], sum(w.bytes for w in it.windows)) for it in rows] == [
        (10, 12, [2], 14),
        (12, 13, [1], 7),
    ]


def test_a_flush_that_failed_is_repeated_and_forgets_nothing() -> None:
    """Whether the queue has the first text nobody knows: all of it is written again, of the same positions."""
    lines: list[str] = []

    def write(some: Sequence[str]) -> None:
        if not lines:
            lines.extend([some[0], "refused"])
            raise OSError
        lines.extend(some)

    mine = Meter("s", "l", topic="t", partition=0, start=0, write=write, incarnation=1)
    mine.count("in", 0, b"x", created_ms=0)
    with pytest.raises(OSError):
        mine.flush(1)
    mine.flush(1)
    rows = list(parse_lines(it for it in lines if it != "refused"))
    assert [(it.point, it.start, it.stop) for it in rows] == [(point, 0, 1) for point in ("in", "out", "in", "out")]
    assert [it.incarnation for it in rows] == [1, 1, 2, 2]  # so the first ones are covered


def test_latency_and_errors_are_counted_and_silence_is_a_heartbeat() -> None:
    """Since the record's creation, and since the layer before."""
    lines: list[str] = []
    mine = Meter(
        "s",
        "l",
        topic="t",
        partition=0,
        start=0,
        write=lines.extend,
        points=("dead",),
        incarnation=1,
        now_ms=lambda: 10_000.0,
    )
    mine.count("dead", 0, b"x", created_ms=9_000, updated_ms=9_999.5, error="ValueError")
    mine.flush(1)
    mine.flush(1)
    first, second = parse_lines(lines)
    assert (first.created_ms.index(1), first.updated_ms.index(1), first.errors) == (9, 0, {"ValueError": 1})
    assert (second.windows, second.start, second.stop) == ([], 1, 1)


def test_what_cannot_be_is_refused() -> None:
    """A point nobody declared, a record that was flushed, a position that goes back."""
    mine = meter([], 5, 1)
    for call in (
        lambda: mine.count("rejected", 6, b"", created_ms=0),
        lambda: mine.count("in", 4, b"", created_ms=0),
        lambda: mine.flush(4),
    ):
        with pytest.raises(UsageError):
            call()
    assert -(1 << 63) <= hash_of(b"x") < 1 << 63


def test_a_time_that_cannot_be_costs_no_other_record_its_row() -> None:
    """Readers leave out a whole row with such a window: -1 is Kafka's "no timestamp", and some producers write microseconds."""
    told = meter([], 0, 1)
    for offset, created_ms in enumerate((-1, 60_000, 1_795_000_000_000_000)):
        told.count("in", offset, b"x", created_ms=created_ms)
    [row, _] = told.rows(3)
    assert [(it.start_ms, it.count) for it in row.windows] == [(0, 1), (60_000, 1), (LATEST_MS // 60_000 * 60_000, 1)]
    for start_ms in (-60_000, LATEST_MS + 1):
        with pytest.raises(ValueError, match="start_ms"):
            WindowCount(start_ms=start_ms, count=1)


def test_records_of_very_many_times_are_told_in_several_rows() -> None:
    """Each is a message that a broker takes, and they lie end to end with every record in one of them."""
    lines: list[str] = []
    told = meter(lines, 0, 1)
    for offset in range(25_000):
        for point in ("in", "out"):
            told.count(point, offset, str(offset).encode(), created_ms=offset * 60_000)
    told.flush(25_000)
    assert max(map(len, lines)) < 150_000
    rows = list(parse_lines(lines))
    for point in ("in", "out"):
        mine = [it for it in rows if it.point == point]
        assert [it.start for it in mine[1:]] == [it.stop for it in mine[:-1]]
        assert (mine[0].start, mine[-1].stop, max(len(it.windows) for it in mine)) == (0, 25_000, 391)
        assert sorted(it.start_ms for row in mine for it in row.windows) == [n * 60_000 for n in range(25_000)]
    assert len({(it.point, it.sequence) for it in rows}) == len(rows)
    one = meter(lines, 25_000, 1)
    for number in range(2_000):  # of one position, as a layer may give out: there is nothing to split
        one.count("out", 25_000, b"x", created_ms=number * 60_000)
    assert [len(it.windows) for it in one.rows(25_001)] == [0, 2_000]


def test_what_a_task_tells_of_the_same_positions_is_one_text() -> None:
    """Killed between two texts, it has told nothing by halves: no record came in of which nobody says that it was rejected."""
    lines: list[str] = []
    told = meter(lines, 0, 1)
    told.points, told.seen = ("in", "out", "rejected"), {point: [] for point in ("in", "out", "rejected")}
    for offset in range(3_000):  # of so many times that it is told in pieces
        for point in ("in", "rejected" if offset % 7 == 0 else "out"):
            told.count(point, offset, b"%d" % offset, created_ms=offset * 60_000)  # type: ignore[arg-type]
    told.flush(3_000)
    assert len(lines) > 2
    for line in lines:
        rows = {it.point: it for it in parse_lines([line])}
        assert {(it.start, it.stop) for it in rows.values()} == {(rows["in"].start, rows["in"].stop)}
        count = {point: sum(it.count for it in row.windows) for point, row in rows.items()}
        assert count["in"] == rows["in"].stop - rows["in"].start == count["out"] + count["rejected"]


def test_errors_that_are_all_of_another_class_are_a_row_that_a_broker_takes() -> None:
    """A handler puts an id into each code: the most frequent classes are told, and how many others there were."""
    told = meter([], 0, 1)
    told.points, told.seen = ("in", "dead"), {"in": [], "dead": []}
    for offset in range(6_000):
        for point in ("in", "dead"):
            error = ("often" if offset % 2 else f"{offset} {'x' * 300}") if point == "dead" else None
            told.count(point, offset, b"%d" % offset, created_ms=0, error=error)  # type: ignore[arg-type]
    [text] = told.texts(6_000)
    assert len(text) < 150_000
    [_, row] = parse_lines([text])
    assert (row.errors["often"], sum(row.errors.values()), len(row.errors)) == (3_000, 6_000, 101)
