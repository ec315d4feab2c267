"""Snapshot of groups, commits and log ends from Kafka itself.

Commits are read before log ends, so lag may be too high by the messages produced in between, but is never negative. It sends one
request per group and one per leader (and thousand partitions), none per partition: tools with requests per partition need minutes
where this needs seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from workbench.errors import SourceUnreachableError, UnknownGroupError
from workbench.samples import SampleBatch
from workbench.signals import GROUP_STATES

DEADLINE_SECONDS = 30.0
_IN_FLIGHT = 64  # concurrent group requests; the broker's request queue holds 500 by default
_DESCRIBE_BATCH = 200
_DESCRIBE_BATCHES = 2  # concurrent batches: while one is read here, the broker answers the next
_OFFSETS_BATCH = 1_000  # partitions per call: the client's work is quadratic (measured, see ARCHITECTURE.md)
_NEVER_COMMITTED = -1001  # librdkafka's OFFSET_INVALID
_LOADING_SECONDS = (
    10.0  # longest wait for a starting coordinator to load its groups; after that, the group counts as missing
)
_LOADING_PAUSE_SECONDS = 0.2
_LOADING = ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")
SOURCE = "kafka"

# One row per assigned partition of a member; a member without any, or a group without members, has one row with nulls.
GROUPS_SCHEMA = pa.schema(
    [
        pa.field("ts", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("cluster", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        ("state", pa.string()),
        ("protocol", pa.string()),
        ("coordinator", pa.int32()),
        ("member_id", pa.string()),
        ("client_id", pa.string()),
        ("host", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
    ]
)

Partition = tuple[str, int]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member of a group, from the coordinator."""

    member_id: str
    client_id: str
    host: str
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """One group, from its coordinator."""

    group: str
    state: str  # a key of GROUP_STATES, or "unknown"
    protocol: str  # "classic" or "consumer" (KIP-848)
    coordinator: int | None
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Groups, commits and log ends at one moment.

    Attributes:
        taken_at: time of reading the log ends, seconds since the epoch.
        commits: (group, topic, partition) to committed offset; None if the group never committed.
        ends, starts: (topic, partition) to offset; partitions without an answer are left out.
        incomplete: what could not be read, in words.
        unknown: requested groups that the cluster does not have.
    """

    taken_at: float
    groups: tuple[GroupView, ...]
    commits: Mapping[tuple[str, str, int], int | None]
    ends: Mapping[Partition, int]
    starts: Mapping[Partition, int]
    incomplete: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def lag(self, group: str, topic: str, partition: int) -> int | None:
        """Log end minus committed offset in messages; None where one of the two is not known."""
        committed, end = self.commits.get((group, topic, partition)), self.ends.get((topic, partition))
        return None if committed is None or end is None else max(0, end - committed)

    def to_samples(self, cluster: str) -> pa.Table:
        """The snapshot in `SAMPLES_SCHEMA`."""
        batch = SampleBatch(cluster, SOURCE)
        ts = [round(self.taken_at * 1e6)]
        for (group, topic, partition), committed in self.commits.items():
            labels = {"group": group, "topic": topic, "partition": partition}
            batch.add("committed_offset", labels, ts, [_NEVER_COMMITTED if committed is None else committed])
            if (lag := self.lag(group, topic, partition)) is not None:
                batch.add("consumer_lag", labels, ts, [lag])
        for signal, offsets in (("log_end_offset", self.ends), ("log_start_offset", self.starts)):
            for (topic, partition), offset in offsets.items():
                batch.add(signal, {"topic": topic, "partition": partition}, ts, [offset])
        for view in self.groups:
            batch.add("group_members", {"group": view.group}, ts, [len(view.members)])
            if view.state in GROUP_STATES:
                batch.add("group_state", {"group": view.group}, ts, [GROUP_STATES[view.state]])
        return batch.to_arrow()

    def to_groups(self, cluster: str) -> pa.Table:
        """Groups, members and assignments in `GROUPS_SCHEMA`."""
        rows: list[dict[str, object]] = []
        ts = round(self.taken_at * 1e6)
        for view in self.groups:
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


@dataclass(slots=True)
class KafkaCluster:
    """Reads one cluster through confluent-kafka's AdminClient. It joins no group and writes nothing.

    Args:
        bootstrap: host:port of some brokers.
        properties: further librdkafka properties (security).
        deadline_seconds: for a complete snapshot.
    """

    bootstrap: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    deadline_seconds: float = DEADLINE_SECONDS
    requests: int = 0  # counted, so that a test can check that there are few
    _admin: Any = None

    def snapshot(self, *, groups: Sequence[str] | None = None, all_known: bool = True) -> Snapshot:
        """Read groups, commits and ends, of all groups or of some.

        Args:
            groups: only these, if any are named.
            all_known: whether an unknown group is an error; otherwise it is reported, and the others are read.

        Raises:
            SourceUnreachableError: if the cluster does not answer in time.
            UnknownGroupError: if a requested group does not exist.
        """
        deadline = time.monotonic() + self.deadline_seconds
        admin = self.connect()
        known, incomplete = self._list_groups(deadline)
        # An incomplete list cannot prove that a group does not exist.
        unknown = [name for name in groups or () if name not in known] if not incomplete else []
        if unknown and all_known:
            raise UnknownGroupError(
                f"The cluster at {self.bootstrap} has no consumer group {unknown[0]!r}.",
                hint=_similar(unknown[0], known) or "List its groups with: workbench snapshot.",
            )
        incomplete += [f"group {name!r}: the cluster has no such group" for name in unknown]
        names = [name for name in groups if name not in unknown] if groups is not None else sorted(known)
        views = self._describe(admin, names, deadline, incomplete)
        commits = self._commits(admin, views, deadline, incomplete)
        partitions = sorted({(topic, number) for _, topic, number in commits})
        ends = self._offsets(partitions, "latest", deadline, incomplete)
        taken_at = time.time()
        starts = self._offsets(partitions, "earliest", deadline, incomplete)
        return Snapshot(
            taken_at=taken_at,
            groups=tuple(views),
            commits=commits,
            ends=ends,
            starts=starts,
            incomplete=tuple(incomplete),
            unknown=tuple(unknown),
        )

    def cluster_id(self) -> str:
        """Id of the cluster.

        Raises:
            SourceUnreachableError: if it does not answer.
        """
        self.connect()
        return str(self.ask(lambda: self._admin.list_topics(timeout=self.deadline_seconds)).cluster_id)

    def connect(self) -> Any:
        """The AdminClient, created at the first call."""
        if self._admin is None:
            from confluent_kafka.admin import AdminClient

            # log_level 0: our own error reports failures, once.
            self._admin = self.ask(
                lambda: AdminClient({"log_level": 0, **self.properties, "bootstrap.servers": self.bootstrap})
            )
        return self._admin

    def ask(self, call: Callable[[], T]) -> T:
        """Send one request, and count it.

        Raises:
            SourceUnreachableError: if it fails.
        """
        from confluent_kafka import KafkaException

        self.requests += 1
        try:
            return call()
        except (KafkaException, TimeoutError, ValueError) as error:
            raise self.unreachable(error) from None

    def unreachable(self, error: BaseException) -> SourceUnreachableError:
        """Make the error for a failed request, with the client's text; a missing permission has its own text."""
        if is_denied(error):
            return SourceUnreachableError(
                f"Kafka at {self.bootstrap} refuses: {error_words(error)}.",
                hint="These credentials lack a permission. Ask for an ACL, or use other credentials in workbench.toml.",
            )
        return SourceUnreachableError(
            f"Kafka at {self.bootstrap} does not answer: {error_words(error)}.",
            hint="Is the address correct, and the network open? Check the security settings in workbench.toml.",
        )

    def _list_groups(self, deadline: float) -> tuple[set[str], list[str]]:
        patience = min(deadline, time.monotonic() + _LOADING_SECONDS)
        while True:
            result = self.ask(
                lambda: self._admin.list_consumer_groups(request_timeout=seconds_left(deadline)).result(
                    seconds_left(deadline)
                )
            )
            if not any(is_loading(error) for error in result.errors) or time.monotonic() >= patience:
                break
            time.sleep(_LOADING_PAUSE_SECONDS)
        if result.errors and not result.valid:
            raise self.unreachable(result.errors[0])
        return {item.group_id for item in result.valid}, [
            f"list of groups from one broker: {error_words(error)}" for error in result.errors
        ]

    def _describe(self, admin: Any, names: Sequence[str], deadline: float, incomplete: list[str]) -> list[GroupView]:
        views: list[GroupView] = []
        waiting: list[Mapping[str, Future[Any]]] = []

        def collect(keep: int) -> None:
            while len(waiting) > keep:
                for name, future in waiting.pop(0).items():
                    views.append(group_view(name, _result(future, deadline, f"group {name!r}", incomplete)))

        for at in range(0, len(names), _DESCRIBE_BATCH):
            batch = list(names[at : at + _DESCRIBE_BATCH])
            if is_over(deadline):
                views += [group_view(name, None) for name in batch]
                incomplete += [f"group {name!r}: {_NOT_ASKED}" for name in batch]
                continue
            waiting.append(
                self.ask(
                    lambda batch=batch: admin.describe_consumer_groups(batch, request_timeout=seconds_left(deadline))  # type: ignore[misc]
                )
            )
            collect(_DESCRIBE_BATCHES - 1)
        collect(0)
        return views

    def _commits(
        self, admin: Any, views: Iterable[GroupView], deadline: float, incomplete: list[str]
    ) -> dict[tuple[str, str, int], int | None]:
        from confluent_kafka import ConsumerGroupTopicPartitions as Ask

        commits: dict[tuple[str, str, int], int | None] = {}
        waiting: list[tuple[str, Future[Any]]] = []

        def collect(keep: int) -> None:
            while len(waiting) > keep:
                name, future = waiting.pop(0)
                result = _result(future, deadline, f"commits of group {name!r}", incomplete)
                for part in result.topic_partitions if result is not None else ():
                    never = part.offset < 0 or part.error is not None
                    commits[name, part.topic, part.partition] = None if never else part.offset

        for view in views:
            for member in view.members:  # also report partitions that are assigned but never committed
                for topic, number in member.partitions:
                    commits.setdefault((view.group, topic, number), None)
            if is_over(deadline):
                incomplete.append(f"commits of group {view.group!r}: {_NOT_ASKED}")
                continue
            if not view.group:  # Kafka allows this name (the oldest clients use it), but the client does not accept it
                incomplete.append("commits of group '': the client cannot request them")
                continue
            request = self.ask(
                lambda view=view: admin.list_consumer_group_offsets(  # type: ignore[misc]
                    [Ask(view.group)], request_timeout=seconds_left(deadline)
                )
            )
            waiting.append((view.group, request[view.group]))
            collect(_IN_FLIGHT)
        collect(0)
        return commits

    def _offsets(
        self, partitions: Sequence[Partition], which: str, deadline: float, incomplete: list[str]
    ) -> dict[Partition, int]:
        from confluent_kafka.admin import OffsetSpec

        spec = OffsetSpec.latest() if which == "latest" else OffsetSpec.earliest()
        found = self.list_offsets(partitions, spec, f"{which} offset", deadline, incomplete)
        return {part: offset for part, offset in found.items() if offset >= 0}

    def offsets_at(
        self, partitions: Sequence[Partition], instant: float, deadline: float, incomplete: list[str]
    ) -> dict[Partition, int | None]:
        """First offset at or after a time (seconds since the epoch); None without one; partitions without an answer are left out."""
        from confluent_kafka.admin import OffsetSpec

        spec = OffsetSpec.for_timestamp(round(instant * 1000))
        found = self.list_offsets(partitions, spec, "offset by time", deadline, incomplete)
        return {part: offset if offset >= 0 else None for part, offset in found.items()}

    def list_offsets(
        self, partitions: Sequence[Partition], spec: Any, what: str, deadline: float, incomplete: list[str], **more: Any
    ) -> dict[Partition, int]:
        """Offsets by the client's `spec` and options; partitions without an answer are named in `incomplete`, and left out."""
        from confluent_kafka import TopicPartition

        found = {}
        for at in range(0, len(partitions), _OFFSETS_BATCH):
            batch = partitions[at : at + _OFFSETS_BATCH]
            if is_over(deadline):
                incomplete += [f"{what} of {topic}-{number}: {_NOT_ASKED}" for topic, number in batch]
                continue
            futures = self.ask(
                lambda batch=batch: self.connect().list_offsets(  # type: ignore[misc]
                    {TopicPartition(*part): spec for part in batch}, request_timeout=seconds_left(deadline), **more
                )
            )
            for part, future in futures.items():
                result = _result(future, deadline, f"{what} of {part.topic}-{part.partition}", incomplete)
                if result is not None:
                    found[part.topic, part.partition] = result.offset
        return found


