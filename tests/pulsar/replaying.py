"""A Pulsar in memory, as far as a replay asks it: ledgers, publish times, cursors, and calls that fail when a test says so."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from tests.pulsar import pages
from workbench.errors import SourceUnreachableError
from workbench.pulsar.admin import NotThereError

TOPIC, OLD, NEW = "shop/orders/created", "shop/orders/my fn", "again+1~b"  # as functions call theirs, and anybody may
Place = tuple[int, int]
NO_QUOTAS = {
    "backlogQuotaDefaultLimitGB": "-1.0", "backlogQuotaDefaultLimitBytes": "-1", "backlogQuotaDefaultLimitSecond": "-1",
    "backlogQuotaDefaultRetentionPolicy": "producer_request_hold",
}  # fmt: skip


@dataclass
class Part:
    """Entries of one partition: ledger to publish times, in order; cursors by name to the last acknowledged place."""

    ledgers: dict[int, list[int]]
    cursors: dict[str, Place] = field(default_factory=dict)
    properties: dict[str, dict[str, str]] = field(default_factory=dict)
    one_by_one: dict[str, str] = field(default_factory=dict)  # acknowledged behind that, as a broker writes it
    compacted: list[Place] = field(default_factory=list)  # what compaction has left up to the last of these

    @property
    def entries(self) -> list[tuple[Place, int]]:
        """Place and publish time of each."""
        return [((ledger, n), at) for ledger, times in self.ledgers.items() for n, at in enumerate(times)]

    @property
    def last(self) -> Place:
        """The last entry's."""
        return max((it for it, _ in self.entries), default=(max(self.ledgers), -1))

    def found_by_time(self, at_ms: int) -> Place:
        """As a broker (4.0.7) finds it: up to the last of what compaction has left, only among that."""
        times = dict(self.entries)
        if self.compacted and at_ms <= times[self.compacted[-1]]:
            return next(it for it in self.compacted if times[it] >= at_ms)
        return next((it for it, at in self.entries if at >= at_ms), (self.last[0], self.last[1] + 1))

    def acknowledge_through(self, name: str, place: Place) -> None:
        """As consumers do it."""
        self.cursors[name] = place


class Killed(BaseException):
    """The process ends here."""


