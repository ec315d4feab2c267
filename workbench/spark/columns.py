"""Spark columns out of SQL text, parsed once for each JVM instead of once for each plan.

Every triage builds the same plan but for its window and its thresholds, and having Spark read its 30 KB of SQL again took an eighth of
the time of a triage in a running session. A parsed expression never changes, so plans can share it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_MOST = 2_000  # expressions kept: what has a window's instants in it is not asked for again, and would pile up


class _Parsed:
    """What one JVM has parsed."""

    def __init__(self, jvm: Any) -> None:
        sql = jvm.org.apache.spark.sql
        self.jvm = jvm
        self.columns: dict[str, Future[Column]] = {}
        self._parser, self._wrap = sql.execution.SparkSqlParser(), sql.classic.ExpressionUtils.column

    def column(self, text: str) -> Column:
        """The column of this text."""
        from pyspark.sql.classic.column import Column as ClassicColumn

        if len(self.columns) >= _MOST:
            self.columns.clear()
        mine: Future[Column] = Future()
        found = self.columns.setdefault(text, mine)
        if found is mine:  # else another thread has it, or is at it
            try:
                mine.set_result(ClassicColumn(self._wrap(self._parser.parseExpression(text))))
            except BaseException as error:
                self.columns.pop(text, None)  # an interrupted cell, say, is no answer to whoever asks next
                mine.set_exception(error)
        return found.result()


_lock = threading.Lock()
_parsed: _Parsed | None = None


def columns(*texts: str) -> list[Column]:
    """The columns of these SQL expressions, with names where they have some (`a + b AS c`)."""
    global _parsed
    from pyspark import SparkContext

    jvm = SparkContext._jvm
    if jvm is None:  # Spark Connect, whose server parses
        from pyspark.sql.functions import expr

        return [expr(text) for text in texts]
    with _lock:
        if _parsed is None or _parsed.jvm is not jvm:
            _parsed = _Parsed(jvm)
        known = _parsed
    return [known.column(text) for text in texts]


def aggregate(frame: DataFrame, keys: Sequence[str], named: Mapping[str, str]) -> DataFrame:
    """Group by keys; columns as name to SQL."""
    return frame.groupBy(*columns(*keys)).agg(*columns(*_with_names(named)))


def extend(frame: DataFrame, named: Mapping[str, str]) -> DataFrame:
    """Add columns, name to SQL; they may not refer to each other."""
    return frame.select(*columns("*", *_with_names(named)))


def _with_names(named: Mapping[str, str]) -> list[str]:
    return [f"{sql} AS {name}" for name, sql in named.items()]


def parse_ahead(texts: Iterable[str]) -> None:
    """Have the JVM that has just started read these, in a thread of its own: reading is most of the time of building a first plan."""
    threading.Thread(target=_quietly, args=(tuple(texts),), name="spark-parser", daemon=True).start()


def _quietly(texts: tuple[str, ...]) -> None:
    with suppress(Exception):  # whatever it is, the plan itself will tell
        columns(*texts)


def parsed() -> list[str]:
    """What was parsed so far, the first first."""
    return [] if _parsed is None else list(_parsed.columns)
