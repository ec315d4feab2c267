"""Rules of runs: records that are taken in together are of one partition and epoch, and ascend."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runtime.memory import MemorySource
from workbench.runtime import Record, Runtime, RuntimeConfig, running
from workbench.runtime.event import RECORD_BYTES, UnreadableHeaders, record_bytes, runs
from workbench.runtime.ranges_to_process import Ranges
from workbench.runtime.thread_counters import Tally


def _record(partition: int, offset: int, epoch: int | None = 0) -> Record:
    return Record("t", partition, offset, b"k", b"value", 0, None, epoch)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 6), st.sampled_from([None, 0, 1]))))
def test_a_run_is_of_one_partition_and_epoch_and_ascends(given_records: list[tuple[int, int, int | None]]) -> None:
    """In their order, none lost; a log that begins anew within a batch never looks like one that goes on."""
    records = [_record(*it) for it in given_records]
    found = list(runs(records))
    assert [record for run, _ in found for record in run] == records
    for run, offsets in found:
        assert offsets == [record.offset for record in run]
        assert all(before < after for before, after in pairwise(offsets))
        assert len({(record.partition, record.leader_epoch) for record in run}) == 1


def test_a_run_is_wholly_within_ranges_or_wholly_outside() -> None:
    """What is left out never counts as taken in before what comes ahead of it."""
    ranges = Ranges({"t": {0: [(2, 4), (6, 7)]}})
    found = [offsets for _, offsets in runs([_record(0, it) for it in range(8)], ranges.of_record)]
    assert found == [[0, 1], [2, 3], [4, 5], [6], [7]]


def test_the_bytes_of_records() -> None:
    """Key, value and headers, and what Python needs; headers that cannot be read were not kept."""
    plain = Record("t", 0, 0, b"key", b"value", 0)
    headed = plain._replace(headers=[("name", b"content"), ("empty", None)])
    bare = Record("t", 0, 0, None, None, 0, UnreadableHeaders())
    assert record_bytes([plain, headed, bare]) == [RECORD_BYTES + 8, RECORD_BYTES + 8 + 16, RECORD_BYTES]


@given(st.lists(st.floats(0, 10, allow_nan=False), min_size=1))
def test_values_that_are_counted_together_are_counted_as_each_alone(values: list[float]) -> None:
    """One update for many events changes no bucket."""
    together, alone = Tally((0.1, 1.0, 5.0)), Tally((0.1, 1.0, 5.0))
    together.observe(values)
    for value in values:
        alone.observe([value])
    assert together.counts == alone.counts
    assert together.total == pytest.approx(alone.total)


@pytest.fixture
def threshold() -> Iterator[None]:
    """As it was before."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.usefixtures("threshold")
@pytest.mark.parametrize(("before", "expected"), [(700, 10_000), (50_000, 50_000)])
def test_the_search_for_cycles_is_made_rare_and_never_more_frequent(before: int, expected: int) -> None:
    """Whoever has made it rarer keeps that."""
    gc.set_threshold(before, 11, 12)
    config = RuntimeConfig(bootstrap="none", group="g", topics=["t"], metrics_port=0)
    runtime = Runtime(config, {"x": print}, make_source=lambda *_: MemorySource(), probe_log_ends=False)
    with running(runtime):
        assert gc.get_threshold() == (expected, 11, 12)
