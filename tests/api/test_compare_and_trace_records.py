"""Which offsets of a topic are read for a span of times, which tables are the same, and where one record is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.replay.fakes import FakeGateway
from workbench.api import compare_and_trace_records
from workbench.api.compare_and_trace_records import _behind_late_records, compare, trace, whole_topic
from workbench.errors import UsageError
from workbench.queues.replay_port import TopicSettings
from workbench.settings import Cluster

PART = ("orders", 0)


@pytest.mark.parametrize(("by_broker", "stop"), [(False, 6), (True, 3)])
def test_only_a_log_in_order_is_read_up_to_the_first_later_record(
    monkeypatch: pytest.MonkeyPatch, *, by_broker: bool, stop: int
) -> None:
    """Where producers set the times, records of the span may lie anywhere up to the last stable offset."""
    gateway = FakeGateway(records={PART: [(at, 100 * at) for at in range(8)]}, stable={PART: 6})
    if by_broker:
        gateway.topic_settings["orders"] = TopicSettings(appends_time=True)
        gateway.by_broker_from = 0
    monkeypatch.setattr("workbench.queues.systems.gateway_of", lambda _: gateway)
    cluster = Cluster(name="prod", bootstrap="b:9092")
    assert whole_topic(cluster, "orders", since_ms=150, until_ms=300) == {PART: (2, stop)}


def ends_at(records: list[tuple[int, int]], until_ms: int, **how: Any) -> tuple[int, bool]:
    """Where a time ends in a log of these (offset, timestamp), and whether that is known."""
    part = ("rows", 0)
    gateway = FakeGateway({part: records}, **how)
    logs = gateway.logs([part], instants_ms=[until_ms], stable=True)
    first = logs.found[until_ms][part].offset
    found, is_known = _behind_late_records(gateway, logs, {part: logs.ends[part] if first is None else first}, until_ms)
    return found[part], is_known


def test_a_time_ends_behind_records_that_came_late() -> None:
    """Kafka's lookup ends it at the first record of a later time, wherever that is."""
    in_order = [(at, at) for at in range(10_000)]
    assert ends_at(in_order, 500) == (500, True)
    assert ends_at(in_order, 20_000) == (10_000, True)
    ahead = [(0, 9_000), *in_order[1:]]
    assert ends_at(ahead, 500) == (500, True)
    assert ends_at(ahead, 7_000) == (7_000, True)
    late = [*in_order[:600], (600, 450), (601, -1), *in_order[602:]]  # one without a time may be of any
    assert ends_at(late, 500) == (602, True)


def test_a_time_whose_end_cannot_be_seen_is_not_known() -> None:
    """Too many records out of order, or none that can be read: what was found stays."""
    shuffled = [(at, at % 7) for at in range(400_000)]
    stop, is_known = ends_at(shuffled, 5)
    assert stop > 200_000 and not is_known
    assert ends_at(shuffled, 5, unreadable="no right") == (5, False)
    assert ends_at(shuffled, 5, most_read=100) == (103, False)


@pytest.mark.jvm
@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns")])
def test_tables_that_differ_in_a_microsecond_are_not_the_same(spark: Any, tmp_path: Path, kind: pa.DataType) -> None:
    """With a zone or without one, as Spark writes times and as pandas does."""
    at = datetime(2026, 11, 21, 3, 0, 0, 123456, tzinfo=UTC)
    for name, later in (("one", 0), ("other", 1)):
        times = pa.array([at, at + timedelta(microseconds=later)], kind)
        pq.write_table(pa.table({"id": ["a", "b"], "at": times}), tmp_path / f"{name}.parquet")
    one, other = (str(tmp_path / f"{name}.parquet") for name in ("one", "other"))
    found = compare(one, other)
    assert (found.records, found.only) == ((2, 2), (1, 1))
    assert compare(one, one).is_same


@pytest.mark.jvm
def test_a_key_of_many_records_is_not_traced_in_part(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any thousand of them would look like all."""
    settings = tmp_path / "workbench.toml"
    settings.write_text('[clusters.prod]\nbootstrap = "b:9092"\n')
    columns = (
        "'orders' AS topic",
        "0 AS partition",
        "id AS offset",
        "CAST('k' AS binary) AS key",
        "CAST(array() AS array<struct<key: string, value: binary>>) AS headers",
        "current_timestamp() AS timestamp",
    )
    frames = [spark.range(number).selectExpr(*columns) for number in (3, 1_001)]
    monkeypatch.setattr(compare_and_trace_records, "_records_of_times", lambda *_: frames.pop(0))
    how: Any = {"cluster": "prod", "topics": ["orders"], "config": settings}
    assert [it.offset for it in trace("k", **how)] == [0, 1, 2]
    with pytest.raises(UsageError, match=r"More than 1,000 records .* 'k'"):
        trace("k", **how)
