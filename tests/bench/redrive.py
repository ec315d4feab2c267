"""Redrives: planning a million dead letters, producing them again, and the cap."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from tests.bench.harness import Result, result
from tests.bench.replay import broker
from tests.redrive.redriving import command, dead_letters, kafka_of, planned_as, records_of
from workbench.redrive.planfile import read_redrive_plan

LETTERS, PARTITIONS = 1_000_000, 6
CAPPED, CAP = 100_000, 5_000


def redrive_plan_1m() -> Result:
    """The whole process, with its peak of memory."""
    with broker() as (bootstrap, room):
        _, letters = dead_letters(bootstrap, LETTERS, PARTITIONS)
        seconds, peak_mb = _timed(
            "plan", letters, "--cluster", "c", "-o", str(room / "plan.json"), settings=_settings(bootstrap, room)
        )
    return result(
        "redrive_plan_1m",
        f"a plan of {LETTERS:,} dead letters of six kinds, whole process; peak {peak_mb:,.0f} MB",
        seconds,
    )


def redrive_apply_1m() -> Result:
    """From the first line of the command to its last; each record is produced once, which is counted."""
    with broker() as (bootstrap, room):
        source, letters = dead_letters(bootstrap, LETTERS, PARTITIONS)
        settings, path = _settings(bootstrap, room), room / "plan.json"
        _timed("plan", letters, "--cluster", "c", "-o", str(path), settings=settings)
        seconds, peak_mb = _timed("apply", str(path), "--apply", "--confirm", planned_as(path), settings=settings)
        produced = len(records_of(kafka_of(bootstrap), source, PARTITIONS))
        assert produced == read_redrive_plan(path).letters == LETTERS, produced
    return result(
        "redrive_apply_1m",
        f"{LETTERS:,} dead letters produced again in transactions, whole process; peak {peak_mb:,.0f} MB",
        LETTERS / seconds,
        unit="records/s",
    )


def redrive_cap() -> Result:
    """By the times of the records: from the first to the last."""
    with broker() as (bootstrap, room):
        source, letters = dead_letters(bootstrap, CAPPED)
        settings, path = _settings(bootstrap, room), room / "plan.json"
        _timed(
            "plan", letters, "--cluster", "c", "-o", str(path), "--max-records-per-second", str(CAP), settings=settings
        )
        _timed("apply", str(path), "--apply", "--confirm", planned_as(path), settings=settings)
        times = [it.timestamp_ms for it in records_of(kafka_of(bootstrap), source)]
        assert len(times) == CAPPED
    pace = CAPPED / ((max(times) - min(times)) / 1000)
    return result(
        "redrive_cap", f"{CAPPED:,} dead letters at a cap of {CAP:,}/s ({pace / CAP:.1%} of it)", pace, unit="records/s"
    )


def _settings(bootstrap: str, room: Path) -> Path:
    path = room / "w.toml"
    path.write_text(f'[clusters.c]\nbootstrap = "{bootstrap}"\n')
    return path


def _timed(*words: str, settings: Path) -> tuple[float, float]:
    """Seconds and peak in MB of one `workbench dlq`."""
    log = settings.with_name("output.txt")
    env = {**os.environ, "XDG_STATE_HOME": str(settings.parent)}
    began = time.perf_counter()
    with log.open("w") as output:
        process = subprocess.Popen(command(*words, settings=settings), stdout=output, stderr=output, env=env)
        _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    assert os.waitstatus_to_exitcode(status) == 0, log.read_text()
    return seconds, usage.ru_maxrss / 1024
