"""Collect a window from a live cluster's sources, as a capture in memory."""

from __future__ import annotations

import hashlib
import json
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc

from workbench.collect.capture import NO_BASELINE, Capture, new_info
from workbench.collect.deploys_and_alerts import of_window
from workbench.collect.recorder import Recorder
from workbench.collect.samples_from_prometheus import Collected, PrometheusSource
from workbench.collect.source_join import groups_of_clients
from workbench.collect.what_is_there_instead import there_instead
from workbench.errors import NoSeriesError, SourceUnreachableError, UsageError, WorkbenchError
from workbench.humanize import did_you_mean, listed, shell_word
from workbench.masking import names_credential
from workbench.profiles import load_profile, name_of
from workbench.queues.group_kinds import JUDGED, Unjudged, unjudged_in
from workbench.queues.snapshot_views import SOURCE, views_table
from workbench.queues.systems import refuse_without_metrics, system_of
from workbench.samples import GROUPS_SCHEMA, SAMPLES_SCHEMA, SampleBatch
from workbench.settings import Cluster
from workbench.thresholds import Thresholds
from workbench.window import Window

_LAST_MINUTE = timedelta(minutes=1)
Say = Callable[[str], None]


def collect(
    cluster: Cluster,
    window: Window,
    *,
    thresholds: Thresholds,
    groups: list[str] | None = None,
    topics: list[str] | None = None,
) -> Capture:
    """Query every Prometheus for the window, and Kafka (if configured) for groups and members.

    Raises:
        UsageError: if the cluster has no Prometheus.
        SourceUnreachableError: if no Prometheus answers, or one does not and the others have no series for the request. If others
            have some, or only Kafka does not answer, the capture is incomplete.
        NoSeriesError: if Prometheus has no series for the request.
        UnknownGroupError: if Kafka has no such group, and Prometheus has no series of it in the window.
    """
    _check_prometheus(cluster)
    # However long the sources take: a window that ended when it was asked for is one of now.
    late = (datetime.now(UTC) - window.end).total_seconds()
    views, shares, incomplete, all_known = _kafka_views(cluster, groups)
    found, nothing, series = None, None, SampleBatch(cluster.name, SOURCE).to_series()
    try:
        found = _series(cluster, window, views, groups=groups, topics=topics, look_further=True)
        series = found.series
    except NoSeriesError as error:
        nothing = error
        if not all_known:  # unknown to both sources: the name is wrong
            system_of(cluster).observer(cluster).members(groups=groups)
    is_now = views.num_rows and late <= thresholds.stale_after_seconds
    asked = (
        system_of(cluster).observer(cluster).of_now(series, views, window.end.timestamp(), incomplete) if is_now else []
    )
    samples = pa.concat_tables([series.to_samples(), shares, *asked])
    # Exporters leave out share groups, Connect's, and those that have never committed; a request for these alone has an answer.
    if nothing is not None and not {
        *(view.group for view in unjudged_in(views, only=groups or ())),
        *samples.filter(pc.is_valid(samples["group"]))["group"].to_pylist(),
    }.issuperset(groups or ("",)):
        raise nothing
    return Capture(
        info=new_info(
            cluster=cluster.name,
            bootstrap=cluster.bootstrap,
            source="prometheus",
            profiles=[name_of(name) for name in cluster.profiles],
            window=window,
            groups=groups,
            topics=topics,
            incomplete=[*incomplete, *(found.incomplete if found is not None else ())],
            thresholds=thresholds,
            match=cluster.match,
            sources=found.sources if found is not None else (),
            expected=cluster.groups,
        ),
        samples=samples,
        groups=views,
        events=of_window(cluster.name, window.baseline_start, window.end),
        own=cluster.groups,
        login_file=cluster.login_file,
        unanswered=found.unanswered if found is not None else (),
    )


def collect_series(cluster: Cluster, window: Window) -> Collected:
    """Query Prometheus for all series of a window, and Kafka only if some series get their group from its member list.

    Raises:
        UsageError, SourceUnreachableError, NoSeriesError: as `collect`.
    """
    _check_prometheus(cluster)
    views, incomplete = GROUPS_SCHEMA.empty_table(), list[str]()
    if _needs_members(cluster):
        views, _, incomplete, _ = _kafka_views(cluster, None)
    found = _series(cluster, window, views)
    return replace(found, incomplete=(*incomplete, *found.incomplete))


