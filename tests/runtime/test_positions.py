"""A commit proves a position: what was held back, sought, deleted or left out is never taken for handled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.runtime.helpers import record, until
from tests.runtime.memory import MemorySource
from tests.runtime.test_runtime import Running, config
from workbench.commit_note import CommitNote, format_note, parse_note
from workbench.errors import GuardError
from workbench.runtime import Event, ProcessorConfig, Record, Runtime, decode_by_header
from workbench.runtime.group_task import Task
from workbench.runtime.ranges_to_process import Ranges

PART = ("t", 0)


class LateIds:
    """Topic ids that are answered when the test says so."""

    def __init__(self) -> None:
        self.answer: str | None = None

    def known(self, _topic: str) -> tuple[str, float] | None:
        return (self.answer, time.monotonic()) if self.answer is not None else None

    def ask_soon(self, _topic: str) -> bool:
        return True


class Restarted:
    """A task whose commit has a topic id, so that records are held back until the id is known again."""

    def __init__(self, *, committed: int = 90, end: int = 100, **changes: Any) -> None:
        self.handled: list[int] = []
        self.source, self.ids = MemorySource(1), LateIds()
        self.source.produce(record(n, key=b"%d" % n) for n in range(end))
        self.source.broker.committed[PART] = committed
        mine = Ranges(ranges).mark(PART) if (ranges := changes.get("ranges")) else None
        self.source.broker.notes[PART] = format_note(CommitNote(topic_id="c:one", ranges=mine))
        self.task = Task(
            config(**changes),
            {"*": lambda event: self.handled.append(event.record.offset)},
            decode=decode_by_header,
            make_source=lambda _config, _member: self.source,
            probe_log_ends=False,
        )
        self.consumer = self.task.consumers[0]
        self.consumer._identity._ids = self.ids

    def __enter__(self) -> Restarted:
        self.task.start()
        until(lambda: self.state.held_back is not None and self.state.uncommitted > 0)
        return self

    def __exit__(self, *_: object) -> None:
        self.task.stop()

    @property
    def state(self) -> Any:
        until(lambda: PART in self.consumer.partitions)
        return self.consumer.partitions[PART]


def test_an_end_counts_behind_what_is_held_back() -> None:
    """The end of a range is told while its records wait for the topic id: neither committed nor complete before they are handled."""
    with Restarted(ranges={"t": {0: [(0, 100)]}}) as it:
        time.sleep(0.3)
        assert (it.source.committed[PART], it.consumer.is_complete, it.state.ended) == (90, False, False)
        assert it.state.watch.may_commit(90) and not it.state.watch.may_commit(91)
        it.ids.answer = "c:one"
        until(lambda: it.consumer.is_complete)
    assert sorted(it.handled) == list(range(90, 100))
    assert it.source.committed[PART] == 100


def test_what_was_held_back_between_two_ranges_keeps_no_commit() -> None:
    """A run that ended amid its ranges: the next one reads what lies between them while it waits for the topic id."""
    with Restarted(ranges={"t": {0: [(0, 92), (96, 100)]}}) as it:
        it.ids.answer = "c:one"
        until(lambda: it.consumer.is_complete)
        readings = it.task.metrics.sentinels.readings()
    assert sorted(it.handled) == [90, 91, 96, 97, 98, 99]
    assert (it.source.committed[PART], sum(readings.values())) == (100, 0)


def test_what_is_held_back_counts_as_read_and_not_finished() -> None:
    """A drain is not over before it; a stop leaves it to the next owner."""
    with Restarted() as it:
        it.task.drain()
        time.sleep(0.2)
        assert (it.task.is_settled, it.task.is_drained, it.state.is_done, it.state.uncommitted) == (
            False,
            False,
            False,
            10,
        )
        began = time.monotonic()
    assert time.monotonic() - began < 2.0, "a stop waits for nothing that was not taken in"
    assert (it.handled, it.source.committed[PART]) == ([], 90)
    with Restarted() as it:
        it.task.drain()
        it.ids.answer = "c:one"
        until(lambda: it.task.is_drained)
        assert len(it.handled) == 10


def test_a_hold_counts_once_everything_is_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is asked for while the partitions are looked at has paused none of them yet: it is not drained."""
    handled: list[int] = []
    it = Running(lambda event: handled.append(event.record.offset), partitions=1)
    consumer = it.runtime.task.consumers[0]
    look, seen = consumer._flow.pause_and_resume, list[tuple[bool, bool]]()

    def looking(partitions: Any, *, on_hold: bool) -> None:
        look(partitions, on_hold=on_hold)
        if not on_hold:
            consumer.hold.set()  # the admin API's thread, at the worst moment

    monkeypatch.setattr(consumer._flow, "pause_and_resume", looking)
    keep = consumer._keep_house

    def keeping(**more: bool) -> None:
        keep(**more)
        seen.append((consumer.is_holding, all(state.paused for state in consumer.partitions.values())))

    monkeypatch.setattr(consumer, "_keep_house", keeping)
    with it:
        until(lambda: (True, True) in seen and bool(consumer.partitions))
    assert (True, False) not in seen


