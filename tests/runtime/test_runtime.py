"""Rules of the whole runtime on a log in memory: nothing lost, order by key, contiguous commits, back-pressure that keeps polling."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.runtime.helpers import record, until
from tests.runtime.memory import MemorySource
from workbench.errors import ConfigError
from workbench.runtime import (
    Dead,
    Event,
    Failed,
    ProcessorConfig,
    Record,
    Retry,
    Runtime,
    RuntimeConfig,
    RuntimeState,
    Skip,
    decode_by_header,
    recreated_topics,
    running,
)
from workbench.runtime.group_task import Seams, Task
from workbench.runtime.runtime_metrics import MAX_EVENT_TYPES, OTHER, RuntimeMetrics
from workbench.runtime.runtime_queue import Remade


def config(**changes: Any) -> RuntimeConfig:
    """Quick settings."""
    values: dict[str, Any] = {
        "bootstrap": "127.0.0.1:9",
        "group": "g",
        "topics": ["t"],
        "client_id": "test",
        "commit_interval_seconds": 0.02,
        "shutdown_seconds": 3.0,
        "default_processor": ProcessorConfig(threads=3, queue_capacity=50, retry_backoff_seconds=0.01, max_attempts=4),
    }
    return RuntimeConfig.parse({**values, **changes})


class Running:
    """A runtime on a log in memory, until the end of the block."""

    def __init__(
        self, handler: Callable[[Event], Any], *, partitions: int = 2, decode: Any = None, **changes: Any
    ) -> None:
        self.source = MemorySource(partitions)
        extra = {"decode": decode} if decode is not None else {}
        self.runtime = Runtime(
            config(**changes), {"*": handler}, make_source=lambda _c, _m: self.source, probe_log_ends=False, **extra
        )

    def __enter__(self) -> Running:
        self.runtime.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self.runtime.stop()

    def wait_for_commit(self, *ends: int, seconds: float = 10.0) -> None:
        """Until partition n is committed up to ends[n]."""
        wanted = {("t", number): end for number, end in enumerate(ends)}
        deadline = time.monotonic() + seconds
        while {part: self.source.committed.get(part, 0) for part in wanted} != wanted:
            assert time.monotonic() < deadline, self.source.committed
            time.sleep(0.005)

    def metrics(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """All samples of the metrics page."""
        import urllib.request

        assert self.runtime.metrics_address is not None
        url = "http://{}:{}/metrics".format(*self.runtime.metrics_address)
        text = urllib.request.urlopen(url, timeout=5).read().decode()
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def total(self, name: str, **labels: str) -> float:
        """Sum of a metric over all series with these labels."""
        return sum(v for (n, ls), v in self.metrics().items() if n == name and labels.items() <= dict(ls).items())


def test_everything_is_handled_once_in_order_by_key_and_committed() -> None:
    """2 × 300 records of 7 keys; the ledger of the metrics agrees with what was done."""
    seen: list[tuple[int, bytes, int]] = []
    with Running(lambda e: seen.append((e.record.partition, e.key, e.record.offset))) as it:
        for partition in range(2):
            it.source.produce(record(n, key=f"{partition}-{n % 7}".encode(), partition=partition) for n in range(300))
        it.wait_for_commit(300, 300)
        assert it.total("wb_processed_total", outcome="ok") == 600
        assert it.total("wb_deserialized_total") == 600
        assert it.total("wb_process_time_seconds_count") == 600
        assert it.total("wb_enqueue_time_seconds_count") == 600
        assert it.total("wb_queue_length_events") == 0
    assert len(seen) == len(set(seen)) == 600
    for key in {key for _, key, _ in seen}:
        mine = [offset for _, name, offset in seen if name == key]
        assert mine == sorted(mine)
    for partition in range(2):
        commits = [offsets["t", partition] for offsets in it.source.history if ("t", partition) in offsets]
        assert commits == sorted(commits)


def test_a_commit_never_passes_an_unfinished_event() -> None:
    """One event hangs: everything behind it is handled, nothing behind it is committed."""
    release = threading.Event()

    def handle(event: Event) -> None:
        if event.record.offset == 10:
            release.wait(10)

    with Running(handle, partitions=1, default_processor=ProcessorConfig(threads=4, queue_capacity=500)) as it:
        it.source.produce(record(n, key=str(n).encode()) for n in range(100))
        deadline = time.monotonic() + 5
        while it.total("wb_processed_total") < 70 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert it.source.committed.get(("t", 0), 0) <= 10
        [age] = [v for (n, _), v in it.metrics().items() if n == "wb_oldest_incomplete_age_seconds"]
        assert age > 0
        release.set()
        it.wait_for_commit(100)


def test_retries_end_in_failure_and_the_frontier_moves_on() -> None:
    """A poison record is tried as often as configured, in place; other keys are not held back by it."""
    attempts: list[int] = []

    def handle(event: Event) -> None:
        if event.key == b"bad":
            attempts.append(event.attempt)
            raise ValueError("no")

    with Running(handle, partitions=1) as it:
        it.source.produce([record(0, key=b"bad"), *(record(n, key=str(n).encode()) for n in range(1, 30))])
        it.wait_for_commit(30)
        assert it.total("wb_processed_total", outcome="retry") == 3
        assert it.total("wb_processed_total", outcome="failed") == 1
    assert attempts == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("outcome", "label"),
    [(Skip(), "skip"), (Failed("x"), "failed"), (Dead("600"), "dead"), (None, "ok"), (True, "ok"), ("an id", "ok")],
)
def test_every_outcome_completes_and_is_counted(outcome: Any, label: str) -> None:
    """Done, skip, failed, dead and a value of the handler's own: the offset is finished, and the counter says how."""
    with Running(lambda _event: outcome, partitions=1) as it:
        it.source.produce(record(n) for n in range(5))
        it.wait_for_commit(5)
        assert it.total("wb_processed_total", outcome=label) == 5


