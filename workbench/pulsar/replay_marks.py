"""Whose a subscription is: a replay writes its plan into the subscription's properties, and at the end that it was read back.

A name says nothing: a consumer that comes first makes a subscription of that name, and it begins at the end of the topic.
"""

from __future__ import annotations

from enum import StrEnum

from workbench.pulsar.admin import PulsarAdmin
from workbench.pulsar.topic_names import TopicName, part_name
from workbench.pulsar.topic_stats import SubscriptionPart, parse_topic

_PLAN, _BEGAN_AT = "workbench-plan", "workbench-began-at"


class Ownership(StrEnum):
    """What a subscription's properties say of a plan.

    Attributes:
        OTHER: it is not of this plan. MADE: this plan has made it, and not read back where it begins. PROVEN: it was read back.
    """

    OTHER = "other"
    MADE = "made"
    PROVEN = "proven"


def properties_of(plan: str, *, began_at: str | None = None) -> dict[str, str]:
    """Properties of a subscription that the plan of this hash makes; `began_at` once it was read back."""
    return {_PLAN: plan} | ({} if began_at is None else {_BEGAN_AT: began_at})


def ownership_of(part: SubscriptionPart | None, plan: str) -> Ownership:
    """What its properties say of the plan of this hash; brokers before 2.11 keep none."""
    told = part.properties if part is not None and part.properties is not None else {}
    if told.get(_PLAN) != plan:
        return Ownership.OTHER
    return Ownership.PROVEN if _BEGAN_AT in told else Ownership.MADE


def read_part(admin: PulsarAdmin, topic: TopicName, partition: int, subscription: str) -> SubscriptionPart | None:
    """A subscription on one partition; None if it is not there.

    Raises:
        SourceUnreachableError: if the admin does not answer. EvidenceError: if nobody can read its answer.
    """
    stats = admin.get(f"{part_name(topic, partition).path}/stats")
    return next((it for it in parse_topic(stats, topic, partition=partition) if it.subscription == subscription), None)
