"""Parse a person's input into a replay request; for the command and the panel."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from workbench.errors import UsageError
from workbench.replay.planfile import AfterEnd
from workbench.replay.replay_request import PlanRequest
from workbench.window import parse_instant


def request_of(
    *,
    cluster: str,
    from_group: str,
    new_group: str,
    topics: Sequence[str],
    partitions: Sequence[str],
    since: str,
    until: str | None,
    after_end: str,
    reason: str | None,
) -> PlanRequest:
    """Parse the request.

    Args:
        partitions: `3`, or `orders:3` with several topics; none: all.
        since, until: timestamps with a time zone, or `15m ago`.

    Raises:
        UsageError: naming what is wrong.
    """
    now = datetime.now(UTC)
    return PlanRequest(
        cluster=cluster,
        from_group=from_group,
        new_group=new_group,
        topics=topics,
        since=parse_instant(since, now=now),
        requested_since=since,
        partitions=_partitions(partitions, topics),
        until=parse_instant(until, now=now) if until else None,
        requested_until=until,
        after_end=AfterEnd(after_end),
        reason=reason,
    )


def windows_of(words: Sequence[tuple[str, str]]) -> list[tuple[datetime, datetime]]:
    """Parse windows of time.

    Raises:
        UsageError: if one ends before it begins. WindowError: if a timestamp is wrong.
    """
    now = datetime.now(UTC)
    found = [(parse_instant(since, now=now), parse_instant(until, now=now)) for since, until in words]
    for (since, until), (first, last) in zip(found, words, strict=True):
        if since >= until:
            raise UsageError(f"The window from {first!r} to {last!r} ends before it begins.")
    return found


def _partitions(words: Sequence[str], topics: Sequence[str]) -> dict[str, list[int]] | None:
    found: dict[str, list[int]] = {}
    for word in words:
        topic, colon, number = word.rpartition(":")
        if not colon and len(topics) == 1:
            topic = topics[0]
        if topic not in topics or not number.isdecimal():
            raise UsageError(f"{word!r} is not a partition of the topics.", hint="Write 3, or orders:3.")
        found.setdefault(topic, []).append(int(number))
    return found or None
