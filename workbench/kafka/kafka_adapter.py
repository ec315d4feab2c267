"""Kafka as a queue of this program: each adapter is imported when it is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.errors import SourceUnreachableError
from workbench.queues.replay_port import Ranges, spans_of
from workbench.queues.snapshot_views import Partition
from workbench.settings import Cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from workbench.kafka.kafka_gateway import KafkaGateway
    from workbench.kafka.kafka_observer import KafkaObserver
    from workbench.kafka.redrive.letter_queue import KafkaLetterQueue
    from workbench.kafka.redrive.letter_reader import KafkaLetters
    from workbench.queues.systems import CountRecords, System


class KafkaSystem:
    """See `System`."""

    def observer(self, cluster: Cluster, *, seconds: float | None = None) -> KafkaObserver:
        """See `System`."""
        from workbench.kafka.kafka_observer import KafkaObserver

        return KafkaObserver(cluster, seconds=seconds)

    def gateway(self, cluster: Cluster) -> KafkaGateway:
        """See `System`."""
        from workbench.kafka.kafka_gateway import KafkaGateway

        return KafkaGateway(cluster.bootstrap or "", cluster.kafka, deadline_seconds=cluster.timeout_seconds)

    def counter(self, cluster: Cluster) -> CountRecords:
        """See `System`."""

        def count(ranges: Mapping[Partition, tuple[int, int]]) -> dict[Partition, int]:
            from workbench.kafka.kafka_records_source import KafkaRecordsReader

            reader = KafkaRecordsReader({**_options(cluster, ranges), "columns": "topic,partition"})
            found = dict.fromkeys(ranges, 0)
            try:
                for task in reader.partitions():
                    for batch in reader.read(task):
                        for topic, number in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                            found[topic, number] += 1
            except (RuntimeError, TimeoutError) as error:
                raise SourceUnreachableError(f"The end of a partition cannot be read: {error}.") from None
            return found

        return count

    def read_records(self, spark: SparkSession, cluster: Cluster, ranges: Ranges, columns: Sequence[str]) -> DataFrame:
        """See `System`: columns of `kafka_records`."""
        from workbench.kafka.kafka_records_source import KafkaRecords
        from workbench.spark.register_sources import register

        register(spark, KafkaRecords)
        options = {**_options(cluster, ranges), "columns": ",".join(columns)}
        return spark.read.format(KafkaRecords.name()).options(**options).load()

    def letters(self, cluster: Cluster, topic: str, *, seconds: float = 30.0, batch: int = 5_000) -> KafkaLetters:
        """See `System`."""
        from workbench.kafka.redrive.letter_reader import KafkaLetters

        return KafkaLetters(cluster.bootstrap or "", cluster.kafka, topic, timeout_seconds=seconds, batch=batch)

    def letter_queue(self, cluster: Cluster) -> KafkaLetterQueue:
        """See `System`."""
        from workbench.kafka.redrive.letter_queue import KafkaLetterQueue

        return KafkaLetterQueue(self.gateway(cluster))


def _options(cluster: Cluster, ranges: Ranges) -> dict[str, Any]:
    """Options of `kafka_records`; empty ranges are left out."""
    spans = [[*part, start, stop] for part, some in ranges.items() for start, stop in spans_of(some) if start < stop]
    properties = {f"kafka.{name}": str(value) for name, value in cluster.kafka.items()}
    return {**properties, "bootstrap": cluster.bootstrap or "", "ranges": json.dumps(spans)}


SYSTEM: System = KafkaSystem()
