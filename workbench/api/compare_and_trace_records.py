"""Records of topics and tables for audits: comparing two of them, following one record, and reading some again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import UsageError
from workbench.humanize import printable
from workbench.layers.record_marks import CREATED_HEADER, ID_HEADER, UPDATED_HEADER
from workbench.logs.record_counts import answering, run
from workbench.queues.replay_port import Gateway, LogView, Ranges
from workbench.queues.snapshot_views import Partition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from workbench.audit.audit_record_sets import Comparison
    from workbench.settings import Cluster

_MOST_FOUND = 1_000
_MUCH_ROWS = 200_000
# Behind the end of a time: so many offsets without a record of before it end it, and each further look is four times as long.
_LOOK_BEHIND, _MOST_LOOKS = 1_000, 5
_BROADCAST_SECONDS = "86400"
_PARTS = "64"  # tasks of a shuffle: 35 million rows of a day's windows pass in pieces that fit into memory


def session_for_audits(rows: int | None = None) -> SparkSession:
    """A Spark session for millions of rows beside that of triages, or for few that of triages itself.

    Args:
        rows: how many are to be expected; None: not known. 3.4 million took 48 s without the second compiler and 41 s with it; an hour
            of two layers 14 and 24 s of processor time.
    """
    from workbench.api.load_measurements import session_for_much_data
    from workbench.spark.session import session

    if rows is not None and rows <= _MUCH_ROWS:
        return session()
    spark = session_for_much_data()
    settings = {
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.shuffle.partitions": _PARTS,
        # Which lines are odd, and goes to all rows, is known only after a pass over them: the default gives up after 5 minutes.
        "spark.sql.broadcastTimeout": _BROADCAST_SECONDS,
        # Times in nanoseconds, as pandas writes them, are refused without.
        "spark.sql.legacy.parquet.nanosAsLong": "true",
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    return spark


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRecords:
    """Of when the oldest records of a topic are, ms since the epoch: of any partition, and of each of those that have some."""

    first_ms: int
    every_ms: int


# [since, until) in ms since the epoch; None: the begin or the end of what is there.
Span = tuple[int | None, int | None]


def _logs_of_topic(cluster: Cluster, topic: str, instants_ms: Iterable[int]) -> tuple[Gateway, LogView]:
    """Where the logs of a topic begin and end, and their first records at or after some times.

    Raises:
        UsageError: if the cluster has no such topic. SourceUnreachableError: if it does not answer.
    """
    from workbench.errors import SourceUnreachableError
    from workbench.queues.systems import gateway_of

    gateway = gateway_of(cluster)
    view = gateway.cluster([topic]).topics.get(topic)
    if view is None:
        raise UsageError(f"The cluster {cluster.name} has no topic {topic!r}.")
    parts = [(topic, number) for number in sorted(view.leaders)]
    logs = gateway.logs(parts, instants_ms=sorted(set(instants_ms)), stable=True)
    if logs.errors:
        part, reason = next(iter(logs.errors.items()))
        raise SourceUnreachableError(f"{part[0]}-{part[1]} cannot be read: {reason}.")
    return gateway, logs


def _span_of_times(logs: LogView, part: Partition, span: Span) -> tuple[int, int]:
    """From the first record at or after the begin to the first one at or after the end; behind an open transaction is nothing yet."""
    end = logs.stable_ends.get(part, logs.ends[part])

    def at(instant: int | None, otherwise: int) -> int:
        if instant is None:
            return otherwise
        first = logs.found[instant][part].offset
        return end if first is None else min(first, end)

    since, until = span
    return at(since, logs.starts[part]), at(until, end)


def whole_topic(cluster: Cluster, topic: str, *, since_ms: int | None = None, until_ms: int | None = None) -> Ranges:
    """Offset ranges of what a topic holds now, or those that have all of its records from a time to another, and perhaps others.

    Raises:
        UsageError: if the cluster has no such topic. SourceUnreachableError: if it does not answer.
    """
    from workbench.logs.windows_in_unordered_logs import find_spans

    window = (since_ms or 0, until_ms or 0)
    gateway, logs = _logs_of_topic(cluster, topic, window)
    found = {part: _span_of_times(logs, part, (since_ms, None)) for part in logs.ends}
    if until_ms is None or not (settings := gateway.settings([topic]))[topic].appends_time:
        return found  # where producers set the times, records of the window may be anywhere behind its end
    spans = find_spans(gateway, list(found), logs, [window], settings)
    return {
        part: (start, min(stop, it.stop if it.unread is None else it.unread[1]))
        for part, (start, stop) in found.items()
        for it in [spans[part, window]]
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRows:
    """Rows of an audit in a topic.

    Attributes:
        rows: as `read_rows` makes them.
        kept: how far back the topic reaches; None: it is not known.
        is_whole: whether all rows of the times were read, as far as a look behind their ends tells.
    """

    rows: DataFrame
    kept: KeptRecords | None
    is_whole: bool


def rows_of_topic(cluster: Cluster, topic: str, times: Sequence[Span]) -> TopicRows:
    """An audit's rows that were written to a topic at some times, read from the queue once, and perhaps others.

    Raises:
        UsageError, SourceUnreachableError: as `whole_topic`.
    """
    from workbench.audit.audit_frames import rows_of_values
    from workbench.queues.position import merged
    from workbench.queues.systems import system_of

    gateway, logs = _logs_of_topic(cluster, topic, {0, *(it for span in times for it in span if it is not None)})
    oldest = [it.timestamp_ms for it in logs.found[0].values() if it.offset is not None]
    told = [it for it in oldest if it is not None and it >= 0]
    kept = KeptRecords(first_ms=min(told), every_ms=max(told)) if told and len(told) == len(oldest) else None
    is_whole, found = True, dict[Partition, list[tuple[int, int]]]()
    for span in times:
        spans = {part: _span_of_times(logs, part, span) for part in logs.ends}
        stops = {part: stop for part, (_, stop) in spans.items()}
        if span[1] is not None:
            stops, is_known = _behind_late_records(gateway, logs, stops, span[1])
            is_whole = is_whole and is_known
        for part, (start, _) in spans.items():
            found.setdefault(part, []).append((start, stops[part]))
    ranges = {part: merged(some) for part, some in found.items()}
    counted = sum(stop - start for some in ranges.values() for start, stop in some)
    spark = session_for_audits(counted)
    values = system_of(cluster).read_records(spark, cluster, ranges, ["value"])
    return TopicRows(rows=rows_of_values(values.where("value IS NOT NULL")).cache(), kept=kept, is_whole=is_whole)


def looks(before_ms: int, oldest_ms: int, length_ms: int) -> list[tuple[int, int]]:
    """Spans of time [start, stop) to look at, each twice as far back as the one before, and the oldest: as few as can be.

    A layer that lives writes a row in each of them: one that lived at the time of a span is seen, and one that lived only between
    two is not.
    """
    starts, back = [], length_ms
    while before_ms - back > oldest_ms:
        starts.append(before_ms - back)
        back *= 2
    if before_ms > oldest_ms:
        starts.append(oldest_ms)
    return [(it, min(it + length_ms, before_ms)) for it in starts]


def _behind_late_records(
    gateway: Gateway, logs: LogView, stops: Mapping[Partition, int], until_ms: int
) -> tuple[dict[Partition, int], bool]:
    """Where a time ends in each log: where no record of before its end has come for a while; and whether that was seen.

    Kafka finds the first record at or after the end. One that is dated ahead may be far before it, and late records come behind.
    """
    from workbench.logs.windows_in_unordered_logs import read_tails

    ends = {part: logs.stable_ends.get(part, logs.ends[part]) for part in stops}
    found, size, is_known = dict(stops), _LOOK_BEHIND, True
    left = {part: at for part, at in stops.items() if at < ends[part]}
    for _ in range(_MOST_LOOKS):
        asked = {part: (at, min(ends[part], at + size)) for part, at in left.items()}
        left = {}
        for part, tail in read_tails(gateway, asked, {}, committed=True).items():
            early = [offset for offset, timestamp_ms in tail.records if timestamp_ms < until_ms]
            if early:
                found[part] = early[-1] + 1
            stop = asked[part][1]
            is_known = is_known and tail.unread is None
            if early and tail.unread is None and stop < ends[part]:
                left[part] = stop
        size *= 4
    return found, is_known and not left


def records_of(
    spark: SparkSession, cluster: Cluster, spans: Mapping[Partition, Sequence[tuple[int, int]]]
) -> dict[Partition, list[dict[str, Any]]]:
    """Offset and hash of the id of the records in some ranges, by partition.

    Raises:
        SourceUnreachableError, EvidenceError: if they cannot be read, or are deleted.
    """
    from workbench.queues.systems import system_of

    frame = system_of(cluster).read_records(spark, cluster, spans, ["topic", "partition", "offset", "headers"])
    found: dict[Partition, list[dict[str, Any]]] = {}
    for row in run(
        frame.selectExpr(
            "topic",
            "partition",
            "offset",
            f"xxhash64({_header(ID_HEADER)}) AS hash",
            f"{_header(ID_HEADER)} IS NULL AS bare",
        )
    ):
        found.setdefault((row["topic"], row["partition"]), []).append(
            {"offset": row["offset"], "hash": None if row["bare"] else row["hash"]}
        )
    return found


def _header(name: str) -> str:
    """SQL: value of a record's last header of a name; NULL without one."""
    return f"try_element_at(filter(headers, it -> it.key = '{name}'), -1).value"


