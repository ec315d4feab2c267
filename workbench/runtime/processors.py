"""Processor threads: each takes events from its own queue, one at a time, and reports how they ended."""

from __future__ import annotations

import logging
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from workbench.runtime.config import ProcessorConfig, RuntimeConfig
from workbench.runtime.event import Dead, Done, Event, Failed, Handler, Outcome, Retry, Skip
from workbench.runtime.queues import KeyedQueue
from workbench.signals import Outcome as OutcomeLabel

_log = logging.getLogger(__name__)

_IDLE_SECONDS = 0.5  # how long a processor waits for an event before it looks whether it should end
# Threads that a handler keeps beyond its timeout are replaced, so that its queue goes on; but not without end.
MAX_OVERDUE_PER_QUEUE = 4
ANY_TYPE = "*"  # a processor under this name handles the types that have none of their own


class Reporter(Protocol):
    """What a processor tells about its events; every method may be called from any processor thread."""

    def attempted(self, event: Event, seconds: float, outcome: OutcomeLabel) -> None:
        """One attempt has ended."""

    def finished(self, event: Event) -> None:
        """The event needs nothing more: its offset may be committed."""

    def dead(self, event: Event, code: str) -> None:
        """The event is given up; `finished` follows when its dead letter is safe."""

    def wanted(self, event: Event) -> bool:
        """Whether its partition is still ours."""


@dataclass(slots=True)
class _Work:
    """What a processor thread is doing."""

    event: Event
    since: float
    ended: bool = False
    overdue: bool = False


@dataclass(slots=True)
class Slot:
    """One queue with its thread (and the overdue threads that it replaced)."""

    index: int
    queue: KeyedQueue
    work: _Work | None = None
    overdue: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


def queue_index(key: bytes, queues: int) -> int:
    """Which of `queues` a key goes to; stable over restarts.

    librdkafka chooses the partition by `crc32(key) % partitions`, so the plain checksum would send all keys of a partition to few
    queues; the multiplication (Knuth's 2^32/φ) spreads them.
    """
    return ((zlib.crc32(key) * 0x9E3779B1 & 0xFFFFFFFF) >> 12) % queues


class ProcessorPool:
    """The processor threads of one event type."""

    def __init__(
        self,
        name: str,
        handler: Handler,
        config: ProcessorConfig,
        *,
        reporter: Reporter,
        clock: Callable[[], float],
    ) -> None:
        self.name = name
        self._handler = handler
        self._config = config
        self._reporter = reporter
        self._clock = clock
        self._stopping = False
        self._threads: list[threading.Thread] = []
        self.slots = [Slot(index, KeyedQueue(config.queue_capacity, clock=clock)) for index in range(config.threads)]

    def start(self) -> None:
        """Start the threads."""
        for slot in self.slots:
            self._start_thread(slot)

    def _start_thread(self, slot: Slot) -> None:
        thread = threading.Thread(target=self._run, args=(slot,), name=f"{self.name}-{slot.index}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def slot_for(self, key: bytes) -> Slot:
        """Where events of this key wait."""
        return self.slots[queue_index(key, len(self.slots))]

    def stop(self, seconds: float) -> bool:
        """Let the threads end after the event each has at hand; whether they all did in time."""
        self._stopping = True
        for slot in self.slots:
            slot.queue.close()
        deadline = self._clock() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - self._clock()))
        return not any(thread.is_alive() for thread in self._threads)

    def check_timeouts(self) -> None:
        """Give up the events whose handler overruns its time, and let their queues go on.

        The handler cannot be interrupted, so its thread is left to it and another takes its place; the key stays parked until the
        handler returns, so that no two handlers ever work on one key.
        """
        now = self._clock()
        for slot in self.slots:
            work = slot.work
            if work is None or work.ended or now - work.since < self._config.timeout_seconds:
                continue
            with slot.lock:
                if slot.work is not work or work.ended or slot.overdue >= MAX_OVERDUE_PER_QUEUE:
                    continue
                work.overdue = True
                slot.overdue += 1
                slot.work = None
                slot.queue.park(work.event, after=None)
            self._reporter.attempted(work.event, now - work.since, OutcomeLabel.TIMEOUT)
            self._reporter.dead(work.event, "timeout")
            self._start_thread(slot)

    def _run(self, slot: Slot) -> None:
        while not self._stopping:
            event = slot.queue.take(_IDLE_SECONDS)
            if event is None:
                continue
            # First say what is at work, then ask whether it is wanted; the consumer thread does the opposite (marks the partition,
            # then looks who is at work on it), so one of the two always sees the other.
            work = slot.work = _Work(event, self._clock())
            if not self._reporter.wanted(event):
                slot.work = None
                slot.queue.release(event.key)
                continue
            outcome = self._handle(event)
            with slot.lock:
                work.ended = True
                if work.overdue:
                    slot.overdue -= 1
                    slot.queue.release(event.key)
                    return  # another thread has this queue now
            self._settle(slot, event, outcome, self._clock() - work.since)
            slot.work = None  # only now: whoever waits for it also finds the completion

    def _handle(self, event: Event) -> Outcome:
        try:
            result = self._handler(event)
            # A handler that returns something of its own (an id, a row count) has done its work; failure is an exception.
            return result if isinstance(result, Outcome) else Done()
        except Exception as error:
            _log.debug("processor %s: attempt %d failed", self.name, event.attempt, exc_info=error)
            return Retry()

    def _settle(self, slot: Slot, event: Event, outcome: Outcome, seconds: float) -> None:
        if isinstance(outcome, Retry) and event.attempt < self._config.max_attempts:
            self._reporter.attempted(event, seconds, OutcomeLabel.RETRY)
            after = self._backoff(event.attempt) if outcome.after is None else outcome.after
            event.attempt += 1
            slot.queue.park(event, after=after)
            return
        slot.queue.release(event.key)
        match outcome:
            case Done():
                self._reporter.attempted(event, seconds, OutcomeLabel.OK)
                self._reporter.finished(event)
            case Skip():
                self._reporter.attempted(event, seconds, OutcomeLabel.SKIP)
                self._reporter.finished(event)
            case Dead(code):
                self._reporter.attempted(event, seconds, OutcomeLabel.DEAD)
                self._reporter.dead(event, code)
            case Failed(reason):
                self._reporter.attempted(event, seconds, OutcomeLabel.FAILED)
                self._reporter.dead(event, reason)
            case Retry():
                self._reporter.attempted(event, seconds, OutcomeLabel.FAILED)
                self._reporter.dead(event, "retries_exhausted")

    def _backoff(self, attempt: int) -> float:
        return min(self._config.retry_backoff_max_seconds, self._config.retry_backoff_seconds * 2.0 ** (attempt - 1))


class Processors:
    """All pools of a runtime, by event type."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        config: RuntimeConfig,
        *,
        reporter: Reporter,
        clock: Callable[[], float],
    ) -> None:
        self._pools = {
            name: ProcessorPool(name, handler, config.processor(name), reporter=reporter, clock=clock)
            for name, handler in handlers.items()
        }
        self._any = self._pools.get(ANY_TYPE)

    def __iter__(self) -> Iterator[ProcessorPool]:
        return iter(self._pools.values())

    def pool_for(self, event_type: str) -> ProcessorPool | None:
        """The pool that handles this type, if any does."""
        return self._pools.get(event_type, self._any)
