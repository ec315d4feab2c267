"""The ledger: what each layer has taken in and given out, by stream and window of event time. A pure function of the set of rows.

1. A row that was delivered twice is one (incarnation and sequence).
2. *Overlay.* Of each position, the newest incarnation that covers it, by any point, counts: after a crash, what lies behind the last
   commit is handled again; a replay of some ranges covers these. Where only a part of a row is covered, how many of its records lie in
   that part nobody knows, unless each of its positions is a record of one window. Its counts are *bounds* then, never a guess.
3. Rows that *add* (a replay of what was lost) are a line of their own: what they gave out comes on top. What they took in counts where
   nobody else has taken it in: a log gives the same records to every reader.
4. A position that no row covers, between rows that do or before the first of them, is unknown: a row is missing, not necessarily its
   records. It may have expired, or nobody counted yet.

A *line* is one point of one partition, without or with what adds. Most lines have one incarnation whose rows lie end to end: a sum over
hashes of starts and stops shows it in one pass (`lines`), and their rows need no more. Only the others are looked at row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from workbench.layers.rows import GONE
from workbench.spark.parsed_sql_cache import columns
from workbench.spark.session import cut_off

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PLACE = ("stream", "layer", "point", "topic", "partition")
LINE = (*_PLACE, "adds")
_LINE = ", ".join(LINE)
LOW_32 = "4294967295L"
_SPANS = "array<struct<start: bigint, stop: bigint>>"
_BEGUN = f"array<struct<incarnation: bigint, spans: {_SPANS}>>"
_LAST = "9223372036854775807L"
# A row of which the windows are over: what was created up to then has passed, but for late records. A time behind that at which the row
# was written is of a clock that is ahead, and tells nothing beside others. Where all of a task's are, its rows tell when they were
# written.
_PASSED = "array_max(filter(windows.start_ms, it -> it <= emitted_ms))"
_TOLD = f"if(size(windows) = 0, if(start = stop, emitted_ms, NULL), {_PASSED})"
# The records before a row's positions are of no later time, by the same clock; those before a sign of life are older than it.
_HIGH = f"coalesce({_PASSED}, array_max(windows.start_ms))"
_HAS, _LIVES = "FILTER (WHERE size(windows) > 0)", "FILTER (WHERE start = stop AND emitted_ms > 0)"


def _sent(few: DataFrame) -> DataFrame:
    """Names of lines go to the rows: these, of which there may be millions, are not shuffled for them."""
    return few.hint("broadcast")


def _merged(spans: str) -> str:
    """SQL: spans in order, joined where they touch."""
    last = "element_at(found, -1)"
    longer = f"named_struct('start', {last}.start, 'stop', greatest({last}.stop, it.stop))"
    joined = f"concat(slice(found, 1, size(found) - 1), array({longer}))"
    return (
        f"aggregate(array_sort({spans}), CAST(array() AS {_SPANS}), (found, it) -> "
        f"CASE WHEN size(found) > 0 AND {last}.stop >= it.start THEN {joined} ELSE concat(found, array(it)) END)"
    )


def _length(spans: str) -> str:
    return f"aggregate({spans}, 0L, (sum, it) -> sum + it.stop - it.start)"


def lines(rows: DataFrame, *, silence_ms: int = 600_000) -> DataFrame:
    """What each line covers, and up to when it has told.

    Args:
        rows: in `audit_frames.DDL`.
        silence_ms: a process that numbers its records itself, and has told nothing for so long while others of its layer have, is gone:
            nothing more will come of it.

    Returns:
        One row per line: `begun`, array of (incarnation, spans), the positions that each covers; `is_plain`, whether there is one
        of them and its rows lie end to end; `begun_at`, `reached`, first and last position that anybody has told of; `gap`,
        positions between that none covers; `first_ms`, `last_ms`: when its first and last row were written (NULL, 0: it has only said
        that it begins); `latest_ms`: how long after the begin of a window it told of it, at most; `told_ms`: its records created before
        then have passed, but for late ones (NULL: it has told nothing); `head_ms`: the records before `begun_at` were created before
        then, but for late ones (NULL: not known); `opens_ms`: the first window of its first row with records (NULL: none).
    """
    hashed = "shiftright(xxhash64({0}), 24)"  # 40 bits, so that millions of them can be added
    ends = f"{hashed.format('stop')} - {hashed.format('start')}"
    each = rows.groupBy(*LINE, "incarnation").agg(
        *columns(
            "min(start) FILTER (WHERE start < stop) AS begins",
            "max(stop) FILTER (WHERE start < stop) AS ends",
            f"sum({ends}) FILTER (WHERE start < stop) AS chain",
            f"coalesce(max({_TOLD}), max(emitted_ms) {_HAS}) AS told_ms",
            "min(start) AS begun_at",
            "max(stop) AS reached",
            "min(emitted_ms) FILTER (WHERE emitted_ms > 0) AS first_ms",
            "max(emitted_ms) AS last_ms",
            "max(emitted_ms - array_min(windows.start_ms)) AS latest_ms",
            # By numbers alone: with a struct, millions of rows would be sorted for it.
            f"min(start) {_HAS} AS first_at",
            f"min_by({_HIGH}, start) {_HAS} AS high_ms",
            f"min_by(array_min(windows.start_ms), start) {_HAS} AS opens_ms",
            f"min(emitted_ms) {_LIVES} AS lives_ms",
            "bool_or(of_process) AS of_process",
        )
    )
    # Rows from `begins` to `ends` end to end, and no others: then all but two of the hashes cancel out.
    whole = f"begins IS NULL OR chain = {hashed.format('ends')} - {hashed.format('begins')}"
    # Few, and asked twice. Spark takes what it keeps for any equal plan, such as of the same files after more was written to them:
    # this makes each plan one of its own.
    known = cut_off(each.selectExpr("*", f"{whole} AS is_whole").where(f"'{uuid4()}' IS NOT NULL"))
    span = "array(named_struct('start', begins, 'stop', ends))"
    empty = f"CAST(array() AS {_SPANS})"
    broken = known.where("NOT is_whole").select(*LINE, "incarnation")
    if broken.isEmpty():
        spans = known.selectExpr("*", f"if(begins IS NULL, {empty}, {span}) AS spans")
    else:
        spans = known.join(_islands(rows, broken), [*LINE, "incarnation"], "left").selectExpr(
            "*", f"CASE WHEN begins IS NULL THEN {empty} WHEN is_whole THEN {span} ELSE islands END AS spans"
        )
    by_line = spans.groupBy(*LINE).agg(
        *columns(
            "collect_list(struct(incarnation, spans)) AS begun",
            "bool_and(is_whole) AND count_if(size(spans) > 0) <= 1 AND NOT (adds <> '' AND point = 'in') AS is_plain",
            "max(told_ms) AS own_told_ms",
            "min(begun_at) AS begun_at",
            "max(reached) AS reached",
            "min(first_ms) AS first_ms",
            "max(last_ms) AS last_ms",
            "max(latest_ms) AS latest_ms",
            "min(struct(first_at, high_ms, opens_ms)) FILTER (WHERE first_at IS NOT NULL) AS first",
            "min(lives_ms) AS lives_ms",
            "bool_or(of_process) AS of_process",
        )
    )
    # The points of a layer advance together; one of them may have no record in its rows, and then tells no time of its own.
    together = "PARTITION BY stream, layer, topic, partition"
    is_sparse = "point IN ('rejected', 'dead')"  # these need no row where there is nothing to tell
    all_of = _merged("flatten(transform(begun, it -> it.spans))")
    # What adds has taken in counts least of all, but for what was gone.
    others = f"max(if(adds <> '', NULL, filter(begun, it -> it.incarnation > {GONE}))) OVER (PARTITION BY {', '.join(_PLACE)})"
    later = f"named_struct('incarnation', {_LAST}, 'spans', it.spans)"
    as_later = f"transform(coalesce({others}, CAST(array() AS {_BEGUN})), it -> {later})"
    # What a task has read again, it has told of by its other points, also where it rejected nothing this time.
    of_task = f"PARTITION BY {', '.join(it for it in LINE if it != 'point')}"
    told = f"collect_list(if({is_sparse}, NULL, begun)) OVER ({of_task})"
    by_line = by_line.selectExpr("* EXCEPT (begun)", f"if({is_sparse}, concat(begun, flatten({told})), begun) AS begun")
    many = "size(array_distinct(transform(filter(begun, it -> size(it.spans) > 0), it -> it.incarnation))) > 1"
    # Every question is asked with them, and a plan that holds how they are made is several times as long to make itself.
    return cut_off(by_line.selectExpr(
        *LINE, f"if(adds <> '' AND point = 'in', concat(begun, {as_later}), begun) AS begun",
        f"is_plain AND NOT ({is_sparse} AND {many}) AS is_plain", "begun_at", "reached", "first_ms",
        "last_ms", "latest_ms", "first.opens_ms AS opens_ms",
        f"least(min(first) OVER ({of_task}).high_ms, min(lives_ms) OVER ({of_task})) AS head_ms",
        f"if(adds <> '' OR {is_sparse}, 0L, {_gap(all_of)}) AS gap",
        f"CASE WHEN of_process AND last_ms < max(last_ms) OVER (PARTITION BY stream, layer) - {silence_ms}L THEN {_LAST} "
        f"WHEN {is_sparse} OR reached >= max(reached) OVER ({together}) THEN max(own_told_ms) OVER ({together}) ELSE own_told_ms END "
        "AS told_ms",
    ), made_of=known)  # fmt: skip


def _islands(rows: DataFrame, broken: DataFrame) -> DataFrame:
    """`islands` of the incarnations of lines of which rows are missing or lie over each other: what their rows cover, in pieces."""
    order = f"PARTITION BY {_LINE}, incarnation ORDER BY start, stop ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    return (
        rows.where("start < stop").select(*LINE, "incarnation", "start", "stop")
        .join(_sent(broken), [*LINE, "incarnation"], "left_semi")
        .selectExpr("*", f"if(start <= max(stop) OVER ({order}), 0, 1) AS is_first")
        .selectExpr("*", f"sum(is_first) OVER (PARTITION BY {_LINE}, incarnation ORDER BY start, stop) AS island")
        .groupBy(*LINE, "incarnation", "island").agg(*columns("min(start) AS start", "max(stop) AS stop"))
        .groupBy(*LINE, "incarnation").agg(*columns("collect_list(struct(start, stop)) AS islands"))
    )  # fmt: skip


def _gap(spans: str) -> str:
    """Positions between the first and the last that anybody has told of, which no span covers."""
    return f"reached - begun_at - {_length(spans)}"


def gaps(rows: DataFrame, of_lines: DataFrame, *, from_zero: bool = True) -> DataFrame:
    """Where rows are missing, and of which time their records may be: between what lies before and behind them, if anything does.

    Args:
        of_lines: as `lines`.
        from_zero: whether the positions of a log are 0, 1, 2 and so on; else nobody can tell that there are some before the first row.

    Returns:
        (stream, layer, point, first_ms, last_ms, gap): windows that begin in [first_ms, last_ms] may miss `gap` records; NULL: any.
    """
    heads = of_lines.where(f"{str(from_zero).lower()} AND begun_at > 0 AND adds = '' AND point IN ('in', 'out')").selectExpr(
        "stream", "layer", "point", "CAST(NULL AS bigint) AS first_ms", "head_ms AS last_ms", "begun_at AS gap"
    )  # fmt: skip
    broken = of_lines.where("gap > 0").select(*LINE, "begun_at", "reached")
    if broken.isEmpty():
        return heads
    order = f"PARTITION BY {_LINE} ORDER BY start, stop"
    ends = [
        broken.selectExpr(
            *LINE,
            f"{at} AS start",
            f"{at} AS stop",
            "CAST(NULL AS bigint) AS low_ms",
            "CAST(NULL AS bigint) AS high_ms",
        )
        for at in ("begun_at", "reached")
    ]
    told = rows.join(_sent(broken.select(*LINE)), [*LINE], "left_semi").where("start < stop").selectExpr(
        *LINE, "start", "stop", "array_min(windows.start_ms) AS low_ms", "array_max(windows.start_ms) AS high_ms"
    )  # fmt: skip
    each = told.unionByName(ends[0]).unionByName(ends[1]).selectExpr(
        *LINE, "start", "stop", "high_ms",
        f"max(stop) OVER ({order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before",
        f"last_value(low_ms) IGNORE NULLS OVER ({order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS first_ms",
        f"first_value(high_ms) IGNORE NULLS OVER ({order} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS last_ms",
    )  # fmt: skip
    between = each.where("start > before").selectExpr(
        "stream", "layer", "point", "first_ms", "last_ms", "start - before AS gap"
    )
    return heads.unionByName(between)


def effective(rows: DataFrame, of_lines: DataFrame | None = None) -> DataFrame:
    """Rows once each, less what later incarnations cover.

    Args:
        rows: in `audit_frames.DDL`.
        of_lines: as `lines`, if it is at hand.

    Returns:
        The rows with `kept`, number of their positions that no later incarnation covers; rows without any are left out.
    """
    odd = (lines(rows) if of_lines is None else of_lines).where("NOT is_plain").select(*LINE, "begun")
    if odd.isEmpty():
        return rows.selectExpr("*", "stop - start AS kept")
    names = _sent(odd.select(*LINE))
    plain = rows.join(names, [*LINE], "left_anti").selectExpr("*", "stop - start AS kept")
    later = _merged("flatten(transform(filter(begun, it -> it.incarnation > incarnation), it -> it.spans))")
    once = rows.join(names, [*LINE], "left_semi").dropDuplicates([*LINE, "incarnation", "sequence"]).join(odd, [*LINE])
    covered = (
        f"aggregate({later}, 0L, (sum, it) -> sum + greatest(0L, least(stop, it.stop) - greatest(start, it.start)))"
    )
    cut = once.selectExpr("*", f"stop - start - {covered} AS kept").where("kept > 0 OR start = stop").drop("begun")
    return plain.unionByName(cut)


def counted(rows: DataFrame, of_lines: DataFrame | None = None) -> DataFrame:
    """Each row's records by window.

    Returns:
        One row per row of `effective` and window in it: `low` and `high`, bounds of the number of its records, equal where it is exact;
        `bytes` and `sum`, NULL where these are not exact or not known; and the line.
    """
    each = effective(rows, of_lines).selectExpr(
        *LINE, "start", "stop", "kept", "kept < stop - start AS straddles", "size(windows) AS many", "inline(windows)"
    )  # fmt: skip
    return each.toDF(*LINE, "start", "stop", "kept", "straddles", "many", "window_ms", "count", "bytes", "sum").selectExpr(
        *LINE, "window_ms",
        # Each position is a record of this one window: then the part that is kept is known. A layer may give out several of one.
        "CASE WHEN NOT straddles THEN count WHEN point = 'out' THEN 0L WHEN many = 1 AND count = stop - start THEN kept "
        "ELSE greatest(0L, count - (stop - start - kept)) END AS low",
        "CASE WHEN NOT straddles OR point = 'out' THEN count ELSE least(count, kept) END AS high",
        "if(straddles, NULL, bytes) AS bytes", "if(straddles, NULL, sum) AS sum",
    )  # fmt: skip


def counts(rows: DataFrame) -> DataFrame:
    """Count the records of each window, at each point.

    Args:
        rows: in `audit_frames.DDL`.

    Returns:
        One row per (stream, window_ms, layer, point): `low` and `high`, bounds of the number of records, equal where it is exact;
        `bytes` and `sum`, NULL where it is not.
    """
    return counted(rows).groupBy("stream", "window_ms", "layer", "point").agg(
        *columns(
            "sum(low) AS low",
            "sum(high) AS high",
            "if(count(bytes) = count(*), sum(bytes), NULL) AS bytes",
            f"if(count(sum) = count(*), {Sum64('sum').total}, NULL) AS sum",
        )
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sum64:
    """SQL of a sum modulo 2^64, by halves of 32 bits: a sum of 64-bit numbers would overflow.

    Attributes:
        column: the numbers.
        only: a condition that selects some of them.
    """

    column: str
    only: str = "true"

    @property
    def halves(self) -> tuple[str, str]:
        """Aggregates of the low and the high halves."""
        keep = f"FILTER (WHERE {self.only})"
        return f"sum({self.column} & {LOW_32}) {keep}", f"sum(shiftrightunsigned({self.column}, 32)) {keep}"

    @property
    def total(self) -> str:
        """Aggregate of the whole."""
        return joined_halves(*self.halves)


def joined_halves(low: str, high: str) -> str:
    """SQL of a sum modulo 2^64 from the sums of its halves."""
    return f"shiftleft(({high} + shiftrightunsigned({low}, 32)) & {LOW_32}, 32) | ({low} & {LOW_32})"


def amended(rows: DataFrame, of_lines: DataFrame, *, window_ms: int, lateness_ms: int) -> DataFrame:
    """Windows about which a line told more when it had long told of later ones.

    Args:
        of_lines: as `lines`.

    Returns:
        (stream, layer, point, window_ms), once each.
    """
    due = f"{window_ms + lateness_ms}L"
    late = of_lines.where(f"latest_ms >= {due}").select(*_PLACE)
    if late.isEmpty():
        return late.selectExpr("stream", "layer", "point", "CAST(NULL AS bigint) AS window_ms")
    before = f"PARTITION BY {', '.join(_PLACE)} ORDER BY emitted_ms ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    told = rows.join(_sent(late.distinct()), [*_PLACE], "left_semi").selectExpr(
        "stream", "layer", "point", "transform(windows, it -> it.start_ms) AS starts",
        f"coalesce(max({_TOLD}) OVER ({before}), max(emitted_ms) OVER ({before})) AS told_ms",
    )  # fmt: skip
    each = told.selectExpr("stream", "layer", "point", "told_ms", "explode(starts) AS window_ms")
    return each.where(f"told_ms >= window_ms + {due}").select("stream", "layer", "point", "window_ms").distinct()
