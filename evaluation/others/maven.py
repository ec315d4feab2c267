"""Jars of a project file, and applications that are built by one, by Maven: once, and kept in the cache."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from workbench.errors import SetupError
from workbench.files import atomic_folder
from workbench.lab.process import run_within
from workbench.user_folders import cache_dir

_SECONDS = 600.0  # it took 20 s on a good line


def maven_jars(name: str, project: Path, *options: str) -> Path:
    """The folder with what a project file lists, under this name in the cache.

    Raises:
        SetupError: if there is no Maven, or it fails.
    """
    folder = cache_dir() / name
    if folder.exists():
        return folder
    with atomic_folder(folder, replace=True) as part:
        words = ["dependency:copy-dependencies", "-DincludeScope=runtime", *options, f"-DoutputDirectory={part}"]
        _run(name, project, *words)
    return folder


def maven_built(name: str, project: Path, sources: Sequence[Path]) -> Path:
    """What Maven builds of a project (its `target`), with these sources: once, until one of its files changes.

    Raises:
        SetupError: if there is no Maven, or it fails.
    """
    files = [*(it for it in sorted(project.rglob("*")) if it.is_file()), *sources]
    digest = hashlib.sha256(b"".join(it.read_bytes() for it in files)).hexdigest()[:16]
    folder = cache_dir() / f"{name}-{digest}"
    if folder.exists():
        return folder / "target"
    with atomic_folder(folder, replace=True) as part:
        shutil.copytree(project, part, dirs_exist_ok=True)
        code = part / "src" / "main" / "java"
        code.mkdir(parents=True)
        for it in sources:
            shutil.copy(it, code)
        _run(name, part / "pom.xml", "package", "-DskipTests")
    return folder / "target"


def _run(name: str, project: Path, *words: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise SetupError("The lab's Java applications need Maven.", hint="Install it (mvn), and try again.")
    ran = run_within(_SECONDS, [maven, "-B", "-q", "-f", project, *words])
    if ran != 0:
        raise SetupError(f"Maven could not fetch or build {name} (it ended with {ran}).", hint="Is the network up?")
