"""The source in memory is held against the real client: the same random steps, the same records and commits."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from tests.runtime.helpers import record
from tests.runtime.memory import MemoryBroker, MemorySource
from tests.runtime.mock import MockCluster, mock_cluster
from workbench.kafka.runtime.kafka_source import KafkaSource
from workbench.runtime import Record, RuntimeConfig
from workbench.runtime.event import TopicPartition as Partition
from workbench.runtime.source import RecordSource

PARTITIONS = 2
STEPS = 250
SEED = int(os.environ.get("DIFFERENTIAL_SEED", "1"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    """librdkafka's mock."""
    with mock_cluster() as made:
        yield made


@dataclass
class Heard:
    """What a source has told of its assignment."""

    calls: list[tuple[str, Any]] = field(default_factory=list)

    def on_assigned(
        self,
        committed: Mapping[Partition, int | None],
        begin: Mapping[Partition, int] | None = None,
        notes: Mapping[Partition, str] | None = None,
    ) -> None:
        self.calls.append(("assigned", {number: offset for (_, number), offset in committed.items()}))

    def on_revoked(self, partitions: Sequence[Partition]) -> None:
        self.calls.append(("revoked", [number for _, number in partitions]))

    def on_lost(self, partitions: Sequence[Partition]) -> None:
        self.calls.append(("lost", [number for _, number in partitions]))


class RealSource(KafkaSource):
    """The runtime's own source, whose assignment comes from the test and not from a coordinator; inside of `poll`, as ever."""

    listener: Heard
    pending: list[tuple[str, list[Partition]]]

    def subscribe(self, topics: Sequence[str], listener: Any) -> None:
        self.listener, self.pending = listener, []

    def later(self, what: str, partitions: list[Partition]) -> None:
        self.pending.append((what, partitions))

    def poll(self, max_records: int, timeout: float) -> list[Record]:
        while self.pending:
            what, partitions = self.pending.pop(0)
            parts = [TopicPartition(*part) for part in partitions]
            if what == "assigned":
                committed = self._committed_if_known(parts)
                self.listener.on_assigned(committed)
                for part in parts:
                    offset = committed[part.topic, part.partition]
                    part.offset = OFFSET_BEGINNING if offset is None else offset
                self._consumer.incremental_assign(parts)
            else:
                getattr(self.listener, f"on_{what}")(self._given_up(parts))
                self._consumer.incremental_unassign(parts)
        return super().poll(max_records, timeout)