def test_a_log_that_begins_anew_loses_nothing_that_was_held_back() -> None:
    """What was read of the former log exists nowhere else."""
    with Restarted() as it:
        it.source.broker.remake(PART)
        it.source.produce(record(n, key=b"new") for n in range(3))
        it.consumer._source.resume([PART])  # it was fetched before the pause
        until(lambda: len(it.handled) == 13)
        assert sorted(it.handled) == [0, 1, 2, *range(90, 100)]


def _overtaken(
    *, end: int = 60, committed: int | None = 10, low: int = 40, **changes: Any
) -> tuple[Running, list[int]]:
    """A log whose start retention has moved beyond the commit."""
    handled: list[int] = []
    it = Running(lambda event: handled.append(event.record.offset), partitions=1, **changes)
    it.source.produce(record(n, key=b"%d" % n) for n in range(end))
    if committed is not None:
        it.source.broker.committed[PART] = committed
    it.source.broker.delete_before(PART, low)
    return it, handled


def test_a_position_that_retention_overtakes_is_noted_for_good() -> None:
    """An error, a metric, and a note in the commits, also after a restart."""
    it, handled = _overtaken()
    with it:
        it.wait_for_commit(60)
        assert sorted(handled) == list(range(40, 60))
        assert parse_note(it.source.broker.notes[PART]).skipped == ((10, 40),)
        assert it.total("wb_skipped_offsets_total", topic="t") == 30
    broker = it.source.broker
    broker.produce(record(n) for n in range(60, 63))
    again = Runtime(
        config(),
        {"*": lambda _e: None},
        make_source=lambda _c, _m: MemorySource(1, broker=broker),
        probe_log_ends=False,
    )
    again.start()
    until(lambda: broker.committed[PART] == 63)
    again.stop()
    assert parse_note(broker.notes[PART]).skipped == ((10, 40),)


def test_what_was_read_before_it_was_overtaken_is_handled_and_no_skip() -> None:
    """Records that the member already has are finished, and not told to be skipped; not even by a revocation."""
    go, handled = threading.Event(), []

    def handle(event: Event) -> None:
        handled.append(event.record.offset)
        go.wait(10)

    pool = ProcessorConfig(threads=1, queue_capacity=100)
    with Running(
        handle, partitions=1, default_processor=pool, max_poll_records=10, max_uncommitted_per_partition=20
    ) as it:
        it.source.produce(record(n) for n in range(200))
        until(lambda: PART in it.source.paused)
        read = it.source.positions[PART]
        it.source.broker.delete_before(PART, 100)
        go.set()
        it.wait_for_commit(200)
        assert handled == [*range(read), *range(100, 200)]
        assert parse_note(it.source.broker.notes[PART]).skipped == ((read, 100),)


@pytest.mark.parametrize("low", [40, 55], ids=["a_part", "all_of_it"])
def test_ranges_with_deleted_records_are_never_complete(low: int) -> None:
    """The rest is processed; then the process ends, with an error, and so does the next one."""
    it, handled = _overtaken(committed=0, low=low, ranges={"t": {0: [(0, 50)]}})
    with pytest.raises(GuardError, match="t-0"):
        it.runtime.run()
    assert sorted(handled) == list(range(low, 50))
    assert it.runtime.task.is_complete is False
    broker = it.source.broker
    again = Runtime(
        config(ranges={"t": {0: [(0, 50)]}}),
        {"*": lambda _e: None},
        make_source=lambda _c, _m: MemorySource(1, broker=broker),
        probe_log_ends=False,
    )
    with pytest.raises(GuardError, match="deleted"):
        again.run()


@pytest.mark.parametrize(
    ("committed", "before", "is_refused"),
    [
        (20, None, True),  # of a group that has read on behind the ranges
        (15, None, True),  # or amid them
        (15, [(10, 12), (14, 20)], True),  # of a run of other ranges
        (15, [(10, 20)], False),  # of a run of these ones, which goes on
        (10, None, False),  # where a replay has set it
        (5, None, False),
        (None, None, False),
    ],
)
def test_a_commit_of_another_run_is_no_run_of_the_ranges(
    committed: int | None, before: list[tuple[int, int]] | None, is_refused: bool
) -> None:
    """The group was used before: the run would be complete at once, and nothing of its ranges processed."""
    source, handled = MemorySource(1), list[int]()
    source.produce(record(n) for n in range(30))
    if committed is not None:
        source.broker.committed[PART] = committed
        mark = Ranges({"t": {0: before}}).mark(PART) if before is not None else None
        source.broker.notes[PART] = format_note(CommitNote(ranges=mark))
    runtime = Runtime(
        config(ranges={"t": {0: [(10, 20)]}}),
        {"*": lambda event: handled.append(event.record.offset)},
        make_source=lambda _c, _m: source,
        probe_log_ends=False,
    )
    if is_refused:
        with pytest.raises(GuardError, match=f"has a commit at {committed} on t-0, behind the start 10 of its ranges"):
            runtime.run()
        assert (handled, source.committed[PART]) == ([], committed)
    else:
        runtime.run()
        assert (sorted(handled), source.committed[PART]) == (list(range(max(10, committed or 0), 20)), 20)
        assert parse_note(source.broker.notes[PART]).ranges == Ranges({"t": {0: [(10, 20)]}}).mark(PART)


