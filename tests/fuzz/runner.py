"""Share the inputs out to processes, go on after one that has died, and add up what they found."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
_STALLED_SECONDS = 120.0  # of the clock: for what waits instead of working; a bound on work is in the process itself
_MOST_DEATHS = 50  # of one worker: then something is wrong with the run itself
_WORDS = 3000

Piece = tuple[str, int, int]  # target, first, last


@dataclass(slots=True)
class Tally:
    """What came of the inputs of one target."""

    inputs: int = 0
    answer: int = 0
    refusal: int = 0
    defect: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    peak_mb: int = 0


@dataclass(slots=True)
class Defect:
    """One kind of defect: what it says, and the inputs that have it."""

    target: str
    words: str
    numbers: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Findings:
    """All that a run has found."""

    tallies: dict[str, Tally] = field(default_factory=dict)
    defects: dict[tuple[str, str], Defect] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def inputs(self) -> int:
        """How many were tried."""
        return sum(tally.inputs for tally in self.tallies.values())

    def note(self, target: str, number: int, words: str) -> None:
        """One more input that has a defect; those that fail at the same place are one kind."""
        place = re.findall(r'File "[^"]*/workbench/([^"]+)", line (\d+)', words)
        kind = re.sub(r"[0-9]+", "N", words.split(":")[0][:60])
        key = (target, f"{kind} at {place[-1] if place else ''}")
        self.defects.setdefault(key, Defect(target, words)).numbers.append(number)

    def table(self) -> str:
        """A line for each target."""
        lines = [
            f"{'target':<20} {'inputs':>7} {'answers':>8} {'refused':>8} {'defects':>8} {'s':>7} {'slowest':>8} {'MB':>5}"
        ]
        lines += [
            f"{name:<20} {it.inputs:>7,} {it.answer:>8,} {it.refusal:>8,} {it.defect:>8,} "
            f"{it.seconds:>7.1f} {it.slowest:>8.3f} {it.peak_mb:>5}"
            for name, it in self.tallies.items()
        ]
        peak = max((it.peak_mb for it in self.tallies.values()), default=0)
        lines.append(
            f"{self.inputs:,} inputs in {self.seconds:.0f} s, peak {peak} MB over the start, {len(self.defects)} kinds of defects."
        )
        return "\n".join(lines)

    def report(self) -> str:
        """Each kind of defect, with the number of an input that has it."""
        return "\n\n".join(
            f"== {it.target}, {len(it.numbers)} inputs, for instance number {it.numbers[0]}\n{it.words[:_WORDS]}"
            for it in self.defects.values()
        )


def shares(inputs: int, weights: dict[str, int]) -> list[Piece]:
    """What each target gets of a number of inputs, all of them together exactly that many."""
    total, given, so_far = sum(weights.values()), 0, 0
    pieces = []
    for name, weight in weights.items():
        so_far += weight
        upto = inputs * so_far // total
        pieces.append((name, 0, upto - given))
        given = upto
    return pieces


def run(seed: int, pieces: Sequence[Piece], *, workers: int = 2) -> Findings:
    """Try all inputs of these pieces."""
    found, lock, started = Findings(), threading.Lock(), time.monotonic()
    found.tallies = {name: Tally() for name, _, _ in pieces}

    def work(worker: int) -> None:
        mine = [
            (name, first + (last - first) * worker // workers, first + (last - first) * (worker + 1) // workers)
            for name, first, last in pieces
        ]
        _worker(seed, [piece for piece in mine if piece[1] < piece[2]], found, lock)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, range(workers)))
    found.seconds = time.monotonic() - started
    return found


def _worker(seed: int, pieces: list[Piece], found: Findings, lock: threading.Lock) -> None:
    with tempfile.TemporaryDirectory() as name:
        progress = Path(name) / "progress"
        for _ in range(_MOST_DEATHS):
            if not pieces:
                return
            done, errors = _process(seed, pieces, progress, found, lock)
            pieces = pieces[done:]
            if not pieces:
                return
            target, number = (
                progress.read_text().split() if progress.exists() and progress.read_text() else (pieces[0][0], "-1")
            )
            if number == "-1":
                raise RuntimeError(f"the process of the fuzzer does not start: {errors}")
            with lock:
                tally = found.tallies[target]
                tally.inputs += int(number) + 1 - pieces[0][1]
                tally.defect += 1
                found.note(target, int(number), "the process died: " + errors)
            pieces[0] = (target, int(number) + 1, pieces[0][2])
            if pieces[0][1] >= pieces[0][2]:
                pieces = pieces[1:]
        raise RuntimeError(f"the process of the fuzzer died {_MOST_DEATHS} times:\n{found.report()}")


def _process(seed: int, pieces: list[Piece], progress: Path, found: Findings, lock: threading.Lock) -> tuple[int, str]:
    """How many pieces one process has finished, and what it said last."""
    progress.unlink(missing_ok=True)
    command = [
        *(sys.executable, "-m", "tests.fuzz.child", "--seed", str(seed), "--work", json.dumps(pieces)),
        *("--progress", str(progress)),
    ]
    done = 0
    # The bound counts what is reserved: by Arrow's own allocator, and for the stacks of a thread for each core.
    environment = {
        **os.environ,
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "ARROW_NUM_THREADS": "2",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT, env=environment)
        ended = threading.Event()
        watch = threading.Thread(target=_watch, args=(child, progress, ended), daemon=True)
        watch.start()
        assert child.stdout is not None
        for line in child.stdout:
            said = json.loads(line)
            with lock:
                if "defect" in said and "number" in said:
                    found.note(said["defect"], said["number"], said["words"])
                    continue
                tally = found.tallies[said["target"]]
                for name, count in Counter({name: said[name] for name in ("answer", "refusal", "defect")}).items():
                    setattr(tally, name, getattr(tally, name) + count)
                    tally.inputs += count
                tally.seconds += said["seconds"]
                tally.slowest, tally.peak_mb = max(tally.slowest, said["slowest"]), max(tally.peak_mb, said["peak_mb"])
            done += 1
        child.wait()
        ended.set()
        watch.join()
        errors.seek(0)
        return done, f"exit {child.returncode}\n{errors.read()[-_WORDS:]}"


def _watch(child: subprocess.Popen[str], progress: Path, ended: threading.Event) -> None:
    """End a process that does nothing any more."""
    last, since = "", time.monotonic()
    while not ended.wait(1.0):
        at = progress.read_text() if progress.exists() else ""
        if at != last:
            last, since = at, time.monotonic()
        elif time.monotonic() - since > _STALLED_SECONDS:
            child.send_signal(signal.SIGABRT)
            return
