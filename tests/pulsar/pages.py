"""Answers of a Pulsar's admin: fields and values recorded from a standalone 4.0.7; the builders change what a test is about."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.servers import Script, scripted
from workbench.settings import Cluster, checked_cluster

PUBLISHED_MS = 1_795_678_175_480

_CONSUMER = {
    "msgRateOut": 0.0, "consumerName": "c1", "availablePermits": 905, "unackedMessages": 95, "avgMessagesPerEntry": 10,
    "blockedConsumerOnUnackedMsgs": False, "address": "/127.0.0.1:39680", "connectedSince": "2026-11-26T07:29:35.412186191Z",
    "clientVersion": "Pulsar-CPP-v4.2.0", "lastAckedTimestamp": 0, "metadata": {},
}  # fmt: skip
_SUBSCRIPTION = {
    "msgRateOut": 0.0, "msgBacklog": 10, "backlogSize": 1405, "earliestMsgPublishTimeInBacklog": PUBLISHED_MS,
    "msgBacklogNoDelayed": 10, "blockedSubscriptionOnUnackedMsgs": False, "msgDelayed": 0, "unackedMessages": 0, "totalMsgExpired": 0,
    "type": "Exclusive", "lastConsumedFlowTimestamp": 1795678175452, "lastConsumedTimestamp": 0, "lastAckedTimestamp": 0,
    "lastMarkDeleteAdvancedTimestamp": 0, "consumers": [], "isDurable": True, "isReplicated": False,
    "nonContiguousDeletedMessagesRanges": 0, "subscriptionProperties": {}, "durable": True,
}  # fmt: skip


def consumer(**changes: Any) -> dict[str, Any]:
    """A connected consumer."""
    return {**copy.deepcopy(_CONSUMER), **changes}


def subscription(**changes: Any) -> dict[str, Any]:
    """A subscription with a backlog of ten entries that nobody reads; None takes a field away."""
    found = {**copy.deepcopy(_SUBSCRIPTION), **changes}
    return {name: value for name, value in found.items() if value is not None}


def topic(**subscriptions: dict[str, Any]) -> dict[str, Any]:
    """`stats` of a topic."""
    return {
        "msgRateIn": 0.0,
        "backlogSize": 1405,
        "publishers": [],
        "subscriptions": subscriptions,
        "ownerBroker": "127.0.0.1:53915",
    }


def partitioned(name: str, partitions: Mapping[int, Any], *, of: int) -> dict[str, Any]:
    """`partitioned-stats` of a topic with so many partitions, of which these are told."""
    told = {f"persistent://{name}-partition-{number}": content for number, content in partitions.items()}
    return {**topic(), "metadata": {"partitions": of, "deleted": False}, "partitions": told}


class FakeAdmin:
    """The admin of a cluster, by path after `/admin/v2/`: documents, or functions that make one."""

    def __init__(self, topics: Mapping[str, Any], *, extra: Mapping[str, Any] | None = None) -> None:
        self.answers: dict[str, Any] = {
            "tenants": ["public", "pulsar"],
            "clusters": ["standalone"],
            "namespaces/public": ["public/default"],
        }
        whole, parts = [], []
        for name, document in topics.items():
            local = name.rpartition("/")[2]
            if isinstance(document, dict) and "metadata" in document:
                parts.append(f"persistent://{name}")
                whole += list(document["partitions"])
                self.answers[f"persistent/public/default/{local}/partitioned-stats"] = document
            else:
                whole.append(f"persistent://{name}")
                self.answers[f"persistent/public/default/{local}/stats"] = document
        self.answers["persistent/public/default"] = whole
        self.answers["persistent/public/default/partitioned"] = parts
        self.answers |= extra or {}

    def __call__(self, path: str, _query: dict[str, list[str]]) -> bytes:
        """Answer a request; what is not there has no answer that could be read."""
        found = self.answers.get(path.removeprefix("/admin/v2/"), b"no")
        return found if isinstance(found, bytes) else json.dumps(found).encode()


def cluster(url: str, **settings: Any) -> Cluster:
    """A cluster that is a Pulsar."""
    return checked_cluster(
        {"name": "events", "system": "pulsar", "timeout_seconds": 5, "pulsar": {"admin_url": url, **settings}}
    )


@contextmanager
def serving(answer: Callable[[str, dict[str, list[str]]], bytes], **settings: Any) -> Iterator[tuple[Cluster, Script]]:
    """A cluster whose admin answers so."""
    with scripted(Script(answer=answer)) as script:
        yield cluster(script.url, **settings), script
