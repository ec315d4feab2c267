"""Load the measurements for a request, in memory or as Spark frames."""

from __future__ import annotations

import atexit
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING

from workbench.api.measurement_requests import Measurements, Times
from workbench.api.run_progress import SILENT, Progress
from workbench.errors import UnknownGroupError, UsageError
from workbench.humanize import did_you_mean, duration, listed, plural

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from workbench.collect.capture import Capture
    from workbench.prometheus_settings import PrometheusAddress
    from workbench.window import Window


_HEAD_START_SECONDS = 0.3  # of the sources' answer to a name, before Spark starts beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Measurements in memory, and the window to judge."""

    capture: Capture
    window: Window


def measure(request: Measurements, *, progress: Progress = SILENT, spark: bool = True) -> Measured:
    """Read a capture, or query the sources of a cluster.

    Args:
        request: which measurements.
        progress: receives the steps.
        spark: whether Spark is needed afterwards; it then starts meanwhile.

    Raises:
        WorkbenchError: UsageError and WindowError for a wrong request, SourceUnreachableError, NoSeriesError, and
            NotACaptureError or DamagedCaptureError for a folder.
    """
    from workbench.plans.journal import replays_begun_here
    from workbench.spark.session import start_in_background

    start = start_in_background if spark else _no_start
    found = _recorded(request, progress, start) if request.capture is not None else _live(request, progress, start)
    return replace(found, capture=replace(found.capture, begun=replays_begun_here()))


def _no_start() -> None:
    """Nothing needs Spark."""


def _recorded(request: Measurements, progress: Progress, start: Callable[[], None]) -> Measured:
    from workbench.collect.capture_info import INFO, read_info
    from workbench.settings import own_cluster
    from workbench.window import Window

    folder = (request.capture or Path()).expanduser()
    named = bool(request.groups or request.topics)
    if (folder / INFO).is_file():
        kept = read_info(folder).window
        # A mistyped time is answered without Spark.
        request.times.window_in(Window(baseline_start=kept.baseline_start, start=kept.start, end=kept.end))
        if not named:
            start()
    from workbench.collect.capture import read_capture, with_own  # Arrow, while Spark starts

    with progress.step(f"Reading {folder}") as step:
        capture = read_capture(folder)
        capture = with_own(capture, own_cluster(capture.info.cluster, request.config, tell=progress.say))
        step.note = (
            f"{plural(capture.samples.num_rows, 'sample')}, recorded {capture.info.created_at:%Y-%m-%d %H:%M:%SZ}"
        )
    if named:  # a mistyped name is answered without Spark
        _check_names(capture, request)
        start()
    return Measured(capture=capture, window=request.times.window_in(capture.window))


def _check_names(capture: Capture, request: Measurements) -> None:
    """Check that a capture has each group and topic that was asked for.

    Raises:
        UnknownGroupError: with the names that look like it.
    """
    for what, asked in (("group", request.groups), ("topic", request.topics)):
        known = {str(it) for it in capture.samples[what].unique().to_pylist() if it}
        if what == "group":
            known |= {str(it) for it in capture.groups["group"].to_pylist()}
        for name in asked:
            if name not in known:
                raise UnknownGroupError(
                    f"The capture has no {what} {name!r}.{did_you_mean(name, sorted(known))}",
                    hint=f"It has: {listed(sorted(known), most=12)}.",
                )


def _live(request: Measurements, progress: Progress, start: Callable[[], None]) -> Measured:
    from workbench.settings import load_settings
    from workbench.window import parse_duration

    settings = load_settings(request.config)
    cluster = settings.cluster(request.cluster or "")
    thresholds = settings.thresholds_of(cluster)
    groups, topics = list(request.groups) or None, list(request.topics) or None
    if request.observe is not None:
        from workbench.collect import capture_in_memory

        seconds = parse_duration(request.observe).total_seconds()
        with progress.step(f"Recording {cluster.name} for {duration(seconds)}") as step:
            capture = capture_in_memory.observe(
                cluster, seconds, thresholds=thresholds, groups=groups, say=progress.say
            )
            step.note = f"{plural(capture.samples.num_rows, 'sample')}"
        return Measured(capture=capture, window=capture.window)
    window = request.times.window(settings.windows_of(cluster))
    named = bool(groups or topics)
    if not named:
        start()  # Spark's start takes longer than any query
    from workbench.collect import capture_in_memory

    # A mistyped name is known at once, and answered without Spark.
    later = Timer(_HEAD_START_SECONDS, start)
    if named:
        later.start()
    try:
        with progress.step(f"Reading the sources of {cluster.name}") as step:
            step.limit = f"at most {duration(cluster.timeout_seconds)} for each answer"
            capture = capture_in_memory.collect(cluster, window, thresholds=thresholds, groups=groups, topics=topics)
            step.note = f"{plural(capture.samples.num_rows, 'sample')}"
    finally:
        later.cancel()
        if named:
            later.join()
    start()
    return Measured(capture=capture, window=window)


