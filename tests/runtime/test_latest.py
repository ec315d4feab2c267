"""Where a group with `auto.offset.reset = latest` begins: at the end of what was there when it began, and of nothing else."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.runtime.chaos.conductor import PROTOCOLS
from tests.waiting import wait_for
from workbench.commit_note import parse_note
from workbench.errors import SetupError
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import add_partitions, create_topic
from workbench.runtime import Event, Runtime, RuntimeConfig, running

pytestmark = pytest.mark.lab

_NUMBERS = itertools.count()
OLD, NEW = 20, 10


class Group:
    """A group that begins at the end, and what it has handled as (topic, partition, value)."""

    def __init__(self, lab: Lab, *, topics: list[str] | None = None, protocol: str = "cooperative-sticky") -> None:
        self.name = f"latest-{next(_NUMBERS)}"
        self.bootstrap, self.protocol = lab.bootstrap, protocol
        self.topics = topics or [self.name]
        self.handled: set[tuple[str, int, bytes]] = set()

    def make(self, partitions: int, topic: str | None = None) -> None:
        create_topic(self.bootstrap, topic or self.name, partitions)

    def produce(self, count: int, mark: str, *partitions: int, topic: str | None = None) -> set[tuple[str, int, bytes]]:
        """Write so many records into each of the partitions, and return them."""
        made = {(topic or self.name, part, b"%s-%d" % (mark.encode(), n)) for part in partitions for n in range(count)}
        # A new one each time: it knows how many partitions there are.
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 2, "log_level": 0})
        for name, part, value in sorted(made):
            producer.produce(name, value, b"k", part)
        assert producer.flush(30) == 0
        return made

    def runtime(self) -> Runtime:
        config: dict[str, Any] = {
            "bootstrap": self.bootstrap,
            "group": self.name,
            "topics": self.topics,
            "client_id": "one",
            "commit_interval_seconds": 0.2,
            "shutdown_seconds": 5,
            "kafka": {
                **PROTOCOLS[self.protocol],
                "auto.offset.reset": "latest",
                "topic.metadata.refresh.interval.ms": 500,
                "log_level": 0,
            },
        }
        return Runtime(RuntimeConfig.parse(config), {"*": self._handle})

    def _handle(self, event: Event) -> None:
        self.handled.add((event.record.topic, event.record.partition, bytes(event.record.value or b"")))

    def committed(self, partition: int) -> tuple[int, int | None]:
        """Committed offset, and how many partitions its note says."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.name, "log_level": 0})
        [answer] = consumer.committed([TopicPartition(self.name, partition)], timeout=30)
        consumer.close()
        return answer.offset, parse_note(answer.metadata).partitions

    def commit(self, offsets: dict[int, int], note: str = "") -> None:
        """Commit as any other client, while nobody is in the group."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.name, "log_level": 0})
        parts = [TopicPartition(self.name, part, at, note) for part, at in offsets.items()]
        consumer.commit(offsets=parts, asynchronous=False)
        consumer.close()


def has(runtime: Runtime, partitions: int) -> bool:
    """Whether its consumers have so many partitions."""
    return sum(len(consumer.partitions) for consumer in runtime.task.consumers) == partitions


@pytest.fixture(params=PROTOCOLS)
def group(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Group]:
    """A group under each protocol, whose topic has two partitions with old records."""
    made = Group(lab, protocol=request.param)
    made.make(2)
    made.produce(OLD, "old", 0, 1)
    yield made


@pytest.mark.parametrize("runs", [True, False], ids=["while_it_runs", "while_it_does_not"])
def test_partitions_that_are_added_are_read_from_their_beginning(group: Group, runs: bool) -> None:
    """Whenever it learns of them; of the others, nothing is read that was there before it began."""
    with running(group.runtime()) as first:
        wait_for(lambda: has(first, 2))
        if not runs:
            first.stop()
        add_partitions(group.bootstrap, group.name, 4)
        new = group.produce(NEW, "new", 0, 1, 2, 3)
        if runs:
            wait_for(lambda: group.handled >= new)
    if not runs:
        with running(group.runtime()):
            wait_for(lambda: group.handled >= new)
    assert group.handled == new


def test_a_pattern_reads_topics_that_are_made_later_from_their_beginning(lab: Lab) -> None:
    """And those that were there when the group began from their end."""
    group = Group(lab, topics=[f"^latest-pattern-{next(_NUMBERS)}-.*"])
    there, later = (group.topics[0].removeprefix("^").removesuffix(".*") + name for name in ("there", "later"))
    group.make(2, there)
    group.produce(OLD, "old", 0, 1, topic=there)
    with running(group.runtime()) as runtime:
        wait_for(lambda: has(runtime, 2))
        group.make(2, later)
        new = group.produce(NEW, "new", 0, 1, topic=later) | group.produce(NEW, "new", 0, 1, topic=there)
        wait_for(lambda: group.handled >= new)
    assert group.handled == new


def test_a_topic_that_is_made_after_its_group_has_begun_is_read_from_its_beginning(lab: Lab) -> None:
    """It was named, and was not there."""
    group = Group(lab)
    with running(group.runtime()):
        time.sleep(1)  # it has joined, and nothing tells so: it has no partition
        group.make(2)
        new = group.produce(NEW, "new", 0, 1)
        wait_for(lambda: group.handled >= new)
    assert group.handled == new


def test_a_topic_that_is_made_anew_is_read_from_its_beginning(group: Group) -> None:
    """The broker deletes the group's commits with the topic; that makes no first start of it."""
    admin = AdminClient({"bootstrap.servers": group.bootstrap, "log_level": 0})
    with running(group.runtime()) as runtime:
        wait_for(lambda: has(runtime, 2) and runtime.task.log_ends.ids)
        before = group.produce(NEW, "before", 0, 1)
        wait_for(lambda: group.handled >= before)
        admin.delete_topics([group.name])[group.name].result(30)

        def is_made() -> bool:  # the broker deletes in its own time
            try:
                group.make(2)
            except SetupError:
                return False
            return True

        wait_for(is_made)
        new = group.produce(NEW, "new", 0, 1)
        wait_for(lambda: group.handled >= new)
    assert group.handled == before | new


def test_what_begins_at_its_end_says_so_for_good(group: Group) -> None:
    """In each commit: a member that begins beside it and sees the first of them has no new partitions."""
    with running(group.runtime()) as runtime:
        wait_for(lambda: has(runtime, 2))
        assert [group.committed(part) for part in (0, 1)] == [(OLD, 2), (OLD, 2)]
        group.produce(NEW, "new", 0, 1)
        wait_for(lambda: [group.committed(part) for part in (0, 1)] == [(OLD + NEW, 2)] * 2)


@pytest.mark.parametrize(
    ("note", "reads_old"), [("", True), ("partitions=1", True), ("partitions=2", False)], ids=["others", "new", "known"]
)
def test_what_a_group_has_committed_says_which_partitions_it_had(lab: Lab, note: str, reads_old: bool) -> None:
    """A partition without a commit is a new one if others of its topic have some, unless these say that it was there already."""
    group = Group(lab)
    group.make(2)
    old = group.produce(OLD, "old", 0, 1)
    group.commit({0: OLD}, note)
    with running(group.runtime()) as runtime:
        wait_for(lambda: has(runtime, 2))
        new = group.produce(NEW, "new", 0, 1)
        wait_for(lambda: group.handled >= new)
    assert group.handled == new | {it for it in old if it[1] == 1 and reads_old}