def test_a_retry_may_choose_its_own_time_and_keeps_its_key_in_order() -> None:
    """The key waits behind its retry; the others do not."""
    order: list[int] = []

    def handle(event: Event) -> Any:
        if event.record.offset == 0 and event.attempt == 1:
            return Retry(after=0.1)
        order.append(event.record.offset)
        return None

    with Running(handle, partitions=1, default_processor=ProcessorConfig(threads=1)) as it:
        it.source.produce([record(0, key=b"a"), record(1, key=b"a"), record(2, key=b"b")])
        it.wait_for_commit(3)
    assert order == [2, 0, 1]


def test_a_timeout_fails_without_a_retry_and_its_key_is_never_handled_twice_at_once() -> None:
    """The frontier moves on at the timeout; the key goes on when the handler returns."""
    release, active, most = threading.Event(), set(), [0]
    lock = threading.Lock()

    def handle(event: Event) -> None:
        with lock:
            assert event.key not in active
            active.add(event.key)
            most[0] = max(most[0], len(active))
        if event.record.offset == 0:
            release.wait(10)
        with lock:
            active.discard(event.key)

    slow = ProcessorConfig(threads=1, timeout_seconds=0.1, queue_capacity=50)
    with Running(handle, partitions=1, default_processor=slow) as it:
        it.source.produce([record(0, key=b"a"), record(1, key=b"a"), record(2, key=b"b")])
        it.wait_for_commit(1)
        assert it.total("wb_processed_total", outcome="timeout") == 1
        release.set()
        it.wait_for_commit(3)
        assert it.total("wb_processed_total", outcome="ok") == 2


def test_back_pressure_is_bounded_and_keeps_polling() -> None:
    """A blocked handler: the consumer stops pulling but never stops polling, and holds no more than its bounds."""
    release = threading.Event()
    small = ProcessorConfig(threads=2, queue_capacity=10)
    with Running(
        lambda _e: release.wait(20),
        partitions=2,
        default_processor=small,
        max_poll_records=20,
        carry_over_per_partition=0,
    ) as it:
        for partition in range(2):
            it.source.produce(record(n, key=str(n).encode(), partition=partition) for n in range(500))
        time.sleep(0.3)
        polls = it.source.polls
        time.sleep(0.3)
        assert it.source.polls > polls
        assert it.source.paused == {("t", 0), ("t", 1)}
        assert it.total("wb_queue_length_events") <= 20
        held = sum(state.held_events for c in it.runtime.task.consumers for state in c.partitions.values())
        assert held <= 2 * 20
        assert it.total("wb_paused_partitions") == 2
        release.set()
        it.wait_for_commit(500, 500)
        assert it.source.paused == set()


def test_a_pause_does_not_outlive_the_assignment() -> None:
    """A partition that was full when it was given away is read when it comes back; a lost one likewise."""
    release = threading.Event()
    with Running(
        lambda _e: release.wait(20),
        partitions=2,
        default_processor=ProcessorConfig(threads=1, queue_capacity=2),
        max_poll_records=5,
        carry_over_per_partition=0,
        rebalance_drain_seconds=0.05,
    ) as it:
        for partition in range(2):
            it.source.produce(record(n, key=str(n).encode(), partition=partition) for n in range(30))
        until(lambda: it.source.paused == {("t", 0), ("t", 1)})
        it.source.later("revoked", [("t", 0)])
        it.source.later("lost", [("t", 1)])
        it.source.later("assigned", [("t", 0), ("t", 1)])
        until(lambda: not it.source.pending)
        release.set()
        it.wait_for_commit(30, 30)


