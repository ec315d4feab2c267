"""Rules of the runtime that only a real broker can show: dead letters, outages, back-pressure in a group, starts at an instant."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psutil
import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from tests.runtime.chaos.conductor import PROTOCOLS
from tests.runtime.test_rest_sink import Service
from tests.waiting import wait_for
from workbench.kafka.runtime.kafka_source import KafkaSource
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import create_topic
from workbench.runtime import (
    Dead,
    Event,
    Failed,
    ProcessorConfig,
    RestSink,
    Retry,
    Runtime,
    RuntimeConfig,
    RuntimeState,
    Skip,
    running,
)

pytestmark = pytest.mark.lab

PARTITIONS = 4
# Old, and yet young enough: the broker deletes whole segments of more than a week, between one step of a test and the next.
AN_HOUR_AGO = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
AN_HOUR_AGO_MS = round(AN_HOUR_AGO.timestamp() * 1000)


class Topic:
    """A topic of its own for each test."""

    _count = 0

    def __init__(self, lab: Lab, partitions: int = PARTITIONS) -> None:
        Topic._count += 1
        self.name, self.bootstrap, self.partitions = f"rt-{Topic._count}", lab.bootstrap, partitions
        create_topic(lab.bootstrap, self.name, partitions)
        self._producer = Producer({"bootstrap.servers": lab.bootstrap, "linger.ms": 2, "log_level": 0})

    def produce(
        self, count: int, *, key: Callable[[int], str] = str, start: int = 0, value: bytes = b"v", **more: Any
    ) -> None:
        """So many records; the type of number n is "x" unless `kind` says otherwise."""
        kind = more.pop("kind", lambda _n: "x")
        for number in range(start, start + count):
            headers = [("event_type", kind(number).encode())]
            self._producer.produce(self.name, value, key(number).encode(), headers=headers, **more)
            if number % 1000 == 0:
                self._producer.poll(0)
        assert self._producer.flush(30) == 0

    def config(self, **changes: Any) -> RuntimeConfig:
        """Settings for a group on this topic."""
        values: dict[str, Any] = {
            "bootstrap": self.bootstrap,
            "group": f"g-{self.name}",
            "topics": [self.name],
            "client_id": "one",
            "commit_interval_seconds": 0.2,
            "shutdown_seconds": 5,
            "kafka": {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500},
        }
        return RuntimeConfig.parse({**values, **changes})

    @contextmanager
    def _asker(self, group: str) -> Iterator[Consumer]:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        try:
            yield consumer
        finally:
            consumer.close()

    def committed(self, group: str | None = None) -> list[int]:
        """Committed offset of each partition."""
        with self._asker(group or f"g-{self.name}") as asker:
            parts = [TopicPartition(self.name, number) for number in range(self.partitions)]
            try:
                return [part.offset for part in asker.committed(parts, timeout=30)]
            except KafkaException:  # a coordinator that was asked for the first time is loading
                return []

    def ends(self) -> list[int]:
        """End of each partition."""
        with self._asker("asker") as asker:
            return [
                asker.get_watermark_offsets(TopicPartition(self.name, number), timeout=30)[1]
                for number in range(self.partitions)
            ]

    def read(self, topic: str, count: int) -> list[Message]:
        """The first `count` records of a topic, whatever reads it."""
        with self._asker("reader") as reader:
            reader.assign([TopicPartition(topic, 0, 0)])
            found: list[Message] = []
            deadline = time.monotonic() + 30
            while len(found) < count and time.monotonic() < deadline:
                found += [item for item in reader.consume(count, 0.5) if item.error() is None]
            return found


def metric(runtime: Runtime, name: str, **labels: str) -> float:
    """Sum of a metric over the series with these labels."""
    return sum(
        sample.value
        for registry in runtime.registries
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def test_a_poison_record_ends_in_the_dead_letter_topic_and_holds_nobody_up(lab: Lab) -> None:
    """With where it came from, how often it was tried and why; an undecodable one and one that nobody handles, too."""
    topic = Topic(lab)
    create_topic(lab.bootstrap, f"{topic.name}-dead", 1)
    done: list[tuple[int, int]] = []

    def handle(event: Event) -> Any:
        if event.key == b"poison":
            raise ValueError("cannot")
        if event.key == b"dead":
            return Dead("600")
        done.append((event.record.partition, event.record.offset))
        return None

    def decode(record: Any) -> Event:
        if record.key == b"garbage":
            raise ValueError("no event")
        kind = "nobody" if record.key == b"orphan" else "x"
        return Event(type=kind, key=record.key, payload=record.value, record=record)

    topic.produce(100)
    for name in ("poison", "dead", "garbage", "orphan"):
        topic.produce(1, key=lambda _n, name=name: name, value=name.encode(), timestamp=AN_HOUR_AGO_MS)
    topic.produce(100, start=100)
    pool = ProcessorConfig(threads=3, max_attempts=3, retry_backoff_seconds=0.05)
    config = topic.config(processors={"x": pool}, dead_letter_topic=f"{topic.name}-dead")
    runtime = Runtime(config, {"x": handle}, decode=decode)
    with running(runtime):
        wait_for(lambda: topic.committed() == topic.ends())
        assert len(done) == len(set(done)) == 200
        letters = {item.value(): dict(item.headers()) for item in topic.read(f"{topic.name}-dead", 4)}
        assert {value: headers["wb_code"] for value, headers in letters.items()} == {
            b"poison": b"retries_exhausted",
            b"dead": b"600",
            b"garbage": b"undecodable",
            b"orphan": b"no_processor",
        }
        assert {value: headers["wb_attempts"] for value, headers in letters.items()} == {
            b"poison": b"3",
            b"dead": b"1",
            b"garbage": b"1",
            b"orphan": b"1",
        }
        for headers in letters.values():
            assert headers["wb_topic"] == topic.name.encode()
            assert headers["wb_timestamp_ms"] == str(AN_HOUR_AGO_MS).encode()
            part, offset = int(headers["wb_partition"]), int(headers["wb_offset"])
            assert (part, offset) not in done
            assert offset < topic.ends()[part]
            assert headers["event_type"] == b"x"
        assert metric(runtime, "wb_dead_letters_total") == 4
        assert metric(runtime, "wb_processed_total", outcome="retry") == 2
        assert metric(runtime, "wb_processed_total", outcome="ok") == 200
        assert set(runtime.task.metrics.sentinels.readings().values()) == {0}


def test_an_offset_is_not_committed_before_its_dead_letter_is_safe(lab: Lab) -> None:
    """While the letters' topic is not there, the frontier waits; once it is, everything goes on."""
    topic = Topic(lab, partitions=1)
    topic.produce(20)
    config = topic.config(dead_letter_topic=f"{topic.name}-later")
    runtime = Runtime(config, {"*": lambda event: Dead("700") if event.record.offset == 5 else None})
    with running(runtime):
        wait_for(lambda: runtime.task.metrics.totals()["processed"] == 20)
        wait_for(lambda: topic.committed() == [5])
        time.sleep(1.5)
        assert topic.committed() == [5]
        create_topic(lab.bootstrap, f"{topic.name}-later", 1)
        wait_for(lambda: topic.committed() == [20], 60)
        [letter] = topic.read(f"{topic.name}-later", 1)
        assert dict(letter.headers())["wb_offset"] == b"5"


