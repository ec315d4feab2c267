"""Builds the client programs, out of the tree: what the builds leave behind is no source."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from evaluation.foreign.spec import HERE, Library
from workbench.errors import SetupError
from workbench.lab.process import run_within

_BUILD_SECONDS = 900.0
_GO, _NODE = HERE / "go", HERE / "node"


def command(library: Library, folder: Path, config: Path, behaviour: Path) -> list[str | Path]:
    """How a client is started, from what `build` left in a folder."""
    if library in ("kafkajs", "platformatic"):
        return ["node", folder / "node" / "main.js", config, behaviour]
    return [folder / "go" / "foreign", config, behaviour]


def build(folder: Path) -> None:
    """Build what is not built yet, or has changed.

    Raises:
        SetupError: if Go or npm is not installed, or fails.
    """
    built(_GO, folder / "go", ["go", "build", "-mod=mod", "-o", "foreign", "."])
    built(_NODE, folder / "node", ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"])


def built(source: Path, folder: Path, words: list[str]) -> None:
    """Build a folder of sources out of the tree, unless it is as it was when they were built last.

    Raises:
        SetupError: if the program that builds is not installed, or fails.
    """
    files = sorted(path for path in source.rglob("*") if path.is_file())
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()
    stamp = folder / "built"
    if stamp.exists() and stamp.read_text() == digest:
        return
    program = shutil.which(words[0], path=None) or shutil.which(words[0], path="/usr/local/go/bin")
    if program is None:
        raise SetupError(f"There is no {words[0]} on PATH.", hint="The foreign clients need Go and Node with npm.")
    shutil.rmtree(folder, ignore_errors=True)  # what is no source any more would be built, too
    shutil.copytree(source, folder, dirs_exist_ok=True)
    said: list[str] = []
    if run_within(_BUILD_SECONDS, [program, *words[1:]], cwd=folder, on_line=said.append) != 0:
        raise SetupError(f"{words[0]} has failed: {''.join(said[-8:])}")
    stamp.write_text(digest)