def test_ranges_of_a_log_that_begins_anew_are_refused() -> None:
    """Their offsets name other records there."""
    handled: list[int] = []
    with Running(lambda e: handled.append(e.record.offset), partitions=1, ranges={"t": {0: [(0, 10), (50, 60)]}}) as it:
        it.source.produce(record(n) for n in range(20))
        it.wait_for_commit(20)
        it.source.broker.remake(PART)
        it.source.produce(record(n) for n in range(5))
        until(lambda: isinstance(it.runtime.failure, GuardError))
    assert handled == list(range(10))


class Panic(BaseException):
    """As a panic of a library in Rust (PyO3's PanicException)."""


@pytest.mark.parametrize("error", [Panic, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_whatever_a_decoder_raises_costs_its_record_only(error: type[BaseException]) -> None:
    """If it ended the member, it would end the next owner at the same record."""
    handled: list[int] = []

    def decode(item: Record) -> Event:
        if item.offset == 1:
            raise error("no")
        return decode_by_header(item)

    with Running(lambda e: handled.append(e.record.offset), partitions=1, decode=decode) as it:
        it.source.produce(record(n) for n in range(3))
        it.wait_for_commit(3)
        assert it.total("wb_undecodable_total") == 1
    assert handled == [0, 2]


def test_records_without_a_key_have_the_order_of_their_partition_only() -> None:
    """One at a time in each partition, in order; partitions at the same time, also when one of them retries."""
    active: dict[int, int] = {}
    most, seen = [0], []
    lock = threading.Lock()

    def handle(event: Event) -> None:
        with lock:
            active[event.record.partition] = active.get(event.record.partition, 0) + 1
            assert active[event.record.partition] == 1
            most[0] = max(most[0], sum(active.values()))
            seen.append((event.record.partition, event.record.offset))
        time.sleep(0.01)
        with lock:
            active[event.record.partition] -= 1

    with Running(handle, partitions=4, default_processor=ProcessorConfig(threads=8, queues=2)) as it:
        it.source.produce(Record("t", part, n, None, b"v", 1) for n in range(10) for part in range(4))
        it.wait_for_commit(10, 10, 10, 10)
    assert most[0] > 1
    for part in range(4):
        assert [offset for number, offset in seen if number == part] == list(range(10))


@pytest.mark.parametrize(
    "change",
    [
        lambda e: setattr(e, "key", b"other"),
        lambda e: setattr(e, "type", None),
        lambda e: setattr(e, "record", e.record._replace(offset=77, topic="x")),
        lambda e: setattr(e, "attempt", "many"),
    ],
    ids=["key", "type", "record", "attempt"],
)
def test_a_handler_may_change_its_event(change: Callable[[Event], None]) -> None:
    """What is in its line, counted, retried and committed is what was read."""
    seen: list[tuple[int, bytes]] = []

    def handle(event: Event) -> None:
        seen.append((event.record.offset, event.key))
        change(event)
        if event.tries == 1:
            raise ValueError("again")

    pool = ProcessorConfig(threads=4, queues=1, max_attempts=2, retry_backoff_seconds=0.01)
    with Running(handle, partitions=1, default_processor=pool) as it:
        it.source.produce(record(n, key=b"A") for n in range(4))
        it.wait_for_commit(4)
        assert it.runtime.failure is None
    assert seen == [(n, b"A") for n in range(4) for _ in range(2)]


@pytest.mark.parametrize("where", ["queue", "retry", "delay", "held_back"])
def test_what_is_held_is_bounded_in_bytes(where: str) -> None:
    """Wherever records wait; and a record that is larger than the limit passes, alone."""
    limit, size = 100_000, 10_000
    go = threading.Event()

    def handle(_event: Event) -> None:
        if where == "retry" and not go.is_set():
            raise ValueError
        go.wait(20)

    def decode(item: Record) -> Event:
        event = decode_by_header(item)
        if where == "delay" and not go.is_set():
            event.delay_until_ms = round((time.time() + 2) * 1000)
        return event

    pool = ProcessorConfig(threads=2, max_attempts=10_000, retry_backoff_max_seconds=0.05)
    with Running(
        handle, partitions=2, decode=decode, max_held_bytes=limit, max_poll_records=50, default_processor=pool
    ) as it:
        value = b"v" * size
        it.source.produce(
            record(n, key=b"%d" % n, partition=p)._replace(value=value) for n in range(100) for p in range(2)
        )
        until(lambda: it.source.paused == {("t", 0), ("t", 1)} or it.total("wb_held_bytes") > limit)
        time.sleep(0.2)
        # A batch may be asked for before the size of the records is known.
        assert limit * 0.4 <= it.total("wb_held_bytes") <= limit + 50 * (size + 600)
        go.set()
        it.wait_for_commit(100, 100)
        until(lambda: it.total("wb_held_bytes") == 0)
        it.source.produce([record(100)._replace(value=b"v" * 3 * limit)])
        it.wait_for_commit(101)
