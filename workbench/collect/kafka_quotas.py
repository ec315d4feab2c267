"""Quotas of a user, which confluent-kafka has no call for: DescribeClientQuotas 1 (Kafka 2.8 and later)."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.collect.kafka_groups import NotListedError, own_security
from workbench.collect.kafka_login import logged_in
from workbench.collect.kafka_wire import Answer, Api, WireError, addresses, array, text

_DESCRIBE = Api("DescribeClientQuotas", 48, 1, 1)
_EXACT, _DEFAULT = 0, 1  # match types
_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """Limits of a user, of each broker; None: not limited.

    Attributes:
        producer_bytes, consumer_bytes: per second.
    """

    user: str
    producer_bytes: float | None = None
    consumer_bytes: float | None = None


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
    for address in addresses(bootstrap):
        try:
            with logged_in(address, own_security(properties), time.monotonic() + _SECONDS) as wire:
                found: dict[str, float] = {}
                for match, of in ((_DEFAULT, None), (_EXACT, str(name))):  # what is set for the user itself counts
                    body = array([text("user") + bytes([match]) + text(of) + b"\x00"]) + b"\x00"
                    found |= parse_quotas(wire.ask(_DESCRIBE, lambda _version, body=body: body)[1])  # type: ignore[misc]
                return Quotas(
                    user=str(name),
                    producer_bytes=found.get("producer_byte_rate"),
                    consumer_bytes=found.get("consumer_byte_rate"),
                )
        except (OSError, WireError, NotListedError):
            continue
    return None


def parse_quotas(answer: Answer) -> dict[str, float]:
    """Values of the entry that has only a user.

    Raises:
        WireError: if the broker refuses, or the answer has another form.
    """
    answer.int32()
    code = answer.int16()
    words = answer.maybe_text()
    if code:
        raise WireError(f"quotas: error {code} {words or ''}")

    def entity() -> str:
        kind = answer.text()
        answer.maybe_text()
        answer.tags()
        return kind

    def value() -> tuple[str, float]:
        key = answer.text()
        (number,) = answer.record(struct.Struct(">d"))
        answer.tags()
        return key, float(number)

    def entry() -> tuple[list[str], dict[str, float]]:
        of, values = answer.array(entity), dict(answer.array(value))
        answer.tags()
        return of, values

    found: dict[str, float] = {}
    for of, values in answer.array(entry):
        if of == ["user"]:
            found |= values
    return found