def test_a_rebalance_that_cannot_wait_says_what_is_handled_again(caplog: pytest.LogCaptureFixture) -> None:
    """By partition; one that is finished is not named."""
    release = threading.Event()
    with Running(
        lambda event: release.wait(20) if event.record.partition == 0 else None,
        partitions=2,
        default_processor=ProcessorConfig(threads=2, queues=1, queue_capacity=2),
        rebalance_drain_seconds=0.05,
    ) as it:
        it.source.produce([record(0, key=b"a", partition=0)])
        it.source.produce([record(0, key=b"b", partition=1)])
        it.wait_for_commit(0, 1)
        it.source.later("revoked", [("t", 0), ("t", 1)])

        def said() -> list[str]:
            return [it.getMessage() for it in caplog.records if "did not finish within" in it.getMessage()]

        until(lambda: bool(said()))
        release.set()
    [words] = said()
    assert "t-0" in words and "t-1" not in words


def test_records_beyond_the_commit_are_bounded() -> None:
    """Behind one stuck record a partition is read only so far; other partitions go on."""
    release = threading.Event()

    def handle(event: Event) -> Any:
        first = event.record.partition == 0 and event.record.offset == 0
        return Retry(after=0.01) if first and not release.is_set() else None

    pool = ProcessorConfig(threads=4, queue_capacity=5000, max_attempts=1_000_000)
    with Running(
        handle, partitions=2, default_processor=pool, max_uncommitted_per_partition=100, max_poll_records=10
    ) as it:
        for partition in range(2):
            it.source.produce(record(n, key=f"{partition}{n}".encode(), partition=partition) for n in range(1000))
        deadline = time.monotonic() + 10
        while it.source.committed.get(("t", 1)) != 1000 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert it.source.committed.get(("t", 1)) == 1000
        assert it.source.positions["t", 0] <= 100 + 2 * 10
        release.set()
        it.wait_for_commit(1000, 1000)


def test_a_delayed_event_waits_for_its_time_and_others_do_not() -> None:
    """Delay counts from the event's time; it is never earlier than due."""
    done: dict[str, float] = {}
    types = {"later": ProcessorConfig(delay_seconds=0.4), "now": ProcessorConfig()}
    with Running(lambda e: done.setdefault(e.type, time.time()), partitions=1, processors=types) as it:
        began = time.time()
        stamp = round(began * 1000)
        it.source.produce([record(0, kind="later", timestamp_ms=stamp), record(1, kind="now", timestamp_ms=stamp)])
        it.wait_for_commit(2)
    assert done["later"] - began >= 0.39
    assert done["now"] < done["later"]


def test_revocation_finishes_what_is_at_work_commits_it_and_leaves_the_rest() -> None:
    """The next owner starts exactly behind what was finished; what waited is not handled here any more."""
    handled: list[int] = []
    started = threading.Event()

    def handle(event: Event) -> None:
        started.set()
        time.sleep(0.05)
        handled.append(event.record.offset)

    with Running(handle, partitions=1, default_processor=ProcessorConfig(threads=1)) as it:
        it.source.produce(record(n) for n in range(50))
        started.wait(5)
        it.source.later("revoked", [("t", 0)])
        deadline = time.monotonic() + 5
        while it.source.positions and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(0.2)
        count = len(handled)
        assert it.source.committed["t", 0] == count
        assert it.total("wb_queue_length_events") == 0
        it.source.later("assigned", [("t", 0)])
        it.wait_for_commit(50)
    assert handled == list(range(50))


def test_a_beginning_is_committed_although_nothing_is_read() -> None:
    """Where a partition without a commit is to begin; once, and never behind what is done."""
    handled: list[int] = []
    with Running(lambda e: handled.append(e.record.offset), partitions=2) as it:
        until(lambda: it.source.polls > 0)  # it has its partitions
        it.source.broker.delete_before(("t", 0), 5)
        it.source.begin = {("t", 0): 5, ("t", 1): 0}
        it.source.later("revoked", [("t", 0), ("t", 1)])
        it.source.later("assigned", [("t", 0), ("t", 1)])
        it.wait_for_commit(5, 0)
        assert it.source.committed == {("t", 0): 5, ("t", 1): 0}
        it.source.produce(record(n) for n in range(5, 8))
        it.wait_for_commit(8, 0)
    assert handled == [5, 6, 7]
    assert [offsets[part] for part in (("t", 0), ("t", 1)) for offsets in it.source.history if part in offsets] == [
        5,
        8,
        0,
    ]


