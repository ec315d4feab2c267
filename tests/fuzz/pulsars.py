"""Parsers of what a Pulsar's admin answers, and of a broker's settings and bundles from files."""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

from tests.fuzz.mutators import json_text, of_bytes, of_json
from tests.fuzz.target import SECRET, Target, Web, changed, from_file
from tests.pulsar.broker import entry
from tests.pulsar.pages import consumer, partitioned, subscription, topic
from workbench.api.measurement_requests import Measurements
from workbench.api.pulsar_triage import look_twice
from workbench.pulsar.broker_conf import read_configs
from workbench.pulsar.bundle_split import plan_split
from workbench.pulsar.bundle_split_file import read_split_file
from workbench.pulsar.entry_messages import read_entry
from workbench.pulsar.pulsar_wire import Command, CommandKind, PulsarWireError, field, frame, sealed
from workbench.pulsar.recorded_answers import AdminAnswer, AdminAnswers
from workbench.pulsar.risky_settings import BrokerSettings, check_config, misspelt
from workbench.pulsar.subscription_looks import read_again
from workbench.pulsar.subscriptions import read_subscriptions
from workbench.settings import checked_cluster
from workbench.thresholds import Thresholds

_CONF = f"""# broker
brokerClientAuthenticationParameters=token:{SECRET}
managedLedgerDefaultMarkDeleteRateLimit=1.0
cacheEvictionByMarkDeletedPosition: true
managedLedgerCacheEvictionTimeThresholdMillis 60000
supportedNamespaceBundleSplitAlgorithms=range_equally_divide,\\
  specified_positions_divide
""".encode()
_BUNDLE = {
    "bundle": "0x00000000_0xffffffff",
    "topics": [
        {"topic": "persistent://t/n/a", "load": 1.5},
        {"topic": "b", "hash": "0x10", "load": 2},
        {"topic": "c", "hash": 7, "load": 0},
    ],
}
_POLICY = {
    "dispatchThrottlingRateInMsg": 5, "ratePeriodInSecond": 1, "relativeToPublishRate": False, "retentionTimeInMinutes": 60,
}  # fmt: skip
_CURSORS = {
    "entriesAddedCounter": 30, "lastConfirmedEntry": "7:3",
    "ledgers": [{"ledgerId": 5, "entries": 100}, {"ledgerId": 7, "entries": 0}],
    "cursors": {
        "billing": {
            "markDeletePosition": "5:9", "readPosition": "5:20", "waitingReadOp": False, "pendingReadOps": 0,
            "messagesConsumedCounter": 10, "numberOfEntriesSinceFirstNotAckedMessage": 11, "totalNonContiguousDeletedMessagesRange": 1,
            "subscriptionHavePendingRead": False, "subscriptionHavePendingReplayRead": False,
        }
    },
}  # fmt: skip


def targets(web: Web) -> list[Target]:
    """Statistics with and without partitions, settings, bundles."""
    busy = topic(billing=subscription(type="Shared", unackedMessages=95, consumers=[consumer()]), old=subscription())
    own = {
        "name": "events",
        "system": "pulsar",
        "pulsar": {"admin_url": "http://events", "token": SECRET, "namespaces": ["t/n"]},
    }

    def list_all(data: bytes, _folder: Path) -> object:
        names = {
            "": b'["persistent://t/n/a"]',
            "/partitioned": b'["persistent://t/n/b"]',
            "/a/stats": data,
            "/b/partitioned-stats": data,
        }
        web.answers = {
            f"/admin/v2/persistent/t/n{path}": (200, "application/json", body) for path, body in names.items()
        }
        found = read_subscriptions(checked_cluster(own))
        return (*found.rows, *found.incomplete)

    def judge_all(data: bytes, _folder: Path) -> object:
        """The topic `a` by its cursors and policies, and `b` by its statistics, too."""
        names = {
            "": b'["persistent://t/n/a"]',
            "/partitioned": b'["persistent://t/n/b"]',
            "/a/stats": json_text(busy),
            "/a/internalStats": data,
            "/b/partitioned-stats": data,
            "/b/partitioned-internalStats": data,
        }
        answers = {f"/admin/v2/persistent/t/n{path}": (200, "application/json", body) for path, body in names.items()}
        web.answers = defaultdict(lambda: (200, "application/json", data), answers)  # the policies
        look = Measurements(cluster="events", observe="1ms")
        return json.dumps(look_twice(look, checked_cluster(own), Thresholds(), pause=lambda _: None).triage.to_json())

    def check(path: Path) -> object:
        values = read_configs([path])
        return check_config(BrokerSettings(values=values)), misspelt(values)

    def split(path: Path) -> object:
        return plan_split(*read_split_file(path), pieces=3)

    def entries(data: bytes, _folder: Path) -> object:
        """A frame, and what it carries; as the runtime and `dlq show` take it in."""
        try:
            command = Command.parse(data)
            return read_entry(command.body, command.payload)
        except PulsarWireError:
            return None

    def answers(data: bytes, _folder: Path) -> object:
        return read_again(checked_cluster(own), zlib.compress(data))

    kept = AdminAnswers(
        started_at=datetime(2026, 11, 26, tzinfo=UTC),
        ended_at=datetime(2026, 11, 26, tzinfo=UTC),
        answers=[AdminAnswer(path=path, at=1.0, document=document) for path, document in _recorded(busy)],
    )
    place = field(1, 7) + field(2, field(1, 5) + field(2, 3)) + field(4, 0b1101)
    frames = [
        frame(CommandKind.MESSAGE, place, payload=content)[4:]
        for content in (
            entry(("k", "v")),
            entry(*[("k", "value")] * 5),
            sealed(field(1, "p") + field(3, 5) + field(8, 2) + field(9, 50), zlib.compress(b"x" * 50)),
            sealed(field(1, "p") + field(3, 5) + field(8, 1) + field(9, 7), b"\x70content"),
            sealed(field(1, "p") + field(3, 5) + field(26, "u") + field(27, 2) + field(29, 1), b"part"),
        )
    ]
    pages = [json_text(busy), json_text(partitioned("t/n/b", {0: busy, 1: busy}, of=2))]
    return [
        Target(name="pulsar_entries", make=changed(of_bytes, *frames), call=entries, most_per_byte=2000),
        Target(
            name="pulsar_answers",
            make=changed(of_json, kept.model_dump_json(by_alias=True).encode()),
            call=answers,
            share=2,
        ),
        Target(name="pulsar_stats", make=changed(of_json, *pages), call=list_all),
        Target(
            name="pulsar_looks",
            make=changed(of_json, pages[1], *map(json_text, (_CURSORS, _POLICY))),
            call=judge_all,
            share=2,
        ),
        Target(name="pulsar_settings", make=changed(of_bytes, _CONF), call=from_file(check, "broker.conf"), share=2),
        Target(
            name="pulsar_bundle",
            make=changed(of_json, json_text(_BUNDLE)),
            call=from_file(split, "bundle.json"),
            share=2,
        ),
    ]


def _recorded(busy: object) -> list[tuple[str, object]]:
    names = {"": ["persistent://t/n/a"], "/partitioned": [], "/a/stats": busy, "/a/internalStats": _CURSORS}
    every = [(f"persistent/t/n{path}", document) for path, document in names.items()]
    return [("tenants", ["t"]), ("namespaces/t", ["t/n"]), *every, *every[2:]]
