"""What people ask with, in their own words, and what of the trees it means: `workbench tree "when is a partition hot?"`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

# Other words for questions, verdicts, causes and words of the rules, of Kafka's groups; each stands for its inflections, too.
OF_GROUPS: Mapping[str, str] = {
    "how old": "late", "objective": "late", "how much lag": "late", "too much": "late", "threshold": "late", "stale": "stale_seconds",
    "not tell": "cannot_tell", "unknown": "cannot_tell", "missing": "cannot_tell", "fine": "healthy", "ok": "healthy",
    "hot": "hot_partition", "quota": "throttled", "storm": "rebalance_storm", "processor": "slow_processor",
    "handler": "slow_processor", "consumer slow": "queue_backed_up", "slow consumer": "queue_backed_up", "processing": "slow_processor",
    "dependency": "slow_downstream", "database": "slow_downstream", "downstream": "slow_downstream", "spike": "burst", "peak": "burst",
    "producer rate": "burst", "traffic": "burst", "doubled": "burst", "poison": "poison_record", "commits fail": "commit_fails",
    "kicked out": "poll_stall", "max poll interval": "poll_stall", "gc": "poll_stall", "no members": "consumer_stopped",
    "member left": "consumer_stopped", "left the group": "consumer_stopped", "empty": "consumer_stopped", "nobody": "consumer_stopped",
    "crash": "member_crash", "rolling restart": "deploy", "rollout": "deploy", "deployment": "deploy", "changed": "nearest change",
    "snapshot": "data_usable", "one sample": "data_usable", "old data": "data_usable", "how old may the data be": "data_usable",
    "gap": "gap in the data", "scrape": "gap in the data", "metrics missing": "gap in the data", "more consumers": "too_few_consumers",
    "too few": "too_few_consumers", "network": "slow_network", "broker slow": "brokers", "page cache": "brokers", "disk": "brokers",
    "cold": "cold_read", "tiered": "cold_read", "remote storage": "cold_read", "transaction": "open transaction",
    "caught up": "draining", "falling": "draining", "going down": "draining", "deleted": "lost", "retention": "lost",
    "lose data": "lost", "data loss": "lost", "wins": "order", "first": "order", "outranks": "order", "two causes": "order",
    "fault": "order", "measured": "origin", "chosen": "origin", "jumped": "reset", "rewound": "reset", "leader": "brokers",
}  # fmt: skip


def named_in(text: str, names: Iterable[str], asked: Mapping[str, str]) -> list[str]:
    """What a question in a person's words is about: the names and other words in it, each the longest at its place."""
    known = {" ".join(_stems(word)): name for word, name in (*((it, it) for it in names), *asked.items())}
    said = f" {' '.join(_stems(text))} "
    found = []
    for word in sorted(known, key=len, reverse=True):
        if f" {word} " in said:
            found.append(known[word])
            said = said.replace(f" {word} ", " | ")
    return list(dict.fromkeys(found))


def said_most(text: str, texts: Mapping[str, str]) -> list[str]:
    """The text that says most of a question's longer words, the rare ones first: more than half of them, and as briefly as any."""
    asked = set(re.findall("[a-z]{4,}", " ".join(_stems(text)))) - _ASKING
    said = {name: asked.intersection(_stems(own)) for name, own in texts.items()}
    often = Counter(word for words in said.values() for word in words)
    enough = {name: sum(1 / often[it] for it in words) for name, words in said.items() if 2 * len(words) > len(asked)}
    return [max(enough, key=lambda name: (enough[name], -len(texts[name])))] if enough else []


_ASKING = {"doe", "from", "hav", "many", "mean", "must", "that", "then", "ther", "thes", "they", "thi", "what", "when", "wher", "which",
           "will", "with", "would"}  # fmt: skip


def said_words(text: str) -> str:
    """Its words in small letters, with a blank between two."""
    return " ".join(re.findall("[a-z0-9]+", text.lower()))


def _stems(text: str) -> list[str]:
    return [re.sub("(ing|ed|es|e|(?<!s)s)$", "", it) for it in said_words(text).split()]
