"""RocketMQ as a queue of this program: it is judged by its metrics, and whatever would have to ask it says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from workbench.queues.systems import not_there
from workbench.settings import Cluster

if TYPE_CHECKING:
    from workbench.queues.systems import System


class RocketMqSystem:
    """See `System`: every adapter is a refusal."""

    def observer(self, cluster: Cluster, *, seconds: float | None = None) -> NoReturn:  # noqa: ARG002 - the port's
        """Refuse.

        Raises:
            UsageError: always, as all that follow.
        """
        raise not_there(cluster, "Asking the queue itself for its groups does")

    def gateway(self, cluster: Cluster) -> NoReturn:
        """See `observer`."""
        raise not_there(cluster, "Looking up positions does")

    def counter(self, cluster: Cluster) -> NoReturn:
        """See `observer`."""
        raise not_there(cluster, "Counting records does")

    def read_records(self, spark: Any, cluster: Cluster, *_: Any, **__: Any) -> NoReturn:  # noqa: ARG002 - the port's
        """See `observer`."""
        raise not_there(cluster, "Reading records does")

    def letters(self, cluster: Cluster, *_: Any, **__: Any) -> NoReturn:
        """See `observer`."""
        raise not_there(cluster, "Reading dead letters does")

    def letter_queue(self, cluster: Cluster) -> NoReturn:
        """See `observer`."""
        raise not_there(cluster, "Redrive of dead letters does")


SYSTEM: System = RocketMqSystem()
