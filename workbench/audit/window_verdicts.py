"""Verdicts of an audit: between two points of a stream, did everything arrive in a window, and is that final?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from workbench.audit.audit_frames import MOST
from workbench.audit.audit_ledger import Sum64, amended, counted, gaps, joined_halves, lines
from workbench.spark.parsed_sql_cache import columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Arrival(StrEnum):
    """Whether a window's records arrived, between two points.

    OK: as many, and the same by their hashes where these are known. LOSS, DUP: fewer, more. LOSS_DUP: as many, and others. LATE: not
    the same yet, and the window is not final. UNKNOWN: bounds do not decide, or rows are missing.
    """

    OK = "ok"
    LOSS = "loss"
    DUP = "dup"
    LOSS_DUP = "loss+dup"
    LATE = "late"
    UNKNOWN = "unknown"


class WindowState(StrEnum):
    """OPEN: not over at every layer. PROVISIONAL: late records may come. FINAL: none should. AMENDED: rows came after that."""

    OPEN = "open"
    PROVISIONAL = "provisional"
    FINAL = "final"
    AMENDED = "amended"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamShape:
    """The layers of a stream in order, the length of its windows, and how late records may be.

    Attributes:
        layers: names, from the first to the last.
        window_ms, lateness_ms: in milliseconds.
        from_zero: see `audit_ledger.gaps`.
    """

    layers: Sequence[str]
    window_ms: int = 60_000
    lateness_ms: int = 600_000
    from_zero: bool = True

    def between(self) -> list[tuple[str, str, str]]:
        """(edge, the layer that sends, the one that takes): each must be told of, while a layer may tell of one side of itself only."""
        return [(f"{one} → {other}", one, other) for one, other in zip(self.layers, self.layers[1:], strict=False)]

    def sides(self) -> list[tuple[str, str, str, bool]]:
        """(layer, point, edge, whether it is the side that sends).

        A layer has taken in what it gave out, rejected or gave up; the next one takes in what it gave out.
        """
        found = []
        for layer in self.layers:
            found.append((layer, "in", layer, True))
            found += [(layer, point, layer, False) for point in ("out", "rejected", "dead")]
        for edge, one, other in self.between():
            found += [(one, "out", edge, True), (other, "in", edge, False)]
        return found

    def frame(self, spark: SparkSession) -> DataFrame:
        """The sides, to join with."""
        from pyspark.sql import functions as f

        # Not by `createDataFrame`: it would make this session, which may be one for much data, the active one of all later work.
        names = ("layer", "point", "edge", "is_from")
        sides = [
            f.struct(*(f.lit(it).alias(name) for name, it in zip(names, side, strict=True))) for side in self.sides()
        ]
        return spark.range(1).select(f.explode(f.array(*sides)).alias("it")).select("it.*").hint("broadcast")

    @property
    def silence_ms(self) -> int:
        """Who has told nothing for longer is silent: it is as long as records may be late."""
        return max(self.lateness_ms, self.window_ms)

    def window_of(self, ms: int) -> int:
        """Begin of the window that has a time, ms since the epoch."""
        return ms - ms % self.window_ms

    def lines_of(self, rows: DataFrame) -> DataFrame:
        """The layers' lines; see `audit_ledger.lines`."""
        return lines(rows, silence_ms=self.silence_ms)


def heard(of_lines: DataFrame, sides: DataFrame) -> DataFrame:
    """Up to when each edge has told.

    Args:
        of_lines, sides: of a shape (`lines_of`, `frame`).

    Returns:
        One row per (stream, edge) of which both sides have told: `told_ms`, NULL if one of them has told no time; `opens_ms`, the first
        window of which the side that sends has told.
    """
    # What adds tells of a few positions only. A layer that rejects nothing has no rows of that point: the others say up to when it
    # has told.
    found = of_lines.where("adds = ''").join(sides, ["layer", "point"]).groupBy("stream", "edge").agg(
        *columns(
            "if(count(told_ms) = count(*), min(told_ms), NULL) AS told_ms",
            "min(opens_ms) FILTER (WHERE is_from) AS opens_ms",
            "bool_or(is_from) AND bool_or(NOT is_from) AS both",
        )
    )  # fmt: skip
    return found.where("both").drop("both")


