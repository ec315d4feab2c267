"""Port to what a message queue offers besides records: log ends, a group's commits, and a place for dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from workbench.runtime.audit_row_writer import RowPlaces, RowWriter
from workbench.runtime.config import RuntimeConfig
from workbench.runtime.event import Event, TopicPartition
from workbench.runtime.ranges_to_process import Ranges, RangeTable
from workbench.runtime.source import ReadCommits, RecordSource


@dataclass(frozen=True, slots=True)
class Remade:
    """A topic that was deleted and recreated.

    Attributes:
        topic_id: its new id.
        last_seen: the last time (monotonic) at which it had the old id.
        starts: log start offsets of the new topic, as far as the broker has answered.
    """

    topic: str
    topic_id: str
    last_seen: float
    starts: Mapping[TopicPartition, int]


class LogWatch(Protocol):
    """Log start and end offsets of the assigned partitions, and ids of topics, asked for periodically on a thread of its own."""

    ends: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int]
    ends_at: float  # when the ends were last read, monotonic

    def known(self, topic: str) -> tuple[str, float] | None:
        """See `TopicIds`."""

    def ask_soon(self, topic: str) -> bool:
        """See `TopicIds`; any thread may ask."""

    def start(self) -> None:
        """Start the requests."""

    def stop(self) -> None:
        """Stop the requests."""


class LetterWriter(Protocol):
    """Writes failed events where a person can look at them. Any thread may call `put`, which never waits.

    Attributes:
        failure: the error that ended it; no more letters are delivered, so the runtime must end.
    """

    failure: BaseException | None

    def put(self, event: Event, code: object, *, safe: Callable[[], None]) -> None:
        """Write one letter; `safe` is called, on another thread, once it is safe. A refused letter is tried until it is taken."""

    def close(self, seconds: float) -> None:
        """Wait for letters in flight; what is not delivered is read again by the partition's next owner."""


class RuntimeQueue(Protocol):
    """The parts of a task that know a message queue.

    Attributes:
        counts_records: whether the difference of two offsets is a number of records, so that there is a lag to tell.
    """

    counts_records: bool

    def shown(self, offset: int) -> int | str:
        """An offset as this queue writes it, for people."""

    def source(self, config: RuntimeConfig, member: str) -> RecordSource:
        """One consumer."""

    def log_watch(
        self,
        config: RuntimeConfig,
        *,
        partitions: Callable[[], Iterable[TopicPartition]],
        period_seconds: float,
        on_remade: Callable[[Remade], None],
        enabled: bool,
    ) -> LogWatch:
        """What is asked of the brokers beside the consumers; `on_remade` is called for recreated topics."""

    def letters(
        self, config: RuntimeConfig, topic: str, *, clock: Callable[[], float], make_producer: Any = None
    ) -> LetterWriter:
        """A writer of dead letters; a test gives the client that it writes with."""

    def rows(self, config: RuntimeConfig, topic: str) -> RowWriter:
        """A writer of rows for an audit."""

    def row_places(self, source: RecordSource) -> RowPlaces | None:
        """Positions in the rows of an audit, of what this consumer reads; None: they are its offsets."""

    def ranges(self, table: RangeTable) -> Ranges:
        """Ranges of the settings, in the runtime's offsets."""

    def commits(self, config: RuntimeConfig) -> ReadCommits:
        """Reads the commits of the task's group."""


# Each has QUEUE.
_QUEUES = {"kafka": "workbench.kafka.runtime.kafka_queue", "pulsar": "workbench.pulsar.runtime.pulsar_queue"}


def queue_of(config: RuntimeConfig) -> RuntimeQueue:
    """The queue of these settings."""
    found: RuntimeQueue = import_module(_QUEUES[config.system]).QUEUE
    return found


def ranges_of(config: RuntimeConfig) -> Ranges | None:
    """What a task processes; None: everything."""
    return queue_of(config).ranges(config.ranges) if config.ranges is not None else None
