"""Clients that have no brokers left, and will find none.

A broker that shuts down may say that the cluster has no brokers. If the connection is lost while the client reads that,
librdkafka forgets the brokers that it has, and stops its own way back to those that it was given: it asks nobody again (its issue 5301,
seen with 2.16). Only a new client helps.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

# The statistics of every client that lives as long as its task: they tell whether it is stranded.
STATISTICS = {"statistics.interval.ms": 1000}


def are_none_left(sources: Iterable[str]) -> bool:
    """Whether none of a client's brokers, by the sources that its statistics name, is one that it could ask."""
    return not {"configured", "learned"} & {*sources}


def is_stranded(statistics: str) -> bool:
    """Whether a client's statistics say that it has no brokers left."""
    try:
        return are_none_left(broker["source"] for broker in json.loads(statistics)["brokers"].values())
    except (ValueError, LookupError, TypeError, AttributeError):
        return False  # not librdkafka's: then nothing is known
