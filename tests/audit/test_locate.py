"""Which records are missing: named if that can be known, and else counted."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from workbench.audit.audit_frames import frame_of_rows, rows_of_values
from workbench.audit.layer_latency import latencies
from workbench.audit.missing_records import Interval, NamedInterval, intervals, name_missing, without_repaired
from workbench.errors import GuardError, UsageError
from workbench.layers.meter import Meter
from workbench.layers.record_marks import NO_MARKS, Marks, hash_of, headers_for, marks_of
from workbench.layers.rows import LATEST_MS, signed
from workbench.plans.missing_records_file import MissingRecords, read_missing, write_missing

RECORDS = [{"offset": 100 + number, "hash": hash_of(b"%d" % number)} for number in range(20)]


def interval(lost: tuple[int, ...], *, summed: bool = True) -> Interval:
    """Without the records at these offsets."""
    gone = [it["hash"] for it in RECORDS if it["offset"] in lost]
    total = signed(sum(gone)) if summed else None
    return Interval(topic="t", partition=0, start=100, stop=120, taken=20, lost=len(lost), sum=total)


def told(lost: set[int], doubled: list[int]) -> Interval:
    """Without some, and with others once more."""
    whole = interval(tuple(sorted(lost)))
    more = sum(RECORDS[at - 100]["hash"] for at in doubled)
    return replace(whole, lost=len(lost) - len(doubled), sum=signed((whole.sum or 0) - more))


# Each takes up to a fifth of a second: fewer of them, and each branch for sure.
@settings(max_examples=30)
@example(lost={103}, doubled=[])
@example(lost={103, 117}, doubled=[])
@example(lost={103, 117}, doubled=[105, 105])
@example(lost=set(range(100, 107)), doubled=[])
@example(lost=set(range(100, 120)), doubled=[])
@given(st.sets(st.integers(100, 119), min_size=1, max_size=20), st.lists(st.integers(100, 119), max_size=12))
def test_a_few_or_all_are_named_by_their_sum_and_others_are_not_guessed(lost: set[int], doubled: list[int]) -> None:
    """Whichever they are, and whatever came out twice."""
    doubled = [it for it in doubled if it not in lost]
    asked = told(lost, doubled)
    found = name_missing(asked, RECORDS, None)
    if found.offsets is not None:
        assert (sorted(found.offsets), found.unnamed) == (sorted(lost), 0)
    else:
        assert len(lost) + len(doubled) > 4
        assert found.unnamed == (1 if asked.lost == 0 else max(0, asked.lost)) <= len(lost)
    if len(lost) in (1, 2, 20) and not doubled:
        assert found.offsets is not None


@given(
    st.lists(st.integers(0, 11), min_size=2, max_size=40), st.sets(st.integers(0, 11), max_size=3),
    st.lists(st.integers(0, 39), max_size=5), st.booleans(),
)  # fmt: skip
def test_records_that_stand_in_the_topic_again_and_again_are_named_or_open(
    ids: list[int], lost_ids: set[int], more: list[int], is_at_hand: bool
) -> None:
    """A producer that tries again writes an id many times, here and elsewhere. Never another set than the truth."""
    records = [{"offset": at, "hash": hash_of(b"%d" % name)} for at, name in enumerate(ids)]
    lost = [at for at, name in enumerate(ids) if name in lost_ids]
    doubled = [at for at in more if at < len(ids) and at not in lost]
    total = sum(records[at]["hash"] for at in lost) - sum(records[at]["hash"] for at in doubled)
    asked = Interval(
        topic="t", partition=0, start=0, stop=len(ids), taken=len(ids), lost=len(lost) - len(doubled), sum=signed(total)
    )
    arrived = {it["hash"]: 7 for at, it in enumerate(records) if at not in lost} if is_at_hand else None
    found = name_missing(asked, records, arrived)
    if asked.lost == 0 and asked.sum == 0:  # nothing is odd
        return
    if is_at_hand or found.offsets is not None:
        assert sorted(found.offsets or ()) == lost
        assert found.offsets is not None
    assert found.unnamed <= len(lost)


@given(st.sets(st.integers(100, 119), min_size=1, max_size=20))
def test_with_what_arrived_all_are_named(lost: set[int]) -> None:
    """And not if what arrived has more than came out."""
    arrived = {it["hash"]: 1 for it in RECORDS if it["offset"] not in lost}
    assert set(name_missing(interval(tuple(lost)), RECORDS, arrived).offsets or ()) == lost
    every = {it["hash"]: 1 for it in RECORDS}
    assert name_missing(interval(tuple(lost)), RECORDS, every).offsets is None
    assert name_missing(interval(tuple(lost)), RECORDS, {}).offsets is None or len(lost) == 20


@given(st.sets(st.integers(100, 119), min_size=1, max_size=6), st.lists(st.integers(100, 119), max_size=2))
def test_what_was_doubled_beside_it_is_seen_by_the_sum(lost: set[int], doubled: list[int]) -> None:
    """Fewer seem to be lost; the sums tell."""
    doubled = [it for it in doubled if it not in lost]
    arrived = {it["hash"]: 1 + doubled.count(it["offset"]) for it in RECORDS if it["offset"] not in lost}
    asked = told(lost, doubled)
    assert set(name_missing(asked, RECORDS, arrived).offsets or ()) == lost
    short = {hashed: count for at, (hashed, count) in enumerate(arrived.items()) if at != 0}
    assert name_missing(asked, RECORDS, short).offsets is None


def test_what_was_repaired_is_not_missing_any_more() -> None:
    """And where a repair has not given out all, nobody knows."""
    named = [NamedInterval(interval=interval((103, 107)), offsets=[103, 107], candidates=20)]
    again = Interval(topic="t", partition=0, start=103, stop=104, taken=1, lost=0, sum=None)
    assert [it.offsets for it in without_repaired(named, [again])] == [[107]]
    assert without_repaired(named, [again, replace(again, start=107, stop=108)]) == []
    assert [it.offsets for it in without_repaired(named, [replace(again, lost=1)])] == [None]
    assert [it.offsets for it in without_repaired(named, [replace(again, partition=1)])] == [[103, 107]]


def test_without_ids_only_all_or_nothing_is_known() -> None:
    """A number alone names nobody."""
    bare = [{**it, "hash": None} for it in RECORDS]
    assert name_missing(interval((103,), summed=False), bare, None).offsets is None
    assert name_missing(interval(tuple(range(100, 120)), summed=False), bare, None).offsets == list(range(100, 120))


@pytest.mark.parametrize("has_ids", [False, True])
def test_what_compaction_has_left_is_not_taken_for_what_is_missing(has_ids: bool) -> None:
    """As many records are still there as are missing, and they are others: those have arrived."""
    asked = interval(tuple(range(100, 105)), summed=has_ids)
    left = [{**it, "hash": it["hash"] if has_ids else None} for it in RECORDS[15:]]
    found = name_missing(asked, left, None)
    assert (found.offsets, found.unnamed) == (None, 5)


@pytest.mark.parametrize("lost", [{105}, {105, 106}, set(range(100, 120))])
def test_records_of_a_topic_that_was_recreated_are_not_taken_for_those_that_are_missing(lost: set[int]) -> None:
    """As many others stand at the same offsets; that nothing came out does not make them the missing ones."""
    others = [{"offset": it["offset"], "hash": hash_of(b"other %d" % it["offset"])} for it in RECORDS]
    assert name_missing(told(lost, []), RECORDS, None).offsets == sorted(lost)
    assert name_missing(told(lost, []), others, None).offsets is None


@pytest.mark.parametrize(
    ("now", "is_other"),
    [({"t": "one"}, False), ({"t": "two"}, True), ({}, False), ({"u": "two"}, False)],
)
def test_the_file_knows_the_topic_that_it_is_of(tmp_path: Path, now: dict[str, str], is_other: bool) -> None:
    """A plan from it for a topic of the same name that was recreated, or of another cluster, would replay other records."""
    path = tmp_path / "missing.json"
    write_missing(path, MissingRecords.of("s", "l", [("t", 0, [5])], unnamed=0, topic_ids={"t": "here:one"}))
    read = read_missing(path)
    if is_other:
        with pytest.raises(GuardError, match="'t' is not the topic of which records were missing"):
            read.check_same_topics("here", now)
    else:
        read.check_same_topics("here", now)
    if now.get("t"):
        with pytest.raises(GuardError):
            read.check_same_topics("elsewhere", now)
    MissingRecords.of("s", "l", [("t", 0, [5])], unnamed=0).check_same_topics("elsewhere", now)  # of an earlier version


def test_two_pairs_with_one_sum_are_not_told_apart() -> None:
    """Of hashes that add up alike."""
    same = [{"offset": at, "hash": value} for at, value in enumerate((1, 4, 2, 3, 50))]
    pairs = [it for it in combinations((1, 4, 2, 3, 50), 2) if sum(it) == 5]
    assert len(pairs) == 2
    asked = Interval(topic="t", partition=0, start=0, stop=5, taken=5, lost=2, sum=5)
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
    assert [(it.start, it.stop, it.taken, it.lost) for it in found] == [(10, 20, 10, 1), (20, 30, 10, 0)]
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
    values = spark.createDataFrame(pa.table({"value": [*(it.encode() for it in [*bad, good]), b"\xff\xfe"]}))
    [row] = rows_of_values(values).collect()
    assert (row["start"], row["stop"], row["adds"]) == (0, 5, "")


@pytest.mark.jvm
def test_a_process_tells_of_its_points_at_once_or_not_at_all(spark: Any) -> None:
    """Killed between two records of the topic of rows, it has told nothing by halves: no record came in and not out."""
    meter = Meter("s", "gateway", topic="p/1", partition=0, start=0, points=("in", "out", "dead"), of_process=True)
    for number in range(2_100):  # so many windows that they are told of in pieces
        for point in ("in", "out"):
            meter.count(point, number, b"%d" % number, created_ms=number * 60_000)
    texts = meter.texts(2_100)
    for written in range(len(texts) + 1):
        values = spark.createDataFrame(
            pa.table({"value": pa.array([it.encode() for it in texts[:written]], pa.binary())})
        )
        rows = rows_of_values(values).collect()
        told = {point: {(it["start"], it["stop"]) for it in rows if it["point"] == point} for point in meter.points}
        assert told["in"] == told["out"] == told["dead"]
    assert len(rows) == 3 * len(texts)
    assert sum(it["count"] for row in rows if row["point"] == "out" for it in row["windows"]) == 2_100


@pytest.mark.parametrize("created_ms", [-5, 0, 1.5, 1_795_000_000_000.25, 1_795_000_000_000_000, LATEST_MS, 10**30])
def test_a_record_is_of_the_same_window_where_it_is_made_and_where_its_mark_is_read(created_ms: float) -> None:
    """Who counts a time that cannot be, or half a millisecond, and writes a mark that says nothing, has lost the record elsewhere."""
    meter = Meter("s", "gateway", topic="p/1", partition=0, start=0, points=("out",))
    meter.count("out", 0, b"id", created_ms=created_ms)
    [row] = meter.rows(1)
    read = marks_of(headers_for(b"id", created_ms=created_ms, updated_ms=0)).created_ms
    assert read is not None
    assert [it.start_ms for it in row.windows] == [read // 60_000 * 60_000]
