"""The overlay against a naive one, which looks at every position of every line by itself."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest

from tests.audit.together import Judged, Together, apart
from workbench.audit.audit_frames import frame_of_rows
from workbench.audit.audit_ledger import counts, lines
from workbench.audit.stream_summaries import by_stream
from workbench.audit.window_verdicts import Arrival, StreamShape, WindowState, edges
from workbench.layers.meter import Meter
from workbench.layers.record_marks import hash_of
from workbench.layers.rows import GONE, AuditRow, Point, WindowCount, signed

pytestmark = pytest.mark.jvm

Key = tuple[str, int]  # stream, window
LENGTH, WINDOW_MS = 60, 60_000


def drawn(stream: str, draw: random.Random) -> list[AuditRow]:
    """Tasks that begin anywhere, skip some positions, read only some ranges, or find them gone; rows in any order, some twice."""
    rows: list[AuditRow] = []
    for incarnation in range(1, 1 + draw.randrange(1, 5)):
        at, sequence = draw.choice([0, 0, draw.randrange(LENGTH)]), 0
        while at < LENGTH and draw.random() < 0.97:
            stop = min(LENGTH, at + draw.randrange(1, 20))
            sequence += 1
            if draw.random() < 0.9:
                is_gone = draw.random() < 0.05
                of = [draw.randrange(3) * WINDOW_MS for _ in range(stop - at) if draw.random() < 0.9]
                if draw.random() < 0.5:
                    of = [0] * (stop - at)
                windows = [
                    WindowCount(start_ms=start, count=of.count(start), sum=draw.randrange(-(2**63), 2**63))
                    for start in sorted(set(of))
                ]
                rows.append(
                    AuditRow(
                        stream=stream, layer="a", point="in", topic="t", partition=0, start=at, stop=stop,
                        incarnation=GONE if is_gone else incarnation, sequence=at if is_gone else sequence, emitted_ms=1,
                        windows=[] if is_gone else windows,
                    )
                )  # fmt: skip
            at = stop
    rows += draw.sample(rows, len(rows) // 4)
    draw.shuffle(rows)
    return rows


def by_hand(rows: list[AuditRow]) -> tuple[dict[int, tuple[int, int, int | None]], int]:
    """Bounds and sums by window, and positions that nobody covers: one position after the other."""
    once = list({(it.incarnation, it.sequence): it for it in rows}.values())
    newest: dict[int, int] = {}
    for row in once:
        for position in range(row.start, row.stop):
            newest[position] = max(newest.get(position, -1), row.incarnation)
    low: dict[int, int] = defaultdict(int)
    high: dict[int, int] = defaultdict(int)
    sums: dict[int, int | None] = {}
    for row in once:
        kept = sum(newest[position] == row.incarnation for position in range(row.start, row.stop))
        for it in row.windows if kept else ():
            gone = row.stop - row.start - kept
            is_dense = len(row.windows) == 1 and it.count == row.stop - row.start
            low[it.start_ms] += kept if is_dense else max(0, it.count - gone)
            high[it.start_ms] += kept if is_dense else min(it.count, kept)
            before = sums.get(it.start_ms, 0)
            sums[it.start_ms] = None if gone or it.sum is None or before is None else signed(before + it.sum)
    missing = max(newest, default=-1) + 1 - min(newest, default=0) - len(newest)
    return {at: (low[at], high[at], sums[at]) for at in low}, missing


def test_two_hundred_drawn_lines_are_counted_as_by_hand(spark: Any) -> None:
    """Restarts, ranges, holes, double delivery, records that were gone."""
    made = {f"s{seed}": drawn(f"s{seed}", random.Random(seed)) for seed in range(200)}
    frame = frame_of_rows(spark, [row for rows in made.values() for row in rows]).cache()
    found: dict[str, dict[int, tuple[int, int, int | None]]] = defaultdict(dict)
    for row in counts(frame).collect():
        found[row["stream"]][row["window_ms"]] = (row["low"], row["high"], row["sum"])
    of_lines = lines(frame).collect()
    gaps = {row["stream"]: row["gap"] for row in of_lines}
    plain = {row["stream"] for row in of_lines if row["is_plain"]}
    for stream, rows in made.items():
        bounds, missing = by_hand(rows)
        assert found[stream] == bounds, stream
        assert gaps.get(stream, 0) == missing, stream
    assert 5 < len(plain) < 100  # both ways are taken


def meter(
    layer: str, *, at: float, incarnation: int = 1, start: int = 0, points: tuple[Point, ...] = ("in", "out")
) -> Meter:
    """Of one partition, with a clock that stands."""
    return Meter(
        "s", layer, topic="t", partition=0, start=start, points=points, incarnation=incarnation, now_ms=lambda: at
    )


def pipeline(read: int, *, at: float, lost: tuple[int, ...] = ()) -> list[AuditRow]:
    """A gateway gave out a record each second for two hours; a collector has read so many of them, and lost some."""
    gateway = meter("gateway", at=at, points=("out",))
    collector = meter("collector", at=at)
    for offset in range(7200):
        gateway.count("out", offset, str(offset).encode(), created_ms=offset * 1000)
    for offset in range(read):
        collector.count("in", offset, str(offset).encode(), created_ms=offset * 1000)
        if offset not in lost:
            collector.count("out", offset, str(offset).encode(), created_ms=offset * 1000)
    return [*gateway.rows(7200), *collector.rows(read)]


OUTER = "gateway → collector"
SHAPE = StreamShape(layers=("gateway", "collector"), window_ms=WINDOW_MS, lateness_ms=10 * WINDOW_MS)


TOGETHER = Together(SHAPE)


@pytest.fixture(scope="module")
def judged(spark: Any) -> Judged:
    """The runs of each case."""
    return TOGETHER.judged(spark)


def windows_of(judged: Judged, case: str, edge: str, run: str = "s") -> dict[int, Any]:
    """Rows of an edge by window."""
    return {at: row for (name, at), row in judged[case][run].items() if name == edge}


@TOGETHER.case
def lagging() -> dict[str, list[AuditRow]]:
    """A collector that is an hour behind."""
    now = 7_200_000.0
    return {"s": pipeline(3600, at=now)}


def test_who_lags_has_lost_nothing(judged: Judged) -> None:
    """Its rows are of now and tell of an hour ago: what it has not read yet is late, whatever the clock says."""
    found = windows_of(judged, "lagging", OUTER)
    assert {row["arrival"] for at, row in found.items() if at < 3_600_000} == {Arrival.OK}
    assert {(row["arrival"], row["state"]) for at, row in found.items() if at >= 3_600_000} == {
        (Arrival.LATE, WindowState.OPEN)
    }
    assert found[0]["state"] == WindowState.FINAL


@TOGETHER.case
def ahead() -> dict[str, list[AuditRow]]:
    """The same, and one record is of tomorrow."""
    now = 7_200_000.0
    gateway, collector = meter("gateway", at=now, points=("out",)), meter("collector", at=now)
    for offset in range(7200):
        created = 86_400_000 if offset == 100 else offset * 1000
        gateway.count("out", offset, str(offset).encode(), created_ms=created)
        if offset < 3600:
            collector.count("in", offset, str(offset).encode(), created_ms=created)
    return {"s": [*gateway.rows(7200), *collector.rows(3600)]}


def test_one_clock_that_is_ahead_does_not_end_the_windows_of_who_lags(judged: Judged) -> None:
    """A record of tomorrow among those of an hour ago: what the collector has not read yet is late, and no loss."""
    found = windows_of(judged, "ahead", OUTER)
    assert {row["arrival"] for at, row in found.items() if 3_600_000 <= at < 7_200_000} == {Arrival.LATE}


@TOGETHER.case
def ahead_in_its_own_row() -> dict[str, list[AuditRow]]:
    """The same, and that record is the only one of its row."""
    now = 7_200_000.0
    gateway, collector = meter("gateway", at=now, points=("out",)), meter("collector", at=now)
    rows: list[AuditRow] = []
    for offset in range(7200):
        created = 86_400_000 if offset == 100 else offset * 1000
        gateway.count("out", offset, str(offset).encode(), created_ms=created)
        if offset < 3600:
            collector.count("in", offset, str(offset).encode(), created_ms=created)
            if offset in (99, 100, 3599):
                rows += collector.rows(offset + 1)
    return {"s": [*gateway.rows(7200), *rows]}


def test_a_row_of_a_clock_that_is_ahead_does_not_end_the_windows_of_who_lags(judged: Judged) -> None:
    """When it was written tells nothing of what its layer has read, beside rows that do."""
    found = windows_of(judged, "ahead_in_its_own_row", OUTER)
    assert {row["arrival"] for at, row in found.items() if 3_600_000 <= at < 7_200_000} == {Arrival.LATE}


@TOGETHER.case
def repaired() -> dict[str, list[AuditRow]]:
    """Two of three lost records are given out again; then another one, which was not lost."""
    now = 7_200_000.0
    rows = pipeline(7200, at=now, lost=(100, 101, 4000))
    again = meter("collector", at=now + 60_000, incarnation=2, start=100)
    again.adds = "re-1"
    for offset in (100, 101):
        for point in again.points:
            again.count(point, offset, str(offset).encode(), created_ms=offset * 1000)
    runs = {"before": rows, "after": [*rows, *again.rows(102, pieces=[(100, 102)])]}
    again.count("out", 102, b"102", created_ms=102_000)  # and one that was not lost
    runs["too many"] = [*rows, *again.rows(103, pieces=[(100, 103)])]
    return runs


def test_a_replay_of_some_ranges_repairs_their_windows_only(judged: Judged) -> None:
    """Another task, later, which answers for these positions and no others; the window is amended to ok."""
    found = {run: windows_of(judged, "repaired", "collector", run) for run in ("before", "after", "too many")}
    assert {at: row["lost_low"] for at, row in found["before"].items() if row["lost_low"]} == {60_000: 2, 3_960_000: 1}
    after = found["after"]
    assert (after[60_000]["arrival"], after[60_000]["same"], after[60_000]["state"]) == (
        Arrival.OK,
        True,
        WindowState.AMENDED,
    )
    assert (after[3_960_000]["arrival"], after[3_960_000]["lost_low"]) == (Arrival.LOSS, 1)
    after = found["too many"]
    assert (after[60_000]["arrival"], after[60_000]["doubled_low"]) == (Arrival.DUP, 1)


@TOGETHER.case
def gone() -> dict[str, list[AuditRow]]:
    """The records were deleted before the collector read them, which somebody had done before or not."""
    gateway = meter("gateway", at=9e6, points=("out",))
    collector = meter("collector", at=9e6, incarnation=5)
    for offset in range(20):
        gateway.count("out", offset, b"%d" % offset, created_ms=offset)
    for offset in range(10, 20):
        collector.count("in", offset, b"%d" % offset, created_ms=offset)
    late = [*gateway.rows(20), *collector.rows(20, pieces=[(10, 20)], gone=[(0, 10)])]
    for one in (gateway, collector):
        one.forget(20)
        late += one.rows(20)
    first = meter("collector", at=1.0, incarnation=1)
    for offset in range(10):
        first.count("in", offset, b"%d" % offset, created_ms=offset)
    return {"nobody": late, "somebody": [*late, *first.rows(10)]}


def test_what_was_gone_counts_least(judged: Judged) -> None:
    """Nobody has read it: a loss. Somebody had read it before: it is there."""
    [row] = windows_of(judged, "gone", OUTER, "nobody").values()
    assert (row["arrival"], row["lost_low"], row["gap"]) == (Arrival.LOSS, 10, 0)
    [row] = windows_of(judged, "gone", OUTER, "somebody").values()
    assert (row["arrival"], row["same"]) == (Arrival.OK, True)


def test_a_hash_is_what_spark_has_for_the_same_id(spark: Any) -> None:
    """So that sums can be made again from the records."""
    ids = [b"", b"a", b"order-17", bytes(range(256))]
    frame = spark.createDataFrame(pa.table({"id": ids})).selectExpr("xxhash64(id) AS hash")
    assert [row["hash"] for row in frame.collect()] == [hash_of(it) for it in ids]


def test_a_stream_in_one_line(spark: Any) -> None:
    """Final losses are counted, what is late or lies in a gap may be missing."""
    now = 7_200_000.0
    frame = edges(frame_of_rows(spark, pipeline(3600, at=now, lost=(100, 101, 1000))), SHAPE)
    [row] = by_stream(frame).collect()
    assert (row["stream"], row["lost"], row["doubled"], row["edge"]) == ("s", 3, 0, "collector")
    assert row["missing_at_most"] == 3600  # which the collector has not read yet
    assert row["open_windows"] > 60


@TOGETHER.case
def killed() -> dict[str, list[AuditRow]]:
    """A process was killed; its records have its own numbers, or those of a log."""
    runs = {}
    for of_process in (True, False):
        rows = []
        for name, at, numbers in (("pod-1/1", 100_000.0, range(50)), ("pod-2/2", 5_000_000.0, range(50, 100))):
            gateway = Meter(
                "s", "gateway", topic=name, partition=0, start=0, points=("out",), incarnation=1, of_process=of_process,
                now_ms=lambda at=at: at,
            )  # fmt: skip
            for offset, number in enumerate(numbers):
                gateway.count("out", offset, b"%d" % number, created_ms=number * 1000)
            rows += gateway.rows(50)
            gateway.forget(50)
            rows += gateway.rows(50)
        collector = meter("collector", at=5_000_000.0, points=("in",))
        for number in range(100):
            collector.count("in", number, b"%d" % number, created_ms=number * 1000)
        rows += collector.rows(100)
        collector.forget(100)
        rows += collector.rows(100)
        runs[str(of_process)] = rows
    return runs


def test_who_was_killed_and_numbered_its_records_itself_holds_nothing_open(judged: Judged) -> None:
    """Nobody goes on with its numbers. A partition of a log is gone on with, so its silence keeps windows open."""
    for name in ("True", "False"):
        found = windows_of(judged, "killed", OUTER, name)
        assert str(WindowState.FINAL in {row["state"] for row in found.values()}) == name
        assert {row["arrival"] for row in found.values()} == {Arrival.OK}


def task(rows: list[AuditRow], incarnation: int, spans: dict[tuple[int, int], int]) -> None:
    """A task takes in each position of the spans, and rejects so many of them; of a span without any, it has no row of that point."""
    for sequence, ((start, stop), rejected) in enumerate(spans.items(), 1):
        each: dict[Point, int] = {"in": stop - start, "out": stop - start - rejected, "rejected": rejected}
        rows += [
            AuditRow(
                stream="s", layer="a", point=point, topic="t", partition=0, start=start, stop=stop, incarnation=incarnation,
                sequence=sequence, emitted_ms=1, windows=[WindowCount(start_ms=0, count=count)] if count else [],
            )
            for point, count in each.items()
            if count or point != "rejected"
        ]  # fmt: skip


AGAIN: dict[str, tuple[dict[tuple[int, int], int], int]] = {
    "in rows with other borders": ({(0, 50): 0, (50, 100): 1}, 1),
    "and this time everything went well": ({(0, 50): 0, (50, 100): 0}, 0),
    "of the row before, a part was read again, and two records were rejected": ({(40, 60): 2, (60, 100): 0}, 2),
}


@pytest.fixture(scope="module")
def read_again(spark: Any) -> dict[str, dict[str, tuple[int, int]]]:
    """Of each of them, the bounds by point; counted in one job."""
    runs: dict[str, list[AuditRow]] = {name: [] for name in AGAIN}
    for name, (again, rejected) in AGAIN.items():
        task(runs[name], 1, {(0, 40): 0, (40, 100): 1} if rejected == 2 else {(0, 100): 1})
        task(runs[name], 2, again)
    found: dict[str, dict[str, tuple[int, int]]] = {name: {} for name in AGAIN}
    for it in counts(frame_of_rows(spark, apart(runs))).collect():
        found[it["stream"]][it["point"]] = (it["low"], it["high"])
    return found


@pytest.mark.parametrize("name", AGAIN)
def test_what_is_read_again_covers_what_was_rejected_before(
    read_again: dict[str, dict[str, tuple[int, int]]], name: str
) -> None:
    """A task that rejects nothing has no row that says so: what it took in and gave out says it."""
    found, rejected = read_again[name], AGAIN[name][1]
    assert found.get("rejected", (0, 0)) == (rejected, rejected)
    assert (found["in"], found["out"]) == ((100, 100), (100 - rejected, 100 - rejected))
