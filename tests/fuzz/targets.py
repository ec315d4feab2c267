"""What is fuzzed: every parser of foreign bytes."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz import growth, measurements, pulsars, redrives, replays, texts, wires
from tests.fuzz.target import Target, Web


def targets(folder: Path) -> list[Target]:
    """All of them; seeds that are files are made in the folder."""
    web = Web()
    return [
        *measurements.targets(web, folder),
        *replays.targets(web, folder),
        *redrives.targets(),
        *pulsars.targets(web),
        *texts.targets(),
        *wires.targets(),
        *growth.targets(),
    ]
