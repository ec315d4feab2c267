"""Policies that apply to a topic, set for it, its namespace or the broker. Read by the admin's REST API."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from workbench.errors import SourceUnreachableError
from workbench.humanize import duration, plural, size
from workbench.pulsar.admin import PulsarAdmin
from workbench.pulsar.topic_names import TopicName

BROKER_SETTINGS = "brokers/configuration/runtime"  # path of all of a broker's settings, with its passwords
_READ = frozenset(
    {
        "backlogQuotaDefaultLimitBytes",
        "backlogQuotaDefaultLimitGB",
        "backlogQuotaDefaultLimitSecond",
        "backlogQuotaDefaultRetentionPolicy",
        "defaultRetentionSizeInMB",
        "defaultRetentionTimeInMinutes",
        "subscriptionExpirationTimeMinutes",
        "ttlDurationDefaultInSeconds",
    }
)
_DELETES = "consumer_backlog_eviction"
_LIMITS = {"destination_storage": ("limitSize", "limit"), "message_age": ("limitTime",)}  # of each kind of quota
NOT_TOLD = "not known: the admin does not tell it"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPolicies:
    """What is not told is None; 0 is no limit. Names as in `queues.dispatching_queues.DispatchedPart`.

    Attributes:
        size_quota_deletes, age_quota_deletes: whether that backlog quota deletes entries, and does not only hold producers.
    """

    unacked_limit: int | None = None
    consumer_unacked_limit: int | None = None
    ttl_seconds: int | None = None
    retention_minutes: int | None = None
    size_quota_deletes: bool | None = None
    age_quota_deletes: bool | None = None
    limit_per_second: float | None = None
    limit_bytes_per_second: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogQuota:
    """How large or how old the backlog of a topic's slowest subscription may be, of each partition by itself.

    Attributes:
        most: bytes or seconds.
        is_age: seconds.
        deletes: whether brokers acknowledge what is beyond, unread; else they hold or refuse producers.
    """

    most: int
    is_age: bool
    deletes: bool

    @property
    def words(self) -> str:
        """The quota and what brokers do, in words."""
        limit = duration(self.most) if self.is_age else size(self.most)
        what = (
            "acknowledge its oldest entries, unread" if self.deletes else "hold up or refuse the producers of the topic"
        )
        return f"The topic's backlog quota is {limit}: where a subscription has more, brokers {what}."


def backlog_quotas(admin: PulsarAdmin, topic: TopicName) -> tuple[list[BacklogQuota], bool]:
    """Backlog quotas that apply to a topic, as far as they are told, and whether that is all of them."""
    quotas, found, are_told = _quotas(admin, topic), [], True
    for kind, names in _LIMITS.items():
        quota = quotas.get(kind)
        limits = [_number(quota.get(name)) for name in names] if isinstance(quota, Mapping) else []
        most = next((it for it in limits if it is not None), None)
        are_told = are_told and most is not None
        if most is not None and most > 0:
            is_age = kind == "message_age"
            found.append(BacklogQuota(most=most, is_age=is_age, deletes=_deletes(quotas, kind) is not False))
    return found, are_told


def read_policies(admin: PulsarAdmin, topic: TopicName) -> TopicPolicies:
    """Ask for each policy by itself: a token may read some of them, and an older broker has not all."""
    retention, quotas = _told(admin, f"{topic.path}/retention"), _quotas(admin, topic)
    rate = _told(admin, f"{topic.path}/dispatchRate")
    return TopicPolicies(
        unacked_limit=_number(_told(admin, f"{topic.path}/maxUnackedMessagesOnSubscription")),
        consumer_unacked_limit=_number(_told(admin, f"{topic.path}/maxUnackedMessagesOnConsumer")),
        ttl_seconds=ttl_seconds(admin, topic),
        retention_minutes=_number(retention.get("retentionTimeInMinutes")) if isinstance(retention, Mapping) else None,
        size_quota_deletes=_deletes(quotas, "destination_storage"),
        age_quota_deletes=_deletes(quotas, "message_age"),
        limit_per_second=_limit(rate, "dispatchThrottlingRateInMsg"),
        limit_bytes_per_second=_limit(rate, "dispatchThrottlingRateInByte"),
    )


def read_limits(admin: PulsarAdmin, topic: TopicName, subscription: str) -> tuple[float | None, float | None]:
    """Dispatch rate limit of one subscription, in messages and in bytes per second; see `TopicPolicies`."""
    rate = _told(admin, f"{topic.path}/{quote(subscription, safe='')}/dispatchRate")
    return _limit(rate, "dispatchThrottlingRateInMsg"), _limit(rate, "dispatchThrottlingRateInByte")


def lower(one: float | None, other: float | None) -> float | None:
    """The limit of two that counts; 0 is none. None if one of them is not known."""
    if one is None or other is None:
        return None
    return min((it for it in (one, other) if it), default=0.0)


def retention_words(admin: PulsarAdmin, topic: TopicName) -> str:
    """Retention of acknowledged entries, in words."""
    try:
        policy = _policy(admin, topic, "retention")
        if policy is None:
            broker = _broker_settings(admin)
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
    """Age at which brokers acknowledge an entry for every subscription, read or not; 0 without one, None if it is not told."""
    try:
        policy = _policy(admin, topic, "messageTTL")
        if policy is None:
            policy = int(_broker_settings(admin)["ttlDurationDefaultInSeconds"])
    except (SourceUnreachableError, KeyError, TypeError, ValueError):
        return None
    return policy if isinstance(policy, int) and policy >= 0 else None


def subscriptions_expire_seconds(admin: PulsarAdmin, topic: TopicName) -> float | None:
    """How long brokers keep a subscription that nobody connects to; inf: for good, which is the default; None if it is not told."""
    try:
        told = admin.get_text(f"namespaces/{quote(topic.namespace)}/subscriptionExpirationTime")
        if told in ("", "null"):
            told = str(_broker_settings(admin)["subscriptionExpirationTimeMinutes"])
        minutes = int(told)
    except (SourceUnreachableError, KeyError, TypeError, ValueError):
        return None
    return 60.0 * minutes if minutes > 0 else math.inf


def _policy(admin: PulsarAdmin, topic: TopicName, name: str) -> Any:
    """As it applies to the topic; where topics have no policies of their own, the namespace's, or None."""
    try:
        return _applied(admin, f"{topic.path}/{name}")
    except SourceUnreachableError:
        told = admin.get_text(f"namespaces/{quote(topic.namespace)}/{name}")
        return json.loads(told) if told else None


