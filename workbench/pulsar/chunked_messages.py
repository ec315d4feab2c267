"""Messages in the order of their places, with those in chunks put together. Pure.

A message in chunks has the place of its first one, and what comes between them waits for it. So positions rise, and an acknowledgement
of all that was handled never stands behind the first chunk of a message that was not. Pulsar's own clients call it by its last chunk,
and hand out what lies between before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from workbench.pulsar.entry_messages import ChunkPart, MessagePlace, PulsarMessage, whole_message


@dataclass(slots=True, eq=False)
class ChunkedMessage:
    """A message of which chunks have come."""

    first: ChunkPart
    since: float  # when the last one came, monotonic
    published_ms: int  # of the last one
    parts: list[bytes] = field(default_factory=list)
    is_abandoned: bool = False  # the producer has begun again, or no more is read: this one is never whole

    @property
    def is_whole(self) -> bool:
        """Whether all of its chunks have come."""
        return len(self.parts) == self.first.of


class MessageLine:
    """What has come, from the first message in chunks on that is not whole."""

    def __init__(self) -> None:
        self._line: deque[PulsarMessage | ChunkedMessage] = deque()
        self._begun: dict[str, ChunkedMessage] = {}  # of the line, the last one of each name

    def __bool__(self) -> bool:
        return bool(self._line)

    def add(self, found: PulsarMessage | ChunkPart, now: float = 0.0) -> None:
        """Put a message or a chunk in line. Chunks whose first one is not here belong to another message, or to none."""
        if isinstance(found, PulsarMessage):
            self._line.append(found)
            return
        published_ms = found.metadata.number(3)
        if found.number == 0:
            if (former := self._begun.get(found.name)) is not None:
                former.is_abandoned = True
            self._begun[found.name] = begun = ChunkedMessage(found, now, published_ms)
            self._line.append(begun)
        message = self._begun.get(found.name)
        if message is None or len(message.parts) != found.number:
            return
        message.parts.append(found.value)
        message.since, message.published_ms = now, published_ms
        if message.is_whole:
            del self._begun[found.name]

    def take(self, is_given_up: Callable[[ChunkedMessage], bool] = lambda _: False) -> Iterator[PulsarMessage]:
        """Take messages, up to the first that is not whole; one that is given up is a message that cannot be read."""
        while self._line:
            head = self._line[0]
            message: PulsarMessage | None = None
            if isinstance(head, PulsarMessage):
                message = head
            elif head.is_whole:
                message = whole_message(head.first.place, head.first.metadata, b"".join(head.parts))
            elif is_given_up(head):
                self._begun.pop(head.first.name, None)
                message = PulsarMessage(head.first.place, None, None, head.published_ms, headers=None)
            elif not head.is_abandoned:
                return
            self._line.popleft()
            if message is not None:
                yield message

    def rest(self) -> Iterator[PulsarMessage]:
        """Take all that is whole: no more comes."""
        for message in self._begun.values():
            message.is_abandoned = True
        return self.take()

    def drop_while(self, is_gone: Callable[[MessagePlace], bool]) -> None:
        """Leave out the first ones at some places."""
        while self._line and is_gone(_place(self._line[0])):
            self._line.popleft()

    def clear(self) -> None:
        """Leave out all."""
        self._line.clear()
        self._begun.clear()


def _place(item: PulsarMessage | ChunkedMessage) -> MessagePlace:
    return item.place if isinstance(item, PulsarMessage) else item.first.place