def test_a_revocation_waits_for_the_letter_of_an_event_that_its_handler_is_through_with() -> None:
    """Neither at work nor done: let go, it would be handled again by the next owner, and its letter written twice."""

    class Slow:
        """A producer whose broker takes its time."""

        def __init__(self) -> None:
            self.reports: list[tuple[float, Any]] = []

        def produce(self, *_: Any, on_delivery: Any, **_more: Any) -> None:
            self.reports.append((time.monotonic() + 0.4, on_delivery))

        def poll(self, seconds: float) -> None:
            time.sleep(0.01)
            while self.reports and self.reports[0][0] <= time.monotonic():
                self.reports.pop(0)[1](None, None)

        flush = poll

    handled: list[int] = []

    def handle(event: Event) -> Any:
        handled.append(event.record.offset)
        return Dead("600") if event.record.offset == 2 else None

    source, producer = MemorySource(1), Slow()
    task = Task(
        config(dead_letter_topic="dlq", rebalance_drain_seconds=5.0),
        {"*": handle},
        decode=decode_by_header,
        make_source=lambda _c, _m: source,
        probe_log_ends=False,
        seams=Seams(make_producer=lambda _properties: producer),  # type: ignore[arg-type,return-value]
    )
    task.start()
    source.produce(record(n) for n in range(3))
    until(lambda: producer.reports)
    source.later("revoked", [("t", 0)])
    until(lambda: not source.positions)
    assert source.committed == {("t", 0): 3}
    source.later("assigned", [("t", 0)])
    source.produce([record(3)])
    until(lambda: source.committed == {("t", 0): 4})
    assert task.stop()
    assert handled == [0, 1, 2, 3]


def test_lost_partitions_are_not_committed() -> None:
    """Another member may have them already."""
    release = threading.Event()

    def handle(event: Event) -> None:
        if event.record.offset == 3:
            release.wait(5)

    with Running(
        handle, partitions=1, default_processor=ProcessorConfig(threads=1), commit_interval_seconds=60.0
    ) as it:
        it.source.produce(record(n) for n in range(10))
        deadline = time.monotonic() + 5
        while it.total("wb_processed_total") < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        it.source.later("lost", [("t", 0)])
        until(lambda: not it.source.positions)
        release.set()
    assert ("t", 0) not in it.source.committed


def test_an_undecodable_record_never_stops_the_consumer() -> None:
    """It is counted, and its offset is finished."""

    def decode(item: Any) -> Any:
        from workbench.runtime import decode_by_header

        if item.offset % 3 == 0:
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")
        return decode_by_header(item)

    with Running(lambda _e: None, partitions=1, decode=decode) as it:
        it.source.produce(record(n) for n in range(9))
        it.wait_for_commit(9)
        assert it.total("wb_undecodable_total") == 3
        assert it.total("wb_processed_total") == 6


def test_a_stop_lets_what_was_read_finish() -> None:
    """A graceful stop repeats nothing: all that was read is handled and committed."""
    handled: list[int] = []

    def handle(event: Event) -> None:
        time.sleep(0.002)
        handled.append(event.record.offset)

    it = Running(handle, partitions=1, max_poll_records=50)
    with it:
        it.source.produce(record(n, key=str(n).encode()) for n in range(400))
        while len(handled) < 20:
            time.sleep(0.005)
    assert it.source.committed["t", 0] == len(handled)
    assert sorted(handled) == list(range(len(handled)))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda made: setattr(made, "key", "text"),
        lambda made: setattr(made, "type", None),
        lambda made: setattr(made, "delay_until_ms", "soon"),
        lambda _made: sys.exit(1),
    ],
    ids=["key", "type", "delay", "exit"],
)
def test_what_a_decoder_makes_never_ends_the_member(spoil: Callable[[Event], Any]) -> None:
    """An event that cannot be handled is undecodable; ending would meet it again after each restart."""

    def decode(item: Record) -> Event:
        made = decode_by_header(item)
        if item.offset == 1:
            spoil(made)
        return made

    with Running(lambda _e: None, partitions=1, decode=decode) as it:
        it.source.produce(record(n) for n in range(3))
        it.wait_for_commit(3)
        assert it.total("wb_undecodable_total") == 1
        assert it.runtime.task.failure is None


def test_a_decoder_that_mixes_up_records_holds_nothing_up() -> None:
    """An event of another record, or one object for all: its offset would be completed twice, the record's own never."""
    made: list[Event] = []

    def decode(item: Record) -> Event:
        event = decode_by_header(item)
        made.append(event)
        if item.offset == 1:
            event.record = made[0].record
        if item.offset == 3:
            return made[2]
        if item.offset == 4:
            event.record = item._replace(value=b"decrypted")
        return event

    with Running(lambda _e: time.sleep(0.01), partitions=1, decode=decode) as it:
        it.source.produce(record(n) for n in range(6))
        it.wait_for_commit(6)
        assert it.total("wb_undecodable_total") == 2


