"""The runtime's source on Pulsar, before a broker that is scripted: what is read, acknowledged, given up, and how much may come."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.certificates import certificate
from tests.pulsar.broker import FakeBroker, broker, entry
from tests.waiting import wait_for
from workbench.errors import ConfigError, SourceUnreachableError
from workbench.pulsar.connection import PulsarAccess
from workbench.pulsar.entry_messages import MessagePlace
from workbench.pulsar.pulsar_wire import Command, CommandKind, Fields, field, sealed
from workbench.pulsar.runtime.dead_letter_writer import PulsarLetterWriter, _PulsarLetter
from workbench.pulsar.runtime.partition_consumer import Seat
from workbench.pulsar.runtime.places_as_offsets import offset_behind, offset_of, shown
from workbench.pulsar.runtime.pulsar_source import PulsarSource
from workbench.pulsar.topic_names import TopicName
from workbench.redrive.letter_headers import Reader
from workbench.runtime import Event, Runtime, RuntimeConfig, running
from workbench.runtime.event import Record, TopicPartition

TOPIC = "public/default/orders"
PART = (TOPIC, -1)


class Listener:
    """Keeps what it is told; commits everything when a partition is revoked, as the runtime does."""

    def __init__(self) -> None:
        self.said: list[tuple[str, Any]] = []
        self.source: PulsarSource | None = None
        self.reached: dict[TopicPartition, int] = {}
        self.busy: set[TopicPartition] = set()

    def on_assigned(self, committed: Mapping[TopicPartition, int | None], *_: Any) -> None:
        self.said.append(("assigned", dict(committed)))

    def on_reset(self, *_: Any) -> None:
        raise AssertionError

    def on_leaving(self, partitions: Sequence[TopicPartition]) -> None:
        self.said.append(("leaving", list(partitions)))

    def has_left(self, partition: TopicPartition) -> bool:
        return partition not in self.busy

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.said.append(("revoked", list(partitions)))
        if self.source is not None and self.reached:
            self.said.append(("committed", self.source.commit(self.reached, wait=True)))

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.said.append(("lost", list(partitions)))


def config(url: str, **changes: Any) -> RuntimeConfig:
    """Settings of a member."""
    values = {"system": "pulsar", "bootstrap": url, "group": "billing", "topics": [TOPIC], "client_id": "one"}
    values["rebalance_drain_seconds"] = 0.1
    return RuntimeConfig.parse({**values, **changes})


@pytest.fixture
def fake() -> Iterator[FakeBroker]:
    """A broker with a topic without partitions."""
    with broker() as made:
        yield made


class Joined:
    """A source that has subscribed, and its consumer's number at the broker."""

    def __init__(self, fake: FakeBroker, **changes: Any) -> None:
        self.fake, self.listener = fake, Listener()
        self.source = self.listener.source = PulsarSource(config(fake.url, **changes), member="one-0")
        self.source.subscribe([TOPIC], self.listener)
        wait_for(lambda: self.poll() == [] and fake.told[CommandKind.FLOW])
        [self.consumer] = fake.consumers()

    def poll(self, most: int = 500) -> list[Record]:
        return list(self.source.poll(most, 0.02))

    def records(self, count: int) -> list[Record]:
        """So many, as soon as they are there."""
        found: list[Record] = []
        wait_for(lambda: found.extend(self.poll()) or len(found) >= count)
        return found


@pytest.fixture
def joined(fake: FakeBroker) -> Iterator[Joined]:
    """A failover that is not active yet."""
    made = Joined(fake)
    yield made
    made.source.close()


