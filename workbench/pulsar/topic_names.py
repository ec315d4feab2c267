"""Names of topics and subscriptions. A subscription belongs to one topic: two of one name on two topics are two. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from urllib.parse import quote, quote_plus, unquote_plus

_NAME = re.compile(r"(persistent|non-persistent)://([^/]+)/([^/]+)/(.+)", re.DOTALL)
_GROUP = re.compile(
    r"(.+?)@([^/@]+/[^/@]+/.+)", re.DOTALL
)  # no tenant and no namespace has an @; the names beside them may
_PARTITION = re.compile(r"(.+)-partition-(\d{1,9})", re.DOTALL)
WHOLE = -1  # partition of a topic that has none, as Pulsar's metrics write it


@dataclass(frozen=True, slots=True, order=True)
class TopicName:
    """A persistent topic, without its partition."""

    namespace: str
    local: str

    @classmethod
    def parse(cls, text: str) -> TopicName | None:
        """Read `persistent://tenant/namespace/topic`; None if it is another one."""
        found = _NAME.fullmatch(text)
        return cls(f"{found[2]}/{found[3]}", found[4]) if found and found[1] == "persistent" else None

    @property
    def path(self) -> str:
        """For the admin's URL; a topic's name may contain anything."""
        return f"persistent/{quote(self.namespace)}/{quote(self.local, safe='')}"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.local}"


def partition_of(text: str) -> int:
    """Number of a partition by its topic's name; `WHOLE` if it is none."""
    found = _PARTITION.fullmatch(text)
    return int(found[2]) if found else WHOLE


def part_name(topic: TopicName, partition: int) -> TopicName:
    """Topic of one partition."""
    return topic if partition == WHOLE else replace(topic, local=f"{topic.local}-partition-{partition}")


def without_partitions(names: Iterable[str], partitioned: Collection[TopicName]) -> list[TopicName]:
    """Topics that are no partition of these: a topic may be named like a partition and be none."""
    found = []
    for name in map(TopicName.parse, names):
        part = _PARTITION.fullmatch(name.local) if name is not None else None
        if name is not None and (part is None or TopicName(name.namespace, part[1]) not in partitioned):
            found.append(name)
    return found


def group_name(subscription: str, topic: TopicName) -> str:
    """What a subscription is called where Kafka's groups are: `billing@public/default/orders`."""
    return f"{subscription}@{topic}"


def cursor_name(subscription: str) -> str:
    """What the internal statistics call the cursor of a durable subscription: its name as Java's URLEncoder writes it (4.0.7)."""
    return quote_plus(subscription, safe="*").replace("~", "%7E")


def subscription_of(cursor: str) -> str:
    """The durable subscription of a cursor; see `cursor_name`."""
    return unquote_plus(cursor)


def split_group(group: str) -> tuple[str, str | None]:
    """Subscription and topic of `group_name`; a name without a topic is a subscription."""
    found = _GROUP.fullmatch(group)
    return (found[1], found[2]) if found else (group, None)
