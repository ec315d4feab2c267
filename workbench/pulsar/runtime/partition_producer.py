"""A producer to one partition of a topic: made at need, and anew after a refusal, each time after a longer pause."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from workbench.pulsar.connection import PulsarAccess
from workbench.pulsar.producer import PulsarProducer
from workbench.pulsar.topic_brokers import PulsarBrokers
from workbench.pulsar.topic_names import TopicName, part_name

RECEIPT_SECONDS = 10.0
_AGAIN_MOST_SECONDS = 30.0


class OnePartition:
    """For messages that must stay in order; a single thread uses it.

    Args:
        again_seconds: the first pause after a refusal; it doubles, so that an outage causes no storm.
        close_seconds: how long a producer that was refused is waited for.
    """

    def __init__(
        self,
        topic: TopicName,
        access: PulsarAccess,
        *,
        again_seconds: float,
        close_seconds: float = 5.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._topic, self._brokers, self._clock = topic, PulsarBrokers(access), clock
        self._again_seconds, self._close_seconds = again_seconds, close_seconds
        self._producer: PulsarProducer | None = None
        self._again_at, self.pause = 0.0, again_seconds

    @property
    def wait_seconds(self) -> float:
        """Until the next try; 0 or less: now."""
        return self._again_at - self._clock()

    def producer(self) -> PulsarProducer:
        """The one that is open, or another one.

        Raises:
            SourceUnreachableError: if no broker answers.
        """
        if self._producer is None or not self._producer.is_open:
            count = self._brokers.partitions(f"persistent://{self._topic}", makes=True)
            topic = part_name(self._topic, 0) if count else self._topic
            self._producer = PulsarProducer(self._brokers, f"persistent://{topic}")
        return self._producer

    def taken(self) -> None:
        """All that was sent is there."""
        self.pause = self._again_seconds

    def refused(self) -> None:
        """Something was not taken: begin again after `pause` seconds."""
        self._again_at, self.pause = self._clock() + self.pause, min(_AGAIN_MOST_SECONDS, self.pause * 2)
        if self._producer is not None:
            self._producer.close(self._close_seconds)
            self._producer = None

    def close(self, seconds: float) -> None:
        """Close it for good."""
        if self._producer is not None:
            self._producer.close(max(0.1, seconds))
        self._brokers.close()
