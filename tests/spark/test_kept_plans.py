"""Plans that are made once, and filled with other rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from workbench.spark import plan_templates
from workbench.spark.plan_templates import begin_anew, filled, share

pytestmark = pytest.mark.jvm


@pytest.fixture(autouse=True)
def _alone(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of other tests' plans, nor they ours."""
    monkeypatch.setattr(plan_templates, "_kept", None)


class Query:
    """Sums by name, of rows and of their neighbours; `made` says how often it was planned."""

    def __init__(self, more: int = 0) -> None:
        self.made, self.more = 0, more

    def __call__(self, frame: Any) -> Any:
        self.made += 1
        both = frame.unionByName(frame.where("value > 1"))
        return both.groupBy("name").agg({"value": "sum"}).selectExpr("name", f"`sum(value)` + {self.more} AS total")

    def of(self, spark: Any, values: list[int], *, name: str = "sums", kind: Any = None) -> dict[str, int]:
        """Its answer for rows of these values."""
        names = pa.array([f"n{it % 2}" for it in values], pa.string())
        rows = pa.table({"name": names, "value": pa.array(values, kind or pa.int64())})
        return {it["name"]: it["total"] for it in filled(spark.createDataFrame(rows), name, self).collect()}


def test_it_is_planned_once_and_has_the_rows_of_the_day(spark: Any) -> None:
    """Also where there are none."""
    query = Query()
    assert query.of(spark, [1, 2, 3]) == {"n1": 7, "n0": 4}
    assert query.of(spark, [4]) == {"n0": 8}
    assert query.of(spark, []) == {}
    assert query.of(spark, [5, 7]) == {"n1": 24}
    assert query.made == 1


def test_another_name_or_another_column_is_another_plan(spark: Any) -> None:
    """What a query depends on is in its name, and a plan fits only rows of its columns."""
    one, two = Query(), Query(more=100)
    assert one.of(spark, [1]) == {"n1": 1}
    assert two.of(spark, [1], name="sums + 100") == {"n1": 101}
    assert one.of(spark, [1], kind=pa.float64()) == {"n1": 1.0}
    assert (one.made, two.made) == (2, 1)


def test_a_limit_that_the_first_rows_did_not_reach_is_one_for_later_rows(spark: Any) -> None:
    """The optimizer takes a limit out where it sees fewer rows, which is true of those rows alone."""

    def first_three(frame: Any) -> Any:
        return frame.orderBy("value").limit(3).select("value")

    for values, kept in (([2, 1], [1, 2]), ([5, 4, 3, 2, 1], [1, 2, 3]), ([], [])):
        rows = spark.createDataFrame(pa.table({"value": pa.array(values, pa.int64())}))
        assert [it["value"] for it in filled(rows, "three", first_three).collect()] == kept


def test_a_plan_that_reads_something_else_is_made_anew(spark: Any) -> None:
    """Rows of another frame would be taken for those of the day."""
    other = spark.createDataFrame(pa.table({"name": ["n1"], "more": [10]}))
    made = []

    def joined(frame: Any) -> Any:
        made.append(1)
        return frame.join(other, "name").selectExpr("name", "value + more AS total")

    for value, total in ((1, 11), (3, 13)):
        rows = spark.createDataFrame(pa.table({"name": ["n1"], "value": [value]}))
        assert [it["total"] for it in filled(rows, "joined", joined).collect()] == [total]
    assert len(made) == 2


def test_the_next_process_finds_it(spark: Any, tmp_path: Path) -> None:
    """Unless other code has made it; what cannot be read is made anew."""
    folder = tmp_path / "plans"
    share(folder)
    first = Query()
    assert first.of(spark, [1, 2]) == {"n1": 1, "n0": 4}
    begin_anew()
    again = Query()
    assert again.of(spark, [3]) == {"n1": 6}
    assert (first.made, again.made) == (1, 0)
    [file] = folder.iterdir()
    file.write_bytes(b"torn" + file.read_bytes())
    begin_anew()
    assert again.of(spark, [3]) == {"n1": 6}
    assert again.made == 1


def test_plans_of_other_code_are_removed(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the first one of this code that is written."""
    share(tmp_path)
    Query().of(spark, [1])
    former = set(tmp_path.iterdir())
    monkeypatch.setattr(plan_templates, "_code", lambda: "other")
    begin_anew()
    query = Query()
    assert query.of(spark, [1]) == {"n1": 1} and query.made == 1
    assert len(former) == 1 and not former & set(tmp_path.iterdir())
    assert len(list(tmp_path.iterdir())) == 1