def ids_in(spark: SparkSession, path: Path) -> dict[int, int]:
    """Hashes of the ids, and how often each occurs, in a file or folder, Parquet or JSON lines, with a column `id`.

    Raises:
        UsageError: if there is no such column.
    """
    frame = _table(spark, path)
    if "id" not in frame.columns:
        raise UsageError(f"{path} has no column 'id'.", hint="It must have the ids of the records that came out.")
    is_binary = dict(frame.dtypes)["id"] == "binary"
    name = "id" if is_binary else "CAST(CAST(id AS string) AS binary)"
    with answering(str(path)):
        counted = (
            frame.where("id IS NOT NULL").selectExpr(f"xxhash64({name}) AS hash").groupBy("hash").count().collect()
        )
    return {row["hash"]: row["count"] for row in counted}


def _table(spark: SparkSession, path: Path) -> DataFrame:
    if not path.exists():
        raise UsageError(
            f"There is nothing at {path}.", hint="A file or folder of Parquet or JSON lines, or CLUSTER:TOPIC."
        )
    path = path.absolute()
    names = [item.name for item in path.iterdir()] if path.is_dir() else [path.name]
    with answering(str(path)):
        if any(name.endswith(".parquet") for name in names):
            return spark.read.parquet(str(path))
        # Without the mode, a line that is no JSON would be a record of its own kind.
        return spark.read.option("mode", "FAILFAST").json(str(path))


