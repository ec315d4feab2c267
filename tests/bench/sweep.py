"""The sweep of a whole fleet: how long, how much memory, how it grows with the data, and whether it says what one triage says."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from tests.bench.fleet_server import fleet_server
from tests.bench.harness import Result, result
from tests.fleet import END, PARTITIONS, land_fleet

SUBSCRIPTIONS, ONE_BY_ONE = 25_000, 200
_LIMIT_MB = 4096


def sweep_25k() -> Result:
    """The command in a process of its own, JVM and all, on a store that nobody has read yet; then again, with one new slot to read.

    The peer is what there was before: one triage for each subscription, in a session that is up; 200 of them, and as many times more.
    """
    with tempfile.TemporaryDirectory() as room:
        small, big = Path(room) / "small", Path(room) / "big"
        land_fleet(small, subscriptions=SUBSCRIPTIONS // 16)
        store = land_fleet(big, subscriptions=SUBSCRIPTIONS)
        samples = sum(_rows(file.path) for file in store.files(store.landed()))
        part, first, again = run_sweep(small), run_sweep(big), run_sweep(big)
        document = first.document
        assert document["subscriptions"] == SUBSCRIPTIONS
        assert again.document["reading"]["files_read"] == 0
        assert again.document["unwell"] == document["unwell"]
        alone, wrong = one_by_one(big, document)
    grown = first.seconds / part.seconds
    found = result(
        "sweep_25k",
        f"{SUBSCRIPTIONS:,} subscriptions, {SUBSCRIPTIONS * PARTITIONS:,} partitions, {samples:,} samples: shell to table; again "
        f"{again.seconds:.1f} s; 1/16 of it {part.seconds:.1f} s (16 × the data: {grown:.1f} ×); {wrong} of {ONE_BY_ONE} differ from "
        f"one triage; peak {first.peak_mb:,.0f} of {_LIMIT_MB:,} MB",
        first.seconds,
        peer=alone / ONE_BY_ONE * SUBSCRIPTIONS,
        peer_name="one triage after the other (of 200, times 125)",
    )
    return replace(found, peak_memory_mb=round(first.peak_mb))


def sweep_live() -> Result:
    """The same fleet out of a live source: five slots asked for, landed, and swept; then again with one that is new.

    The source is a server in a process of its own that speaks Prometheus' two wires; each is measured. The bar is memory.
    """
    runs = {}
    for wire in ("remote_read", "json"):
        with (
            tempfile.TemporaryDirectory() as room,
            fleet_server(SUBSCRIPTIONS, slot_seconds=1440, step_seconds=30, wire=wire) as url,
        ):
            settings = Path(room) / "workbench.toml"
            settings.write_text(
                f'[clusters.fleet]\nprometheus = "{url}"\nprofiles = ["kafka_exporter"]\ntimeout_seconds = 300\n'
                '[clusters.fleet.windows]\nlength = "24m"\n'
            )
            words = ["--cluster", "fleet", "--config", str(settings), "--until", f"{END:%Y-%m-%dT%H:%M:%SZ}"]
            runs[wire] = run_sweep(Path(room) / "store", *words)
            assert runs[wire].document["subscriptions"] == SUBSCRIPTIONS
            assert runs[wire].document["incomplete"] == []
    chunks, plain = runs["remote_read"], runs["json"]
    assert chunks.document["unwell"] == plain.document["unwell"]
    found = result(
        "sweep_live",
        f"{SUBSCRIPTIONS:,} subscriptions, {chunks.document['reading']['samples_read']:,} samples of a live source: shell to table; "
        f"peak {chunks.peak_mb:,.0f} of {_LIMIT_MB:,} MB; by JSON {plain.seconds:.0f} s, peak {plain.peak_mb:,.0f} MB",
        chunks.seconds,
    )
    return replace(found, peak_memory_mb=round(max(chunks.peak_mb, plain.peak_mb)))


def _rows(path: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.ParquetFile(path).metadata.num_rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a command in a process of its own cost, it and its children together, and what it printed."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    document: dict[str, Any]


def run_sweep(store: Path, *words: str) -> Run:
    """`workbench triage --all`, JVM and all."""
    return run_command("triage", "--all", "--store", store, "--json", *words)


def run_command(*words: str | Path) -> Run:
    """`workbench` with these words, of which one is `--json`."""
    program = Path(sys.executable).with_name("workbench")
    began = time.perf_counter()
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen([program, *words], stdout=subprocess.PIPE, stderr=said) as process,
    ):
        highest, cpu, over = [0.0], [0.0], threading.Event()
        watch = threading.Thread(target=_watch, args=(process.pid, highest, cpu, over))
        watch.start()
        assert process.stdout is not None
        shown = process.stdout.read()
        process.wait()
        seconds = time.perf_counter() - began
        over.set()
        watch.join()
        if not shown:
            said.seek(0)
            raise RuntimeError(said.read().decode(errors="replace")[-2000:])
    return Run(seconds=seconds, cpu_seconds=cpu[0], peak_mb=highest[0], document=json.loads(shown))


def _watch(pid: int, highest: list[float], cpu: list[float], over: threading.Event) -> None:
    """Proportional memory (PSS), so that pages which forked workers share are counted once; and the CPU time of those that live."""
    while not over.wait(0.5):
        try:
            parent = psutil.Process(pid)
            everyone = [parent, *parent.children(recursive=True)]
            cpu[0] = max(cpu[0], sum(sum(each.cpu_times()[:4]) for each in everyone))
            highest[0] = max(highest[0], sum(each.memory_full_info().pss for each in everyone) / 2**20)
        except psutil.Error:
            continue  # somebody has just ended


def one_by_one(folder: Path, document: dict[str, Any]) -> tuple[float, int]:
    """Seconds for 200 of them, and how many verdicts, lags or ages differ. Every sick kind is among them."""
    from workbench.collect.capture import Capture, new_info
    from workbench.spark.session import session
    from workbench.sweep.fleet_store import open_store
    from workbench.triage.triage_engine import triage

    store, spark = open_store(folder), session()
    window = store.window()
    head = new_info(
        cluster="fleet",
        source="prometheus",
        profiles=store.info.profiles,
        window=window,
        thresholds=store.info.thresholds,
    )
    unwell = {(row["group"], row["topic"]): row for row in document["unwell"]}
    sick = sorted(unwell)[:: max(1, len(unwell) // (ONE_BY_ONE // 2))][: ONE_BY_ONE // 2]
    names = [
        (f"group-{number:06}", f"topic-{number // 4:06}")
        for number in range(0, document["subscriptions"], document["subscriptions"] // 250)
    ]
    well = [name for name in names if name not in unwell][: ONE_BY_ONE - len(sick)]
    assert len(sick) + len(well) == ONE_BY_ONE
    samples = store.samples_of(window, [*sick, *well])
    began, wrong = time.perf_counter(), 0
    for group, topic in [*sick, *well]:
        [it] = triage(Capture(info=head, samples=samples), spark, groups=[group], topics=[topic]).findings
        row = unwell.get((group, topic))
        if row is None:
            wrong += str(it.state) != "healthy"
            continue
        same = (row["verdict"], row["lag_messages"]) == (str(it.verdict), it.lag_messages)
        wrong += not same or abs(row["time_lag_seconds"] - (it.time_lag.seconds or 0)) > 1e-6
    return time.perf_counter() - began, wrong