def test_a_sink_that_is_out_costs_neither_a_record_nor_the_membership(lab: Lab) -> None:
    """Answers of 500 for longer than the poll interval: no letter, no rebalance, bounded memory; then it catches up."""
    topic = Topic(lab)
    create_topic(lab.bootstrap, f"{topic.name}-dead", 1)
    seconds = float(os.environ.get("OUTAGE_SECONDS", "9"))
    with Service().up() as service:
        config = topic.config(
            default_processor=ProcessorConfig(
                threads=4, queue_capacity=50, max_attempts=5, retry_backoff_max_seconds=0.5
            ),
            dead_letter_topic=f"{topic.name}-dead",
            max_uncommitted_per_partition=500,
            carry_over_per_partition=100,
            kafka={"session.timeout.ms": 6000, "max.poll.interval.ms": 6000, "heartbeat.interval.ms": 500},
        )
        runtime = Runtime(config, {"*": RestSink(service.url, outage_after_seconds=0.5)})
        with running(runtime):
            topic.produce(500)
            wait_for(lambda: topic.committed() == topic.ends())
            members = runtime.task.consumers[0].rebalances
            service.code = 500
            topic.produce(4000, start=500)
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                held = sum(s.tracker.uncommitted for s in runtime.task.consumers[0].partitions.values())
                assert held <= PARTITIONS * (500 + config.max_poll_records)
                assert time.monotonic() - runtime.task.consumers[0].last_poll < 3.0
                time.sleep(0.1)
            assert metric(runtime, "wb_paused_partitions") == PARTITIONS
            service.code = 200
            wait_for(lambda: topic.committed() == topic.ends(), 60)
            assert runtime.task.consumers[0].rebalances == members
            assert runtime.task.metrics.totals() == {"processed": 4500, "dead_letters": 0}
            keys = {headers["Idempotency-Key"] for _, headers, _ in service.requests}
            assert len(keys) == 4500
            wait_for(lambda: metric(runtime, "wb_queue_length_events") == 0)