def _records_of_times(
    spark: SparkSession, cluster: Cluster, topics: Iterable[str], columns: Sequence[str], span: Span
) -> DataFrame:
    """Records of topics, of all times or from one to another, with `timestamp` and these columns; one without a time is of any."""
    from workbench.queues.systems import system_of

    since_ms, until_ms = span
    ranges: dict[Partition, Any] = {}
    for topic in dict.fromkeys(topics):
        ranges |= whole_topic(cluster, topic, since_ms=since_ms, until_ms=until_ms)
    found = system_of(cluster).read_records(spark, cluster, ranges, ["timestamp", *columns])
    if since_ms is not None:
        found = found.where(f"coalesce(unix_millis(timestamp) >= {since_ms}, true)")
    return found if until_ms is None else found.where(f"coalesce(unix_millis(timestamp) < {until_ms}, true)")


def _side(spark: SparkSession, text: str, config: Path | None, span: Span) -> DataFrame:
    """A table, or a topic as CLUSTER:TOPIC, with `hour_ms`, `hash` and `place`."""
    from workbench.settings import load_settings

    name, colon, topic = text.partition(":")
    if colon and not Path(text).exists():
        cluster = load_settings(config).cluster(name)
        return _records_of_times(spark, cluster, [topic], ["partition", "offset", "key", "value"], span).selectExpr(
            "unix_millis(timestamp) div 3600000 * 3600000 AS hour_ms",
            "xxhash64(key, value, key IS NULL, value IS NULL) AS hash",
            "concat(partition, '@', offset) AS place",
        )  # fmt: skip
    table = _table(spark, Path(text))
    columns = ", ".join(f"`{it.replace('`', '``')}`" for it in sorted(table.columns))
    # By default, times without a zone are written to the millisecond: two that differ in microseconds would be the same.
    formats = ", ".join(
        f"'{option}', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS{zone}\""
        for option, zone in (("timestampFormat", "XXX"), ("timestampNTZFormat", ""))
    )
    what = f"to_json(struct({columns}), map({formats}))"
    return table.selectExpr(
        "CAST(NULL AS bigint) AS hour_ms", f"xxhash64({what}) AS hash", f"left({what}, 300) AS place"
    )