def test_a_type_that_is_no_text_does_not_cost_the_metrics_page() -> None:
    """JSON may spell half a surrogate pair, which cannot be written as UTF-8."""

    def decode(item: Record) -> Event:
        return Event(type="\ud800", key=b"k", payload=None, record=item)

    with Running(lambda _e: Dead("no"), partitions=1, decode=decode) as it:
        it.source.produce([record(0)])
        it.wait_for_commit(1)
        assert it.total("wb_processed_total", outcome="dead") == 1


def test_an_event_without_a_key_is_one_of_the_empty_key() -> None:
    """As a record without a key is."""
    keys: list[bytes] = []

    def decode(item: Record) -> Event:
        made = decode_by_header(item)
        made.key = None  # type: ignore[assignment]
        return made

    with Running(lambda e: keys.append(e.key), partitions=1, decode=decode) as it:
        it.source.produce([record(0)])
        it.wait_for_commit(1)
    assert keys == [b""]


def test_one_stuck_event_does_not_cost_the_others_their_commits_at_a_stop() -> None:
    """While a shutdown waits, what is done is committed, and what overruns its time is given up."""
    release = threading.Event()

    def handle(event: Event) -> None:
        if event.key == b"stuck":
            release.wait(20)
        time.sleep(0.001)

    it = Running(
        handle,
        shutdown_seconds=20.0,
        rebalance_drain_seconds=0.1,
        default_processor=ProcessorConfig(threads=4, queues=1, queue_capacity=1000, timeout_seconds=60.0),
    )
    with it:
        it.source.produce([record(0, key=b"stuck")])
        it.source.produce(record(n, key=str(n).encode(), partition=1) for n in range(200))
        until(lambda: it.runtime.task.consumers[0].partitions and it.total("wb_deserialized_total") == 201)
        stopping = threading.Thread(target=it.stop)
        stopping.start()
        until(lambda: it.source.committed.get(("t", 1)) == 200)
        assert stopping.is_alive()
        release.set()
        stopping.join(10)
    assert it.source.committed == {("t", 0): 1, ("t", 1): 200}


def test_a_timeout_counts_while_the_runtime_stops() -> None:
    """The event is given up in time, so that the stop ends with a commit past it."""
    release = threading.Event()
    it = Running(
        lambda _e: release.wait(20),
        partitions=1,
        shutdown_seconds=20.0,
        default_processor=ProcessorConfig(threads=1, timeout_seconds=0.3),
    )
    with it:
        it.source.produce([record(0)])
        until(lambda: it.total("wb_deserialized_total") == 1)
    assert it.source.committed == {("t", 0): 1}
    release.set()


def test_drained_is_told_only_when_reading_has_stopped() -> None:
    """A record may be on its way while a drain is asked for."""
    polling, go = threading.Event(), threading.Event()
    with Running(lambda _e: time.sleep(0.05), partitions=1) as it:
        until(lambda: it.source.positions)
        poll = it.source.poll

        def slow(most: int, seconds: float) -> list[Record]:
            polling.set()
            go.wait(10)
            return poll(most, seconds)

        it.source.poll = slow  # type: ignore[method-assign]
        assert polling.wait(5)
        it.source.produce(record(n) for n in range(5))
        assert it.runtime.drain()
        assert it.runtime.state is RuntimeState.DRAINING
        go.set()
        until(lambda: it.runtime.state is RuntimeState.DRAINED)
        read = it.source.positions["t", 0]
        assert it.source.committed.get(("t", 0), 0) == read == 5


@pytest.mark.parametrize("stuck", [False, True], ids=["idle", "while_an_old_event_is_at_work"])
def test_a_log_that_begins_anew_is_read_from_its_beginning_and_committed(stuck: bool) -> None:
    """An unclean election or a topic made anew: the commit lies above the log, and must not hide what comes now."""
    handled: list[tuple[int, int]] = []
    release = threading.Event()

    def handle(event: Event) -> None:
        if stuck and event.record.leader_epoch == 0 and event.record.offset == 49:
            release.wait(10)
        handled.append((event.record.leader_epoch or 0, event.record.offset))

    shared = ProcessorConfig(threads=3, queues=1)
    with Running(handle, partitions=1, rebalance_drain_seconds=5.0, default_processor=shared) as it:
        it.source.produce(record(n, key=str(n).encode()) for n in range(50))
        it.wait_for_commit(49 if stuck else 50)
        it.source.broker.remake(("t", 0))
        it.source.produce(record(n, key=str(n).encode()) for n in range(20))
        it.wait_for_commit(20)
        assert it.total("wb_log_restarts_total") == 1
        if stuck:
            it.source.later("revoked", [("t", 0)])
            time.sleep(0.05)
        release.set()
        until(lambda: (0, 49) in handled)
        assert set(it.runtime.task.metrics.sentinels.readings().values()) == {0}
    assert sorted(handled) == [(0, n) for n in range(50)] + [(1, n) for n in range(20)]
    # What a restart reads then: nothing is skipped, though the log has grown beyond the former commit.
    it.source.produce(record(n) for n in range(20, 80))
    again: list[int] = []
    runtime = Runtime(
        config(),
        {"*": lambda e: again.append(e.record.offset)},
        make_source=lambda _c, _m: MemorySource(broker=it.source.broker),
        probe_log_ends=False,
    )
    with running(runtime):
        until(lambda: it.source.broker.committed["t", 0] == 80)
    assert again == list(range(20, 80))


