"""Which brokers of a cluster answer: each is asked for itself."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from workbench.kafka.group_answers import COMMITS_TOPIC, Coordination, ask_brokers
from workbench.kafka.librdkafka_errors import ClientErrors, ClientRefusal
from workbench.kafka.wire import addresses
from workbench.kafka.wire_tls_and_login import LoginRefusedError, NoCounterpartError, Security, logged_in, security_of

SMALL_TOPIC = COMMITS_TOPIC  # metadata of one topic: any broker has them at hand, and they are few
_SECONDS = 1.3  # a broker that lives answers in some milliseconds
_SLICE_SECONDS = 0.25  # between two looks at the client's errors
_ROUND = 8  # brokers at a time

_kept: list[Any] = []


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
            number: _sentence(number, address, asked[address], principal, properties)
            for number, address in sorted(told.items())
            if not asked[address].nodes
        },
    )


def coordination_of(admin: Any, seconds: float) -> Coordination | None:
    """Who coordinates groups, as librdkafka tells it; None without an answer in so many seconds, or if the topic may not be seen."""
    from confluent_kafka import KafkaException

    try:
        topic = admin.list_topics(COMMITS_TOPIC, timeout=seconds).topics.get(COMMITS_TOPIC)
    except KafkaException:
        return None
    if topic is None or topic.error is not None:
        return None
    return Coordination.of([(at, it.leader, len(it.replicas), len(it.isrs)) for at, it in topic.partitions.items()])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    nodes: Mapping[int, str] = field(default_factory=dict)  # none without an answer
    refusal: ClientRefusal | None = None
    words: str = ""


def _ask(servers: list[str], properties: Mapping[str, Any]) -> dict[str, _Asked]:
    try:
        security = security_of(properties)
    except (NoCounterpartError, OSError, ValueError):
        security = None

    def one(address: str) -> _Asked:
        return _by_librdkafka(address, properties) if security is None else _by_own_request(address, security)

    with ThreadPoolExecutor(_ROUND) as pool:
        return dict(zip(servers, pool.map(one, servers), strict=True))


def _by_own_request(address: str, security: Security) -> _Asked:
    """Ask one address for the brokers of its cluster."""
    try:
        [place] = addresses(address)
        with logged_in(place, security, time.monotonic() + _SECONDS, silence=_SECONDS) as wire:
            found = ask_brokers(wire).brokers
    except TimeoutError:
        return _Asked()
    except (OSError, ValueError) as error:  # a WireError is a ValueError
        words = getattr(error, "strerror", None) or str(error)
        is_login = isinstance(error, LoginRefusedError)
        if is_login or isinstance(error, ssl.SSLError):
            refusal = ClientRefusal(address=address, words=str(error), is_login=is_login, at=time.monotonic())
            return _Asked(refusal=refusal, words=words)
        return _Asked(words=words)
    return _Asked(nodes={number: f"{host}:{port}" for number, (host, port) in found.items()})


def _by_librdkafka(address: str, properties: Mapping[str, Any]) -> _Asked:
    """Ask with a client that knows no other address, until the broker answers or refuses, at most `_SECONDS`."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    errors = ClientErrors()
    settings: dict[str, Any] = {"log_level": 0, **properties, "error_cb": errors, "bootstrap.servers": address}
    client = AdminClient(settings)
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline and not errors.are_all_down:
        try:
            found = client.list_topics(SMALL_TOPIC, timeout=_SLICE_SECONDS).brokers
            return _Asked(nodes={number: f"{broker.host}:{broker.port}" for number, broker in found.items()})
        except KafkaException:
            client.poll(0)
    # A client that goes while requests are under way can end the process (an assertion in librdkafka).
    _kept.append(client)
    return _Asked(refusal=errors.refusal, words=errors.words.removeprefix(f"{address}: "))


def _sentence(number: int, address: str, asked: _Asked, principal: str, properties: Mapping[str, Any]) -> str:
    if asked.refusal is not None:
        words, _ = asked.refusal.sentence(principal, properties)
        return f"broker {number} ({address}): {words}"
    return f"broker {number} ({address}) does not answer" + (f": {asked.words}" if asked.words else "")
