"""Parsers of what a Pulsar's admin answers, and of a broker's settings and bundles from files."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

from tests.fuzz.mutators import json_text, of_bytes, of_json
from tests.fuzz.target import SECRET, Target, Web, changed, from_file
from tests.pulsar.pages import consumer, partitioned, subscription, topic
from workbench.api.dispatch_look import look_twice
from workbench.api.requests import Measurements
from workbench.pulsar.config_check import BrokerSettings, check_config, misspelt
from workbench.pulsar.config_file import read_configs
from workbench.pulsar.split import plan_split
from workbench.pulsar.split_file import read_split_file
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

    pages = [json_text(busy), json_text(partitioned("t/n/b", {0: busy, 1: busy}, of=2))]
    return [
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