def test_a_blocked_handler_keeps_its_membership_and_its_bounds(lab: Lab) -> None:
    """Longer than max.poll.interval: polls go on, what is held stays under its cap, memory too; then all is done once."""
    topic = Topic(lab)
    release, done = threading.Event(), []
    config = topic.config(
        default_processor=ProcessorConfig(threads=4, queue_capacity=100),
        carry_over_per_partition=200,
        max_uncommitted_per_partition=1000,
        kafka={"session.timeout.ms": 6000, "max.poll.interval.ms": 6000, "queued.max.messages.kbytes": 4096},
    )

    def handle(event: Event) -> None:
        release.wait(60)
        done.append((event.record.partition, event.record.offset))

    runtime = Runtime(config, {"*": handle})
    topic.produce(20_000, value=b"v" * 2000)
    with running(runtime):
        wait_for(lambda: metric(runtime, "wb_paused_partitions") == PARTITIONS)
        before, joined = psutil.Process().memory_info().rss, runtime.task.consumers[0].rebalances
        gaps = []
        deadline = time.monotonic() + 8
        while time.monotonic() < deadline:
            gaps.append(time.monotonic() - runtime.task.consumers[0].last_poll)
            held = sum(s.tracker.uncommitted for s in runtime.task.consumers[0].partitions.values())
            queued = sum(len(slot.queue) + slot.in_flight for pool in runtime.task.processors for slot in pool.slots)
            carried = sum(s.held_events for s in runtime.task.consumers[0].partitions.values())
            assert queued <= 4 * 100 + 4
            assert held == queued + carried  # received = queued + at work + carried over
            assert carried <= PARTITIONS * (200 + config.max_poll_records)
            time.sleep(0.05)
        assert max(gaps) < 6.0, "max.poll.interval.ms: beyond it, it is no member"
        assert psutil.Process().memory_info().rss - before < 30e6
        assert runtime.task.consumers[0].rebalances == joined
        release.set()
        wait_for(lambda: topic.committed() == topic.ends(), 60)
    assert len(done) == len(set(done)) == 20_000


@pytest.mark.parametrize("slow", ["type", "key"])
def test_what_is_slow_does_not_hold_up_the_others(lab: Lab, slow: str) -> None:
    """A slow type, or a slow key where queues have several threads: the others are all done while it still has nearly all to do."""
    topic = Topic(lab)
    count, slow_count = 3000, 60
    done: list[int] = []
    slow_done: list[int] = []

    def handle(event: Event) -> None:
        if event.type == "slow" or event.key == b"slow":
            time.sleep(0.5)
            slow_done.append(event.record.offset)
        else:
            done.append(event.record.offset)

    pool = ProcessorConfig(threads=4, queues=2, queue_capacity=100)
    config = topic.config(
        processors={"x": pool, "slow": ProcessorConfig(threads=1, queue_capacity=20)}, shutdown_seconds=0
    )
    config = config.model_copy(update={"rebalance_drain_seconds": 0.1})
    every = count // slow_count
    topic.produce(
        count,
        key=lambda n: "slow" if n % every == 0 and slow == "key" else str(n % 997),
        kind=lambda n: "slow" if n % every == 0 and slow == "type" else "x",
    )
    with running(Runtime(config, {"x": handle, "slow": handle})):
        wait_for(lambda: len(done) == count - slow_count, 15)
        assert len(slow_done) < slow_count - 10


class Refused(KafkaSource):
    """As long as another member joins, a broker may refuse commits: here the first ones, those that wait for their answer."""

    refusals = 0

    def commit(
        self,
        offsets: Mapping[tuple[str, int], int],
        *,
        wait: bool,
        epochs: Mapping[tuple[str, int], int] | None = None,
        notes: Mapping[tuple[str, int], str] | None = None,
    ) -> dict[tuple[str, int], str] | None:
        if wait and Refused.refusals:
            Refused.refusals -= 1
            return dict.fromkeys(offsets, "REBALANCE_IN_PROGRESS")
        return super().commit(offsets, wait=wait, epochs=epochs, notes=notes)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("source", [KafkaSource, Refused])
