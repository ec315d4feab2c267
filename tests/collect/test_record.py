"""Rules of the recorder: what goes wrong while it records is a fact in the recording and does not end it."""

from __future__ import annotations

import errno
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.collect.answers import done
from tests.collect.test_samples_from_prometheus import LAG, body
from tests.collect.test_scrape import GARBAGE, PAGE
from tests.fleet import END
from tests.servers import Script, scripted
from workbench.collect import capture_in_memory
from workbench.collect import recorder as recording
from workbench.collect.capture import read_capture, write_parquet
from workbench.collect.recorder import Recorder
from workbench.errors import NoSeriesError, OutputError, SourceUnreachableError, UnknownGroupError
from workbench.kafka import read_commits_for_snapshot as kafka_commits
from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.kafka.offset_fetch import Commits
from workbench.samples import GROUPS_SCHEMA, concat_series
from workbench.settings import Cluster
from workbench.thresholds import Thresholds
from workbench.window import Window


class Admin:
    """An admin client of a cluster with some groups, without members, that have committed 1 of 5 records."""

    def __init__(self, *groups: str) -> None:
        self.groups = set(groups)

    def poll(self, _seconds: float) -> int:
        """No error."""
        return 0

    def list_groups(self, timeout: float) -> list[Any]:
        return []  # no group of another kind

    def list_consumer_groups(self, **_: Any) -> Future[Any]:
        return done(SimpleNamespace(valid=[SimpleNamespace(group_id=name) for name in self.groups], errors=[]))

    def describe_consumer_groups(self, names: list[str], **_: Any) -> dict[str, Future[Any]]:
        return {name: self._of(name) for name in names}

    def _of(self, name: str) -> Future[Any]:
        if name not in self.groups:
            return done(KafkaException(KafkaError(KafkaError.GROUP_ID_NOT_FOUND)))
        state = SimpleNamespace(name="EMPTY")
        return done(SimpleNamespace(members=[], state=state, type=None, coordinator=None))

    def list_topics(self, topic: str | None = None, **_: Any) -> Any:
        part = SimpleNamespace(leader=1, replicas=[1], isrs=[1])
        return SimpleNamespace(topics={topic or "t": SimpleNamespace(error=None, partitions={0: part})})

    def list_offsets(self, asked: dict[Any, Any], **_: Any) -> dict[Any, Future[Any]]:
        return {part: done(SimpleNamespace(offset=5)) for part in asked}


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    """A cluster with the groups a and b."""
    found = Admin("a", "b")
    monkeypatch.setattr(KafkaCluster, "connect", lambda self: setattr(self, "_admin", found) or found)

    def told(_servers: str, _properties: Any, groups: list[str], *_: Any, **__: Any) -> Commits:
        return Commits(offsets={(name, "t", 0): 1 for name in groups})

    monkeypatch.setattr(kafka_commits, "read_commits", told)
    return found


def recorder(folder: Path, *pages: str, groups: list[str] | None = None) -> Recorder:
    """One that has Kafka and some pages to look at."""
    cluster = Cluster(name="c", bootstrap="127.0.0.1:1", metrics=list(pages), profiles=["runtime"], timeout_seconds=5)
    return Recorder(cluster, folder, interval_seconds=1, groups=groups)


def test_a_group_that_vanishes_is_named_and_the_others_are_recorded(admin: Admin, tmp_path: Path) -> None:
    """Its last member left and its commits expired; that it is gone is what the recording is for."""
    it = recorder(tmp_path / "a", groups=["a", "b"])
    assert it.round() == []
    admin.groups.remove("a")
    assert it.round() == ["group 'a': the cluster has no such group"]
    assert {name for table in it._samples[1:] for name in table["group"].to_pylist()} == {"b", None}
    admin.groups.clear()
    assert len(it.round()) == 2


def test_a_group_that_was_never_there_is_a_wrong_name(admin: Admin, tmp_path: Path) -> None:
    """Told at the beginning, with names that are like it."""
    with pytest.raises(UnknownGroupError, match="'bb'") as caught:
        recorder(tmp_path / "a", groups=["a", "bb"]).round()
    assert "'b'" in (caught.value.hint or "")


