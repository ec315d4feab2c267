"""Rows of an audit as Spark frames."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from workbench.errors import UsageError
from workbench.layers.rows import LATENCY_MS, LATEST_MS, POINTS, SCHEMA, AuditRow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# As Spark reads a row; `sum` is a signed 64-bit number.
DDL = (
    "schema string, stream string, layer string, point string, topic string, partition int, start bigint, stop bigint, "
    "incarnation bigint, sequence bigint, adds string, of_process boolean, emitted_ms bigint, "
    "windows array<struct<start_ms: bigint, count: bigint, bytes: bigint, sum: bigint>>, "
    "created_ms array<bigint>, updated_ms array<bigint>, errors map<string, bigint>"
)
_POINTS = ", ".join(f"'{it}'" for it in POINTS)
ROW_BYTES = 20  # of a row of a minute in Parquet, at least
MOST = 1 << 62  # of positions, those of a Pulsar too: the sum of two differences does not overflow


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


def bytes_of(path: Path) -> int:
    """Size of a file, or of the files in a folder; 0 if there is none."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(it.stat().st_size for it in files if it.is_file())


def rows_of_values(values: DataFrame) -> DataFrame:
    """Rows from records of a topic: a row or a list of rows each, as JSON. What is no row of ours is left out: a topic takes anything.

    Args:
        values: with a column `value`, binary.
    """
    of_record = f"from_json(cast(value AS string), 'array<struct<{DDL}>>')"  # one row is a list of one to Spark
    return _whole(values.selectExpr(f"inline({of_record})"))


def _whole(rows: DataFrame) -> DataFrame:
    """Rows that can be; what one may leave out has its default."""
    most = f"{MOST}L"
    sane = (
        f"schema = '{SCHEMA}' AND stream IS NOT NULL AND layer IS NOT NULL AND point IN ({_POINTS}) AND topic IS NOT NULL",
        f"partition >= 0 AND start >= 0 AND stop >= start AND stop < {most} AND incarnation >= 0 AND sequence >= 0",
        f"emitted_ms BETWEEN 0 AND {LATEST_MS}L AND windows IS NOT NULL",
        f"forall(windows, it -> coalesce(it.start_ms BETWEEN 0 AND {LATEST_MS}L, false) "
        "AND coalesce(it.count BETWEEN 0 AND if(point = 'in', stop - start, 1000000000000L), false))",
        f"coalesce(size(created_ms) <= {len(LATENCY_MS) + 1} AND size(updated_ms) <= {len(LATENCY_MS) + 1}, true)",
    )
    rows = rows.where(" AND ".join(sane))
    return rows.selectExpr(
        "* EXCEPT (adds, of_process)", "coalesce(adds, '') AS adds", "coalesce(of_process, false) AS of_process"
    )


def with_who_stopped(rows: DataFrame, before: DataFrame) -> DataFrame:
    """Rows of a period, and one without positions of each log that was told of before it and not since, while others of its topic are.

    It covers nothing and says up to when it had told: who stands is behind, and has lost nothing.

    Args:
        before: rows of before the period, of as many times as were read.
    """
    place = ["stream", "layer", "point", "topic"]
    log, others = [*place, "partition"], "adds = '' AND point IN ('in', 'out') AND NOT of_process"
    alive = rows.where(others).select(*log).distinct()
    latest = before.where(f"{others} AND emitted_ms > 0").groupBy(*log).agg({"emitted_ms": "max", "stop": "max"})
    stopped = latest.join(alive, log, "left_anti").join(alive.select(*place).distinct(), place, "left_semi")
    bare = stopped.selectExpr(
        f"'{SCHEMA}' AS schema", *log, "`max(stop)` AS start", "`max(stop)` AS stop", "0L AS incarnation", "0L AS sequence",
        "`max(emitted_ms)` AS emitted_ms", "array() AS windows", "array() AS created_ms", "array() AS updated_ms", "map() AS errors",
        "'' AS adds", "false AS of_process",
    )  # fmt: skip
    return rows.unionByName(bare.to(rows.schema))


def frame_of_rows(spark: SparkSession, rows: Iterable[AuditRow]) -> DataFrame:
    """Rows at hand, as a frame. By Arrow: Spark starts Python processes to read a list, for as long as a small audit takes."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    schema = cast("StructType", StructType.fromDDL(DDL))
    found: list[dict[str, Any]] = [it.model_dump(mode="python", by_alias=True) for it in rows]
    for it in found:
        it["errors"] = list(it["errors"].items())
    return spark.createDataFrame(pa.Table.from_pylist(found, to_arrow_schema(schema)), schema)
