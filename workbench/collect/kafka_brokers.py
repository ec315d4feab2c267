"""Which brokers of a cluster answer: each is asked by a client that knows no other."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from workbench.collect.kafka_errors import ClientErrors, error_words

_SECONDS = 1.0  # a broker that lives answers a description of the cluster in some milliseconds
_ROUND = 8  # clients at a time: each has a thread per broker of the cluster
_TICK_SECONDS = 0.02


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
    from confluent_kafka import KafkaException

    addresses = [address.strip() for address in bootstrap.split(",")][:_ROUND]
    told = [future for future, _ in _ask(addresses, properties, one_is_enough=True) if _has_answer(future)]
    if not told:
        return Brokers(answering={}, silent={})
    nodes = {node.id: f"{node.host}:{node.port}" for node in told[0].result(0).nodes}
    answering, silent = {}, {}
    numbers = sorted(nodes)
    for at in range(0, len(numbers), _ROUND):
        several = numbers[at : at + _ROUND]
        for number, (future, errors) in zip(several, _ask([nodes[it] for it in several], properties), strict=True):
            try:
                future.result(0)
                answering[number] = nodes[number]
            except (KafkaException, TimeoutError) as error:
                silent[number] = _sentence(number, nodes[number], error, errors, principal, properties)
    return Brokers(answering=answering, silent=silent)


def _has_answer(future: Future[Any]) -> bool:
    return future.done() and future.exception() is None


def _ask(
    addresses: list[str], properties: Mapping[str, Any], *, one_is_enough: bool = False
) -> list[tuple[Future[Any], ClientErrors]]:
    """Ask each address for a description of the cluster, and wait until each has answered, or refuses, or the time is over."""
    from confluent_kafka.admin import AdminClient

    asked = []
    for address in addresses:
        errors = ClientErrors()
        client = AdminClient({**properties, "error_cb": errors, "bootstrap.servers": address})
        asked.append((client, client.describe_cluster(request_timeout=_SECONDS), errors))
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        for client, _, _ in asked:
            client.poll(0)
        if all(future.done() or errors.are_all_down for _, future, errors in asked):
            break
        if one_is_enough and any(_has_answer(future) for _, future, _ in asked):
            break
        time.sleep(_TICK_SECONDS)
    return [(future, errors) for _, future, errors in asked]


def _sentence(
    number: int, address: str, error: BaseException, errors: ClientErrors, principal: str, properties: Mapping[str, Any]
) -> str:
    if errors.refusal is not None:
        words, _ = errors.refusal.sentence(principal, properties)
        return f"broker {number} ({address}): {words}"
    reason = errors.words.removeprefix(f"{address}: ") or (error_words(error) if error.args else "no answer")
    return f"broker {number} ({address}) does not answer: {reason}"
