"""Clients that look up the names of their brokers for seconds while they are made (`resolve_canonical_bootstrap_servers_only`).

librdkafka (2.16) then tells statistics of that time, behind its first poll: without brokers, because it has none yet.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.runtime.helpers import until
from workbench.kafka import clients_without_brokers
from workbench.kafka.audit_rows import KafkaRows
from workbench.kafka.runtime import kafka_source
from workbench.kafka.runtime.dead_letters import DeadLetters
from workbench.kafka.runtime.kafka_source import KafkaSource
from workbench.runtime import RuntimeConfig

MADE_SECONDS = 5.0


def statistics(age_seconds: float, *sources: str) -> str:
    """Of a client of that age."""
    brokers = {str(number): {"source": source} for number, source in enumerate(sources)}
    return json.dumps({"age": round(age_seconds * 1e6), "brokers": brokers})


class Slow:
    """A client that takes a while to be made. The first one tells of that time in its first polls, and then `then`."""

    made: list[Slow]
    clock: float
    then: str

    def __init__(self, properties: dict[str, Any], **_: Any) -> None:
        Slow.clock += MADE_SECONDS
        self.polls = 0
        self._tell = properties["stats_cb"]
        Slow.made.append(self)

    def poll(self, *_: Any) -> list[Any]:
        self.polls += 1
        if len(Slow.made) == 1 and self.polls in (1, 3):
            self._tell(statistics(MADE_SECONDS - 0.01) if self.polls == 1 else Slow.then)
        return []

    consume = poll

    def flush(self, *_: Any) -> None:
        """Nothing is under way."""

    purge = close = subscribe = flush


@pytest.fixture(params=["source", "letters", "rows"])
def clients(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Starts one that has such a client, and returns how to poll it and how to stop it."""
    Slow.made, Slow.clock = [], 0.0
    monkeypatch.setattr(clients_without_brokers, "monotonic", lambda: Slow.clock)
    monkeypatch.setattr(kafka_source, "Consumer", Slow)

    def start(then: str) -> Any:
        Slow.then = then
        if request.param == "source":
            config = RuntimeConfig.parse({"bootstrap": "127.0.0.1:9", "group": "g", "topics": ["t"]})
            source: Any = KafkaSource(config, member="m")

            def poll() -> None:
                source.poll(1, 0)
                if (health := source.health()) is not None and health.is_stranded:
                    source.rejoin()

            return poll, source.close
        make: Any = Slow
        it = (
            DeadLetters("t", {}, make_producer=make)
            if request.param == "letters"
            else KafkaRows("t", {}, make_producer=make)
        )
        return lambda: None, lambda: it.close(1)

    return start


@pytest.mark.parametrize(
    ("then", "clients_made"),
    [(statistics(MADE_SECONDS + 1, "configured"), 1), (statistics(MADE_SECONDS + 1), 2)],
    ids=["it_finds_them", "it_is_stranded"],
)
def test_a_client_that_has_no_brokers_yet_is_not_replaced(clients: Any, then: str, clients_made: int) -> None:
    """The next one would take as long, and tell the same: nothing would be read or written, for ever."""
    poll, stop = clients(then)

    def is_told() -> bool:
        poll()
        return Slow.made[-1].polls > 5

    until(is_told)
    stop()
    assert len(Slow.made) == clients_made