def test_a_start_at_an_instant_is_the_first_record_then_or_later(
    lab: Lab, source: type[KafkaSource], protocol: str
) -> None:
    """Nothing before it, everything from it on; a partition with nothing there begins at its end; a commit wins; all is committed.

    Also where the broker does not take the commit of a beginning at once.
    """
    topic = Topic(lab)
    instant, Refused.refusals = AN_HOUR_AGO_MS, 3
    for partition in range(3):
        for number in range(50):
            topic.produce(1, start=number, partition=partition, timestamp=instant + (number - 25) * 1000)
    topic.produce(10, partition=3, timestamp=instant - 60_000)
    seen: list[tuple[int, int, int]] = []
    config = topic.config(start_at=AN_HOUR_AGO, consumers=2, kafka=PROTOCOLS[protocol])
    runtime = Runtime(
        config,
        {"*": lambda e: seen.append((e.record.partition, e.record.offset, e.record.timestamp_ms))},
        make_source=lambda settings, member: source(settings, member=member),
    )
    with running(runtime):
        wait_for(lambda: topic.committed() == [50, 50, 50, 10])
        assert set(runtime.task.metrics.sentinels.readings().values()) == {0}
        topic.produce(1, partition=3, start=99, timestamp=instant - 1)
        wait_for(lambda: topic.committed() == [50, 50, 50, 11])
    assert {(part, offset) for part, offset, _ in seen} == {
        *((part, offset) for part in range(3) for offset in range(25, 50)),
        (3, 10),
    }
    assert all(stamp >= instant for part, _, stamp in seen if part < 3)
    wait_for(lambda: topic.committed("other") == [OFFSET_INVALID] * 4)
    seen.clear()
    with running(Runtime(config, {"*": lambda e: seen.append((e.record.partition, e.record.offset, 0))})):
        topic.produce(1, partition=0, start=50)
        wait_for(lambda: topic.committed() == [51, 50, 50, 11])
    assert seen == [(0, 50, 0)]


class Untold(KafkaSource):
    """The broker does not say where the instant is."""

    def _begin(self, *_: Any) -> dict[tuple[str, int], int]:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def test_a_start_that_is_not_known_is_a_failure_and_no_start_elsewhere(lab: Lab) -> None:
    """The member ends and says so; nothing is handled, nothing is committed."""
    topic = Topic(lab)
    topic.produce(100)
    seen: list[int] = []
    runtime = Runtime(
        topic.config(start_at=AN_HOUR_AGO),
        {"*": lambda e: seen.append(e.record.offset)},
        make_source=lambda settings, member: Untold(settings, member=member),
    )
    with running(runtime):
        wait_for(lambda: runtime.state is RuntimeState.FAILED)
        assert "The start offset of 4 partitions is unknown" in str(runtime.task.consumers[0].failure)
    assert seen == []
    wait_for(lambda: topic.committed() == [OFFSET_INVALID] * 4)


def test_holes_in_the_log_and_a_deleted_beginning_neither_stall_nor_lose(lab: Lab) -> None:
    """Compaction and transactions leave gaps, retention moves the start: only what is there counts."""
    topic = Topic(lab, partitions=1)
    producer = Producer({"bootstrap.servers": lab.bootstrap, "transactional.id": topic.name, "log_level": 0})
    producer.init_transactions(30)
    for turn in range(5):  # each commit or abort leaves a marker, and what was aborted is not read
        producer.begin_transaction()
        for number in range(10):
            producer.produce(topic.name, b"v", f"{turn}-{number}".encode())
        (producer.abort_transaction if turn == 2 else producer.commit_transaction)()
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    for answer in admin.delete_records([TopicPartition(topic.name, 0, 5)]).values():
        answer.result(30)
    seen: list[int] = []
    with running(Runtime(topic.config(), {"*": lambda e: seen.append(e.record.offset)})) as runtime:
        wait_for(lambda: len(seen) >= 35)
        wait_for(lambda: topic.committed() == [max(seen) + 1])
        assert set(runtime.task.metrics.sentinels.readings().values()) == {0}
    assert len(seen) == len(set(seen)) == 35
    assert min(seen) == 5


