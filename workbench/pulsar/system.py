"""Pulsar as a queue of this program. What works so far is the observer; everything else says that it does not work yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from workbench.errors import UsageError
from workbench.queues.gateway import Gateway
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
        _not_yet(cluster, "Replay and looking up positions do")

    def counter(self, cluster: Cluster) -> CountRecords:
        """Not yet; see `gateway`."""
        _not_yet(cluster, "Counting records does")

    def read_records(self, spark: SparkSession, cluster: Cluster, *_: Any, **__: Any) -> DataFrame:  # noqa: ARG002
        """Not yet; see `gateway`."""
        _not_yet(cluster, "Reading records does")

    def letters(self, cluster: Cluster, *_: Any, **__: Any) -> Any:
        """Not yet; see `gateway`."""
        _not_yet(cluster, "Reading dead letters does")

    def letter_queue(self, cluster: Cluster) -> Any:
        """Not yet; see `gateway`."""
        _not_yet(cluster, "Redrive of dead letters does")


def _not_yet(cluster: Cluster, what: str) -> NoReturn:
    raise UsageError(
        f"{what} not work on a Pulsar yet: {cluster.name!r} is one.",
        hint="What works: workbench triage --cluster CLUSTER, workbench snapshot --cluster CLUSTER, and workbench pulsar --help",
    )


SYSTEM: System = PulsarSystem()
