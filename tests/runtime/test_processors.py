"""Rules of processor pools: an overdue event is given up once, and no handler can take a thread or a key with it."""

from __future__ import annotations

import asyncio
import sys
import threading
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from multiprocessing.pool import AsyncResult
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runtime.helpers import Clock, event, until
from workbench.runtime import Dead, Event, ProcessorConfig, Retry
from workbench.runtime.processors import ProcessorPool
from workbench.runtime.runtime_metrics import RuntimeMetrics
from workbench.signals import ProcessingOutcome


class Noted:
    """Takes what processors report."""

    def __init__(self) -> None:
        self.attempts: list[tuple[int, ProcessingOutcome]] = []
        self.done: list[int] = []
        self.given_up: list[tuple[int, object]] = []

    def attempted(self, event: Event, seconds: float, outcome: ProcessingOutcome) -> None:
        self.attempts.append((event.record.offset, outcome))

    def succeeded(self, event: Event, seconds: float) -> None:
        self.attempted(event, seconds, ProcessingOutcome.OK)
        self.finished(event)

    def finished(self, event: Event) -> None:
        self.done.append(event.record.offset)

    def dead(self, event: Event, code: object) -> None:
        self.given_up.append((event.record.offset, code))

    def wanted(self, event: Event) -> bool:
        return True


class Pool:
    """One pool on a clock of its own."""

    def __init__(self, handler: Callable[[Event], Any], **changes: Any) -> None:
        self.noted, self.clock = Noted(), Clock()
        self.metrics = RuntimeMetrics("g", gauges=lambda: ())
        self.pool = ProcessorPool(
            "x",
            handler,
            ProcessorConfig(**{"threads": 1, "timeout_seconds": 1.0, "retry_backoff_seconds": 0.0, **changes}),
            reporter=self.noted,
            sentinels=self.metrics.sentinels,
            clock=self.clock,
        )
        self.pool.start()
        [self.slot] = self.pool.slots

    def broken(self) -> int:
        return sum(self.metrics.sentinels.readings().values())


def test_an_overdue_event_is_given_up_once_whoever_looks() -> None:
    """Several consumer threads check the timeouts of one pool: one dead letter, one successor, no leaked place, no overlap."""
    release, active = threading.Event(), set()

    def handle(item: Event) -> None:
        if item.record.offset == 0:
            release.wait(20)
            return
        assert item.key not in active
        active.add(item.key)
        threading.Event().wait(0.005)
        active.discard(item.key)

    it = Pool(handle)
    it.slot.queue.put([event(0, key=b"a")])
    until(lambda: list(it.slot.at_work()))
    it.clock.now += 5
    looks = [threading.Thread(target=it.pool.check_timeouts) for _ in range(3)]
    with it.slot.queue._lock:  # holds the window open: the first that gives it up stands here, the others behind it
        for look in looks:
            look.start()
        threading.Event().wait(0.2)
    for look in looks:
        look.join(10)
    assert it.noted.given_up == [(0, "timeout")]
    assert it.slot.overdue == 1
    it.slot.queue.put([event(number, key=b"b") for number in range(1, 9)])
    until(lambda: len(it.noted.done) == 8)
    release.set()
    until(lambda: it.slot.overdue == 0)
    assert it.broken() == 0
    assert it.pool.stop(5)


