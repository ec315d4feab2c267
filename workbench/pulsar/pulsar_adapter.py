"""Pulsar as a queue of this program. What works is the observer, dead letters and reading messages; the rest says that it does not."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from workbench.queues.replay_port import Ranges
from workbench.queues.systems import NotThere, System
from workbench.settings import Cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from workbench.pulsar.pulsar_observer import PulsarObserver
    from workbench.pulsar.redrive.letter_reader import PulsarLetters
    from workbench.pulsar.redrive.pulsar_letter_queue import PulsarLetterQueue
    from workbench.pulsar.redrive.topics_and_progress import PulsarLetterGateway


class PulsarSystem(NotThere):
    """See `System`."""

    def observer(self, cluster: Cluster, *, seconds: float | None = None) -> PulsarObserver:
        """See `System`."""
        from workbench.pulsar.pulsar_observer import PulsarObserver

        return PulsarObserver(cluster, seconds=seconds)

    def gateway(self, cluster: Cluster) -> PulsarLetterGateway:
        """See `System`: what redrives and audits ask; the rest refuses."""
        from workbench.pulsar.redrive.topics_and_progress import PulsarLetterGateway

        return PulsarLetterGateway(cluster)

    def read_records(self, spark: SparkSession, cluster: Cluster, ranges: Ranges, columns: Sequence[str]) -> DataFrame:
        """See `System`: of packed positions, read at once."""
        from workbench.pulsar.redrive.messages_as_frame import read_frame
        from workbench.pulsar.redrive.pulsar_letter_queue import access_to
        from workbench.pulsar.redrive.topics_and_progress import PulsarLetterGateway
        from workbench.pulsar.topic_brokers import PulsarBrokers

        with closing(PulsarBrokers(access_to(cluster))) as brokers:
            return read_frame(
                spark, PulsarLetterGateway(cluster), brokers, ranges, columns, seconds=cluster.timeout_seconds
            )

    def letters(self, cluster: Cluster, topic: str, *, seconds: float = 30.0, batch: int = 5_000) -> PulsarLetters:
        """See `System`."""
        from workbench.pulsar.redrive.letter_reader import PulsarLetters
        from workbench.pulsar.redrive.pulsar_letter_queue import access_to
        from workbench.pulsar.redrive.topics_and_progress import PulsarLetterGateway
        from workbench.pulsar.topic_brokers import PulsarBrokers

        place = PulsarLetterGateway(cluster).place
        return PulsarLetters(PulsarBrokers(access_to(cluster)), topic, place, seconds=seconds, batch=batch)

    def letter_queue(self, cluster: Cluster) -> PulsarLetterQueue:
        """See `System`."""
        from workbench.pulsar.redrive.pulsar_letter_queue import PulsarLetterQueue

        return PulsarLetterQueue(cluster)


SYSTEM: System = PulsarSystem()