def test_a_member_reads_when_the_broker_says_that_it_is_active(joined: Joined) -> None:
    """What comes before is not lost; keys, times, properties and places are those of the messages, in batches, too."""
    joined.fake.send(joined.consumer, entry(("a", "1")))
    assert joined.poll() == [] and joined.listener.said == []
    joined.fake.activate(joined.consumer)
    joined.fake.send(joined.consumer, entry(("a", "2"), ("b", "3")))
    found = joined.records(3)
    assert joined.listener.said == [("assigned", {PART: offset_of(MessagePlace(5, 0))})]
    assert [(it.key, it.value, shown(it.offset)) for it in found] == [
        (b"a", b"1", "5:0:0"),
        (b"a", b"2", "5:1:0"),
        (b"b", b"3", "5:1:1"),
    ]
    assert {it.timestamp_ms for it in found} == {1_795_000_000_000}
    assert [it.headers for it in found] == [(("kind", b"single"),), *[(("kind", b"batched"),)] * 2]


def test_the_end_of_the_log_is_reached_when_all_below_it_was_returned(joined: Joined) -> None:
    """As of the broker's last word, once; a task with ranges ends by that where nothing more comes."""
    joined.fake.activate(joined.consumer)
    joined.fake.send(joined.consumer, entry(("a", "1"), ("a", "2")))
    joined.fake.send(joined.consumer, entry(("b", "3")))
    wait_for(lambda: len(joined.source.poll(1, 0.02)) == 1)
    assert joined.source.take_ends() == {}  # nobody has asked where it is
    joined.source.ends()
    assert joined.source.take_ends() == {}
    joined.records(2)
    assert joined.source.take_ends() == {PART: offset_behind(5, 1)}
    assert joined.source.take_ends() == {}
    joined.fake.mark = (5, 1)
    assert joined.source.acknowledged() == {PART: offset_behind(5, 1)}


def test_an_acknowledgement_is_of_everything_below(joined: Joined) -> None:
    """In the middle of a batch it says which messages are not, for brokers that keep that."""
    joined.fake.activate(joined.consumer)
    joined.fake.send(joined.consumer, entry(("a", "1"), ("a", "2"), ("b", "3")))
    found = joined.records(3)
    assert joined.source.commit({PART: found[1].offset + 1}, wait=True) == {}
    assert joined.source.commit({PART: found[2].offset + 1}, wait=False) is None
    wait_for(lambda: joined.source.commit_result() == {})
    middle, end = joined.fake.told[CommandKind.ACK]
    assert middle.number(2) == end.number(2) == 1
    assert (middle.message(3).number(2), middle.message(3).numbers(5)) == (0, [0b100])
    assert (end.message(3).number(2), end.message(3).numbers(5)) == (0, [])


def test_what_is_acknowledged_of_a_batch_is_not_handled_again(joined: Joined) -> None:
    """A broker sends the batch whole, and says which of it is left; it counts permits for those alone."""
    joined.fake.activate(joined.consumer)
    joined.fake.send(joined.consumer, entry(*[("a", str(number)) for number in range(4)]), acknowledged=[0b1100])
    assert [it.value for it in joined.records(2)] == [b"2", b"3"]


def test_another_active_consumer_takes_the_partition(joined: Joined) -> None:
    """There is a moment to acknowledge; what waited is dropped, and the broker sends it from the acknowledged place on."""
    joined.fake.activate(joined.consumer)
    joined.fake.send(joined.consumer, entry(("a", "1")))
    [record] = joined.records(1)
    joined.listener.reached = {PART: record.offset + 1}
    joined.source.pause([PART])
    joined.fake.send(joined.consumer, entry(("a", "2")))
    assert joined.poll() == []
    joined.fake.activate(joined.consumer, active=False)
    wait_for(lambda: joined.poll() == [] and len(joined.listener.said) == 4)
    assert joined.listener.said[1:] == [("leaving", [PART]), ("revoked", [PART]), ("committed", {})]
    joined.fake.activate(joined.consumer)
    joined.fake.send(joined.consumer, entry(("a", "3")))
    assert [it.value for it in joined.records(1)] == [b"3"]
    assert joined.listener.said[4][0] == "assigned"


