"""Which records are missing: named if that can be known, and else counted."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.audit.frames import frame_of_rows, rows_of_values
from workbench.audit.latency import latencies
from workbench.audit.locate import Interval, intervals, name_missing
from workbench.errors import UsageError
from workbench.layers.marks import NO_MARKS, Marks, hash_of, headers_for, marks_of
from workbench.layers.meter import Meter
from workbench.layers.rows import signed
from workbench.plans.missing import MissingRecords, read_missing, write_missing

RECORDS = [{"offset": 100 + number, "hash": hash_of(b"%d" % number)} for number in range(20)]


def interval(lost: tuple[int, ...], *, summed: bool = True) -> Interval:
    """Without the records at these offsets."""
    gone = [it["hash"] for it in RECORDS if it["offset"] in lost]
    total = signed(sum(gone)) if summed else None
    return Interval(topic="t", partition=0, start=100, stop=120, lost=len(lost), sum=total)


@given(st.sets(st.integers(100, 119), min_size=1, max_size=20))
def test_one_two_or_all_are_named_by_their_sum_and_others_are_not_guessed(lost: set[int]) -> None:
    """Whichever they are."""
    found = name_missing(interval(tuple(sorted(lost))), RECORDS, None)
    if len(lost) in (1, 2, 20):
        assert sorted(found.offsets or ()) == sorted(lost)
    else:
        assert (found.offsets, found.candidates) == (None, 20)


@given(st.sets(st.integers(100, 119), min_size=1, max_size=20))
def test_with_what_arrived_all_are_named(lost: set[int]) -> None:
    """And not if what arrived has more than came out."""
    arrived = frozenset(it["hash"] for it in RECORDS if it["offset"] not in lost)
    assert set(name_missing(interval(tuple(lost)), RECORDS, arrived).offsets or ()) == lost
    every = frozenset(it["hash"] for it in RECORDS)
    assert len(lost) == 20 or name_missing(interval(tuple(lost)), RECORDS, every).offsets is None


def test_without_ids_only_all_or_nothing_is_known() -> None:
    """A number alone names nobody."""
    bare = [{**it, "hash": None} for it in RECORDS]
    assert name_missing(interval((103,), summed=False), bare, None).offsets is None
    assert name_missing(interval(tuple(range(100, 120)), summed=False), bare, None).offsets == list(range(100, 120))


def test_two_pairs_with_one_sum_are_not_told_apart() -> None:
    """Of hashes that add up alike."""
    same = [{"offset": at, "hash": value} for at, value in enumerate((1, 4, 2, 3, 50))]
    pairs = [it for it in combinations((1, 4, 2, 3, 50), 2) if sum(it) == 5]
    assert len(pairs) == 2
    asked = Interval(topic="t", partition=0, start=0, stop=5, lost=2, sum=5)
    assert name_missing(asked, same, None).offsets is None


def test_the_file_of_missing_records_is_strict(tmp_path: Path) -> None:
    """As it was written; what is none is refused."""
    path = tmp_path / "missing.json"
    made = MissingRecords.of("s", "l", [("t", 1, [5, 6, 9]), ("t", 0, []), ("t", 1, [7])], unnamed=2)
    assert (made.records, made.ranges()) == (4, {("t", 1): [(5, 8), (9, 10)]})
    write_missing(path, made)
    assert read_missing(path) == made
    write_missing(path, MissingRecords.of("s", "l", [], unnamed=2))
    with pytest.raises(UsageError, match="names no record"):
        read_missing(path)
    path.write_text(
        json.dumps({**made.document(), "partitions": [{"topic": "t", "partition": -1, "ranges": [[5, 8]]}]})
    )
    with pytest.raises(UsageError, match="no file of missing records"):
        read_missing(path)


def test_marks_are_read_back_and_what_is_none_says_nothing() -> None:
    """Headers come from anybody."""
    headers: list[tuple[str, bytes | None]] = [("other", b"1"), *headers_for(b"id", created_ms=5, updated_ms=7)]
    assert marks_of(headers) == Marks(hash_of(b"id"), 5, 7)
    assert marks_of(None) == marks_of([("wb-ctime", b"-5"), ("wb-utime", None), ("wb-ctime", b"9" * 400)]) == NO_MARKS
    assert marks_of([("wb-ctime", b"1"), ("wb-ctime", b"2")]).created_ms == 2


@pytest.mark.jvm
def test_only_rows_that_do_not_add_up_are_intervals(spark: Any) -> None:
    """A lost record, one that is exchanged for another, and one that was given up, which is none."""
    mine = Meter("s", "l", topic="t", partition=0, start=0, points=("in", "out", "dead"), incarnation=1)
    rows = []
    for block in range(4):
        for offset in range(block * 10, block * 10 + 10):
            name = b"%d" % offset
            mine.count("in", offset, name, created_ms=offset)
            if block == 1 and offset == 15:
                continue
            if block == 3 and offset == 35:
                mine.count("dead", offset, name, created_ms=offset, error="E")
            else:
                mine.count("out", offset, b"another" if offset == 25 else name, created_ms=offset)
        rows += mine.rows(block * 10 + 10)
        mine.forget(block * 10 + 10)
    found = intervals(frame_of_rows(spark, rows), stream="s", layer="l")
    assert [(it.start, it.stop, it.lost) for it in found] == [(10, 20, 1), (20, 30, 0)]
    assert found[0].sum == hash_of(b"15")
    assert intervals(frame_of_rows(spark, rows), stream="s", layer="l", since_ms=60_000) == []


@pytest.mark.jvm
def test_percentiles_are_of_all_rows_together(spark: Any) -> None:
    """Buckets add up: 99 records within 10 ms, and one of 4 seconds."""
    rows = []
    for partition in range(2):
        mine = Meter(
            "s", "l", topic="t", partition=partition, start=0, points=("in",), incarnation=1, now_ms=lambda: 10_000.0
        )
        for offset in range(50):
            late = partition == 1 and offset == 49
            mine.count("in", offset, None, created_ms=6_000 if late else 9_992, updated_ms=9_999)
        rows += mine.rows(50)
    found = {row["since"]: row for row in latencies(frame_of_rows(spark, rows)).collect()}
    assert [found["created"][f"{it}_ms"] for it in ("p50", "p95", "p99")] == [10, 10, 10]
    assert (found["updated"]["p99_ms"], found["updated"]["records"]) == (1, 100)


@pytest.mark.jvm
def test_a_topic_takes_anything_and_only_rows_are_read(spark: Any) -> None:
    """Text, other JSON, rows of another version, rows that cannot be."""
    good = Meter("s", "l", topic="t", partition=0, start=0, incarnation=1).rows(5)[0].line()
    bad = [
        "",
        "{",
        "[]",
        "null",
        '{"schema": "workbench.audit/1"}',
        good.replace("audit/1", "audit/2"),
        good.replace('"stop":5', '"stop":-5'),
    ]
    values = spark.createDataFrame(
        [(bytearray(it.encode()),) for it in [*bad, good]] + [(bytearray(b"\xff\xfe"),)], "value binary"
    )
    [row] = rows_of_values(values).collect()
    assert (row["start"], row["stop"], row["adds"]) == (0, 5, False)
