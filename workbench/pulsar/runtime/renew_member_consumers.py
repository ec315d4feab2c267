"""Keeps a member subscribed: finds the partitions of its topics, and makes a new consumer when one has ended. A thread of its own, so
that a broker that does not answer keeps nobody else waiting.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

from workbench.errors import SourceUnreachableError
from workbench.pulsar.connection import RefusedError
from workbench.pulsar.pulsar_wire import ServerRefusal
from workbench.pulsar.runtime.partition_consumer import Occurrence, Seat
from workbench.pulsar.topic_brokers import PERMANENT, PulsarBrokers
from workbench.pulsar.topic_names import WHOLE, TopicName, part_name

_log = logging.getLogger(__name__)

_STEP_SECONDS = 0.1
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 5.0
_PARTITIONS_SECONDS = 60.0  # between two looks at how many partitions a topic has; as of Pulsar's clients
_OTHER_TYPE = "different type"  # in a broker's words of a subscription that others have with another type


class Keeper:
    """See the module.

    Attributes:
        failure: why the member cannot go on; it ends then.
    """

    def __init__(
        self,
        brokers: PulsarBrokers,
        topics: Sequence[TopicName],
        fields: Mapping[str, Any],
        tell: Callable[[Occurrence], None],
    ) -> None:
        self.failure: SourceUnreachableError | None = None
        self.seats: list[Seat] = []  # only added to
        self._brokers, self._topics, self._fields, self._tell = brokers, topics, fields, tell
        self._due: dict[
            object, tuple[float, float]
        ] = {}  # of a seat or a topic: when it is tried again, and the pause after that
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulsar-keeper", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Connect nothing more."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stopping.is_set() and self.failure is None:
            for topic in self._topics:
                if self._is_due(topic):
                    self._attempt(topic, lambda it=topic: self._find(it), again=_PARTITIONS_SECONDS)  # type: ignore[misc]
            for seat in self.seats:
                if self._stopping.is_set():
                    return
                if (seat.link is None or seat.link.is_over) and self._is_due(seat):
                    self._attempt(seat, lambda it=seat: self._connect(it))  # type: ignore[misc]
            self._stopping.wait(_STEP_SECONDS)

    def _is_due(self, what: object) -> bool:
        return monotonic() >= self._due.get(id(what), (0.0, 0.0))[0]

    def _attempt(self, what: object, do: Callable[[], None], *, again: float = 0.0) -> None:
        pause = self._due.get(id(what), (0.0, _FIRST_PAUSE_SECONDS))[1]
        try:
            do()
        except RefusedError as error:
            if error.code in PERMANENT or _OTHER_TYPE in error.words:
                self.failure = _given_up(error)
                return
            _log.warning("%s Trying again in %g s", error.message, pause)
        except SourceUnreachableError as error:
            _log.warning("%s Trying again in %g s", error.message, pause)
        except Exception as error:
            _log.exception("a consumer of a Pulsar cannot be kept")
            self.failure = SourceUnreachableError(f"The consumers cannot be kept: {type(error).__name__}.")
            return
        else:
            self._due[id(what)] = monotonic() + again, _FIRST_PAUSE_SECONDS
            return
        self._due[id(what)] = monotonic() + pause, min(_LONGEST_PAUSE_SECONDS, pause * 2)

    def _find(self, topic: TopicName) -> None:
        """Partitions only ever become more."""
        count = self._brokers.partitions(f"persistent://{topic}")
        known = {seat.partition for seat in self.seats}
        for number in range(count) or [WHOLE]:
            if (str(topic), number) not in known and not (number == WHOLE and any(it[0] == str(topic) for it in known)):
                self.seats.append(Seat((str(topic), number), f"persistent://{part_name(topic, number)}"))

    def _connect(self, seat: Seat) -> None:
        seat.subscribe(self._brokers.owner(seat.name), self._fields, self._tell)


def _given_up(error: RefusedError) -> SourceUnreachableError:
    if _OTHER_TYPE in error.words:
        hint = "Others have this subscription as Shared or Key_Shared, where nothing is in order. Choose another group, or close them."
    else:
        hint = PERMANENT.get(error.code, PERMANENT[ServerRefusal.NOT_ALLOWED])
    return SourceUnreachableError(error.message, hint=hint)
