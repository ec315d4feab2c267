"""Policies that take entries away: retention, of what is acknowledged; the time-to-live, which acknowledges what nobody has read."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from workbench.errors import SourceUnreachableError
from workbench.humanize import plural
from workbench.pulsar.admin import PulsarAdmin
from workbench.pulsar.topics import TopicName

NOT_TOLD = "not known: the admin does not tell it"


def retention_words(admin: PulsarAdmin, topic: TopicName) -> str:
    """Retention of acknowledged entries, in words."""
    try:
        policy = _policy(admin, topic, "retention")
        if policy is None:
            broker = admin.get("brokers/configuration/runtime")
            minutes, megabytes = (
                int(broker[it]) for it in ("defaultRetentionTimeInMinutes", "defaultRetentionSizeInMB")
            )
        else:
            minutes, megabytes = int(policy["retentionTimeInMinutes"]), int(policy["retentionSizeInMB"])
    except (SourceUnreachableError, KeyError, TypeError, ValueError):
        return NOT_TOLD
    if minutes == 0 or megabytes == 0:
        return "none: an entry that every subscription has acknowledged may go at once"
    words = ["without a limit of time" if minutes < 0 else f"for {plural(minutes, 'minute')}"]
    words.append("without a limit of size" if megabytes < 0 else f"up to {megabytes:,} MB")
    return f"acknowledged entries are kept {', '.join(words)}"


def ttl_seconds(admin: PulsarAdmin, topic: TopicName) -> int | None:
    """Age at which brokers acknowledge an entry for every subscription, whoever has read it; 0 without one, None if it is not told."""
    try:
        policy = _policy(admin, topic, "messageTTL")
        if policy is None:
            policy = int(admin.get("brokers/configuration/runtime")["ttlDurationDefaultInSeconds"])
    except (SourceUnreachableError, KeyError, TypeError, ValueError):
        return None
    return policy if isinstance(policy, int) and policy >= 0 else None


def _policy(admin: PulsarAdmin, topic: TopicName, name: str) -> Any:
    """As it applies to the topic; where topics have no policies of their own, the namespace's, or None."""
    try:
        return admin.get(f"{topic.path}/{name}", {"applied": "true"})
    except SourceUnreachableError:
        told = admin.get_text(f"namespaces/{quote(topic.namespace)}/{name}")
        return json.loads(told) if told else None
