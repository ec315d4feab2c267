"""Pulsar as a queue of this program. What works so far is the observer; everything else says that it does not work yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.queues.gateway import Gateway
from workbench.queues.systems import not_there
from workbench.settings import Cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from workbench.pulsar.observing import PulsarObserver
    from workbench.queues.systems import CountRecords, System


class PulsarSystem:
    """See `System`."""

    def observer(self, cluster: Cluster, *, seconds: float | None = None) -> PulsarObserver:
        """See `System`."""
        from workbench.pulsar.observing import PulsarObserver

        return PulsarObserver(cluster, seconds=seconds)

    def gateway(self, cluster: Cluster) -> Gateway:
        """Not yet.

        Raises:
            UsageError: always, as all that follow.
        """
        raise not_there(cluster, "Looking up positions does")

    def counter(self, cluster: Cluster) -> CountRecords:
        """Not yet; see `gateway`."""
        raise not_there(cluster, "Counting records does")

    def read_records(self, spark: SparkSession, cluster: Cluster, *_: Any, **__: Any) -> DataFrame:  # noqa: ARG002
        """Not yet; see `gateway`."""
        raise not_there(cluster, "Reading records does")

    def letters(self, cluster: Cluster, *_: Any, **__: Any) -> Any:
        """Not yet; see `gateway`."""
        raise not_there(cluster, "Reading dead letters does")

    def letter_queue(self, cluster: Cluster) -> Any:
        """Not yet; see `gateway`."""
        raise not_there(cluster, "Redrive of dead letters does")


SYSTEM: System = PulsarSystem()
