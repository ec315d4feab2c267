"""Two looks at subscriptions behind the port of `queues.dispatching_queues`, by the admin's REST API. Reads only.

All topics are asked once; those of the chosen subscriptions with a backlog twice more, with their cursors and policies.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from typing import Any

from workbench.errors import SourceUnreachableError, UnknownGroupError
from workbench.humanize import near, printable
from workbench.pulsar.admin import AT_ONCE, NotThereError, PulsarAdmin
from workbench.pulsar.policies import TopicPolicies, lower, read_limits, read_policies
from workbench.pulsar.recorded_answers import AdminAnswers, AnswerRecorder
from workbench.pulsar.subscription_survey import survey
from workbench.pulsar.topic_look import LookedConsumer, SubscriptionLook, looks_of
from workbench.pulsar.topic_names import WHOLE, TopicName, group_name
from workbench.pulsar.topic_stats import SubscriptionPart, unknown_part
from workbench.queues.dispatching_queues import DispatchedConsumer, DispatchedPart, DispatchReading
from workbench.queues.group_kinds import is_redrive_plan
from workbench.settings import Cluster

_Looks = dict[tuple[int, str], SubscriptionLook]
_Limits = tuple[float | None, float | None]  # messages and bytes per second
_Connection = tuple[str, str, float | None]  # name, address, since when
_FLAGS = {"getPreciseBacklog": "true", "subscriptionBacklogSize": "true", "getEarliestTimeInBacklog": "true"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    topic: TopicName
    partitioned: bool
    subscriptions: tuple[str, ...]


def read(
    cluster: Cluster,
    *,
    groups: Sequence[str],
    topics: Sequence[str],
    apart_seconds: float,
    pause: Callable[[float], None],
    clock: Callable[[], float] = time.time,
    make_admin: Callable[[], PulsarAdmin] | None = None,
) -> DispatchReading:
    """See `queues.dispatching_queues.read_dispatched`; `clock` tells the time that ages are counted to, in seconds since the epoch."""
    started, missing = datetime.now(UTC), list[str]()
    admin = make_admin or (lambda: PulsarAdmin(cluster))
    found = survey(admin(), namespaces=cluster.pulsar.namespaces)
    missing += found.incomplete
    by_group: dict[str, list[SubscriptionPart]] = defaultdict(list)
    for part in found.parts:
        name = group_name(part.subscription, part.topic)
        # Where a redrive plan is: nobody reads it, and later letters are not its lag.
        if not is_redrive_plan(part.subscription) or {name, part.subscription} & {*groups}:
            by_group[name].append(part)
    for parts in by_group.values():
        if (topic := parts[0].topic) in found.partial:  # the first partition that is missing stands for all of them
            read = {it.partition for it in parts}
            absent = next(number for number in count() if number not in read)
            parts.append(unknown_part(topic, absent, parts[0].subscription))
    chosen = _chosen(cluster, by_group, groups, topics, partial=bool(missing))
    # What has expired is no backlog any more: it is looked at, too.
    busy = [part for parts in chosen.values() for part in parts if part.entries != 0 or part.expired_messages]
    asked = [
        _Asked(
            topic=topic,
            partitioned=any(it.partition != WHOLE for it in mine),
            subscriptions=tuple(sorted({it.subscription for it in mine})),
        )
        for topic, mine in _by_topic(busy).items()
    ]
    first, second = dict[TopicName, _Looks](), dict[TopicName, _Looks]()
    policies, limits = dict[TopicName, TopicPolicies](), dict[tuple[TopicName, str], _Limits]()
    if asked:
        first = _look_at(admin(), asked, missing, clock)
        seen = time.monotonic()
        policy_admin = admin()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found_policies = pool.map(lambda it: read_policies(policy_admin, it.topic), asked)
        policies = dict(zip((it.topic for it in asked), found_policies, strict=True))
        pause(max(0.0, apart_seconds - (time.monotonic() - seen)))
        second = _look_at(admin(), asked, missing, clock)
        limits = _limits_of(admin(), asked, first, second)
    parts_of = {
        name: tuple(
            _part(
                it,
                first.get(it.topic, {}).get((it.partition, it.subscription)),
                second.get(it.topic, {}).get((it.partition, it.subscription)),
                policies.get(it.topic, TopicPolicies()),
                limits.get((it.topic, it.subscription), (None, None)),
                _others_sent(it, first.get(it.topic, {}), second.get(it.topic, {})),
            )
            for it in sorted(parts, key=lambda it: it.partition)
        )
        for name, parts in sorted(chosen.items())
    }
    return DispatchReading(
        groups=parts_of,
        started_at=started,
        ended_at=datetime.now(UTC),
        incomplete=tuple(dict.fromkeys(missing)),
        brokers=_brokers(admin()) if asked else None,
    )


def record(cluster: Cluster, **asked: Any) -> DispatchReading:
    """As `read`, with the answers."""
    recorder = AnswerRecorder(cluster)
    found = read(cluster, **asked, clock=recorder.clock, make_admin=recorder.admin)
    return replace(found, answers=recorder.answers(found.started_at, found.ended_at).packed())


def read_again(
    cluster: Cluster, answers: bytes, *, groups: Sequence[str] = (), topics: Sequence[str] = ()
) -> DispatchReading:
    """See `queues.dispatching_queues.read_dispatched_again`."""
    recorded = AdminAnswers.unpacked(answers)
    own = cluster.model_copy(update={"pulsar": cluster.pulsar.model_copy(update={"namespaces": recorded.namespaces})})
    recorder = AnswerRecorder(own, recorded)
    found = read(
        own,
        groups=groups,
        topics=topics,
        apart_seconds=0.0,
        pause=lambda _: None,
        clock=recorder.clock,
        make_admin=recorder.admin,
    )
    return replace(found, started_at=recorded.started_at, ended_at=recorded.ended_at)


def _chosen(
    cluster: Cluster,
    by_group: dict[str, list[SubscriptionPart]],
    groups: Sequence[str],
    topics: Sequence[str],
    *,
    partial: bool,
) -> dict[str, list[SubscriptionPart]]:
    """The groups of these names on these topics.

    Raises:
        UnknownGroupError: names one that nothing has; not if what was not told may have it.
    """
    names = {*by_group, *(parts[0].subscription for parts in by_group.values())}
    known = {str(parts[0].topic) for parts in by_group.values()}
    for what, wanted, there in (("subscription", groups, names), ("topic", topics, known)):
        if (absent := [it for it in wanted if it not in there]) and not partial:
            like = near(absent[0], sorted(there))
            raise UnknownGroupError(
                f"The Pulsar {cluster.name!r} has no {what} {absent[0]!r}.",
                hint=f"Similar: {', '.join(map(printable, like))}."
                if like
                else "List them with: workbench pulsar subscriptions --cluster CLUSTER",
            )
    return {
        name: parts
        for name, parts in by_group.items()
        if (not groups or name in groups or parts[0].subscription in groups)
        and (not topics or str(parts[0].topic) in topics)
    }


def _by_topic(parts: Iterable[SubscriptionPart]) -> dict[TopicName, list[SubscriptionPart]]:
    found: dict[TopicName, list[SubscriptionPart]] = defaultdict(list)
    for part in parts:
        found[part.topic].append(part)
    return found


def _look_at(
    admin: PulsarAdmin, asked: Sequence[_Asked], missing: list[str], clock: Callable[[], float]
) -> dict[TopicName, _Looks]:
    """One look at each topic. What is missing is told, and is then missing of its subscriptions alone."""

    def look(it: _Asked) -> tuple[_Looks, list[str]]:
        kind, flags = ("partitioned-", {**_FLAGS, "perPartition": "true"}) if it.partitioned else ("", _FLAGS)
        lacking, internal = list[str](), None
        try:
            stats, at = admin.get(f"{it.topic.path}/{kind}stats", flags), clock()
            try:
                inner = "partitioned-internalStats" if it.partitioned else "internalStats"
                internal = admin.get(f"{it.topic.path}/{inner}")
            except SourceUnreachableError as error:
                lacking.append(error.message)
            return looks_of(stats, internal, it.topic, partitioned=it.partitioned, at=at, lacking=lacking), lacking
        except NotThereError:
            return {}, [f"{it.topic} was deleted meanwhile."]
        except SourceUnreachableError as error:
            return {}, [error.message]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(look, asked))
    missing += [text for _, lacking in answers for text in lacking]
    return {it.topic: looks for it, (looks, _) in zip(asked, answers, strict=True)}


def _limits_of(
    admin: PulsarAdmin,
    asked: Sequence[_Asked],
    first: Mapping[TopicName, _Looks],
    second: Mapping[TopicName, _Looks],
) -> dict[tuple[TopicName, str], _Limits]:
    """Rate limits of subscriptions. Not asked is one of which the broker says that it kept nothing back: its limit decides nothing."""

    def is_open(topic: TopicName, name: str) -> bool:
        looks = ((first.get(topic, {}).get(key), now) for key, now in second.get(topic, {}).items() if key[1] == name)
        return any(_more(before, now, "throttled") != 0 for before, now in looks)

    pairs = [(it.topic, name) for it in asked for name in it.subscriptions if is_open(it.topic, name)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(pairs, pool.map(lambda it: read_limits(admin, *it), pairs), strict=True))


def _part(
    it: SubscriptionPart,
    before: SubscriptionLook | None,
    now: SubscriptionLook | None,
    policies: TopicPolicies,
    limits: _Limits,
    others_sent: float | None,
) -> DispatchedPart:
    name = {"topic": str(it.topic), "partition": it.partition, "subscription": it.subscription}
    if now is None:  # without a backlog when all were asked; or not told any more
        known = 0 if it.entries == 0 and not it.expired_messages else None
        return DispatchedPart(
            **name,  # type: ignore[arg-type]
            kind=it.kind,
            entries=known,
            delayed_entries=known,
            expired_ever=it.expired_messages,
        )
    before = before if before is not None and before.at < now.at else None
    moved = before is not None and None not in (before.mark_delete, now.mark_delete)
    return DispatchedPart(
        **name,  # type: ignore[arg-type]
        kind=now.kind,
        look_seconds=now.at - before.at if before is not None else None,
        counters_back=before is not None and _back(before, now),
        entries=now.entries,
        delayed_entries=now.delayed,
        replay_entries=now.replay,
        unread_entries=now.unread,
        span_entries=now.span,
        oldest_seconds=now.at - now.oldest_ms / 1000 if now.oldest_ms is not None else None,
        arrived_entries=_more(before, now, "arrived"),
        acked_entries=_more(before, now, "acked"),
        sent_messages=_more(before, now, "sent"),
        resent_messages=_resent(before, now),
        sent_entries=_sent_entries(before, now),
        others_sent_entries=others_sent,
        redelivered_per_second=now.redelivered_per_second,
        expired_messages=_more(before, now, "expired"),
        expired_ever=now.expired,
        unacked_messages=now.unacked,
        unacked_limit=policies.unacked_limit,
        consumer_unacked_limit=policies.consumer_unacked_limit,
        blocked=now.blocked,
        consumers=_consumers(before, now),
        mark_delete=now.mark_delete,
        read_position=now.read_position,
        mark_delete_moved=before.mark_delete != now.mark_delete if before is not None and moved else None,
        read_moved=before.read_position != now.read_position
        if before is not None and None not in (before.read_position, now.read_position)
        else None,
        mark_delete_seconds=_since(now, now.mark_delete_ms),
        acked_seconds=_since(now, now.acked_ms),
        ack_ranges=now.ack_ranges,
        reads=_both(before, now),
        hash_blocks=_hash_blocks(before, now),
        blocking_hashes=_hashes(now),
        joined_behind=now.joined_behind,
        ttl_seconds=policies.ttl_seconds,
        quota_bytes=_deleting(now.quota_bytes, policies.size_quota_deletes),
        quota_seconds=_deleting(now.quota_seconds, policies.age_quota_deletes),
        backlog_bytes=now.backlog_bytes,
        retention_minutes=policies.retention_minutes,
        limit_per_second=lower(policies.limit_per_second, limits[0]),
        limit_bytes_per_second=lower(policies.limit_bytes_per_second, limits[1]),
        throttled_events=_more(before, now, "throttled"),
    )


def _deleting(limit: int | None, deletes: bool | None) -> int | None:
    """A quota that deletes entries; 0 if there is none, or if it only holds producers."""
    return 0 if limit == 0 or deletes is False else limit if deletes else None


def _since(now: SubscriptionLook, at_ms: int | None) -> float | None:
    return None if at_ms is None else max(0.0, now.at - at_ms / 1000)


def _more(before: SubscriptionLook | None, now: SubscriptionLook, name: str) -> int | None:
    """What a counter has counted between the looks; one that went back is not known."""
    old: int | None = getattr(before, name) if before is not None else None
    new: int | None = getattr(now, name)
    return None if old is None or new is None or new < old else new - old


def _back(before: SubscriptionLook, now: SubscriptionLook) -> bool:
    pairs = (
        (before.arrived, now.arrived),
        (before.acked, now.acked),
        (before.sent, now.sent),
        (before.expired, now.expired),
    )
    return any(one is not None and other is not None and other < one for one, other in pairs)


def _both(before: SubscriptionLook | None, now: SubscriptionLook) -> bool | None:
    """Whether a read was under way at one of the looks: one that is missing twice is missing."""
    told = (before.reads if before is not None else None, now.reads)
    return True if True in told else None if None in told else False


def _brokers(admin: PulsarAdmin) -> int | None:
    """How many there are; a token that is no superuser's may not ask."""
    try:
        told = admin.get("brokers")
    except SourceUnreachableError:
        return None
    return len(told) if isinstance(told, list) and told else None


