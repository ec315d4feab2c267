"""Brokers' answers about groups of every kind, read field by field from Kafka's protocol. The requests are in `groups`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from workbench.kafka.wire import Api, Wire, WireAnswer, WireError, array, text
from workbench.queues.group_kinds import kind_of
from workbench.queues.snapshot_views import GroupView, Member, Partition, ShareOffset

COMMITS_TOPIC = "__consumer_offsets"  # the leader of a partition of it coordinates the groups of that partition
_METADATA = Api("Metadata", 3, 9, 9)
_DESCRIBE_OPERATION = 1 << 8  # of the operations that a client may do, a bit for each
GROUP_DENIED = 30  # GROUP_AUTHORIZATION_FAILED

_ERRORS = {
    12: "its metadata is too long",
    14: "the coordinator is loading its groups",
    15: "the coordinator is not available",
    16: "this broker is not the coordinator any more",
    25: "a member has joined the group",
    29: "the topic may not be described with these credentials",
    30: "the group may not be described with these credentials",
    31: "the cluster may not be described with these credentials",
    68: "the group has members",
    69: "the group does not exist any more",
    86: "members of the group read the topic",
    88: "an open transaction is about to change its commits",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One group of a broker's list. The state is in our spelling (`preparing_rebalance`); "unknown" from brokers before 2.6."""

    group: str
    kind: str
    state: str
    coordinator: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordination:
    """Who coordinates groups: the leaders of the partitions of the topic with their commits.

    Attributes:
        leaders: partition to broker.
        is_whole: whether each partition has a leader, and all of its replicas are in sync.
    """

    leaders: Mapping[int, int]
    is_whole: bool

    @classmethod
    def of(cls, partitions: Collection[tuple[int, int, int, int]]) -> Coordination:
        """From each partition's number, leader (negative: none), and how many replicas it has, and has in sync."""
        return cls(
            leaders={number: leader for number, leader, _, _ in partitions},
            is_whole=all(leader >= 0 and in_sync >= replicas for _, leader, replicas, in_sync in partitions),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerView:
    """What a broker tells about its cluster.

    Attributes:
        brokers: id to address, of those that the cluster counts.
        may_describe: whether the client may describe the cluster.
        coordination: None if it was not asked for, or the topic is not there or may not be seen.
    """

    brokers: Mapping[int, tuple[str, int]]
    may_describe: bool
    coordination: Coordination | None = None


def parse_brokers(answer: WireAnswer) -> BrokerView:
    """Read an answer to Metadata 9, about no topic or the one of the groups' commits."""
    answer.int32()  # throttle time

    def broker() -> tuple[int, tuple[str, int]]:
        number, host, port = answer.int32(), answer.text(), answer.int32()
        answer.maybe_text()  # rack
        answer.tags()
        if not 0 < port < 65_536:
            raise WireError(f"broker {number} has no valid port")
        return number, (host, port)

    def partition() -> tuple[int, int, int, int]:
        answer.int16()  # no leader, or a replica that is not there: told below, too
        number, leader = answer.int32(), answer.int32()
        answer.int32()  # its epoch
        replicas, in_sync = answer.array(answer.int32), answer.array(answer.int32)
        answer.array(answer.int32)  # offline
        answer.tags()
        return number, leader, len(replicas), len(in_sync)

    def topic() -> tuple[str, int, list[tuple[int, int, int, int]]]:
        code, name = answer.int16(), answer.text()
        answer.int8()  # internal
        partitions = answer.array(partition)
        answer.int32()  # operations
        answer.tags()
        return name, code, partitions

    brokers = dict(answer.array(broker))
    answer.maybe_text()  # id of the cluster
    answer.int32()  # controller
    coordination = None
    for name, code, partitions in answer.array(topic):
        if name != COMMITS_TOPIC:
            raise WireError("a topic that was not asked for")
        if code == 0:
            coordination = Coordination.of(partitions)
    may_describe = bool(answer.int32() & _DESCRIBE_OPERATION)
    return BrokerView(brokers=brokers, may_describe=may_describe, coordination=coordination)


def ask_brokers(wire: Wire, *, coordination: bool = False) -> BrokerView:
    """Ask for what `parse_brokers` tells, who coordinates groups only if it is wanted."""
    topics = [text(COMMITS_TOPIC) + b"\x00"] if coordination else []
    # No creation of topics; permissions on the cluster, none on topics.
    _, answer = wire.ask(_METADATA, lambda _version: array(topics) + b"\x00\x01\x00")
    return parse_brokers(answer)


def parse_list(answer: WireAnswer, version: int, number: int) -> tuple[int, dict[str, Listed]]:
    """Error code, and the groups of one broker (ListGroups 3 to 5)."""
    answer.int32()
    code = answer.int16()

    def group() -> Listed:
        name, protocol_type = answer.text(), answer.text()
        state = answer.text() if version >= 4 else ""
        group_type = answer.text() if version >= 5 else ""
        answer.tags()
        kind = kind_of(group_type, protocol_type)
        return Listed(group=name, kind=kind, state=spelled(state), coordinator=number)

    return code, {it.group: it for it in answer.array(group)}


Parsed = list[tuple[str, int, GroupView]]


def parse_classic(answer: WireAnswer, number: int, kind: str) -> Parsed:
    """Groups with another protocol type than "consumer": members without partitions (DescribeGroups 5)."""
    answer.int32()

    def member() -> Member:
        name = answer.text()
        answer.maybe_text()  # instance
        client, host = answer.text(), answer.text()
        answer.skip_bytes()
        answer.skip_bytes()
        answer.tags()
        return Member(member_id=name, client_id=client, host=host, partitions=())

    def group() -> tuple[str, int, GroupView]:
        code, name, state = answer.int16(), answer.text(), answer.text()
        answer.text()
        answer.text()
        members = tuple(answer.array(member))
        answer.int32()
        answer.tags()
        return name, code, _view(name, state, kind, number, members)

    return answer.array(group)


def parse_shares(answer: WireAnswer, number: int, kind: str) -> Parsed:
    """Share groups; several members may have the same partition (ShareGroupDescribe 1)."""
    answer.int32()

    def member() -> Member:
        name = answer.text()
        answer.maybe_text()  # rack
        answer.int32()
        client, host = answer.text(), answer.text()
        answer.array(answer.text)
        partitions = _topic_partitions(answer)
        answer.tags()
        return Member(member_id=name, client_id=client, host=host, partitions=partitions)

    def group() -> tuple[str, int, GroupView]:
        code = answer.int16()
        answer.maybe_text()
        name, state = answer.text(), answer.text()
        answer.int32()
        answer.int32()
        answer.text()
        members = tuple(answer.array(member))
        answer.int32()
        answer.tags()
        return name, code, _view(name, state, kind, number, members)

    return answer.array(group)


def parse_share_offsets(
    answer: WireAnswer, version: int
) -> tuple[dict[tuple[str, str, int], ShareOffset], list[str], list[str]]:
    """Start offsets and lag of share groups, those without permission, and what is missing.

    (DescribeShareGroupOffsets 0 and 1; 0 has no lag.)
    """
    answer.int32()
    found: dict[tuple[str, str, int], ShareOffset] = {}
    denied: list[str] = []
    missing: list[str] = []

    def partition() -> tuple[int, int, int, int]:
        index, start = answer.int32(), answer.int64()
        answer.int32()
        lag = answer.int64() if version >= 1 else -1
        code = answer.int16()
        answer.maybe_text()
        answer.tags()
        return index, start, lag, code

    def topic() -> tuple[str, list[tuple[int, int, int, int]]]:
        name = answer.text()
        answer.raw(16)  # id
        partitions = answer.array(partition)
        answer.tags()
        return name, partitions

    def group() -> None:
        name, topics, code = answer.text(), answer.array(topic), answer.int16()
        answer.maybe_text()
        answer.tags()
        if code == GROUP_DENIED:
            denied.append(name)
        elif code:
            missing.append(f"lag of share group {name!r}: {error_text(code)}")
        for which, partitions in topics:
            for index, start, lag, problem in partitions:
                if problem:
                    missing.append(f"lag of share group {name!r} on {which}-{index}: {error_text(problem)}")
                found[name, which, index] = ShareOffset(
                    start=None if start < 0 or problem else start, lag=None if lag < 0 or problem else lag
                )

    answer.array(group)
    return found, denied, missing


def parse_streams(answer: WireAnswer, number: int, kind: str) -> Parsed:
    """Streams groups; a task has the partitions of its number in the topics that its part of the topology reads (0)."""
    answer.int32()
    sources: dict[str, list[str]] = {}

    def pair() -> None:
        answer.text()
        answer.text()
        answer.tags()

    def topic_info() -> str:
        name = answer.text()
        answer.int32()
        answer.int16()
        answer.array(pair)
        answer.tags()
        return name

    def subtopology() -> None:
        name = answer.text()
        read = answer.array(answer.text)
        answer.array(answer.text)
        answer.array(topic_info)
        sources[name] = [*read, *answer.array(topic_info)]
        answer.tags()

    def topology() -> None:
        answer.int32()
        answer.array(subtopology)
        answer.tags()

    def tasks() -> list[Partition]:
        name = answer.text()
        numbers = answer.array(answer.int32)
        answer.tags()
        topics = sources.get(name, ())
        answer.pay(len(topics) * len(numbers))
        return [(topic, at) for topic in topics for at in numbers]

    def assignment() -> tuple[Partition, ...]:
        active = [part for parts in answer.array(tasks) for part in parts]
        answer.array(tasks)  # standby
        answer.array(tasks)  # warm-up
        answer.tags()
        return tuple(sorted(active))

    def offset() -> None:
        answer.text()
        answer.int32()
        answer.int64()
        answer.tags()

    def member() -> Member:
        name = answer.text()
        answer.int32()
        answer.maybe_text()
        answer.maybe_text()
        client, host = answer.text(), answer.text()
        answer.int32()
        answer.text()
        if answer.int8() >= 0:  # its endpoint for queries
            answer.text()
            answer.int16()
            answer.tags()
        answer.array(pair)
        answer.array(offset)
        answer.array(offset)
        now, target = assignment(), assignment()
        answer.int8()
        answer.tags()
        return Member(member_id=name, client_id=client, host=host, partitions=now, target=target)

    def group() -> tuple[str, int, GroupView]:
        sources.clear()
        code = answer.int16()
        answer.maybe_text()
        name, state = answer.text(), answer.text()
        answer.int32()
        answer.int32()
        if answer.int8() >= 0:
            topology()
        members = tuple(answer.array(member))
        answer.int32()
        answer.tags()
        return name, code, _view(name, state, kind, number, members)

    return answer.array(group)


def _topic_partitions(answer: WireAnswer) -> tuple[Partition, ...]:
    def topic() -> list[Partition]:
        answer.raw(16)  # id
        name = answer.text()
        numbers = answer.array(answer.int32)
        answer.tags()
        return [(name, at) for at in numbers]

    found = tuple(sorted(part for parts in answer.array(topic) for part in parts))
    answer.tags()
    return found


def _view(name: str, state: str, kind: str, number: int, members: tuple[Member, ...]) -> GroupView:
    return GroupView(group=name, state=spelled(state), protocol=kind, coordinator=number, members=members)


def spelled(state: str) -> str:
    """A broker's `PreparingRebalance` as `preparing_rebalance`; "unknown" for nothing."""
    words = "".join(f"_{letter}" if letter.isupper() else letter for letter in state).strip("_")
    return words.lower() or "unknown"


def error_text(code: int) -> str:
    """Kafka's error code in words."""
    return _ERRORS.get(code, f"Kafka's error {code}")