def reading_of(cluster: Cluster) -> str:
    """A digest of the settings that decide what `collect_series` finds: a sample means the same only if it was read alike.

    A header that names a credential is no part of it, as those are renewed; any other one may choose the tenant.
    """
    servers = [
        (
            it.where_of({}),
            urlsplit(it.url).username if urlsplit(it.url).password is not None else None,  # alone it is a token
            sorted((name.lower(), value) for name, value in (it.headers or {}).items() if not names_credential(name)),
        )
        for it in cluster.prometheus_servers
    ]
    profiles = [load_profile(name).model_dump(mode="json") for name in cluster.profiles]
    told = [cluster.bootstrap, servers, profiles, sorted(cluster.members.items()), cluster.copies]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:24]


def _check_prometheus(cluster: Cluster) -> None:
    refuse_without_metrics(cluster, "Reading a history of its metrics does")
    if cluster.prometheus is None:
        raise UsageError(
            f"The cluster {cluster.name!r} has no Prometheus in the settings.",
            hint="Record it with `workbench watch`, and name the recording with --capture; or look at all its groups for a minute: "
            f"workbench triage --cluster {shell_word(cluster.name)} --observe 60s",
        )


def _series(
    cluster: Cluster,
    window: Window,
    views: pa.Table,
    *,
    groups: list[str] | None = None,
    topics: list[str] | None = None,
    look_further: bool = False,
) -> Collected:
    """Series of the window; `look_further`: ask what is there instead of none. A slot of many asks nothing more."""
    profiles = [load_profile(name) for name in cluster.profiles]
    source = PrometheusSource.of(
        cluster,
        profiles,
        members={**groups_of_clients(views), **cluster.members},
        topics=views["topic"].drop_null().unique().to_pylist(),
    )
    found = source.collect(window, groups=groups, topics=topics)
    if not len(found.series):
        what = " and ".join(
            [*(f"group {name!r}" for name in groups or ()), *(f"topic {name!r}" for name in topics or ())]
        )
        if source.silent:  # nobody knows that there is no such group
            raise SourceUnreachableError(
                f"{' '.join(source.silent)} The others have no series of {what or 'any consumer group'} in the window.",
                hint=f"Which of them answer: workbench doctor --cluster {shell_word(cluster.name)}",
            )
        warned = f" It warns: {listed(found.incomplete, most=3)}." if found.incomplete else ""
        near, there = _near_names(source, window, views, groups or [], topics or [])
        if look_further and not there:
            near, there = there_instead(cluster, window.end)
        raise NoSeriesError(
            f"Prometheus has no series of {what or 'any consumer group'} between "
            f"{window.baseline_start:%Y-%m-%d %H:%M:%SZ} and {window.end:%H:%M:%SZ}.{warned}{near}",
            hint=there
            or f"Profiles in use: {', '.join(map(name_of, cluster.profiles))}. Is the name correct, and does one of them fit your "
            f"exporter? Find out with: workbench profiles check --cluster {shell_word(cluster.name)}",
        )
    return found


def _near_names(
    source: PrometheusSource, window: Window, views: pa.Table, groups: Sequence[str], topics: Sequence[str]
) -> tuple[str, str]:
    """Names in the window's last minute that look like those asked for, and all names; empty where there are none."""
    if not groups and not topics:
        return "", ""
    last = Window(baseline_start=window.end - _LAST_MINUTE, start=window.end - _LAST_MINUTE, end=window.end)
    try:
        names = source.collect(last).series.names
    except WorkbenchError:  # it has just answered; that it fails now must not hide what was asked
        return "", ""
    known = {"group": _sorted(names["group"], views["group"]), "topic": _sorted(names["topic"])}
    found, there = [], []
    for what, asked in (("group", groups), ("topic", topics)):
        unknown = [name for name in asked if name not in known[what]]
        found += [did_you_mean(name, known[what]) for name in unknown]
        if unknown and known[what]:
            there.append(f"The {what}s that it has: {listed(known[what], most=12)}.")
    return "".join(found), " ".join(there)


def _sorted(*columns: pa.ChunkedArray) -> list[str]:
    return sorted({str(it) for column in columns for it in column.to_pylist() if it})


def _needs_members(cluster: Cluster) -> bool:
    """Whether some samples get their group from Kafka's member list."""
    return any(load_profile(name).member_is != "member" for name in cluster.profiles)


