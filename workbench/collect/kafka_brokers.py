"""Which brokers of a cluster answer: each is asked by a client that knows no other."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from workbench.collect.kafka_errors import ClientErrors

SMALL_TOPIC = "__consumer_offsets"  # metadata of one topic: any broker has them at hand, and they are few
_SECONDS = 1.3  # a broker that lives answers in some milliseconds
_SLICE_SECONDS = 0.25  # between two looks at the client's errors
_ROUND = 8  # clients at a time: each has a thread per broker of the cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Brokers:
    """Brokers by id.

    Attributes:
        answering: id to host:port.
        silent: id to a sentence that names the broker and says what it does instead.
    """

    answering: Mapping[int, str]
    silent: Mapping[int, str]


def look_at_brokers(bootstrap: str, properties: Mapping[str, Any], principal: str) -> Brokers:
    """Ask every broker of a cluster; both parts are empty if none tells which brokers there are."""
    asked = _ask([address.strip() for address in bootstrap.split(",")][:_ROUND], properties)
    told = next((it.nodes for it in asked.values() if it.nodes), {})
    others = [address for address in told.values() if address not in asked]
    for at in range(0, len(others), _ROUND):
        asked |= _ask(others[at : at + _ROUND], properties)
    return Brokers(
        answering={number: address for number, address in told.items() if asked[address].nodes},
        silent={
            number: _sentence(number, address, asked[address].errors, principal, properties)
            for number, address in sorted(told.items())
            if not asked[address].nodes
        },
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    errors: ClientErrors
    nodes: Mapping[int, str]  # none without an answer


def _ask(addresses: list[str], properties: Mapping[str, Any]) -> dict[str, _Asked]:
    with ThreadPoolExecutor(_ROUND) as pool:
        return dict(zip(addresses, pool.map(lambda address: _ask_one(address, properties), addresses), strict=True))


def _ask_one(address: str, properties: Mapping[str, Any]) -> _Asked:
    """Ask one address for the brokers of its cluster until it answers, or refuses, or the time is over."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    errors = ClientErrors()
    settings: dict[str, Any] = {**properties, "error_cb": errors, "bootstrap.servers": address}
    client = AdminClient(settings)
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline and not errors.are_all_down:
        try:
            found = client.list_topics(SMALL_TOPIC, timeout=_SLICE_SECONDS).brokers
            return _Asked(errors, {number: f"{broker.host}:{broker.port}" for number, broker in found.items()})
        except KafkaException:
            client.poll(0)
    return _Asked(errors, {})


def _sentence(number: int, address: str, errors: ClientErrors, principal: str, properties: Mapping[str, Any]) -> str:
    if errors.refusal is not None:
        words, _ = errors.refusal.sentence(principal, properties)
        return f"broker {number} ({address}): {words}"
    reason = errors.words.removeprefix(f"{address}: ")
    return f"broker {number} ({address}) does not answer" + (f": {reason}" if reason else "")
