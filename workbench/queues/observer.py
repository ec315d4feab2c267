"""Port to what a queue tells of its subscriptions: who reads, where, how far behind. An observer joins no group and writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from workbench.queues.snapshot_views import GroupView, ShareOffset, Snapshot

if TYPE_CHECKING:
    import pyarrow as pa

    from workbench.samples import SeriesTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Age:
    """Bounds of the age of the oldest unread message, in seconds; `high` is None beyond what was looked for."""

    low: float
    high: float | None


Ages = Mapping[tuple[str, str, int], Age]  # by group, topic and partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a cluster tells of all its groups.

    Attributes:
        kinds: of every group.
        views: groups of kinds that are not judged, described.
        shares: start offset and lag of share groups.
        incomplete: what could not be read, in words.
    """

    kinds: Mapping[str, str] = field(default_factory=dict)
    views: Mapping[str, GroupView] = field(default_factory=dict)
    shares: Mapping[tuple[str, str, int], ShareOffset] = field(default_factory=dict)
    incomplete: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round of a recording.

    Attributes:
        snapshot: groups, commits and ends.
        views: the groups in `GROUPS_SCHEMA`.
        series: samples of the snapshot, and of what else was asked for.
        incomplete: what could not be read, in words.
    """

    snapshot: Snapshot
    views: pa.Table
    series: Sequence[SeriesTable]
    incomplete: Sequence[str]


class Rounds(Protocol):
    """A recording of one cluster: remembers what each round has seen."""

    def next(self, *, groups: Sequence[str] | None = None, all_known: bool = True) -> Round:
        """Read once.

        Raises:
            SourceUnreachableError: if the cluster does not answer. UnknownGroupError: if a group must be known and is not.
        """


class Observer(Protocol):
    """Reads one cluster. All methods raise `SourceUnreachableError` if it does not answer in time."""

    def cluster_id(self) -> str:
        """Id of the cluster."""

    def snapshot(self, *, groups: Sequence[str] | None = None, all_known: bool = True) -> Snapshot:
        """Groups of every kind, commits and ends, of all groups or of some.

        Args:
            groups: only these, if any are named.
            all_known: whether an unknown group is an error; otherwise it is reported, and the others are read.
        """

    def members(self, *, groups: Sequence[str] | None = None, all_known: bool = True) -> Snapshot:
        """Groups and their members only: a snapshot without offsets."""

    def listing(self) -> Listing:
        """Kinds of all groups, and those that are not judged."""

    def ages(self, snapshot: Snapshot, incomplete: list[str]) -> Ages:
        """Age of the oldest unread message; 0 without lag; unknown ones are left out.

        Args:
            incomplete: receives what could not be looked up.
        """

    def of_now(self, series: SeriesTable, views: pa.Table, at: float, incomplete: list[str]) -> list[pa.Table]:
        """What only the brokers tell, and only of now, in `SAMPLES_SCHEMA`: owners, ends of open transactions, limits by quotas.

        Args:
            series: the groups' samples.
            views: groups and members in `GROUPS_SCHEMA`.
            at: the samples' time, in seconds since the epoch.
            incomplete: receives what could not be read.
        """

    def client_quotas(self) -> Mapping[tuple[str, bool], float] | None:
        """What is set for client ids themselves: (client id, whether it is about writes) to bytes/s; None if it cannot be told."""

    def rounds(self) -> Rounds:
        """Begin a recording."""
