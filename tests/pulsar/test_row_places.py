"""Positions in an audit's rows of a Pulsar, and the numbers of tasks that its commits cannot keep."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.commit_note import CommitNote
from workbench.layers.row_batch import RowBatch
from workbench.pulsar.entry_messages import MessagePlace
from workbench.pulsar.runtime.places_as_offsets import offset_behind, offset_of, place_of
from workbench.pulsar.runtime.pulsar_audit_rows import PulsarPlaces
from workbench.pulsar.runtime.pulsar_queue import QUEUE
from workbench.queues.position import packed
from workbench.runtime.audit_rows_of_task import Auditor, PartitionAudit
from workbench.runtime.config import AuditConfig
from workbench.runtime.event import Record

PART = ("public/default/orders", -1)
PLACE = st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**20 - 2), st.integers(0, 1023))


@given(PLACE, PLACE)
def test_positions_rise_as_places_do(one: tuple[int, int, int], other: tuple[int, int, int]) -> None:
    """And come back from the runtime's offsets."""
    places = PulsarPlaces(lambda *_: None)
    offsets = [offset_of(MessagePlace(*it[:2], it[2])) for it in (one, other)]
    assert [place_of(it) for it in offsets] == [one, other]
    found = [places.of(it) for it in offsets]
    assert found == [packed(one), packed(other)]
    assert (one < other) == ((found[0] or 0) < (found[1] or 0))


def test_rows_end_where_reading_may_begin_again() -> None:
    """Before the batch of which a part is acknowledged, and behind it; behind a whole one, at the next entry, as a mark."""
    places = PulsarPlaces(lambda _part, _ledger, entry: {7: 10}.get(entry))
    assert places.ends(PART, offset_of(MessagePlace(5, 7, 4))) == [packed((5, 7, 0)), packed((5, 7, 4))]
    assert places.ends(PART, offset_of(MessagePlace(5, 7, 9)) + 1) == [packed((5, 7, 0)), packed((5, 8, 0))]
    assert places.ends(PART, offset_behind(5, 7)) == [packed((5, 8, 0))] * 2
    assert places.ends(PART, offset_of(MessagePlace(5, 9, 0)) + 1)[-1] == packed((5, 9, 1))  # nobody knows its size
    assert places.of(offset_of(MessagePlace(5, 7, 1024))) is None
    start = packed((5, 7, 0)) or 0
    # A broker that keeps which part of a batch is acknowledged sends the rest; another entry says nothing.
    assert places.begin(start, packed((5, 7, 4)) or 0) == packed((5, 7, 4))
    assert places.begin(start, packed((6, 0, 4)) or 0) == start


