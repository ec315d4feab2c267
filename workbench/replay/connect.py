"""Connection to a cluster of the settings, and the check of a typed hash; for commands and panels."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from workbench.errors import SourceUnreachableError, UsageError

if TYPE_CHECKING:
    from workbench.replay.follow import CountRecords
    from workbench.replay.kafka_gateway import KafkaGateway
    from workbench.settings import Cluster

SHORT_HASH = 8


def gateway_of(cluster: Cluster) -> KafkaGateway:
    """Make a connection to a cluster.

    Raises:
        UsageError: if the settings have no `bootstrap` for it.
    """
    from workbench.replay.kafka_gateway import KafkaGateway

    if cluster.bootstrap is None:
        raise UsageError(
            f"The cluster {cluster.name!r} has no bootstrap in the settings.", hint="Add it to workbench.toml."
        )
    return KafkaGateway(cluster.bootstrap, cluster.kafka, deadline_seconds=cluster.timeout_seconds)


def is_hash(full: str, typed: str) -> bool:
    """Whether the text is the hash, or at least its first eight characters."""
    typed = typed.strip().lower()
    return len(typed) >= SHORT_HASH and full.startswith(typed)


def counter_of(cluster: Cluster) -> CountRecords:
    """Make a function that counts records in offset ranges in this process; for the few at the end of a range."""

    def count(ranges: Any) -> dict[tuple[str, int], int]:
        from workbench.collect.kafka_records import KafkaRecordsReader

        options = {f"kafka.{name}": str(value) for name, value in cluster.kafka.items()}
        reader = KafkaRecordsReader(
            {
                **options,
                "bootstrap": cluster.bootstrap or "",
                "columns": "topic,partition",
                "ranges": json.dumps([[*part, *bounds] for part, bounds in ranges.items()]),
            }
        )
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
