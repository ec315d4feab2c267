"""Whether a topic that one broker does not know is deleted: another broker may know it.

A broker that has just started, or is cut off from the controller, tells of topics as they were.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from workbench.kafka.librdkafka_errors import is_unknown_topic

_SECONDS = 1.3  # a broker that lives answers in some milliseconds
_MOST_BROKERS = 8


def known_elsewhere(
    addresses: Collection[str], properties: Mapping[str, Any], topics: Collection[str]
) -> dict[str, str]:
    """Ask each of some brokers for topics by name.

    Args:
        addresses: host:port of brokers that answer.
        properties: as for librdkafka; they must not let a look-up make a topic.

    Returns:
        The topics that a broker knows, and one that does. A broker without an answer knows none.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    def one(address: str) -> dict[str, str]:
        found: dict[str, str] = {}
        try:
            admin = AdminClient({**properties, "bootstrap.servers": address})
            deadline = time.monotonic() + _SECONDS
            for name in topics:
                told = admin.list_topics(name, timeout=max(0.01, deadline - time.monotonic())).topics.get(name)
                if told is not None and not (told.error is not None and is_unknown_topic(told.error)):
                    found[name] = address
        except KafkaException:
            pass
        return found

    asked = list(addresses)[:_MOST_BROKERS]
    if not asked:
        return {}
    with ThreadPoolExecutor(len(asked)) as pool:
        return {name: address for it in pool.map(one, asked) for name, address in it.items()}
