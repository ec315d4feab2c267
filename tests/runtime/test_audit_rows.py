"""What the writer of rows for an audit does when its client has no brokers left, and no other one can be made for a while."""

from __future__ import annotations

import json
from collections import deque
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from tests.runtime.helpers import until
from workbench.kafka.audit_rows import KafkaRows

_REFUSALS = 2


class Clients:
    """Makes clients: the first one is stranded, the next ones cannot be made, and the last one writes."""

    def __init__(self) -> None:
        self.asked = 0
        self.written: list[bytes] = []

    def __call__(self, properties: dict[str, Any], **_: Any) -> Any:
        self.asked += 1
        if 1 < self.asked <= 1 + _REFUSALS:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "ssl.ca.location failed"))
        return _Client(self, properties["stats_cb"], is_stranded=self.asked == 1)


class _Client:
    def __init__(self, clients: Clients, tell: Any, *, is_stranded: bool) -> None:
        self._clients, self._tell, self._is_stranded = clients, tell, is_stranded
        self._queue: deque[tuple[bytes, Any]] = deque()
        self._is_purged = False

    def produce(self, _topic: str, *, value: bytes, on_delivery: Any) -> None:
        self._queue.append((value, on_delivery))

    def purge(self) -> None:
        self._is_purged = True

    def poll(self, _seconds: float) -> None:
        if self._is_stranded and not self._is_purged:
            self._tell(json.dumps({"age": 10**9, "brokers": {}}))
            return
        while self._queue:
            value, report = self._queue.popleft()
            if not self._is_purged:
                self._clients.written.append(value)
            error = KafkaError(KafkaError._PURGE_QUEUE) if self._is_purged else None
            report(error, SimpleNamespace(value=lambda value=value: value))

    flush = poll


def test_a_client_that_cannot_be_made_is_made_later() -> None:
    """The rows that wait are written then; before, nobody served the writer any more, and each commit waited for its rows."""
    clients = Clients()
    rows = KafkaRows("rows", {}, make_producer=clients)
    batch = rows.put(["one", "two"])
    until(lambda: batch.is_over)
    rows.close(1)
    assert (clients.asked, sorted(clients.written)) == (2 + _REFUSALS, [b"one", b"two"])
    assert (batch.failed, rows.given_up) == (False, 0)