def group_view(name: str, description: Any) -> GroupView:
    """Convert the client's description of a group; None without one."""
    if description is None:
        return GroupView(group=name, state="unknown", protocol="unknown", coordinator=None, members=())
    members = tuple(
        Member(
            member_id=member.member_id,
            client_id=member.client_id,
            host=member.host,
            partitions=tuple(
                (part.topic, part.partition)
                for part in (member.assignment.topic_partitions if member.assignment else ())
            ),
        )
        for member in description.members
    )
    return GroupView(
        group=name,
        state=description.state.name.lower(),
        protocol=description.type.name.lower() if description.type is not None else "unknown",
        coordinator=description.coordinator.id if description.coordinator is not None else None,
        members=members,
    )


def _result(future: Future[Any], deadline: float, what: str, incomplete: list[str]) -> Any:
    """Result of a future, or None with a line in `incomplete`: a failed group must not affect the others."""
    from confluent_kafka import KafkaException

    try:
        return future.result(seconds_left(deadline))
    except (KafkaException, TimeoutError) as error:
        incomplete.append(f"{what}: {error_words(error)}")
        return None


def seconds_left(deadline: float) -> float:
    """Seconds until a monotonic deadline, always above 0: the client does not accept a timeout of 0."""
    return max(0.1, deadline - time.monotonic())