def test_a_topic_that_was_made_anew_and_has_grown_is_read_from_its_beginning() -> None:
    """The client goes on at its position in the new log and cannot see it; the topic's id can. Once is enough."""
    handled: list[tuple[int, int]] = []
    with Running(lambda e: handled.append((e.record.leader_epoch or 0, e.record.offset)), partitions=2) as it:
        it.source.produce(record(n) for n in range(10))
        it.wait_for_commit(10)
        before = time.monotonic()
        with it.source.broker.lock:
            it.source.broker.remake(("t", 0), hidden=True)
            it.source.produce(record(n) for n in range(15))
        until(lambda: (1, 14) in handled)
        assert (1, 0) not in handled, "the source is kinder than Kafka's client"
        for _ in range(2):
            it.runtime.task._remade(Remade("t", "new", before, {}))
        until(lambda: it.source.committed[("t", 0)] == 15 and (1, 9) in handled)
        it.runtime.task._remade(Remade("t", "new", before, {}))
        it.source.produce([record(15)])
        it.wait_for_commit(16)
        assert it.total("wb_log_restarts_total") == 1
    assert {offset for epoch, offset in handled if epoch == 1} == set(range(16))


def test_a_topic_that_was_made_anew_is_read_by_a_new_client() -> None:
    """The client may wait for leader epochs of the former topic for ever, also where nobody saw the change: the ids tell."""
    handled: list[int] = []
    with Running(lambda e: handled.append(e.record.offset), partitions=1) as it:
        ids = it.runtime.task.log_ends.ids
        ids["t"] = ("c:old", 0.0)
        it.source.produce(record(n) for n in range(3))
        it.wait_for_commit(3)
        assert it.source.rejoins == 0
        del ids["t"]  # the topic is gone, and so is the partition
        it.source.later("revoked", [("t", 0)])
        until(lambda: not it.source.positions)
        it.source.broker.remake(("t", 0))
        del it.source.broker.committed["t", 0]
        ids["t"] = ("c:new", 0.0)
        it.source.later("assigned", [("t", 0)])
        until(lambda: it.source.rejoins == 1)
        it.source.produce(record(n) for n in range(2))
        it.wait_for_commit(2)
        assert it.source.rejoins == 1
    assert handled == [0, 1, 2, 0, 1]


def test_a_commit_of_a_former_topic_is_not_believed() -> None:
    """The owner of a deleted topic commits once more; Kafka keeps that for the topic that has the name now. It bears the old id."""
    handled: list[int] = []
    source = MemorySource(1)
    source.produce(record(n) for n in range(20))
    source.commit({("t", 0): 15}, wait=True, notes={("t", 0): "topic-id=old"})
    runtime = Runtime(
        config(),
        {"*": lambda e: handled.append(e.record.offset)},
        make_source=lambda _c, _m: source,
        probe_log_ends=False,
    )
    with running(runtime):
        until(lambda: source.committed["t", 0] == 20)
        assert min(handled) == 15  # nothing is known of the topic yet
        runtime.task.log_ends.ids["t"] = ("new", 0.0)
        until(lambda: set(handled) == set(range(20)))
        until(lambda: source.broker.notes.get(("t", 0)) == "topic-id=new" and source.committed["t", 0] == 20)
    again: list[int] = []
    other = MemorySource(broker=source.broker)
    runtime = Runtime(
        config(), {"*": lambda e: again.append(e.record.offset)}, make_source=lambda _c, _m: other, probe_log_ends=False
    )
    runtime.task.log_ends.ids["t"] = ("new", 0.0)
    source.produce([record(20)])
    with running(runtime):
        until(lambda: source.committed["t", 0] == 21)
    assert again == [20]