def test_garbage_in_the_middle_of_a_recording_ends_nothing(admin: Admin, tmp_path: Path) -> None:
    """A page that turns into something else for a while is missing for that while, and the capture says so."""
    with scripted(Script(body=PAGE)) as server:
        it = recorder(tmp_path / "a", server.url)
        assert it.round() == []
        it._begin([])
        for server.body in GARBAGE:
            [missing] = it.round()
            assert "not a metrics page" in missing
        server.body = PAGE
        assert it.round() == []
        it.flush()
        it.close()
    [text] = read_capture(tmp_path / "a").info.incomplete
    assert f"({len(GARBAGE)} of {len(GARBAGE) + 2} rounds)" in text


def test_a_page_that_tells_the_last_value_of_a_dead_exporter_records_it_once(tmp_path: Path) -> None:
    """At the time that the page says: for the rest of the recording, the group is not measured."""
    measured = datetime.now(UTC) - timedelta(seconds=200)
    page = PAGE.decode() + (
        'wb_consumer_lag_messages{group="dead",topic="t",partition="0",member="d"} 0 '
        f"{round(measured.timestamp() * 1000)}\n"
    )
    with scripted(Script(body=page.encode())) as server:
        cluster = Cluster(name="c", metrics=[server.url], profiles=["runtime"], timeout_seconds=5)
        it = Recorder(cluster, tmp_path / "a", interval_seconds=1)
        assert [it.round() for _ in range(3)] == [[], [], []]
    rows = [row for table in it._samples for row in table.to_pylist() if row["signal"] == "consumer_lag"]
    assert [abs(row["ts"] - measured) < timedelta(seconds=1) for row in rows if row["group"] == "dead"] == [True]
    assert len([row for row in rows if row["group"] == "g"]) == 3


@pytest.mark.parametrize(
    ("commits", "counted"),
    [
        # A job begins again, and tells no commit before its next checkpoint: what it reads until then is not committed.
        (["90", "-1", "-1", "120"], [90.0, 120.0]),
        (["90", "-1", "NaN", None], [90.0]),
        # One that commits nothing.
        (["-1", "-1", "-1", "-1"], [101.0, 111.0, 121.0, 131.0]),
        ([None] * 4, [101.0, 111.0, 121.0, 131.0]),
    ],
)
def test_what_a_job_has_read_is_its_commit_only_if_no_round_has_one(
    tmp_path: Path, commits: list[str | None], counted: list[float]
) -> None:
    """Also in a round in which it tells none; else its lag would be 0 while it gets nothing through a checkpoint."""
    name = "flink_taskmanager_job_task_operator_KafkaSourceReader_topic_partition"
    labels = '{job_name="j",topic="t",partition="0"}'
    with scripted(Script(body=b"")) as server:
        cluster = Cluster(name="c", metrics=[server.url], profiles=["flink"], members={"j": "pay"}, timeout_seconds=5)
        it = Recorder(cluster, tmp_path / "a", interval_seconds=1)
        for at, commit in enumerate(commits):
            page = f"{name}_currentOffset{labels} {100 + 10 * at}\n"
            page += f"{name}_committedOffset{labels} {commit}\n" if commit is not None else ""
            server.body = page.encode()
            assert it.round() == []
    rows = [row for table in it._samples for row in table.to_pylist() if row["signal"] == "committed_offset"]
    assert [row["value"] for row in rows if row["value"] is not None] == counted


def test_a_recording_of_series_that_come_later_than_it_is_long_says_why_it_tells_nothing(tmp_path: Path) -> None:
    """The window has no value of the page; once there is one, nothing is said."""
    page = 'wb_consumer_lag_messages{{group="g",topic="t",partition="0",member="m"}} 0 {at}\n'
    with scripted(Script(body=b"")) as server:
        cluster = Cluster(name="c", metrics=[server.url], profiles=["runtime"], timeout_seconds=5)
        it = Recorder(cluster, tmp_path / "a", interval_seconds=1)
        for minutes, told in ((5, ["its series come 5 min late"]), (-0.5, [])):
            at = datetime.now(UTC) - timedelta(minutes=minutes)
            server.body = page.format(at=round(at.timestamp() * 1000)).encode()
            assert it.round() == []
            found = it._info("recording").incomplete
            assert [text.split(": ")[1].split(",")[0] for text in found] == told


