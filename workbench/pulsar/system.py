"""Pulsar as a queue of this program. What works so far is the observer; everything else says that it does not work yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.queues.systems import NotThere, System
from workbench.settings import Cluster

if TYPE_CHECKING:
    from workbench.pulsar.observing import PulsarObserver


class PulsarSystem(NotThere):
    """See `System`."""

    def observer(self, cluster: Cluster, *, seconds: float | None = None) -> PulsarObserver:
        """See `System`."""
        from workbench.pulsar.observing import PulsarObserver

        return PulsarObserver(cluster, seconds=seconds)


SYSTEM: System = PulsarSystem()
