"""A class-data archive for Spark's JVM, so that a cold start takes half the time.

Most of a cold triage is the JVM loading some 15,000 classes from jars. An archive of them, written once by a warm-up run, is
mapped into memory instead (AppCDS). It is a mere cache: a missing archive, another Java or another pyspark costs only the gain.
The JVM refuses an archive whose jars have other dates than at its making, so they are in its name: a new virtual environment
gets an archive of its own.

Beside it lie the expressions of a triage. Half the time of building its plan was the parser making up its decision tables, which it
keeps for the whole JVM; a thread parses them while Spark itself is still starting (plan of a cold triage: 1.9 instead of 2.6 s).
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from workbench.java import Java, find_java
from workbench.places import cache_dir

_BUILD_SECONDS = 180
_JVM_SECONDS = 60  # some time after that nobody waits for a parser any more
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


def archive_options(archive: Path) -> list[str]:
    """JVM options: use the archive if it is there; write one if this is the warm-up run."""
    if target := os.environ.get(_WRITE_VARIABLE):
        return [f"-XX:ArchiveClassesAtExit={target}", *_SILENT]
    return [f"-XX:SharedArchiveFile={archive}", *_SILENT] if archive.exists() else []


def expressions_path(archive: Path) -> Path:
    """Where the expressions that belong to an archive lie."""
    return archive.with_suffix(".expressions.json")


def is_built(archive: Path) -> bool:
    """Whether an archive and its expressions are there."""
    return archive.exists() and expressions_path(archive).exists()


def warm_parser(archive: Path) -> None:
    """Let the parser of the JVM that is about to start read the expressions of a triage, in a thread of its own."""
    try:
        texts = json.loads(expressions_path(archive).read_text())
    except (OSError, ValueError):
        return
    threading.Thread(target=_parse, args=(texts,), name="spark-parser", daemon=True).start()


def _parse(texts: list[str]) -> None:
    from pyspark import SparkContext

    until = time.monotonic() + _JVM_SECONDS
    while SparkContext._jvm is None:
        if time.monotonic() > until:
            return
        time.sleep(0.01)
    try:
        parser = SparkContext._jvm.org.apache.spark.sql.execution.SparkSqlParser()
        for text in texts:
            parser.parseExpression(text)
    except Exception:  # whatever it is, the session itself will tell
        return


def build_archive() -> bool:
    """Write the archive by a warm-up run in a process of its own, if it is not there; whether it is there now."""
    java = find_java()
    path = archive_path(java)
    if is_built(path):
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
        if is_built(part):  # the JVM writes its part even where the run itself has failed
            for outdated in path.parent.glob(f"{path.name.rpartition('-')[0]}-*.jsa"):
                outdated.unlink(missing_ok=True)  # same place, older jars: some 160 MB that nothing can use any more
                expressions_path(outdated).unlink(missing_ok=True)
            expressions_path(part).replace(expressions_path(path))
            part.replace(path)
    except subprocess.TimeoutExpired:
        pass  # it is only a cache
    finally:
        part.unlink(missing_ok=True)
        expressions_path(part).unlink(missing_ok=True)
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
    with _noted() as texts:
        plan = answered(spark.createDataFrame(batch.to_arrow()), window, Thresholds())
    expressions_path(Path(os.environ[_WRITE_VARIABLE])).write_text(json.dumps(texts))
    plan.toArrow()
    end(spark, seconds=_BUILD_SECONDS)


@contextmanager
def _noted() -> Iterator[list[str]]:
    """The expressions that are parsed within the block, in their order."""
    from pyspark.sql import functions as F
    from pyspark.sql.classic.dataframe import DataFrame

    texts: list[str] = []
    expr, select = F.expr, DataFrame.selectExpr

    def noted_expr(text: str) -> Any:
        texts.append(text)
        return expr(text)

    def noted_select(frame: Any, *columns: str) -> Any:
        texts.extend(column for column in columns if column != "*")
        return select(frame, *columns)

    F.expr, DataFrame.selectExpr = noted_expr, noted_select
    try:
        yield texts
    finally:
        F.expr, DataFrame.selectExpr = expr, select


if __name__ == "__main__":
    _warm_up()