def samples(
    selector: str | None = None,
    *,
    cluster: str | None = None,
    capture: str | Path | None = None,
    groups: Sequence[str] = (),
    topics: Sequence[str] = (),
    labels: Sequence[str] = ("consumergroup", "topic", "partition"),
    since: str | None = None,
    until: str | None = None,
    config: Path | None = None,
) -> DataFrame:
    """Load measurements as a Spark frame.

    Args:
        selector: raw series of the cluster's Prometheus, such as `kafka_consumergroup_lag{topic="orders"}`. Spark's tasks read them,
        not this process, so a day of a large cluster fits. Without it: the signals that a triage uses.
        cluster, capture: a cluster of the settings, or a recorded folder; one of the two. A selector needs a cluster.
        groups, topics: only these; not with a selector, which has its own matchers.
        labels: with a selector: the labels that become columns.
        since, until: timestamps with a time zone, or `15m ago`; default: the last window of the settings with its baseline.

    Returns:
        With a selector: `ts` (timestamp), `value` (double; NULL where there is no finite number), `flag` (`nan`, `inf` or `stale`
        for such a value) and a string column for each label; lazy, so each action queries the server again. Without: the columns of
        `workbench.samples.SAMPLES_SCHEMA`.

    Raises:
        WorkbenchError: as `triage`.
    """
    times = Times(since=since, until=until)
    if selector is None:
        request = Measurements(
            cluster=cluster, capture=_path(capture), groups=groups, topics=topics, times=times, config=config
        )
        from workbench.spark.session import frame_of, session

        found = measure(request)
        return frame_of(session(kept=True), found.capture.samples_of(groups, topics))
    if cluster is None or capture is not None or groups or topics:
        raise UsageError(
            "A selector needs a cluster with a Prometheus, and contains its own groups and topics.",
            hint='samples(\'kafka_consumergroup_lag{topic="orders"}\', cluster="prod", since="1d ago")',
        )
    return _series(selector, cluster, times, labels, config)


def _series(selector: str, name: str, times: Times, labels: Sequence[str], config: Path | None) -> DataFrame:
    from workbench.settings import load_settings

    settings = load_settings(config)
    cluster = settings.cluster(name)
    if cluster.prometheus is None:
        raise UsageError(f"The cluster {name!r} has no Prometheus in the settings.", hint="Add it to workbench.toml.")
    address, *others = cluster.prometheus_servers
    if others:
        raise UsageError(
            f"The cluster {name!r} has {len(others) + 1} Prometheus, and a selector is asked of one: their copies would count twice.",
            hint="Without a selector, their samples are joined; or read one: workbench.collect.prometheus_frames.read_samples.",
        )
    window = times.window(settings.windows_of(cluster))
    first = window.start if times.since else window.baseline_start
    spark = session_for_much_data()
    from workbench.collect.prometheus_frames import read_samples
    from workbench.collect.selectors import matchers_of, parse_selector, to_promql

    ours = [*parse_selector(selector), *matchers_of(address.match or {})]
    return read_samples(
        spark,
        url=address.url,
        selector=to_promql(ours) if address.match else selector,
        start=_seconds(first),
        end=_seconds(window.end),
        labels=",".join(labels),
        timeout_seconds=str(cluster.timeout_seconds),
        **_headers(address),
    )


def session_for_much_data() -> SparkSession:
    """Second Spark session, configured for millions of rows, in the same JVM as that of triages."""
    from workbench.spark.session import for_much_data, session
    from workbench.spark.spark_connect import is_remote

    spark = session(kept=True)
    if is_remote(spark):
        return spark
    beside = spark.newSession()
    for_much_data(beside)
    return beside


def _headers(address: PrometheusAddress) -> dict[str, str]:
    """Option with the path of a private file with the address's HTTP headers, so no token is part of a Spark plan."""
    if not address.headers:
        return {}
    return {"headers_file": _private_file(json.dumps(dict(address.headers)))}


@cache  # one file per content: a worker keeps one HTTP session per file
def _private_file(text: str) -> str:
    """Path of a file with this text, readable by its owner only, until this process ends."""
    handle, path = tempfile.mkstemp(prefix="workbench-", suffix=".json")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    atexit.register(Path(path).unlink, missing_ok=True)
    return path


def features(
    *,
    cluster: str | None = None,
    capture: str | Path | None = None,
    groups: Sequence[str] = (),
    topics: Sequence[str] = (),
    since: str | None = None,
    until: str | None = None,
    baseline: str | None = None,
    config: Path | None = None,
) -> DataFrame:
    """Compute the features that the decision tree tests, as a Spark frame with a row per subscription (cluster, group, topic).

    Args:
        cluster, capture: a cluster of the settings, or a recorded folder; one of the two.
        groups, topics: only these; empty: all.
        since, until, baseline: the window and its baseline, as in `triage`.

    Returns:
        The columns of `workbench.triage.subscription.SubscriptionFeatures` but for the answers: rates in messages/s, ages and times in
        seconds, lag in messages; `partitions`, `members`, `queues` and `processors` are arrays.

    Raises:
        WorkbenchError: as `triage`.
    """
    request = Measurements(
        cluster=cluster,
        capture=_path(capture),
        groups=groups,
        topics=topics,
        times=Times(since=since, until=until, baseline=baseline),
        config=config,
    )
    found = measure(request)
    from workbench.spark.session import session
    from workbench.triage.triage_engine import condensed, facts

    info, window = found.capture.info, found.window
    samples, expected = found.capture.samples_of(request.groups, request.topics), found.capture.expectations
    rows = condensed(samples, window, info.thresholds, expected)
    return facts(session(), rows, window, info.thresholds, expected)


def _path(folder: str | Path | None) -> Path | None:
    return None if folder is None else Path(folder)


def _seconds(at: datetime) -> str:
    return f"{at.timestamp():.3f}"