def test_a_byte_budget_is_kept(lab: Lab) -> None:
    """The mean rate stays at the cap, and polling goes on."""
    topic = Topic(lab)
    topic.produce(3000, value=b"v" * 1000)
    cap, sizes = 500_000, []
    with running(
        Runtime(topic.config(max_bytes_per_second=cap), {"*": lambda e: sizes.append(len(e.payload))})
    ) as runtime:
        wait_for(lambda: bool(sizes))
        began, already = time.monotonic(), sum(sizes)
        while time.monotonic() - began < 4:
            assert time.monotonic() - runtime.task.consumers[0].last_poll < 3.0
            time.sleep(0.05)
        rate = (sum(sizes) - already) / (time.monotonic() - began)
    assert 0.6 * cap < rate < 1.15 * cap


def test_more_consumers_than_partitions_stand_by(lab: Lab) -> None:
    """They hold the membership and no partition; everything is done all the same."""
    topic = Topic(lab, partitions=2)
    topic.produce(100)
    seen: list[int] = []
    with running(Runtime(topic.config(consumers=4), {"*": lambda e: seen.append(e.record.offset)})) as runtime:
        wait_for(lambda: topic.committed() == topic.ends())
        wait_for(lambda: sorted(len(consumer.partitions) for consumer in runtime.task.consumers) == [0, 0, 1, 1])
        assert runtime.state is RuntimeState.RUNNING
    assert len(seen) == 100


def test_every_metric_agrees_with_the_ledger(lab: Lab) -> None:
    """Outcomes by type, attempts, entries, decoded records and letters are what was done; lengths return to 0, lag too."""
    topic = Topic(lab)
    create_topic(lab.bootstrap, f"{topic.name}-dead", 1)
    attempts: list[tuple[str, str]] = []
    lock = threading.Lock()

    def handle(event: Event) -> Any:
        number = int(event.key)
        outcome = "ok"
        if number % 10 == 3 and event.attempt == 1:
            outcome = "retry"
        elif number % 50 == 7:
            outcome = "dead"
        elif number % 50 == 9:
            outcome = "failed"
        elif number % 10 == 5:
            outcome = "skip"
        with lock:
            attempts.append((event.type, outcome))
        return {"ok": None, "retry": Retry(0.01), "dead": Dead("600"), "failed": Failed("no"), "skip": Skip()}[outcome]

    topic.produce(1000, kind=lambda n: "a" if n % 3 else "b")
    config = topic.config(
        processors={"a": ProcessorConfig(threads=3), "b": ProcessorConfig(threads=4, queues=2)},
        dead_letter_topic=f"{topic.name}-dead",
    )
    runtime = Runtime(config, {"a": handle, "b": handle})
    with running(runtime):
        wait_for(lambda: topic.committed() == topic.ends())
        for kind in ("a", "b"):
            mine = [outcome for name, outcome in attempts if name == kind]
            for outcome in ("ok", "retry", "dead", "failed", "skip"):
                counted = metric(runtime, "wb_processed_total", processor=kind, outcome=outcome)
                assert counted == mine.count(outcome) > 0
            assert metric(runtime, "wb_process_time_seconds_count", processor=kind) == len(mine)
            assert metric(runtime, "wb_process_time_seconds_bucket", processor=kind, le="+Inf") == len(mine)
        letters = sum(outcome in ("dead", "failed") for _, outcome in attempts)
        assert metric(runtime, "wb_dead_letters_total") == letters == len(topic.read(f"{topic.name}-dead", letters))
        assert metric(runtime, "wb_deserialized_total") == 1000
        assert metric(runtime, "wb_enqueue_time_seconds_count") == 1000
        # The broker has a commit before its answer is counted here.
        wait_for(lambda: metric(runtime, "wb_commits_total", result="ok") >= PARTITIONS)
        assert metric(runtime, "wb_commits_total", result="failed") == 0
        wait_for(lambda: metric(runtime, "wb_consumer_lag_messages") == 0)
        for name in ("wb_queue_length_events", "wb_in_flight_events", "wb_delayed_length_events"):
            assert metric(runtime, name) == 0
        assert metric(runtime, "wb_sentinel_violations_total") == 0
        assert metric(runtime, "wb_queue_capacity_events") == 5 * 1000


