"""Rules of the keyed queue: bounded, first in first out, and a parked key holds back itself alone."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.helpers import Clock, event
from workbench.runtime.keyed_queue import KeyedQueue
from workbench.runtime.processors import queue_index


def offsets(queue: KeyedQueue) -> list[int]:
    """Take all that is ready."""
    found = []
    while (item := queue.take(0)) is not None:
        found.append(item.record.offset)
    return found


def test_a_full_queue_refuses_the_rest_in_order() -> None:
    """What found no room comes back, and nothing behind it slipped in."""
    queue = KeyedQueue(3, clock=Clock())
    refused = queue.put([event(n) for n in range(5)])
    assert [item.record.offset for item in refused] == [3, 4]
    assert len(queue) == 3
    assert queue.fill() == 1.0
    assert offsets(queue) == [0, 1, 2]


def test_a_parked_key_waits_and_the_others_pass() -> None:
    """Events of the key that were there before and those that come later stand behind it, in their order."""
    clock = Clock()
    queue = KeyedQueue(10, clock=clock)
    queue.put([event(0, key=b"a"), event(1, key=b"b"), event(2, key=b"a")])
    first = queue.take(0)
    assert first is not None
    queue.park(first, after=5.0)
    queue.put([event(3, key=b"a"), event(4, key=b"b")])
    assert offsets(queue) == [1, 4]
    clock.now += 5.0
    again = queue.take(0)
    assert again is first
    queue.release(b"a")
    assert offsets(queue) == [2, 3]
    assert len(queue) == 0


def test_one_key_cannot_fill_the_queue_with_parked_events() -> None:
    """A poisoned key leaves half of the room to the others."""
    queue = KeyedQueue(10, clock=Clock())
    queue.put([event(0, key=b"bad")])
    bad = queue.take(0)
    assert bad is not None
    queue.park(bad, after=60.0)
    refused = queue.put([event(n, key=b"bad") for n in range(1, 9)])
    assert [item.record.offset for item in refused] == [6, 7, 8]
    assert queue.put([event(20, key=b"good")]) == []
    assert offsets(queue) == [20]


def test_discarding_a_partition_frees_the_keys_it_had_parked() -> None:
    """A retry that is dropped must not leave its key parked for ever."""
    clock = Clock()
    queue = KeyedQueue(10, clock=clock)
    queue.put([event(0, key=b"a", partition=1), event(1, key=b"a", partition=0)])
    first = queue.take(0)
    assert first is not None
    queue.park(first, after=1.0)
    dropped = queue.discard(lambda item: item.record.partition == 1)
    assert dropped == 1
    assert offsets(queue) == [1]
    assert len(queue) == 0


@given(st.integers(0, 10**6), st.integers(1, 12))
@settings(max_examples=150)
def test_order_by_key_holds_whatever_happens(seed: int, capacity: int) -> None:
    """Random puts, takes, retries and clock steps: each key's events are finished in the order of the log, none lost, none twice."""
    chance, clock = random.Random(seed), Clock()
    queue = KeyedQueue(capacity, clock=clock)
    held: list[object] = []
    finished: list[tuple[bytes, int]] = []
    next_offset, total = 0, 60
    while len(finished) < total:
        action = chance.random()
        if action < 0.4 and next_offset < total:
            batch = [
                event(next_offset + n, key=chance.choice([b"a", b"b", b"c"]))
                for n in range(min(4, total - next_offset))
            ]
            next_offset += len(batch)
            held = queue.put([*held, *batch])  # type: ignore[list-item]
        elif action < 0.5:
            held = queue.put(held)  # type: ignore[arg-type]
        elif action < 0.6:
            clock.now += chance.random() * 3
        else:
            taken = queue.take(0)
            if taken is None:
                clock.now += 1.0
                held = queue.put(held)  # type: ignore[arg-type]
            elif chance.random() < 0.3:
                queue.park(taken, after=chance.random() * 2)
            else:
                queue.release(taken.key)
                finished.append((taken.key, taken.record.offset))
        assert len(queue) <= capacity
    assert len(set(finished)) == total
    for key in (b"a", b"b", b"c"):
        mine = [offset for name, offset in finished if name == key]
        assert mine == sorted(mine)


