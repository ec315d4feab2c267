"""Kinds of groups: what each is, and why some cannot be judged or replayed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

CLASSIC, CONSUMER, SHARE, STREAMS, CONNECT = "classic", "consumer", "share", "streams", "connect"
HIDDEN = "share or streams"  # what librdkafka alone can tell: there is a group, and it is no consumer group
UNKNOWN = "unknown"
REDRIVE = "redrive plan"  # by its name: such a group has no members, and its commits say how far a plan of dead letters has come
REDRIVE_PREFIX = "workbench-redrive-"  # of progress groups and transactional ids: ACLs can be given by prefix

# Groups whose members read partitions in order and commit where they are: what this program's questions are about.
JUDGED = (CLASSIC, CONSUMER, STREAMS)
REPLAYABLE = (CLASSIC, CONSUMER)
SUBSCRIPTIONS = ("exclusive", "failover", "shared", "key_shared")  # types of subscriptions
KINDS = (CLASSIC, CONSUMER, SHARE, STREAMS, CONNECT)

_NAMES = {
    CLASSIC: "a classic consumer group",
    CONSUMER: "a consumer group of the new protocol (KIP-848)",
    SHARE: "a share group (KIP-932)",
    STREAMS: "a Kafka Streams group (KIP-1071)",
    CONNECT: "a group of Kafka Connect workers",
    HIDDEN: "a share group or a Kafka Streams group",
    UNKNOWN: "a group whose kind is not known",
    REDRIVE: "the position of a redrive plan",
    **{kind: f"a subscription of Pulsar, {kind.replace('_', '-')}" for kind in SUBSCRIPTIONS},
}
_WHY_NOT = {
    SHARE: (
        "its members share partitions and acknowledge single records, so a committed offset and an owner of a partition, which the "
        "questions are about, do not exist; its lag is the broker's own number"
    ),
    CONNECT: (
        "its workers divide connectors and tasks, not partitions, and commit nothing; a sink connector's lag is that of the group "
        "connect-NAME"
    ),
    HIDDEN: "the client cannot describe it with these security settings",
    REDRIVE: "new dead letters are not its lag, and nobody has to read them for it; see `workbench dlq list`",
    **dict.fromkeys(
        SUBSCRIPTIONS,
        "the questions about Kafka's groups do not fit it; `workbench triage --cluster CLUSTER` asks others",
    ),
}


def kind_of(group_type: str, protocol_type: str) -> str:
    """Kind of a group by the broker's list: one of `KINDS`, or the protocol type of another program (such as `sr`)."""
    kind = group_type.lower() or CLASSIC  # brokers before 3.8 send no type: they have only classic groups
    if kind == CLASSIC and protocol_type not in ("", "consumer"):
        return protocol_type
    return kind


def is_redrive_plan(group: str) -> bool:
    """Whether a group is the position of a redrive plan, by its name."""
    return group.startswith(REDRIVE_PREFIX)


def named(kind: str) -> str:
    """The kind in words, with its article."""
    return _NAMES.get(kind, f"a group of another program (protocol type {kind!r})")


def cannot_judge(kind: str) -> str | None:
    """Why groups of this kind cannot be judged; None if they can."""
    if kind in (*JUDGED, UNKNOWN):
        return None
    return f"{named(kind)}: {_WHY_NOT.get(kind, 'it is not a group of consumers')}"


def cannot_replay_into(kind: str) -> str | None:
    """Why a replay cannot begin in a group of this kind; None if it can."""
    if kind in (*REPLAYABLE, UNKNOWN):
        return None
    reasons = {
        SHARE: "it has no committed offsets that a replay could set; its start offsets are moved by kafka-share-groups --reset-offsets",
        STREAMS: "its state stores and internal topics would stay as they are; kafka-streams-application-reset resets all of it",
        CONNECT: "its workers commit no offsets; a sink connector's offsets are altered by Connect's own REST API",
    }
    return f"{named(kind)}: {reasons.get(kind, 'it is not a group of consumers')}"


def cannot_replay_from(kind: str) -> str | None:
    """Why a group of this kind cannot be the old group of a replay; None if it can."""
    if kind in (*JUDGED, UNKNOWN):
        return None
    return f"{named(kind)}: it has no committed offsets that a plan could compare with"


NO_COMMIT = "it has members, and no commit: it has never committed, or stores its positions elsewhere; whether it reads is not known"
STREAMS_SOURCE = (
    "{group!r} is a Kafka Streams group: its state stores, changelog topics and repartition topics stay as they are. A new group reads "
    "the input topics only; it begins with empty state, and does not undo what the old one has stored."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unjudged:
    """A group that cannot be judged, by its kind or because it has no commit: what it is, and what is known of it.

    Attributes:
        members: in the group; None if not known.
        topics: that it reads, as far as known.
        lag_messages: as the broker computes it; None if not known.
        muted: until when and why, if the settings mute the group.
    """

    cluster: str
    group: str
    kind: str
    state: str
    members: int | None
    topics: tuple[str, ...] = ()
    lag_messages: int | None = None
    muted: str | None = None

    @property
    def headline(self) -> str:
        """Why, in one sentence."""
        return f"Cannot tell: {cannot_judge(self.kind) or f'{named(self.kind)}: {NO_COMMIT}'}."

    def to_json(self) -> dict[str, Any]:
        """All fields, and the headline."""
        return {
            "cluster": self.cluster,
            "group": self.group,
            "kind": self.kind,
            "group_state": self.state,
            "members": self.members,
            "topics": list(self.topics),
            "lag_messages": self.lag_messages,
            "muted": self.muted,
            "headline": self.headline,
        }


def kinds_in(groups: pa.Table) -> dict[str, str]:
    """Group to its kind, by a table of members (`GROUPS_SCHEMA`); the last row of a group counts."""
    return {
        group: kind
        for group, kind in zip(groups["group"].to_pylist(), groups["protocol"].to_pylist(), strict=True)
        if kind not in (None, UNKNOWN)
    }


def unjudged_in(
    groups: pa.Table,
    *,
    without: Iterable[str] = (),
    only: Iterable[str] = (),
    topics: Iterable[str] = (),
    lags: Mapping[str, int] | None = None,
) -> tuple[Unjudged, ...]:
    """Groups of a table of members that cannot be judged, by name.

    Args:
        without: groups that have a finding already.
        only: these groups, if any are named. Positions of redrive plans are left out unless they are named.
        topics: groups that read one of these, if any are named.
        lags: group to its lag in messages, where it is known.
    """
    asked, done, wanted = set(only), set(without), set(topics)
    newest: dict[str, Any] = {}
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in groups.to_pylist():
        name, kind = row["group"], row["protocol"]
        if kind is None or cannot_judge(kind) is None or name in done or (asked and name not in asked):
            continue
        if kind == REDRIVE and name not in asked:
            continue
        if newest.setdefault(name, row["ts"]) < row["ts"]:
            newest[name], rows[name] = row["ts"], []
        if row["ts"] == newest[name]:
            rows.setdefault(name, []).append(row)
    found = []
    for name, mine in sorted(rows.items()):
        read = tuple(sorted({row["topic"] for row in mine if row["topic"] is not None}))
        if wanted and not wanted & set(read):
            continue
        kind = mine[-1]["protocol"]
        members = len({row["member_id"] for row in mine if row["member_id"] is not None})
        found.append(
            Unjudged(
                cluster=mine[-1]["cluster"],
                group=name,
                kind=kind,
                state=mine[-1]["state"] or UNKNOWN,
                members=None if kind == HIDDEN else members,
                topics=read,
                lag_messages=(lags or {}).get(name),
            )
        )
    return tuple(found)
