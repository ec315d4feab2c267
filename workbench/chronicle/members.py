"""When each member of a group last finished a record, by the counters of its handlers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workbench.chronicle.handled import counters_of
from workbench.chronicle.series import FEW_MOVES, Line
from workbench.runs import runs_of
from workbench.signals import SIGNALS, Grain
from workbench.window import Window

_LATER = 2.0  # samples: a member may commit while it leaves, and counts are read at other moments than commits
_OF_MEMBERS = [it.name for it in SIGNALS.values() if it.grain is Grain.MEMBER]


@dataclass(slots=True, kw_only=True)
class MemberStory:
    """Facts about a member; times in seconds before the window's end, 0 or less.

    Attributes:
        worked: when one of its counters last grew; None if none did.
        first, last: its first and last sample.
        before: whether it was there in the good time before the judged one.
    """

    worked: float | None
    first: float
    last: float
    before: bool = False


def members_of(
    samples: pa.Table, window: Window, groups: Collection[tuple[str, str]]
) -> dict[tuple[str, str, str | None], dict[str, MemberStory]]:
    """Members whose handlers are counted, by cluster, group and the topic of the counter (None: it names none).

    If anything else is measured of a group's members, only those with the same name count: a process with several clients is no member.

    Args:
        samples: in the order of `workbench.samples.SERIES_ORDER`, then time.
        window: baseline and window.
        groups: cluster and group of those that are asked for.
    """
    found: dict[tuple[str, str, str | None], dict[str, MemberStory]] = {}
    counters = [it for it in counters_of(samples, window, groups) if it[0]["member"] is not None]
    if not counters:
        return found
    names = pa.array(sorted({group for _, group in groups}), pa.string())
    others = samples.filter(
        pc.and_(
            pc.and_(pc.is_in(samples["signal"], pa.array(_OF_MEMBERS)), pc.is_valid(samples["member"])),
            pc.is_in(samples["group"], names),
        )
    )
    named: dict[str, set[str]] = {}
    for it in others.group_by(["group", "member"]).aggregate([]).to_pylist():
        named.setdefault(it["group"], set()).add(it["member"])
    for label, at, value in counters:
        if label["member"] not in named.get(label["group"], {label["member"]}):
            continue
        # A counter that begins anew has grown, too.
        grown = np.flatnonzero(np.diff(value) != 0) + 1
        worked = float(at[grown[-1]]) if len(grown) else None
        mine = found.setdefault((label["cluster"], label["group"], label["topic"]), {})
        known = mine.get(label["member"])
        if known is None:
            mine[label["member"]] = MemberStory(worked=worked, first=float(at[0]), last=float(at[-1]))
            continue
        if worked is not None:
            known.worked = worked if known.worked is None else max(known.worked, worked)
        known.first, known.last = min(known.first, float(at[0])), max(known.last, float(at[-1]))
    return found


def disproved(
    samples: pa.Table, window: Window, lines: Mapping[tuple[str, str, str], Mapping[int, Mapping[str, Line]]]
) -> frozenset[tuple[str, str, str]]:
    """Subscriptions whose commits have moved since their group was last counted with members: the count is of something else.

    Of KIP-848's groups, and of those that assign partitions by hand, some exporters count no member at all.

    Args:
        samples: in the order of `workbench.samples.SERIES_ORDER`, then time.
        window: baseline and window.
        lines: the series of each subscription's partitions.
    """
    rows = samples.filter(pc.and_(pc.equal(samples["signal"], "group_members"), pc.is_valid(samples["value"])))
    if not rows.num_rows:
        return frozenset()
    seconds = pc.cast(rows["ts"], pa.int64()).to_numpy() / 1e6 - window.end.timestamp()
    values = rows["value"].to_numpy()
    starts, ends = runs_of(rows, ("cluster", "group"))
    labels = rows.select(["cluster", "group"]).take(pa.array(starts)).to_pylist()
    none_since: dict[tuple[str, str], tuple[float, float]] = {}
    for label, begin, until in zip(labels, starts, ends, strict=True):
        inside = seconds[begin:until] <= 1e-6
        at, value = seconds[begin:until][inside], values[begin:until][inside]
        order = np.argsort(at, kind="stable")
        at, value = at[order], value[order]
        if len(at) < 2 or value[-1] > 0:
            continue
        some = np.flatnonzero(value > 0)
        first = int(some[-1]) + 1 if len(some) else 0
        none_since[label["cluster"], label["group"]] = float(at[first]), float(np.median(np.diff(at)))
    found = set()
    for key, parts in lines.items():
        if key[:2] not in none_since:
            continue
        since, step = none_since[key[:2]]
        moves: set[float] = set()
        for own in parts.values():
            committed = own.get("committed", Line())
            # Seen to move between two samples, both of them well after the count became 0.
            before = committed.at[:-1][np.diff(committed.value) > 0]
            moves.update(np.round(before[before > since + _LATER * step], 1).tolist())
        # Somebody who moves offsets by hand does so once or twice.
        if len(moves) >= FEW_MOVES:
            found.add(key)
    return frozenset(found)