@pytest.mark.parametrize("raised", [SystemExit(1), CancelledError(), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_what_a_handler_raises_ends_its_attempt_and_nothing_else(raised: BaseException) -> None:
    """`sys.exit` in a library, a cancelled task: the event is tried again and given up, its key and thread go on."""

    def handle(item: Event) -> None:
        if item.record.offset == 0:
            raise raised

    it = Pool(handle, max_attempts=2)
    it.slot.queue.put([event(0, key=b"a"), event(1, key=b"a"), event(2, key=b"b")])
    until(lambda: sorted(it.noted.done) == [1, 2])
    assert it.noted.given_up == [(0, "retries_exhausted")]
    assert [outcome for offset, outcome in it.noted.attempts if offset == 0] == [
        ProcessingOutcome.RETRY,
        ProcessingOutcome.FAILED,
    ]
    assert it.pool.failure is None
    assert it.pool.stop(5)


@pytest.mark.parametrize("after", [float("nan"), float("inf"), -1, "soon"])
def test_a_retry_at_no_time_is_a_failed_attempt(after: Any) -> None:
    """In the queue such a time would keep its key, or all keys behind it, for good."""
    it = Pool(lambda item: Retry(after=after) if item.record.offset == 0 else None, max_attempts=2)
    it.slot.queue.put([event(0, key=b"a"), event(1, key=b"a")])
    until(lambda: it.noted.done == [1])
    assert it.noted.given_up == [(0, "retries_exhausted")]
    assert it.pool.stop(5)


async def _later(_item: Event) -> None:
    raise AssertionError("never run")


def _in_parts(_item: Event) -> Iterator[int]:
    yield 1


class _Pending:
    """As the futures of gRPC, Dask and others."""

    def add_done_callback(self, _call: object) -> None: ...


class _Sent:
    """As the futures of kafka-python."""

    def add_callback(self, _call: object) -> None: ...


def _in_a_loop(_item: Event) -> asyncio.Future[None]:
    loop = asyncio.new_event_loop()
    try:
        return loop.create_future()
    finally:
        loop.close()


@pytest.mark.parametrize(
    "value",
    [
        _later,
        _in_parts,
        lambda _item: Retry,
        lambda _item: Dead,
        lambda item: map(_later, [item]),
        lambda item: _ended(_later(item)),
        lambda _item: _ended(Retry),
        lambda _item: _Pending(),
        lambda _item: _Sent(),
        lambda _item: AsyncResult(SimpleNamespace(_cache={}), None, None),  # type: ignore[arg-type]
        lambda _item: threading.Thread(),
        _in_a_loop,
    ],
)
def test_a_value_that_tells_that_nothing_was_done_is_a_failed_attempt(
    value: Callable[[Event], Any], caplog: pytest.LogCaptureFixture
) -> None:
    """What nobody awaits, iterates over or waits for; `return Retry` without its brackets: never a success. The log says why, once."""
    it = Pool(lambda item: value(item) if item.record.offset == 0 else "an id", max_attempts=2)
    it.slot.queue.put([event(0, key=b"a"), event(1, key=b"a")])
    until(lambda: it.noted.done == [1])
    assert it.noted.given_up == [(0, "retries_exhausted")]
    assert [it.levelname for it in caplog.records if "returned" in it.getMessage()] == ["ERROR"]
    assert it.pool.stop(5)


def _ended(value: object) -> Future[object]:
    future: Future[object] = Future()
    future.set_result(value)
    return future


def test_a_future_is_done_when_its_work_is() -> None:
    """`return executor.submit(…)`: its result counts as the handler's would, and its key waits for it."""
    futures = [Future[object]() for _ in range(4)]
    it = Pool(lambda item: futures[item.record.offset], max_attempts=1)
    it.slot.queue.put([event(number, key=b"a") for number in range(4)])
    until(lambda: [item.record.offset for item in it.slot.at_work()] == [0])
    assert it.noted.done == []
    futures[0].set_result(_ended("an id"))
    until(lambda: it.noted.done == [0])
    futures[1].set_exception(ValueError("cannot"))
    futures[2].set_result(Dead("600"))
    futures[3].cancel()
    until(lambda: len(it.noted.given_up) == 3)
    assert it.noted.given_up == [(1, "retries_exhausted"), (2, "600"), (3, "retries_exhausted")]
    assert it.noted.done == [0] and it.pool.failure is None
    assert it.pool.stop(5)


def test_a_future_that_does_not_end_is_given_up_in_time() -> None:
    """As a handler that does not return; its key waits for what may still run."""
    future = Future[object]()
    it = Pool(lambda item: future if item.record.offset == 0 else None)
    it.slot.queue.put([event(0, key=b"a"), event(1, key=b"a"), event(2, key=b"b")])
    until(lambda: list(it.slot.at_work()))
    it.clock.now += 5
    it.pool.check_timeouts()
    until(lambda: it.noted.done == [2])
    assert it.noted.given_up == [(0, "timeout")]
    future.set_result(None)
    until(lambda: it.noted.done == [2, 1])
    assert it.pool.stop(5)


def test_what_ends_a_thread_is_kept() -> None:
    """A report that cannot be made is no fault of the event: the runtime must end, or the key would wait for ever."""
    it = Pool(lambda _item: None)
    it.noted.finished = lambda _event: sys.exit("no room")  # type: ignore[method-assign]
    it.slot.queue.put([event(0)])
    until(lambda: it.pool.failure is not None)
    assert isinstance(it.pool.failure, SystemExit)


def test_timeouts_leave_nothing_behind() -> None:
    """A handler that overruns its time again and again costs a thread each time, and neither its object nor its counts pile up."""
    go, metrics = threading.Semaphore(0), RuntimeMetrics("g", gauges=lambda: ())

    def handle(item: Event) -> None:
        metrics.attempted("t", "x", ProcessingOutcome.OK, 0.0)
        go.acquire(timeout=20)

    it = Pool(handle)
    for number in range(20):
        it.slot.queue.put([event(number, key=str(number).encode())])
        until(lambda: list(it.slot.at_work()))
        it.clock.now += 5
        it.pool.check_timeouts()
        go.release()
        until(lambda: it.slot.overdue == 0)
    assert len(it.noted.given_up) == 20
    assert len(it.pool._threads) <= 3
    assert len(metrics._attempts._pages) <= 3
    [(_, _, outcomes)] = metrics._attempts.totals()
    assert outcomes == {ProcessingOutcome.OK: 20}
    assert it.pool.stop(5)
