"""Jars of a project file, by Maven: once, and kept in the cache."""

from __future__ import annotations

import shutil
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
    maven = shutil.which("mvn")
    if maven is None:
        raise SetupError("The lab's Java applications need Maven.", hint="Install it (mvn), and try again.")
    with atomic_folder(folder, replace=True) as part:
        words = [maven, "-B", "-q", "-f", project, "dependency:copy-dependencies", "-DincludeScope=runtime"]
        ran = run_within(_SECONDS, [*words, *options, f"-DoutputDirectory={part}"])
        if ran != 0:
            raise SetupError(f"Maven could not fetch {name} (it ended with {ran}).", hint="Is the network up?")
    return folder
