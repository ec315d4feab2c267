"""Processor threads: each takes events from its queue, one at a time, and reports how they ended."""

from __future__ import annotations

import logging
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from workbench.runtime.config import ProcessorConfig, RuntimeConfig
from workbench.runtime.event import Dead, Done, Event, Failed, Handler, Outcome, Retry, Skip
from workbench.runtime.queues import KeyedQueue
from workbench.runtime.sentinels import KeyWatch, Sentinels
from workbench.signals import ProcessingOutcome as OutcomeLabel

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

    def dead(self, event: Event, code: object) -> None:
        """The event is given up; `finished` follows when its dead letter is safe."""

    def wanted(self, event: Event) -> bool:
        """Whether its partition is still ours."""


@dataclass(slots=True, eq=False)
class _Worker:
    """One processor thread, and the event it has at hand since an instant of the clock."""

    event: Event | None = None
    since: float = 0.0
    overdue: bool = False  # its event was given up; the thread ends when the handler returns


@dataclass(slots=True, eq=False)
class Slot:
    """One queue with its threads (and the overdue ones that were replaced)."""

    index: int
    queue: KeyedQueue
    workers: list[_Worker] = field(default_factory=list)
    overdue: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fill(self) -> float:
        """See `Target`."""
        return self.queue.fill()

    def room(self) -> int:
        """See `Target`."""
        return max(
            0, self.queue.capacity - len(self.queue)
        )  # events that come back for a retry may stand over the capacity

    def take_in(self, events: Sequence[Event]) -> Sequence[Event]:
        """See `Target`."""
        return self.queue.put(events)

    @property
    def in_flight(self) -> int:
        """Events whose handler runs."""
        return sum(worker.event is not None for worker in self.workers) + self.overdue

    def at_work(self) -> Iterator[Event]:
        """The events whose handlers run and still count (not the overdue ones)."""
        for worker in list(self.workers):
            if (event := worker.event) is not None:
                yield event


def queue_index(key: bytes, queues: int) -> int:
    """Which of `queues` a key goes to; stable over restarts.

    librdkafka chooses the partition by `crc32(key) % partitions`, so the plain checksum would send all keys of a partition to few
    queues; the multiplication (Knuth's 2^32/φ) spreads them.
    """
    return ((zlib.crc32(key) * 0x9E3779B1 & 0xFFFFFFFF) >> 12) % queues


