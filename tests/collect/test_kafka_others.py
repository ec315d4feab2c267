"""A list of groups is whole, or says that it is not: what brokers hide while groups move (a real cluster: tests/secured)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pytest

from tests.collect.wire_broker import Coordinated, WireBroker, listing
from workbench.kafka import group_listing as kafka_others
from workbench.kafka.group_answers import Coordination
from workbench.kafka.group_listing import Others, settled
from workbench.kafka.groups import read_others

ALL, SOME = {"a", "b"}, {"a"}
WHOLE: list[Coordinated] = [(1, [1, 2, 3], [1, 2, 3]), (1, [2, 1, 3], [1, 2, 3])]
LEFT: list[Coordinated] = [(1, [1, 2, 3], [1, 3]), (1, [2, 1, 3], [1, 3])]
DARK: list[Coordinated] = [(1, [1], [1]), (-1, [2], [2])]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The takeover is awaited in an instant."""
    monkeypatch.setattr(kafka_others, "_TAKE_OVER_SECONDS", 0.01)


def listed(
    told: Sequence[Sequence[Coordinated] | int], lists: Sequence[set[str]], before: Coordination | None = None
) -> tuple[Others, int]:
    """What is found of a broker whose answers change so, the last ones for ever; and how often it was asked for the list."""
    asks: Iterator[Sequence[Coordinated] | int] = iter(told)
    names = iter(lists)
    last: list[set[str]] = []
    seen: list[Sequence[Coordinated] | int] = []

    def coordination() -> Sequence[Coordinated] | int:
        seen.append(next(asks, seen[-1] if seen else 0))
        return seen[-1]

    def groups(_body: bytes) -> bytes:
        last.append(next(names, last[-1] if last else set()))
        return listing(dict.fromkeys(last[-1], ("consumer", "Empty", "Classic")))

    with WireBroker({16: groups}) as broker:
        broker.coordination = coordination
        found = read_others(broker.address, {}, time.monotonic() + 5, before=before)
    return found, len(last)


def test_a_quiet_cluster_is_listed_once() -> None:
    """Nobody pays for what happens rarely."""
    found, asked = listed([WHOLE], [ALL])
    assert (found.consumers, found.incomplete, asked) == (ALL, [], 1)


def test_groups_that_a_broker_has_just_taken_over_are_waited_for() -> None:
    """The controller has dropped a broker; the one that leads its partition now does not list its groups yet, and says nothing."""
    found, asked = listed([LEFT], [SOME, ALL])
    assert (found.consumers, found.incomplete, asked) == (ALL, [], 3)


def test_what_one_list_told_is_not_lost_with_the_next() -> None:
    """The old coordinator told it before it gave it away, the new one does not tell it yet."""
    found, asked = listed([LEFT], [ALL, SOME, SOME])
    assert (found.consumers, found.incomplete, asked) == (ALL, [], 3)


def test_other_leaders_than_last_time_are_enough() -> None:
    """All replicas are in sync again, and leaders go back to where they belong: only who was there before can see it."""
    before = Coordination(leaders={0: 1, 1: 2}, is_whole=True)
    found, asked = listed([WHOLE], [SOME, ALL], before)
    assert (found.consumers, found.incomplete, asked) == (ALL, [], 3)
    assert found.coordination is not None and dict(found.coordination.leaders) == {0: 1, 1: 1}
    _, asked = listed([WHOLE], [SOME], found.coordination)
    assert asked == 1


def test_a_cluster_that_lacks_a_replica_for_weeks_is_listed_twice() -> None:
    """And no more."""
    found, asked = listed([LEFT], [ALL])
    assert (found.consumers, found.incomplete, asked) == (ALL, [], 2)


def test_groups_that_never_stand_still_are_incomplete() -> None:
    """It ends, and says so."""
    lists = [{*ALL, str(number)} for number in range(20)]
    found, asked = listed([LEFT], lists)
    assert asked == kafka_others._LISTS
    assert any("some may be missing" in words for words in found.incomplete)
    assert found.consumers >= ALL


def test_groups_without_a_coordinator_are_named() -> None:
    """With one replica and its broker gone, no list ever has them."""
    found, _ = listed([DARK], [SOME])
    assert found.incomplete == [
        "list of groups: 1 of the 2 partitions of __consumer_offsets without a leader: no broker tells of the groups there"
    ]


@pytest.mark.parametrize("code", [3, 29])
def test_a_topic_that_is_not_there_or_may_not_be_seen_hinders_nothing(code: int) -> None:
    """A new cluster has none; some principals may not see it."""
    found, asked = listed([code], [ALL])
    assert (found.consumers, found.incomplete, asked, found.coordination) == (ALL, [], 1, None)


def test_the_time_limit_holds_while_groups_move() -> None:
    """What is known by then is told, as incomplete."""
    left = Coordination(leaders={0: 1}, is_whole=False)
    found = settled(lambda: Others(consumers={"a"}, coordination=left), None, time.monotonic())
    assert found.consumers == {"a"}
    assert found.incomplete == [kafka_others._MOVING]
