"""Incidents on a real Pulsar: subscriptions with real consumers, each of which does one thing wrong, or none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import requests

from workbench.lab.pulsar import PulsarStandalone

if TYPE_CHECKING:
    import pulsar

GROUP = "billing"


class Incidents:
    """Makes them, each in a namespace of its own, and keeps their producers and consumers at work until it is closed."""

    def __init__(self, standalone: PulsarStandalone) -> None:
        import pulsar

        self.api, self.admin_url = pulsar, standalone.admin_url
        self.client = pulsar.Client(standalone.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        self._stop, self._threads = threading.Event(), list[threading.Thread]()
        self._kept: list[Any] = []

    def admin(self, method: str, path: str, **options: Any) -> requests.Response:
        """One request to the admin."""
        answer = requests.request(method, f"{self.admin_url}/admin/v2/{path}", timeout=30, **options)
        assert answer.status_code < 300, (path, answer.status_code, answer.text)
        return answer

    def topic(self, name: str, *, partitions: int = 0, **policies: Any) -> str:
        """A topic in a namespace of this name with these policies."""
        self.admin("PUT", f"namespaces/public/{name}")
        for policy, value in policies.items():
            self.admin("POST", f"namespaces/public/{name}/{policy}", json=value)
        if partitions:
            self.admin("PUT", f"persistent/public/{name}/orders/partitions", json=partitions)
        return f"persistent://public/{name}/orders"

    def subscribe(
        self, topic: str, kind: str = "Exclusive", name: str = "c1", group: str = GROUP, **options: Any
    ) -> pulsar.Consumer:
        """A consumer from the first entry on."""
        made = self.client.subscribe(
            topic,
            group,
            consumer_type=getattr(self.api.ConsumerType, kind),
            initial_position=self.api.InitialPosition.Earliest,
            consumer_name=name,
            **options,
        )
        self._kept.append(made)
        return made

    def fill(self, topic: str, count: int, *, batch: int = 1, keys: int = 0, **options: Any) -> None:
        """So many messages at once."""
        producer = self.client.create_producer(topic, batching_enabled=batch > 1, batching_max_messages=max(2, batch))
        for number in range(count):
            key = {"partition_key": str(number % keys)} if keys else {}
            producer.send_async(str(number).encode(), lambda *_: None, **key, **options)
        producer.flush()
        producer.close()

    def produce(self, topic: str, per_second: float, *, batch: int = 1, keys: int = 0) -> None:
        """So many messages a second, until the end."""
        producer = self.client.create_producer(
            topic,
            batching_enabled=batch > 1,
            batching_max_messages=max(2, batch),
            batching_max_publish_delay_ms=100,
            message_routing_mode=self.api.PartitionsRoutingMode.RoundRobinDistribution,
        )
        self._kept.append(producer)

        def send(number: int) -> None:
            key = {"partition_key": str(number % keys)} if keys else {}
            producer.send_async(str(number).encode(), lambda *_: None, **key)

        self._each(send, every=1 / per_second)

    def read(self, consumer: pulsar.Consumer, handle: Callable[[pulsar.Consumer, Any, int], None]) -> None:
        """Give every message to a handler, with its number, until the end."""

        def receive(number: int) -> None:
            try:
                message = consumer.receive(200)
            except self.api.Timeout:
                return
            handle(consumer, message, number)

        self._each(receive, every=0.0)

    def restart(self, topic: str, *, every: float) -> None:
        """A consumer that takes messages, and is replaced by the next one before it acknowledges anything, until the end."""

        def live(number: int) -> None:
            consumer = self.client.subscribe(
                topic, GROUP, consumer_type=self.api.ConsumerType.Shared, consumer_name=f"r{number}"
            )
            time.sleep(every)
            consumer.close()

        self._each(live, every=0.0)

    def _each(self, do: Callable[[int], None], *, every: float) -> None:
        def work() -> None:
            number = 0
            while not self._stop.wait(every):
                try:
                    do(number)
                except Exception:  # the client is being closed
                    if self._stop.is_set():
                        return
                    raise
                number += 1

        self._threads.append(threading.Thread(target=work, daemon=True))
        self._threads[-1].start()

    def close(self) -> None:
        """End producers, consumers and the client."""
        self._stop.set()
        for thread in self._threads:
            thread.join(10)
        self.client.close()


@contextmanager
def incidents(standalone: PulsarStandalone) -> Iterator[Incidents]:
    """Incidents on this Pulsar, until the end of the block."""
    made = Incidents(standalone)
    try:
        yield made
    finally:
        made.close()


def acknowledge(consumer: pulsar.Consumer, message: Any, _number: int) -> None:
    """What a good handler does."""
    consumer.acknowledge(message)


def keep(_consumer: pulsar.Consumer, _message: Any, _number: int) -> None:
    """Acknowledge nothing."""


def slowly(consumer: pulsar.Consumer, message: Any, _number: int) -> None:
    """Two messages a second."""
    time.sleep(0.5)
    consumer.acknowledge(message)


def refuse(consumer: pulsar.Consumer, message: Any, _number: int) -> None:
    """Acknowledge all negatively."""
    consumer.negative_acknowledge(message)


def refuse_some(consumer: pulsar.Consumer, message: Any, number: int) -> None:
    """Acknowledge one of ten negatively."""
    (consumer.negative_acknowledge if number % 10 == 0 else consumer.acknowledge)(message)


def forget_one(partition: int = -1) -> Callable[[pulsar.Consumer, Any, int], None]:
    """Acknowledge all but the first message (of a partition)."""
    forgotten: list[Any] = []

    def handle(consumer: pulsar.Consumer, message: Any, _number: int) -> None:
        if not forgotten and message.message_id().partition() in (partition, -1):
            forgotten.append(message)
            return
        consumer.acknowledge(message)

    return handle


def make_all(at: Incidents) -> dict[str, str]:
    """Every incident that one broker can have, and what must not be called one: the verdict by the name of its namespace."""
    rate = {"dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 1, "relativeToPublishRate": False}

    at.subscribe(topic := at.topic("dead")).close()
    at.fill(topic, 50)
    consumer = at.subscribe(
        topic := at.topic("blocked", maxUnackedMessagesPerSubscription=20), "Shared", receiver_queue_size=5
    )
    at.fill(topic, 200)
    at.read(consumer, keep)
    consumer = at.subscribe(
        topic := at.topic("blocked-each", maxUnackedMessagesPerConsumer=20), "Shared", receiver_queue_size=5
    )
    at.fill(topic, 200)
    at.read(consumer, keep)
    consumer = at.subscribe(topic := at.topic("hole"), "Shared")
    at.produce(topic, 10)
    at.read(consumer, forget_one())
    consumer = at.subscribe(topic := at.topic("hole-in-one", partitions=3), "Shared")
    at.produce(topic, 20)
    at.read(consumer, forget_one(1))
    for name, kind in (("slow", "Exclusive"), ("slow-shared", "Shared")):
        consumer = at.subscribe(topic := at.topic(name), kind, receiver_queue_size=5)
        at.produce(topic, 10)
        at.read(consumer, slowly)
    at.subscribe(topic := at.topic("hangs"))
    at.fill(topic, 50)
    at.subscribe(topic := at.topic("keys"), "KeyShared", "holds", receiver_queue_size=100)
    at.fill(topic, 50, keys=10)
    time.sleep(1)
    consumer = at.subscribe(topic, "KeyShared", "joins")
    at.produce(topic, 10, keys=10)
    at.read(consumer, acknowledge)
    topic = at.topic("hot-key")
    for name in ("busy", "idle"):
        at.read(at.subscribe(topic, "KeyShared", name, receiver_queue_size=5), slowly)
    at.produce(topic, 10, keys=1)
    topic = at.topic("hot-key-hangs")
    for name in ("busy", "idle"):
        at.subscribe(topic, "KeyShared", name, receiver_queue_size=5)
    at.produce(topic, 10, keys=1)
    consumer = at.subscribe(topic := at.topic("function"), "Shared", group="public/default/my fn")
    at.produce(topic, 10)
    at.read(consumer, forget_one())
    topic = at.topic("blocked-and-full", maxUnackedMessagesPerConsumer=10)
    at.read(at.subscribe(topic, "Shared", "unacking", receiver_queue_size=100), keep)
    at.subscribe(topic, "Shared", "full", receiver_queue_size=5)
    at.fill(topic, 300)
    consumer = at.subscribe(topic := at.topic("delayed-first"), "Shared", receiver_queue_size=5)
    at.fill(topic, 5, deliver_after=timedelta(hours=1))
    at.produce(topic, 10)
    at.read(consumer, slowly)
    consumer = at.subscribe(topic := at.topic("delayed-unread"), "Shared")
    at.fill(topic, 20, deliver_after=timedelta(seconds=5))
    time.sleep(2)
    consumer.close()
    limited = at.topic("throttled", subscriptionDispatchRate={"dispatchThrottlingRateInMsg": 5, **rate})
    consumer = at.subscribe(limited, "Shared")
    at.produce(limited, 20)
    at.read(consumer, acknowledge)
    at.subscribe(topic := at.topic("expiring", messageTTL=20)).close()
    at.produce(topic, 5)
    consumer = at.subscribe(topic := at.topic("refused"), "Shared", negative_ack_redelivery_delay_ms=1000)
    at.fill(topic, 100)
    at.read(consumer, refuse)

    at.subscribe(topic := at.topic("restarts"), "Shared").close()
    at.fill(topic, 2000)
    at.restart(topic, every=1.5)

    # Nothing is wrong.
    consumer = at.subscribe(topic := at.topic("compacted"))
    at.read(consumer, acknowledge)
    at.fill(topic, 5, keys=3)
    at.admin("PUT", "persistent/public/compacted/orders/compaction")
    time.sleep(3)
    at.fill(topic, 5, keys=3)
    consumer = at.subscribe(topic := at.topic("delayed"), "Shared")
    at.fill(topic, 50, deliver_after=timedelta(hours=1))
    at.read(consumer, acknowledge)
    consumer = at.subscribe(topic := at.topic("healthy"), "Shared")
    at.produce(topic, 20)
    at.read(consumer, acknowledge)
    consumer = at.subscribe(topic := at.topic("batches"), "Failover")
    at.produce(topic, 100, batch=20)
    at.read(consumer, acknowledge)
    consumer = at.subscribe(topic := at.topic("some-refused"), "Shared", negative_ack_redelivery_delay_ms=1000)
    at.produce(topic, 20)
    at.read(consumer, refuse_some)
    topic = at.topic("skew")
    for name in ("busy", "idle"):
        at.read(at.subscribe(topic, "KeyShared", name), acknowledge)
    at.produce(topic, 20, keys=1)
    return {
        "dead": "dead_subscription", "blocked": "blocked_on_unacked", "blocked-each": "blocked_on_unacked", "hole": "ack_hole",
        "hole-in-one": "ack_hole", "slow": "no_permits", "slow-shared": "no_permits", "hangs": "no_permits", "hot-key": "no_permits",
        "keys": "key_shared_blocked", "throttled": "dispatch_throttled", "expiring": "expiring", "refused": "redelivering",
        "restarts": "redelivery_cache_miss",
        "hot-key-hangs": "no_permits", "function": "ack_hole", "blocked-and-full": "no_permits", "delayed-first": "no_permits",
        "delayed-unread": "cannot_tell", "compacted": "healthy",
        "delayed": "delayed_messages", "healthy": "healthy", "batches": "healthy", "some-refused": "healthy", "skew": "healthy",
    }  # fmt: skip