class Pair:
    """Both sources, on logs that hold the same."""

    def __init__(self, cluster: MockCluster) -> None:
        self.topic = "differential"
        self._cluster = cluster
        cluster.produce(1, topic=self.topic, partitions=PARTITIONS)  # makes the topic, with a record in each partition
        self.broker = MemoryBroker(PARTITIONS)
        self.broker.produce(record(0, partition=number) for number in range(PARTITIONS))
        config = RuntimeConfig.parse(
            {"bootstrap": cluster.bootstrap, "group": self.topic, "topics": [self.topic], "kafka": {"log_level": 0}}
        )
        self.real, self.memory = RealSource(config, member="m"), MemorySource(broker=self.broker, alone=False)
        self.heard = (Heard(), Heard())
        self.real.subscribe([self.topic], self.heard[0])
        self.memory.subscribe(["t"], self.heard[1])
        self.assigned: set[int] = set()

    def both(self, what: str, *partitions: int, **more: Any) -> None:
        getattr(self.real, what)([(self.topic, number) for number in partitions], **more)
        getattr(self.memory, what)([("t", number) for number in partitions], **more)

    def produce(self, partition: int, count: int) -> None:
        end = self.broker.end(("t", partition))
        for number in range(end, end + count):
            self.broker.produce([record(number, partition=partition)])
            self._cluster.write(self.topic, partition)
        self._cluster.flush()

    def assign(self, partition: int) -> None:
        for source, topic in ((self.real, self.topic), (self.memory, "t")):
            source.later("assigned", [(topic, partition)])
        self.assigned.add(partition)

    def give_up(self, what: str, partition: int) -> None:
        for source, topic in ((self.real, self.topic), (self.memory, "t")):
            source.later(what, [(topic, partition)])
        self.assigned.discard(partition)

    def commit(self, partition: int, offset: int, *, wait: bool) -> None:
        pairs: tuple[tuple[RecordSource, str], ...] = ((self.real, self.topic), (self.memory, "t"))
        for source, topic in pairs:
            # With an epoch, so that the next assignment verifies it (the mock tells one even where none was committed).
            epochs = {(topic, partition): 0}
            assert source.commit({(topic, partition): offset}, wait=wait, epochs=epochs) in (None, {})
        if not wait:  # one at a time, as the committer has it
            deadline = time.monotonic() + 10
            found: list[Record] = []
            while (failed := self.real.commit_result()) is None:
                assert time.monotonic() < deadline
                found += self.real.poll(1, 0.01)
            assert failed == {}
            self._compare(found)
        # Each one shows what it holds, whoever asks.
        [answer] = self.real._consumer.committed([TopicPartition(self.topic, partition)], timeout=10)
        self.memory.poll(0, 0)
        assert answer.offset == self.broker.committed["t", partition] == offset

    def poll(self) -> None:
        """Read all that there is, and nothing else comes."""
        self._compare([])

    def _compare(self, found: list[Record]) -> None:
        wanted: list[Record] = []
        while fresh := self.memory.poll(100, 0):
            wanted += fresh
        deadline = time.monotonic() + 10
        while len(found) < len(wanted) and time.monotonic() < deadline:
            found += self.real.poll(100, 0.02)
        found += self.real.poll(100, 0.02 if wanted else 0.05)

        def by_partition(records: list[Record]) -> list[list[int]]:
            return [[item.offset for item in records if item.partition == number] for number in range(PARTITIONS)]

        assert by_partition(found) == by_partition(wanted)
        assert self.heard[0].calls == self.heard[1].calls

    def close(self) -> None:
        self.real.close()


def test_both_do_the_same(cluster: MockCluster) -> None:
    """Assignments, losses, pauses that outlive them, rewinds, commits anywhere in the log, in any order."""
    print(f"again with DIFFERENTIAL_SEED={SEED}")
    dice, pair = random.Random(SEED), Pair(cluster)
    done: list[tuple[str, int]] = []
    try:
        for _ in range(STEPS):
            step = dice.choice(KINDS), dice.randrange(PARTITIONS)
            done.append(step)
            try:
                _step(pair, *step, dice)
            except AssertionError as error:
                raise AssertionError(f"the last steps: {done[-12:]}") from error
        for number in range(PARTITIONS):
            if number not in pair.assigned:
                pair.assign(number)
        pair.poll()
    finally:
        pair.close()


KINDS = (
    *("produce",) * 3,
    *("assign",) * 4,
    *("revoked", "lost", "pause", "resume") * 2,
    "rewind",
    *("commit", "commit_later") * 2,
    "poll",
)


def _step(pair: Pair, what: str, which: int, dice: random.Random) -> None:
    if what == "produce":
        pair.produce(which, dice.randint(1, 3))
    elif what == "poll":
        pair.poll()
    elif what == "assign":
        if which not in pair.assigned:
            pair.assign(which)
            pair.poll()
    elif what.startswith("commit"):
        # Not beyond the end: there the client goes to the end or to the beginning, whichever answer comes first.
        end = pair.broker.end(("t", which))
        pair.commit(which, dice.choice([0, dice.randint(0, end), end]), wait=what == "commit")
    elif which in pair.assigned:
        if what in ("revoked", "lost"):
            pair.give_up(what, which)
        else:
            pair.both(what, which)
        pair.poll()