def _mean_batch(now: SubscriptionLook) -> float | None:
    """Messages of an entry, as its consumers' brokers count them."""
    sizes = [it.avgMessagesPerEntry for it in now.consumers or () if it.avgMessagesPerEntry]
    return sum(sizes) / len(sizes) if sizes else None


def _sent_entries(before: SubscriptionLook | None, now: SubscriptionLook) -> float | None:
    sent, batch = _more(before, now, "sent"), _mean_batch(now)
    return 0.0 if sent == 0 else None if sent is None or batch is None else sent / batch


def _others_sent(it: SubscriptionPart, first: _Looks, second: _Looks) -> float | None:
    others = {key: now for key, now in second.items() if key[0] == it.partition and key[1] != it.subscription}
    told = [_sent_entries(first.get(key), now) for key, now in others.items()]
    known = [sent for sent in told if sent is not None]
    return sum(known) if len(known) == len(told) else None


def _resent(before: SubscriptionLook | None, now: SubscriptionLook) -> float | None:
    """Messages sent beyond those that were read from storage, and did not stay with the broker."""
    batch = _mean_batch(now)
    if before is None or batch is None:
        return None
    told = [
        (before.arrived, now.arrived),
        (before.unread, now.unread),
        (before.replay, now.replay),
        (before.delayed, now.delayed),
        (before.sent, now.sent),
    ]
    known = [new - old for old, new in told if old is not None and new is not None]
    if len(known) < len(told):
        return None
    arrived, unread, replay, delayed, sent = known
    fresh = arrived - unread - replay - delayed
    return max(0.0, sent - fresh * batch)


