"""Subscriptions about which sources contradict each other: their values are nobody's, and they alone are not judged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from workbench.humanize import listed
from workbench.samples import Flag, SeriesTable, position_of

_ODD_RATIO = 0.05  # of the partitions; a topic that is made again disagrees for a moment
_SHOWN = 3

Unit = tuple[str | None, str | None]  # group and topic; no group: the topic, for all groups


def contradicted(
    units: Mapping[Unit, Sequence[int]],
    some: Collection[int],
    answer: Callable[[int], str | None],
    *,
    besides: str,
) -> tuple[set[Unit], bool]:
    """Units about which two sources contradict each other, and whether these are most of what they share.

    Args:
        units: what there is to compare of each unit.
        some: what to compare of all units at first; what contradicts there is looked at in full.
        answer: the comparison (`agreement`) of one of these.
        besides: which source is late elsewhere ("first" or "second"), and may be so here.
    """
    unit_of = {item: unit for unit, items in units.items() for item in items}
    fine = ("alike", besides)
    known = {item: found for item in some if (found := answer(item)) is not None}
    wrong = set()
    for unit in {unit_of[item] for item, found in known.items() if found not in fine}:
        answers = [found for item in units[unit] if (found := answer(item)) is not None]
        if sum(found not in fine for found in answers) > _ODD_RATIO * len(answers):
            wrong.add(unit)
    return wrong, 2 * len(wrong) > len({unit_of[item] for item in known})


def dispute_notes(disputed: Mapping[Unit, str]) -> list[str]:
    """What is not judged, in words.

    Args:
        disputed: units, with the label that tells the sources apart.
    """
    by_label: dict[str, list[str]] = defaultdict(list)
    for (group, topic), label in sorted(disputed.items(), key=str):
        by_label[label].append(f"topic {topic}" if group is None else f"group {group} on topic {topic}")
    return [
        f"sources that differ in {label} contradict each other about {listed(units, most=_SHOWN)}: not judged"
        " (settings: match, copies)"
        for label, units in by_label.items()
    ]


def without_disputed(series: SeriesTable, disputed: Mapping[Unit, str]) -> SeriesTable:
    """The series, with unusable values for these units."""
    if not disputed:
        return series
    groups, topics = series.names["group"].to_pylist(), series.names["topic"].to_pylist()
    of_series = [
        (group, topic) in disputed or (None, topic) in disputed for group, topic in zip(groups, topics, strict=True)
    ]
    bad = np.repeat(np.array(of_series, bool), series.lengths)
    return SeriesTable(
        series.names,
        series.lengths,
        series.ts_us,
        np.where(bad, np.nan, series.values),
        np.where(bad, position_of(Flag.MIXED), series.flags).astype(np.int8),
    )
