"""Records of windows of time that lie outside of the ranges asked for: behind them in the log, because timestamps are out of order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.humanize import plural
from workbench.logs.read_request import Asked
from workbench.logs.window_end import WindowEnd
from workbench.logs.windows_in_unordered_logs import TAIL_LIMITS, read_tails
from workbench.queues.replay_port import Gateway, LogView
from workbench.queues.snapshot_views import Partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """What lies behind a window in one partition and is not committed.

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
            return f"Not committed: {plural(self.records, 'record')} of the window behind its end{where}."
        if self.unread:
            why = f" ({self.why.rstrip('.')})" if self.why else f" (limit: {TAIL_LIMITS})"
            return (
                f"It is not known whether records of the window lie behind its end: timestamps may be out of order, and "
                f"{plural(self.unread, 'offset was', 'offsets were')} not read{why}."
            )
        return None


def late_spans(
    asked: Asked, logs: LogView, ends: Mapping[Partition, WindowEnd], commits: Mapping[Partition, int]
) -> dict[Partition, tuple[int, int]]:
    """Offsets where records of the windows may lie that the plan does not have: from the window's end on, or from what was not read.

    Only behind the group's commit: what it has passed, it got. None for a plan of offsets, or up to the logs' ends.
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
    return {
        key: (start, logs.ends[key])
        for key, begin in begins.items()
        if key in logs.ends and (start := max(begin, commits.get(key, 0), logs.starts.get(key, 0))) < logs.ends[key]
    }


def find_late(asked: Asked, gateway: Gateway, spans: Mapping[Partition, tuple[int, int]]) -> dict[Partition, Late]:
    """Look for records of the windows in these offsets, by the timestamps and within the limits of reading.

    Raises:
        SourceUnreachableError: if the cluster does not answer.
    """
    if not spans:
        return {}
    tails = read_tails(gateway, spans, gateway.settings(sorted({topic for topic, _ in spans})), committed=True)
    found = {}
    for key, tail in tails.items():
        inside = tail.inside(asked.windows_ms)
        unread = 0 if tail.unread is None else tail.unread[1] - tail.unread[0]
        found[key] = Late(records=len(inside), first=min(inside, default=None), unread=unread, why=tail.why)
    return found
