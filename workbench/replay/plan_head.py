"""What a plan says at its head, on the terminal and in the notebook alike. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from workbench.humanize import moment, one_line, plural, printable, size
from workbench.replay.plan import bytes_per_broker
from workbench.replay.planfile import Plan, Resolution


@dataclass(frozen=True, slots=True)
class Card:
    """One line: a name, its value, and what to hold against it."""

    name: str
    value: str
    note: str


def cards(plan: Plan) -> list[Card]:
    """The window as it was asked for and in UTC, its first record, what is replayed, and where."""
    loads = ", ".join(f"broker {broker}: {size(load)}" for broker, load in sorted(bytes_per_broker(plan).items()))
    until = Card("To", "the end", f"as it was at {instant(plan.created_at)}")
    if plan.until is not None:
        until = Card("To", instant(plan.until), f"exclusive; you wrote: {one_line(plan.requested_until or plan.until)}")
    return [
        Card("From", instant(plan.since), f"you wrote: {one_line(plan.requested_since)}{_here(plan)}"),
        until,
        Card("First record", moment(_first(plan)), "the oldest of those that are replayed"),
        Card("Messages", f"{plan.messages:,}", f"in {plural(len(plan.partitions), 'partition')}"),
        Card("Size", size(plan.bytes_estimate), loads),
        Card("Cluster", printable(plan.cluster), printable(plan.cluster_id)),
    ]


def sentence(plan: Plan) -> str:
    """Summarise the start offsets in one sentence."""
    found = Counter(part.resolution for part in plan.partitions)
    others = [
        f"{found[resolution]:,} {words}"
        for resolution, words in (
            (Resolution.BEFORE_START, "later, at their oldest record: there is none before it"),
            (Resolution.UNORDERED, "with timestamps out of order"),
            (Resolution.UNREAD, "where it cannot be told whether all of the window is in the plan"),
            (Resolution.NONE_INSIDE, "without a record of the window"),
            (Resolution.AFTER_END, "without a record at or after it"),
            (Resolution.EMPTY, "empty"),
        )
        if found[resolution]
    ]
    whole = len(plan.partitions)
    head = f"{found[Resolution.EXACT]:,} of {plural(whole, 'partition')} begin exactly at {instant(plan.since)}"
    return head + (f"; {'; '.join(others)}." if others else ".")


def instant(text: str) -> str:
    """An ISO timestamp in UTC, to the millisecond if it has any."""
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3].removesuffix(".000") + "Z"


def _first(plan: Plan) -> int | None:
    return min(
        (part.target_timestamp for part in plan.partitions if part.messages and part.target_timestamp is not None),
        default=None,
    )


def _here(plan: Plan) -> str:
    """The start in the zone of this machine, unless it was written in one that is not UTC, or the machine's is UTC."""
    start = datetime.fromisoformat(plan.since)
    local = start.astimezone()
    if not local.utcoffset() or _is_zoned(plan.requested_since):
        return ""
    return f"; here: {local:%Y-%m-%d %H:%M:%S%z}"


def _is_zoned(requested: str) -> bool:
    try:
        return bool(datetime.fromisoformat(requested).utcoffset())
    except ValueError:  # "2h ago"
        return False