class Writer:
    """Keeps rows, and gives a number when it is told to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.number: Future[int] = Future()

    def put(self, lines: Sequence[str]) -> RowBatch:
        self.lines += lines
        return RowBatch(0)

    def claim(self) -> Future[int]:
        return self.number

    def close(self, seconds: float) -> None:
        """Nothing is under way."""


def auditor(writer: Writer, clock: list[float]) -> Auditor:
    """Of one consumer, on a Pulsar."""
    return Auditor(
        AuditConfig(topic="public/default/rows"), writer, group="billing", places=PulsarPlaces(lambda *_: 1),
        log_end=lambda *_: None, ranges=None, clock=lambda: clock[0], wall_clock=lambda: 1_795_000_000.0,
    )  # fmt: skip


def take(audit: PartitionAudit, *entries: int, index: int = 0) -> list[int]:
    """Messages of these entries are taken in and handled; their offsets."""
    offsets = [offset_of(MessagePlace(5, it, index)) for it in entries]
    run: list[Any] = [Record(*PART, it, b"k", b"v", 1_795_000_000_000, ()) for it in offsets]
    audit.took(run, offsets, [it.timestamp_ms for it in run], [1] * len(run), 1_795_000_000_500)
    audit.ended(offsets, 1_795_000_000_900)
    return offsets


def test_no_row_is_written_before_the_writer_has_given_a_number() -> None:
    """A commit proves no number here. Then rows have it, and a log that begins anew a larger one."""
    writer, clock = Writer(), [0.0]
    mine = auditor(writer, clock)
    audit = mine.begin(PART, CommitNote(), offset_behind(5, 0))
    offsets = take(audit, 1, 2, 3)
    audit.committed()
    mine.begin_rows([audit])
    assert (audit.is_claimed, audit.is_numbered) == (False, False)
    # Only where it begins: if nothing more comes, that is missing, and not nothing.
    begun = [row for it in writer.lines for row in json.loads(it)]
    assert {(it["start"], it["stop"], it["emitted_ms"]) for it in begun} == {(packed((5, 1, 0)), packed((5, 1, 0)), 0)}
    assert not mine.is_due(PART, audit, position=offset_behind(5, 0))
    writer.number.set_result(12_345)
    assert audit.is_claimed
    [stop] = audit.ends([-1, offsets[-1] + 1])[-1:]
    rows = {it.point: it for it in audit.rows(stop, wanted=None, skipped=(), clock=0.0)}
    assert {(it.incarnation, it.start, it.stop, it.partition) for it in rows.values()} == {
        (12_345, packed((5, 1, 0)), packed((5, 4, 0)), 0)
    }
    assert {point: sum(it.count for it in row.windows) for point, row in rows.items()} == {"in": 3, "out": 3}
    assert audit.ends([offsets[-1] + 1]) == []  # told
    again = audit.anew(offsets[0])
    assert again.is_claimed and again.incarnation == 12_346


def test_what_is_too_large_for_a_row_is_not_told() -> None:
    """A number that is wrong would be worse: windows stay open."""
    writer, clock = Writer(), [0.0]
    audit = auditor(writer, clock).begin(PART, CommitNote(), offset_behind(5, 0))
    writer.number.set_result(1)
    first = take(audit, 1)
    [stop] = audit.ends([first[-1] + 1])[-1:]
    assert audit.rows(stop, wanted=None, skipped=(), clock=0.0)
    late = take(audit, 2, index=1_024)
    assert audit.ends([late[-1] + 1]) == []


def test_what_waits_too_long_for_a_number_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is committed and cannot be told does not pile up; it is missing in the ledger, and so it is unknown."""
    monkeypatch.setattr("workbench.runtime.audit_rows_of_task.MOST_UNTOLD", 2)
    writer, clock = Writer(), [0.0]
    mine = auditor(writer, clock)
    audit = mine.begin(PART, CommitNote(), offset_behind(5, 0))
    mine.begin_rows([audit])
    offsets = take(audit, 1, 2)
    audit.spare(offsets[1] + 1)  # few
    offsets += take(audit, 3)
    audit.spare(offsets[1] + 1)
    writer.number.set_result(1)
    [stop] = audit.ends([offsets[2] + 1])[-1:]
    rows = {it.point: it for it in audit.rows(stop, wanted=None, skipped=(), clock=0.0)}
    assert (rows["in"].start, sum(it.count for it in rows["in"].windows)) == (packed((5, 3, 0)), 1)
    assert json.loads(writer.lines[0])[0]["start"] == packed((5, 1, 0))


def test_ranges_of_packed_positions_end_with_their_batch() -> None:
    """What lies in the last batch behind them is acknowledged with it; a topic without partitions has the partition 0."""
    [first, last] = [packed((5, 7, it)) or 0 for it in (3, 4)]
    ranges = QUEUE.ranges({PART[0]: {0: [(first, first + 1), (last + 2, last + 4)]}})
    wanted = [index for index in range(10) if ranges.wants(PART, offset_of(MessagePlace(5, 7, index)))]
    assert wanted == [3, 6, 7]
    assert not ranges.wants(PART, offset_of(MessagePlace(5, 8, 0)))
    assert not ranges.wants(("public/default/other", -1), offset_of(MessagePlace(5, 7, 3)))
    assert ranges.end(PART) == offset_behind(5, 7)
    assert ranges.ends == {(PART[0], 0): offset_behind(5, 7)}