def other_groups(cluster: Cluster) -> tuple[dict[str, str], tuple[Unjudged, ...], list[str]]:
    """Kinds of all groups of a cluster, those that cannot be judged, and what is missing; nothing without a bootstrap."""
    if cluster.bootstrap is None:
        return {}, (), []
    try:
        found = system_of(cluster).observer(cluster).listing()
    except SourceUnreachableError as error:
        return {}, (), [error.message]
    table = views_table(found.views.values(), cluster.name, time.time())
    lags = Counter[str]()
    for (group, _, _), share in found.shares.items():
        lags[group] += share.lag or 0
    topics = defaultdict[str, set[str]](set)
    for group, topic, _ in found.shares:
        topics[group].add(topic)
    others = tuple(
        replace(it, topics=tuple(sorted({*it.topics, *topics[it.group]})))
        for it in unjudged_in(table, lags={group: lags[group] for group in lags})
    )
    return dict(found.kinds), others, list(found.incomplete)


def never_committed(cluster: Cluster, names: Iterable[str], incomplete: list[str]) -> tuple[Unjudged, ...]:
    """Those of these groups whose members have partitions, and which have no commit at all: exporters leave them out.

    Args:
        incomplete: receives what could not be read.
    """
    asked = sorted(names)
    if not asked:
        return ()
    try:
        snapshot = system_of(cluster).observer(cluster).snapshot(groups=asked, all_known=False)
    except SourceUnreachableError as error:
        incomplete.append(error.message)
        return ()
    incomplete += snapshot.incomplete
    topics, committed = defaultdict[str, set[str]](set), set[str]()
    for (group, topic, _), offset in snapshot.commits.items():
        topics[group].add(topic)
        committed |= {group} if offset is not None else set()
    return tuple(
        Unjudged(
            cluster=cluster.name,
            group=it.group,
            kind=it.protocol,
            state=it.state,
            members=len(it.members),
            topics=tuple(sorted(topics[it.group])),
        )
        for it in snapshot.groups
        if it.protocol in JUDGED and it.members and topics[it.group] and it.group not in committed
    )


def _kafka_views(cluster: Cluster, groups: list[str] | None) -> tuple[pa.Table, pa.Table, list[str], bool]:
    """Groups and members, the lag of share groups, what is missing, and whether all of these groups are known.

    The offsets of all others are Prometheus' part.
    """
    empty, none = GROUPS_SCHEMA.empty_table(), SAMPLES_SCHEMA.empty_table()
    if cluster.bootstrap is None:
        return empty, none, [], True
    try:
        snapshot = system_of(cluster).observer(cluster).members(groups=groups, all_known=False)
    except SourceUnreachableError as error:
        return empty, none, [error.message], True
    shares = snapshot.share_samples(cluster.name)
    return snapshot.to_groups(cluster.name), shares, list(snapshot.incomplete), not snapshot.unknown


def observe(
    cluster: Cluster,
    seconds: float,
    *,
    thresholds: Thresholds,
    groups: list[str] | None = None,
    say: Say = lambda _text: None,
) -> Capture:
    """Record a cluster for some seconds, without a Prometheus. The only baseline is the beginning of the recording.

    Raises:
        UsageError: if the cluster has no source to record.
        SourceUnreachableError: if no source answers.
    """
    interval = max(1.0, seconds / 60)
    say(f"Recording {cluster.name} for {seconds:g} s, every {interval:g} s.")
    with tempfile.TemporaryDirectory(prefix="workbench-observe-") as room:
        recorder = Recorder(
            cluster, Path(room) / "capture", interval_seconds=interval, groups=groups, thresholds=thresholds
        )
        started = datetime.now(UTC)
        recorded = recorder.run(threading.Event(), seconds=seconds)
    window = Window(baseline_start=started, start=started, end=datetime.now(UTC))
    info = new_info(
        cluster=cluster.name,
        bootstrap=cluster.bootstrap,
        source="observe",
        profiles=recorded.info.profiles,
        window=window,
        groups=groups,
        incomplete=[*recorded.info.incomplete, NO_BASELINE],
        thresholds=thresholds,
        expected=cluster.groups,
    )
    events = of_window(cluster.name, window.baseline_start, window.end)
    return Capture(
        info=info,
        samples=recorded.samples,
        groups=recorded.groups,
        events=events,
        own=cluster.groups,
        login_file=cluster.login_file,
    )
