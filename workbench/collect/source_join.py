"""Join of several sources: the group of a client, and a lag or a commit from two of what is exported."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workbench.collect.restore_underscored_names import underscored
from workbench.collect.source_agreement import longest_age
from workbench.collect.streams_restore_lag import with_restoring
from workbench.job_signals import READ_AS_COMMITTED
from workbench.profiles import Profile
from workbench.profiles.labels_in_metric_names import as_written
from workbench.profiles.left_out_series import WHOLE
from workbench.profiles.mapping_rule import first_of_form
from workbench.samples import DERIVED, SampleBatch, SeriesTable, codes_of, concat_series

_OWN_ID = re.compile(r"consumer-(.+)-\d+")


def groups_of_clients(views: pa.Table) -> dict[str, str]:
    """Map client id to group, by Kafka's member list (`GROUPS_SCHEMA`); ids that several groups use are left out."""
    pairs = {
        pair
        for pair in zip(views["client_id"].to_pylist(), views["group"].to_pylist(), strict=True)
        if pair[0] is not None
    }
    uses = Counter(client for client, _ in pairs)
    return {client: group for client, group in pairs if uses[client] == 1}


def named_by_client(clients: Iterable[str | None], groups: Collection[str]) -> dict[str, str]:
    """Map client id to group, of those that Java's client has made of a known group's name, because nobody has named it.

    They tell the group also when the member is gone.
    """
    named = {it: _OWN_ID.fullmatch(it) for it in clients if it is not None}
    return {it: found[1] for it, found in named.items() if found is not None and found[1] in groups}


def with_patterns(members: Mapping[str, str], names: pa.ChunkedArray) -> dict[str, str]:
    """Members by name, and those of these names that are none of them by the first pattern (`payments-*`) that they fit.

    Pods have other names after each deploy, and Kafka lists none that has crashed, or was put out of its group.
    """
    patterns = [(pattern, group) for pattern, group in members.items() if "*" in pattern]
    new = {*pc.unique(names).to_pylist()} - {None, *members} if patterns else ()
    fit = {it: next((group for pattern, group in patterns if fnmatchcase(it, pattern)), None) for it in new if it}
    return {**members, **{it: group for it, group in fit.items() if group is not None}}


def with_groups(
    series: SeriesTable, profile: Profile, members: Mapping[str, str], *, groups: Sequence[str] | None = None
) -> SeriesTable:
    """Add the group to series of a profile that has only clients; series of unknown members are left out.

    A member whose group only some of its series tell is in that group with all of them.

    The second name of a topic with a dot is left out too, if the profile says that there is one.

    Args:
        series: of one profile.
        profile: says what its label `member` contains.
        members: client id or application to group; also by patterns.
        groups: only these, if any are named.
    """
    if profile.topics_twice and len(series):
        series = _without_second_names(series)
    if profile.member_is == "member" or not len(series):
        return _of_groups(series, groups) if "group" in profile.carried else series
    members = with_patterns(members, series.names["member"])
    series = with_restoring(series, members)
    names = series.names
    homeless = pc.and_(pc.is_null(names["group"]), pc.is_valid(names["member"]))
    members = {
        **_told_by_themselves(names),
        **(also_as_written(members) if "member" in profile.underscored else members),
    }
    known = pa.array([_group_of(it, profile, members) for it in names["member"].to_pylist()], pa.string())
    series = series.renamed("group", pc.if_else(homeless, known, names["group"]))
    keep = pc.or_(pc.is_valid(series.names["group"]), pc.is_null(names["member"]))
    return _of_groups(series.where(keep), groups)


def _group_of(member: str | None, profile: Profile, members: Mapping[str, str]) -> str | None:
    """Group of a member, or of the application that it is a part of."""
    if member is None or member in members or profile.member_is != "application" or profile.member_form is None:
        return members.get(member) if member is not None else None
    return members.get(first_of_form(profile.member_form, member))


def _of_groups(series: SeriesTable, groups: Sequence[str] | None) -> SeriesTable:
    """Series of these groups, if any are named, and of no group."""
    if groups is None:
        return series
    named = series.names["group"]
    return series.where(pc.or_(pc.is_null(named), pc.is_in(named, pa.array(groups, pa.string()))))


def namesakes(groups: Iterable[str]) -> dict[str, str]:
    """Groups by their own names, as a process may write them that calls itself as its group is called."""
    return also_as_written({it: it for it in groups})