def test_the_next_member_waits_for_the_former(fake: FakeBroker) -> None:
    """For as long as that may drain; and what was acknowledged meanwhile is not handled, although it was sent."""
    joined = Joined(fake, rebalance_drain_seconds=0.5)
    fake.activate(joined.consumer)
    for text in "123":
        fake.send(joined.consumer, entry(("a", text)))
    began = time.monotonic()
    fake.mark = (5, 1)
    assert [it.value for it in joined.records(1)] == [b"3"]
    assert time.monotonic() - began >= 0.7
    assert joined.listener.said == [("assigned", {PART: offset_of(MessagePlace(5, 2))})]
    joined.source.close()


def test_what_comes_after_the_broker_has_named_another_comes_again(joined: Joined) -> None:
    """It was on its way. The broker begins anew; nothing of that is taken for what came already."""
    fake = joined.fake
    fake.activate(joined.consumer)
    fake.send(joined.consumer, entry(("a", "0")))
    [record] = joined.records(1)
    joined.listener.reached = {PART: record.offset + 1}
    for text in "123":
        fake.send(joined.consumer, entry(("a", text)))
    fake.activate(joined.consumer, active=False)
    fake.send(joined.consumer, entry(("a", "4")))
    wait_for(lambda: joined.poll() == [] and ("revoked", [PART]) in joined.listener.said)
    fake.mark = (5, 0)
    fake.activate(joined.consumer)
    wait_for(lambda: joined.poll() == [] and joined.listener.said[-1][0] == "assigned")
    for number in (1, 2, 3, 4):
        fake.send(joined.consumer, entry(("a", str(number))), number=number)
    assert [it.value for it in joined.records(4)] == [b"1", b"2", b"3", b"4"]


def test_partitions_end_their_work_beside_each_other() -> None:
    """Their next members wait for the same time: one that waits for another here would still be at work then."""
    with broker(partitions=3) as fake:
        listener = Listener()
        source = PulsarSource(config(fake.url), member="one-0")
        source.subscribe([TOPIC], listener)
        wait_for(lambda: source.poll(1, 0.02) == [] and len(fake.consumers()) == 3)
        consumers = fake.consumers()
        for consumer in consumers:
            fake.activate(consumer)
        wait_for(lambda: source.poll(1, 0.02) == [] and len(listener.said) == 3)
        first, second = (TOPIC, 0), (TOPIC, 1)
        listener.busy = {first, second}
        fake.activate(consumers[0], active=False)
        wait_for(lambda: source.poll(1, 0.02) == [] and ("leaving", [first]) in listener.said)
        fake.activate(consumers[1], active=False)
        wait_for(lambda: source.poll(1, 0.02) == [] and ("leaving", [second]) in listener.said)
        assert not [it for it in listener.said if it[0] == "revoked"]
        fake.send(consumers[2], entry(("a", "1")))
        wait_for(lambda: [it.partition for it in source.poll(1, 0.02)] == [2])
        listener.busy = {first}
        wait_for(lambda: source.poll(1, 0.02) == [] and ("revoked", [second]) in listener.said)
        fake.activate(consumers[0])
        wait_for(lambda: source.poll(1, 0.02) == [] and listener.said[-1][0] == "assigned")
        assert ("revoked", [first]) in listener.said
        source.close()


def test_a_member_of_many_partitions_starts_nothing_more_of_those_that_leave() -> None:
    """Not while it still works for another one."""
    began: list[str] = []

    def handle(event: Event) -> None:
        began.append(event.payload.decode())
        time.sleep(0.5)

    with broker(partitions=3) as fake:
        own = {
            "rebalance_drain_seconds": 1.5,
            "commit_interval_seconds": 60,
            "processors": {"*": {"threads": 4, "queues": 1}},
        }
        with running(Runtime(config(fake.url, **own), {"*": handle})):
            wait_for(lambda: len(fake.consumers()) == 3)
            for consumer in fake.consumers():
                fake.activate(consumer)
                for text in "12":
                    fake.send(consumer, entry((f"key-{consumer}", f"{consumer}-{text}")))
            wait_for(lambda: len(began) == 3, pause_seconds=0.01)
            for consumer in fake.consumers():
                fake.activate(consumer, active=False)
            wait_for(lambda: len(fake.told[CommandKind.ACK]) == 3)
            assert sorted(began) == sorted(f"{consumer}-1" for consumer in fake.consumers())


