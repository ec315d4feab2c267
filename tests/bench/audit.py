"""Audits: a ledger of 35 million rows; two topics of ten million records compared, and the same by a plain full join."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from tests.bench.harness import Result, result
from tests.bench.replay import broker
from tests.bench.sweep import run_command
from workbench.lab.lab_broker import create_topic
from workbench.layers.rows import AuditRow, WindowCount

if TYPE_CHECKING:
    import pyarrow as pa

RECORDS, PARTITIONS, VALUE = int(os.environ.get("COMPARED", "10000000")), 4, b"v" * 24
LOST, OTHERS = 20, 10  # of the second topic
STREAMS, WINDOWS = int(os.environ.get("STREAMS", "4000")), 1440  # a day by the minute
LAYERS, POINTS, FILES, EACH = ("agent", "gateway", "collector"), ("in", "out"), 24, 50
LOSSY, RESTARTED = 40, 7  # every so manieth stream loses a record, or reads an hour again


def audit_compare() -> Result:
    """`api.compare`, and in the same session and by the same reader a full join on key and value, in turns."""
    from workbench import api
    from workbench.api.compare_and_trace_records import session_for_audits, whole_topic
    from workbench.queues.systems import system_of
    from workbench.settings import load_settings

    with broker() as (bootstrap, room):
        bytes_read = sum(_produce(bootstrap, topic) for topic in ("one", "other"))
        config = room / "w.toml"
        config.write_text(f'[clusters.c]\nbootstrap = "{bootstrap}"\n')
        cluster, spark = load_settings(config).cluster("c"), session_for_audits()

        def ours() -> None:
            found = api.compare("c:one", "c:other", config=config)
            assert (found.records, found.only) == ((RECORDS, RECORDS - LOST), (LOST + OTHERS, OTHERS)), found.only

        def joined() -> None:
            one, other = (
                system_of(cluster)
                .read_records(spark, cluster, whole_topic(cluster, topic), ["partition", "offset", "key", "value"])
                .selectExpr("key", "value", f"struct(partition, offset) AS {topic}")
                for topic in ("one", "other")
            )
            apart = one.join(other, ["key", "value"], "full").where("one IS NULL OR other IS NULL")
            sides = {
                it["side"]: it["count"]
                for it in apart.selectExpr("one IS NULL AS side").groupBy("side").count().collect()
            }
            assert sides == {False: LOST + OTHERS, True: OTHERS}, sides

        times: dict[str, list[float]] = {"ours": [], "peer": []}
        for name, call in (("ours", ours), ("peer", joined), ("peer", joined), ("ours", ours)):
            began = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - began)
            print(f"audit_compare {name}: {times[name][-1]:.1f} s", flush=True)
        mine, theirs = min(times["ours"]), min(times["peer"])
    rate = f"{bytes_read / 1e6 / mine:.0f} MB/s of keys and values; the join {bytes_read / 1e6 / theirs:.0f} MB/s"
    return result(
        "audit_compare",
        f"two topics of {RECORDS:,} records, {bytes_read / 2 / RECORDS:.0f} B each; the better of two; {rate}",
        mine,
        peer=theirs,
        peer_name="full join on key and value, same session and reader",
    )


def audit_ledger() -> Result:
    """`workbench audit run` in a process of its own, JVM and all: each window of each stream between and inside three layers."""
    with tempfile.TemporaryDirectory() as room:
        rows = _land(Path(room) / "rows")
        found = run_command(
            "audit",
            "run",
            "--rows",
            Path(room) / "rows",
            "--layers",
            ",".join(LAYERS),
            "--json",
            "--output",
            Path(room) / "out",
        )
    assert found.document["windows"]["loss"] == len(range(0, STREAMS, LOSSY)), found.document["windows"]
    made = result(
        "audit_ledger",
        f"{rows:,} rows of {STREAMS:,} streams, {WINDOWS:,} windows, {len(LAYERS)} layers: shell to a ledger of "
        f"{sum(found.document['windows'].values()):,} windows; {found.cpu_seconds:.0f} s of "
        f"processor time; peak {found.peak_mb:,.0f} of 4,096 MB",
        found.seconds,
    )
    return replace(made, peak_memory_mb=round(found.peak_mb))


def _land(folder: Path) -> int:
    """Write the rows of all streams as Parquet; return how many there are."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from workbench.api.compare_and_trace_records import session_for_audits
    from workbench.audit.audit_frames import frame_of_rows

    folder.mkdir()
    spark = session_for_audits()
    kinds: dict[tuple[bool, bool], pa.Table] = {
        (lossy, again): frame_of_rows(spark, _stream(lossy=lossy, again=again)).toArrow()
        for lossy in (False, True)
        for again in (False, True)
    }
    rows = 0
    for number in range(FILES):
        with pq.ParquetWriter(folder / f"{number}.parquet", kinds[False, False].schema) as file:
            for stream in range(number, STREAMS, FILES):
                one = kinds[stream % LOSSY == 0, stream % RESTARTED == 0]
                at = one.schema.get_field_index("stream")
                names = pa.array([f"stream-{stream}"] * one.num_rows)
                file.write_table(one.set_column(at, one.schema.field(at), names))
                rows += one.num_rows
    return rows


def _stream(*, lossy: bool, again: bool) -> list[AuditRow]:
    """A day of one stream: 50 records a minute; the collector loses one of noon, or reads an hour again after a crash."""
    day_ms = 1_795_651_200_000
    found = []
    for layer in LAYERS:
        runs = [(1, range(WINDOWS))]
        if again and layer == LAYERS[-1]:
            runs = [(1, range(WINDOWS // 2)), (2, range(WINDOWS // 2 - 60, WINDOWS))]
        for incarnation, minutes in runs:
            for sequence, minute in enumerate(minutes):
                start, at_ms = minute * EACH, day_ms + minute * 60_000
                for point in POINTS:
                    lost = int(lossy and (layer, point, minute) == (LAYERS[-1], "out", WINDOWS // 2))
                    window = WindowCount(start_ms=at_ms, count=EACH - lost, sum=minute * EACH - lost)
                    row = AuditRow(
                        stream="any", layer=layer, point=point, topic="t", partition=0, start=start, stop=start + EACH,
                        incarnation=incarnation, sequence=2 * sequence + POINTS.index(point), emitted_ms=at_ms + 5_000,
                        windows=[window],
                    )  # fmt: skip
                    found.append(row)
    return found


def _produce(bootstrap: str, topic: str) -> int:
    """Fill a topic; return the bytes of its keys and values."""
    create_topic(bootstrap, topic, PARTITIONS)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000, "compression.type": "lz4"}
    )  # fmt: skip
    at = round(time.time() * 1000) - 3_600_000
    total = 0
    for number in range(RECORDS):
        value = VALUE
        if topic == "other" and number < LOST + OTHERS:
            if number < LOST:
                continue
            value = b"other"
        key = b"order-%08d" % number
        total += len(key) + len(value)
        while True:
            try:
                producer.produce(topic, value, key, partition=number % PARTITIONS, timestamp=at + number // 5_000)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 100_000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0
    return total
