"""Kinds of groups: what a list calls them, which can be judged, and what a snapshot makes of them."""

from __future__ import annotations

import pytest

from workbench.queues.group_kinds import (
    HIDDEN,
    KINDS,
    Unjudged,
    cannot_judge,
    cannot_replay_from,
    cannot_replay_into,
    kind_of,
    kinds_in,
    named,
    unjudged_in,
)
from workbench.queues.snapshot_views import GroupView, Member, ShareOffset, Snapshot, group_view, views_table


@pytest.mark.parametrize(
    ("group_type", "protocol_type", "kind"),
    [
        ("Classic", "consumer", "classic"),
        ("Classic", "", "classic"),
        ("Classic", "connect", "connect"),
        ("Classic", "sr", "sr"),
        ("Consumer", "consumer", "consumer"),
        ("Share", "share", "share"),
        ("Streams", "streams", "streams"),
        ("", "consumer", "classic"),
        ("", "connect", "connect"),
        ("Future", "future", "future"),
    ],
)
def test_a_kind_is_the_type_or_the_other_programs_name(group_type: str, protocol_type: str, kind: str) -> None:
    """Brokers before 3.8 send no type; a type that we do not know is none of the known ones."""
    assert kind_of(group_type, protocol_type) == kind


def test_what_cannot_be_judged_or_replayed_says_what_it_is() -> None:
    """And what can be has no reason."""
    for kind in (*KINDS, HIDDEN, "sr", "unknown"):
        for why in (cannot_judge(kind), cannot_replay_into(kind), cannot_replay_from(kind)):
            assert why is None or why.startswith(named(kind)), (kind, why)
    assert [kind for kind in KINDS if cannot_judge(kind) is None] == ["classic", "consumer", "streams"]
    assert [kind for kind in KINDS if cannot_replay_into(kind) is None] == ["classic", "consumer"]
    assert [kind for kind in KINDS if cannot_replay_from(kind) is None] == ["classic", "consumer", "streams"]
    assert cannot_judge("unknown") is None  # Kafka did not answer: that is told elsewhere


def member(name: str, *parts: int, target: tuple[int, ...] | None = None) -> Member:
    """A member that has partitions of one topic."""
    wanted = None if target is None else tuple(("t", it) for it in target)
    return Member(member_id=name, client_id=name, host="/h", partitions=tuple(("t", it) for it in parts), target=wanted)


def view(name: str, kind: str, *members: Member) -> GroupView:
    """A stable group."""
    return GroupView(group=name, state="stable", protocol=kind, coordinator=1, members=members)


def test_partitions_on_their_way_are_counted_once() -> None:
    """One that a member must give up and another one must take over is one partition."""
    moved = view("g", "consumer", member("a", 0, 1, target=(0,)), member("b", 2, target=(1, 2)))
    assert moved.reassigning == (("t", 1),)
    assert view("g", "consumer", member("a", 0, target=(0,))).reassigning == ()
    assert view("g", "classic", member("a", 0)).reassigning is None
    snapshot = Snapshot(
        taken_at=1.0, groups=(moved, view("c", "classic", member("x", 0))), commits={}, ends={}, starts={}
    )
    rows = [row for row in snapshot.to_samples("c").to_pylist() if row["signal"] == "reassigning_partitions"]
    assert [(row["group"], row["value"]) for row in rows] == [("g", 1.0)]


def test_the_clients_description_has_the_target() -> None:
    """And librdkafka's names of states become ours."""
    from confluent_kafka import ConsumerGroupState, ConsumerGroupType, TopicPartition
    from confluent_kafka.admin import ConsumerGroupDescription, MemberAssignment, MemberDescription

    person = MemberDescription(
        "id", "client", "/h", MemberAssignment([TopicPartition("t", 0)]), None,
        MemberAssignment([TopicPartition("t", 0), TopicPartition("t", 1)]),
    )  # fmt: skip
    described = ConsumerGroupDescription(
        "g", False, [person], "uniform", ConsumerGroupState.PREPARING_REBALANCING, None, type=ConsumerGroupType.CONSUMER
    )
    found = group_view("g", described)
    assert (found.state, found.protocol) == ("preparing_rebalance", "consumer")
    assert found.reassigning == (("t", 1),)


def test_the_lag_of_a_share_group_is_the_brokers_number() -> None:
    """Never end minus start, and None where the broker does not tell it."""
    key, other = ("s", "t", 0), ("s", "t", 1)
    snapshot = Snapshot(
        taken_at=1.0,
        groups=(view("s", "share", member("a", 0, 1)), view("g", "classic")),
        commits={("g", "t", 0): 150},
        ends={("t", 0): 204, ("t", 1): 10},
        starts={("t", 0): 0},
        shares={key: ShareOffset(start=0, lag=4), other: ShareOffset(start=None, lag=None)},
    )
    assert (snapshot.lag(*key), snapshot.lag(*other), snapshot.lag("g", "t", 0)) == (4, None, 54)
    samples = snapshot.to_samples("c").to_pylist()
    lags = {(it["group"], it["partition"]): it["value"] for it in samples if it["signal"] == "consumer_lag"}
    assert lags == {("g", 0): 54.0, ("s", 0): 4.0}
    assert {it["group"] for it in samples if it["signal"] == "committed_offset"} == {"g"}
    assert {it["group"] for it in snapshot.share_samples("c").to_pylist()} == {"s"}
    only = snapshot.of_kinds(["share"])
    assert [it.group for it in only.groups] == ["s"]
    assert only.read == (key, other)


def test_unjudged_groups_of_a_table_of_members() -> None:
    """The newest look counts; groups with a finding, and those that nobody asked for, are left out."""
    import pyarrow as pa

    first = views_table([view("w", "connect", member("a"), member("b")), view("s", "share")], "c", 1.0)
    then = views_table([view("w", "connect", member("a")), view("g", "classic", member("x", 0))], "c", 2.0)
    table = pa.concat_tables([first, then])
    assert kinds_in(table) == {"w": "connect", "s": "share", "g": "classic"}
    found = unjudged_in(table, lags={"s": 7})
    assert [(it.group, it.kind, it.members, it.lag_messages) for it in found] == [
        ("s", "share", 0, 7),
        ("w", "connect", 1, None),
    ]
    assert [it.group for it in unjudged_in(table, without=["s"])] == ["w"]
    assert [it.group for it in unjudged_in(table, only=["s"])] == ["s"]
    assert unjudged_in(table, topics=["t"]) == ()
    assert found[0].headline.startswith("Cannot tell: a share group")
    assert found[0].to_json()["kind"] == "share"
    assert Unjudged(cluster="c", group="x", kind="sr", state="stable", members=1).headline == (
        "Cannot tell: a group of another program (protocol type 'sr'): it is not a group of consumers."
    )