_NOT_ASKED = "not requested: the deadline has passed"


def is_over(deadline: float) -> bool:
    """Whether a monotonic deadline has passed: then send no more requests, because each would wait for its minimum."""
    return time.monotonic() >= deadline


def is_loading(error: Any) -> bool:
    """Whether a broker is still loading: it has just restarted, or has just become a coordinator."""
    inner = _inner(error)
    return inner is not None and inner.name() in _LOADING


def is_denied(error: Any) -> bool:
    """Whether these credentials lack a permission."""
    inner = _inner(error)
    return inner is not None and inner.name().endswith("_AUTHORIZATION_FAILED")


def error_words(error: Any) -> str:
    """Text of librdkafka's error or of the timeout."""
    inner = _inner(error)
    return str(inner.str() or inner.name()) if inner is not None else str(error) or "no answer in time"


def _inner(error: Any) -> Any:
    """librdkafka's error, plain or inside an exception; None for another kind of error."""
    from confluent_kafka import KafkaError, KafkaException

    inner = error.args[0] if isinstance(error, KafkaException) and error.args else error
    return inner if isinstance(inner, KafkaError) else None


def _similar(name: str, known: Iterable[str]) -> str | None:
    import difflib

    close = difflib.get_close_matches(name, list(known), n=3)
    return f"Did you mean {' or '.join(repr(item) for item in close)}?" if close else None
