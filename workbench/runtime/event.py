"""Records, events and what may become of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Headers = Sequence[tuple[str, bytes | None]]
TopicPartition = tuple[str, int]


class UnreadableHeaders(Sequence[tuple[str, bytes | None]]):
    """Headers that the client cannot tell, a name that is no UTF-8 say. Who looks at them learns that; who does not, need not.

    Raises:
        ValueError: whatever is asked of them.
    """

    def __getitem__(self, _index: Any) -> Any:
        raise ValueError("the record's headers cannot be read")

    def __len__(self) -> int:
        raise ValueError("the record's headers cannot be read")


class Record(NamedTuple):
    """One message as the broker holds it. `timestamp_ms` is since the epoch; -1 if the broker knows none.

    `leader_epoch` counts the leaders of the partition (None: not known): a log that was cut has a new leader.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers | None = None
    leader_epoch: int | None = None

    def header(self, name: str) -> bytes | None:
        """The last header of this name (Kafka allows several)."""
        for key, value in reversed(self.headers or ()):
            if key == name:
                return value
        return None


@dataclass(slots=True)
class Event:
    """A record made ready for a processor.

    Attributes:
        type: decides which processor handles it.
        key: events of one key are handled in their order, one at a time.
        payload: what `decode` made of the record's value.
        record: where it came from.
        delay_until_ms: not handled before this instant (event time plus a delay); None for at once.
        attempt: 1 at the first try; a retry that does not count leaves it.
    """

    type: str
    key: bytes
    payload: Any
    record: Record
    delay_until_ms: int | None = None
    attempt: int = 1
    tries: int = 1  # as `attempt`, but with the retries that did not count
    # The runtime's own: the partition's state at the time of reading (a later assignment has another), and when it was decoded.
    owner: Any = field(default=None, repr=False, compare=False)
    decoded_at: float = field(default=0.0, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Done:
    """The event is handled."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again after so many seconds (None: the processor's own back-off).

    With `counted=False` the try does not count towards `max_attempts`: the fault is not the event's (a whole service is out).

    Raises:
        ValueError: if `after` is no number of seconds.
    """

    after: float | None = None
    counted: bool = True

    def __post_init__(self) -> None:
        # Here, where the handler can still fail: in a queue such a time would hold its key for good.
        if self.after is not None and not (isinstance(self.after, int | float) and 0 <= self.after < math.inf):
            raise ValueError(f"Retry(after={self.after!r}): after must be a number of seconds, 0 or more")


@dataclass(frozen=True, slots=True)
class Failed:
    """Give it up: it is counted, put into the dead-letter topic if there is one, and the commit goes on."""

    reason: str = "failed"


@dataclass(frozen=True, slots=True)
class Dead:
    """Put it into the dead-letter topic with this code, now and without a retry."""

    code: str


@dataclass(frozen=True, slots=True)
class Skip:
    """Nothing to do for this event."""


Outcome = Done | Retry | Failed | Dead | Skip

# What a processor is: it may return an outcome; anything else, or nothing, means Done; an exception means Retry.
Handler = Callable[[Event], object]
# What turns a record into an event; None skips the record; an exception makes it undecodable.
Decoder = Callable[[Record], Event | None]

UNDECODABLE = "undecodable"  # type of what no event could be made of, on its way to the dead-letter topic
EVENT_TYPE_HEADER = "event_type"
DEFAULT_EVENT_TYPE = "default"


def decode_by_header(record: Record) -> Event:
    """The default decoder: type from the header `event_type`, key from the record's key, the payload left as bytes."""
    kind = record.header(EVENT_TYPE_HEADER)
    return Event(
        type=kind.decode() if kind else DEFAULT_EVENT_TYPE, key=record.key or b"", payload=record.value, record=record
    )