def _applied(admin: PulsarAdmin, path: str) -> Any:
    return admin.get(path, {"applied": "true"})


def read_settings(told: object) -> dict[str, Any] | None:
    """Those of a broker's settings that are read here, and no other; None if these are none."""
    return {name: it for name, it in told.items() if name in _READ} if isinstance(told, dict) else None


def _broker_settings(admin: PulsarAdmin) -> dict[str, Any]:
    """As a capture has them, which keeps no more."""
    return read_settings(admin.get(BROKER_SETTINGS)) or {}


def _told(admin: PulsarAdmin, path: str) -> Any:
    try:
        return _applied(admin, path)
    except SourceUnreachableError:
        return None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and -1 <= value < 1 << 53 else None


def _limit(rate: object, name: str) -> float | None:
    """Per second; a limit relative to what is published has no number."""
    if not isinstance(rate, Mapping) or rate.get("relativeToPublishRate") is not False:
        return None
    most, period = _number(rate.get(name)), _number(rate.get("ratePeriodInSecond"))
    if most is None or period is None:
        return None
    return max(0, most) / max(1, period)


def _quotas(admin: PulsarAdmin, topic: TopicName) -> Mapping[str, Any]:
    """The quota of each kind that applies: the topic's, else the namespace's, else the broker's. What is not told is left out.

    What the admin says to apply to a topic lacks a kind that only a level behind the first one with any has (4.0.7).
    """
    levels: tuple[Callable[[], Any], ...] = (
        lambda: _policy(admin, topic, "backlogQuotaMap"),
        lambda: json.loads(admin.get_text(f"namespaces/{quote(topic.namespace)}/backlogQuotaMap") or "{}"),
        lambda: _default_quotas(_broker_settings(admin)),
    )
    found: dict[str, Any] = {}
    for level in levels:
        try:
            found = {kind: quota for kind, quota in (level() or {}).items() if quota is not None} | found
        except (SourceUnreachableError, AttributeError, KeyError, TypeError, ValueError):
            break  # it may have any, and those behind it do not count then
        if found.keys() >= _LIMITS.keys():
            break
    return found


def _default_quotas(broker: Mapping[str, str]) -> dict[str, Any]:
    """Of a broker's settings."""
    gigabytes, policy = float(broker["backlogQuotaDefaultLimitGB"]), broker["backlogQuotaDefaultRetentionPolicy"]
    most = round(gigabytes * (1 << 30)) if gigabytes > 0 else int(broker["backlogQuotaDefaultLimitBytes"])
    return {
        "destination_storage": {"limitSize": most, "policy": policy},
        "message_age": {"limitTime": int(broker["backlogQuotaDefaultLimitSecond"]), "policy": policy},
    }


def _deletes(quotas: Mapping[str, Any], kind: str) -> bool | None:
    """Whether the quota of this kind deletes entries: each kind has a policy of its own."""
    quota = quotas.get(kind)
    policy = quota.get("policy") if isinstance(quota, Mapping) else None
    return policy == _DELETES if isinstance(policy, str) else None
