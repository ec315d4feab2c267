"""What a task does when its clients are told that the cluster has no brokers, and lose the connection in that moment.

A broker that shuts down can answer so. librdkafka then forgets its brokers, and stops what would lead it back to the bootstrap servers
(its issue 5301, seen with 2.16): the client asks nobody again. Here the proxy in front of a real broker makes its answers say it.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.runtime.helpers import PROTOCOLS
from tests.waiting import wait_for
from workbench.kafka.audit_rows import KafkaRows
from workbench.kafka.runtime.dead_letters import DeadLetters
from workbench.lab.lab_broker import Broker, create_topic, start_broker
from workbench.runtime import Event, Runtime, RuntimeConfig, running
from workbench.runtime.event import Record

pytestmark = pytest.mark.lab

_METADATA = 3  # its API key
_FIRST_FLEXIBLE = 9  # version of Metadata from which on its arrays are compact


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


def _without_brokers(answer: bytes) -> bytes:
    """An answer to Metadata with an empty list of brokers and all else as it was."""
    start = 4 + 1 + 4  # correlation id, no tagged fields, throttle time
    count, at = _varint(answer, start)
    for _ in range(count - 1):
        at += 4  # node id
        for after in (4, 0):  # host, with the port behind it; rack
            length, at = _varint(answer, at)
            at += max(length - 1, 0) + after
        assert answer[at] == 0  # no tagged fields
        at += 1
    return answer[:start] + b"\x01" + answer[at:]


class _Proxy:
    """In front of the listener that advertises it; `hides` makes it leave out the brokers."""

    def __init__(self, broker: Broker) -> None:
        self.hides = False
        self.hidden: set[str] = set()  # ids of the clients that were told so
        self._behind = broker.behind_port
        self._server = socket.create_server(("127.0.0.1", broker.proxy_port))
        self.address = f"127.0.0.1:{broker.proxy_port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                if self.hides:
                    client.close()
                    continue
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        asked: dict[int, str] = {}  # clients' ids by the numbers of their requests for metadata
        with (
            suppress(OSError),
            closing(client),
            closing(socket.create_connection(("127.0.0.1", self._behind))) as broker,
        ):

            def there() -> None:
                with suppress(OSError):
                    while (message := _message(client)) is not None:
                        key, version, number, length = struct.unpack_from(">hhih", message)
                        if key == _METADATA and version >= _FIRST_FLEXIBLE:
                            asked[number] = message[10 : 10 + length].decode()
                        broker.sendall(struct.pack(">i", len(message)) + message)
                    broker.shutdown(socket.SHUT_RDWR)

            threading.Thread(target=there, daemon=True).start()
            while (answer := _message(broker)) is not None:
                told = asked.pop(struct.unpack_from(">i", answer)[0], None)
                if told is None or not self.hides:
                    client.sendall(struct.pack(">i", len(answer)) + answer)
                    continue
                answer = _without_brokers(answer)
                client.sendall(struct.pack(">i", len(answer)) + answer)
                client.shutdown(socket.SHUT_RDWR)
                self.hidden.add(told)
                return  # the connection is lost before the client has read the answer


def _message(end: socket.socket) -> bytes | None:
    def read(count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            piece = end.recv(count - len(data))
            if not piece:
                return None
            data += piece
        return data

    size = read(4)
    return None if size is None else read(struct.unpack(">i", size)[0])


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of its own: its clients are sent to the proxy."""
    made = start_broker(tmp_path_factory.mktemp("without") / "broker")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def proxy(broker: Broker) -> Iterator[_Proxy]:
    """The proxy in front of it."""
    made = _Proxy(broker)
    yield made
    made.close()


def _produce(broker: Broker, topic: str, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for value in values:
        producer.produce(topic, value.encode(), partition=0)
    assert producer.flush(30) == 0


def _values(broker: Broker, topic: str, count: int) -> list[str]:
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reads", "log_level": 0})
    reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[str] = []

    def read() -> bool:
        found.extend(it.value().decode() for it in reader.consume(100, 0.5) if it.error() is None)
        return len(found) >= count

    wait_for(read, 60)
    reader.close()
    return found


def _of(client: str, proxy: _Proxy) -> dict[str, Any]:
    return {
        "bootstrap.servers": proxy.address,
        "client.id": client,
        "topic.metadata.refresh.interval.ms": 500,
        "log_level": 0,
    }


def _strand(proxy: _Proxy, *names: str) -> None:
    proxy.hidden.clear()
    proxy.hides = True
    wait_for(lambda: {*names} <= proxy.hidden)
    proxy.hides = False


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_task_whose_clients_have_no_brokers_left_goes_on(broker: Broker, proxy: _Proxy, protocol: str) -> None:
    """It reads on, and its lag is known again."""
    topic = f"orders-{protocol}"
    create_topic(broker.bootstrap, topic, 1)
    handled: list[str] = []

    def handle(event: Event) -> None:
        handled.append(event.payload.decode())

    runtime = Runtime(
        RuntimeConfig.parse(
            {
                "bootstrap": proxy.address,
                "group": f"group-{protocol}",
                "topics": [topic],
                "client_id": "task",
                "commit_interval_seconds": 0.1,
                "kafka": {**PROTOCOLS[protocol], "topic.metadata.refresh.interval.ms": 500, "log_level": 0},
            }
        ),
        {"*": handle},
    )
    with running(runtime):
        _produce(broker, topic, ["first"])
        wait_for(lambda: handled == ["first"] and runtime.task.log_ends.ends == {(topic, 0): 1})
        _strand(proxy, "task-0", "task-log-ends")
        _produce(broker, topic, ["second"])
        wait_for(lambda: handled == ["first", "second"], 60)
        wait_for(lambda: runtime.task.log_ends.ends == {(topic, 0): 2}, 60)


def test_dead_letters_are_written_after_that(broker: Broker, proxy: _Proxy) -> None:
    """Also the one that the stranded producer had."""
    create_topic(broker.bootstrap, "letters", 1)
    letters = DeadLetters("letters", _of("writes-letters", proxy))
    safe: list[str] = []

    def put(value: str) -> None:
        record = Record("orders", 0, 0, None, value.encode(), 0, None, None)
        letters.put(Event(type="order", key=b"", payload=value, record=record), "code", safe=lambda: safe.append(value))

    put("first")
    wait_for(lambda: safe == ["first"])
    _strand(proxy, "writes-letters")
    put("second")
    wait_for(lambda: safe == ["first", "second"], 60)
    assert _values(broker, "letters", 2) == ["first", "second"]
    letters.close(10)


def test_rows_of_an_audit_are_written_after_that(broker: Broker, proxy: _Proxy) -> None:
    """Also those that the stranded producer had; the commit that waits for them goes on."""
    create_topic(broker.bootstrap, "rows", 1)
    rows = KafkaRows("rows", _of("writes-rows", proxy))
    first = rows.put(["first"])
    wait_for(lambda: first.is_over)
    _strand(proxy, "writes-rows")
    then = rows.put(["second", "third"])
    wait_for(lambda: then.is_over, 60)
    assert sorted(_values(broker, "rows", 3)) == ["first", "second", "third"]
    assert rows.given_up == 0
    rows.close(10)
