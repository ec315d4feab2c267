"""Clients that have no brokers left, and will find none.

A broker that shuts down may say that the cluster has no brokers. If the connection is lost while the client reads that,
librdkafka forgets its brokers and cancels its return to the bootstrap servers: it asks no broker again (its issue 5301, seen with
2.16). Only a new client helps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from time import monotonic
from typing import TypeVar

Client = TypeVar("Client")

# The statistics of every client that lives as long as its task: they tell whether it is stranded.
STATISTICS = {"statistics.interval.ms": 1000}


def made_in(make: Callable[[], Client]) -> tuple[Client, float]:
    """A new client, and the seconds that it took to make it: it may look up its brokers meanwhile (`client.dns.lookup`)."""
    begun_at = monotonic()
    return make(), monotonic() - begun_at


def are_none_left(sources: Iterable[str], *, age_seconds: float, made_seconds: float) -> bool:
    """Whether none of a client's brokers is one that it could ask, by the sources that its statistics name.

    Args:
        age_seconds: of the client, by the same statistics.
        made_seconds: see `made_in`: until then it has no brokers yet.
    """
    return age_seconds > made_seconds and not {"configured", "learned"} & {*sources}


def is_stranded(statistics: str, *, made_seconds: float) -> bool:
    """Whether a client's statistics say that it has no brokers left."""
    try:
        told = json.loads(statistics)
        sources = [broker["source"] for broker in told["brokers"].values()]
        return are_none_left(sources, age_seconds=told["age"] / 1e6, made_seconds=made_seconds)
    except (ValueError, LookupError, TypeError, AttributeError):
        return False  # not librdkafka's: then nothing is known
