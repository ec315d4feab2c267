"""Rules of the way into the queues: delays are kept, bounds are kept, and no event passes an earlier one of its key."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.runtime.helpers import Clock, event
from workbench.runtime import Event, ProcessorConfig, RuntimeConfig
from workbench.runtime.delay_queue import DelayQueue
from workbench.runtime.partition_state import PartitionState
from workbench.runtime.placing_in_queues import Placing
from workbench.runtime.processors import Processors
from workbench.runtime.runtime_metrics import RuntimeMetrics


def test_the_delay_queue_is_bounded_and_in_order_of_time() -> None:
    """Events come out when due, earliest first; one that finds no room stands in line until there is some."""
    queue = DelayQueue(2)
    late, early, more = event(0, key=b"a"), event(1, key=b"b"), event(2, key=b"c")
    assert queue.admit(late, key=b"a", due=2.0)
    assert queue.admit(early, key=b"b", due=1.0)
    assert not queue.admit(more, key=b"c", due=0.5)
    assert list(queue.take_in([more])) == [more]
    assert queue.due(0.9) == []
    assert queue.due(1.0) == [early]
    assert list(queue.take_in([more])) == []
    assert queue.due(5.0) == [more, late]
    assert (len(queue), queue.is_on_the_way) == (0, False)


def test_delays_keep_the_order_of_a_key_when_event_times_jump_back() -> None:
    """An earlier instant behind a later one of its key waits for it; another key does not."""
    queue = DelayQueue(10)
    first, second, other = event(0), event(1), event(2)
    assert queue.admit(first, key=b"a", due=2.0)
    assert queue.admit(second, key=b"a", due=1.0)
    assert queue.admit(other, key=b"b", due=1.0)
    assert queue.has(b"a")
    assert not queue.has(b"c")
    assert queue.due(1.5) == [other]
    assert queue.due(2.0) == [first, second]
    assert not queue.has(b"a")


class Way:
    """A way into queues that no thread serves; the test takes events off them."""

    def __init__(
        self, *, delay_capacity: int = 2, queue_capacity: int = 2, types: dict[str, float] | None = None
    ) -> None:
        self.clock, self.wall = Clock(), Clock()
        pool = ProcessorConfig(threads=2, queue_capacity=queue_capacity)
        config = RuntimeConfig.parse(
            {
                "bootstrap": "127.0.0.1:9",
                "group": "g",
                "topics": ["t"],
                "delay_capacity": delay_capacity,
                "default_processor": pool,
            }
        )
        metrics = RuntimeMetrics("g", gauges=lambda: ())
        unused: Any = None
        self.processors = Processors(
            {"*": lambda _event: None}, config, reporter=unused, sentinels=metrics.sentinels, clock=self.clock
        )
        self.placing = Placing(
            config, self.processors, metrics, give_up=lambda *_: None, clock=self.clock, wall_clock=self.wall
        )
        self.owner = PartitionState(("t", 0), deque())

    def make(self, offset: int, *, key: bytes = b"a", kind: str = "x", delay: float | None = None) -> Event:
        made = event(offset, key=key, kind=kind, owner=self.owner)
        if delay is not None:
            made.delay_until_ms = round((self.wall.now + delay) * 1000)
        return made

    def taken(self) -> list[int]:
        """Offsets that come out now, until nothing comes any more."""
        found: list[int] = []
        while True:
            self.placing.go_on()
            before = len(found)
            for pool in self.processors:
                for slot in pool.slots:
                    while (item := slot.queue.take(0)) is not None:
                        found.append(item.record.offset)
            if len(found) == before:
                return found

    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds
        self.wall.now += seconds


def test_a_later_event_does_not_pass_one_that_finds_no_room_in_the_delay_queue() -> None:
    """The queue is full of another key; the second event of ours is due already, the first is not."""
    it = Way(delay_capacity=1)
    it.placing.place([it.make(0, key=b"other", delay=1.5), it.make(1, delay=1.0), it.make(2, delay=-1.0)])
    assert it.taken() == []
    it.pass_time(2)
    assert it.taken() == [0, 1, 2]


def test_an_event_without_a_delay_waits_behind_a_delayed_one_of_its_key() -> None:
    """A decoder delays some events of a key, of one type or of two that one processor handles."""
    it = Way()
    it.placing.place([it.make(0, delay=1.0), it.make(1), it.make(2, kind="y"), it.make(3, key=b"b")])
    assert it.taken() == [3]
    it.pass_time(1)
    assert it.taken() == [0, 1, 2]


def test_a_jump_of_the_wall_clock_neither_holds_an_event_nor_lets_it_go() -> None:
    """The delay is counted from its admission by a clock that nobody sets, and is bounded by the longest delay."""
    it = Way()
    it.placing.place([it.make(0, delay=10.0)])
    it.wall.now += 3600
    assert it.taken() == []
    it.wall.now -= 7200
    it.clock.now += 10
    assert it.taken() == [0]
    it.placing.place([it.make(1, delay=3600.0)])  # an event time of a clock that is an hour ahead
    it.clock.now += 60
    assert it.taken() == [1]


def test_events_of_a_revoked_partition_leave_nothing_behind() -> None:
    """Neither in the delay queue nor in the line before it: a key of theirs holds up nobody."""
    it = Way(delay_capacity=1)
    theirs = PartitionState(("t", 1), deque())
    gone = [it.make(0, delay=5.0), it.make(1, delay=5.0)]
    for item in gone:
        item.owner = theirs
    it.placing.place(gone)
    theirs.revoked = True
    it.placing.discard_revoked()
    assert not it.placing.delayed.is_on_the_way
    it.placing.place([it.make(2)])
    assert it.taken() == [2]


@settings(deadline=None, max_examples=300)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("place"), st.integers(0, 2), st.sampled_from([None, -1.0, 0.3, 1.0, 2.5]), st.sampled_from("xy")),
            st.tuples(st.just("pass"), st.sampled_from([0.1, 0.4, 1.1]), st.none(), st.none()),
            st.tuples(st.just("take"), st.none(), st.none(), st.none()),
        ),
        max_size=60,
    ),
    st.integers(1, 3),
    st.integers(1, 3),
)  # fmt: skip
def test_order_by_key_holds_whatever_is_full_or_late(
    steps: list[Any], delay_capacity: int, queue_capacity: int
) -> None:
    """Every event comes out, none before its time, and those of one key in their order."""
    it = Way(delay_capacity=delay_capacity, queue_capacity=queue_capacity)
    keys: dict[bytes, list[int]] = defaultdict(list)
    due: dict[int, float] = {}
    out: list[int] = []

    def take() -> None:
        fresh = it.taken()
        assert all(it.clock.now >= due[offset] for offset in fresh)
        out.extend(fresh)

    for what, which, delay, kind in steps:
        if what == "place":
            offset, key = len(due), str(which).encode()
            due[offset] = it.clock.now + (delay or 0.0) - 0.001  # event times have milliseconds
            keys[key].append(offset)
            it.placing.place([it.make(offset, key=key, delay=delay, kind=kind)])
        elif what == "pass":
            it.pass_time(which)
        else:
            take()
    it.pass_time(60)
    take()
    assert sorted(out) == list(range(len(due)))
    for offsets in keys.values():
        assert [offset for offset in out if offset in offsets] == offsets
