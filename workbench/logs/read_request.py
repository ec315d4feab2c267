"""What is asked of logs: offsets of some partitions, and windows of time. A plan of a replay is one such request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from workbench.queues.snapshot_views import Partition


class AskedPartition(Protocol):
    """One partition: offsets [target, stop), or several ranges of them."""

    @property
    def key(self) -> Partition:
        """Topic and number."""

    @property
    def log_start(self) -> int:
        """When it was asked for."""

    @property
    def log_end(self) -> int:
        """When it was asked for."""

    @property
    def target(self) -> int | None:
        """First offset; None: nothing is asked of this partition."""

    @property
    def stop(self) -> int:
        """End of the window as far as it was known: behind its last known record, else the log's end."""

    @property
    def ranges(self) -> Sequence[object] | None:
        """None: everything between target and stop."""

    @property
    def spans(self) -> Sequence[tuple[int, int]]:
        """Ranges of offsets [start, stop)."""


class Asked(Protocol):
    """Partitions, and the windows of time that they were looked up for."""

    @property
    def partitions(self) -> Sequence[AskedPartition]:
        """At least one."""

    @property
    def is_of_ranges(self) -> bool:
        """Whether each partition has given ranges, with an end."""

    @property
    def since_ms(self) -> int:
        """Start of the window, ms since the epoch."""

    @property
    def until(self) -> str | None:
        """End of the window as ISO 8601; None: the logs' ends."""

    @property
    def until_ms(self) -> int | None:
        """The same, ms since the epoch."""

    @property
    def windows_ms(self) -> Sequence[tuple[int, int]]:
        """Windows of time [since, until) with an end, ms since the epoch."""

    @property
    def unread(self) -> Sequence[tuple[str, int, int, int]] | None:
        """Offsets (topic, partition, start, stop) that were not read, and may have more records of the windows."""
