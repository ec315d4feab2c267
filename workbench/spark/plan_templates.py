"""Plans of queries without their rows: made once, and filled with the rows of the day.

Most of the time of a small query is Spark's analyzer making the same tree again (of a triage in a running session half, of a cold
one a third). The process keeps the tree, and the next one finds it beside the class archive (`class_archive`), as Java wrote it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.files import atomic_write
from workbench.spark.spark_connect import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS = "LocalRelation"  # a leaf with its rows, as few of them become
_MOST = 8  # of a process, and in a folder


class _Kept:
    """Plans of one JVM, by the names of their files; `folder` is where the next process looks for them."""

    def __init__(self, jvm: Any) -> None:
        self.jvm = jvm
        self.folder: Path | None = None
        self.plans: dict[str, Any] = {}


_kept: _Kept | None = None


def filled(frame: DataFrame, name: str, make: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """The frame that `make` makes of these rows; what it makes is planned once for each name.

    Args:
        frame: rows that this process has uploaded, the only ones that `make` uses.
        name: says all that `make` depends on, but for the rows and the code of this version.
        make: the query.
    """
    if is_remote(frame.sparkSession):
        return make(frame)
    kept = _of_this_jvm()
    file, leaf = _file(name), _analyzed(frame)
    plan = kept.plans.get(file) or _read(kept, file)
    if plan is not None and plan.collectLeaves().head().schema().equals(leaf.schema()) and _has_rows(leaf):
        return _frame(kept, frame, _with_rows(kept, plan, leaf.data()))
    made = make(frame)
    _keep(kept, file, _analyzed(made), leaf)
    return made


def share(folder: Path) -> None:
    """Look for plans in this folder, and leave there what this process has to make itself."""
    _of_this_jvm().folder = folder


def begin_anew() -> None:
    """Keep only what the folder has, as the next process will."""
    _of_this_jvm().plans.clear()


def _of_this_jvm() -> _Kept:
    global _kept
    from pyspark import SparkContext

    if _kept is None or _kept.jvm is not SparkContext._jvm:
        _kept = _Kept(SparkContext._jvm)
    return _kept


def _analyzed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _has_rows(node: Any) -> bool:
    return str(node.getClass().getSimpleName()) == _ROWS


def _with_rows(kept: _Kept, node: Any, rows: Any) -> Any:
    """The tree, with these rows in its leaves."""
    children = node.children()
    if children.isEmpty():
        return node.copy(node.output(), rows, node.isStreaming(), node.stream())
    new = [_with_rows(kept, children.apply(at), rows) for at in range(children.size())]
    return node.withNewChildren(_sequence(kept, new))


def _sequence(kept: _Kept, items: list[Any]) -> Any:
    made = kept.jvm.java.util.ArrayList()
    for it in items:
        made.add(it)
    return kept.jvm.scala.jdk.javaapi.CollectionConverters.asScala(made).toSeq()


def _frame(kept: _Kept, like: DataFrame, plan: Any) -> DataFrame:
    from pyspark.sql import DataFrame

    plan.setAnalyzed()
    session = like.sparkSession
    return DataFrame(kept.jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan), session)


def _keep(kept: _Kept, file: str, plan: Any, leaf: Any) -> None:
    """Keep a plan, if these rows are all that it reads."""
    if not _has_rows(leaf) or not plan.subqueriesAll().isEmpty() or len(kept.plans) >= _MOST:
        return
    leaves = plan.collectLeaves()
    its_own = (leaves.apply(at) for at in range(leaves.size()))
    if not all(_has_rows(it) and it.data().equals(leaf.data()) for it in its_own):
        return
    kept.plans[file] = empty = _with_rows(kept, plan, _sequence(kept, []))
    if kept.folder is not None:
        with suppress(Exception):  # the next process makes it anew
            _write(kept, kept.folder, file, empty)


def _write(kept: _Kept, folder: Path, file: str, plan: Any) -> None:
    folder.mkdir(exist_ok=True)
    there = list(folder.glob("*.plan"))
    for path in there:
        if path.name.partition("-")[0] != file.partition("-")[0] or len(there) >= _MOST:
            path.unlink(missing_ok=True)
    with atomic_write(folder / file) as temporary:
        stream = kept.jvm.java.io.ObjectOutputStream(kept.jvm.java.io.FileOutputStream(str(temporary)))
        try:
            stream.writeObject(plan)
        finally:
            stream.close()


def _read(kept: _Kept, file: str) -> Any:
    """A plan of the folder; None if it is not there, or cannot be read.

    Not in a thread beside the start of Spark, however well it would fit there: two threads that initialize classes of Spark may wait
    for each other, forever.
    """
    if kept.folder is None or not (path := kept.folder / file).exists():
        return None
    with suppress(Exception):
        stream = kept.jvm.java.io.ObjectInputStream(
            kept.jvm.java.io.BufferedInputStream(kept.jvm.java.io.FileInputStream(str(path)))
        )
        try:
            kept.plans[file] = stream.readObject()
        finally:
            stream.close()
    return kept.plans.get(file)


def _file(name: str) -> str:
    """Name of a plan's file; what other code has made has another one."""
    return f"{_code()}-{hashlib.sha256(name.encode()).hexdigest()[:12]}.plan"


@cache
def _code() -> str:
    """A digest of this package's code, all of it: what a plan is made of is spread over many modules, and read in 25 ms."""
    found = find_spec("workbench")
    roots = (Path(it) for it in (found.submodule_search_locations if found else None) or ())
    digest = hashlib.sha256()
    for path in sorted(path for root in roots for path in root.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
