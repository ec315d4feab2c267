"""Plans of queries without their rows: made once, and filled with the rows of the day.

Most of the time of a small query is Spark's analyzer making the same tree again, and its optimizer changing it the same way. The
process keeps the optimized tree, and the next one finds it beside the class archive (`class_archive`), as Java wrote it. Once it has
its rows, the optimizer's rules are left out: they have nothing left to do, and would take a third of a triage to find out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from workbench.files import atomic_write
from workbench.spark.spark_connect import is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS = "LocalRelation"  # a leaf with its rows, as few of them become
_MOST = 8  # of a process, and in a folder
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_RULES = "org.apache.spark.sql.catalyst.optimizer."
# They look at the rows, or count them, and so would make a plan of these rows alone.
_OF_ROWS = ",".join(
    f"{_RULES}{rule}"
    for rule in (
        "ConvertToLocalRelation",
        "PropagateEmptyRelation",
        "EliminateLimits",
        "EliminateOffsets",
        "LimitPushDown",
    )
)
_one_at_a_time = Lock()  # what is set for one query is set for the session


class _Kept:
    """Plans of one JVM, by the names of their files; `folder` is where the next process looks for them."""

    def __init__(self, jvm: Any) -> None:
        self.jvm = jvm
        # Each part of a name is asked for over a socket; these are used for each node of a plan.
        self.new_list, self.converters = jvm.java.util.ArrayList, jvm.scala.jdk.javaapi.CollectionConverters
        self.folder: Path | None = None
        self.plans: dict[str, Any] = {}
        self.rules: str | None = None  # that may be left out, once they are known


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
        found = _frame(kept, frame, _with_rows(kept, plan, leaf.data()))
        _optimized(found, without=_rules(kept, frame))
        return found
    made = make(frame)
    if _has_rows(leaf):
        _keep(kept, file, made, leaf)
    return made


def _optimized(frame: DataFrame, *, without: str) -> Any:
    """The tree after the optimizer, which leaves these rules out; the frame keeps it."""
    conf = frame.sparkSession.conf
    with _one_at_a_time:
        before = conf.get(_EXCLUDED, None)
        conf.set(_EXCLUDED, without)
        try:
            return frame._jdf.queryExecution().optimizedPlan()
        finally:
            if before is None:
                conf.unset(_EXCLUDED)
            else:
                conf.set(_EXCLUDED, before)


def _rules(kept: _Kept, frame: DataFrame) -> str:
    """All rules of the optimizer that may be left out."""
    if kept.rules is None:
        optimizer = frame.sparkSession._jsparkSession.sessionState().optimizer()
        needed = set(_each(optimizer.nonExcludableRules()))
        names = (str(rule.ruleName()) for batch in _each(optimizer.batches()) for rule in _each(batch.rules()))
        kept.rules = ",".join(it for it in dict.fromkeys(names) if it not in needed)
    return kept.rules


def _each(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]


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
    return node.withNewChildren(_sequence(kept, [_with_rows(kept, it, rows) for it in _each(children)]))


def _sequence(kept: _Kept, items: list[Any]) -> Any:
    made = kept.new_list()
    for it in items:
        made.add(it)
    return kept.converters.asScala(made).toSeq()


def _frame(kept: _Kept, like: DataFrame, plan: Any) -> DataFrame:
    from pyspark.sql import DataFrame

    plan.setAnalyzed()
    session = like.sparkSession
    return DataFrame(kept.jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan), session)


def _keep(kept: _Kept, file: str, made: DataFrame, leaf: Any) -> None:
    """Keep the optimized plan of a frame, if these rows are all that it reads, and it has not looked at them."""
    rows, plan = leaf.data(), _analyzed(made)
    if rows.isEmpty() or len(kept.plans) >= _MOST or not plan.subqueriesAll().isEmpty() or not _reads_only(plan, rows):
        return
    if rows.size() == 1:  # of one row, more rules know that there is nothing to be sorted
        rows = _sequence(kept, 2 * _each(rows))
        made = _frame(kept, made, _with_rows(kept, plan, rows))
    plan = _optimized(made, without=_OF_ROWS)
    if not _reads_only(plan, rows):
        return
    kept.plans[file] = empty = _with_rows(kept, plan, _sequence(kept, []))
    if kept.folder is not None:
        with suppress(Exception):  # the next process makes it anew
            _write(kept, kept.folder, file, empty, _rules(kept, made))


def _reads_only(plan: Any, rows: Any) -> bool:
    return all(_has_rows(it) and it.data().equals(rows) for it in _each(plan.collectLeaves()))


def _write(kept: _Kept, folder: Path, file: str, plan: Any, rules: str) -> None:
    folder.mkdir(exist_ok=True)
    there = list(folder.glob("*.plan"))
    for path in there:
        if path.name.partition("-")[0] != file.partition("-")[0] or len(there) >= _MOST:
            path.unlink(missing_ok=True)
    with atomic_write(folder / file) as temporary:
        stream = kept.jvm.java.io.ObjectOutputStream(kept.jvm.java.io.FileOutputStream(str(temporary)))
        try:
            stream.writeObject(plan)
            stream.writeObject(rules)
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
            plan, kept.rules = stream.readObject(), str(stream.readObject())
            kept.plans[file] = plan
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