def also_as_written(members: Mapping[str, str]) -> dict[str, str]:
    """Members also by their names with underscores, but for those that are then members of several groups."""
    written = defaultdict[str, set[str]](set)
    for name, group in members.items():
        written[as_written(name)].add(group)
    return {**{name: next(iter(those)) for name, those in written.items() if len(those) == 1}, **members}


def _told_by_themselves(names: pa.Table) -> dict[str, str]:
    """Member to group, of members that some of their series name with one group."""
    both = names.filter(pc.and_(pc.is_valid(names["group"]), pc.is_valid(names["member"])))
    pairs = both.group_by(["member", "group"]).aggregate([])
    uses = Counter(pairs["member"].to_pylist())
    told = zip(pairs["member"].to_pylist(), pairs["group"].to_pylist(), strict=True)
    return {member: group for member, group in told if uses[member] == 1}


def _without_second_names(series: SeriesTable) -> SeriesTable:
    """Drop the series of `pay_events` where the same member has the same signal of `pay.events`: it is one topic (KIP-1109)."""
    every = list(zip(*(series.names[name].to_pylist() for name in ("signal", "member", "topic")), strict=True))
    second = {
        (signal, member, underscored(topic)) for signal, member, topic in every if topic is not None and "." in topic
    }
    return series.where(pa.array([key not in second for key in every])) if second else series


def with_derived(series: SeriesTable, *, committing: Collection[tuple[Any, ...]] = ()) -> SeriesTable:
    """Add what two of a lag, a log's end and a commit say of the third.

    Args:
        committing: groups and topics that have told a commit before, where this is one of several rounds.
    """
    return with_derived_lag(_with_derived_ends(_with_derived_commits(_with_read_as_committed(series, committing))))


def committing_in(series: SeriesTable) -> set[tuple[Any, ...]]:
    """Groups and topics that tell a commit: what such a job has read beyond it is none, also while it tells no commit."""
    known = np.append(0, np.cumsum(~np.isnan(series.values)))
    tells = pa.array(known[series.starts + series.lengths] > known[series.starts])
    return _subscriptions(series.names, pc.and_(pc.equal(series.names["signal"], "committed_offset"), tells))


def _with_read_as_committed(series: SeriesTable, committing: Collection[tuple[Any, ...]]) -> SeriesTable:
    """Of jobs that keep their positions to themselves, and tell what they have read: this counts as their commit."""
    names = series.names
    reads = by_name(series.where(pc.equal(names["signal"], "read_offset")), "group", "topic", "partition")
    if not reads:
        return series
    theirs = committing_in(series).union(committing)
    batch = SampleBatch(names["cluster"][0].as_py(), READ_AS_COMMITTED)
    for (group, topic, partition), (times, read) in reads.items():
        if (group, topic) not in theirs:
            batch.add("committed_offset", {"group": group, "topic": topic, "partition": partition}, times, read)
    return concat_series([series, batch.to_series()])


def _with_derived_commits(series: SeriesTable) -> SeriesTable:
    """Add the commits of subscriptions whose exporter tells lags and ends of logs alone: end minus lag, at one and the same scrape.

    It has made the one of the other, so what is left is the commit that it saw, or the end itself where that was passed meanwhile.
    """
    names = series.names
    own, parted = _lags_by_partition(names)
    lacking = parted - _subscriptions(names, pc.equal(names["signal"], "committed_offset"))
    if not lacking:
        return series
    ends = by_name(series.where(pc.equal(names["signal"], "log_end_offset")), "source", "topic", "partition")
    batch = SampleBatch(names["cluster"][0].as_py(), DERIVED)
    for (source, group, topic, partition), (times, lag) in by_name(
        _of_these(series.where(own), lacking), "source", "group", "topic", "partition"
    ).items():
        if (end := ends.get((source, topic, partition))) is None:
            continue
        both, at, of_end = np.intersect1d(times, end[0], return_indices=True)
        if len(both):
            labels = {"group": group, "topic": topic, "partition": partition}
            batch.add("committed_offset", labels, both, end[1][of_end] - lag[at])
    return concat_series([series, batch.to_series()])


