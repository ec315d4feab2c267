"""Quotas, which confluent-kafka has no call for: DescribeClientQuotas 1 (Kafka 2.8 and later)."""

from __future__ import annotations

import struct
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.kafka.groups import NotListedError, own_security
from workbench.kafka.wire import SILENCE_SECONDS, Api, Wire, WireAnswer, WireError, addresses, array, text
from workbench.kafka.wire_tls_and_login import logged_in
from workbench.queues.replay_port import Quotas

_DESCRIBE = Api("DescribeClientQuotas", 48, 1, 1)
_EXACT, _DEFAULT = 0, 1  # match types
_SECONDS = 5.0
_USER, _CLIENT, _READ, _WRITE = "user", "client-id", "consumer_byte_rate", "producer_byte_rate"

_Body = bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What is set for one entity.

    Attributes:
        of: "user", "client-id" or both, to a name; None is the default for all that have no entry of their own.
        values: of each broker, by Kafka's names (`consumer_byte_rate`: bytes/s).
    """

    of: Mapping[str, str | None]
    values: Mapping[str, float]


def quotas_of(bootstrap: str, properties: Mapping[str, Any], user: str | None = None) -> Quotas | None:
    """Ask for the quotas of a user, or else those of all users; those of client ids are not counted.

    Args:
        bootstrap, properties: as for librdkafka.
        user: None: the user of `properties`.

    Returns:
        None if it cannot be told: no user in the properties, no right (DESCRIBE_CONFIGS on the cluster), or no answer.
    """
    name = user or properties.get("sasl.username")
    if not name:
        return None
    bodies = [
        _wanted(_USER, _DEFAULT, None),
        _wanted(_USER, _EXACT, str(name)),
    ]  # what is set for the user itself counts
    limits = _ask(bootstrap, properties, bodies, _SECONDS, SILENCE_SECONDS)
    if limits is None:
        return None
    found: dict[str, float] = {}
    for limit in limits:
        if limit.of.keys() == {_USER}:
            found |= limit.values
    return Quotas(user=str(name), producer_bytes=found.get("producer_byte_rate"), consumer_bytes=found.get(_READ))


def all_limits(
    bootstrap: str, properties: Mapping[str, Any], *, seconds: float, silence: float = SILENCE_SECONDS
) -> list[Limit] | None:
    """Ask for every quota of a cluster; None if it cannot be told (as `quotas_of`).

    Args:
        bootstrap, properties: as for librdkafka.
        seconds: for all attempts together.
        silence: seconds; a broker that sends nothing for so long is left for the next one.
    """
    return _ask(bootstrap, properties, [array(()) + b"\x00"], seconds, silence)


def _wanted(kind: str, match: int, name: str | None) -> _Body:
    return array([text(kind) + bytes([match]) + text(name) + b"\x00"]) + b"\x00"


def _ask(
    bootstrap: str, properties: Mapping[str, Any], bodies: Sequence[_Body], seconds: float, silence: float
) -> list[Limit] | None:
    deadline = time.monotonic() + seconds
    for address in addresses(bootstrap):
        try:
            with logged_in(address, own_security(properties), deadline, silence=silence) as wire:
                return [limit for body in bodies for limit in _limits(wire, body)]
        except (OSError, WireError, NotListedError):
            continue
    return None


def _limits(wire: Wire, body: _Body) -> list[Limit]:
    return parse_limits(wire.ask(_DESCRIBE, lambda _version: body)[1])


def parse_limits(answer: WireAnswer) -> list[Limit]:
    """All entries.

    Raises:
        WireError: if the broker refuses, or the answer has another form.
    """
    answer.int32()
    code = answer.int16()
    words = answer.maybe_text()
    if code:
        raise WireError(f"quotas: error {code} {words or ''}")

    def entity() -> tuple[str, str | None]:
        found = answer.text(), answer.maybe_text()
        answer.tags()
        return found

    def value() -> tuple[str, float]:
        key = answer.text()
        (number,) = answer.record(struct.Struct(">d"))
        answer.tags()
        return key, float(number)

    def entry() -> Limit:
        found = Limit(of=dict(answer.array(entity)), values=dict(answer.array(value)))
        answer.tags()
        return found

    return answer.array(entry)


def of_clients(limits: Iterable[Limit]) -> dict[tuple[str, bool], float]:
    """Limits of single client ids: (client id, whether it is about writes) to bytes/s of each broker."""
    found: dict[tuple[str, bool], float] = {}
    for limit in limits:
        client = limit.of.get(_CLIENT)
        if client is not None and limit.of.keys() == {_CLIENT}:
            found |= {(client, kind == _WRITE): limit.values[kind] for kind in (_READ, _WRITE) if kind in limit.values}
    return found


def limits_reading(limits: Iterable[Limit]) -> list[Limit]:
    """Those that limit what is read."""
    return [it for it in limits if it.values.get(_READ, 0) > 0]


def read_bytes_per_second(limits: Sequence[Limit], clients: Collection[str]) -> float | None:
    """What clients may together read from one broker, in bytes/s; None if that is not limited, or cannot be told.

    Brokers do not tell which user a member of a group is. Where users have quotas of their own, it is only known if each of them, and
    any other user, would get the same.

    Args:
        limits: of `all_limits`.
        clients: client ids of the members of a group.
    """
    reading = limits_reading(limits)
    users: set[str | None] = {it.of[_USER] for it in reading if it.of.get(_USER) is not None}
    found = {_together(reading, user, set(clients)) for user in (*users, None)}
    return found.pop() if len(found) == 1 else None


def _together(limits: Sequence[Limit], user: str | None, clients: Collection[str]) -> float | None:
    total = 0.0
    for client in clients:
        found = _of(limits, user, client)
        if found is None:
            return None
        if _CLIENT not in found.of:  # one limit, which all of the user's clients share
            return found.values[_READ]
        total += found.values[_READ]
    return total or None


def _of(limits: Sequence[Limit], user: str | None, client: str) -> Limit | None:
    """The entry that counts, in Kafka's order; a user of None is one without an entry."""
    by = {tuple(sorted(it.of.items())): it for it in limits}
    orders: list[dict[str, str | None]] = [
        {_USER: user, _CLIENT: client},
        {_USER: user, _CLIENT: None},
        {_USER: user},
        {_USER: None, _CLIENT: client},
        {_USER: None, _CLIENT: None},
        {_USER: None},
        {_CLIENT: client},
        {_CLIENT: None},
    ]
    return next((by[key] for of in orders if (key := tuple(sorted(of.items()))) in by), None)
