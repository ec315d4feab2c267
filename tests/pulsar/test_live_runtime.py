"""The runtime on a real standalone: every record is handled, in order for each key, whatever is killed, closed or moved meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests

from tests.waiting import wait_for
from workbench.errors import SourceUnreachableError
from workbench.lab.pulsar import PulsarStandalone
from workbench.pulsar.connection import PulsarAccess
from workbench.pulsar.producer import OutgoingMessage, PulsarProducer
from workbench.pulsar.pulsar_wire import field
from workbench.pulsar.topic_brokers import PulsarBrokers
from workbench.runtime import Event, ProcessorConfig, Runtime, RuntimeConfig, running
from workbench.runtime.admin_answers import status

if TYPE_CHECKING:
    import pulsar

pytestmark = [pytest.mark.lab, pytest.mark.slow]

KEYS, PARTITIONS, BATCH = 40, 3, 10
# One line for each event that is handled: key, number, when it began, and where it came from.
HANDLERS = """
import json, os, time
from workbench.runtime import processor
file = os.open(os.environ["HANDLED"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)
pause = float(os.environ["PAUSE"])

@processor("*")
def handle(event):
    began = time.time()
    time.sleep(pause)
    line = [event.key.decode(), int(event.payload), event.record.partition, event.record.offset, began, time.time(), os.getpid()]
    os.write(file, (json.dumps(line) + "\\n").encode())
"""


class Orders:
    """A topic of its own for each test, with keys whose numbers rise."""

    _count = 0

    def __init__(self, standalone: PulsarStandalone, client: pulsar.Client, *, partitions: int = PARTITIONS) -> None:
        Orders._count += 1
        self.name, self.partitions = f"public/default/orders-{Orders._count}", partitions
        self._standalone, self._client = standalone, client
        if partitions:
            self.admin("PUT", "/partitions", json=partitions)
        else:
            self.admin("PUT", "")

    def admin(self, method: str, path: str, *, partition: int | None = None, **options: Any) -> requests.Response:
        """One request about the topic, or a partition of it."""
        part = "" if partition is None else f"-partition-{partition}"
        url = f"{self._standalone.admin_url}/admin/v2/persistent/{self.name}{part}{path}"
        answer = requests.request(method, url, timeout=30, **options)
        assert answer.status_code < 300, (path, answer.status_code, answer.text)
        return answer

    def produce(
        self, start: int, stop: int, *, batch: int = BATCH, value: Callable[[int], bytes] | None = None, **more: Any
    ) -> None:
        """Messages of these numbers, in batches of so many."""
        import pulsar

        producer = self._client.create_producer(
            f"persistent://{self.name}",
            batching_enabled=batch > 1,
            batching_max_messages=max(2, batch),
            batching_max_publish_delay_ms=5,
            block_if_queue_full=True,
            message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
            **more,
        )
        failed: list[Any] = []
        for number in range(start, stop):
            content = value(number) if value is not None else str(number).encode()
            producer.send_async(
                content,
                lambda result, _: failed.append(result) if result.name != "Ok" else None,
                partition_key=f"k{number % KEYS}",
            )
        producer.flush()
        producer.close()
        assert failed == []

    def config(self, **changes: Any) -> dict[str, Any]:
        """Settings of a member."""
        values = {
            "system": "pulsar", "bootstrap": self._standalone.service_url, "group": "billing", "topics": [self.name],
            "client_id": "one", "commit_interval_seconds": 0.2, "shutdown_seconds": 5,
        }  # fmt: skip
        return {**values, **changes}

    def marks(self) -> dict[int, tuple[int, int]]:
        """Mark-delete position of the subscription, by partition."""
        found = {}
        for number in range(self.partitions):
            cursors = self.admin("GET", "/internalStats", partition=number).json()["cursors"]
            ledger, entry = cursors["billing"]["markDeletePosition"].split(":")
            found[number] = int(ledger), int(entry)
        return found

    def consumers(self) -> int:
        """Members that are connected to every partition."""
        stats = [self.admin("GET", "/stats", partition=number).json() for number in range(self.partitions)]
        return min(len(it["subscriptions"]["billing"]["consumers"]) for it in stats)

    def backlog(self) -> int:
        """Entries that are not acknowledged."""
        stats = self.admin(
            "GET", "/partitioned-stats" if self.partitions else "/stats", params={"getPreciseBacklog": "true"}
        )
        return int(stats.json()["subscriptions"]["billing"]["msgBacklog"])


class Members:
    """Processes that run `workbench runtime run`."""

    def __init__(self, folder: Path, orders: Orders, *, pause: float = 0.0) -> None:
        self._folder, self._orders, self._pause = folder, orders, pause
        self.file = folder / "handled.jsonl"
        self.file.touch()
        (folder / "handlers_of_orders.py").write_text(HANDLERS, encoding="utf-8")
        self.all: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, **changes: Any) -> subprocess.Popen[bytes]:
        """One more."""
        settings = self._folder / f"{name}.toml"
        values = self._orders.config(client_id=name, **changes)
        settings.write_text(
            "\n".join(f"{key} = {json.dumps(value)}" for key, value in values.items()), encoding="utf-8"
        )
        words = [
            sys.executable,
            "-c",
            "from workbench.cli import main; main()",
            "runtime",
            "run",
            str(settings),
            "handlers_of_orders",
        ]
        environment = {**os.environ, "HANDLED": str(self.file), "PAUSE": str(self._pause)}
        environment["PYTHONPATH"] = f"{self._folder}:{os.environ.get('PYTHONPATH', '')}"
        with (self._folder / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(words, env=environment, stdout=log, stderr=log, cwd=self._folder)
        self.all.append(child)
        return child

    def handled(self) -> list[list[Any]]:
        """What was handled, in the order of its end."""
        return [json.loads(line) for line in self.file.read_text(encoding="utf-8").splitlines()]

    def stop(self) -> None:
        """End all of them."""
        for child in self.all:
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
        for child in self.all:
            child.wait(30)


@pytest.fixture
def orders(standalone: PulsarStandalone, client: pulsar.Client) -> Orders:
    """A topic with three partitions."""
    return Orders(standalone, client)


@pytest.fixture
def members(tmp_path: Path, orders: Orders) -> Iterator[Members]:
    """Members that take 2 ms for each event."""
    made = Members(tmp_path, orders, pause=0.002)
    yield made
    made.stop()


def firsts_in_order(handled: Sequence[Sequence[Any]]) -> dict[str, list[int]]:
    """Numbers of each key when they were handled for the first time; checked to rise."""
    seen: dict[str, list[int]] = defaultdict(list)
    for key, number, *_ in handled:
        if number not in seen[key][-1:] and (not seen[key] or number not in set(seen[key])):
            seen[key].append(number)
    for key, numbers in seen.items():
        assert numbers == sorted(numbers), key
    return seen


def all_of(count: int) -> set[int]:
    """Numbers of so many messages."""
    return set(range(count))


@pytest.mark.parametrize("subscription", ["failover", "exclusive"])
def test_every_message_is_handled_once_in_order(orders: Orders, subscription: str) -> None:
    """In batches, compressed in each way, and alone; then nothing is left, and the member leaves."""
    import pulsar

    forms = list(pulsar.CompressionType.__members__.values())
    for at, form in enumerate(forms):
        orders.produce(at * 300, at * 300 + 300, compression_type=form)
    orders.produce(len(forms) * 300, len(forms) * 300 + 100, batch=1)
    count = len(forms) * 300 + 100
    config = RuntimeConfig.parse(orders.config(pulsar={"subscription": subscription}))
    handled: list[list[Any]] = []

    def handle(event: Event) -> None:
        handled.append([event.key.decode(), int(event.payload), event.record.partition, event.record.offset])

    with running(Runtime(config, {"*": handle})) as runtime:
        wait_for(lambda: len(handled) >= count, seconds=60)
        wait_for(lambda: orders.backlog() == 0)
        stats = orders.admin("GET", "/partitioned-stats").json()["subscriptions"]["billing"]
        assert stats["type"] == subscription.capitalize()
        ends = lambda: status(runtime)["members"][0]["partitions"]  # noqa: E731
        wait_for(lambda: all(it["committed"] == it["position"] == it["log_end"] for it in ends()))
        assert len(ends()) == PARTITIONS
        assert set(status(runtime)["sentinels"].values()) == {0}
    assert sorted(number for _, number, *_ in handled) == sorted(all_of(count))
    firsts_in_order(handled)
    stats = orders.admin("GET", "/partitioned-stats").json()["subscriptions"]["billing"]
    assert stats["consumers"] == []


def test_nothing_is_skipped_after_a_kill_and_the_acknowledged_is_not_handled_again(
    orders: Orders, members: Members
) -> None:
    """Three kills. What is handled again was not acknowledged then, but for the beginning of a batch whose end was not."""
    count = 6000
    orders.produce(0, count)
    for name in ("one", "two", "three"):
        before = len(members.handled())
        child = members.start(name)
        wait_for(lambda since=before: len(members.handled()) > since + 800, seconds=60)  # type: ignore[misc]
        child.kill()
        child.wait(10)
        marks, known = orders.marks(), len(members.handled())
        last = members.start(f"{name}-again")
        wait_for(lambda since=known: len(members.handled()) > since + 300, seconds=60)  # type: ignore[misc]
        again = members.handled()
        for _, _, partition, offset, *_ in again[known:]:
            assert (offset >> 56, offset >> 24 & 0xFFFFFFFF) > marks[partition], "acknowledged, and handled again"
        last.kill()
        last.wait(10)
    members.start("last")
    wait_for(lambda: {it[1] for it in members.handled()} == all_of(count), seconds=90)
    wait_for(lambda: orders.backlog() == 0, seconds=30)
    firsts_in_order(members.handled())
    # At most what was read within a commit interval before each of six kills, and its batches.
    assert len(members.handled()) < count + 6 * 1500


def test_two_members_share_the_partitions_and_hand_them_over(orders: Orders, members: Members) -> None:
    """One joins and one leaves meanwhile: no event of a key is handled beside or before an earlier one, and few are handled twice."""
    count = 9000
    members.start("one")
    orders.produce(0, count // 3)
    wait_for(lambda: len(members.handled()) > 300, seconds=60)
    members.start("two")
    wait_for(lambda: orders.consumers() == 2, seconds=60)  # else a busy machine has handled all before it comes
    orders.produce(count // 3, 2 * count // 3)
    wait_for(lambda: len({it[6] for it in members.handled()}) == 2, seconds=60)
    members.all[0].send_signal(signal.SIGTERM)
    orders.produce(2 * count // 3, count)
    wait_for(lambda: {it[1] for it in members.handled()} == all_of(count), seconds=90)
    handled = members.handled()
    firsts_in_order(handled)
    last: dict[str, tuple[float, int]] = {}
    for key, number, _, _, began, ended, pid in sorted(handled, key=lambda it: it[4]):
        before = last.get(key)
        assert before is None or before[1] == pid or began >= before[0], f"{key}: {number} began beside another"
        last[key] = ended, pid
    assert len(handled) - count <= 50


def test_topics_that_are_unloaded_again_and_again_lose_nothing(orders: Orders, members: Members) -> None:
    """The broker closes every consumer each time; the member subscribes again."""
    count = 4000
    members.start("one")
    for part in range(4):
        orders.produce(part * 1000, part * 1000 + 1000)
        orders.admin("PUT", "/unload")
        time.sleep(0.7)
    wait_for(lambda: {it[1] for it in members.handled()} == all_of(count), seconds=90)
    wait_for(lambda: orders.backlog() == 0, seconds=30)
    firsts_in_order(members.handled())


def test_a_subscription_that_somebody_resets_is_read_again(orders: Orders, members: Members) -> None:
    """The member does not acknowledge what it had read before, which would undo the reset."""
    orders.produce(0, 600)
    members.start("one")
    wait_for(lambda: len(members.handled()) == 600, seconds=60)
    wait_for(lambda: orders.backlog() == 0)
    for number in range(PARTITIONS):
        orders.admin(
            "POST", f"/subscription/billing/resetcursor/{round((time.time() - 3600) * 1000)}", partition=number
        )
    wait_for(lambda: len(members.handled()) == 1200, seconds=60)
    orders.produce(600, 700)
    wait_for(lambda: {it[1] for it in members.handled()} == all_of(700), seconds=60)


def test_a_slow_handler_holds_the_broker_back(standalone: PulsarStandalone, client: pulsar.Client) -> None:
    """No more are sent than fit into the queue, the carry-over and the permits, but for one read; afterwards all are handled."""
    topic = Orders(standalone, client, partitions=0)
    topic.produce(0, 30_000)
    go: list[bool] = []
    handled: list[int] = []

    def handle(event: Event) -> None:
        while not go:
            time.sleep(0.01)
        handled.append(int(event.payload))

    config = RuntimeConfig.parse(
        topic.config(default_processor=ProcessorConfig(queue_capacity=100).model_dump(), carry_over_per_partition=100)
    )
    with running(Runtime(config, {"*": handle})) as runtime:
        time.sleep(4)
        [sent] = topic.admin("GET", "/stats").json()["subscriptions"]["billing"]["consumers"]
        [state] = status(runtime)["members"][0]["partitions"]
        assert state["paused"]
        assert state["uncommitted"] <= 4 * 100 + 100 + 500 + 4
        # A broker reads up to 100 entries (dispatcherMaxReadBatchSize) if there is a permit for a message.
        assert sent["msgOutCounter"] <= state["uncommitted"] + 1000 + 100 * BATCH
        go.append(True)
        wait_for(lambda: len(handled) == 30_000, seconds=60)
    assert sorted(handled) == list(range(30_000))


def test_messages_in_chunks_are_whole_and_in_their_place(standalone: PulsarStandalone, client: pulsar.Client) -> None:
    """With the messages of another producer between the chunks; each is at the place of its first chunk."""
    topic = Orders(standalone, client, partitions=0)
    brokers = PulsarBrokers(PulsarAccess.of(standalone.service_url, token=None, ca_file=None))
    producer = PulsarProducer(brokers, f"persistent://{topic.name}")

    def chunk(name: str, number: int, text: str) -> None:
        own = field(26, name) + field(27, 3) + field(28, 9) + field(29, number)
        producer.send(_Chunk(key=b"large", value=text.encode(), properties=(), own=own)).result(10)

    def single(text: str) -> None:
        producer.send(OutgoingMessage(key=b"k", value=text.encode(), properties=())).result(10)

    chunk("m1", 0, "abc")
    single("1")
    chunk("m1", 1, "def")
    chunk("m2", 0, "ABC")
    single("2")
    chunk("m1", 2, "ghi")
    chunk("m2", 1, "DEF")
    chunk("m2", 2, "GHI")
    single("3")
    handled: list[tuple[int, str]] = []

    def handle(event: Event) -> None:
        handled.append((event.record.offset, event.payload.decode()))

    with running(Runtime(RuntimeConfig.parse(topic.config()), {"*": handle})):
        wait_for(lambda: topic_is_read(topic))
    assert [text for _, text in sorted(handled)] == ["abcdefghi", "1", "ABCDEFGHI", "2", "3"]
    producer.close()
    brokers.close()


def topic_is_read(topic: Orders) -> bool:
    """Whether there is a subscription, and nothing left for it."""
    return "billing" in topic.admin("GET", "/stats").json()["subscriptions"] and topic.backlog() == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk(OutgoingMessage):
    own: bytes

    def metadata(self, producer: str, sequence: int) -> bytes:
        return OutgoingMessage.metadata(self, producer, sequence) + self.own


def test_what_fails_is_a_letter_with_pulsars_own_properties(orders: Orders, client: pulsar.Client) -> None:
    """On the topic that Pulsar's clients use; and its position is acknowledged after that."""
    import pulsar

    orders.produce(0, 120)
    letters = f"{orders.name}-billing-DLQ"

    def handle(event: Event) -> None:
        if int(event.payload) % 40 == 7:
            raise ValueError("cannot")

    config = orders.config(
        dead_letter_topic=letters, default_processor={"max_attempts": 2, "retry_backoff_seconds": 0.01}
    )
    with running(Runtime(RuntimeConfig.parse(config), {"*": handle})) as runtime:
        wait_for(lambda: len(runtime.task.consumers[0].partitions) == PARTITIONS)
        wait_for(lambda: orders.backlog() == 0)
    reader = client.create_reader(f"persistent://{letters}", start_message_id=pulsar.MessageId.earliest)
    found = [reader.read_next(10_000) for _ in range(3)]
    assert sorted(int(it.data()) for it in found) == [7, 47, 87]
    for it in found:
        named = it.properties()
        assert (named["REAL_TOPIC"], named["REAL_SUBSCRIPTION"]) == (f"persistent://{orders.name}", "billing")
        assert named["wb_code"] and it.partition_key() == "k7"
        ledger, entry, partition, index = named["ORIGIN_MESSAGE_ID"].split(":")
        assert 0 <= int(partition) < PARTITIONS and 0 <= int(index) < BATCH
        stored = orders.admin("GET", f"/ledger/{ledger}/entry/{entry}", partition=int(partition))
        assert it.data() in stored.content
    reader.close()


def test_a_subscription_that_is_shared_is_refused(orders: Orders, client: pulsar.Client) -> None:
    """In words that say what to do."""
    import pulsar

    other = client.subscribe(f"persistent://{orders.name}", "billing", consumer_type=pulsar.ConsumerType.Shared)
    runtime = Runtime(RuntimeConfig.parse(orders.config()), {"*": lambda _: None})
    with running(runtime):
        wait_for(lambda: runtime.failure is not None)
    failure = runtime.failure
    other.close()
    assert isinstance(failure, SourceUnreachableError) and failure.hint is not None
    assert "different type" in failure.message and "Shared or Key_Shared" in failure.hint
