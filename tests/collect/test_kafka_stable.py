"""Rules of the last stable offset: asked for partitions that stand still, of a window that ends now."""

from __future__ import annotations

from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow.compute as pc
import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException

from tests.collect.answers import done
from tests.collect.test_samples_from_prometheus import body
from tests.servers import Script, scripted
from workbench.collect import capture_in_memory
from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.kafka.last_stable_offsets import StandingStill, standing
from workbench.queues.snapshot_views import GroupView, Partition, Snapshot, log_samples
from workbench.samples import SampleBatch, SeriesTable
from workbench.settings import Cluster
from workbench.thresholds import Thresholds
from workbench.window import Window


class Admin:
    """A cluster with one group, and a transaction that is open from offset 7 on in every partition."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.asked: list[Any] = []
        self.failure = failure

    def poll(self, _seconds: float) -> int:
        """No error."""
        return 0

    def list_topics(self, topic: str | None = None, **_: Any) -> Any:
        part = SimpleNamespace(leader=1)
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=dict.fromkeys(range(9), part))})

    def list_offsets(self, asked: dict[Any, Any], **options: Any) -> dict[Any, Future[Any]]:
        if options.get("isolation_level") is IsolationLevel.READ_COMMITTED:
            self.asked += [(part.topic, part.partition) for part in asked]
        return {part: done(self.failure or SimpleNamespace(offset=7)) for part in asked}


def series(**lines: list[float]) -> SeriesTable:
    """Commits and ends, by "commit_0", "end_0" and so on, a second apart."""
    batch = SampleBatch("c", "kafka_exporter")
    for name, values in lines.items():
        what, partition = name.split("_")
        stamps = [(at + 1) * 1_000_000 for at in range(len(values))]
        log = {"topic": "t", "partition": int(partition)}
        if what == "commit":
            batch.add("committed_offset", {"group": "g", **log}, stamps, values)
        else:
            batch.add("log_end_offset", log, stamps, values)
    return batch.to_series()


def test_a_partition_stands_still_whose_last_commits_are_the_same_below_the_end() -> None:
    """Not one that moves, is at the end, has few samples, or no end."""
    found = standing(
        series(
            commit_0=[1, 7, 7, 7], end_0=[9, 9, 9, 12],
            commit_1=[7, 7, 7, 8], end_1=[9, 9, 9, 12],
            commit_2=[9, 9, 9, 9], end_2=[9, 9, 9, 9],
            commit_3=[7, 7], end_3=[9, 12],
            commit_4=[7, 7, 7],
            commit_5=[7, 7, 7, float("nan")], end_5=[9, 9, 12, 12],
        )
    )  # fmt: skip
    assert found == [("t", 0), ("t", 5)]


def test_one_that_two_members_have_reported_is_one_partition() -> None:
    """It moved from one to the other; the last samples count, whoever they are from."""
    batch = SampleBatch("c", "runtime")
    for member, stamps, value in (("b", [4, 5, 6], 7), ("a", [1, 2, 3], 5)):
        labels = {"group": "g", "topic": "t", "partition": 0, "member": member}
        batch.add("committed_offset", labels, [at * 1_000_000 for at in stamps], [value] * 3)
    batch.add("log_end_offset", {"topic": "t", "partition": 0}, [6_000_000], [9])
    assert standing(batch.to_series()) == [("t", 0)]


def test_from_snapshot_to_snapshot_the_third_with_the_same_commit_counts() -> None:
    """And one that moves begins anew."""

    def snapshot(committed: int | None, end: int = 12) -> Snapshot:
        return Snapshot(taken_at=0.0, groups=(), commits={("g", "t", 0): committed}, ends={("t", 0): end}, starts={})

    still = StandingStill()
    told = [bool(still.of(snapshot(offset))) for offset in (7, 7, 7, 7, 8, 8, 8, None, 8)]
    assert told == [False, False, True, True, False, False, True, False, False]
    assert still.of(snapshot(8)) == still.of(snapshot(12)) == []


def test_nothing_is_asked_while_everything_moves() -> None:
    """No request costs nothing."""
    kafka = KafkaCluster("broker:9092", _admin=Admin())
    assert kafka.last_stable([], []) == {}
    assert kafka.requests == 0


def test_the_offset_is_read_as_a_consumer_with_read_committed_would() -> None:
    """One request for all; the sample is the log's, of no group."""
    admin, missing = Admin(), list[str]()
    kafka = KafkaCluster("broker:9092", _admin=admin)
    found = kafka.last_stable([("t", 0), ("t", 1)], missing)
    assert found == {("t", 0): 7, ("t", 1): 7}
    assert (admin.asked, kafka.requests, missing) == ([("t", 0), ("t", 1)], 2, [])  # metadata, and offsets
    [row, _] = log_samples("last_stable_offset", found, "c", 5.0).to_pylist()
    assert (row["signal"], row["group"], row["topic"], row["value"]) == ("last_stable_offset", None, "t", 7.0)


def test_a_refusal_is_told_once() -> None:
    """Not once for each of a thousand partitions."""
    missing: list[str] = []
    kafka = KafkaCluster("b:1", _admin=Admin(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))))
    assert kafka.last_stable([("t", number) for number in range(9)], missing) == {}
    assert len(missing) == 1
    assert "'t'" in missing[0]


@pytest.mark.parametrize(("ago", "asked"), [(0.0, True), (3600.0, False)])
def test_a_live_triage_asks_and_one_of_an_hour_ago_does_not(
    ago: float, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is open now says nothing of then."""
    requested: list[Partition] = []

    def last_stable(_: KafkaCluster, partitions: list[Partition], _incomplete: list[str]) -> dict[Partition, int]:
        requested.extend(partitions)
        return dict.fromkeys(partitions, 7)

    view = GroupView(group="g", state="stable", protocol="classic", coordinator=1, members=())
    seen = Snapshot(taken_at=0.0, groups=(view,), commits={}, ends={}, starts={})
    monkeypatch.setattr(KafkaCluster, "members", lambda *_args, **_more: seen)
    monkeypatch.setattr(KafkaCluster, "last_stable", last_stable)
    end = datetime.now(UTC) - timedelta(seconds=ago)
    window = Window.ending(end, length=timedelta(minutes=5), baseline=timedelta(minutes=5))
    times = [end.timestamp() - back for back in (90, 60, 30)]
    place = {"topic": "t", "partition": "0"}
    answer = body(
        ({"__name__": "kafka_consumergroup_lag", "consumergroup": "g", **place}, [[at, "5"] for at in times]),
        (
            {"__name__": "kafka_consumergroup_current_offset", "consumergroup": "g", **place},
            [[at, "7"] for at in times],
        ),
        ({"__name__": "kafka_topic_partition_current_offset", **place}, [[at, "12"] for at in times]),
    )
    with scripted(Script(body=answer)) as server:
        cluster = Cluster(name="c", bootstrap="b:1", prometheus=server.url, profiles=["kafka_exporter"])
        found = capture_in_memory.collect(cluster, window, thresholds=Thresholds(), groups=["g"])
    rows = found.samples.filter(pc.equal(found.samples["signal"], "last_stable_offset")).to_pylist()
    assert requested == ([("t", 0)] if asked else [])
    assert [(row["ts"], row["value"]) for row in rows] == ([(window.end, 7.0)] if asked else [])
