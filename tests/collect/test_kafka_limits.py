"""What quotas let a group read: the request for sizes, who counts as limited, and silence where something is not known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.collect.test_kafka_quotas import answer_of, entry
from tests.collect.test_samples_from_prometheus import body
from tests.collect.wire_broker import WireBroker, int16, int32, int64
from tests.servers import Script, scripted
from workbench.collect import capture_in_memory, recorder
from workbench.kafka import kafka_observer
from workbench.kafka import messages_within_quota as kafka_limits
from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.kafka.messages_within_quota import parse_log_dirs, read_limits, samples_of
from workbench.kafka.wire import WireAnswer, WireError, array, text
from workbench.queues.snapshot_views import GroupView, Member, Partition, Snapshot, views_table
from workbench.samples import GROUPS_SCHEMA
from workbench.settings import Cluster
from workbench.thresholds import Thresholds
from workbench.window import Window

QUOTAS, LOG_DIRS = 48, 35


def sizes(parts: Mapping[Partition, int], *, version: int = 4, moved: Mapping[Partition, int] | None = None) -> bytes:
    """An answer to DescribeLogDirs; `moved` are copies that a broker is still making."""

    def one(number: int, size: int, is_future: bool) -> bytes:
        return int32(number) + int64(size, 0) + bytes([is_future]) + b"\0"

    def folder(of: Mapping[Partition, int], is_future: bool) -> bytes:
        topics = array(
            text(topic) + array([one(number, size, is_future)]) + b"\0" for (topic, number), size in of.items()
        )
        return int16(0) + text("/data") + topics + (int64(1, 1) if version >= 4 else b"") + b"\0"

    folders = array([folder(parts, False), folder(moved or {}, True)])
    return int32(0) + (int16(0) if version >= 3 else b"") + folders + b"\0"


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_sizes_of_each_version(version: int) -> None:
    """A copy that is being moved to another disk is not the log."""
    data = sizes({("t", 0): 500, ("t", 3): 0}, version=version, moved={("t", 0): 7})
    assert parse_log_dirs(version, WireAnswer(data)) == {("t", 0): 500, ("t", 3): 0}


@given(st.integers(2, 4), st.binary(max_size=60))
def test_a_broken_answer_is_an_error(version: int, data: bytes) -> None:
    """Of the wire, and no other."""
    try:
        parse_log_dirs(version, WireAnswer(data))
    except WireError:
        return


def test_a_refusal_is_an_error() -> None:
    """Not a disk without partitions."""
    with pytest.raises(WireError, match="error 31"):
        parse_log_dirs(3, WireAnswer(int32(0) + int16(31) + array([]) + b"\0"))


Made = Callable[..., dict[str, float]]


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Made:
    """What is found with one broker that leads everything, quotas, 1,000 records in each partition, and so many bytes."""

    def made(
        *quotas: bytes,
        clients: Sequence[str] = ("a", "b"),
        bytes_each: int = 50_000,
        records: int = 1_000,
        code: int = 0,
        leaders: int = 1,
    ) -> dict[str, float]:
        parts = [("t", 0), ("t", 1)]
        monkeypatch.setattr(kafka_limits, "topics_of", lambda *_: {})
        monkeypatch.setattr(kafka_limits, "leader_of", lambda _, part: 1 + part[1] % leaders)
        ends, starts = dict.fromkeys(parts, 5_000 + records), dict.fromkeys(parts, 5_000)
        monkeypatch.setattr(kafka_limits, "offsets_of", lambda *_: [ends, starts])
        monkeypatch.setattr(
            kafka_limits, "read", lambda kafka, work: work(SimpleNamespace(kafka=kafka, metadata_seconds=1.0))
        )
        people = tuple(
            Member(member_id=f"{name}-1", client_id=name, host="/h", partitions=(("t", number),))
            for number, name in enumerate(clients)
        )
        view = GroupView(group="g", state="stable", protocol="classic", coordinator=1, members=people)
        with WireBroker() as broker:
            broker.brokers = [(number + 1, "127.0.0.1", broker.port) for number in range(leaders)]
            broker.versions |= {QUOTAS: (0, 1), LOG_DIRS: (1, 4)}
            broker.answers = {
                QUOTAS: answer_of(*quotas, code=code),
                LOG_DIRS: sizes(dict.fromkeys(parts, bytes_each)),
            }
            found = read_limits(KafkaCluster(broker.address), views_table([view], "c", 0.0))
            made.asked = [key for key, _, _ in broker.asked]  # type: ignore[attr-defined]
        return found

    return made


def client(name: str | None, rate: float) -> bytes:
    """A quota of a client id; None: of all that have none."""
    return entry({"client-id": name}, {"consumer_byte_rate": rate})


def test_bytes_become_messages_by_the_mean_size_of_a_record(limits: Made) -> None:
    """50 bytes each; two clients with 1,000 bytes/s each."""
    assert limits(client("a", 1_000.0), client("b", 1_000.0)) == {"g": pytest.approx(40.0)}


def test_a_limit_is_of_each_broker(limits: Made) -> None:
    """Two lead its partitions."""
    assert limits(client(None, 1_000.0), leaders=2) == {"g": pytest.approx(80.0)}


def test_one_request_where_nothing_is_limited(limits: Made) -> None:
    """Versions and quotas; no size is asked for."""
    assert limits(entry({"user": "svc"}, {"producer_byte_rate": 5.0})) == {}
    assert limits.asked == [18, QUOTAS]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "known",
    [
        {"clients": ("a", "free")},  # one of its members has no limit
        {"records": 49},  # a mean of few, in both partitions
        {"bytes_each": 0},
        {"code": 31},  # no right to see quotas
        {"clients": ()},
    ],
)
def test_what_is_not_known_is_no_limit(known: dict[str, Any], limits: Made) -> None:
    """And none of it is an error: most clusters have no quotas, and few principals may see them."""
    assert limits(client("a", 1_000.0), client("b", 1_000.0), **known) == {}


def test_nobody_answers() -> None:
    """Nothing is known."""
    assert read_limits(KafkaCluster("127.0.0.1:9"), GROUPS_SCHEMA.empty_table()) == {}


def test_a_sample_of_the_group() -> None:
    """Messages/s, at the time of the look."""
    [row] = samples_of({"g": 40.0}, "c", 5.0).to_pylist()
    assert (row["signal"], row["group"], row["topic"], row["value"]) == ("read_quota", "g", None, 40.0)
    assert pa.types.is_timestamp(samples_of({}, "c", 5.0).schema.field("ts").type)


@pytest.mark.parametrize(("ago", "asked"), [(0.0, True), (3600.0, False)])
def test_a_live_triage_asks_and_one_of_an_hour_ago_does_not(
    ago: float, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quota of now says nothing of then."""
    view = GroupView(group="g", state="stable", protocol="classic", coordinator=1, members=())
    seen = Snapshot(taken_at=0.0, groups=(view,), commits={}, ends={}, starts={})
    monkeypatch.setattr(KafkaCluster, "members", lambda *_args, **_more: seen)
    monkeypatch.setattr(KafkaCluster, "last_stable", lambda *_: {})
    monkeypatch.setattr(
        kafka_observer, "read_limits", lambda _kafka, views: dict.fromkeys(views["group"].to_pylist(), 40.0)
    )
    end = datetime.now(UTC) - timedelta(seconds=ago)
    window = Window.ending(end, length=timedelta(minutes=5), baseline=timedelta(minutes=5))
    lag = {"__name__": "kafka_consumergroup_lag", "consumergroup": "g", "topic": "t", "partition": "0"}
    answer = body((lag, [[end.timestamp() - back, "5"] for back in (90, 60, 30)]))
    with scripted(Script(body=answer)) as server:
        cluster = Cluster(name="c", bootstrap="b:1", prometheus=server.url, profiles=["kafka_exporter"])
        found = capture_in_memory.collect(cluster, window, thresholds=Thresholds(), groups=["g"])
    rows = found.samples.filter(pc.equal(found.samples["signal"], "read_quota")).to_pylist()
    assert [(row["group"], row["ts"], row["value"]) for row in rows] == ([("g", window.end, 40.0)] if asked else [])


def test_a_recording_asks_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, and not in every round."""
    view = GroupView(group="g", state="stable", protocol="classic", coordinator=1, members=())
    clock = [100.0]

    def snapshot(*_args: object, **_more: object) -> Snapshot:
        return Snapshot(taken_at=clock[0], groups=(view,), commits={("g", "t", 0): 5}, ends={("t", 0): 9}, starts={})

    monkeypatch.setattr(KafkaCluster, "snapshot", snapshot)
    monkeypatch.setattr(KafkaCluster, "last_stable", lambda *_: {})
    asked: list[float] = []
    monkeypatch.setattr(kafka_observer, "read_limits", lambda *_: asked.append(clock[0]) or {"g": 40.0})
    monkeypatch.setattr(kafka_observer, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    kept = recorder.Recorder(Cluster(name="c", bootstrap="b:1", profiles=[]), tmp_path / "r", interval_seconds=1.0)
    counts = []
    for clock[0] in (100.0, 105.0, 114.0, 116.0, 120.0, 140.0):
        before = kept.total_samples
        kept.round()
        counts.append(kept.total_samples - before)
    assert asked == [100.0, 116.0, 140.0]
    assert counts[0] == counts[1] + 1 == counts[3]  # a sample more
