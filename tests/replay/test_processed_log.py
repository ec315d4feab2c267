"""Logs of processed records, as applications write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from workbench.errors import UsageError
from workbench.logs import record_counts

pytestmark = pytest.mark.jvm

GOOD = '{"topic": "orders", "partition": 0, "offset": 7}\n'


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("cut.jsonl", GOOD + '{"topic": "orders", "parti', "1 line of "),
        ("texts.jsonl", GOOD + GOOD.replace("7", '"seven"') + GOOD.replace("7", "7.5"), "2 lines of "),
        ("rows.csv", "topic,partition,offset\norders,0,7\norders,0,\norders,zero,8\n", "2 lines of "),
    ],
)
def test_lines_that_cannot_be_read_are_no_missing_records(
    spark: SparkSession, tmp_path: Path, name: str, text: str, words: str
) -> None:
    """Their records were processed, perhaps: nobody may say that they were not."""
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UsageError, match=words):
        record_counts.refuse_unreadable(record_counts.read_processed(spark, path), path)


@pytest.mark.parametrize(
    ("name", "text"), [("good.jsonl", GOOD + "\n" + GOOD), ("good.csv", "offset,topic,partition\n7,orders,0\n")]
)
def test_good_ones_are_read(spark: SparkSession, tmp_path: Path, name: str, text: str) -> None:
    """Empty lines and the order of columns do not matter."""
    path = tmp_path / name
    path.write_text(text)
    frame = record_counts.read_processed(spark, path)
    record_counts.refuse_unreadable(frame, path)
    assert {(row["topic"], row["partition"], row["offset"]) for row in frame.collect()} == {("orders", 0, 7)}