def test_what_is_acknowledged_and_comes_late_is_not_handled(joined: Joined) -> None:
    """A broker may have it on its way when it names the next one."""
    joined.fake.mark = (5, 1)
    joined.fake.activate(joined.consumer)
    wait_for(lambda: joined.poll() == [] and joined.listener.said)
    for text in "123":
        joined.fake.send(joined.consumer, entry(("a", text)))
    assert [it.value for it in joined.records(1)] == [b"3"]


@pytest.mark.parametrize("kind", [CommandKind.SUBSCRIBE, CommandKind.GET_LAST_MESSAGE_ID])
def test_a_consumer_that_nobody_has_is_closed(fake: FakeBroker, kind: CommandKind) -> None:
    """Its answer did not come. It would be the active one, on a connection that lives, and nobody would read what it is sent."""
    fake.withheld[kind] = 1
    source = PulsarSource(config(fake.url), member="one-0")
    source._access = source._brokers.access = replace(source._access, seconds=0.3)
    source.subscribe([TOPIC], Listener())
    wait_for(lambda: source.poll(1, 0.02) == [] and len(fake.consumers()) == 2)
    assert [it.number(1) for it in fake.told[CommandKind.CLOSE_CONSUMER]] == fake.consumers()[:1]
    source.close()


def test_what_is_acknowledged_is_asked_again(joined: Joined) -> None:
    """One answer that does not come keeps no partition for ever."""
    joined.source._access = replace(joined.source._access, seconds=0.3)
    joined.fake.withheld[CommandKind.GET_LAST_MESSAGE_ID] = 1
    joined.fake.activate(joined.consumer)
    joined.fake.send(joined.consumer, entry(("a", "1")))
    assert [it.value for it in joined.records(1)] == [b"1"]


class Chunks:
    """A partition that gets chunks of messages, at a time that is told."""

    def __init__(self) -> None:
        self.seat, self._entries = Seat(PART, "orders"), 0
        self.seat._granted = 1000

    def come(self, payload: bytes, *, now: float) -> None:
        place = field(1, 5) + field(2, self._entries)
        self._entries += 1
        self.seat.take_in(Command(CommandKind.MESSAGE, Fields.parse(field(2, place)), payload), now)

    def chunk(self, name: str, number: int, text: str, *, now: float, published: float | None = None) -> None:
        at = round((now if published is None else published) * 1000)
        own = field(26, name) + field(27, 2) + field(29, number)
        self.come(sealed(field(1, "p") + field(2, 0) + field(3, at) + own, text.encode()), now=now)

    def single(self, text: str, *, now: float, published: float | None = None) -> None:
        at = round((now if published is None else published) * 1000)
        self.come(entry(("a", text), publish_ms=at), now=now)

    def taken(self) -> list[tuple[str, bytes | None]]:
        some = [(shown(it.offset), it.value) for it in self.seat.waiting]
        self.seat.waiting.clear()
        return some


def test_a_message_that_is_never_whole_holds_up_nobody_for_ever() -> None:
    """Not by the chunks of others either; it is one that cannot be read, and is seen."""
    chunks = Chunks()
    chunks.chunk("never", 0, "x", now=0)
    found = []
    for turn in range(4):
        chunks.chunk(f"m{turn}", 0, "a", now=20 + turn * 20)
        chunks.chunk(f"m{turn}", 1, "b", now=20 + turn * 20)
        found += chunks.taken()
    assert found == [("5:0:0", None), ("5:1:0", b"ab"), ("5:3:0", b"ab"), ("5:5:0", b"ab"), ("5:7:0", b"ab")]


