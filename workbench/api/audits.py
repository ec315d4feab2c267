"""Audits: did everything arrive? A ledger from the layers' rows, and the gate of a downstream job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from workbench.audit.gate import Gate


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLedger:
    """Windows of every stream and edge; `frame` has all columns of `workbench.audit.edges.edges`."""

    frame: DataFrame

    def rows(self, *, stream: str | None = None, since_ms: int | None = None, until_ms: int | None = None) -> list[Any]:
        """Rows of a stream and of windows that begin in [since, until), ms since the epoch; in the order of time."""
        from pyspark.sql import functions as f

        found = self._of(stream)
        if since_ms is not None:
            found = found.where(f.col("window_ms") >= f.lit(since_ms))
        if until_ms is not None:
            found = found.where(f.col("window_ms") < f.lit(until_ms))
        return found.orderBy("stream", "window_ms", "edge").collect()

    def worst(self, *, stream: str | None = None, most: int = 50) -> list[Any]:
        """Windows, of a stream, where not everything arrived, those with most missing or doubled records first."""
        from pyspark.sql import functions as f

        found = self._of(stream).where(f.col("arrival") != f.lit("ok"))
        order = (f.greatest("lost_low", "doubled_low").desc(), f.greatest("lost_high", "doubled_high").desc())
        return found.orderBy(*order, "stream", "window_ms", "edge").limit(most).collect()

    def gate(self, stream: str, *, since_ms: int, until_ms: int, grade: str = "S1") -> Gate:
        """Judge the windows of a stream by its grade.

        Raises:
            UsageError: if the grade is none.
        """
        from workbench.audit.gate import Grade, judge

        if grade not in {str(it) for it in Grade}:
            raise UsageError(f"There is no grade {grade!r}.", hint=f"There are: {', '.join(Grade)}.")
        rows = [row.asDict() for row in self.rows(stream=stream, since_ms=since_ms, until_ms=until_ms)]
        return judge(rows, Grade(grade))

    def _of(self, stream: str | None) -> DataFrame:
        from pyspark.sql import functions as f

        return self.frame if stream is None else self.frame.where(f.col("stream") == f.lit(stream))


def audit(rows: str | Path, *, layers: Sequence[str], window: str = "1m", lateness: str = "10m") -> AuditLedger:
    """Make the ledger of what each layer has counted.

    Args:
        rows: a file or folder of rows (`workbench.audit/1`): Parquet, or JSON lines.
        layers: names in the order in which records pass them.
        window: length of the windows that the rows have.
        lateness: so long after its end a window is final.

    Returns:
        A ledger; it is a pure function of the rows.

    Raises:
        UsageError: if there are no rows, or fewer than two layers. WindowError: if a duration is none.
    """
    from workbench.audit.edges import StreamShape, edges
    from workbench.audit.frames import read_rows
    from workbench.spark.session import session
    from workbench.window import parse_duration

    if len(layers) < 2 or len(set(layers)) < len(layers):
        raise UsageError("An audit needs two layers or more, each once.", hint="Such as: --layers gateway,collector")
    shape = StreamShape(
        layers=tuple(layers),
        window_ms=round(1000 * parse_duration(window).total_seconds()),
        lateness_ms=round(1000 * parse_duration(lateness).total_seconds()),
    )
    return AuditLedger(frame=edges(read_rows(session(), Path(rows)), shape).cache())
