"""Fairness: a stream that waits for another one's burst is found at the layer where it waits, and no other is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import run_here
from tests.reference.valid import valid
from workbench.audit.audit_frames import frame_of_rows
from workbench.audit.audit_ledger import lines
from workbench.audit.stream_fairness import bursts, delayed, times_beside_bursts
from workbench.layers.rows import LATENCY_MS, AuditRow, Point, WindowCount

LAYERS = ("gateway", "collector")
MINUTES, BURST = 12, (7, 8)
DAY_MS = 86_400_000


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


def with_a_tiny_stream() -> list[AuditRow]:
    """Its rise is 45 of 1,545 records; and no other one has a burst."""
    rows = [row("tiny", at, minute, 50 if minute in BURST else 5, 8) for at in LAYERS for minute in range(MINUTES)]
    return [*pipeline(burst=1_000, victim_ms=4_000), *rows]


CASES: dict[str, list[AuditRow]] = {
    **{layer: pipeline(burst=20_000, victim_ms=4_000, layer=layer) for layer in LAYERS},
    **{f"{ms} ms": pipeline(burst=20_000, victim_ms=ms) for ms in (8, 18, 21)},
    "small burst": pipeline(burst=2_900, victim_ms=4_000),
    **{f"{number} victims": pipeline(burst=20_000, victim_ms=4_000, victims=number) for number in (149, 150)},
    "tiny": with_a_tiny_stream(),
}


@dataclass(frozen=True)
class Told:
    """What is said of a case: (window_ms, burst, records, usual), and (victim, burst, layer, whether delayed)."""

    bursts: list[tuple[int, str, int, float]]
    delayed: list[tuple[str, str, str, bool | None]]


@pytest.fixture(scope="module")
def told(spark: Any) -> dict[str, Told]:
    """All cases in one ledger: each has streams and a day of its own, so no window has records of two of them."""
    rows = [
        it.model_copy(
            update={
                "stream": f"{name}/{it.stream}", "emitted_ms": it.emitted_ms + day * DAY_MS,
                "windows": [at.model_copy(update={"start_ms": at.start_ms + day * DAY_MS}) for at in it.windows],
            }
        )
        for day, (name, case) in enumerate(CASES.items())
        for it in case
    ]  # fmt: skip
    frame = frame_of_rows(spark, rows)
    of_lines = lines(frame).cache()
    found = bursts(frame, of_lines).collect()
    assert sorted(found) == sorted(bursts(frame).collect())
    times = times_beside_bursts(frame, {it.window_ms: it.burst for it in found}, of_lines).collect()
    late = delayed([it.asDict() for it in times], LAYERS)

    def of(name: str, stream: str) -> str | None:
        case, _, own = stream.partition("/")
        return own if case == name else None

    return {
        name: Told(
            bursts=sorted((it.window_ms - day * DAY_MS, own, it.records, it.usual) for it in found if (own := of(name, it.burst))),
            delayed=[(own, it.burst.partition("/")[2], it.layer, it.is_delayed) for it in late if (own := of(name, it.stream))],
        )
        for day, name in enumerate(CASES)
    }  # fmt: skip


@pytest.mark.jvm
@pytest.mark.parametrize("layer", LAYERS)
def test_who_waits_for_a_burst_is_named_with_the_layer(told: dict[str, Told], layer: str) -> None:
    """Where its time first rises."""
    assert told[layer].bursts == [(60_000 * it, "loud", 20_000, 1_000.0) for it in BURST]
    assert told[layer].delayed == [("quiet", "loud", layer, True)]


@pytest.mark.jvm
def test_a_burst_that_delays_nobody_is_no_finding(told: dict[str, Told]) -> None:
    """Nor is the next bucket, which may be a little more, nor a delay without a burst."""
    assert told["8 ms"].delayed == []
    assert told["18 ms"].delayed == []  # 10 to 20 ms, after at most 10
    assert told["21 ms"].delayed == [("quiet", "loud", "gateway", True)]
    assert told["small burst"] == Told([], [])  # less than three times as much as usual


@pytest.mark.jvm
def test_few_records_do_not_tell(told: dict[str, Told]) -> None:
    """A 99th percentile of fewer than 300 is a chance; it is said, and not that it was well."""
    assert told["149 victims"].delayed == [("quiet", "loud", "gateway", None)]
    assert told["150 victims"].delayed == [("quiet", "loud", "gateway", True)]


@pytest.mark.jvm
def test_a_small_stream_cannot_burst_for_all(told: dict[str, Told]) -> None:
    """Its rise must be a good part of what all streams send: here 45 of 1,545 records."""
    assert told["tiny"].delayed == []


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
