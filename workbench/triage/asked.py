"""What people ask with, in their own words, and what of the trees it means: `workbench tree "when is a partition hot?"`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

# Other words for questions, verdicts, causes and words of the rules, of Kafka's groups.
OF_GROUPS: Mapping[str, str] = {
    "how old": "late", "objective": "late", "how much lag": "late", "too much": "late", "threshold": "late", "stale": "stale_seconds",
    "not tell": "cannot_tell", "unknown": "cannot_tell", "fine": "healthy", "ok": "healthy", "hot": "hot_partition",
    "throttle": "throttled", "throttling": "throttled", "quota": "throttled", "quotas": "throttled", "storm": "rebalance_storm",
    "rebalances": "rebalance_storm", "rebalance": "rebalance_storm", "processor": "slow_processor", "handler": "slow_processor",
    "handlers": "slow_processor", "consumer slow": "queue_backed_up", "slow consumer": "queue_backed_up", "growing": "grows",
    "slow processing": "slow_processor", "processing": "slow_processor", "dependency": "slow_downstream", "database": "slow_downstream",
    "downstream": "slow_downstream", "spike": "burst", "peak": "burst", "producer rate": "burst", "more traffic": "burst",
    "traffic spike": "burst", "doubled": "burst", "traffic": "burst", "poison": "poison_record", "poison message": "poison_record",
    "poison pill": "poison_record", "commit": "commit_fails", "commits fail": "commit_fails", "kicked out": "poll_stall",
    "max poll interval": "poll_stall", "gc": "poll_stall", "members": "consumer_stopped", "no members": "consumer_stopped",
    "member left": "consumer_stopped", "left the group": "consumer_stopped", "empty": "consumer_stopped", "nobody": "consumer_stopped",
    "crash": "member_crash", "crash loop": "member_crash", "rolling restart": "deploy", "rollout": "deploy", "snapshot": "data_usable",
    "one sample": "data_usable", "gap": "gap in the data", "gaps": "gap in the data", "scrape": "gap in the data",
    "scrapes": "gap in the data", "metrics missing": "gap in the data", "missing": "cannot_tell", "consumers": "too_few_consumers",
    "too few": "too_few_consumers", "network": "slow_network", "broker slow": "brokers", "page cache": "brokers", "disk": "brokers",
    "disks": "brokers", "cold": "cold_read", "cold data": "cold_read", "tiered": "cold_read", "remote storage": "cold_read",
    "tiered storage": "cold_read", "transaction": "open transaction", "transactions": "open transaction", "caught up": "draining",
    "deleted": "lost", "retention": "lost", "lose data": "lost", "data loss": "lost", "silent": "producer_silent", "wins": "order",
    "first": "order", "priority": "order", "outranks": "order", "commits": "committed offset",
    "deployment": "deploy", "changed": "nearest change",
}  # fmt: skip

# The same of subscriptions of Pulsar: words that mean nothing of a Kafka, and those that count where a subscription is asked for.
OF_PULSAR: Mapping[str, str] = {
    "unacked": "blocked_on_unacked", "unacknowledged": "blocked_on_unacked", "mark delete": "hole_in_acks",
    "dispatcher": "dispatcher_stands", "permits": "consumers_full", "redelivery": "sent_again", "redelivered": "sent_again",
    "redeliveries": "sent_again", "bookie": "bookies_avoided", "bookies": "bookies_avoided", "bookkeeper": "bookies_avoided",
    "unload": "unloaded_again", "unloads": "unloaded_again", "unloaded": "unloaded_again", "bundle": "unloaded_again",
    "bundles": "unloaded_again", "ttl": "expiring", "backlog quota": "expiring", "key shared": "hashes_blocked",
    "load report": "bad_load_report",
}  # fmt: skip
OF_SUBSCRIPTIONS: Mapping[str, str] = {
    **OF_PULSAR, "acks": "hole_in_acks", "ack": "hole_in_acks", "hole": "hole_in_acks", "stuck": "dispatcher_stands",
    "consumer slow": "consumers_full", "consumers slow": "consumers_full", "slow": "consumers_full",
    "cache": "sent_again_from_bookies", "quota": "expiring", "loss": "expiring", "retention": "expiring", "keys": "hashes_blocked",
    "hash": "hashes_blocked", "dead": "dead_subscription", "no consumers": "dead_subscription", "throttled": "dispatch_throttled",
    "throttle": "dispatch_throttled", "rate limit": "dispatch_throttled", "delayed": "only_delayed", "late": "behind",
    "backlog": "behind", "connected": "nobody_connected",
}  # fmt: skip


def named_in(text: str, names: Iterable[str], asked: Mapping[str, str]) -> list[str]:
    """What a question in a person's words is about: the names and other words in it, each the longest at its place."""
    known = {**{it.replace("_", " ").lower(): it for it in names}, **asked}
    said = f" {said_words(text)} "
    found = []
    for word in sorted(known, key=len, reverse=True):
        if f" {word} " in said:
            found.append(known[word])
            said = said.replace(f" {word} ", " | ")
    return list(dict.fromkeys(found))


def said_words(text: str) -> str:
    """Its words in small letters, with a blank between two."""
    return " ".join(re.findall("[a-z0-9]+", text.lower()))
