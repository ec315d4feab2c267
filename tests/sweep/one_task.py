"""Spark without a JVM: what a store's work needs of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa


class OneTask:
    """A Spark session, as far as condensing needs one: all in one task, here."""

    def range(self, start: int, end: int, *_: int) -> OneTask:
        self._ids = pa.RecordBatch.from_pydict({"id": list(range(start, end))})
        return self

    def mapInArrow(self, work: Callable[..., Iterator[pa.RecordBatch]], _schema: str) -> OneTask:  # noqa: N802 - Spark's name
        self._done = pa.Table.from_batches(list(work([self._ids])))
        return self

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        return self._done
