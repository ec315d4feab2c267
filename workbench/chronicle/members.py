"""When each member of a group last finished a record, by the counters of its handlers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workbench.runs import runs_of
from workbench.signals import SIGNALS, Grain
from workbench.window import Window

_COUNTED = "process_time"
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
    wanted = pc.and_(pc.equal(samples["signal"], _COUNTED), pc.equal(samples["stat"], "count"))
    wanted = pc.and_(wanted, pc.and_(pc.is_valid(samples["value"]), pc.is_valid(samples["member"])))
    names = pa.array(sorted({group for _, group in groups}), pa.string())
    rows = samples.filter(pc.and_(wanted, pc.is_in(samples["group"], names)))
    if not rows.num_rows:
        return found
    others = samples.filter(
        pc.and_(
            pc.and_(pc.is_in(samples["signal"], pa.array(_OF_MEMBERS)), pc.is_valid(samples["member"])),
            pc.is_in(samples["group"], names),
        )
    )
    named: dict[str, set[str]] = {}
    for it in others.group_by(["group", "member"]).aggregate([]).to_pylist():
        named.setdefault(it["group"], set()).add(it["member"])
    seconds = pc.cast(rows["ts"], pa.int64()).to_numpy() / 1e6 - window.end.timestamp()
    values = rows["value"].to_numpy()
    labels_of = ("cluster", "group", "topic", "member", "processor", "source")
    starts, ends = runs_of(rows, labels_of)
    labels = rows.select(list(labels_of)).take(pa.array(starts)).to_pylist()
    for label, begin, until in zip(labels, starts, ends, strict=True):
        if (label["cluster"], label["group"]) not in groups or label["member"] not in named.get(
            label["group"], {label["member"]}
        ):
            continue
        at, value = seconds[begin:until], values[begin:until]
        inside = (at <= 1e-6) & (at >= -window.seconds - window.baseline_seconds - 1e-6)
        at, value = at[inside], value[inside]
        if not len(at):
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
