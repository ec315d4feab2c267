"""Counts of records, with Spark: by partition, event type, minute, key and key-hash range."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import EvidenceError, SourceUnreachableError, UsageError
from workbench.humanize import first_line, plural

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Required columns of a log of processed records, as JSON lines, CSV with a header, or Parquet.
PROCESSED_COLUMNS = ("topic", "partition", "offset")


def read_processed(spark: SparkSession, path: Path) -> DataFrame:
    """Read a log of processed records: one row with topic, partition and offset per processing.

    Raises:
        UsageError: if it does not exist or lacks a column.
    """
    if not path.exists():
        raise UsageError(f"The log of processed records {path} does not exist.")
    path = path.absolute()  # the JVM may have begun in another folder
    names = [item.name for item in path.iterdir()] if path.is_dir() else [path.name]
    if any(name.endswith(".parquet") for name in names):
        frame = spark.read.parquet(str(path))
    elif any(name.endswith(".csv") for name in names):
        frame = spark.read.csv(str(path), header=True)
    else:
        frame = spark.read.schema("topic string, partition int, offset bigint").json(str(path))
    missing = [name for name in PROCESSED_COLUMNS if name not in frame.columns]
    if missing:
        raise UsageError(f"{path} has no column {missing[0]!r}.", hint=f"Needed: {', '.join(PROCESSED_COLUMNS)}.")
    return frame.selectExpr("topic", "try_cast(partition as int) partition", "try_cast(offset as bigint) offset")


def refuse_unreadable(processed: DataFrame, path: Path) -> None:
    """Nobody can tell which records the lines are of that cannot be read: these would be said to be missing.

    Raises:
        UsageError: if there are such lines, or the file is not what its name says.
    """
    with answering(str(path)):
        count = processed.where("topic is null or partition is null or offset is null").count()
    if count:
        raise UsageError(
            f"{plural(count, 'line')} of {path} cannot be read: topic, partition and offset are needed, the last two as numbers.",
            hint="What was processed there is not known. Correct or remove the lines; one that was cut off is perhaps the last.",
        )


def run(frame: DataFrame) -> list[dict[str, Any]]:
    """Collect the rows of a small result.

    Raises:
        SourceUnreachableError: if the records could not be read.
        EvidenceError: if some of them are already deleted.
    """
    with answering():
        return [row.asDict() for row in frame.collect()]


@contextmanager
def answering(file: str | None = None) -> Iterator[None]:
    """Spark reads records of a queue in this block, or a file of somebody's.

    Raises:
        SourceUnreachableError: if records could not be read. EvidenceError: if some of them are already deleted.
        UsageError: if the file is not what it says.
    """
    try:
        yield
    except Exception as error:
        # Spark's own errors, and those of its JVM, which come by py4j: a package that we do not ask for by name.
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        lines = [line.strip() for line in str(error).splitlines() if "kafka_records:" in line]
        words = lines[-1].split("kafka_records:", 1)[1].strip() if lines else first_line(error)
        if "are deleted" in words:
            raise EvidenceError(
                f"Some records can no longer be read: {words}.", hint="Retention has deleted them."
            ) from None
        if file is not None and not lines:
            raise UsageError(
                f"{file} cannot be read.",
                hint="It must be Parquet, or JSON with one document a line, as its name says.",
            ) from None
        raise SourceUnreachableError(f"Reading the records failed: {words}.") from None


def counts_by(frame: DataFrame, by: str, *, most: int) -> list[dict[str, Any]]:
    """Count records and bytes by `partition`, `type`, `minute` or `key`, largest first (minutes in order).

    `frame` needs the columns topic, partition, timestamp, key, event_type and value_bytes as far as `by` uses them.
    """
    group = {
        "partition": "concat(topic, '-', partition)",
        "type": "coalesce(event_type, '(none)')",
        "minute": "date_format(timestamp, \"yyyy-MM-dd'T'HH:mm'Z'\")",
        "key": "coalesce(decode(key, 'UTF-8'), '(none)')",
    }[by]
    counted = frame.selectExpr(f"{group} as name", "value_bytes").groupBy("name")
    rows = counted.agg({"*": "count", "value_bytes": "sum"}).withColumnsRenamed(
        {"count(1)": "records", "sum(value_bytes)": "bytes"}
    )
    order = rows.orderBy("name") if by == "minute" else rows.orderBy(rows["records"].desc(), "name")
    return run(order.limit(most))


def processed_counts(records: DataFrame, processed: DataFrame) -> list[dict[str, Any]]:
    """Count per partition: records, distinct processed ones, and missing ones with the first and last of them.

    `records` has topic, partition and offset.
    """
    return run(
        records.join(
            processed.distinct().selectExpr("topic", "partition", "offset", "true as seen"),
            list(PROCESSED_COLUMNS),
            "left",
        )
        .groupBy("topic", "partition")
        .agg(
            *_expressions(
                "count(1) as records",
                "count(seen) as processed",
                "count_if(seen is null) as missing",
                "min(case when seen is null then offset end) as first_missing",
                "max(case when seen is null then offset end) as last_missing",
            )
        )
    )


def key_range_counts(records: DataFrame, processed: DataFrame | None, ranges: int) -> list[dict[str, Any]]:
    """Count records, and processed ones, by range of the key's CRC-32; records without a key are in range -1.

    `records` has topic, partition, offset and key.
    """
    frame = records.selectExpr(
        "topic",
        "partition",
        "offset",
        f"if(key is null, -1, cast(floor(crc32(key) * {ranges} / 4294967296) as int)) as key_range",
    )
    if processed is not None:
        seen = processed.distinct().selectExpr("topic", "partition", "offset", "true as seen")
        frame = frame.join(seen, list(PROCESSED_COLUMNS), "left")
    else:
        frame = frame.selectExpr("*", "cast(null as boolean) as seen")
    return run(
        frame.groupBy("key_range")
        .agg(*_expressions("count(1) as records", "count(seen) as processed"))
        .orderBy("key_range")
    )


def _expressions(*texts: str) -> list[Any]:
    from pyspark.sql.functions import expr

    return [expr(text) for text in texts]
