"""End of a replay's window in each partition, as far as it is known. Pure.

A plan fixes it only if there was a record at or after `until`. Otherwise the window stays open until `until` has passed, and its end
is then looked up again. While a transaction is open before the end, it is unknown which records after the transaction's start count.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from workbench.logs.read_request import Asked, AskedPartition
from workbench.queues.replay_port import LogView
from workbench.queues.snapshot_views import Partition

# Maximum number of offsets before the end that may all be transaction markers; only these are read.
TAIL_OFFSETS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowEnd:
    """End of the window in one partition.

    Attributes:
        stop: every offset from the target up to here is known to be in the window.
        readable: the last stable offset for consumers of committed records; before `stop` while a transaction is open.
        open: why the end is not certain yet; None if it is.
    """

    stop: int
    readable: int
    open: str | None = None


def window_ends(asked: Asked, logs: LogView, *, now_ms: float) -> dict[Partition, WindowEnd]:
    """Find the window's end in each partition of a asked.

    Args:
        logs: with last stable offsets, and with the first records at or after `until` if the plan has one.
    """
    return {part.key: _end(asked, part, logs, now_ms) for part in asked.partitions}


def instants_of(asked: Asked) -> list[int]:
    """Timestamps that `window_ends` and `verify` need to look up."""
    return [] if asked.until_ms is None else [asked.since_ms, asked.until_ms]


def _end(asked: Asked, part: AskedPartition, logs: LogView, now_ms: float) -> WindowEnd:
    key, until_ms = part.key, asked.until_ms
    stop, end, stable = part.stop, logs.ends.get(key), logs.stable_ends.get(key)
    if (
        end is None or stable is None or key not in logs.starts
    ):  # without its start, what retention has taken is unknown
        words = logs.errors.get(key, "no reason given")
        return WindowEnd(stop=stop, readable=stop, open=f"It does not answer: {words}.")
    if until_ms is None and not asked.is_of_ranges:
        stop = max(stop, part.log_end)  # plans of earlier versions ended before an open transaction
    elif not asked.is_of_ranges and (
        part.stop >= part.log_end or part.stop < (part.target or 0)
    ):  # there was no record at or after `until`
        first = logs.found.get(until_ms or 0, {}).get(key)
        if first is None:
            return WindowEnd(
                stop=stop, readable=min(stop, stable), open="Its first record after the window is unknown."
            )
        stop = max(stop, end if first.offset is None else first.offset)
    why = None
    if end < stop:
        why = f"Its log ends at {end:,}, before the window's end {stop:,}: was the topic recreated?"
    elif stable < stop:
        why = f"A transaction is open at {stable:,}: it is not decided yet which records from there to {stop:,} count."
    elif (last_ms := max((until for _, until in asked.windows_ms), default=None)) is not None and now_ms < last_ms:
        at = asked.until or datetime.fromtimestamp(last_ms / 1000, UTC).isoformat()
        why = f"The window ends at {at}: more of its records may still arrive."
    return WindowEnd(stop=stop, readable=min(stop, stable, end), open=why)
