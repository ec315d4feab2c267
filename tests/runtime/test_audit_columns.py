"""What a task tells an audit is made of columns: each record once, as if each had been looked at alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from workbench.layers.record_marks import hash_of, headers_for, marks_in, marks_of
from workbench.layers.rows import signed
from workbench.runtime.event import Record, body_bytes
from workbench.runtime.task_audit_meter import TaskMeter


class Unreadable:
    """Headers that the client cannot read."""

    def __iter__(self) -> Iterator[Any]:
        raise ValueError("no text")


def headers(offset: int, is_marked: bool) -> Any:
    """Marks of a record, or none."""
    return headers_for(b"%d" % offset, created_ms=61_000 * (offset % 4), updated_ms=offset) if is_marked else None


_VALUES = st.one_of(
    st.none(),
    st.binary(max_size=3),
    st.sampled_from([b"0", b"17", b"9" * 16, b"1" * 17, "٣".encode(), b"253402300799000"]),
)
_HEADERS = st.one_of(
    st.none(),
    st.lists(st.tuples(st.sampled_from(["wb-id", "wb-ctime", "wb-utime", "other"]), _VALUES), max_size=4),
    st.just([("wb-id", b"a"), ("wb-ctime", b"5"), ("wb-utime", b"6")]),
    st.just(Unreadable()),
)


_OF_ONE_LENGTH = st.integers(0, 10**16 - 1).map(
    lambda it: [("wb-id", b"%d" % it), ("wb-ctime", b"%016d" % it), ("wb-utime", b"%015d" % (it // 10))]
)


@given(st.one_of(st.lists(_HEADERS, min_size=1, max_size=6), st.lists(_OF_ONE_LENGTH, min_size=1, max_size=6)))
def test_marks_of_many_records_are_those_of_each(many: list[Any]) -> None:
    """Whatever the headers hold: without values, twice, no numbers, too long, and such as the client cannot read."""
    found, each = marks_in(many), [marks_of(it) for it in many]
    if found is None:
        assert set(each) == {(None, None, None)}
        return
    columns = zip(found.hashes, found.named, found.created_ms, found.updated_ms, strict=True)
    shown = [
        (int(hashed) if named else None, *(None if it < 0 else int(it) for it in times))
        for hashed, named, *times in columns
    ]
    assert shown == [tuple(it) for it in each]


@given(st.data())
def test_a_task_tells_every_record_once_whatever_the_batches_and_commits(data: st.DataObject) -> None:
    """Bytes, hashes and both latencies too, when a commit ends within a batch; dead ones and gaps of the log are among them."""
    gaps = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=30))
    offsets = list(accumulate(gaps))
    marked = [data.draw(st.booleans()) for _ in offsets]
    records = [
        Record("t", 0, offset, None if offset % 3 else b"k", b"v" * (offset % 5), 61_000 * (offset % 4), headers(offset, named))
        for offset, named in zip(offsets, marked, strict=True)
    ]  # fmt: skip
    meter = TaskMeter(
        "s", "l", topic="t", partition=0, start=0, points=("in", "out", "rejected", "dead"), incarnation=1
    )
    rows, at = [], 0
    while at < len(records) or meter.start <= offsets[-1]:
        if at < len(records):
            size = data.draw(st.integers(1, 9))
            run = records[at : at + size]
            stamps = [it.timestamp_ms for it in run]
            meter.took(run, [it.offset for it in run], stamps, body_bytes(run), now_ms=500_000 + at)
            at += size
        dead = [it for it in offsets[:at] if it % 7 == 0 and it >= meter.start]
        meter.others.update(dict.fromkeys(dead, ("dead", "odd")))
        meter.ended(offsets[:at], 600_000)
        last = offsets[min(at, len(offsets)) - 1] + 1
        stop = data.draw(st.integers(meter.start, last)) if at < len(records) else last
        rows += meter.rows(stop)
        meter.forget(stop)
    for point in ("in", "out", "dead"):
        mine = [it for it in records if point == "in" or (it.offset % 7 == 0) == (point == "dead")]
        windows = [it for row in rows if row.point == point for it in row.windows]
        assert sum(it.count for it in windows) == len(mine)
        assert sum(it.bytes for it in windows) == sum(len(it.key or b"") + len(it.value or b"") for it in mine)
        sums = [it.sum for it in windows]
        if all(it.headers for it in mine):
            assert signed(sum(filter(None, sums))) == signed(sum(hash_of(b"%d" % it.offset) for it in mine))
        times = [sum(row.created_ms) for row in rows if row.point == point]
        assert sum(times) == len(mine if point == "in" else [it for it in mine if it.offset % 16 == 0])
        assert all(sum(row.updated_ms) <= sum(row.created_ms) for row in rows)
