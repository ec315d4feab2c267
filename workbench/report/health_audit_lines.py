"""What audits say of the period, for the health report: completeness by stream, worst first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.humanize import listed, plural

_MOST = 20  # streams of one audit; a table of thousands is read by nobody


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLine:
    """One stream of an audit.

    Attributes:
        audit, stream: names; stream None: the audit itself could not be made, see `problem`.
        windows: number of windows and edges in the period.
        lost, doubled: at least so many records.
        others: windows with as many records as were sent, and not the same ones.
        missing_at_most: so many more may be missing: what cannot be told, and what may still come.
        open_windows: of those, how many are not final.
        edge: where most is lost, or doubled; None: nowhere.
        lagging: groups that are behind on a topic of the stream's name.
    """

    audit: str
    stream: str | None
    windows: int = 0
    lost: int = 0
    doubled: int = 0
    others: int = 0
    missing_at_most: int = 0
    open_windows: int = 0
    edge: str | None = None
    lagging: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def is_breach(self) -> bool:
        """Whether records are surely lost or doubled."""
        return bool(self.lost or self.doubled or self.others)

    @property
    def is_open(self) -> bool:
        """Whether it cannot be told."""
        return self.problem is not None or bool(self.missing_at_most)

    @property
    def words(self) -> str:
        """In a line."""
        if self.problem is not None:
            return f"cannot tell: {self.problem}"
        found = [f"{plural(self.lost, 'record')} lost"] if self.lost else []
        found += [f"{plural(self.doubled, 'record')} doubled"] if self.doubled else []
        found += [f"other records than were sent in {plural(self.others, 'window')}"] if self.others else []
        words = f"{listed(found)}, at {self.edge}" if found else "complete"
        if self.missing_at_most:
            words += f"; up to {self.missing_at_most:,} more may be missing"
        if self.open_windows:
            words += f"; {plural(self.open_windows, 'window is', 'windows are')} not final"
        if self.lagging and self.is_breach:
            words += f"; {listed(list(self.lagging))} also {'lags' if len(self.lagging) == 1 else 'lag'} there"
        return words


def stream_lines(
    audit: str, rows: Sequence[Mapping[str, Any]], lagging: Collection[tuple[str, str]]
) -> list[StreamLine]:
    """Lines of one audit, worst first; of streams that are complete, only a few.

    Args:
        rows: of `AuditLedger.by_stream`.
        lagging: (group, topic) of subscriptions that are behind.
    """
    found = [
        StreamLine(
            audit=audit,
            stream=row["stream"],
            windows=row["windows"],
            lost=row["lost"],
            doubled=row["doubled"],
            others=row["others"],
            missing_at_most=row["missing_at_most"],
            open_windows=row["open_windows"],
            edge=row["edge"],
            lagging=tuple(sorted({group for group, topic in lagging if topic == row["stream"]})),
        )
        for row in rows
    ]
    found.sort(key=lambda it: (-max(it.lost, it.doubled), -it.others, -it.missing_at_most, it.stream or ""))
    wrong = [it for it in found if it.is_breach or it.is_open]
    return [*wrong, *[it for it in found if it not in wrong][: max(0, _MOST - len(wrong))]]
