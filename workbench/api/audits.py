"""Audits: did everything arrive? A ledger from the layers' rows, the gate of a downstream job, and the records that are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.audit_settings import AuditSettings
from workbench.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from workbench.audit.gate import Gate, LatencyLimit
    from workbench.audit.locate import NamedInterval
    from workbench.settings import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLedger:
    """Windows of every stream and edge; `frame` has all columns of `workbench.audit.edges.edges`.

    Attributes:
        source: the layers' rows (`workbench.audit.frames.DDL`).
        settings: layers, windows and grades.
        cluster: of the records, if it is known.
    """

    frame: DataFrame
    source: DataFrame
    settings: AuditSettings
    cluster: Cluster | None = None

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

    def by_stream(self, *, since_ms: int, until_ms: int, most: int = 1_000) -> list[Any]:
        """A row for each stream, worst first, of windows that begin in [since, until); see `workbench.audit.streams.by_stream`."""
        from pyspark.sql import functions as f

        from workbench.audit.streams import by_stream

        within = self.frame.where((f.col("window_ms") >= f.lit(since_ms)) & (f.col("window_ms") < f.lit(until_ms)))
        order = (f.greatest("lost", "doubled").desc(), f.col("missing_at_most").desc(), f.col("stream"))
        return by_stream(within).orderBy(*order).limit(most).collect()

    def latencies(self, *, stream: str | None = None) -> list[Any]:
        """Percentiles of the time to each layer, the slowest stream first; columns of `workbench.audit.latency.latencies`."""
        from pyspark.sql import functions as f

        from workbench.audit.latency import latencies

        rows = self.source if stream is None else self.source.where(f.col("stream") == f.lit(stream))
        return (
            latencies(rows).orderBy(f.col("p99_ms").desc_nulls_first(), "stream", "layer", "point", "since").collect()
        )

    def gate(self, stream: str, *, since_ms: int, until_ms: int, grade: str | None = None) -> Gate:
        """Judge the windows of a stream by its grade.

        Args:
            grade: None: that of the settings.

        Raises:
            UsageError: if the grade is none.
        """
        from workbench.audit.gate import judge
        from workbench.audit_settings import Grade

        if grade is not None and grade not in {str(it) for it in Grade}:
            raise UsageError(f"There is no grade {grade!r}.", hint=f"There are: {', '.join(Grade)}.")
        rows = [row.asDict() for row in self.rows(stream=stream, since_ms=since_ms, until_ms=until_ms)]
        chosen = Grade(grade) if grade is not None else self.settings.grade_of(stream)
        return judge(rows, chosen, self._latency(stream, since_ms, until_ms))

    def _latency(self, stream: str, since_ms: int, until_ms: int) -> LatencyLimit | None:
        from pyspark.sql import functions as f

        from workbench.audit.gate import LatencyLimit
        from workbench.audit.latency import latencies

        if self.settings.latency_p99 is None:
            return None
        last = self.settings.layers[-1]
        mine = self.source.where((f.col("stream") == f.lit(stream)) & (f.col("layer") == f.lit(last)))
        within = mine.where(f"exists(windows, it -> it.start_ms >= {since_ms} AND it.start_ms < {until_ms})")
        found = latencies(within.where("point = 'in'")).where("since = 'created'").collect()
        return LatencyLimit(
            limit_ms=round(1000 * self.settings.latency_p99.total_seconds()),
            p99_ms=found[0]["p99_ms"] if found else None,
            records=found[0]["records"] if found else 0,
        )

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
            since_ms, until_ms: windows that begin in [since, until), ms since the epoch; None: all.
            arrived: file or folder (Parquet or JSON lines) with a column `id` of what came out; needed where more than two of many
                records are missing.

        Raises:
            UsageError: if the layer is none, or no cluster is known. SourceUnreachableError, EvidenceError: if records cannot be read.
        """
        from workbench.api.audit_records import ids_in, records_of
        from workbench.audit.locate import intervals, name_missing

        if layer not in self.settings.layers:
            raise UsageError(f"There is no layer {layer!r}.", hint=f"There are: {', '.join(self.settings.layers)}.")
        found = intervals(self.source, stream=stream, layer=layer, since_ms=since_ms, until_ms=until_ms)
        # Where as many were lost as doubled, only what arrived can tell.
        lost = [it for it in found if it.lost > 0 or arrived is not None]
        if not lost:
            return []
        if self.cluster is None:
            raise UsageError("The records are on no cluster that is known.", hint="Name it with --cluster.")
        spark = self.source.sparkSession
        spans: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for it in lost:
            spans.setdefault((it.topic, it.partition), []).append((it.start, it.stop))
        records = records_of(spark, self.cluster, spans)
        came = None if arrived is None else ids_in(spark, Path(arrived))
        named = (
            name_missing(
                it,
                [row for row in records.get((it.topic, it.partition), ()) if it.start <= row["offset"] < it.stop],
                came,
            )
            for it in lost
        )
        return [it for it in named if it.offsets or it.interval.lost > 0]

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

    Returns:
        A ledger; it is a pure function of the rows.

    Raises:
        UsageError: if there are no rows, fewer than two layers, or a wrong duration. ConfigError: if the settings have no such audit.
        SourceUnreachableError: if the topic cannot be read.
    """
    from pyspark.sql import functions as f

    from workbench.api.audit_records import session_for_audits
    from workbench.audit.edges import StreamShape, edges
    from workbench.audit.frames import read_rows

    if name is None and rows is None and topic is None:
        raise UsageError(
            "No rows to audit.", hint="Name an audit of the settings, or give --rows, or --topic and --cluster."
        )
    chosen, of_cluster = _chosen(
        name, rows=rows, layers=layers, window=window, lateness=lateness, cluster=cluster, topic=topic, config=config
    )
    spark = session_for_audits()
    if chosen.rows is not None:
        found = read_rows(spark, Path(chosen.rows))
    elif of_cluster is not None and chosen.topic is not None:
        found = _rows_of_topic(spark, of_cluster, chosen.topic)
    else:
        raise UsageError("The topic is on no cluster.", hint="Name it with --cluster.")
    if stream is not None:
        found = found.where(f.col("stream") == f.lit(stream))
    shape = StreamShape(
        layers=tuple(chosen.layers),
        window_ms=round(1000 * chosen.window.total_seconds()),
        lateness_ms=round(1000 * chosen.lateness.total_seconds()),
    )
    return AuditLedger(frame=edges(found, shape), source=found, settings=chosen, cluster=of_cluster)


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

    from workbench.inputs import first_problem

    if len(values.get("layers", ())) < 2 or len(set(values["layers"])) < len(values["layers"]):
        raise UsageError("An audit needs two layers or more, each once.", hint="Such as: --layers gateway,collector")
    try:
        return AuditSettings.model_validate(values)
    except ValidationError as error:
        raise UsageError(f"{first_problem(error, whole='the audit')}.") from None


def _rows_of_topic(spark: SparkSession, cluster: Cluster, topic: str) -> DataFrame:
    from workbench.api.audit_records import whole_topic
    from workbench.audit.frames import rows_of_values
    from workbench.queues.systems import system_of

    values = system_of(cluster).read_records(spark, cluster, whole_topic(cluster, topic), ["value"])
    return rows_of_values(values.where("value IS NOT NULL")).cache()  # read from the queue once
