"""What the Kafka source does with answers that a real broker gives too seldom to wait for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from workbench.errors import SourceUnreachableError
from workbench.kafka.runtime import kafka_source as kafka_source
from workbench.kafka.runtime import start_positions as kafka_starts
from workbench.kafka.runtime.kafka_source import KafkaSource
from workbench.runtime import RuntimeConfig, decode_by_header

INSTANT = "2026-11-21T03:00:00+00:00"


class Client:
    """A client whose broker is made up: offsets by time from a list, one answer after the other."""

    def __init__(self, properties: dict[str, Any], **_: Any) -> None:
        self.properties = properties
        self.by_time: list[int | KafkaError] = []
        self.end = 0
        self.commits: list[int] = []
        self.refuses = False
        self.placed: list[TopicPartition] = []
        self.assign_callback: Any = None
        self.revoke_callback: Any = None
        self.messages: list[Any] = []
        self.refuses_seek: int | None = None
        self.silences = 0
        self.asked_seconds: list[float] = []
        self.consumed = 0

    def consume(self, most: int, _timeout: float) -> list[Any]:
        self.consumed += 1
        found, self.messages = self.messages[:most], self.messages[most:]
        return found

    def seek(self, _at: TopicPartition) -> None:
        if self.refuses_seek is not None:
            raise KafkaException(KafkaError(self.refuses_seek))

    def list_topics(self, timeout: float) -> Any:
        self.asked_seconds.append(timeout)
        if len(self.asked_seconds) <= self.silences:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return SimpleNamespace(topics={"t": SimpleNamespace(partitions={0: None})})

    def subscribe(self, _topics: list[str], *, on_assign: Any, on_revoke: Any, **_more: Any) -> None:
        self.assign_callback, self.revoke_callback = on_assign, on_revoke

    def committed(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [TopicPartition(part.topic, part.partition, -1001) for part in partitions]

    def offsets_for_times(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        answer = self.end if partitions[0].offset == OFFSET_END else self.by_time.pop(0)
        if isinstance(answer, KafkaError):
            raise KafkaException(answer)
        return [TopicPartition(part.topic, part.partition, answer) for part in partitions]

    def commit(self, offsets: list[TopicPartition], *, asynchronous: bool) -> list[TopicPartition] | None:
        if self.refuses and not asynchronous:
            raise KafkaException(KafkaError(KafkaError.REBALANCE_IN_PROGRESS))
        self.commits += [part.offset for part in offsets]
        return None if asynchronous else offsets

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self.placed = partitions


class Told:
    """Takes what the source tells."""

    def __init__(self) -> None:
        self.assigned: list[tuple[dict[Any, Any], dict[Any, Any]]] = []

    def on_assigned(self, committed: Any, begin: Any = None, notes: Any = None) -> None:
        self.assigned.append((dict(committed), dict(begin or {})))

    def on_revoked(self, partitions: Any) -> None:
        raise AssertionError(partitions)

    on_lost = on_revoked


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> tuple[KafkaSource, Client, Told]:
    """A source that starts at an instant, before its first assignment."""
    monkeypatch.setattr(kafka_source, "Consumer", Client)
    monkeypatch.setattr(kafka_starts, "_PAUSE_SECONDS", 0.0)
    config = RuntimeConfig.parse(
        {
            "bootstrap": "127.0.0.1:9",
            "group": "g",
            "topics": ["t"],
            "client_id": "test",
            "start_at": INSTANT,
            "kafka": {"auto.offset.reset": "latest"},
        }
    )
    source, told = KafkaSource(config, member="m"), Told()
    client: Any = source._consumer
    source.subscribe(["t"], told)
    return source, client, told


def assign(client: Client) -> None:
    """One partition."""
    client.assign_callback(client, [TopicPartition("t", 0)])


def test_a_start_at_an_instant_never_jumps_to_the_end(made: tuple[KafkaSource, Client, Told]) -> None:
    """Whatever the settings say: records that retention has left are still those of the instant or later. The client
    itself never jumps."""
    assert made[1].properties["auto.offset.reset"] == "error"
    assert made[0]._policy is kafka_starts.Policy.EARLIEST


def test_a_group_is_joined_once_it_is_known_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that cannot read yet holds no partitions; meanwhile the client is heard, and a long answer gets its time."""
    monkeypatch.setattr(kafka_source, "Consumer", Client)
    config = RuntimeConfig.parse(
        {"bootstrap": "127.0.0.1:9", "group": "g", "topics": ["t"], "kafka": {"auto.offset.reset": "latest"}}
    )
    source, told = KafkaSource(config, member="m"), Told()
    client: Any = source._consumer
    client.silences = 4
    source.subscribe(["t"], told)
    for number in range(client.silences):
        assert source.poll(1, 0) == []
        assert (client.assign_callback, client.consumed) == (None, number + 1)
    source.poll(1, 0)
    assert client.assign_callback is not None
    assert client.asked_seconds == [2, 4, 8, 10, 10]


