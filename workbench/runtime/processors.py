"""Processor threads: each takes events from its queue, one at a time, and reports their outcomes."""

from __future__ import annotations

import logging
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from workbench.runtime.config import ProcessorConfig, RuntimeConfig
from workbench.runtime.event import Dead, Done, Event, Failed, Handler, Lane, Outcome, Retry, Skip
from workbench.runtime.guarantee_counters import KeyWatch, Sentinels
from workbench.runtime.handler_result import NotHandledError, result_of
from workbench.runtime.keyed_queue import KeyedQueue
from workbench.signals import ProcessingOutcome as OutcomeLabel

_log = logging.getLogger(__name__)

_IDLE_SECONDS = 0.5  # longest wait for an event before the thread checks whether it should end
# Threads whose handler exceeds its timeout are replaced so that the queue continues, up to this number.
MAX_OVERDUE_PER_QUEUE = 4
ANY_TYPE = "*"  # the processor with this name handles all types without their own


class Reporter(Protocol):
    """Receives the reports of processors; every method may be called from any processor thread."""

    def attempted(self, event: Event, seconds: float, outcome: OutcomeLabel) -> None:
        """Report the end of one attempt."""

    def succeeded(self, event: Event, seconds: float) -> None:
        """Report both at once, as it is for nearly all: the end of an attempt with success, and that the event is finished."""

    def finished(self, event: Event) -> None:
        """Report that the event is finished: its offset may be committed."""

    def dead(self, event: Event, code: object) -> None:
        """Report a dead-lettered event; `finished` follows when its dead letter is delivered."""

    def wanted(self, event: Event) -> bool:
        """Whether its partition is still assigned."""


@dataclass(slots=True, eq=False)
class _Worker:
    """One processor thread, its current event, and the start time of that."""

    event: Event | None = None
    since: float = 0.0
    overdue: bool = False  # its event has timed out; the thread ends when the handler returns


@dataclass(slots=True, eq=False)
class Slot:
    """One queue with its threads (and the overdue threads that were replaced)."""

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
        return max(0, self.queue.capacity - len(self.queue))  # events that return for a retry may exceed the capacity

    def take_in(self, events: Sequence[Event]) -> Sequence[Event]:
        """See `Target`."""
        return self.queue.put(events)

    @property
    def in_flight(self) -> int:
        """Number of events whose handler runs."""
        return sum(worker.event is not None for worker in self.workers) + self.overdue

    def at_work(self) -> Iterator[Event]:
        """Events in flight (without the overdue ones)."""
        for worker in list(self.workers):
            if (event := worker.event) is not None:
                yield event


def queue_index(key: Lane, queues: int) -> int:
    """Queue number of a key, 0 to `queues` - 1; the same after restarts.

    librdkafka chooses the partition by `crc32(key) % partitions`, so the plain checksum would put all keys of a partition into a few
    queues. Multiplication by Knuth's 2^32/φ spreads them. The partitions of events without a key take turns.
    """
    if isinstance(key, bytes):
        return ((zlib.crc32(key) * 0x9E3779B1 & 0xFFFFFFFF) >> 12) % queues
    topic, partition = key
    return (zlib.crc32(topic.encode(errors="replace")) + partition) % queues


