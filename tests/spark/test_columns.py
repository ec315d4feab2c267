"""Columns out of SQL text: parsed once, the same for all threads, and Spark's own error for what is no SQL."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from workbench.spark import parsed_sql_cache as columns_module
from workbench.spark.parsed_sql_cache import aggregate, columns, extend

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.jvm


def parsed() -> list[str]:
    """Texts that are kept."""
    return [] if columns_module._parsed is None else list(columns_module._parsed.columns)


def test_a_text_is_parsed_once_whoever_asks(spark: SparkSession) -> None:
    """The very same column for all threads."""
    texts = [f"id + {number} AS later_{number}" for number in range(40)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: columns(*texts), range(8)))
    assert all(one is other for other_columns in found[1:] for one, other in zip(found[0], other_columns, strict=True))
    assert set(texts) <= set(parsed())


def test_plans_share_columns(spark: SparkSession) -> None:
    """Also two steps of one plan, a plan joined with itself, and the two halves of a union."""
    twice = extend(extend(spark.range(3), {"next": "id + 1"}), {"after": "id + 2"})
    again = extend(spark.range(3), {"next": "id + 1"})
    joined = twice.join(again, "next").select("next", "after")
    assert sorted(tuple(row) for row in joined.collect()) == [(1, 2), (2, 3), (3, 4)]
    both = aggregate(twice.select("next").unionByName(again.select("next")), ["next"], {"number": "count(*)"})
    assert sorted(tuple(row) for row in both.collect()) == [(1, 2), (2, 2), (3, 2)]
    changed = extend(spark.range(1).select(*columns("id + 1 AS id")).select(*columns("id + 1 AS id")), {"so": "id"})
    assert [tuple(row) for row in changed.collect()] == [(2, 2)]


def test_what_is_no_sql_is_said_by_spark_each_time(spark: SparkSession) -> None:
    """A failure is not kept, or an interrupted cell would spoil the session."""
    from pyspark.errors import ParseException

    for _ in range(2):
        with pytest.raises(ParseException):
            columns("1 +")
        assert "1 +" not in parsed()


def test_instants_do_not_pile_up(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that is kept for days has seen many windows."""
    monkeypatch.setattr(columns_module, "_MOST", 10)
    for number in range(1_000, 1_050):
        columns(f"id > {number}")
    assert len(parsed()) <= 10