def _consumers(before: SubscriptionLook | None, now: SubscriptionLook) -> tuple[DispatchedConsumer, ...] | None:
    if now.consumers is None:
        return None
    earlier = before.consumers or () if before is not None else ()
    times = Counter(map(_connection, earlier))
    old = {_connection(it): it.availablePermits for it in earlier if times[_connection(it)] == 1}
    one_by_one = now.kind in ("shared", "key_shared")
    # All consumers of an application may have one name; which of them is the active one is then not told.
    active = [it for it in now.consumers if one_by_one or now.active in (None, it.consumerName)]
    which = True if one_by_one or len(active) == 1 else None
    return tuple(
        DispatchedConsumer(
            name=it.consumerName,
            permits=it.availablePermits,
            permits_before=old.get(_connection(it)),
            unacked=it.unackedMessages if one_by_one else None,
            blocked=it.blockedConsumerOnUnackedMsgs if one_by_one else None,
            connected_seconds=max(0.0, now.at - it.connectedSince) if it.connectedSince is not None else None,
            blocking_hashes=_blocking(it),
            gets_entries=which if it in active else False,
        )
        for it in now.consumers
    )


def _connection(it: LookedConsumer) -> _Connection:
    """Several consumers of one name may share a connection."""
    return it.consumerName, it.address, it.connectedSince


def _blocking(it: LookedConsumer) -> int | None:
    return it.drainingHashesCount if it.drainingHashes is None else len(it.drainingHashes)


def _hashes(look: SubscriptionLook) -> int | None:
    counts = [_blocking(it) for it in look.consumers or ()]
    return sum(it for it in counts if it is not None) if counts and None not in counts else None


def _attempts(look: SubscriptionLook) -> dict[tuple[_Connection, int], int]:
    """Times that each hash has kept entries back."""
    return {
        (_connection(it), hashed.hash): hashed.blockedAttempts
        for it in look.consumers or ()
        for hashed in it.drainingHashes or ()
        if hashed.blockedAttempts is not None
    }


def _hash_blocks(before: SubscriptionLook | None, now: SubscriptionLook) -> int | None:
    if before is None or _hashes(now) is None:
        return None
    old, new = _attempts(before), _attempts(now)
    if not new and _hashes(now):
        return None  # a broker that counts the hashes, and not what they keep back
    return sum(max(0, count - old.get(key, 0)) for key, count in new.items())
