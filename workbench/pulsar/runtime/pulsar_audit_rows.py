"""Rows for an audit, written to a topic of a Pulsar, and the numbers of tasks: places of messages there, which only rise."""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic

from workbench.errors import SourceUnreachableError
from workbench.layers.row_batch import RowBatch
from workbench.pulsar.connection import PulsarAccess
from workbench.pulsar.entry_messages import MessagePlace
from workbench.pulsar.producer import OutgoingMessage
from workbench.pulsar.runtime.partition_producer import RECEIPT_SECONDS, OnePartition
from workbench.pulsar.runtime.places_as_offsets import place_of
from workbench.pulsar.topic_names import TopicName
from workbench.queues.position import packed, unpacked
from workbench.runtime.event import TopicPartition

_log = logging.getLogger(__name__)

_AGAIN_SECONDS, _CLOSE_SECONDS = 0.5, 0.5
_AT_ONCE = 200
_GIVEN_UP_SECONDS = 300.0  # as of Kafka's writer: the commit has long gone on without them
# What a task writes to get its number; readers of rows leave it out.
_CLAIM = json.dumps({"schema": "workbench.audit-claim/1"})


@dataclass(slots=True, eq=False)
class _Line:
    text: str
    batch: RowBatch | None = None
    claim: Future[int] | None = None
    since: float = field(default_factory=monotonic)

    def written(self, place: MessagePlace) -> None:
        if self.batch is not None:
            self.batch.one_less()
        number = packed((place.ledger, place.entry, 0))
        if self.claim is not None and number is not None:
            self.claim.set_result(number)


class PulsarPlaces:
    """See `RowPlaces`. A batch of which a part is acknowledged may come again as a whole, so a row ends before it, too.

    Args:
        batch_size: of a partition, ledger and entry.
    """

    def __init__(self, batch_size: Callable[[TopicPartition, int, int], int | None]) -> None:
        self._batch_size = batch_size

    def of(self, offset: int) -> int | None:
        """See `RowPlaces`."""
        return packed(place_of(offset))

    def begin(self, start: int, first: int) -> int:
        """See `RowPlaces`: a broker that keeps which part of a batch is acknowledged sends the rest of it."""
        return first if unpacked(start)[:2] == unpacked(first)[:2] else start

    def ends(self, partition: TopicPartition, offset: int) -> Sequence[int]:
        """See `RowPlaces`. Behind a whole entry, positions go on with the next one, as those of a broker do."""
        ledger, entry, index = place_of(offset)
        is_whole = index > 0 and index >= (self._batch_size(partition, ledger, entry) or index + 1)
        places = [(ledger, entry, 0), (ledger, entry + 1, 0) if is_whole else (ledger, entry, index)]
        return [at for it in places if (at := packed(it)) is not None]


class PulsarRows:
    """See `RowWriter`. Rows come in any order and more than once: the ledger does not mind.

    All go to one partition. A place there is larger than all before it, whoever writes: that is the number of a task.
    """

    def __init__(self, topic: TopicName, access: PulsarAccess) -> None:
        self._partition = OnePartition(topic, access, again_seconds=_AGAIN_SECONDS, close_seconds=_CLOSE_SECONDS)
        self._line: deque[_Line] = deque()
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit-rows", daemon=True)
        self._thread.start()

    def put(self, lines: Sequence[str]) -> RowBatch:
        """See `RowWriter`."""
        batch = RowBatch(len(lines))
        self._add([_Line(it, batch) for it in lines])
        return batch

    def claim(self) -> Future[int]:
        """See `RowWriter`: the place of a message that is written for it."""
        found: Future[int] = Future()
        self._add([_Line(_CLAIM, claim=found)])
        return found

    def _add(self, lines: Sequence[_Line]) -> None:
        self._line.extend(lines)
        self._wake.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(1.0)
            self._wake.clear()
            while self._line and not self._stopping.is_set():
                if (pause := self._partition.wait_seconds) > 0:
                    self._stopping.wait(min(pause, 0.2))
                    continue
                try:
                    self._send_some()
                except Exception:
                    _log.exception("rows for the audit cannot be written")
                    self._later()

    def _send_some(self) -> None:
        some = [self._line.popleft() for _ in range(min(_AT_ONCE, len(self._line)))]
        sent: list[tuple[_Line, Future[MessagePlace]]] = []
        failure: Exception | None = None
        done = 0
        try:
            producer = self._partition.producer()
            for line in some:
                message = OutgoingMessage(key=None, value=line.text.encode(), properties=())
                sent.append((line, producer.send(message)))
            for line, receipt in sent:
                line.written(receipt.result(RECEIPT_SECONDS))
                done += 1
        except (SourceUnreachableError, TimeoutError) as error:
            failure = error
        if failure is None:
            self._partition.taken()
            return
        self._line.extendleft(reversed(some[done:]))
        _log.error("rows for the audit were not taken, retrying in %g s: %s", self._partition.pause, failure)
        self._later()

    def _later(self) -> None:
        self._partition.refused()
        while self._line and monotonic() - self._line[0].since > _GIVEN_UP_SECONDS:
            if (line := self._line.popleft()).batch is not None:
                line.batch.one_less(failed=True)

    def close(self, seconds: float) -> None:
        """See `RowWriter`."""
        until = monotonic() + seconds
        while self._line and monotonic() < until:
            self._stopping.wait(0.02)
        self._stopping.set()
        self._wake.set()
        self._thread.join(max(0.1, until - monotonic()))
        self._partition.close(until - monotonic())