def _with_derived_ends(series: SeriesTable) -> SeriesTable:
    """Add the ends of logs whose exporter tells lags and commits alone: commit plus lag, at one and the same scrape.

    Of several groups the one with most samples counts.
    """
    names = series.names
    own, parted = _lags_by_partition(names)
    measured = set(pc.unique(names.filter(pc.equal(names["signal"], "log_end_offset"))["topic"]).to_pylist())
    lacking = {it for it in parted if it[1] not in measured}
    if not lacking:
        return series
    keys = ("source", "group", "topic", "partition")
    commits = by_name(series.where(pc.equal(names["signal"], "committed_offset")), *keys)
    found: dict[tuple[str, int], tuple[np.ndarray, np.ndarray]] = {}
    lags = by_name(_of_these(series.where(own), lacking), *keys)
    for key in sorted(lags, key=str):  # a name may be lacking
        times, lag = lags[key]
        if (commit := commits.get(key)) is None:
            continue
        both, of_lag, at = np.intersect1d(times, commit[0], return_indices=True)
        known = (lag[of_lag] >= 0) & (commit[1][at] >= 0)
        place = key[2], key[3]
        if place not in found or np.count_nonzero(known) > len(found[place][0]):
            found[place] = both[known], (commit[1][at] + lag[of_lag])[known]
    batch = SampleBatch(names["cluster"][0].as_py(), DERIVED)
    for (topic, partition), (both, end) in found.items():
        if len(both):
            batch.add("log_end_offset", {"topic": topic, "partition": partition}, both, end)
    return concat_series([series, batch.to_series()])


def _lags_by_partition(names: pa.Table) -> tuple[pa.ChunkedArray, set[tuple[Any, ...]]]:
    """Which series are lags behind commits, and (group, topic) of those by partition.

    A client's own lag is behind its position. A whole topic's has an end that is that of partitions without commits, too: what is of
    partitions is known by a second one.
    """
    own = pc.and_(pc.equal(names["signal"], "consumer_lag"), pc.is_null(names["member"]))
    return own, _subscriptions(names, pc.and_(own, pc.greater(names["partition"], WHOLE)))


def with_derived_lag(series: SeriesTable) -> SeriesTable:
    """Add the lag of subscriptions that export a committed offset but no lag: log end (the latest before or at it) minus commit.

    The log end is at most one scrape older than the commit, so the lag may be too low by the messages produced in between; it is never
    below 0. Where the end is measured no more, the lag is not known: a commit that moves on would pass for one that catches up.
    """
    names = series.names
    committing = pc.equal(names["signal"], "committed_offset")
    lacking = _subscriptions(names, committing) - _subscriptions(names, pc.equal(names["signal"], "consumer_lag"))
    if not lacking:
        return series
    ends = by_name(series.where(pc.equal(series.names["signal"], "log_end_offset")), "topic", "partition")
    batch = SampleBatch(series.names["cluster"][0].as_py(), DERIVED)
    for (group, topic, partition), (times, committed) in by_name(
        _of_these(series.where(committing), lacking), "group", "topic", "partition"
    ).items():
        end = ends.get((topic, partition))
        if end is None:
            continue
        at = np.searchsorted(end[0], times, side="right") - 1
        there = (at >= 0) & (times - end[0][np.maximum(at, 0)] <= longest_age(end[0]))
        behind = np.maximum(0.0, end[1][at[there]] - committed[there])
        batch.add("consumer_lag", {"group": group, "topic": topic, "partition": partition}, times[there], behind)
    return concat_series([series, batch.to_series()])


def _subscriptions(names: pa.Table, wanted: pa.ChunkedArray) -> set[tuple[Any, ...]]:
    """(group, topic) of the series that are wanted; without a look at their samples, as most sources lack nothing."""
    found = names.select(["group", "topic"]).filter(wanted).group_by(["group", "topic"]).aggregate([])
    return {tuple(it.values()) for it in found.to_pylist()}


def _of_these(series: SeriesTable, wanted: Set[tuple[Any, ...]]) -> SeriesTable:
    keys = zip(series.names["group"].to_pylist(), series.names["topic"].to_pylist(), strict=True)
    return series.where(pa.array([key in wanted for key in keys], pa.bool_()))


def by_name(series: SeriesTable, *names: str) -> dict[tuple[Any, ...], tuple[np.ndarray, np.ndarray]]:
    """(times in µs, values) by labels, in order of time."""
    found = {}
    if not len(series):
        return {}
    codes = codes_of(series.names, names)
    order = np.argsort(codes, kind="stable")
    grouped, every = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1), series.starts
    for members in grouped:
        spans = [slice(every[at], every[at] + series.lengths[at]) for at in members]
        times, values = (np.concatenate([of[span] for span in spans]) for of in (series.ts_us, series.values))
        known = ~np.isnan(values)
        times, values = times[known], values[known]
        if len(times):
            in_time = np.argsort(times, kind="stable")
            found[tuple(series.names[name][int(members[0])].as_py() for name in names)] = (
                times[in_time],
                values[in_time],
            )
    return found