class ProcessorPool:
    """Queues and threads of one event type."""

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
        self._stopping = self._is_told = False
        self.failure: BaseException | None = None  # error that ended one of its threads, not caused by a handler

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
            # Timeouts replace threads; forget the ended ones.
            self._threads = [other for other in self._threads if other.is_alive()]
            thread.start()
            self._threads.append(thread)

    def slot_for(self, key: Lane) -> Slot:
        """Queue for events of this key."""
        return self.slots[queue_index(key, len(self.slots))]

    def stop(self, seconds: float) -> bool:
        """End the threads after their current events; return whether all ended in time."""
        self._stopping = True
        for slot in self.slots:
            slot.queue.close()
        deadline = self._clock() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - self._clock()))
        return not any(thread.is_alive() for thread in self._threads)

    def check_timeouts(self) -> None:
        """Dead-letter the events whose handler exceeds its timeout, and let their queues continue.

        A handler cannot be interrupted, so its thread is abandoned and replaced. The key stays parked until the handler returns, so two
        handlers never process the same key at once.
        """
        latest = self._clock() - self._config.timeout_seconds
        for slot in self.slots:
            for index, worker in enumerate(slot.workers):
                if worker.event is not None and worker.since <= latest:
                    self._give_up(slot, index, worker)

    def _give_up(self, slot: Slot, index: int, worker: _Worker) -> None:
        with slot.lock:
            if slot.workers[index] is not worker:
                return  # another consumer thread has dead-lettered it
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
        take, release, clock, handler = slot.queue.take, slot.queue.release, self._clock, self._handler
        wanted, succeeded = self._reporter.wanted, self._reporter.succeeded
        begins, ends = self._watch.begins, self._watch.ends
        while not self._stopping:
            event = take(_IDLE_SECONDS)
            if event is None:
                continue
            # First publish the event, then check whether it is wanted. The consumer thread does the opposite (marks the partition, then
            # reads the events in flight), so one of the two always sees the other.
            worker.since = began = clock()
            worker.event = event
            if not wanted(event):
                worker.event = None
                slot.queue.release(event.lane)
                continue
            begins(event)
            # What identifies the event is put back: a handler may change its own view of it, not what is counted, retried or given up.
            kind, key, record = event.type, event.key, event.record
            attempt, tries = event.attempt, event.tries
            try:
                outcome = handler(event)
                if outcome is not None and not isinstance(outcome, Outcome):
                    outcome = result_of(outcome)
            except NotHandledError as error:
                self._tell_once(error)
                outcome = Retry()
            except BaseException as error:
                # Also SystemExit (a library's `sys.exit`) and a cancelled task: if the thread ended, the key would stay parked forever.
                _log.debug("processor %s: attempt %d failed", self.name, attempt, exc_info=error)
                outcome = Retry()
            event.type, event.key, event.record = kind, key, record
            event.attempt, event.tries = attempt, tries
            ends(event)
            with slot.lock:
                if worker.overdue:
                    slot.overdue -= 1
                    slot.queue.release(event.lane)
                    return  # another thread has replaced this one
                    # Not overdue, and from here on never: the timeout check reads the start time under this lock.
                worker.since = float("inf")
            seconds = clock() - began
            # A handler that returns another value (an id, a row count) has succeeded; a failure is an exception.
            if outcome is None or not isinstance(outcome, Outcome) or isinstance(outcome, Done):
                release(event.lane)
                succeeded(event, seconds)
            else:
                self._settle(slot, event, outcome, seconds)
            worker.event = None  # only now: a thread that waits for it also finds the completion

    def _tell_once(self, error: NotHandledError) -> None:
        """Where its events go wrong at each attempt, more than one error would fill the log."""
        if not self._is_told:
            self._is_told = True
            _log.error("processor %s: %s; such events are tried again and given up", self.name, error)

    def _settle(self, slot: Slot, event: Event, outcome: Outcome, seconds: float) -> None:
        reporter = self._reporter
        if isinstance(outcome, Retry) and (event.attempt < self._config.max_attempts or not outcome.counted):
            reporter.attempted(event, seconds, OutcomeLabel.RETRY)
            after = self._backoff(event.tries) if outcome.after is None else outcome.after
            event.attempt += outcome.counted
            event.tries += 1
            slot.queue.park(event, after=after)
            return
        slot.queue.release(event.lane)
        match outcome:
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
        # Limit the exponent as well: an outage of hours would overflow the float.
        doubled = self._config.retry_backoff_seconds * 2.0 ** min(attempt - 1, 60)
        return min(self._config.retry_backoff_max_seconds, doubled)


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
        """Pool of this type, or None."""
        return self._pools.get(event_type, self._any)
