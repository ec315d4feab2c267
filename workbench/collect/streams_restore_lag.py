"""Kafka Streams beside its input: the changelogs that its stores are restored from, as one number of the group.

An application reads them with clients of its own, which are no members of a group; their names begin as those of its consumers do.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from workbench.collect.source_agreement import GAP_INTERVALS, Measured, summed
from workbench.samples import SampleBatch, SeriesTable, concat_series

_CONSUMER = re.compile(r"(.+)-StreamThread-[0-9]+-consumer")
# Restored by the thread itself, or, since Kafka 3.8, by a thread for that.
_RESTORING = re.compile(r"(.+)-(?:StreamThread-[0-9]+-restore|StateUpdater-[0-9]+(?:-restore)?)-consumer")
_REMAINING = ("consumer_lag", "restoring")


def with_restoring(series: SeriesTable, members: Mapping[str, str]) -> SeriesTable:
    """Replace the series of restoring clients by the signal `restoring` of their groups.

    Args:
        series: of one profile.
        members: client id to group.
    """
    restores = pc.match_substring_regex(series.names["member"], f"^(?:{_RESTORING.pattern})$")
    if not pc.any(restores).as_py():  # the usual case, without a look at each of a fleet's series
        return series
    of_member = series.names["member"].to_pylist()
    applications = {name: found[1] for name in {*of_member} - {None} if (found := _RESTORING.fullmatch(name))}
    groups = {found[1]: group for name, group in members.items() if (found := _CONSUMER.fullmatch(name))}
    parts: dict[str, list[Measured]] = defaultdict(list)
    signals, starts = series.names["signal"].to_pylist(), series.starts
    for at, name in enumerate(of_member):
        group = groups.get(applications.get(name, ""))
        if group is not None and signals[at] in _REMAINING:
            span = slice(starts[at], starts[at] + series.lengths[at])
            parts[group].append((series.ts_us[span], series.values[span]))
    others = series.where(pa.array([name not in applications for name in of_member]))
    if not parts:
        return others
    batch = SampleBatch(series.names["cluster"][0].as_py(), series.names["source"][0].as_py())
    for group, measured in parts.items():
        times, values = summed(measured, intervals=GAP_INTERVALS)
        batch.add("restoring", {"group": group}, times, values)
    return concat_series([others, batch.to_series()])