class ProcessorPool:
    """The queues and threads of one event type."""

    def __init__(
        self,
        name: str,
        handler: Handler,
        config: ProcessorConfig,
        *,
        reporter: Reporter,
        sentinels: Sentinels,
        clock: Callable[[], float],
    ) -> None:
        self.name = name
        self._handler = handler
        self._config = config
        self._reporter = reporter
        self._watch = KeyWatch(sentinels)
        self._clock = clock
        queues = config.queues or config.threads
        shares = [config.threads // queues + (index < config.threads % queues) for index in range(queues)]
        self.slots = [
            Slot(
                index, KeyedQueue(config.queue_capacity, clock=clock, readers=share), [_Worker() for _ in range(share)]
            )
            for index, share in enumerate(shares)
        ]
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()  # of that list
        self._stopping = False
        self.failure: BaseException | None = None  # what one of its threads has died of, through no fault of a handler

    def start(self) -> None:
        """Start all threads."""
        for slot in self.slots:
            for worker in slot.workers:
                self._start_thread(slot, worker)

    def _start_thread(self, slot: Slot, worker: _Worker) -> None:
        thread = threading.Thread(
            target=self._serve, args=(slot, worker), name=f"{self.name}-{slot.index}", daemon=True
        )
        with self._lock:
            # Timeouts replace threads; those that have ended are forgotten.
            self._threads = [other for other in self._threads if other.is_alive()]
            thread.start()
            self._threads.append(thread)

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
        latest = self._clock() - self._config.timeout_seconds
        for slot in self.slots:
            for index, worker in enumerate(slot.workers):
                if worker.event is not None and worker.since <= latest:
                    self._give_up(slot, index, worker)

    def _give_up(self, slot: Slot, index: int, worker: _Worker) -> None:
        with slot.lock:
            if slot.workers[index] is not worker:
                return  # another consumer thread has given it up
            event = worker.event
            seconds = self._clock() - worker.since
            if event is None or seconds < self._config.timeout_seconds or slot.overdue >= MAX_OVERDUE_PER_QUEUE:
                return
            worker.overdue = True
            slot.overdue += 1
            slot.queue.park(event, after=None)
            self._reporter.dead(event, "timeout")
            successor = slot.workers[index] = _Worker()
        self._reporter.attempted(event, seconds, OutcomeLabel.TIMEOUT)
        self._start_thread(slot, successor)

    def _serve(self, slot: Slot, worker: _Worker) -> None:
        try:
            self._run(slot, worker)
        except BaseException as error:
            self.failure = error
            _log.exception("a thread of processor %s has ended", self.name)

    def _run(self, slot: Slot, worker: _Worker) -> None:
        take, clock, wanted, watch = slot.queue.take, self._clock, self._reporter.wanted, self._watch
        while not self._stopping:
            event = take(_IDLE_SECONDS)
            if event is None:
                continue
            # First say what is at work, then ask whether it is wanted; the consumer thread does the opposite (marks the partition,
            # then looks who is at work on it), so one of the two always sees the other.
            worker.since = began = clock()
            worker.event = event
            if not wanted(event):
                worker.event = None
                slot.queue.release(event.key)
                continue
            watch.begins(event)
            outcome = self._handle(event)
            watch.ends(event)
            with slot.lock:
                if worker.overdue:
                    slot.overdue -= 1
                    slot.queue.release(event.key)
                    return  # another thread has this place now
                # Not overdue, and from here on never: who checks asks under this lock how long it has been.
                worker.since = float("inf")
            self._settle(slot, event, outcome, clock() - began)
            worker.event = None  # only now: whoever waits for it also finds the completion

    def _handle(self, event: Event) -> Outcome:
        try:
            result = self._handler(event)
            # A handler that returns something of its own (an id, a row count) has done its work; failure is an exception.
            return result if isinstance(result, Outcome) else _DONE
        except BaseException as error:
            # Also SystemExit (a library's `sys.exit`) and a cancelled task: the thread's end would keep the key for good.
            _log.debug("processor %s: attempt %d failed", self.name, event.attempt, exc_info=error)
            return Retry()

    def _settle(self, slot: Slot, event: Event, outcome: Outcome, seconds: float) -> None:
        reporter = self._reporter
        if isinstance(outcome, Retry) and (event.attempt < self._config.max_attempts or not outcome.counted):
            reporter.attempted(event, seconds, OutcomeLabel.RETRY)
            after = self._backoff(event.tries) if outcome.after is None else outcome.after
            event.attempt += outcome.counted
            event.tries += 1
            slot.queue.park(event, after=after)
            return
        slot.queue.release(event.key)
        match outcome:
            case Done():
                reporter.attempted(event, seconds, OutcomeLabel.OK)
                reporter.finished(event)
            case Skip():
                reporter.attempted(event, seconds, OutcomeLabel.SKIP)
                reporter.finished(event)
            case Dead(code):
                reporter.attempted(event, seconds, OutcomeLabel.DEAD)
                reporter.dead(event, code)
            case Failed(reason):
                reporter.attempted(event, seconds, OutcomeLabel.FAILED)
                reporter.dead(event, reason)
            case Retry():
                reporter.attempted(event, seconds, OutcomeLabel.FAILED)
                reporter.dead(event, "retries_exhausted")

    def _backoff(self, attempt: int) -> float:
        # The exponent is bounded, too: an outage of hours would overflow the float.
        doubled = self._config.retry_backoff_seconds * 2.0 ** min(attempt - 1, 60)
        return min(self._config.retry_backoff_max_seconds, doubled)


_DONE = Done()


class Processors:
    """All pools of a runtime, by event type."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        config: RuntimeConfig,
        *,
        reporter: Reporter,
        sentinels: Sentinels,
        clock: Callable[[], float],
    ) -> None:
        self._pools = {
            name: ProcessorPool(
                name, handler, config.processor(name), reporter=reporter, sentinels=sentinels, clock=clock
            )
            for name, handler in handlers.items()
        }
        self._any = self._pools.get(ANY_TYPE)

    def __iter__(self) -> Iterator[ProcessorPool]:
        return iter(self._pools.values())

    def pool_for(self, event_type: str) -> ProcessorPool | None:
        """The pool that handles this type, if any does."""
        return self._pools.get(event_type, self._any)
