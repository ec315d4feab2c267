"""Fairness: a stream that waits for another one's burst is found at the layer where it waits, and no other is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import run_here
from tests.reference.valid import valid
from workbench.audit.fairness import bursts, delayed, times_beside_bursts
from workbench.audit.frames import frame_of_rows
from workbench.audit.ledger import lines
from workbench.layers.rows import LATENCY_MS, AuditRow, Point, WindowCount

LAYERS = ("gateway", "collector")
MINUTES, BURST = 12, (7, 8)


def row(stream: str, layer: str, minute: int, count: int, took_ms: int, *, point: Point = "in") -> AuditRow:
    """One minute's records of a stream; all of them took so long."""
    buckets = [0] * (len(LATENCY_MS) + 1)
    buckets[next((at for at, it in enumerate(LATENCY_MS) if took_ms <= it), len(LATENCY_MS))] = count
    return AuditRow(
        stream=stream, layer=layer, point=point, topic=stream, partition=0, start=minute * 100_000, stop=minute * 100_000 + count,
        incarnation=1, sequence=minute + 1, emitted_ms=60_000 * (minute + 1),
        windows=[WindowCount(start_ms=60_000 * minute, count=count)], created_ms=buckets,
    )  # fmt: skip


def pipeline(*, burst: int, victim_ms: int, victims: int = 500, layer: str = "gateway") -> list[AuditRow]:
    """A stream with a burst, and another one whose records take so long in these minutes from a layer on."""
    made = []
    for at in LAYERS:
        for minute in range(MINUTES):
            is_burst = minute in BURST
            made.append(row("loud", at, minute, burst if is_burst else 1_000, 900 if is_burst else 8))
            is_late = is_burst and LAYERS.index(at) >= LAYERS.index(layer)
            made.append(row("quiet", at, minute, victims, victim_ms if is_late else 8))
    return made


def judged(spark: Any, rows: list[AuditRow]) -> list[tuple[str, str, str, bool | None]]:
    """Victim, burst, layer, whether delayed."""
    frame = frame_of_rows(spark, rows)
    told = lines(frame).cache()
    found = {it.window_ms: it.burst for it in bursts(frame, told).collect()}
    times = times_beside_bursts(frame, found, told).collect() if found else []
    return [(it.stream, it.burst, it.layer, it.is_delayed) for it in delayed([it.asDict() for it in times], LAYERS)]


@pytest.mark.jvm
@pytest.mark.parametrize("layer", LAYERS)
def test_who_waits_for_a_burst_is_named_with_the_layer(spark: Any, layer: str) -> None:
    """Where its time first rises."""
    rows = pipeline(burst=20_000, victim_ms=4_000, layer=layer)
    assert [tuple(it) for it in bursts(frame_of_rows(spark, rows)).orderBy("window_ms").collect()] == [
        (60_000 * it, "loud", 20_000, 1_000.0) for it in BURST
    ]
    assert judged(spark, rows) == [("quiet", "loud", layer, True)]


@pytest.mark.jvm
def test_a_burst_that_delays_nobody_is_no_finding(spark: Any) -> None:
    """Nor is the next bucket, which may be a little more, nor a delay without a burst."""
    assert judged(spark, pipeline(burst=20_000, victim_ms=8)) == []
    assert judged(spark, pipeline(burst=20_000, victim_ms=18)) == []  # 10 to 20 ms, after at most 10
    assert judged(spark, pipeline(burst=20_000, victim_ms=21)) == [("quiet", "loud", "gateway", True)]
    assert judged(spark, pipeline(burst=2_900, victim_ms=4_000)) == []  # less than three times as much as usual
    assert bursts(frame_of_rows(spark, pipeline(burst=2_900, victim_ms=8))).count() == 0


@pytest.mark.jvm
def test_few_records_do_not_tell(spark: Any) -> None:
    """A 99th percentile of fewer than 300 is a chance; it is said, and not that it was well."""
    assert judged(spark, pipeline(burst=20_000, victim_ms=4_000, victims=149)) == [("quiet", "loud", "gateway", None)]
    assert judged(spark, pipeline(burst=20_000, victim_ms=4_000, victims=150)) == [("quiet", "loud", "gateway", True)]


@pytest.mark.jvm
def test_a_small_stream_cannot_burst_for_all(spark: Any) -> None:
    """Its rise must be a good part of what all streams send: here 45 of 1,545 records."""
    rows = [row("tiny", at, minute, 50 if minute in BURST else 5, 8) for at in LAYERS for minute in range(MINUTES)]
    assert judged(spark, [*pipeline(burst=1_000, victim_ms=4_000), *rows]) == []


@pytest.mark.jvm
def test_the_command_says_it_beside_the_latencies(tmp_path: Path) -> None:
    """Also if only the victim is asked for."""
    rows = pipeline(burst=20_000, victim_ms=4_000)
    (tmp_path / "rows.jsonl").write_text("".join(f"{it.line()}\n" for it in rows), encoding="utf-8")
    words = ("audit", "show", "--rows", "rows.jsonl", "--layers", ",".join(LAYERS), "--stream", "quiet", "--latency")
    shown = run_here(*words, cwd=tmp_path)
    assert "quiet  gateway in: delayed, p99 ≤ 5,000 ms beside a burst of loud, ≤ 10 ms without" in shown.stdout
    import json

    told = valid("audit-windows", json.loads(run_here(*words, "--json", cwd=tmp_path).stdout))
    assert [(it["stream"], it["is_delayed"], it["at_least_ms"]) for it in told["delayed"]] == [("quiet", True, 2_000)]
    created = [it for it in told["latencies"] if it["since"] == "created"]
    assert {(it["stream"], it["layer"]) for it in created} == {("quiet", it) for it in LAYERS}