def test_what_the_reader_has_taken_over_counts_and_is_given_back_for_a_parked_key() -> None:
    """It goes through many events without the lock; a retry among them holds back its own key, and no other."""
    clock = Clock()
    queue = KeyedQueue(4, clock=clock)
    queue.put([event(0, key=b"a"), event(1, key=b"b"), event(2, key=b"a"), event(3, key=b"b")])
    first = queue.take(0)
    assert first is not None
    assert len(queue) == 3
    assert queue.fill() == 0.75
    assert [item.offset for item in queue.put([event(4, key=b"a"), event(5)])] == [5]
    queue.park(first, after=5.0)
    assert offsets(queue) == [1, 3]
    clock.now += 5.0
    assert queue.take(0) is first
    queue.release(b"a")
    assert offsets(queue) == [2, 4]


def test_a_discard_takes_nothing_from_under_the_reader() -> None:
    """What the reader goes through stays in its order, each once: whoever handles it looks whether it is still wanted."""
    queue = KeyedQueue(10, clock=Clock())
    queue.put([event(number, partition=number % 2) for number in range(4)])
    assert queue.take(0) is not None
    queue.put([event(4, partition=0), event(5, partition=1)])
    assert queue.discard(lambda item: item.record.partition == 1) == 1
    assert offsets(queue) == [1, 2, 3, 4]
    assert len(queue) == 0


def test_a_taker_is_woken_by_a_retry_that_becomes_due() -> None:
    """No busy waiting, and no oversleeping: the real clock is used here."""
    import time

    queue = KeyedQueue(5, clock=time.monotonic)
    queue.put([event(0)])
    first = queue.take(0)
    assert first is not None
    queue.park(first, after=0.05)
    assert queue.take(5.0) is first


def test_closing_wakes_the_reader() -> None:
    """A stop does not wait for the timeout."""
    import threading
    import time

    queue = KeyedQueue(5, clock=time.monotonic)
    threading.Timer(0.05, queue.close).start()
    began = time.monotonic()
    assert queue.take(30.0) is None
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("partitions", [6, 12])
def test_keys_of_one_partition_spread_over_all_queues(partitions: int) -> None:
    """Kafka's partitioner hashes the same key; a queue chosen by the same hash would leave most queues empty."""
    import zlib

    keys = [f"key-{n}".encode() for n in range(4000)]
    mine = [key for key in keys if zlib.crc32(key) % partitions == 1]
    used = [queue_index(key, 4) for key in mine]
    assert min(used.count(queue) for queue in range(4)) > len(mine) / 4 * 0.7
    assert queue_index(b"stable", 16) == queue_index(b"stable", 16)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("tpr")), max_size=60), st.integers(2, 4))
def test_several_readers_never_hold_one_key_at_once(steps: list[tuple[int, str]], readers: int) -> None:
    """Put, take and release in any order: a key is out once at most, its events come out in order, and none is lost."""
    queue = KeyedQueue(100, clock=Clock(), readers=readers)
    offset, out, seen = 0, {}, []
    for key, what in steps:
        name = str(key).encode()
        if what == "p":
            assert queue.put([event(offset, key=name)]) == []
            offset += 1
        elif what == "t" and len(out) < readers:
            taken = queue.take(0)
            if taken is not None:
                assert taken.key not in out
                out[taken.key] = taken
                seen.append(taken.record.offset)
        elif what == "r" and name in out:
            queue.release(out.pop(name).key)
    while out or len(queue):
        while out:
            queue.release(out.popitem()[0])
        taken = queue.take(0)
        if taken is None:
            break
        out[taken.key] = taken
        seen.append(taken.record.offset)
    assert sorted(seen) == list(range(offset))
    assert len(queue) == 0
