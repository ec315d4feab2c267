"""What a snapshot of Kafka holds: groups, members, commits and log ends; as samples and as a table of members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from workbench.signals import GROUP_STATES

if TYPE_CHECKING:
    # Only for the tables: a tool that reads positions and shows none starts a quarter faster without Arrow.
    import pyarrow as pa

    from workbench.samples import SampleBatch

SOURCE = "kafka"
_NEVER_COMMITTED = -1001  # librdkafka's OFFSET_INVALID

NOT_PERMITTED = "not_permitted"  # state of a group that these credentials may not describe

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member of a group, from the coordinator.

    Attributes:
        partitions: that it has now.
        target: that the coordinator wants it to have; None where the protocol has no target (classic groups).
    """

    member_id: str
    client_id: str
    host: str
    partitions: tuple[Partition, ...]
    target: tuple[Partition, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """One group, from its coordinator.

    Attributes:
        state: a key of GROUP_STATES, or `unknown` or `not_permitted`; then nothing is known of its members.
        protocol: its kind (`queues.group_kinds`), or "unknown".
    """

    group: str
    state: str
    protocol: str
    coordinator: int | None
    members: tuple[Member, ...]

    @property
    def member_count(self) -> int | None:
        """Number of members; None if the group was not described."""
        return None if self.state in ("unknown", NOT_PERMITTED) and not self.members else len(self.members)

    @property
    def reassigning(self) -> tuple[Partition, ...] | None:
        """Partitions that a member must still give up or take over; None if no member has a target."""
        known = [member for member in self.members if member.target is not None]
        if not known:
            return None
        return tuple(sorted({part for member in known for part in {*member.partitions} ^ {*(member.target or ())}}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOffset:
    """What a broker knows of a share group on one partition.

    Attributes:
        start: first offset that is not done; None before the first fetch.
        lag: messages that are not done, as the broker counts them: those done behind the start are not in it.
        entries: the same in entries of the log, where the broker counts these: an entry is a batch of one or more messages.
    """

    start: int | None
    lag: int | None
    entries: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Groups, commits and log ends at one moment.

    Attributes:
        taken_at: time of reading the log ends, seconds since the epoch.
        commits: (group, topic, partition) to committed offset; None if the group never committed.
        ends, starts: (topic, partition) to offset; partitions without an answer are left out.
        incomplete: what could not be read, in words.
        unknown: requested groups that the cluster does not have.
        shares: (group, topic, partition) of share groups and of other queues' subscriptions, which have no commits.
    """

    taken_at: float
    groups: tuple[GroupView, ...]
    commits: Mapping[tuple[str, str, int], int | None]
    ends: Mapping[Partition, int]
    starts: Mapping[Partition, int]
    incomplete: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    shares: Mapping[tuple[str, str, int], ShareOffset] = field(default_factory=dict)

    @property
    def read(self) -> tuple[tuple[str, str, int], ...]:
        """(group, topic, partition) of all commits and share groups."""
        return (*self.commits, *self.shares)

    def lag(self, group: str, topic: str, partition: int) -> int | None:
        """Log end minus committed offset in messages, of share groups the broker's number; None where it is not known.

        Commits are read before ends: one above the end is of a log that was cut, or of a topic that was created anew.
        """
        if (share := self.shares.get((group, topic, partition))) is not None:
            return share.lag
        behind = self.behind(group, topic, partition)
        return None if behind is None or behind < 0 else behind

    def behind(self, group: str, topic: str, partition: int) -> int | None:
        """Log end minus committed offset, negative for a commit above the end; None where one of them is not known."""
        committed, end = self.commits.get((group, topic, partition)), self.ends.get((topic, partition))
        return None if committed is None or end is None else end - committed

    @property
    def kinds(self) -> dict[str, int]:
        """Number of groups by kind, the most frequent first."""
        return dict(Counter(view.protocol for view in self.groups).most_common())

    def of_kinds(self, kinds: Collection[str]) -> Snapshot:
        """Only the groups of these kinds, with what belongs to them; of the logs everything."""
        groups = tuple(view for view in self.groups if view.protocol in kinds)
        names = {view.group for view in groups}
        return replace(
            self,
            groups=groups,
            commits={key: offset for key, offset in self.commits.items() if key[0] in names},
            shares={key: share for key, share in self.shares.items() if key[0] in names},
        )

    def to_samples(self, cluster: str) -> pa.Table:
        """The snapshot in `SAMPLES_SCHEMA`."""
        from workbench.samples import SampleBatch

        batch = SampleBatch(cluster, SOURCE)
        ts = [round(self.taken_at * 1e6)]
        for (group, topic, partition), committed in self.commits.items():
            labels = {"group": group, "topic": topic, "partition": partition}
            batch.add("committed_offset", labels, ts, [_NEVER_COMMITTED if committed is None else committed])
            if (behind := self.behind(group, topic, partition)) is not None:
                batch.add("consumer_lag", labels, ts, [behind])  # a negative one gets its flag there
        self._add_shares(batch, ts)
        for signal, offsets in (("log_end_offset", self.ends), ("log_start_offset", self.starts)):
            for (topic, partition), offset in offsets.items():
                batch.add(signal, {"topic": topic, "partition": partition}, ts, [offset])
        for view in self.groups:
            if view.member_count is not None:
                batch.add("group_members", {"group": view.group}, ts, [view.member_count])
            if view.state in GROUP_STATES:
                batch.add("group_state", {"group": view.group}, ts, [GROUP_STATES[view.state]])
            if (moving := view.reassigning) is not None:
                batch.add("reassigning_partitions", {"group": view.group}, ts, [len(moving)])
        return batch.to_arrow()

    def share_samples(self, cluster: str) -> pa.Table:
        """The lag of share groups alone, in `SAMPLES_SCHEMA`: exporters do not have it."""
        from workbench.samples import SampleBatch

        batch = SampleBatch(cluster, SOURCE)
        self._add_shares(batch, [round(self.taken_at * 1e6)])
        return batch.to_arrow()

    def _add_shares(self, batch: SampleBatch, ts: list[int]) -> None:
        for (group, topic, partition), share in self.shares.items():
            if share.lag is not None:
                batch.add("consumer_lag", {"group": group, "topic": topic, "partition": partition}, ts, [share.lag])

    def to_groups(self, cluster: str) -> pa.Table:
        """Groups, members and assignments in `GROUPS_SCHEMA`."""
        return views_table(self.groups, cluster, self.taken_at)


def log_samples(signal: str, values: Mapping[Partition, float], cluster: str, at: float) -> pa.Table:
    """A value of each log in `SAMPLES_SCHEMA`, as of a time in seconds since the epoch."""
    from workbench.samples import SampleBatch

    batch = SampleBatch(cluster, SOURCE)
    for (topic, partition), value in sorted(values.items()):
        batch.add(signal, {"topic": topic, "partition": partition}, [round(at * 1e6)], [value])
    return batch.to_arrow()


def views_table(groups: Iterable[GroupView], cluster: str, taken_at: float) -> pa.Table:
    """Groups, members and assignments in `GROUPS_SCHEMA`."""
    import pyarrow as pa

    from workbench.samples import GROUPS_SCHEMA

    rows: list[dict[str, object]] = []
    ts = round(taken_at * 1e6)
    for view in groups:
        base: dict[str, object] = {
            "ts": ts,
            "cluster": cluster,
            "group": view.group,
            "state": view.state,
            "protocol": view.protocol,
            "coordinator": view.coordinator,
        }
        if not view.members:
            rows.append(base)
        for member in view.members:
            person = {
                **base,
                "member_id": member.member_id,
                "client_id": member.client_id,
                "host": member.host,
            }
            if not member.partitions:
                rows.append(person)
            rows += [{**person, "topic": topic, "partition": number} for topic, number in member.partitions]
    return pa.Table.from_pylist(rows, schema=GROUPS_SCHEMA)


def group_view(name: str, description: Any, *, state: str = "unknown") -> GroupView:
    """Convert the client's description of a group; None without one, because of `state`."""
    if description is None:
        return GroupView(group=name, state=state, protocol="unknown", coordinator=None, members=())
    members = tuple(
        Member(
            member_id=member.member_id,
            client_id=member.client_id,
            host=member.host,
            partitions=_partitions(member.assignment) or (),
            target=_partitions(member.target_assignment),
        )
        for member in description.members
    )
    return GroupView(
        group=name,
        state=description.state.name.lower().replace("rebalancing", "rebalance"),
        protocol=description.type.name.lower() if description.type is not None else "unknown",
        coordinator=description.coordinator.id if description.coordinator is not None else None,
        members=members,
    )


def _partitions(assignment: Any) -> tuple[Partition, ...] | None:
    if assignment is None:
        return None
    return tuple((part.topic, part.partition) for part in assignment.topic_partitions)
