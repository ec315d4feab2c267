"""Rows of an audit as Spark frames."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import UsageError
from workbench.layers.rows import AuditRow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# As Spark reads a row; `sum` is a signed 64-bit number.
DDL = (
    "schema string, stream string, layer string, point string, topic string, partition int, start bigint, stop bigint, "
    "incarnation bigint, sequence bigint, adds boolean, of_process boolean, emitted_ms bigint, "
    "windows array<struct<start_ms: bigint, count: bigint, bytes: bigint, sum: bigint>>, "
    "created_ms array<bigint>, updated_ms array<bigint>, errors map<string, bigint>"
)


def read_rows(spark: SparkSession, path: Path) -> DataFrame:
    """Rows of a folder or file: Parquet, or JSON lines.

    Raises:
        UsageError: if it does not exist, or is neither.
    """
    if not path.exists():
        raise UsageError(f"There are no rows at {path}.", hint="A folder or file of Parquet, or of JSON lines.")
    path = path.absolute()  # the JVM may have begun in another folder
    names = [item.name for item in path.iterdir()] if path.is_dir() else [path.name]
    if any(name.endswith(".parquet") for name in names):
        return _whole(spark.read.schema(DDL).parquet(str(path)))
    if any(name.endswith((".json", ".jsonl", ".ndjson")) for name in names):
        return _whole(spark.read.schema(DDL).option("mode", "FAILFAST").json(str(path)))
    raise UsageError(f"{path} has neither Parquet nor JSON lines.", hint="Files end in .parquet, .json or .jsonl.")


def rows_of_values(values: DataFrame) -> DataFrame:
    """Rows from records of a topic, a JSON document each. What is no row of ours is left out: a topic takes anything.

    Args:
        values: with a column `value`, binary.
    """
    parsed = values.selectExpr(f"from_json(cast(value AS string), '{DDL}') AS row").selectExpr("row.*")
    return _whole(parsed).where(
        "schema = 'workbench.audit/1' AND stream IS NOT NULL AND layer IS NOT NULL AND point IS NOT NULL AND topic IS NOT NULL AND "
        "partition >= 0 AND start >= 0 AND stop >= start AND incarnation IS NOT NULL AND sequence IS NOT NULL AND emitted_ms >= 0 "
        "AND windows IS NOT NULL"
    )


def _whole(rows: DataFrame) -> DataFrame:
    """What a row may leave out."""
    return rows.selectExpr(
        "* EXCEPT (adds, of_process)", "coalesce(adds, false) AS adds", "coalesce(of_process, false) AS of_process"
    )


def frame_of_rows(spark: SparkSession, rows: Iterable[AuditRow]) -> DataFrame:
    """Rows at hand, as a frame."""
    found: list[dict[str, Any]] = [it.model_dump(mode="python", by_alias=True) for it in rows]
    return spark.createDataFrame(found, DDL)
