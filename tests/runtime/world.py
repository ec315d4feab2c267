"""A whole runtime in a world that a test moves step by step: its clock, its broker, its handlers, its producer of dead letters.

Consumers are stepped by the test, processors and dead letters have their own threads. What must hold is judged by a naive oracle that
knows only what was written, what handlers did, which letters were taken, and what the broker was told.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from tests.runtime.helpers import Clock
from tests.runtime.memory import MemoryBroker, MemorySource
from workbench.commit_note import parse_note
from workbench.layers.rows import GONE, POINTS, AuditRow, parse_lines
from workbench.runtime import Dead, Event, Failed, Record, Retry, RuntimeConfig, Skip
from workbench.runtime.event import TopicPartition
from workbench.runtime.group_task import Seams, Task

PARTITIONS, CONSUMERS = 3, 2
Place = tuple[int, int, int]  # partition, leader epoch, offset
RangesByPartition = dict[int, list[tuple[int, int]]]
BEHAVIOURS = (
    *("ok",) * 10,
    *("big",) * 3,
    *("skip", "retry", "uncounted", "fail", "dead", "odd_code", "large", "slow", "exit", "undecodable", "late"),
    *("panic", "decoder_panic", "changes"),
)
BIG_BYTES, HELD_BYTES, BATCH = 20_000, 6000, 4


class Panic(BaseException):
    """As a panic of a library in Rust."""


class Ids:
    """Topic ids; the broker answers when the test says so."""

    def __init__(self, world: World) -> None:
        self._world = world

    def known(self, _topic: str) -> tuple[str, float] | None:
        return ("c:one", self._world.ids_asked_at) if self._world.ids_asked_at is not None else None

    def ask_soon(self, _topic: str) -> bool:
        return True


class Letters:
    """A producer of dead letters whose topic takes them, refuses them, finds them too large, or which fails for good."""

    def __init__(self, world: World, process: int) -> None:
        self._world, self._process = world, process
        self._reports: deque[tuple[Any, int | None]] = deque()
        self._dead = False

    def produce(self, _topic: str, *, value: Any, key: Any, headers: Any, on_delivery: Any) -> None:
        if self._dead:
            raise KafkaException(KafkaError(KafkaError._FATAL))
        mode = self._world.letters
        said = {name: text for name, text in headers if name.startswith("wb_")}
        code: int | None = None
        if mode == "fatal":
            self._world.letters, self._dead, code = "ok", True, KafkaError._FATAL
        elif mode == "refuse":
            code = KafkaError.NOT_ENOUGH_REPLICAS
        elif value == b"large":
            code = KafkaError.MSG_SIZE_TOO_LARGE
        if code is None and self._process == self._world.process:
            self._world.lettered.add((int(said["wb_partition"]), int(said["wb_timestamp_ms"]), int(said["wb_offset"])))
        self._reports.append((on_delivery, code))

    def poll(self, timeout: float) -> None:
        if not self._reports:
            time.sleep(min(timeout, 0.001))
        while self._reports:
            report, code = self._reports.popleft()
            report(None if code is None else KafkaError(code), None)

    def purge(self) -> None:
        """Nothing is under way here but reports."""

    def flush(self, timeout: float) -> None:
        self.poll(0)


class Rows:
    """Takes rows for an audit: at once, when the test says so, or never."""

    def __init__(self, world: World, process: int) -> None:
        self._world, self._process = world, process

    def put(self, lines: Sequence[str]) -> Rows:
        world = self._world
        if self._process == world.process:
            if world.rows_mode == "lost":
                world.rows_lost = True
            else:
                world.rows += parse_lines(lines)
        return self

    @property
    def is_over(self) -> bool:
        return self._world.rows_mode != "slow"

    def claim(self) -> None:
        """Commits keep the numbers of tasks."""

    def close(self, seconds: float) -> None:
        """Nothing is under way."""


class JudgedBroker(MemoryBroker):
    """Takes commits only from the living process, and shows each to the oracle."""

    world: World

    def store(
        self,
        offsets: Mapping[TopicPartition, int],
        epochs: Mapping[TopicPartition, int],
        notes: Mapping[TopicPartition, str],
    ) -> dict[TopicPartition, str]:
        with self.lock:
            for part, offset in offsets.items():
                self.world.judge_commit(part, offset, epochs.get(part), notes.get(part))
            return super().store(offsets, epochs, notes)


class World:
    """See the module."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.process = 0  # counts restarts: what belongs to an earlier one is dead
        self.broken: list[str] = []
        self.letters = "ok"
        self.rows_mode = "ok"
        self.ids_asked_at: float | None = None
        self.ranges: RangesByPartition | None = None  # of the group
        self.written: dict[tuple[int, int], list[Record]] = defaultdict(list)  # by partition and epoch, deleted or not
        self.behaviours: dict[Place, str] = {}
        self.gates: dict[Place, threading.Event] = {}
        self._forget()
        self.broker = self._new_broker(None)
        self.owners: dict[TopicPartition, int | None] = dict.fromkeys(self.broker.logs)
        self.task = self._new_task()

    def _forget(self) -> None:
        """What the oracle knows of one group."""
        self.finished: set[Place] = set()  # by a handler, for good
        self.lettered: set[Place] = set()
        self.begun: dict[tuple[int, int, bytes], list[int]] = defaultdict(
            list
        )  # offsets in the order of their first handling
        self.active: dict[object, Place] = {}
        self.blocked: set[Place] = set()
        self.put: dict[int, int] = defaultdict(int)  # letters by event
        self.rows: list[AuditRow] = []
        self.rows_lost = False
        self.untold: dict[int, set[int]] = defaultdict(set)
        self.cut: set[int] = set()  # partitions whose log began anew
        self.kept: list[Event] = []  # those events, so that no two have one identity

    def _new_broker(self, before: JudgedBroker | None) -> JudgedBroker:
        made = JudgedBroker(PARTITIONS)
        if before is not None:
            made.logs, made.starts, made.epochs, made.lock = before.logs, before.starts, before.epochs, before.lock
        made.world = self
        # A group without a commit knows where it is to begin; otherwise what retention takes before it reads was never promised.
        self.begin = {part: made.starts[part] for part in made.logs}
        self.begin |= {("t", part): found[0][0] for part, found in (self.ranges or {}).items()}
        return made

    def _new_task(self) -> Task:
        process = self.process
        config = RuntimeConfig.parse(
            {
                "bootstrap": "127.0.0.1:9",
                "group": "g",
                "topics": ["t"],
                "client_id": "w",
                "consumers": CONSUMERS,
                "commit_interval_seconds": 0.1,
                "rebalance_drain_seconds": 0.05,
                "shutdown_seconds": 0.2,
                "max_poll_records": BATCH,
                "max_held_bytes": HELD_BYTES,
                "ranges": None if self.ranges is None else {"t": self.ranges},
                "max_uncommitted_per_partition": 8,
                "carry_over_per_partition": 3,
                "delay_capacity": 2,
                "dead_letter_topic": "dlq",
                "audit": {"topic": "audit", "wait_seconds": 1.0},
                "default_processor": {
                    "threads": 3,
                    "queues": 2,
                    "queue_capacity": 3,
                    "timeout_seconds": 2.0,
                    "max_attempts": 2,
                    "retry_backoff_seconds": 0.1,
                },
            }
        )
        seams = Seams(
            clock=self.clock,
            wall_clock=self.clock,
            sleep=self._sleep,
            make_producer=lambda _properties: Letters(self, process),  # type: ignore[arg-type,return-value]
            rows=Rows(self, process),
        )
        task = Task(
            config,
            {"*": lambda event: self._handle(event, process)},
            decode=self._decode,
            make_source=lambda _config, _member: MemorySource(  # type: ignore[arg-type,return-value]
                broker=self.broker, alone=False, sleep=self._sleep
            ),
            probe_log_ends=False,
            seams=seams,
        )
        assert task._letters is not None
        put = task._letters.put

        def counting(event: Event, code: object, *, safe: Any) -> None:
            self.put[id(event)] += 1
            self.kept.append(event)
            put(event, code, safe=safe)

        task._letters.put = counting  # type: ignore[method-assign]
        for pool in task.processors:
            pool.start()
        for consumer in task.consumers:
            consumer._identity._ids = Ids(self)
            source: Any = consumer._source
            source.begin = self.begin
            source.subscribe(["t"], consumer)
        return task

    def _sleep(self, seconds: float) -> None:
        """Somebody waits in the runtime: time goes on, and other threads get a moment."""
        self.clock.now += max(seconds, 0.001)
        time.sleep(0.0002)

    # What the runtime calls

    def _decode(self, record: Record) -> Event | None:
        behaviour = self.behaviours[place(record)]
        if behaviour == "undecodable":
            raise ValueError("no event")
        if behaviour == "decoder_panic":
            raise Panic
        event = Event(type=(record.value or b"").decode()[:5], key=record.key or b"", payload=behaviour, record=record)
        if behaviour == "late":
            event.delay_until_ms = round((self.clock.now + 0.4) * 1000)
        return event

    def _handle(self, event: Event, process: int) -> object:
        where, behaviour = place(event.record), event.payload
        if process != self.process:
            return None  # it was killed: what it does is seen by nobody
        begun = self.begun[where[0], where[1], event.key]
        if where[2] not in begun:
            begun.append(where[2])
        line = event.key or ("no key", where[0])
        if self.active.setdefault(line, where) != where:
            self.broken.append(f"{where} is handled beside {self.active[line]}, of one key")
        if not self.is_wanted(where):
            self.broken.append(f"{where} is handled, and is in no range")
        try:
            if behaviour == "slow":
                self.blocked.add(where)
                self.gates[where].wait(30)
                self.blocked.discard(where)
        finally:
            if self.active.get(line) == where:
                del self.active[line]
        if process != self.process:
            return None
        match behaviour:
            case "retry" if event.tries == 1:
                return Retry()
            case "uncounted" if event.tries < 4:
                return Retry(after=0.05, counted=False)
            case "fail":
                return Failed("no")
            case "dead" | "large":
                return Dead("600")
            case "odd_code":
                return Dead(600)  # type: ignore[arg-type]
            case "exit":
                raise SystemExit(1)
            case "panic":
                raise Panic
            case "changes" if event.tries == 1:
                event.key, event.record, event.type = b"changed", event.record._replace(offset=0), "changed"
                return Retry()
            case "changes":
                event.key, event.record, event.type = b"changed", event.record._replace(offset=0), "changed"
        self.finished.add(where)
        return Skip() if behaviour == "skip" else None

    def is_wanted(self, where: Place) -> bool:
        """Whether a record is in the ranges of the group, if it has any."""
        if self.ranges is None:
            return True
        return any(start <= where[2] < end for start, end in self.ranges.get(where[0], ()))

    def is_done(self, record: Record) -> bool:
        where = place(record)
        return where in self.finished or where in self.lettered or not self.is_wanted(where)

    def judge_commit(self, part: TopicPartition, offset: int, epoch: int | None, note: str | None) -> None:
        """Every record of the group below a commit is done, or told to be skipped. A commit of a former log says nothing."""
        if epoch is not None and epoch != self.broker.epochs[part]:
            return
        skipped = parse_note(note).skipped
        for record in self.written[part[1], self.broker.epochs[part]]:
            if self.begin[part] <= record.offset < offset and not self.is_done(record):
                if not any(start <= record.offset < end for start, end in skipped):
                    self.broken.append(
                        f"{part} was committed at {offset} (epoch {epoch}), and {place(record)} is not done"
                    )
                elif record in self.broker.logs[part]:
                    self.broken.append(f"{part}: {place(record)} is in the log, and was told to be skipped")

    def held_bytes(self) -> int:
        return sum(state.all_held_bytes for it in self.task.consumers for state in it.partitions.values())

    def judge_state(self) -> None:
        """No more is held than allowed, a run of ranges is complete only if all is done, and what waits in one line is of one key."""
        held = self.held_bytes()
        most = HELD_BYTES + (BATCH + PARTITIONS) * (BIG_BYTES + 1000)
        if not 0 <= held <= most:
            self.broken.append(f"{held} bytes are held, of at most {most}")
        for consumer in self.task.consumers:
            for part in consumer.partitions if consumer.is_complete else ():
                log = self.written[part[1], self.broker.epochs[part]]
                left = [it for it in log if it.offset >= self.begin[part] and not self.is_done(it)]
                if left:
                    self.broken.append(f"{part} counts as complete without {[place(it) for it in left]}")
        for pool in self.task.processors:
            for slot in pool.slots:
                with slot.queue._lock:
                    parked = [it for line in slot.queue._parked.values() for it in line]
                    ahead = [entry[2] for entry in slot.queue._retries]
                busy = {it.record.partition for it in (*ahead, *slot.at_work()) if it.record.key is None}
                for event in parked:
                    part = event.record.partition
                    if event.record.key is None and part not in busy | {where[0] for where in self.blocked}:
                        self.broken.append(f"{place(event.record)}, without a key, waits for one of another partition")

    # What may happen

    def produce(self, partition: int, key: int | None, behaviour: str) -> None:
        part = ("t", partition)
        with self.broker.lock:
            offset, epoch = self.broker.end(part), self.broker.epochs[part]
            where = (partition, epoch, offset)
            self.behaviours[where], self.gates[where] = behaviour, threading.Event()
            # The epoch goes as the timestamp, too, so that a letter tells it.
            kind = b"large" if behaviour == "large" else b"x" * BIG_BYTES if behaviour == "big" else b"x"
            made = Record("t", partition, offset, b"%d-%d" % (partition, key) if key is not None else None, kind, epoch)
            self.broker.produce([made])
            self.written[partition, epoch] += self.broker.logs[part][-1:]

    def step(self, consumer: int) -> None:
        member = self.task.consumers[consumer]
        member._step()
        self.quiesce()

    def assign(self, partition: int, consumer: int | None) -> None:
        """Give a partition to a consumer, or to somebody else (None), as a coordinator does: revoked first, then assigned."""
        part = ("t", partition)
        self.take_away(part, "revoked")
        if consumer is not None:
            self._source(consumer).later("assigned", [part])
            self.owners[part] = consumer
            self.step(consumer)

    def take_away(self, part: TopicPartition, how: str) -> None:
        owner = self.owners[part]
        if owner is not None:
            if how == "lost" or self.broker.refuses(part):
                self._may_be_untold(part)
            self._source(owner).later(how, [part])
            self.owners[part] = None
            self.step(owner)

    def _may_be_untold(self, part: TopicPartition) -> None:
        """The first commit of an assignment is stored, and its rows are not written yet, or nobody knows that it is stored."""
        for consumer in self.task.consumers:
            if (state := consumer.partitions.get(part)) is not None:
                assert state.audit is not None
                _, under_way = (consumer._committer._under_way or {}).get(part, (None, 0))  # may be stored later
                stop = max(self.broker.committed.get(part, 0), under_way)
                self.untold[part[1]] |= set(range(state.audit.meter.start, stop))

    def _source(self, consumer: int) -> MemorySource:
        source: Any = self.task.consumers[consumer]._source
        return source

    def advance(self, seconds: float) -> None:
        self.clock.now += seconds
        for pool in self.task.processors:
            for slot in pool.slots:
                with slot.queue._lock:
                    slot.queue._readable.notify_all()
        self.quiesce()

    def release(self) -> None:
        for where in list(self.blocked):
            self.gates[where].set()
        self.quiesce()

    def remake(self, partition: int) -> None:
        part = ("t", partition)
        if self._has_no_epoch(part):
            return  # a commit from before the first record: if the log grows beyond it, nothing can tell
        self.broker.remake(part)
        self.cut.add(partition)
        self.begin[part] = 0

    def _has_no_epoch(self, part: TopicPartition) -> bool:
        """Whether a commit that is stored, or that is due when something was skipped, has no leader epoch."""
        if self.broker.committed.get(part) and part not in self.broker.commit_epochs:
            return True
        states = [it for consumer in self.task.consumers if (it := consumer.partitions.get(part)) is not None]
        due = [(it, offset) for it in states if (offset := it.tracker.committable()) and not it.is_committed]
        return any(not any(first < offset for first, _ in state.epochs) for state, offset in due)

    def crash(self) -> None:
        """As `kill -9`: nothing is finished or committed any more; a new process has no partition yet."""
        for part in self.owners:
            self._may_be_untold(part)
        self._begin_a_process(self.task)

    def retain(self, partition: int, share: float) -> None:
        """Retention deletes a share of the log."""
        part = ("t", partition)
        with self.broker.lock:
            if self.broker.epochs[part] and self.broker.commit_epochs.get(part) != self.broker.epochs[part]:
                return  # a log that was cut, and whose new beginning is gone before anybody has read it, tells nobody
            start, end = self.broker.starts[part], self.broker.end(part)
            self.broker.delete_before(part, start + round((end - start) * share))

    def stop(self, *, group: bool = False, ranges: RangesByPartition | None = None) -> None:
        """A graceful stop, or a switch to another group that begins at the start of the logs; with all that it waits for."""
        old = self.task
        for consumer in old.consumers:
            consumer._finish()
        for consumer in old.consumers:
            consumer._source.close()
        self._begin_a_process(old, group=group, ranges=ranges)

    def _begin_a_process(self, old: Task, *, group: bool = False, ranges: RangesByPartition | None = None) -> None:
        self.process += 1
        self._release_all()
        for pool in old.processors:
            assert pool.stop(10)
        assert old._letters is not None
        old._letters.close(10)
        self._note_sentinels(old)
        if group:
            assert isinstance(self.broker, JudgedBroker)
            self._forget()
            self.ranges = ranges
            self.broker = self._new_broker(self.broker)
        self.active.clear()
        self.blocked.clear()
        self.owners = dict.fromkeys(self.owners)
        self.task = self._new_task()

    def _release_all(self) -> None:
        for gate in self.gates.values():
            gate.set()

    def _note_sentinels(self, task: Task) -> None:
        readings = task.metrics.sentinels.readings()
        if any(readings.values()):
            self.broken.append(f"sentinels: {readings}")
        if task.failure is not None:
            self.broken.append(f"failure: {task.failure!r}")

    def quiesce(self) -> None:
        """Wait until each processor thread has nothing to do, or waits at a gate."""
        deadline = time.monotonic() + 10
        while not all(self._is_quiet(slot) for pool in self.task.processors for slot in pool.slots):
            assert time.monotonic() < deadline, "the processors do not come to rest"
            time.sleep(0.0001)

    def _is_quiet(self, slot: Any) -> bool:
        busy = [worker.event for worker in list(slot.workers) if worker.event is not None]
        if any(place(event.record) not in self.blocked for event in busy):
            return False
        with slot.queue._lock:
            if slot.queue._retries and slot.queue._retries[0][0] <= self.clock():
                return len(busy) == len(slot.workers)
            waiting = bool(slot.queue._run) or any(
                slot.queue._out is None or event.lane not in slot.queue._out for event in slot.queue._waiting
            )
        return not waiting or len(busy) == len(slot.workers)

    # The end

    def judge_order(self) -> None:
        """First handlings of each key are in the order of the log."""
        for (partition, epoch, key), offsets in self.begun.items():
            if offsets != sorted(offsets):
                self.broken.append(f"{key!r} of {partition} (epoch {epoch}) was handled in the order {offsets}")
        twice = [count for count in self.put.values() if count > 1]
        if twice:
            self.broken.append(f"events were given up more than once: {twice}")

    def calm(self) -> None:
        """Let all troubles end: everything that lies in the logs is done and committed, and no partition stands still."""
        self.letters = self.rows_mode = "ok"
        self.ids_asked_at = float("inf")
        self.broker.refuses = lambda _partition: None
        for consumer in self.task.consumers:
            consumer.hold.clear()
        for number, part in enumerate(self.owners):
            self.produce(part[1], 0, "ok")  # a log that was cut and is empty cannot be noticed
            if self.owners[part] is None:
                self.assign(part[1], number % CONSUMERS)
        for _ in range(600):
            self._release_all()
            for number in range(CONSUMERS):
                self.step(number)
            if all(self.is_at_its_end(part) for part in self.owners) and not self.held_bytes():
                break
            self.advance(0.3)
        for _ in range(2):  # rows of a partition's first commit are written when the next one is due, or at the end
            self.advance(0.3)
            for number in range(CONSUMERS):
                self.step(number)
        for part in self.owners:
            if not self.is_at_its_end(part):
                self.broken.append(
                    f"{part} stands still at {self.broker.committed.get(part)} of {self.broker.end(part)}: "
                    f"{[consumer.partitions.get(part) for consumer in self.task.consumers]}"
                )
            for record in self.broker.logs[part]:
                if not self.is_done(record):
                    self.broken.append(f"{place(record)} was lost")
        if held := self.held_bytes():
            self.broken.append(f"{held} bytes are held of nothing")
        self.judge_order()
        self.judge_rows()

    def judge_rows(self) -> None:
        """What was told to an audit, each position by the newest row about it: all that was read, once, and what became of it."""
        for part in self.owners:
            rows = [it for it in self.rows if it.partition == part[1]]
            if part[1] in self.cut or self.rows_lost:
                continue
            # A kill between the first commit of an assignment and its rows.
            newest: dict[int, int] = dict.fromkeys(self.untold[part[1]], 0)
            for row in rows:
                for position in range(row.start, row.stop):
                    newest[position] = max(newest.get(position, GONE), row.incarnation)
            skipped = parse_note(self.broker.notes.get(part)).skipped
            end = self.broker.committed.get(part, 0)
            for position in range(self.begin[part], end):
                is_gone = any(start <= position < stop for start, stop in skipped)
                is_other = not self.is_wanted((part[1], 0, position))
                if position not in newest and not is_other:
                    self.broken.append(f"{part}: nobody tells of {position}")
                if (
                    newest.get(position, GONE) == GONE
                    and not is_gone
                    and not is_other | (position in self.untold[part[1]])
                ):
                    self.broken.append(f"{part}: {position} is told to be gone")
            told = dict.fromkeys(POINTS, 0)
            read = 0
            for row in rows:
                kept = sum(newest[position] == row.incarnation for position in range(row.start, row.stop))
                if kept < row.stop - row.start and kept and not skipped:
                    self.broken.append(f"{part}: a row ends at {row.stop}, and no commit does")
                if kept and row.incarnation != GONE:
                    told[row.point] += sum(it.count for it in row.windows)
                    read += kept if row.point == "in" else 0
            if not skipped and not told["in"] == read == told["out"] + told["rejected"] + told["dead"]:
                self.broken.append(f"{part}: {read} positions, and {told}")

    def is_at_its_end(self, part: TopicPartition) -> bool:
        committed = self.broker.committed.get(part, 0)
        if self.ranges is None:
            return committed == self.broker.end(part)
        return part[1] not in self.ranges or committed >= self.ranges[part[1]][-1][1]

    def close(self) -> None:
        self.process += 1
        self._release_all()
        for pool in self.task.processors:
            pool.stop(10)
        if self.task._letters is not None:
            self.task._letters.close(10)
        self._note_sentinels(self.task)


def place(record: Record) -> Place:
    """Where a record lies, whatever log was there before."""
    return (record.partition, record.timestamp_ms, record.offset)
