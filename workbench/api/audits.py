"""Audits: did everything arrive? A ledger from the layers' rows, the gate of a downstream job, and the records that are missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.audit_settings import AuditSettings
from workbench.errors import ConfigError, UsageError
from workbench.logs.record_counts import answering

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from workbench.api.compare_and_trace_records import KeptRecords, TopicRows
    from workbench.audit.completeness_gate import Gate, LatencyLimit
    from workbench.audit.missing_records import NamedInterval
    from workbench.audit.stream_fairness import DelayedStream
    from workbench.audit.window_verdicts import StreamShape
    from workbench.settings import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLedger:
    """Windows of every stream and edge; `frame` has all columns of `workbench.audit.window_verdicts.edges`.

    Attributes:
        source: the layers' rows (`workbench.audit.audit_frames.DDL`).
        lines: what each line of them covers (`StreamShape.lines_of`): few, and asked by every question, so they are at hand.
        settings: layers, windows and grades.
        shape: layers and lengths.
        cluster: of the records, if it is known.
        expected: streams that the settings name, of those that are asked for: they are told of without rows, too.
        kept: how far back the topic of the rows reaches; None: they are in no topic, or it is not known.
        read_from_ms: rows of the topic before then were not read; None: all were.
        earlier: some of those before then (`compare_and_trace_records.looks`): they tell who has stopped since.
    """

    frame: DataFrame
    source: DataFrame
    lines: DataFrame
    settings: AuditSettings
    shape: StreamShape
    cluster: Cluster | None = None
    expected: frozenset[str] = frozenset()
    kept: KeptRecords | None = None
    read_from_ms: int | None = None
    earlier: TopicRows | None = None

    def rows(self, *, stream: str | None = None, since_ms: int | None = None, until_ms: int | None = None) -> list[Any]:
        """Rows of a stream and of windows that have a time of [since, until), ms since the epoch; in the order of time."""
        from pyspark.sql import functions as f

        found = self._of(stream)
        if since_ms is not None:
            found = found.where(f.col("window_ms") >= f.lit(self.shape.window_of(since_ms)))
        if until_ms is not None:
            found = found.where(f.col("window_ms") < f.lit(until_ms))
        return self._collected(found.orderBy("stream", "window_ms", "edge"))

    def worst(self, *, stream: str | None = None, most: int = 50) -> list[Any]:
        """Windows, of a stream, where not everything arrived, those with most missing or doubled records first."""
        from pyspark.sql import functions as f

        found = self._of(stream).where(f.col("arrival") != f.lit("ok"))
        # What is sure comes first, however much may be missing elsewhere.
        severity = f.expr(
            "CASE WHEN arrival IN ('loss', 'dup', 'loss+dup') THEN 0 WHEN arrival = 'unknown' THEN 1 ELSE 2 END"
        )
        order = (severity, f.greatest("lost_low", "doubled_low").desc(), f.greatest("lost_high", "doubled_high").desc())
        return self._collected(found.orderBy(*order, "stream", "window_ms", "edge").limit(most))

    def by_stream(self, *, since_ms: int, until_ms: int, most: int = 1_000) -> list[Any]:
        """A row for each stream, worst first, of windows with a time of [since, until); see `stream_summaries.by_stream`."""
        from pyspark.sql import functions as f

        from workbench.audit.stream_summaries import by_stream

        within = self.within(since_ms=since_ms, until_ms=until_ms).frame
        order = (f.greatest("lost", "doubled").desc(), f.col("missing_at_most").desc(), f.col("stream"))
        return self._collected(by_stream(within).orderBy(*order).limit(most))

    def latencies(self, *, stream: str | None = None) -> list[Any]:
        """Percentiles of the time to each layer, the slowest stream first; columns of `workbench.audit.layer_latency.latencies`."""
        from pyspark.sql import functions as f

        from workbench.audit.layer_latency import latencies

        rows = self.source if stream is None else self.source.where(f.col("stream") == f.lit(stream))
        order = (f.col("p99_ms").desc_nulls_first(), "stream", "layer", "point", "since")
        return self._collected(latencies(rows, of_lines=self.lines).orderBy(*order))

    def delayed(self) -> list[DelayedStream]:
        """Streams whose records took longer while another one had a burst, and those of which it cannot be told."""
        from workbench.audit.stream_fairness import bursts, delayed, times_beside_bursts

        found = {row["window_ms"]: row["burst"] for row in self._collected(bursts(self.source, self.lines))}
        rows = self._collected(times_beside_bursts(self.source, found, self.lines)) if found else []
        return delayed([row.asDict() for row in rows], self.settings.layers)

    def gate(self, stream: str, *, since_ms: int, until_ms: int, grade: str | None = None) -> Gate:
        """Judge the windows of a stream by its grade.

        Args:
            grade: None: that of the settings.

        Raises:
            UsageError: if the grade is none.
        """
        from pyspark.sql import functions as f

        from workbench.audit.completeness_gate import judge
        from workbench.audit.window_verdicts import heard
        from workbench.audit_settings import Grade

        if grade is not None and grade not in {str(it) for it in Grade}:
            raise UsageError(f"There is no grade {grade!r}.", hint=f"There are: {', '.join(Grade)}.")
        rows = [row.asDict() for row in self.rows(stream=stream, since_ms=since_ms, until_ms=until_ms)]
        chosen = Grade(grade) if grade is not None else self.settings.grade_of(stream)
        mine = self.lines.where(f.col("stream") == f.lit(stream))
        of_edges = heard(mine, self.shape.frame(mine.sparkSession))
        told = {it["edge"]: it["told_ms"] for it in self._collected(of_edges)}
        over = until_ms + self.shape.lateness_ms
        return judge(
            rows,
            chosen,
            self.times_to_last(since_ms=since_ms, until_ms=until_ms, stream=stream).get(stream, self.untold),
            unheard=[edge for edge, _, _ in self.shape.between() if edge not in told],
            unfinished=[edge for edge, at in sorted(told.items()) if at is None or at < over],
        )

    def unheard(self, *, stream: str | None = None) -> list[tuple[str, str]]:
        """Streams and edges between layers of which no row tells, such as all of an expected stream without rows."""
        from pyspark.sql import functions as f

        lines = self.lines if stream is None else self.lines.where(f.col("stream") == f.lit(stream))
        layers = (
            lines.where("point IN ('in', 'out')")
            .groupBy("stream")
            .agg(f.collect_set(f.struct("layer", "point")).alias("told"))
        )
        asked = self.expected if stream is None else self.expected & {stream}
        told: dict[str, set[tuple[str, str]]] = {name: set() for name in asked}
        for row in self._collected(layers):
            told[row["stream"]] = {(it["layer"], it["point"]) for it in row["told"]}
        return sorted(
            (name, edge)
            for name, mine in told.items()
            for edge, one, other in self.shape.between()
            if not {(one, "out"), (other, "in")} <= mine
        )

    def arrivals(self, *, stream: str | None = None) -> dict[str, int]:
        """Number of windows by arrival."""
        return {row["arrival"]: row["count"] for row in self._collected(self._of(stream).groupBy("arrival").count())}

    @property
    def untold(self) -> LatencyLimit | None:
        """The limit of the time to the last layer, of a stream whose times no row tells; None: it is not judged."""
        from workbench.audit.completeness_gate import LatencyLimit

        limit = self.settings.latency_p99
        if limit is None:
            return None
        return LatencyLimit(limit_ms=round(1000 * limit.total_seconds()), p99_ms=None, records=0)

    def times_to_last(self, *, since_ms: int, until_ms: int, stream: str | None = None) -> dict[str, LatencyLimit]:
        """By stream, how long records of windows with a time of [since, until) take to the last layer; empty if it is not judged."""
        from pyspark.sql import functions as f

        from workbench.audit.layer_latency import latencies

        if (untold := self.untold) is None:
            return {}
        mine = self.source.where(f.col("layer") == f.lit(self.settings.layers[-1]))
        mine = mine if stream is None else mine.where(f.col("stream") == f.lit(stream))
        within = mine.where(
            f"exists(windows, it -> it.start_ms >= {self.shape.window_of(since_ms)} AND it.start_ms < {until_ms})"
        )
        found = self._collected(latencies(within.where("point = 'in'"), of_lines=self.lines).where("since = 'created'"))
        return {row["stream"]: replace(untold, p99_ms=row["p99_ms"], records=row["records"]) for row in found}

    def within(self, *, since_ms: int, until_ms: int) -> AuditLedger:
        """The same with only the windows that have a time of [since, until)."""
        from pyspark.sql import functions as f

        kept = (f.col("window_ms") >= f.lit(self.shape.window_of(since_ms))) & (f.col("window_ms") < f.lit(until_ms))
        return replace(self, frame=self.frame.where(kept))

    def by_edge(self, *, now_ms: int) -> list[Any]:
        """A row for each stream and edge; see `workbench.audit.stream_summaries.by_edge`."""
        from workbench.audit.stream_summaries import by_edge

        return self._collected(by_edge(self.frame, self.shape, now_ms=now_ms))

    def last_told(self) -> list[Any]:
        """A row for each stream and layer: `first_ms` and `told_ms`, when it wrote the oldest and the latest of its rows that were
        read; NULL: it has only said that it begins.
        """
        from pyspark.sql import functions as f

        both = (f.min("first_ms").alias("first_ms"), f.max(f.expr("nullif(last_ms, 0)")).alias("told_ms"))
        return self._collected(self.lines.groupBy("stream", "layer").agg(*both))

    def missing(
        self,
        stream: str,
        layer: str,
        *,
        since_ms: int | None = None,
        until_ms: int | None = None,
        arrived: str | Path | None = None,
    ) -> list[NamedInterval]:
        """Which records a layer took in and did not give out: only the positions that do not add up are read again, from the cluster.

        Args:
            since_ms, until_ms: windows with a time of [since, until), ms since the epoch; None: all.
            arrived: file or folder (Parquet or JSON lines) with a column `id` of what came out; needed where more than a few
                records are missing.

        Raises:
            UsageError: if the layer is none, or no cluster is known. SourceUnreachableError, EvidenceError: if records cannot be read.
        """
        from workbench.api.compare_and_trace_records import ids_in, records_of
        from workbench.audit.missing_records import intervals, name_missing, repaired, without_repaired

        if layer not in self.settings.layers:
            raise UsageError(f"There is no layer {layer!r}.", hint=f"There are: {', '.join(self.settings.layers)}.")
        with answering(self.settings.rows):
            first_ms = None if since_ms is None else self.shape.window_of(since_ms)
            found = intervals(self.source, self.lines, stream=stream, layer=layer, since_ms=first_ms, until_ms=until_ms)
        if not found:
            return []
        if self.cluster is None:
            raise UsageError("The records are on no cluster that is known.", hint="Name it with --cluster.")
        spark = self.source.sparkSession
        spans: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for it in found:
            spans.setdefault((it.topic, it.partition), []).append((it.start, it.stop))
        # Before the records: a topic may go in between.
        ids = _topic_ids(self.cluster, sorted({topic for topic, _ in spans}))
        records = records_of(spark, self.cluster, spans)
        came = None if arrived is None else ids_in(spark, Path(arrived))
        named = (
            replace(
                name_missing(
                    it,
                    [row for row in records.get((it.topic, it.partition), ()) if it.start <= row["offset"] < it.stop],
                    came,
                ),
                topic_id=ids.get(it.topic),
            )
            for it in found
        )
        missing = [it for it in named if it.offsets is None or it.offsets]
        with answering(self.settings.rows):
            return without_repaired(missing, repaired(self.source, self.lines, stream=stream, layer=layer))

    def write(self, folder: Path) -> dict[str, int]:
        """Write all windows as Parquet into a new folder; return their number by arrival.

        Raises:
            UsageError, SourceUnreachableError, EvidenceError: if the rows cannot be read.
        """
        with answering(self.settings.rows):
            self.frame.write.parquet(str(folder.absolute()))
            written = self.frame.sparkSession.read.parquet(str(folder.absolute()))
            return {row["arrival"]: row["count"] for row in written.groupBy("arrival").count().collect()}

    @contextmanager
    def at_hand(self) -> Iterator[None]:
        """Keep the windows meanwhile: several questions, one ledger."""
        self.frame.cache()
        try:
            yield
        finally:
            self.frame.unpersist()

    def _collected(self, frame: DataFrame) -> list[Any]:
        with answering(self.settings.rows):
            return frame.collect()

    def _of(self, stream: str | None) -> DataFrame:
        from pyspark.sql import functions as f

        return self.frame if stream is None else self.frame.where(f.col("stream") == f.lit(stream))


def audit(
    rows: str | Path | None = None,
    *,
    layers: Sequence[str] = (),
    window: str | None = None,
    lateness: str | None = None,
    name: str | None = None,
    cluster: str | None = None,
    topic: str | None = None,
    stream: str | None = None,
    since_ms: int | None = None,
    config: Path | None = None,
) -> AuditLedger:
    """Make the ledger of what each layer has counted.

    Args:
        rows: a file or folder of rows (`workbench.audit/1`): Parquet, or JSON lines.
        layers: names in the order in which records pass them.
        window: length of the windows that the rows have; default 1m.
        lateness: a window is final once its layers have told of a time so long after its end; default 10m.
        name: of an audit in the settings (`[audits.NAME]`), instead of all these; what is given here comes before it.
        cluster, topic: instead of `rows`: a topic that takes them.
        stream: only its rows are read.
        since_ms: windows before are of no interest, so of a topic only rows that can be about later ones are read; ms since the epoch.

    Returns:
        A ledger; it is a pure function of the rows.

    Raises:
        UsageError: if there are no rows, fewer than two layers, or a wrong duration. ConfigError: if the settings have no such audit.
        SourceUnreachableError, EvidenceError: if the rows cannot be read.
    """
    from pyspark.sql import functions as f

    from workbench.api.compare_and_trace_records import looks, rows_of_topic, session_for_audits
    from workbench.audit.audit_frames import ROW_BYTES, bytes_of, read_rows, with_who_stopped
    from workbench.audit.window_verdicts import StreamShape, edges
    from workbench.queues.systems import COUNT_FROM_ZERO

    if name is None and rows is None and topic is None:
        raise UsageError(
            "No rows to audit.", hint="Name an audit of the settings, or give --rows, or --topic and --cluster."
        )
    chosen, of_cluster = _chosen(
        name, rows=rows, layers=layers, window=window, lateness=lateness, cluster=cluster, topic=topic, config=config
    )
    shape = StreamShape(
        layers=tuple(chosen.layers),
        window_ms=round(1000 * chosen.window.total_seconds()),
        lateness_ms=round(1000 * chosen.lateness.total_seconds()),
        from_zero=of_cluster is None or of_cluster.system in COUNT_FROM_ZERO,
    )
    kept, read_from_ms, earlier = None, None, None
    if chosen.rows is not None:
        path = Path(chosen.rows)
        found = read_rows(session_for_audits(bytes_of(path) // ROW_BYTES), path)
    elif of_cluster is not None and chosen.topic is not None:
        # Clocks of layers may differ.
        read_from_ms = None if since_ms is None else max(0, shape.window_of(since_ms) - shape.lateness_ms)
        of_topic = rows_of_topic(of_cluster, chosen.topic, [(read_from_ms, None)])
        found, kept = of_topic.rows, of_topic.kept
        if read_from_ms is not None and kept is not None and kept.first_ms < read_from_ms:
            earlier = rows_of_topic(of_cluster, chosen.topic, looks(read_from_ms, kept.first_ms, shape.silence_ms))
            found = with_who_stopped(found, earlier.rows)
    else:
        raise UsageError("The topic is on no cluster.", hint="Name it with --cluster.")
    if stream is not None:
        found = found.where(f.col("stream") == f.lit(stream))
    expected = frozenset(chosen.expected if stream is None else chosen.expected & {stream})
    with answering(chosen.rows):
        lines = shape.lines_of(found)
    return AuditLedger(
        frame=edges(found, shape, lines), source=found, lines=lines, settings=chosen, shape=shape, cluster=of_cluster,
        expected=expected, kept=kept, read_from_ms=read_from_ms, earlier=earlier,
    )  # fmt: skip


def _chosen(
    name: str | None,
    *,
    rows: str | Path | None,
    layers: Sequence[str],
    window: str | None,
    lateness: str | None,
    cluster: str | None,
    topic: str | None,
    config: Path | None,
) -> tuple[AuditSettings, Cluster | None]:
    from workbench.settings import load_settings

    settings = load_settings(config) if name is not None or cluster is not None or topic is not None else None
    given: dict[str, Any] = {}
    if name is not None and settings is not None:
        if name not in settings.audits:
            known = ", ".join(sorted(settings.audits)) or "none"
            raise ConfigError(
                f"There is no audit {name!r} in the settings.", hint=f"There are: {known}. See docs/audit.md."
            )
        given = settings.audits[name].model_dump(exclude_none=True)
    if rows is not None or topic is not None:
        given = {key: value for key, value in given.items() if key not in ("rows", "topic")}
    own = {
        "rows": None if rows is None else str(rows),
        "topic": topic,
        "cluster": cluster,
        "layers": list(layers) or None,
        "window": window,
        "lateness": lateness,
    }
    chosen = _checked({**given, **{key: value for key, value in own.items() if value is not None}})
    if chosen.cluster is None and chosen.topic is not None and settings is not None:
        default = settings.default_cluster()
        if default is None:
            raise UsageError(f"The topic {chosen.topic} is on no cluster.", hint="Name it with --cluster.")
        chosen = chosen.model_copy(update={"cluster": default.name})
    if chosen.cluster is None:
        return chosen, None
    return chosen, (settings or load_settings(config)).cluster(chosen.cluster)


def _checked(values: Mapping[str, Any]) -> AuditSettings:
    from pydantic import ValidationError

    from workbench.limited_reads import first_problem

    if len(values.get("layers", ())) < 2 or len(set(values["layers"])) < len(values["layers"]):
        raise UsageError("An audit needs two layers or more, each once.", hint="Such as: --layers gateway,collector")
    try:
        return AuditSettings.model_validate(values)
    except ValidationError as error:
        raise UsageError(f"{first_problem(error, whole='the audit')}.") from None


def _topic_ids(cluster: Cluster, topics: Sequence[str]) -> dict[str, str]:
    """ "cluster:topic" ids of the topics that have one."""
    from workbench.queues.systems import gateway_of

    view = gateway_of(cluster).cluster(topics)
    there = {name: it.topic_id for name in topics if (it := view.topics.get(name)) is not None}
    return {name: f"{view.cluster_id}:{one}" for name, one in there.items() if one is not None}
