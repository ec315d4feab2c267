"""Commits where an exporter tells lags and ends of logs alone, as KMinion does: it makes its lag of the end that it shows. And ends."""

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


def ends_of(groups: dict[str, float], *, later: int = 0, partitions: tuple[int, ...] = (0, 1), **label: Any) -> Any:
    """The ends by partition where groups with these lags have commits, and no exporter shows an end; `label`: of the lags."""
    page = SampleBatch("c", "ours")
    for partition in partitions:
        for group, lag in groups.items():
            place = {"topic": "t", "partition": partition, "group": group}
            page.add("consumer_lag", {**place, **label}, STAMPS + later, np.full(20, lag))
            page.add("committed_offset", place, STAMPS, ENDS - lag)
    told: dict[int, list[float]] = {}
    for row in sorted(with_derived(page.to_series()).to_samples().to_pylist(), key=lambda it: it["ts"]):
        if row["signal"] == "log_end_offset":
            told.setdefault(row["partition"], []).append(row["value"])
    return told


def test_an_end_is_the_commit_and_the_lag() -> None:
    """At each scrape, once for all groups of a topic."""
    assert ends_of({"g": 40.0, "h": 7.0}) == {0: ENDS.tolist(), 1: ENDS.tolist()}


def test_a_lag_that_is_not_known_makes_no_end() -> None:
    """Some exporters say -1."""
    assert ends_of({"g": -1.0}) == {}


@pytest.mark.parametrize(
    "other", [{"later": 7_000_000}, {"member": "client-1"}, {"partitions": (0,)}], ids=["other", "client", "whole"]
)
def test_no_end_is_derived_of_two_that_need_not_belong_together(other: dict[str, Any]) -> None:
    """Of another moment, a client's own lag, or a topic as a whole."""
    assert ends_of({"g": 40.0}, **other) == {}


def test_an_end_that_is_exported_stands() -> None:
    """For all partitions of the topic: what an exporter leaves out it may have a reason for."""
    page, ends = SampleBatch("c", "ours"), SampleBatch("c", "kafka_exporter")
    for partition in (0, 1):
        place = {"topic": "t", "partition": partition, "group": "g"}
        page.add("consumer_lag", place, STAMPS, LAG)
        page.add("committed_offset", place, STAMPS, ENDS - LAG)
    ends.add("log_end_offset", {"topic": "t", "partition": 0}, STAMPS, ENDS + 1)
    found = with_derived(concat_series([page.to_series(), ends.to_series()])).to_samples().to_pylist()
    assert {row["source"] for row in found if row["signal"] == "log_end_offset"} == {"kafka_exporter"}


def test_lags_without_a_group_or_a_topic_stand_beside_those_with_one() -> None:
    """Somebody's rule may drop a label: the ends are those of the whole names, and nothing fails."""
    page = SampleBatch("c", "ours")
    for labels in ({"group": "g", "topic": "t"}, {"topic": "t"}, {"group": "g"}, {}):
        for partition in (0, 1):
            page.add("consumer_lag", {**labels, "partition": partition}, STAMPS, LAG)
            page.add("committed_offset", {**labels, "partition": partition}, STAMPS, ENDS - LAG)
    rows = with_derived(page.to_series()).to_samples().to_pylist()
    ends = {(it["topic"], it["partition"]) for it in rows if it["signal"] == "log_end_offset"}
    assert ends == {(topic, partition) for topic in ("t", None) for partition in (0, 1)}
