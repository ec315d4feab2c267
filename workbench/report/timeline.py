"""Events next to the lag on one time axis: recorded deploys and alerts, and rebalances from their counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workbench.humanize import printable
from workbench.triage.changes import dated
from workbench.window import Window

_MOST = 200  # marks of one kind; more would be a bar


def happened(
    samples: pa.Table, events: Sequence[Mapping[str, Any]], window: Window, *, group: str
) -> dict[str, list[tuple[datetime, str]]]:
    """Kind of event to (instant, words), within baseline and window; rebalances are those of the group."""
    found: dict[str, list[tuple[datetime, str]]] = {}
    for at, event in dated(events):
        if window.baseline_start <= at <= window.end:
            found.setdefault(printable(event.get("kind", "event")), []).append((at, printable(event.get("text", ""))))
    if moves := _rebalances(samples, window, group):
        found["rebalance"] = moves
    return {kind: sorted(marks)[:_MOST] for kind, marks in found.items()}


def _rebalances(samples: pa.Table, window: Window, group: str) -> list[tuple[datetime, str]]:
    rows = samples.filter(
        pc.and_(
            pc.and_(pc.equal(samples["signal"], "rebalances"), pc.is_valid(samples["value"])),
            pc.and_(pc.equal(samples["group"], group), pc.equal(samples["stat"], "value")),
        )
    )
    found: list[tuple[datetime, str]] = []
    for member in pc.unique(rows["member"]).to_pylist():
        chosen = pc.is_null(rows["member"]) if member is None else pc.equal(rows["member"], member)
        own = rows.filter(chosen).sort_by("ts")
        values, times = own["value"].to_numpy(), own["ts"].to_pylist()
        for at in np.flatnonzero(np.diff(values) > 0):
            instant = times[at + 1]
            if window.baseline_start <= instant <= window.end:
                found.append((instant, f"{printable(member or 'the group')} took part in a rebalance"))
    return found
