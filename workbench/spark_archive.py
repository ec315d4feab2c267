"""A class-data archive for Spark's JVM, so that a cold start takes half the time.

Most of a cold triage is the JVM loading some 15,000 classes from jars. An archive of them, written once by a warm-up run, is
mapped into memory instead (AppCDS). It is a mere cache: a missing archive, another Java or another pyspark costs only the gain.
The JVM refuses an archive whose jars have other dates than at its making, so they are in its name: a new virtual environment
gets an archive of its own.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from workbench.java import Java, find_java
from workbench.places import cache_dir

_BUILD_SECONDS = 180
_WRITE_VARIABLE = "WORKBENCH_WRITE_SPARK_ARCHIVE"
_SILENT = (
    "-Xshare:auto",
    "-Xlog:disable",
)  # the JVM tells its troubles with an archive on standard output, which is ours


def archive_path(java: Java) -> Path:
    """Where the archive for this Java and this pyspark lies (whether it is there or not)."""
    spec = importlib.util.find_spec("pyspark")
    jars = Path(spec.origin).parent / "jars" if spec is not None and spec.origin else Path()
    place = f"{java.program.resolve()} {jars}"
    facts = [f"{java.version} {java.program.stat().st_mtime_ns}"]
    facts += [f"{jar.name} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in sorted(jars.glob("*.jar"))]
    return cache_dir() / f"spark-{version('pyspark')}-{_digest(place)}-{_digest(*facts)}.jsa"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def archive_options(java: Java) -> list[str]:
    """JVM options: use the archive if there is one; write it if this is the warm-up run."""
    if target := os.environ.get(_WRITE_VARIABLE):
        return [f"-XX:ArchiveClassesAtExit={target}", *_SILENT]
    path = archive_path(java)
    return [f"-XX:SharedArchiveFile={path}", *_SILENT] if path.exists() else []


def build_archive() -> bool:
    """Write the archive by a warm-up run in a process of its own, if it is not there; whether it is there now."""
    java = find_java()
    path = archive_path(java)
    if path.exists():
        return True
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        subprocess.run(
            [sys.executable, "-m", "workbench.spark_archive"],
            env={**os.environ, _WRITE_VARIABLE: str(part)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_BUILD_SECONDS,
            check=False,
        )
        if part.exists():
            for outdated in path.parent.glob(f"{path.name.rpartition('-')[0]}-*.jsa"):
                outdated.unlink(missing_ok=True)  # same place, older jars: some 160 MB that nothing can use any more
            part.replace(path)
    except subprocess.TimeoutExpired:
        pass  # it is only a cache
    finally:
        part.unlink(missing_ok=True)
    return path.exists()


def _warm_up() -> None:
    """Run what a triage runs, on a few rows, and wait for the JVM to end: it writes the archive then."""
    from datetime import UTC, datetime, timedelta

    from workbench.samples import SampleBatch
    from workbench.settings import Thresholds
    from workbench.signals import SIGNALS
    from workbench.spark import end, session
    from workbench.triage.engine import answered
    from workbench.window import Window

    now = datetime.now(UTC)
    window = Window.ending(now, length=timedelta(minutes=1), baseline=timedelta(minutes=1))
    times = [round((now.timestamp() - second) * 1e6) for second in range(110, 0, -10)]
    batch = SampleBatch("warm-up", "runtime")
    for signal in SIGNALS.values():
        labels = {name: 0 if name == "partition" else name for name in signal.labels}
        for stat in ("value", "sum", "count"):
            batch.add(signal.name, labels, times, list(range(len(times))), stat=stat)
    spark = session()
    answered(spark.createDataFrame(batch.to_arrow()), window, Thresholds()).toArrow()
    end(spark, seconds=_BUILD_SECONDS)


if __name__ == "__main__":
    _warm_up()
