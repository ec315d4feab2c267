"""Wheel and source archive, built with the back end that the environment has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def built(folder: Path, *, kind: str = "wheel", source: Path = ROOT) -> Path:
    """The wheel, or the `sdist`, in this folder, which must be empty or new."""
    words = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(words, cwd=source, check=True, capture_output=True, timeout=300)
    [made] = folder.iterdir()
    return made