def test_nothing_but_garbage_is_no_recording(tmp_path: Path) -> None:
    """The first round says what it has found instead."""
    with scripted(Script(body=GARBAGE[0])) as server:
        cluster = Cluster(name="c", metrics=[server.url], profiles=["runtime"], timeout_seconds=5)
        it = Recorder(cluster, tmp_path / "a", interval_seconds=1)
        missing = it.round()
        with pytest.raises(SourceUnreachableError, match="not a metrics page"):
            it._begin(missing)


def test_a_triage_of_a_group_that_vanished_goes_on_with_what_was_measured(admin: Admin) -> None:
    """Prometheus remembers it, and the capture says that Kafka does not; of a name that nobody knows there is nothing to tell."""
    window = Window.ending(END, length=END - END.replace(hour=11), baseline=END - END.replace(hour=11))
    admin.groups.discard("a")

    def collect(url: str, group: str) -> list[str]:
        cluster = Cluster(name="c", bootstrap="127.0.0.1:1", prometheus=url, profiles=["kafka_exporter"])
        found = capture_in_memory.collect(cluster, window, thresholds=Thresholds(), groups=[group])
        assert found.samples.num_rows
        return found.info.incomplete

    with scripted(Script(body=body(({**LAG, "consumergroup": "a"}, [[END.timestamp(), "1"]])))) as server:
        assert collect(server.url, "a") == ["group 'a': the cluster has no such group"]
        server.body = body()
        with pytest.raises(UnknownGroupError, match="'a'"):
            collect(server.url, "a")
        with pytest.raises(NoSeriesError):
            collect(server.url, "b")


def test_a_client_id_that_a_second_group_takes_is_nobodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two groups with librdkafka's default id: what one of them measures must not count for the other, which began first."""
    told: list[dict[str, str]] = []
    monkeypatch.setattr(recording, "scrape", lambda *_, members, **__: told.append(members) or (concat_series([]), []))
    it = recorder(tmp_path / "a")
    rounds = iter([{"a": "rdkafka", "c": "own"}, {"a": "rdkafka", "b": "rdkafka"}, {"b": "rdkafka"}])

    def seen(**_: Any) -> Any:
        at = datetime.now(UTC)
        rows = [{"ts": at, "cluster": "c", "group": name, "client_id": of} for name, of in next(rounds).items()]
        return SimpleNamespace(incomplete=[], series=[], views=pa.Table.from_pylist(rows, GROUPS_SCHEMA))

    it._asked = SimpleNamespace(next=seen)  # type: ignore[assignment]
    for _ in range(3):
        it.round()
    assert told == [{"rdkafka": "a", "own": "c"}, {"own": "c"}, {"own": "c", "rdkafka": "b"}]


def test_a_clock_that_is_set_back_ends_no_recording(admin: Admin, tmp_path: Path) -> None:
    """What was measured is written; the window lasts as long as the recording did."""
    it = recorder(tmp_path / "a")
    assert it.round() == []
    it._begin([])
    it._started += timedelta(hours=1)  # as if the clock had been an hour ahead, until now
    it.flush()
    assert it.close().window.start >= it._started


def test_a_recording_that_cannot_be_written_is_an_error_of_its_own(
    admin: Admin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in the way, or a full disk: no traceback; what was written before can be read, and nothing is there twice."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match=r"The recording .*/file/rec cannot be written: Not a directory"):
        recorder(tmp_path / "file" / "rec").run(Event(), seconds=0)
    written: list[str] = []

    def write(path: Path, table: pa.Table) -> None:
        written.append(path.name)
        if written.count("groups-000002.parquet") == 1:  # the disk is full, and then has room again
            raise OSError(errno.ENOSPC, "No space left on device")
        write_parquet(path, table)

    monkeypatch.setattr(recording, "write_parquet", write)
    monkeypatch.setattr(recording, "_FLUSH_SECONDS", 0.0)
    one = recorder(tmp_path / "rec")
    with pytest.raises(OutputError, match="No space left on device"):
        one.run(Event(), seconds=60)
    found = read_capture(tmp_path / "rec")
    assert found.info.state == "recording"
    assert found.samples.num_rows == one.total_samples > 0
