"""How far the new subscription of a replay is: an entry counts once everything before it is acknowledged, too."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from workbench.pulsar.admin import PulsarAdmin
from workbench.pulsar.policies import backlog_quotas, ttl_seconds
from workbench.pulsar.replay_marks import Ownership, ownership_of, read_part
from workbench.pulsar.replay_plan import PulsarReplayPlan, PulsarWindow, each
from workbench.pulsar.topic_log import PulsarLog, position_at, read_log
from workbench.pulsar.topic_stats import SubscriptionPart
from workbench.queues.position import Position

_TTL_NOT_TOLD = "The topic's time-to-live is not told: it may be that brokers acknowledged entries unread."
_QUOTAS_NOT_TOLD = "Whether a backlog quota makes brokers acknowledge entries unread is not told."


@dataclass(frozen=True, slots=True, kw_only=True)
class PulsarProgress:
    """One look.

    Attributes:
        left: entries of the window that are not acknowledged, also those that came after the plan, by partition; None where there is no
            subscription of this plan.
        unplanned: what is there instead, in words.
        consumers: connected; None if not told.
        expired_messages: that a time-to-live took since the topic was loaded, unread; None if not told.
        outlived: why it may have taken more before, in a sentence; also where it is not told.
        evicted: why a backlog quota may have taken some, in a sentence; brokers do not count them.
    """

    plan: PulsarReplayPlan
    left: dict[int, int | None]
    unplanned: dict[int, str]
    consumers: int | None
    expired_messages: int | None
    outlived: str | None
    evicted: str | None = None

    @property
    def done(self) -> int:
        """Entries of the window that are acknowledged."""
        return sum(it.entries - min(it.entries, self._left(it.partition, it.entries)) for it in self.plan.windows)

    @property
    def complete(self) -> bool:
        """Whether every entry of every partition is acknowledged."""
        return all(left == 0 for left in self.left.values())

    @property
    def doubt(self) -> str | None:
        """Why that does not prove that everything was handled."""
        if self.expired_messages is None:
            return "Whether a time-to-live took messages from it unread is not told."
        if self.expired_messages:
            return f"The time-to-live took {self.expired_messages:,} messages from it unread: it may be that nobody has handled them."
        if self.outlived is not None:
            return f"{self.outlived} Before the topic was loaded last, nobody counted them."
        if self.evicted is not None:
            return f"{self.evicted} Nobody counts them: it may be that they were not handled."
        return None

    def _left(self, number: int, entries: int) -> int:
        left = self.left[number]
        return entries if left is None else left

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "schema": "workbench.pulsar-replay-progress/1",
            "plan": self.plan.hash,
            "topic": self.plan.topic,
            "subscription": self.plan.new_subscription,
            "entries": self.plan.entries,
            "done_entries": self.done,
            "complete": self.complete,
            "doubt": self.doubt,
            "consumers": self.consumers,
            "partitions": [
                {"partition": number, "left_entries": left, "problem": self.unplanned.get(number)}
                for number, left in self.left.items()
            ],
        }


def look_at(plan: PulsarReplayPlan, admin: PulsarAdmin) -> PulsarProgress:
    """Read the subscription's positions on every partition.

    Raises:
        SourceUnreachableError: if the admin does not answer. EvidenceError: if nobody can read its answer.
    """
    looks = each(plan.windows, lambda it: _look(plan, it, admin))
    consumers = [None if it.part is None else it.part.consumers for it in looks if it.part is not None]
    known = [it for it in consumers if it is not None]
    names = {(who.consumerName, who.address) for some in known for who in some}
    expired = [it.part.expired_messages for it in looks if it.part is not None]
    told = [it for it in expired if it is not None]
    ttl, now_ms = ttl_seconds(admin, plan.name), time.time() * 1000
    quotas, are_told = backlog_quotas(admin, plan.name)
    logs = {it.partition: look.log for it, look in zip(plan.windows, looks, strict=True)}
    return PulsarProgress(
        plan=plan,
        left={it.partition: look.left for it, look in zip(plan.windows, looks, strict=True)},
        unplanned={
            it.partition: look.unplanned for it, look in zip(plan.windows, looks, strict=True) if look.unplanned
        },
        consumers=len(names) if len(known) == len(consumers) else None,
        expired_messages=sum(told) if len(told) == len(expired) else None,
        outlived=_TTL_NOT_TOLD if ttl is None else plan.outlived(ttl, now_ms=now_ms),
        evicted=plan.over_quota([it for it in quotas if it.deletes], logs, now_ms=now_ms)
        or (None if are_told else _QUOTAS_NOT_TOLD),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    log: PulsarLog
    part: SubscriptionPart | None = None
    left: int | None = None
    unplanned: str | None = None


def _look(plan: PulsarReplayPlan, it: PulsarWindow, admin: PulsarAdmin) -> _Look:
    log = read_log(admin, plan.name, it.partition)
    cursor = log.cursors.get(plan.new_subscription)
    part = read_part(admin, plan.name, it.partition, plan.new_subscription) if cursor is not None else None
    if cursor is None or part is None:
        return _Look(log=log, unplanned="there is no subscription")
    match ownership_of(part, plan.hash):
        case Ownership.OTHER:
            return _Look(log=log, part=part, unplanned="this plan has not made the subscription that is there")
        case Ownership.MADE:
            return _Look(log=log, part=part, unplanned="the subscription was made, and not read back")
    return _Look(log=log, part=part, left=log.entries_after(cursor.acknowledged, _end_now(plan, it, log, admin)))


def _end_now(plan: PulsarReplayPlan, it: PulsarWindow, log: PulsarLog, admin: PulsarAdmin) -> Position:
    """Where the window ends by the log itself: entries of it may have come since the plan, from producers whose clocks are behind that
    of the machine where it was made."""
    if plan.until_ms is None:
        return it.end
    return max(it.end, min(position_at(admin, plan.name, it.partition, log, plan.until_ms), log.stop))