def test_a_message_that_is_never_whole_holds_up_nobody_where_nothing_comes() -> None:
    """The broker was free to send for a minute."""
    chunks = Chunks()
    chunks.chunk("never", 0, "x", now=0)
    chunks.single("1", now=1)
    chunks.seat.go_on(60)
    assert chunks.taken() == []
    chunks.seat.go_on(62)
    assert chunks.taken() == [("5:0:0", None), ("5:1:0", b"1")]


def test_chunks_that_wait_at_the_broker_are_not_given_up() -> None:
    """However long nothing was wanted here."""
    chunks = Chunks()
    chunks.chunk("m", 0, "a", now=0)
    chunks.seat._granted = 0
    chunks.seat.go_on(500)
    chunks.single("1", now=500, published=0.1)
    chunks.chunk("m", 1, "b", now=501, published=0.2)
    assert chunks.taken() == [("5:0:0", b"ab"), ("5:1:0", b"1")]


def test_chunks_that_a_producer_sends_again_are_one_message() -> None:
    """It begins anew after a connection has ended, and what it had sent may be there."""
    chunks = Chunks()
    for number, text in ((0, "a"), (0, "a"), (1, "b"), (1, "b")):
        chunks.chunk("m", number, text, now=0)
    chunks.single("1", now=0)
    assert chunks.taken() == [("5:1:0", b"ab"), ("5:4:0", b"1")]


def test_a_message_in_chunks_that_is_acknowledged_is_not_handled() -> None:
    """The former member has handled it, while it came here."""
    chunks = Chunks()
    chunks.chunk("m", 0, "a", now=0)
    chunks.single("1", now=0)
    chunks.seat.begin_behind(Fields.parse(field(3, field(1, 5) + field(2, 1))))
    chunks.chunk("m", 1, "b", now=0)
    chunks.single("2", now=0)
    assert chunks.taken() == [("5:3:0", b"2")]


def test_no_more_may_come_than_is_wanted(joined: Joined) -> None:
    """1,000 messages at first; what is taken is granted again, and nothing while the partition is paused. Batches overdraw."""
    fake = joined.fake
    assert fake.permits(joined.consumer) == 1000
    fake.activate(joined.consumer)
    wait_for(lambda: joined.poll() == [] and joined.listener.said)
    joined.source.pause([PART])
    for _ in range(150):
        fake.send(joined.consumer, entry(*[("a", "x")] * 10))
    wait_for(lambda: joined.poll() == [] and joined.source.health().fetch_queue == {PART: 1500})  # type: ignore[union-attr]
    assert fake.permits(joined.consumer) == 1000
    joined.source.resume([PART])
    assert len(joined.records(1500)) == 1500
    wait_for(lambda: joined.poll() == [] and fake.permits(joined.consumer) == 2000)


def test_large_messages_are_few(joined: Joined) -> None:
    """About 16 MiB may wait, whatever the number of messages."""
    joined.fake.activate(joined.consumer)
    for _ in range(60):
        joined.fake.send(joined.consumer, entry(("a", "x" * 400_000)))
    assert len(joined.records(60)) == 60
    granted = joined.fake.permits(joined.consumer)
    for _ in range(960):
        joined.fake.send(joined.consumer, entry(("a", "x" * 100)))
    joined.records(960)
    wait_for(lambda: joined.poll() == [] and joined.fake.permits(joined.consumer) > granted)


@pytest.mark.parametrize("way", ["close_consumer", "cut"])
def test_a_consumer_that_has_ended_is_made_anew(joined: Joined, way: str) -> None:
    """Its partition is lost: nothing of it can be acknowledged by the next one, whose position may have been reset."""
    fake = joined.fake
    fake.activate(joined.consumer)
    fake.send(joined.consumer, entry(("a", "1")))
    [record] = joined.records(1)
    fake.cut() if way == "cut" else fake.close_consumer(joined.consumer)
    wait_for(lambda: len(fake.consumers()) == 2)
    failed = joined.source.commit({PART: record.offset + 1}, wait=True)
    assert failed is not None and "closed the consumer" in failed[PART]
    assert fake.told[CommandKind.ACK] == []
    wait_for(lambda: joined.poll() == [] and ("lost", [PART]) in joined.listener.said)
    again = fake.consumers()[1]
    wait_for(lambda: joined.poll() == [] and fake.permits(again) == 1000)
    fake.activate(again)
    fake.send(again, entry(("a", "1")))
    assert [it.value for it in joined.records(1)] == [b"1"]


