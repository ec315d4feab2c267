"""Commits where an exporter tells lags and ends of logs alone, as KMinion does: it makes its lag of the end that it shows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from workbench.collect.source_join import with_derived
from workbench.samples import SampleBatch, concat_series

STAMPS = np.arange(0, 600, 30) * 1_000_000
ENDS, LAG = 1000.0 + 40 * np.arange(20), 5.0 * np.arange(20)


def derived(**other: Any) -> dict[int, list[float]]:
    """The commits by partition; `other`: how the page differs from that of KMinion."""
    page, ends = SampleBatch("c", "kminion"), SampleBatch("c", other.get("ends_from", "kminion"))
    member = {"member": other["member"]} if "member" in other else {}
    for partition in other.get("partitions", (0, 1)):
        place = {"topic": "t", "partition": partition}
        page.add("consumer_lag", {**place, **member, "group": "g"}, STAMPS, LAG + partition)
        ends.add("log_end_offset", place, STAMPS + other.get("later", 0), ENDS)
        if other.get("commits"):
            page.add("committed_offset", {**place, "group": "g"}, STAMPS, ENDS - 1)
    found = with_derived(concat_series([page.to_series(), ends.to_series()])).to_samples().to_pylist()
    told: dict[int, list[float]] = {}
    for row in sorted(found, key=lambda it: it["ts"]):
        if row["signal"] == "committed_offset":
            told.setdefault(row["partition"], []).append(row["value"])
    return told


def test_a_commit_is_the_end_without_the_lag() -> None:
    """At each scrape."""
    assert derived() == {it: (ENDS - LAG - it).tolist() for it in (0, 1)}


@pytest.mark.parametrize(
    "other",
    [
        {"ends_from": "kafka_exporter"},
        {"later": 7_000_000},
        {"member": "client-1"},
        {"partitions": (0,)},
        {"partitions": ()},
    ],
    ids=["another exporter's end", "another moment's end", "a client's own lag", "a whole topic", "nothing"],
)
def test_nothing_is_derived_of_two_that_need_not_belong_together(other: dict[str, Any]) -> None:
    """Nor of a client, whose lag is behind its position, or of a topic as a whole, whose end is that of all partitions."""
    assert derived(**other) == {}


def test_what_is_exported_stands() -> None:
    """Whatever the lag says."""
    assert derived(commits=True) == {it: (ENDS - 1).tolist() for it in (0, 1)}
