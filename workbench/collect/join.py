"""Joining of several sources: whose group a client belongs to, and a lag where only its two offsets are exported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workbench.profiles import Profile
from workbench.samples import SAMPLES_SCHEMA, SampleBatch, concat

DERIVED = "derived"


def groups_of_clients(views: pa.Table) -> dict[str, str]:
    """Client id to group, by Kafka's member list (`collect.kafka.GROUPS_SCHEMA`); an id that several groups use says nothing."""
    pairs = {
        pair
        for pair in zip(views["client_id"].to_pylist(), views["group"].to_pylist(), strict=True)
        if pair[0] is not None
    }
    uses = Counter(client for client, _ in pairs)
    return {client: group for client, group in pairs if uses[client] == 1}


def with_groups(
    samples: pa.Table, profile: Profile, members: Mapping[str, str], *, groups: Sequence[str] | None = None
) -> pa.Table:
    """Give samples of a profile that knows clients only the group of their member; what belongs to nobody known is left out.

    Args:
        samples: of one profile.
        profile: says what its `member` is.
        members: client id or application to group.
        groups: only these, if any are named.
    """
    if profile.member_is == "member" or samples.num_rows == 0:
        return samples
    homeless = pc.and_(pc.is_null(samples["group"]), pc.is_valid(samples["member"]))
    known = pa.array(
        [members.get(name) if name is not None else None for name in samples["member"].to_pylist()], pa.string()
    )
    at = samples.schema.get_field_index("group")
    joined = samples.set_column(at, SAMPLES_SCHEMA.field("group"), pc.if_else(homeless, known, samples["group"]))
    keep = pc.or_(pc.is_valid(joined["group"]), pc.is_null(joined["member"]))
    if groups is not None:
        keep = pc.and_(
            keep, pc.or_(pc.is_null(joined["group"]), pc.is_in(joined["group"], pa.array(groups, pa.string())))
        )
    return joined.filter(keep)


def with_derived_lag(samples: pa.Table) -> pa.Table:
    """Add the lag of subscriptions that export a committed offset but no lag: log end (the latest before or at it) minus commit.

    The end is at most one scrape older than the commit, so the lag may be short by what was produced in between; where that makes it
    negative it is 0.
    """
    has_lag = _keys(samples.filter(pc.equal(samples["signal"], "consumer_lag")))
    commits = samples.filter(pc.and_(pc.equal(samples["signal"], "committed_offset"), pc.is_valid(samples["value"])))
    missing = [key for key in _keys(commits) if key not in has_lag]
    if not missing:
        return samples
    ends = _series(
        samples.filter(pc.and_(pc.equal(samples["signal"], "log_end_offset"), pc.is_valid(samples["value"])))
    )
    batch = SampleBatch(samples["cluster"][0].as_py(), DERIVED)
    for (group, topic, partition), (times, committed) in _series(commits, by_group=True).items():
        end = ends.get((None, topic, partition))
        if (group, topic) not in missing or end is None:
            continue
        at = np.searchsorted(end[0], times, side="right") - 1
        there = at >= 0
        behind = np.maximum(0.0, end[1][at[there]] - committed[there])
        batch.add("consumer_lag", {"group": group, "topic": topic, "partition": partition}, times[there], behind)
    return concat([samples, batch.to_arrow()])


_Key = tuple[str | None, str, int]


def _keys(table: pa.Table) -> set[tuple[str, str]]:
    return set(zip(table["group"].to_pylist(), table["topic"].to_pylist(), strict=True))


def _series(table: pa.Table, *, by_group: bool = False) -> dict[_Key, tuple[np.ndarray, np.ndarray]]:
    """(times in µs, values) by (group or None, topic, partition), in time."""
    positions: dict[_Key, list[int]] = {}
    groups = table["group"].to_pylist() if by_group else [None] * table.num_rows
    keys = zip(groups, table["topic"].to_pylist(), table["partition"].to_pylist(), strict=True)
    for position, key in enumerate(keys):
        positions.setdefault(key, []).append(position)
    times = pc.cast(table["ts"], pa.int64()).to_numpy()
    values = table["value"].to_numpy(zero_copy_only=False) if table.num_rows else np.empty(0)
    found = {}
    for key, at in positions.items():
        order = np.array(at)[np.argsort(times[at], kind="stable")]
        found[key] = (times[order], values[order])
    return found