def test_a_commit_of_a_former_topic_that_leads_into_the_new_log_is_not_believed_either() -> None:
    """Held against the new log, its epoch leads to where that ended: the records below were never read."""
    handled: list[int] = []
    source = MemorySource(1)
    source.produce(record(n) for n in range(20))
    source.commit({("t", 0): 35}, wait=True, epochs={("t", 0): 0}, notes={("t", 0): "topic-id=old"})
    runtime = Runtime(
        config(),
        {"*": lambda e: handled.append(e.record.offset)},
        make_source=lambda _c, _m: source,
        probe_log_ends=False,
    )
    with running(runtime):
        until(lambda: source.positions.get(("t", 0)) == 20)
        source.produce(record(n) for n in range(20, 25))
        until(lambda: source.committed["t", 0] == 25)
        runtime.task.log_ends.ids["t"] = ("new", 0.0)
        until(lambda: set(handled) == set(range(25)))
        until(lambda: source.committed["t", 0] == 25)


@pytest.mark.parametrize("topic_id", ["c:old", "c:new", None], ids=["same", "made anew", "not told"])
def test_nothing_is_handled_while_it_is_in_doubt_whose_commit_it_is(
    topic_id: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that was made anew may reach beyond the commit: its later records would be handled before its first ones."""
    monkeypatch.setattr(recreated_topics, "_LONGEST_DOUBT_SECONDS", 0.3 if topic_id is None else 60)
    handled: list[int] = []
    source = MemorySource(1)
    source.produce(record(n) for n in range(20))
    source.commit({("t", 0): 15}, wait=True, notes={("t", 0): "topic-id=c:old"})
    runtime = Runtime(
        config(),
        {"*": lambda e: handled.append(e.record.offset)},
        make_source=lambda _c, _m: source,
        probe_log_ends=False,
    )
    log_ends = runtime.task.log_ends
    monkeypatch.setattr(log_ends, "ask_soon", lambda _topic: True)
    log_ends.ids["t"] = ("c:old", time.monotonic())  # of before the assignment
    began = time.monotonic()
    with running(runtime):
        until(lambda: ("t", 0) in source.paused)
        assert handled == []
        if topic_id is not None:
            time.sleep(0.2)
            assert handled == []
            log_ends.ids["t"] = (topic_id, time.monotonic())
        until(lambda: source.committed["t", 0] == 20 and len(handled) >= 5)
    assert handled == list(range(0 if topic_id == "c:new" else 15, 20))
    if topic_id is None:
        assert time.monotonic() - began > 0.3


def test_what_is_in_doubt_is_left_to_the_next_owner() -> None:
    """A shutdown does not wait for it, and commits nothing of it."""
    handled: list[int] = []
    source = MemorySource(1)
    source.produce(record(n) for n in range(20))
    source.commit({("t", 0): 15}, wait=True, notes={("t", 0): "topic-id=c:old"})
    runtime = Runtime(
        config(shutdown_seconds=20),
        {"*": lambda e: handled.append(e.record.offset)},
        make_source=lambda _c, _m: source,
        probe_log_ends=False,
    )
    runtime.task.log_ends.ask_soon = lambda _topic: True  # type: ignore[method-assign]
    with running(runtime):
        until(lambda: ("t", 0) in source.paused)
        began = time.monotonic()
    assert time.monotonic() - began < 5
    assert handled == []
    assert source.committed["t", 0] == 15


def test_a_former_log_that_is_done_holds_up_no_drain() -> None:
    """Its events were at work when the log began anew; once they are done, the drain ends."""
    release = threading.Event()

    def handle(event: Event) -> None:
        if event.record.leader_epoch == 0:
            release.wait(10)

    with Running(handle, partitions=1) as it:
        it.source.produce(record(n) for n in range(2))
        until(lambda: it.total("wb_deserialized_total") == 2)
        it.source.broker.remake(("t", 0))
        it.source.produce([record(0)])
        until(lambda: it.total("wb_log_restarts_total") == 1)
        release.set()
        it.wait_for_commit(1)
        assert it.runtime.drain()
        until(lambda: it.runtime.state is RuntimeState.DRAINED)


def test_records_that_were_read_before_a_rewind_are_not_taken_for_later_ones() -> None:
    """A decoder is slow, and meanwhile the topic turns out to be another: the rest of the batch is read again, in its turn."""
    handled: list[int] = []
    source = MemorySource(1)

    def slow(item: Record) -> Event:
        if item.offset == 5 and not handled:
            runtime.task._remade(Remade("t", "new", time.monotonic(), {}))
            source.paused.add(("t", 0))  # what comes from the beginning takes its time
            time.sleep(0.15)  # longer than housekeeping waits
        return decode_by_header(item)

    runtime = Runtime(
        config(),
        {"*": lambda e: handled.append(e.record.offset)},
        decode=slow,
        make_source=lambda _c, _m: source,
        probe_log_ends=False,
    )
    source.commit({("t", 0): 5}, wait=True)
    source.produce(record(n) for n in range(10))
    with running(runtime):
        until(lambda: any(commit.get(("t", 0)) == 0 for commit in source.history))
        polls = source.polls
        until(lambda: source.polls > polls + 5)
        time.sleep(0.05)
        assert source.committed["t", 0] == 0, "records 0 to 4 were not read yet"
        source.resume([("t", 0)])
        until(lambda: source.committed["t", 0] == 10)
    assert set(handled) == set(range(10))


def test_a_commit_keeps_the_note_of_another_topic_until_the_id_is_known() -> None:
    """Or the next owner would believe a commit that came of a deleted topic."""
    source = MemorySource(1)
    source.produce(record(n) for n in range(20))
    source.commit({("t", 0): 15}, wait=True, notes={("t", 0): "topic-id=old"})

    def made() -> Runtime:
        return Runtime(
            config(),
            {"*": lambda e: handled.append(e.record.offset)},
            make_source=lambda _c, _m: MemorySource(broker=source.broker),
            probe_log_ends=False,
        )

    handled: list[int] = []
    with running(made()):
        until(lambda: source.committed["t", 0] == 20)
    runtime = made()
    runtime.task.log_ends.ids["t"] = ("new", 0.0)
    with running(runtime):
        until(lambda: set(handled) == set(range(20)))
        until(lambda: source.committed["t", 0] == 20)


def test_commits_name_the_epoch_of_the_record_before_them() -> None:
    """Kafka tells by it whether the log was cut below the commit, even where it has grown beyond it again."""
    sent: dict[int, int] = {}
    with Running(lambda _e: None, partitions=1, commit_interval_seconds=0.01) as it:
        commit = it.source.commit

        def noting(offsets: Any, *, wait: bool, epochs: Any = None, notes: Any = None) -> Any:
            sent.update({offsets[part]: epoch for part, epoch in (epochs or {}).items()})
            return commit(offsets, wait=wait, epochs=epochs)

        it.source.commit = noting  # type: ignore[method-assign]
        it.source.broker.epochs["t", 0] = 3
        it.source.produce(record(n) for n in range(4))
        it.wait_for_commit(4)
        it.source.broker.epochs["t", 0] = 5
        it.source.produce(record(n) for n in range(4, 6))
        it.wait_for_commit(6)
    assert sent[4] == 3
    assert sent[6] == 5


def test_labels_are_bounded() -> None:
    """A producer that invents event types cannot blow up the metrics."""
    metrics = RuntimeMetrics("g", gauges=lambda: ())
    labels = {metrics.type_label(f"type-{n}") for n in range(10 * MAX_EVENT_TYPES)}
    assert len(labels) == MAX_EVENT_TYPES + 1
    assert OTHER in labels


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"consumers": 0}, "consumers"),
        ({"comit_interval_seconds": 1}, "comit_interval_seconds"),
        ({"default_processor": {"threads": 0}}, "default_processor.threads"),
        ({"processors": {"x": {"delay_seconds": 90}}}, "delay_seconds"),
        ({"delay_max_seconds": 120}, "delay_max_seconds"),
        ({"topics": []}, "topics"),
        ({"group": ""}, "group"),
        ({"kafka": {"enable.auto.commit": True}}, "enable.auto.commit"),
        ({"kafka": {"enable.auto.offset.store": "true"}}, "enable.auto.offset.store"),
        ({"kafka": {"group.id": "another"}}, "group.id"),
        ({"kafka": {"bootstrap.servers": "elsewhere:9092"}}, "bootstrap.servers"),
        ({"dead_letter_topic": "t"}, "dead_letter_topic"),
        ({"topics": ["^orders.*"], "dead_letter_topic": "orders-dead"}, "dead_letter_topic"),
        ({"topics": ["^orders("]}, "topics"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(changes: dict[str, Any], named: str) -> None:
    """At start, with the field's name."""
    with pytest.raises(ConfigError, match=named):
        config(**changes)


def test_a_type_without_a_processor_is_refused_at_start() -> None:
    """Configured, but nobody handles it."""
    with pytest.raises(ConfigError, match="refund"):
        Runtime(
            config(processors={"refund": {}}), {"order": lambda _e: None}, make_source=lambda _c, _m: MemorySource()
        )
    with pytest.raises(ConfigError, match="no processor"):
        Runtime(config(), {}, make_source=lambda _c, _m: MemorySource())


def test_a_processor_that_a_call_would_not_run_is_refused_at_start() -> None:
    """An async function returns at once: its events would be committed, and nothing done for them."""

    async def handle(_event: Event) -> None: ...

    class Sink:
        async def __call__(self, _event: Event) -> None: ...

    def in_parts(_event: Event) -> Iterator[int]:
        yield 1

    for handler in (handle, Sink(), in_parts, partial(handle)):
        with pytest.raises(ConfigError, match="async function or a generator"):
            Runtime(config(), {"*": handler}, make_source=lambda _c, _m: MemorySource())
