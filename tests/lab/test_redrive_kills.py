"""kill -9 at random moments: every planned letter is produced exactly once, in the order of its key."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.redrive.redriving import (
    begun,
    dead_letters,
    dlq,
    kafka_of,
    keys_out_of_order,
    planned_as,
    produced_by,
    records_of,
)
from workbench.lab.lab import Lab
from workbench.plans.journal import Journal
from workbench.redrive.planfile import read_redrive_plan

pytestmark = pytest.mark.lab


def killed_until_done(path: Path, settings: Path, *, kills: int, seed: int, longest: float) -> int:
    """Apply a plan again and again, each time killed after a random time; then to the end. Returns the number of kills."""
    chance, done = random.Random(seed), 0
    for _ in range(kills):
        process = begun("apply", str(path), "--apply", "--confirm", planned_as(path), settings=settings)
        time.sleep(0.6 + chance.random() * longest)  # the command needs about half a second to begin
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            done += 1
        process.wait()
    ended = dlq("apply", str(path), "--apply", "--confirm", planned_as(path), "--json", settings=settings)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["outcome"] == "done"
    return done


def check_exactly_once(
    bootstrap: str, source: str, path: Path, settings: Path, properties: Mapping[str, str] | None = None
) -> None:
    """By what is in the topic, by `verify`, and by the journal."""
    kafka, plan = kafka_of(bootstrap, properties), read_redrive_plan(path)
    records = records_of(kafka, source)
    counts = produced_by(plan.id, records)
    assert set(counts.values()) == {1}
    assert counts.keys() == {f"{number}:{offset}" for number, some in plan.planned().items() for offset in some}
    assert keys_out_of_order(records) == 0
    checked = dlq("verify", str(path), "--json", settings=settings)
    assert checked.returncode == 0, checked.stdout
    assert json.loads(checked.stdout)["produced"] == plan.letters
    entries = [entry for entry in Journal.of_user().read()[0] if entry.plan == plan.hash]
    assert entries[-1].outcome == "done"
    begins = [{(t, n): old or 0 for t, n, old, _, _ in entry.changes} for entry in entries if entry.phase == "begin"]
    for before, after in itertools.pairwise(begins):
        assert all(after[key] >= at for key, at in before.items())


KILLS = int(os.environ.get("REDRIVE_KILLS", "5"))  # of the test of every commit
SEED = int(os.environ.get("REDRIVE_SEED", "8000"))


@pytest.mark.parametrize(
    ("count", "kills", "cap"), [(1_600 * KILLS, KILLS, 3_000), pytest.param(100_000, 30, 5_000, marks=pytest.mark.slow)]
)
def test_killed_at_random_moments(
    lab: Lab, settings_file: Path, tmp_path: Path, count: int, kills: int, cap: int
) -> None:
    """Letters of six kinds, by class of error, at a cap: exactly those records, once each."""
    source, topic = dead_letters(lab.bootstrap, count)
    path = tmp_path / "redrive.json"
    words = ("--cluster", "mine", "--error", "*Timeout*", "--error", "http_*", "--error", "(none)", "-o", str(path))
    made = dlq("plan", topic, *words, "--max-records-per-second", str(cap), settings=settings_file)
    assert made.returncode == 0, made.stderr
    plan = read_redrive_plan(path)
    assert set(plan.errors) == {"java.net.SocketTimeoutException", "http_503", "(none)"}
    longest = 1.2 * plan.letters / cap / kills
    assert killed_until_done(path, settings_file, kills=kills, seed=SEED, longest=longest) >= kills * 0.6
    check_exactly_once(lab.bootstrap, source, path, settings_file)
    again = dlq("apply", str(path), "--apply", "--confirm", planned_as(path), settings=settings_file)
    assert again.returncode == 0
    check_exactly_once(lab.bootstrap, source, path, settings_file)