def compare(
    one: str,
    other: str,
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    sample: int = 20,
    config: Path | None = None,
) -> Comparison:
    """Compare the records of two topics or tables, whatever their order: a run of a new version beside the old one.

    Args:
        one, other: CLUSTER:TOPIC, or a file or folder of Parquet or JSON lines. Of topics, key and value count; of tables, all columns.
        since_ms, until_ms: of topics: only records from a time to another, ms since the epoch.
        sample: most records that are shown of each side.

    Raises:
        UsageError: if one of them does not exist. SourceUnreachableError: if it cannot be read.
    """
    from workbench.audit.audit_record_sets import compare_frames

    spark = session_for_audits()
    sides = [_side(spark, text, config, (since_ms, until_ms)) for text in (one, other)]
    with answering(f"{one} or {other}"):
        return compare_frames(*sides, names=(one, other), sample=sample)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A place where a record was.

    Attributes:
        topic, partition, offset: the place.
        stored_ms: the record's timestamp there; None: it has none.
        created_ms, updated_ms: by its headers, when it was made and when the last layer gave it out; None: it does not say.
        error: of a dead letter, what it died of.
    """

    topic: str
    partition: int
    offset: int
    stored_ms: int | None
    created_ms: int | None
    updated_ms: int | None
    error: str | None


def trace(
    record: str,
    *,
    cluster: str,
    topics: Sequence[str],
    since_ms: int | None = None,
    until_ms: int | None = None,
    config: Path | None = None,
) -> list[Sighting]:
    """Find one record in topics, by its id (header `wb-id`) or its key; in the order of time.

    Raises:
        UsageError: if a topic does not exist, or more than a thousand records have this key. SourceUnreachableError: if it cannot be
            read.
    """
    from pyspark.sql import functions as f

    from workbench.settings import load_settings

    spark = session_for_audits()
    chosen = load_settings(config).cluster(cluster)
    columns = ["topic", "partition", "offset", "key", "headers"]
    records = _records_of_times(spark, chosen, topics, columns, (since_ms, until_ms))
    wanted = f.lit(record).cast("binary")
    mine = records.where((f.expr(_header(ID_HEADER)) == wanted) | (f.col("key") == wanted)).selectExpr(
        "topic", "partition", "offset", "unix_millis(timestamp) AS stored_ms",
        *(f"try_cast(CAST({_header(name)} AS string) AS bigint) AS {name[3:-4]}_ms" for name in (CREATED_HEADER, UPDATED_HEADER)),
        f"CAST(coalesce({_header('wb_code')}, {_header('__connect.errors.exception.class.name')}) AS string) AS error",
    )  # fmt: skip
    found = [
        Sighting(
            topic=row["topic"], partition=row["partition"], offset=row["offset"], stored_ms=row["stored_ms"],
            created_ms=row["c_ms"], updated_ms=row["u_ms"], error=row["error"],
        )
        for row in run(mine.limit(_MOST_FOUND + 1))
    ]  # fmt: skip
    if len(found) > _MOST_FOUND:  # any thousand of them would look like all
        raise UsageError(
            f"More than {_MOST_FOUND:,} records of these topics have the id or key {printable(record)!r}.",
            hint="Name the id of one record, or a shorter time with --since and --until.",
        )
    return sorted(found, key=lambda it: (it.stored_ms or 0, it.topic, it.partition, it.offset))