@pytest.mark.parametrize(("given", "used"), [(0, 1000), ("0", 1000), (5000, 5000)])
def test_there_are_always_statistics(monkeypatch: pytest.MonkeyPatch, given: int | str, used: int) -> None:
    """Only they tell that a client has no brokers left: without them, it would read nothing more, for ever."""
    monkeypatch.setattr(kafka_source, "Consumer", Client)
    kafka = {"statistics.interval.ms": given}
    config = RuntimeConfig.parse({"bootstrap": "127.0.0.1:9", "group": "g", "topics": ["t"], "kafka": kafka})
    client: Any = KafkaSource(config, member="m")._consumer
    assert client.properties["statistics.interval.ms"] == used


@pytest.mark.parametrize("joined", [False, True], ids=["before_its_first_assignment", "after_it"])
def test_a_new_client_for_one_without_brokers_begins_where_the_group_was_to_begin(
    monkeypatch: pytest.MonkeyPatch, joined: bool
) -> None:
    """With `latest`, what was there is not read, unless the group has begun: then what has no commit is new to it."""
    monkeypatch.setattr(kafka_source, "Consumer", Client)
    monkeypatch.setattr(Client, "close", lambda _: None, raising=False)
    config = RuntimeConfig.parse(
        {"bootstrap": "127.0.0.1:9", "group": "g", "topics": ["t"], "kafka": {"auto.offset.reset": "latest"}}
    )
    source, told = KafkaSource(config, member="m"), Told()
    source.subscribe(["t"], told)
    source.poll(1, 0)
    client: Any = source._consumer
    client.end = 20
    if joined:
        assign(client)
    source._on_stats('{"age": 1000000, "brokers": {"GroupCoordinator": {"source": "logical"}}}')
    source.rejoin()
    client = source._consumer
    client.end, client.by_time = 30, [10]
    assign(client)
    assert told.assigned[-1] == ({("t", 0): 10 if joined else 30}, {("t", 0): 10 if joined else 30})


@pytest.mark.parametrize(
    ("by_time", "end", "begin"),
    [([7], 9, 7), ([-1, -1], 9, 9), ([-1, 8], 9, 8)],
    ids=["is_there", "nothing_yet", "arrives_meanwhile"],
)
def test_what_arrives_while_the_end_is_asked_for_is_not_skipped(
    made: tuple[KafkaSource, Client, Told], by_time: list[int | KafkaError], end: int, begin: int
) -> None:
    """The end counts only if there is still nothing at the instant after it was told."""
    _, client, told = made
    client.by_time, client.end = by_time, end
    assign(client)
    assert [part.offset for part in client.placed] == client.commits == [begin]
    assert told.assigned == [({("t", 0): begin}, {("t", 0): begin})]


def test_a_beginning_that_is_refused_is_told_as_not_committed(made: tuple[KafkaSource, Client, Told]) -> None:
    """So that it is committed with the next commit."""
    _, client, told = made
    client.by_time, client.refuses = [7], True
    assign(client)
    assert [part.offset for part in client.placed] == [7]
    assert told.assigned == [({("t", 0): None}, {("t", 0): 7})]


def test_the_broker_is_asked_again_and_then_the_member_ends(made: tuple[KafkaSource, Client, Told]) -> None:
    """Two failures cost nothing, a third one the start; nothing is placed or committed then."""
    _, client, told = made
    late = KafkaError(KafkaError._TIMED_OUT)
    client.by_time = [late, late, 7]
    assign(client)
    assert client.commits == [7]
    client.commits, client.placed, client.by_time = [], [], [late, late, late]
    with pytest.raises(SourceUnreachableError, match="The start offset of 1 partition is unknown"):
        assign(client)
    assert (client.commits, client.placed, len(told.assigned)) == ([], [], 1)


def test_a_refused_commit_says_nothing_of_another_that_is_under_way(made: tuple[KafkaSource, Client, Told]) -> None:
    """One that waits fails while one that does not is still unanswered: that one is not taken as done."""
    source, client, _ = made
    client.refuses = True
    assert source.commit({("t", 0): 5}, wait=False) is None
    assert source.commit_result() is None
    assert source.commit({("t", 1): 6}, wait=True) != {}
    assert source.commit_result() is None
    source._on_commit(KafkaError(KafkaError.REBALANCE_IN_PROGRESS), [TopicPartition("t", 0, 5)])
    assert ("t", 0) in (source.commit_result() or {})


