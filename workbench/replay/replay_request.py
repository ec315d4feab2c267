"""What a replay is asked for, and the state of the cluster that its plan is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from workbench.errors import UsageError
from workbench.logs.windows_in_unordered_logs import WindowSpan
from workbench.queues.group_kinds import UNKNOWN
from workbench.queues.replay_port import Audience, ClusterView, LogView, TopicSettings
from workbench.queues.snapshot_views import Partition
from workbench.replay.planfile import AfterEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """Request for a replay.

    Attributes:
        topics: all their partitions, unless `partitions` names some.
        requested_since, requested_until: the texts from which `since` and `until` were parsed.
    """

    cluster: str
    from_group: str
    new_group: str
    topics: Sequence[str]
    since: datetime
    requested_since: str
    partitions: Mapping[str, Sequence[int]] | None = None
    until: datetime | None = None
    requested_until: str | None = None
    after_end: AfterEnd = AfterEnd.FAIL
    reason: str | None = None

    def __post_init__(self) -> None:
        if self.from_group == self.new_group:
            raise UsageError(
                f"The old and the new group are both {self.new_group!r}.",
                hint="A replay needs a new group, so that the offsets of the old group do not change.",
            )
        if not self.topics:
            raise UsageError("No topic to replay was given.", hint="Give it with --topic.")
        if self.until is not None and self.until <= self.since:
            raise UsageError(
                f"The window ends at {self.until.isoformat()}, which is not after its start {self.since.isoformat()}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """State of the cluster for a plan.

    Attributes:
        commits: of the old group, on all partitions.
        read_by_old: partitions that the old group reads, by its commits and its members.
        old_kind: kind of the old group (`queues.group_kinds`).
        read_quota: bytes/s that the old group's members may together read from each broker; None: none, or not known.
        local_starts: where brokers' own disks begin; of partitions that are left out nobody tells.
        spans: of the window, if it has an end.
        older: records before the window's start among the first ones of its range.
        audience: all groups that read the topics.
        in_use: what the new group reads already, by its commits and its members; `new_members` is their number.
    """

    cluster: ClusterView
    logs: LogView
    settings: Mapping[str, TopicSettings]
    commits: Mapping[Partition, int]
    record_bytes: Mapping[str, float]
    taken_at: datetime
    read_by_old: frozenset[Partition] = frozenset()
    old_kind: str = UNKNOWN
    read_quota: float | None = None
    local_starts: Mapping[Partition, int] = field(default_factory=dict)
    spans: Mapping[Partition, WindowSpan] = field(default_factory=dict)
    older: Mapping[Partition, int] = field(default_factory=dict)
    audience: Audience = field(default_factory=Audience)
    in_use: frozenset[Partition] = frozenset()
    new_members: int = 0
