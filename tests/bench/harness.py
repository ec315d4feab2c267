"""What a bench is, and how its results are kept."""

from __future__ import annotations

import json
import os
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One line of `build/bench.json`.

    Attributes:
        ours, peer: medians, in `unit`; None where there is no peer.
        ratio: how many times better ours is.
        peak_memory_mb: of this process and of the largest child so far.
        load: of the machine in the minute before it was made, the bench's own work included.
    """

    name: str
    work: str
    ours: float
    unit: str
    peer: float | None = None
    peer_name: str | None = None
    ratio: float | None = None
    peak_memory_mb: float = 0.0
    load: float | None = None


def result(
    name: str, work: str, ours: float, *, unit: str = "s", peer: float | None = None, peer_name: str | None = None
) -> Result:
    """A result with its ratio; for times less is better, for rates (`…/s`) more."""
    ratio = None
    if peer is not None:
        ratio = ours / peer if unit.endswith("/s") else peer / ours
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1024
    return Result(
        name=name,
        work=work,
        ours=ours,
        unit=unit,
        peer=peer,
        peer_name=peer_name,
        ratio=ratio,
        peak_memory_mb=round(peak),
        load=round(os.getloadavg()[0], 1),
    )


def median_seconds(call: Callable[[], object], *, runs: int = 3) -> float:
    """Median wall time of some runs."""
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def kept(path: Path) -> dict[str, dict[str, Any]]:
    """Name of a bench to its result in a file; nothing if there is none."""
    return {item["name"]: item for item in json.loads(path.read_text())} if path.is_file() else {}


def keep(results: Sequence[Result], path: Path) -> None:
    """Write or update the file: results of this run replace those of the same name."""
    known = kept(path) | {item.name: asdict(item) for item in results}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(list(known.values()), indent=1, ensure_ascii=False) + "\n")