def edges(rows: DataFrame, shape: StreamShape, of_lines: DataFrame | None = None) -> DataFrame:
    """Judge every window of every edge. A pure function of the rows: what the layers have told decides what is final, not the clock.

    Args:
        rows: in `audit_frames.DDL`.
        of_lines: as `StreamShape.lines_of`, if it is at hand.

    Returns:
        One row per (stream, window_ms, edge): `from_low`, `from_high`, `to_low`, `to_high` (records), `lost_low`, `lost_high`,
        `doubled_low`, `doubled_high`, `same` (whether the hashes agree; NULL: not known), `arrival` (`Arrival`), `state`
        (`WindowState`), `told_ms`, and `gap`, positions around that time of which rows are missing.
    """
    sides, of_lines = shape.frame(rows.sparkSession), shape.lines_of(rows) if of_lines is None else of_lines
    by_edge = gaps(rows, of_lines, from_zero=shape.from_zero).join(sides, ["layer", "point"]).groupBy("stream", "edge")
    holes = by_edge.agg(*columns("collect_list(struct(first_ms, last_ms, gap)) AS holes"))
    late = amended(rows, of_lines, window_ms=shape.window_ms, lateness_ms=shape.lateness_ms).join(
        sides, ["layer", "point"]
    )
    late = late.selectExpr("stream", "window_ms", "edge", "true AS is_amended").distinct()
    names: list[str] = []
    for side, is_mine in (("from", "is_from"), ("to", "NOT is_from")):
        low_sum, high_sum = Sum64("sum", is_mine).halves
        names += [
            f"coalesce(sum(low) FILTER (WHERE {is_mine}), 0L) AS {side}_low",
            f"coalesce(sum(high) FILTER (WHERE {is_mine}), 0L) AS {side}_high",
            f"coalesce(bool_or(sum IS NULL) FILTER (WHERE {is_mine}), false) AS {side}_unsummed",
            f"coalesce({low_sum}, 0L) AS {side}_low_sum",
            f"coalesce({high_sum}, 0L) AS {side}_high_sum",
        ]
    # Shuffled once, while the rows are narrow: the sums by edge need no other order.
    each = counted(rows, of_lines).select("stream", "window_ms", "layer", "point", "low", "high", "sum")
    sided = (
        each.repartition("stream", "window_ms").join(sides, ["layer", "point"]).groupBy("stream", "window_ms", "edge")
    )
    found = (
        sided.agg(*columns(*names))
        .join(heard(of_lines, sides), ["stream", "edge"])
        .join(late, ["stream", "window_ms", "edge"], "left")
    )
    found = found.join(holes, ["stream", "edge"], "left")
    within = "coalesce(window_ms >= it.first_ms, true) AND coalesce(window_ms <= it.last_ms, true)"
    gap = f"if(holes IS NULL, 0L, aggregate(filter(holes, it -> {within}), 0L, (sum, it) -> least({MOST - 1}L, sum + it.gap)))"
    sums = [joined_halves(f"{side}_low_sum", f"{side}_high_sum") for side in ("from", "to")]
    end = f"window_ms + {shape.window_ms}L"
    measured = found.selectExpr(
        "stream", "window_ms", "edge", "from_low", "from_high", "to_low", "to_high", "told_ms", f"{gap} AS gap",
        "coalesce(window_ms < opens_ms, false) AS is_before",
        "greatest(0L, from_low - to_high) AS lost_low", "greatest(0L, from_high - to_low) AS lost_high",
        "greatest(0L, to_low - from_high) AS doubled_low", "greatest(0L, to_high - from_low) AS doubled_high",
        f"if(from_unsummed OR to_unsummed, NULL, ({sums[0]}) = ({sums[1]})) AS same",
        f"CASE WHEN told_ms IS NULL OR told_ms < {end} THEN 'open' WHEN told_ms < {end} + {shape.lateness_ms}L THEN 'provisional' "
        f"WHEN is_amended THEN 'amended' ELSE 'final' END AS state",
    )  # fmt: skip
    is_over = "state IN ('final', 'amended')"
    return measured.selectExpr(
        "stream", "window_ms", "edge", "from_low", "from_high", "to_low", "to_high", "lost_low", "lost_high", "doubled_low",
        "doubled_high", "same", "state", "told_ms", "gap",
        # Where rows are missing, everything but what has still time is unknown; so is what is too much where nobody counted yet what
        # was sent.
        f"CASE WHEN (gap > 0 OR is_before AND (doubled_low > 0 OR same = false)) AND {is_over} THEN 'unknown' "
        f"WHEN doubled_low > 0 THEN if({is_over}, 'dup', 'late') "
        f"WHEN lost_low > 0 THEN if({is_over}, 'loss', 'late') "
        "WHEN from_low < from_high OR to_low < to_high THEN 'unknown' "
        f"WHEN same = false THEN if({is_over}, 'loss+dup', 'late') "
        "ELSE 'ok' END AS arrival",
    )  # fmt: skip