def test_an_entry_that_cannot_be_read_has_a_place(joined: Joined) -> None:
    """It becomes a dead letter, and holds nobody up."""
    joined.fake.activate(joined.consumer)
    joined.fake.send(joined.consumer, b"\x0e\x01nothing")
    joined.fake.send(joined.consumer, entry(("a", "2")))
    damaged, whole = joined.records(2)
    assert (damaged.value, shown(damaged.offset), whole.value) == (None, "5:0:0", b"2")
    with pytest.raises(ValueError, match="cannot be read"):
        list(damaged.headers or ())


def test_the_letter_of_a_message_that_cannot_be_read_is_not_redriven(joined: Joined) -> None:
    """There is nothing in it: produced again, it would be a message without a value, as of one that is deleted."""
    joined.fake.activate(joined.consumer)
    joined.fake.send(joined.consumer, b"\x0e\x01nothing")
    [record] = joined.records(1)
    name, access = TopicName.parse(f"persistent://{TOPIC}"), PulsarAccess.of(joined.fake.url, token=None, ca_file=None)
    assert name is not None
    writer = PulsarLetterWriter(name, access, subscription="billing")
    letter = _PulsarLetter(Event("", b"", None, record), "x", lambda: None)
    sent = writer._message(letter, SimpleNamespace(fits=lambda _: True))  # type: ignore[arg-type]
    writer.close(1)
    found = Reader().origin([(key, value.encode()) for key, value in sent.properties])
    assert found.left_out


def test_a_letter_keeps_the_time_and_the_order_of_its_message(joined: Joined) -> None:
    """That its producer has given; it has no time of its own if the message had none."""
    own = field(1, "p") + field(2, 0) + field(3, 1_795_000_000_000) + field(6, "k")
    joined.fake.activate(joined.consumer)
    joined.fake.send(joined.consumer, sealed(own + field(12, 1_700_000_000_001) + field(18, b"lane"), b"v"))
    joined.fake.send(joined.consumer, sealed(own, b"v"))
    dated, plain = joined.records(2)
    name, access = TopicName.parse(f"persistent://{TOPIC}"), PulsarAccess.of(joined.fake.url, token=None, ca_file=None)
    assert name is not None
    writer = PulsarLetterWriter(name, access, subscription="billing")
    fits: Any = SimpleNamespace(fits=lambda _: True)
    sent = [writer._message(_PulsarLetter(Event("", b"", None, it), "x", lambda: None), fits) for it in (dated, plain)]
    writer.close(1)
    assert [(it.event_ms, it.ordering_key) for it in sent] == [(1_700_000_000_001, b"lane"), (0, None)]
    assert all(("wb_timestamp_ms", "1795000000000") in it.properties for it in sent)


def test_partitions_that_a_topic_gets_are_read() -> None:
    """Each has a consumer of its own; a paused one keeps nobody waiting."""
    with broker(partitions=2) as fake:
        listener = Listener()
        source = PulsarSource(config(fake.url, pulsar={"subscription": "exclusive"}), member="one-0")
        source.subscribe([TOPIC], listener)
        wait_for(lambda: source.poll(1, 0.02) == [] and len(listener.said) == 2)
        first, second = fake.consumers()
        source.pause([(TOPIC, 0)])
        for consumer in (first, second):
            fake.send(consumer, entry(("a", str(consumer))))
        found: list[Record] = []
        wait_for(lambda: found.extend(source.poll(10, 0.02)) or found)
        assert [(it.partition, it.value) for it in found] == [(1, str(second).encode())]
        source.close()
        assert listener.said[2] == ("revoked", [(TOPIC, 0), (TOPIC, 1)])
        wait_for(lambda: len(fake.told[CommandKind.CLOSE_CONSUMER]) == 2)


