"""Dead letters of the runtime on a Pulsar, with the properties that Pulsar's own clients write. An offset completes only when the
broker has its letter.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from time import monotonic

from workbench.errors import SourceUnreachableError
from workbench.pulsar.connection import PulsarAccess
from workbench.pulsar.entry_messages import MessagePlace
from workbench.pulsar.producer import OutgoingMessage, PulsarProducer
from workbench.pulsar.runtime.partition_producer import RECEIPT_SECONDS, OnePartition
from workbench.pulsar.runtime.places_as_offsets import place_of
from workbench.pulsar.topic_names import TopicName
from workbench.runtime.event import Event

_log = logging.getLogger(__name__)

_IDLE_SECONDS = 0.02
_AGAIN_SECONDS = 1.0
_AT_ONCE = 100
_LEFT_OUT = ("wb_left_out", "value,key,headers")  # such a letter is not redriven
_MOST_CODE = 200  # letters; a code may come from outside (from a service)


@dataclass(slots=True, eq=False)
class _PulsarLetter:
    event: Event
    code: str
    safe: Callable[[], None]

    @property
    def is_wanted(self) -> bool:
        """Whether its partition is still assigned; if not, the next owner reads the event again and writes its own letter."""
        return not getattr(self.event.owner, "revoked", False)


class PulsarLetterWriter:
    """See `LetterWriter`. A letter whose receipt is lost is sent again: it may be there twice."""

    def __init__(
        self, topic: TopicName, access: PulsarAccess, *, subscription: str, clock: Callable[[], float] = monotonic
    ) -> None:
        self.failure: BaseException | None = None
        self._subscription = subscription
        self._partition = OnePartition(topic, access, again_seconds=_AGAIN_SECONDS, clock=clock)
        self._line: deque[_PulsarLetter] = deque()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dead-letters", daemon=True)
        self._thread.start()

    def put(self, event: Event, code: object, *, safe: Callable[[], None]) -> None:
        """See `LetterWriter`."""
        try:
            words = str(code)
        except (
            BaseException
        ):  # the handler's object, on a processor's thread: an error would end the thread, and the process
            words = type(code).__name__
        self._line.append(_PulsarLetter(event, words[:_MOST_CODE].encode("utf-8", "replace").decode(), safe))

    def _run(self) -> None:
        try:
            while not self._stopping.wait(_IDLE_SECONDS):
                if self._line and self._partition.wait_seconds <= 0:
                    self._send_some()
        except BaseException as error:
            self.failure = error
            _log.exception("dead letters can no longer be written")

    def _send_some(self) -> None:
        some = [self._line.popleft() for _ in range(min(_AT_ONCE, len(self._line)))]
        wanted = [it for it in some if it.is_wanted]
        sent: list[tuple[_PulsarLetter, Future[MessagePlace]]] = []
        failure: Exception | None = None
        try:
            producer = self._partition.producer()
            for letter in wanted:
                sent.append((letter, producer.send(self._message(letter, producer))))
        except SourceUnreachableError as error:
            failure = error
        late = wanted[len(sent) :]
        for at, (letter, receipt) in enumerate(sent):
            try:
                receipt.result(RECEIPT_SECONDS)
            except (SourceUnreachableError, TimeoutError) as error:
                failure = error
                late = [it for it, _ in sent[at:]] + late  # in order; those behind it may be there twice
                break
            letter.safe()
        if failure is None:
            self._partition.taken()
            return
        self._line.extendleft(reversed(late))
        _log.error("a dead letter was not taken, retrying in %g s: %s", self._partition.pause, failure)
        self._partition.refused()

    def _message(self, letter: _PulsarLetter, producer: PulsarProducer) -> OutgoingMessage:
        record = letter.event.record
        ledger, entry, index = place_of(record.offset)
        own = (
            ("REAL_TOPIC", f"persistent://{record.topic}"),
            ("REAL_SUBSCRIPTION", self._subscription),
            ("ORIGIN_MESSAGE_ID", f"{ledger}:{entry}:{record.partition}:{index}"),
            ("RECONSUMETIMES", str(max(0, letter.event.attempt - 1))),
            ("wb_code", letter.code),
            ("wb_timestamp_ms", str(record.timestamp_ms)),
        )
        try:
            former = [(name, (value or b"").decode(errors="replace")) for name, value in record.headers or ()]
        except ValueError:  # the message cannot be read: its letter must not pass for one of a message without a value
            return OutgoingMessage(key=None, value=None, properties=(*own, _LEFT_OUT))
        names = {name for name, _ in own}
        properties = [*((name, value) for name, value in former if name not in names), *own]
        whole = OutgoingMessage(
            key=record.key,
            value=record.value,
            properties=properties,
            event_ms=record.event_ms,
            ordering_key=record.ordering_key,
        )
        if producer.fits(whole):
            return whole
        size = ("wb_value_bytes", str(len(record.value or b"")))
        return OutgoingMessage(key=None, value=None, properties=(*own, _LEFT_OUT, size))

    def close(self, seconds: float) -> None:
        """See `LetterWriter`."""
        until = monotonic() + seconds
        while self._line and self.failure is None and monotonic() < until:
            self._stopping.wait(_IDLE_SECONDS)
        self._stopping.set()
        self._thread.join(max(0.1, until - monotonic()))
        self._partition.close(until - monotonic())
