"""What changed nearest before the onset: a correlation with its distance in time, never a cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workbench.errors import WindowError
from workbench.humanize import duration, one_line, plural
from workbench.judgement_numbers import APPEARING_SECONDS, CHANGE_SECONDS, STOP_SECONDS
from workbench.settings_of_groups import matches
from workbench.triage.finding import Change
from workbench.window import Window, parse_instant

_LONGEST = timedelta(seconds=CHANGE_SECONDS)
# The onset has the resolution of the series, and new members start when the old ones have stopped: an event may seem to follow it.
_AFTER = timedelta(seconds=STOP_SECONDS)
_CONSEQUENCES = frozenset({"alert", "rebalance"})  # these follow from a fault

_At = tuple[datetime, str, str]


def nearest_change(
    events: Sequence[Mapping[str, Any]],
    samples: pa.Table,
    window: Window,
    *,
    group: str,
    topic: str,
    since: datetime | None,
) -> Change | None:
    """The nearest event before the onset; None without an onset or an event near it.

    Args:
        events: of the capture: `ts`, `kind`, `text`, and `group` if it concerns only some.
        samples: restarts of members and new partitions are read from them.
        window: of the triage.
        group, topic: of the subscription.
        since: its onset.
    """
    if since is None:
        return None
    every = [*_recorded(events, group), *restarts(samples, window, group), *new_partitions(samples, window, topic)]
    before = [it for it in every if since - _LONGEST <= it[0] <= since + _AFTER]
    if not before:
        return None
    # Of two at the same moment, the one that somebody recorded says more.
    at, kind, text = min(before, key=lambda it: abs(since - it[0]))
    seconds = max(0.0, (since - at).total_seconds())
    return Change(ts=at.isoformat(), kind=kind, text=text, seconds_before=seconds)


def words_of(change: Change) -> str:
    """`40 s after deploy payments 142`; `at the same time as …` where the change seems to follow the onset."""
    what = change.text if change.text.startswith(change.kind) else f"{change.kind} {change.text}"
    when = f"{duration(change.seconds_before)} after" if change.seconds_before > 0 else "at the same time as"
    return f"{when} {what.strip()} (nearest in time, not necessarily the cause)"


def dated(events: Sequence[Mapping[str, Any]]) -> Iterator[tuple[datetime, Mapping[str, Any]]]:
    """Events with their instants; those without a readable one have no place on an axis, and are left out."""
    for event in events:
        try:
            yield parse_instant(str(event.get("ts", ""))), event
        except WindowError:
            continue


def _recorded(events: Sequence[Mapping[str, Any]], group: str) -> Iterator[_At]:
    for at, event in dated(events):
        kind = one_line(str(event.get("kind", "event")))
        pattern = event.get("group")
        if kind not in _CONSEQUENCES and (pattern is None or matches(str(pattern), group)):
            yield at, kind, one_line(str(event.get("text", "")))


def restarts(samples: pa.Table, window: Window, group: str) -> Iterator[_At]:
    """Starts of members' processes within the loaded time, by their own start times."""
    rows = samples.filter(
        pc.and_(
            pc.and_(pc.equal(samples["signal"], "start_time"), pc.equal(samples["group"], group)),
            pc.is_valid(samples["value"]),
        )
    )
    pairs = set(zip(rows["member"].to_pylist(), rows["value"].to_pylist(), strict=True))
    for member, started in sorted(pairs, key=str):
        if window.baseline_start.timestamp() < started <= window.end.timestamp():
            yield datetime.fromtimestamp(started, UTC), "restart", f"of {one_line(str(member))}"


def new_partitions(samples: pa.Table, window: Window, topic: str) -> Iterator[_At]:
    """Partitions of the topic that appear within the loaded time."""
    rows = samples.filter(pc.and_(pc.equal(samples["signal"], "log_end_offset"), pc.equal(samples["topic"], topic)))
    if not rows.num_rows:
        return
    firsts = rows.group_by("partition").aggregate([("ts", "min")])
    times = pc.cast(firsts["ts_min"], pa.int64()).to_numpy() / 1e6
    start = max(window.baseline_start.timestamp(), float(times.min()))
    # Exporters begin with all partitions at once, within a scrape or two.
    later = np.sort(times[times > start + 2 * APPEARING_SECONDS])
    if len(later) and len(later) < len(times):
        count = len(later)
        yield (
            datetime.fromtimestamp(float(later[0]), UTC),
            "topic",
            f"{one_line(topic)} has {plural(count, 'new partition')}",
        )
