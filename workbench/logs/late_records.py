"""Records of windows of time that lie outside of the ranges asked for: behind them in the log, because timestamps are out of order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.humanize import plural
from workbench.logs.read_request import Asked, AskedPartition
from workbench.logs.window_end import WindowEnd
from workbench.logs.windows_in_unordered_logs import TAIL_LIMITS, read_tails
from workbench.queues.replay_port import Gateway, LogView
from workbench.queues.snapshot_views import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """What lies behind a window in one partition, outside of the plan, and is not known to be read.

    Attributes:
        records: of the window; first: offset of the first of them, None if it is not known or there is none.
        unread: offsets that were not read, and may have more.
        why: they could not be read, if there is a reason.
    """

    records: int = 0
    first: int | None = None
    unread: int = 0
    why: str | None = None

    @property
    def told(self) -> str | None:
        """In a sentence; None if there is nothing."""
        if self.records:
            where = "" if self.first is None else f", from {self.first:,} on"
            return (
                f"Outside of the plan, and not known to be read: {plural(self.records, 'record')} of the window behind its "
                f"end{where}."
            )
        if self.unread:
            why = f" ({self.why.rstrip('.')})" if self.why else f" (limit: {TAIL_LIMITS})"
            return (
                f"It is not known whether records of the window lie behind its end: timestamps may be out of order, and "
                f"{plural(self.unread, 'offset was', 'offsets were')} not read{why}."
            )
        return None


def late_spans(
    asked: Asked, logs: LogView, ends: Mapping[Partition, WindowEnd], commits: Mapping[Partition, int]
) -> dict[Partition, list[tuple[int, int]]]:
    """Offsets where records of the windows may lie that the plan does not have: from the window's end on, or from what was not read.

    Without what the group has surely read. None for a plan of offsets, or up to the logs' ends.
    """
    if not asked.windows_ms:
        return {}
    begins: dict[Partition, int] = {}
    for part in asked.partitions:
        # Planning has looked behind given ranges, and where it commits nothing there was no record of the window.
        fixed = asked.is_of_ranges or part.target is None
        begins[part.key] = part.log_end if fixed else ends[part.key].stop
    for topic, number, start, _ in asked.unread or ():
        begins[topic, number] = min(start, begins.get((topic, number), start))
    read = {part.key: _surely_read(part, commits.get(part.key)) for part in asked.partitions}
    found = {
        key: _without(max(begin, logs.starts.get(key, 0)), logs.ends[key], read.get(key, []))
        for key, begin in begins.items()
        if key in logs.ends
    }
    return {key: pieces for key, pieces in found.items() if pieces}


def _surely_read(part: AskedPartition, committed: int | None) -> Sequence[tuple[int, int]]:
    """Offsets that a group with this commit has read, if it began where the plan does.

    Where the plan commits nothing, nobody knows where it began. Consumers that stop at given ranges leave out what is between them, and
    none of them commits beyond the last one.
    """
    if part.target is None or committed is None:
        return []
    if part.ranges is None or committed > part.stop:
        return [(part.target, committed)]
    return [(low, min(high, committed)) for low, high in part.spans]


def _without(start: int, stop: int, others: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """What is left of [start, stop) without these ranges, which are in order."""
    pieces = []
    for low, high in others:
        pieces.append((start, min(low, stop)))
        start = max(start, high)
    return [(low, high) for low, high in (*pieces, (start, stop)) if low < high]


def find_late(
    asked: Asked, gateway: Gateway, spans: Mapping[Partition, Sequence[tuple[int, int]]]
) -> dict[Partition, Late]:
    """Look for records of the windows in these offsets, by the timestamps and within the limits of reading.

    Args:
        spans: ranges [start, stop) in order; at least one for each partition.

    Raises:
        SourceUnreachableError: if the cluster does not answer.
    """
    if not spans:
        return {}
    whole = {key: (pieces[0][0], pieces[-1][1]) for key, pieces in spans.items()}
    tails = read_tails(gateway, whole, gateway.settings(sorted({topic for topic, _ in spans})), committed=True)
    found = {}
    for key, tail in tails.items():
        inside = [at for at in tail.inside(asked.windows_ms) if any(low <= at < high for low, high in spans[key])]
        begin, end = tail.unread or (0, 0)
        unread = sum(max(0, min(high, end) - max(low, begin)) for low, high in spans[key])
        found[key] = Late(records=len(inside), first=min(inside, default=None), unread=unread, why=tail.why)
    return found
