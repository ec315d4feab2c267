"""How far the new subscription of a replay is: an entry counts once everything before it is acknowledged, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workbench.pulsar.admin import PulsarAdmin
from workbench.pulsar.log import part_name, read_log
from workbench.pulsar.replay_plan import PulsarReplayPlan
from workbench.pulsar.stats import parse_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class PulsarProgress:
    """One look.

    Attributes:
        left: entries of the window that are not acknowledged, by partition; None where the subscription is not there.
        consumers: connected; None if not told.
        expired_messages: that a time-to-live took since the topic was loaded, unread; None if not told.
    """

    plan: PulsarReplayPlan
    left: dict[int, int | None]
    consumers: int | None
    expired_messages: int | None

    @property
    def missing(self) -> list[int]:
        """Partitions without the subscription."""
        return [number for number, left in self.left.items() if left is None]

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
        if self.expired_messages:
            return f"The time-to-live took {self.expired_messages:,} messages from it unread: it may be that nobody has handled them."
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
            "partitions": [{"partition": number, "left_entries": left} for number, left in self.left.items()],
        }


def look_at(plan: PulsarReplayPlan, admin: PulsarAdmin) -> PulsarProgress:
    """Read the subscription's positions on every partition.

    Raises:
        SourceUnreachableError: if the admin does not answer. EvidenceError: if nobody can read its answer.
    """
    left: dict[int, int | None] = {}
    names: set[tuple[str, str]] | None = set()
    expired: int | None = 0
    for it in plan.windows:
        log = read_log(admin, plan.name, it.partition)
        cursor = log.cursors.get(plan.new_subscription)
        left[it.partition] = None if cursor is None else log.entries_after(cursor.acknowledged, it.end)
        if cursor is None:
            continue
        stats = admin.get(f"{part_name(plan.name, it.partition).path}/stats")
        own = next((part for part in parse_topic(stats, plan.name) if part.subscription == plan.new_subscription), None)
        known = own.consumers if own is not None else None
        names = None if known is None or names is None else names | {(who.consumerName, who.address) for who in known}
        expired = (
            None if own is None or own.expired_messages is None or expired is None else expired + own.expired_messages
        )
    return PulsarProgress(
        plan=plan, left=left, consumers=None if names is None else len(names), expired_messages=expired
    )