def test_an_assignment_that_comes_while_it_closes_asks_nothing(made: tuple[KafkaSource, Client, Told]) -> None:
    """The client gives it back; a broker that does not answer any more would hold up the end."""
    source, client, told = made
    client.close = lambda: assign(client)  # type: ignore[attr-defined]
    source.close()
    assert (client.placed, told.assigned) == ([], [])


class Named:
    """A record whose headers have a name that is no UTF-8; asked twice, the real one ends the process (2.16, seen)."""

    def __init__(self) -> None:
        self.asked = False

    def headers(self) -> Any:
        assert not self.asked
        self.asked = True
        raise SystemError("returned a result with an exception set")

    def __getattr__(self, name: str) -> Any:
        values: dict[str, Any] = {
            "topic": "t", "partition": 0, "offset": 7, "key": b"k", "value": b"v", "timestamp": (1, 5), "leader_epoch": 0,
            "error": None,
        }  # fmt: skip
        return lambda: values[name]


def test_headers_that_cannot_be_read_spoil_their_record_only(made: tuple[KafkaSource, Client, Told]) -> None:
    """The record is handed out. Who looks at its headers finds that they cannot be read, so it is undecodable; others may handle it."""
    source, client, _ = made
    client.messages = [Named()]
    [found] = source.poll(1, 0)
    assert (found.offset, found.value) == (7, b"v")
    with pytest.raises(ValueError, match="headers"):
        decode_by_header(found)
    with pytest.raises(ValueError, match="headers"):
        list(found.headers or ())


def test_a_rewind_that_fails_ends_the_member(made: tuple[KafkaSource, Client, Told]) -> None:
    """It must not go on where it is: what lies before would be skipped. While fetching has not begun, the rewind waits."""
    source, client, _ = made
    client.refuses_seek = KafkaError._STATE
    source.rewind([("t", 0)])
    client.messages = [Named()]
    assert source.poll(1, 0) == []
    client.refuses_seek = KafkaError._TIMED_OUT
    with pytest.raises(SourceUnreachableError, match="t-0"):
        source.poll(1, 0)


def test_a_seek_that_fails_after_records_were_left_aside_ends_the_member(
    made: tuple[KafkaSource, Client, Told], caplog: pytest.LogCaptureFixture
) -> None:
    """Its position is behind them: going on there, they would be committed and never handled. Before them, nothing is lost."""
    source, client, _ = made
    source._seeks = {("t", 0): TopicPartition("t", 0, 7, leader_epoch=3)}
    client.refuses_seek = KafkaError._UNKNOWN_PARTITION
    assert source.poll(1, 0) == [] and "cannot seek to 7" in caplog.text
    source._seeks = {("t", 0): TopicPartition("t", 0, 7, leader_epoch=3)}
    client.refuses_seek = KafkaError._STATE
    client.messages = [Named()]
    assert source.poll(1, 0) == []
    client.refuses_seek = KafkaError._UNKNOWN_PARTITION
    with pytest.raises(SourceUnreachableError, match="t-0 cannot be reset to its commit 7"):
        source.poll(1, 0)