@dataclass
class InMemoryPulsar:
    """See `PulsarAdmin`; `fails` maps the number of a change (from 1) to what happens before or after it."""

    parts: list[Part]
    names: list[str] = field(default_factory=lambda: ["one"])
    retention: str = '{"retentionTimeInMinutes":60,"retentionSizeInMB":-1}'
    ttl: int | None = 0
    quotas: dict[str, Any] | None = field(
        default_factory=dict
    )  # of the topic, as a broker tells them; None: it refuses
    namespace_quotas: str = "{}"
    broker_quotas: dict[str, str] = field(default_factory=lambda: dict(NO_QUOTAS))
    entry_bytes: int = 0
    has_topic_policies: bool = True
    ignores_position: bool = False
    written_meanwhile: int = 0  # entries that came after their number was told, and before the last one
    consumers: int = 0
    expired: int | None = 0
    keeps_properties: bool = True
    kill_before: int | None = None
    kill_after: int | None = None
    changes: int = 0

    def get(self, path: str, _params: Mapping[str, str] | None = None) -> Any:
        """Documents of the paths that a replay reads."""
        if path == "clusters":
            return self.names
        if path.startswith(f"persistent/{TOPIC}/") and path.endswith(("/retention", "/messageTTL")):
            if not self.has_topic_policies:
                raise SourceUnreachableError("status 405")
            return (
                self.ttl
                if path.endswith("/messageTTL")
                else json.loads(self.retention or '{"retentionTimeInMinutes":0}')
            )
        if path == f"persistent/{TOPIC}/backlogQuotaMap":
            if self.quotas is None:
                raise SourceUnreachableError("status 405")
            return self.quotas
        if path == "brokers/configuration/runtime":
            return {
                "defaultRetentionTimeInMinutes": "0",
                "defaultRetentionSizeInMB": "0",
                "ttlDurationDefaultInSeconds": "0",
                **self.broker_quotas,
            }
        if path == f"persistent/{TOPIC}/partitions":
            return {"partitions": len(self.parts)}
        part = self._part(path)
        if path.endswith("/internalStats"):
            return self._internal(part)
        if path.endswith("/stats"):
            them = {
                name: pages.subscription(
                    consumers=self._consumers(),
                    totalMsgExpired=self.expired,
                    subscriptionProperties=part.properties.get(name, {}),
                )
                for name in part.cursors
            }
            return pages.topic(**them)
        found = re.search(r"/messageid/(\d+)$", path)
        if found is None:
            raise AssertionError(path)
        place = part.found_by_time(int(found[1]))
        return {"ledgerId": place[0], "entryId": place[1], "partitionIndex": 0, "batchIndex": -1, "batchSize": 0}

    def get_text(self, path: str) -> str:
        """Of a namespace's policy: empty if there is none."""
        if path.endswith("/backlogQuotaMap"):
            return self.namespace_quotas
        if path.endswith("/messageTTL"):
            return "" if self.ttl is None else str(self.ttl)
        return self.retention

    def headers(self, path: str) -> Mapping[str, str]:
        """Of an entry."""
        found = re.search(r"/ledger/(\d+)/entry/(\d+)$", path)
        assert found is not None
        at = dict(self._part(path).entries)[int(found[1]), int(found[2])]
        return {"X-Pulsar-publish-time": datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")}

    def create_subscription(self, path: str, begin: Mapping[str, Any]) -> bool:
        """At a place, unless it is there."""
        part, name = self._part(path), unquote(path.rsplit("/", 1)[1])
        self._before()
        if name in part.cursors:
            return False
        before = [it for it, _ in part.entries if it < (begin["ledgerId"], begin["entryId"])]
        part.cursors[name] = part.last if self.ignores_position else max(before, default=(begin["ledgerId"], -1))
        part.properties[name] = dict(begin["properties"]) if self.keeps_properties else {}
        self._after()
        return True

    def set_properties(self, path: str, properties: Mapping[str, str]) -> None:
        """Of a subscription that is there."""
        part, name = self._part(path), unquote(path.rsplit("/", 1)[1])
        if name not in part.cursors:
            raise NotThereError("There is none.")
        if self.keeps_properties:
            part.properties[name] = dict(properties)

    def delete_subscription(self, path: str) -> None:
        """If nobody is connected."""
        part, name = self._part(path), unquote(path.rsplit("/", 1)[1])
        self._before()
        if self.consumers:
            raise SourceUnreachableError("The admin does not tell it: HTTP 412.")
        if name not in part.cursors:
            raise NotThereError("There is none.")
        del part.cursors[name]
        part.properties.pop(name, None)
        self._after()

    def _before(self) -> None:
        self.changes += 1
        if self.changes == self.kill_before:
            raise Killed

    def _after(self) -> None:
        if self.changes == self.kill_after:
            raise Killed

    def _part(self, path: str) -> Part:
        found = re.search(rf"^persistent/{TOPIC}-partition-(\d+)/", path)
        if found is None or int(found[1]) >= len(self.parts):
            raise NotThereError(path)
        return self.parts[int(found[1])]

    def _consumers(self) -> list[dict[str, Any]]:
        return [pages.consumer(consumerName=f"c{number}") for number in range(self.consumers)]

    def _internal(self, part: Part) -> dict[str, Any]:
        open_one = max(part.ledgers)
        entries = [(ledger, 0 if ledger == open_one else len(times)) for ledger, times in part.ledgers.items()]
        return {
            "currentLedgerEntries": max(0, len(part.ledgers[open_one]) - self.written_meanwhile),
            "currentLedgerSize": len(part.ledgers[open_one]) * self.entry_bytes,
            "lastConfirmedEntry": f"{part.last[0]}:{part.last[1]}",
            "ledgers": [
                {"ledgerId": ledger, "entries": count, "size": count * self.entry_bytes} for ledger, count in entries
            ],
            "compactedLedger": {"ledgerId": 100 if part.compacted else -1, "entries": len(part.compacted) or -1},
            "cursors": {
                _as_java(name): {
                    "markDeletePosition": f"{at[0]}:{at[1]}",
                    "readPosition": f"{at[0]}:{at[1] + 1}",
                    "individuallyDeletedMessages": part.one_by_one.get(name, "[]"),
                }
                for name, at in part.cursors.items()
            },
        }


def _as_java(name: str) -> str:
    """As `URLEncoder` writes it, and a broker the names of cursors."""
    plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-*_"
    found = [it if it in plain else "+" if it == " " else "".join(f"%{one:02X}" for one in it.encode()) for it in name]
    return "".join(found)