def test_a_busy_subscription_is_tried_again_and_another_type_ends_the_member(fake: FakeBroker) -> None:
    """The first is a standby's life; the second does not change by itself."""
    fake.refusals = [(5, "Exclusive consumer is already connected"), (5, "Subscription is of different type")]
    source = PulsarSource(config(fake.url, pulsar={"subscription": "exclusive"}), member="one-0")
    source.subscribe([TOPIC], Listener())
    with pytest.raises(SourceUnreachableError, match="different type") as found:
        wait_for(lambda: source.poll(1, 0.05))
    source.close()
    assert found.value.hint is not None and "Shared or Key_Shared" in found.value.hint
    assert fake.refusals == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pulsar": {"subscription": "key_shared"}}, "has no position below which everything is handled"),
        ({"pulsar": {"subscription": "shard"}}, "must be failover or exclusive"),
        ({"topics": ["orders"]}, "no tenant/namespace/topic"),
        ({"topics": ["^public/default/.*"]}, "no tenant/namespace/topic"),
        ({"kafka": {"session.timeout.ms": 1}}, "of no use"),
        ({"switch_file": "x"}, "does not work on a Pulsar yet"),
        ({"start_at": datetime(2026, 11, 26, tzinfo=UTC)}, "does not work on a Pulsar yet"),
        ({"audit": {"topic": "rows"}}, "audit.topic: rows is no tenant/namespace/topic"),
    ],
)
def test_settings_that_do_not_work_are_refused(changes: dict[str, Any], words: str) -> None:
    """Each in one sentence."""
    with pytest.raises(ConfigError, match=words):
        config("pulsar://x", **changes)


def test_an_address_is_a_service_url() -> None:
    """With a scheme that is Pulsar's; several hosts have one."""
    with pytest.raises(ConfigError, match="no service URL"):
        PulsarSource(config("localhost:9092"), member="m")
    assert PulsarSource(config("pulsar://a,b:1"), member="m")._access.urls == ("pulsar://a", "pulsar://b:1")
    bare = {"system": "pulsar", "bootstrap": "pulsar://x", "group": "billing", "topics": [TOPIC]}
    assert RuntimeConfig.parse(bare).rebalance_drain_seconds == 2.0
    assert config("pulsar://x", rebalance_drain_seconds=3).rebalance_drain_seconds == 3


def test_a_connection_by_tls_with_a_token(tmp_path: Path) -> None:
    """The certificate is verified, the token sent; both directions are busy at once, and a ping is answered."""
    authority = certificate(tmp_path, "authority")
    certificate(tmp_path, "server", authority=authority)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    own = {"token": "tok-1", "ca_file": str(tmp_path / "authority.pem")}
    with broker(tls=tls, secret="tok-1") as fake:
        joined = Joined(fake, pulsar=own)
        fake.activate(joined.consumer)
        sending = threading.Thread(
            target=lambda: [fake.send(joined.consumer, entry(*[("a", "x" * 500)] * 20)) for _ in range(200)]
        )
        sending.start()
        taken = 0
        while taken < 4000:
            found = joined.records(1)
            taken += len(found)
            assert joined.source.commit({PART: found[-1].offset + 1}, wait=True) == {}
        sending.join()
        assert fake.told[CommandKind.PONG]
        joined.source.close()
        for wrong, words in (
            ({**own, "token": "tok-2"}, "Unable to authenticate"),
            ({"token": "tok-1"}, "certificate verify failed"),
        ):
            source = PulsarSource(config(fake.url, pulsar=wrong), member="m")
            with pytest.raises(SourceUnreachableError, match=words) as failed:
                source._brokers.partitions(TOPIC)
            assert "tok-" not in failed.value.message
            source.close()