def test_a_position_that_is_lost_and_given_up_in_one_poll_is_not_placed(
    made: tuple[KafkaSource, Client, Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next owner finds it; the client would refuse to place a partition that is not its own, and the member would end."""
    source, client, told = made
    lost = Failed(KafkaError._AUTO_OFFSET_RESET)
    revoked: list[Any] = []
    monkeypatch.setattr(told, "on_revoked", revoked.append)

    def consume(most: int, _timeout: float) -> list[Any]:
        if most == 1:
            return [lost]
        client.revoke_callback(client, [TopicPartition("t", 0)])
        return []

    monkeypatch.setattr(client, "consume", consume)
    monkeypatch.setattr(client, "get_watermark_offsets", lambda *_, **__: (20, 30), raising=False)

    def refused(_partitions: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG))

    monkeypatch.setattr(client, "incremental_unassign", refused, raising=False)
    assert source.poll(10, 0) == []
    assert revoked == [[("t", 0)]] and not source._lost


def test_a_log_that_does_not_answer_does_not_hold_up_the_others(
    made: tuple[KafkaSource, Client, Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for once in a while, not in each poll: an answer may take seconds."""
    source, client, told = made
    clock = [100.0]
    monkeypatch.setattr(kafka_source.time, "monotonic", lambda: clock[0])
    asked: list[float] = []
    answers: list[Any] = [KafkaException(KafkaError(KafkaError._TIMED_OUT)), (20, 30)]

    def watermarks(*_: Any, **__: Any) -> tuple[int, int]:
        asked.append(clock[0])
        if isinstance(answer := answers.pop(0), Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    monkeypatch.setattr(client, "get_watermark_offsets", watermarks, raising=False)
    monkeypatch.setattr(client, "incremental_unassign", lambda _: None, raising=False)
    resets: list[Any] = []
    monkeypatch.setattr(told, "on_reset", lambda *it: resets.append(it), raising=False)
    client.messages = [Failed(KafkaError._AUTO_OFFSET_RESET)]
    for _ in range(60):
        source.poll(1, 0)
        clock[0] += 0.5
    assert asked == [100.0, 110.0] and resets == [(("t", 0), 20, 7)]


@pytest.mark.parametrize("rewinds", [False, True], ids=["both_are_lost", "one_is_sent_to_its_beginning"])
def test_a_partition_that_was_just_placed_stays_there_when_another_one_is_placed(
    monkeypatch: pytest.MonkeyPatch, rewinds: bool
) -> None:
    """Without incremental assignments all are placed anew, and the client knows no position before the first record: at its commit,
    which may be further, records would be skipped."""
    monkeypatch.setattr(kafka_source, "Consumer", Client)
    kafka = {"partition.assignment.strategy": "range"}
    config = RuntimeConfig.parse({"bootstrap": "127.0.0.1:9", "group": "g", "topics": ["t"], "kafka": kafka})
    source = KafkaSource(config, member="m")
    client: Any = source._consumer
    told: Any = SimpleNamespace(on_reset=lambda *_: None)
    source.subscribe(["t"], told)
    placed: dict[int, int] = {}
    known = {2: 150}

    def assigns(parts: list[TopicPartition]) -> None:
        placed.update({it.partition: it.offset for it in parts})
        known.clear()

    def positions(_: Any) -> list[TopicPartition]:
        return [TopicPartition("t", number, known.get(number, OFFSET_INVALID)) for number in (0, 1, 2)]

    monkeypatch.setattr(client, "assignment", lambda: None, raising=False)
    monkeypatch.setattr(client, "position", positions, raising=False)
    monkeypatch.setattr(client, "assign", assigns, raising=False)
    monkeypatch.setattr(client, "get_watermark_offsets", lambda *_, **__: (20, 30), raising=False)
    if rewinds:
        source.rewind([("t", 0)])
    lost = [Failed(KafkaError._AUTO_OFFSET_RESET, number) for number in ((1,) if rewinds else (0, 1))]
    client.messages = lost
    source.poll(10, 0)
    assert placed == {0: OFFSET_BEGINNING if rewinds else 20, 1: 20, 2: 150}


class Failed:
    """An error of one partition."""

    def __init__(self, code: int, partition: int = 0) -> None:
        self._error = KafkaError(code, "Fetch offset is out of range")
        self._partition = partition

    def error(self) -> KafkaError:
        return self._error

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return 7


def test_a_commit_that_is_refused_for_a_moment_is_repeated_before_partitions_are_released(
    made: tuple[KafkaSource, Client, Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epoch of a member is stale until its next heartbeat; another refusal stays, and one without end is told in time."""
    source, client, _ = made
    monkeypatch.setattr(kafka_source, "_COMMIT_PAUSE_SECONDS", 0.001)
    refused = iter([KafkaError.STALE_MEMBER_EPOCH, KafkaError.STALE_MEMBER_EPOCH])
    taken: list[list[int]] = []

    def commit(offsets: list[TopicPartition], *, asynchronous: bool) -> list[TopicPartition]:
        assert not asynchronous
        if (code := next(refused, None)) is not None:
            raise KafkaException(KafkaError(code))
        taken.append([part.offset for part in offsets])
        return offsets

    monkeypatch.setattr(client, "commit", commit)
    assert source.commit({("t", 0): 7, ("t", 1): 8}, wait=True) == {}
    assert taken == [[7, 8]]
    refused = iter([KafkaError.ILLEGAL_GENERATION])
    assert "ILLEGAL_GENERATION" in (source.commit({("t", 0): 9}, wait=True) or {})["t", 0]
    assert taken == [[7, 8]]
    monkeypatch.setattr(source, "_patience_seconds", 0.05)
    refused = iter([KafkaError.STALE_MEMBER_EPOCH] * 1_000_000)
    assert "STALE_MEMBER_EPOCH" in (source.commit({("t", 0): 9}, wait=True) or {})["t", 0]