def test_a_letter_that_its_topic_does_not_take_goes_without_its_value(lab: Lab) -> None:
    """The dead-letter topic takes less than the source topic: a letter says where the rest is, and nothing is held up."""
    topic, letters = Topic(lab, partitions=1), Topic(lab, partitions=1)
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    limit = ConfigResource(ConfigResource.Type.TOPIC, letters.name)
    limit.add_incremental_config(ConfigEntry("max.message.bytes", "20000", incremental_operation=AlterConfigOpType.SET))
    for answer in admin.incremental_alter_configs([limit]).values():
        answer.result(30)
    incompressible = os.urandom(50_000)
    topic.produce(1, value=incompressible)
    topic.produce(1, start=1, value=b"v" * 50_000)
    for number in range(2, 8):
        topic.produce(1, start=number, value=os.urandom(5_000))
    with running(Runtime(topic.config(dead_letter_topic=letters.name), {"*": lambda _e: Failed("no")})):
        wait_for(lambda: topic.committed() == [8], 30)
    found = {int(dict(item.headers())["wb_offset"]): item for item in topic.read(letters.name, 8)}
    assert sorted(found) == list(range(8))
    assert [len(found[number].value() or b"") for number in range(8)] == [0, 50_000, *([5_000] * 6)]
    first = dict(found[0].headers())
    assert (first["wb_left_out"], first["wb_value_bytes"]) == (b"value", b"50000")


class _NoText(str):
    """A header's name whose bytes are no UTF-8."""

    def encode(self, *_: Any) -> bytes:
        return b"\xff\xfe"


def test_a_record_whose_headers_cannot_be_read_keeps_its_key_and_value_in_its_letter(lab: Lab) -> None:
    """Only its headers are left out, and the letter says so. Also after many that can be read: Python no longer looks then whether a
    call that it has specialised has failed, and the client's tells it by no value of its own."""
    from kafka import KafkaProducer

    topic, letters = Topic(lab, partitions=1), Topic(lab, partitions=1)
    good = 500
    topic.produce(good, partition=0)
    producer = KafkaProducer(bootstrap_servers=lab.bootstrap)
    for key, value in ((b"k0", b"v0"), (None, b"v1"), (b"k2", None)):
        producer.send(topic.name, value, key, headers=[("event_type", b"x"), (_NoText("n"), b"h")], partition=0)
    producer.flush(30)
    producer.close()
    with running(Runtime(topic.config(dead_letter_topic=letters.name), {"x": lambda _e: None})):
        wait_for(lambda: topic.committed() == [good + 3])
    found = topic.read(letters.name, 3)
    assert [(it.key(), it.value()) for it in found] == [(b"k0", b"v0"), (None, b"v1"), (b"k2", None)]
    headers = [dict(it.headers() or ()) for it in found]
    assert [(it["wb_left_out"], it["wb_offset"]) for it in headers] == [
        (b"headers", b"%d" % (good + at)) for at in range(3)
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_position_that_retention_overtakes_is_told_and_noted(lab: Lab, protocol: str) -> None:
    """The member stays in the group, other partitions go on where they are, and the next member keeps the note."""
    topic, group, go = Topic(lab, 2), f"overtaken-{protocol}", threading.Event()
    handled: set[tuple[int, int]] = set()
    for part in range(2):
        topic.produce(300, partition=part)
    admin = AdminClient({"bootstrap.servers": lab.bootstrap, "log_level": 0})

    def handle(event: Event) -> None:
        handled.add((event.record.partition, event.record.offset))
        go.wait(30)

    settings = topic.config(
        group=group,
        max_poll_records=20,
        max_uncommitted_per_partition=40,
        default_processor=ProcessorConfig(threads=1, queue_capacity=10),
        kafka={**PROTOCOLS[protocol], "queued.min.messages": 20, "fetch.message.max.bytes": 1000},
    )
    runtime = Runtime(settings, {"*": handle})
    with running(runtime):
        states = runtime.task.consumers[0].partitions
        wait_for(lambda: len(handled) == 1 and len(states) >= 2)
        time.sleep(0.5)
        gone = TopicPartition(topic.name, 0, 280)
        admin.delete_records([gone])[gone].result(30)
        go.set()
        wait_for(lambda: topic.committed(group) == [300, 300], 60)
        rebalances, [skipped] = runtime.task.consumers[0].rebalances, states[topic.name, 0].note.skipped
        assert rebalances == 1
    assert {offset for part, offset in handled if part == 1} == set(range(300))
    assert {offset for part, offset in handled if part == 0} == set(range(300)) - set(range(*skipped))
    assert skipped[1] == 280
    again = Runtime(settings, {"*": lambda _event: None})
    with running(again):
        wait_for(lambda: (topic.name, 0) in again.task.consumers[0].partitions)
        assert again.task.consumers[0].partitions[topic.name, 0].note.skipped == (skipped,)
