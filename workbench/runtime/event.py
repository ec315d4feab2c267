"""Records, events and their outcomes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter, lt
from typing import Any, NamedTuple

Headers = Sequence[tuple[str, bytes | None]]
TopicPartition = tuple[str, int]
# Events of one lane are handled in order, one at a time: those of a key, or those of a partition that have no key.
Lane = bytes | TopicPartition


class UnreadableHeaders(Sequence[tuple[str, bytes | None]]):
    """Headers that the client cannot decode, for example because a name is not UTF-8. Reading them raises an error.

    Raises:
        ValueError: on every access.
    """

    def __getitem__(self, _index: Any) -> Any:
        raise ValueError("the record's headers cannot be read")

    def __len__(self) -> int:
        raise ValueError("the record's headers cannot be read")


class Record(NamedTuple):
    """One message as stored by the broker. `timestamp_ms` is since the epoch; -1 if the broker has none.

    `leader_epoch` counts the leaders of the partition (None: not known): a truncated log has a new leader. The last two are of Pulsar:
    the time that its producer has given it (0: none), and the key by which it is ordered instead of the key.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers | None = None
    leader_epoch: int | None = None
    event_ms: int = 0
    ordering_key: bytes | None = None

    def header(self, name: str) -> bytes | None:
        """Last header of this name (Kafka allows several)."""
        for key, value in reversed(self.headers or ()):
            if key == name:
                return value
        return None


_headers = itemgetter(Record._fields.index("headers"))
# What Python needs for a record and its event beside their bytes, about (measured: 0.4 to 0.7 kB).
RECORD_BYTES = 512


def body_bytes(records: Sequence[Record]) -> list[int]:
    """Bytes of each record's key and value."""
    return [len(record[3] or b"") + len(record[4] or b"") for record in records]  # by their places: half the time


def record_bytes(records: Sequence[Record], bodies: Sequence[int] | None = None) -> list[int]:
    """Memory of each record, about: key, value and headers, and 512 bytes. `bodies` are its `body_bytes`, where they are known."""
    found = []
    for headers, body in zip(map(_headers, records), body_bytes(records) if bodies is None else bodies, strict=True):
        size = RECORD_BYTES + body
        try:
            for name, content in headers or ():
                size += len(name) + (len(content) if content else 0)
        except ValueError:
            pass  # unreadable headers were not kept
        found.append(size)
    return found


_partition_and_epoch = itemgetter(0, 1, 7)


def runs(
    records: Iterable[Record], of: Callable[[Record], object] = _partition_and_epoch
) -> Iterator[tuple[list[Record], list[int]]]:
    """Records that follow each other in one partition and epoch (or by another rule), with their offsets, which ascend."""
    for _, found in groupby(records, of):
        run = list(found)
        offsets = [record.offset for record in run]
        if all(map(lt, offsets, offsets[1:])):
            yield run, offsets
        else:  # a log that has begun anew
            yield from (([record], [record.offset]) for record in run)


@dataclass(slots=True)
class Event:
    """A decoded record, ready for a processor.

    Attributes:
        type: selects the processor.
        key: events of one key are processed in order, one at a time; those without a key (empty) in the order of their partition.
        payload: result of `decode` for the record's value.
        record: its origin.
        delay_until_ms: not processed before this time (event time plus a delay), in ms since the epoch; None: no delay.
        attempt: 1 at the first attempt; a retry that does not count leaves it unchanged.
    """

    type: str
    key: bytes
    payload: Any
    record: Record
    delay_until_ms: int | None = None
    attempt: int = 1
    tries: int = 1  # like `attempt`, including retries that did not count
    # Internal. The partition's state at the time of reading (a later assignment has another), and the time of decoding. Then what must
    # stay as it was read, whatever a handler does to the fields above: its line (see `lane_of`), its offset, and its bytes.
    owner: Any = field(default=None, repr=False, compare=False)
    decoded_at: float = field(default=0.0, repr=False, compare=False)
    # Without defaults: setting them twice would cost as much as the rest of an event.
    lane: Lane = field(init=False, repr=False, compare=False)
    offset: int = field(init=False, repr=False, compare=False)
    size: int = field(init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Done:
    """The event is processed."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Retry after this number of seconds (None: the processor's own back-off).

    With `counted=False` the attempt does not count towards `max_attempts`: the event is not the cause (a service is down).

    Raises:
        ValueError: if `after` is not a number of seconds.
    """

    after: float | None = None
    counted: bool = True

    def __post_init__(self) -> None:
        # Check here, where the handler can still fail: in a queue, such a time would block its key forever.
        if self.after is not None and not (isinstance(self.after, int | float) and 0 <= self.after < math.inf):
            raise ValueError(f"Retry(after={self.after!r}): after must be a number of seconds, 0 or more")


@dataclass(frozen=True, slots=True)
class Failed:
    """Dead-letter the event without a retry: it is counted, sent to the dead-letter topic if there is one, and its offset completes."""

    reason: str = "failed"


@dataclass(frozen=True, slots=True)
class Dead:
    """Send the event to the dead-letter topic with this code, without a retry."""

    code: str


@dataclass(frozen=True, slots=True)
class Skip:
    """Nothing to do for this event; its offset completes."""


Outcome = Done | Retry | Failed | Dead | Skip

# A processor may return an outcome, or a future of one. Anything else, or nothing, means Done; an exception means Retry.
Handler = Callable[[Event], object]
# A decoder turns a record into an event. None skips the record; an exception makes it undecodable.
Decoder = Callable[[Record], Event | None]

UNDECODABLE = "undecodable"  # type of what no event could be made of, on its way to the dead-letter topic
EVENT_TYPE_HEADER = "event_type"
DEFAULT_EVENT_TYPE = "default"


def decode_by_header(record: Record) -> Event:
    """Default decoder: type from the header `event_type`, key from the record's key, payload as bytes."""
    kind = record.header(EVENT_TYPE_HEADER)
    return Event(
        type=kind.decode() if kind else DEFAULT_EVENT_TYPE, key=record.key or b"", payload=record.value, record=record
    )
