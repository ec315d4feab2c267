"""RocketMQ as a queue of this program: it is judged by its metrics, and whatever would have to ask it says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from workbench.errors import UsageError
from workbench.settings import Cluster

if TYPE_CHECKING:
    from workbench.queues.systems import System


class RocketMqSystem:
    """See `System`: every adapter is a refusal."""

    def observer(self, cluster: Cluster, *, seconds: float | None = None) -> NoReturn:  # noqa: ARG002
        """Refuse.

        Raises:
            UsageError: always, as all that follow.
        """
        _refuse(cluster)

    def gateway(self, cluster: Cluster) -> NoReturn:
        """See `observer`."""
        _refuse(cluster)

    def counter(self, cluster: Cluster) -> NoReturn:
        """See `observer`."""
        _refuse(cluster)

    def read_records(self, spark: Any, cluster: Cluster, *_: Any, **__: Any) -> NoReturn:  # noqa: ARG002
        """See `observer`."""
        _refuse(cluster)

    def letters(self, cluster: Cluster, *_: Any, **__: Any) -> NoReturn:
        """See `observer`."""
        _refuse(cluster)

    def letter_queue(self, cluster: Cluster) -> NoReturn:
        """See `observer`."""
        _refuse(cluster)


def _refuse(cluster: Cluster) -> NoReturn:
    raise UsageError(
        f"This asks the queue itself, and Workbench knows a RocketMQ by its metrics alone: {cluster.name!r} is one.",
        hint="What works: workbench triage --cluster CLUSTER, and workbench report --kind health, from its Prometheus.",
    )


SYSTEM: System = RocketMqSystem()
