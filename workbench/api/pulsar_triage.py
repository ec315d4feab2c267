"""Triage of a cluster whose brokers send entries (Pulsar): two looks at its subscriptions, and the questions about each."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from workbench.api.measurement_requests import Measurements
from workbench.api.run_progress import SILENT, Progress
from workbench.collect.broker_and_bookie_metrics import DispatcherMetrics
from workbench.collect.capture import Capture, new_info
from workbench.errors import DamagedCaptureError, NoSeriesError, UsageError
from workbench.humanize import duration, plural
from workbench.queues.dispatching_queues import (
    DispatchReading,
    dispatch_tools_of,
    read_dispatched,
    read_dispatched_again,
)
from workbench.samples import SAMPLES_SCHEMA
from workbench.settings import Cluster
from workbench.settings_of_groups import Expectations
from workbench.thresholds import Thresholds
from workbench.triage.owner_links_commands import with_settings
from workbench.triage.pulsar.pulsar_facts import Known
from workbench.triage.pulsar.pulsar_finding import pulsar_finding
from workbench.triage.pulsar.pulsar_walk import judged_part
from workbench.triage.pulsar.what_servers_tell import servers_of
from workbench.triage.triage_engine import Triage, rank
from workbench.triage.verdict_names import waits
from workbench.window import Window, parse_duration

APART_SECONDS = 10.0  # consumers that work acknowledge something meanwhile; slower ones are late before they are judged
_SCHEME = "persistent://"


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchLook:
    """What was found, and its capture: samples of brokers and bookies, and the cluster's answers, if they were recorded."""

    triage: Triage
    capture: Capture


def look_twice(
    request: Measurements,
    cluster: Cluster,
    thresholds: Thresholds,
    *,
    progress: Progress = SILENT,
    pause: Callable[[float], None] = time.sleep,
    records: bool = False,
) -> DispatchLook:
    """Judge the subscriptions of a cluster.

    Args:
        records: whether its capture has what the cluster answered.
        request: groups and topics; `observe` is the time between the two looks, 10 s by default.
        cluster: whose brokers send entries (`queues.dispatching_queues`).
        pause: waits so many seconds.

    Raises:
        UsageError: if it asks for a time in the past. SourceUnreachableError, UnknownGroupError: as `read_dispatched`.
        NoSeriesError: if it has no subscription.
    """
    if request.times:
        raise UsageError(
            f"{cluster.name!r} is judged as it is now: --since, --until and --baseline need a history, which is not read of it.",
            hint="--observe 60s sets the time between the two looks.",
        )
    apart = parse_duration(request.observe).total_seconds() if request.observe is not None else APART_SECONDS
    metrics = DispatcherMetrics(cluster)

    def between(seconds: float) -> None:
        metrics.look()
        pause(seconds)

    with progress.step(f"Looking twice at the subscriptions of {cluster.name}") as step:
        step.limit = f"{duration(apart)} apart, at most {duration(cluster.timeout_seconds)} for each look"
        found = read_dispatched(
            cluster,
            groups=request.groups,
            topics=[it.removeprefix(_SCHEME) for it in request.topics],
            apart_seconds=apart,
            pause=between,
            records=records,
        )
        if any(it.entries != 0 for parts in found.groups.values() for it in parts):  # what is not late needs no reason
            metrics.look()
            samples = metrics.samples(found.ended_at)
        else:
            samples = SAMPLES_SCHEMA.empty_table()
        step.note = plural(len(found.groups), "subscription")
    if not found.groups and not found.incomplete:
        raise NoSeriesError(
            f"The cluster {cluster.name!r} has no subscription.", hint="Are its namespaces those of the settings?"
        )
    found = replace(found, incomplete=(*found.incomplete, *dict.fromkeys(metrics.missing)))
    return judge_reading(found, cluster, thresholds, request=request, samples=samples)


def judge_again(request: Measurements, capture: Capture, cluster: Cluster) -> DispatchLook:
    """Judge a capture of a cluster whose brokers send entries, with what was expected when it was made.

    Args:
        cluster: of its name and kind; nobody asks it.

    Raises:
        UsageError: if it asks for another time. DamagedCaptureError, UnknownGroupError: as `read_dispatched_again`.
    """
    if request.times:
        raise UsageError(
            "A capture of a Pulsar has two looks: it takes no --since, --until and --baseline.",
        )
    if capture.answers is None:
        raise DamagedCaptureError("The capture has no answers of the Pulsar.", hint="Copy the whole folder again.")
    topics = [it.removeprefix(_SCHEME) for it in request.topics or capture.info.topics or ()]
    groups = request.groups or capture.info.groups or ()
    found = read_dispatched_again(cluster, capture.answers, groups=groups, topics=topics)
    judged = judge_reading(
        found,
        cluster,
        capture.info.thresholds,
        request=request,
        expected=capture.expectations,
        samples=capture.samples,
    )
    return DispatchLook(triage=judged.triage, capture=capture)


def judge_reading(
    found: DispatchReading,
    cluster: Cluster,
    thresholds: Thresholds,
    *,
    request: Measurements,
    expected: Expectations | None = None,
    samples: pa.Table | None = None,
) -> DispatchLook:
    """Judge what was read; `expected` is what the settings of the cluster say, if nothing else is given.

    Args:
        samples: what brokers and bookies tell by metrics (`collect.broker_and_bookie_metrics`).
    """
    samples = SAMPLES_SCHEMA.empty_table() if samples is None else samples
    servers = servers_of(samples, brokers=found.brokers, end_seconds=found.ended_at.timestamp())
    window = Window(baseline_start=found.started_at, start=found.started_at, end=found.ended_at)
    expected, tools = expected or Expectations(cluster.groups), dispatch_tools_of(cluster.system)
    findings = []
    for group, parts in found.groups.items():
        limits = expected.limits(thresholds, group)
        # Not late before what the group is allowed to hold back.
        objective = limits.time_lag_objective_seconds + limits.commit_every_seconds
        finding = pulsar_finding(
            cluster.name,
            group,
            [judged_part(Known(part, objective, servers)) for part in parts],
            tools=tools,
        )
        findings.append(with_settings(finding, expected.of(group), window, now=window.end))
    findings.sort(key=lambda it: (rank(it.state, it.muted), -waits(it.time_lag.seconds, it.lag_entries), it.group))
    triage = Triage(
        window=window,
        source={"kind": cluster.system, "cluster": cluster.name, "profiles": []},
        findings=tuple(findings),
        incomplete=found.incomplete,
    )
    info = new_info(
        cluster=cluster.name,
        source=cluster.system,
        profiles=[],
        window=window,
        groups=list(request.groups) or None,
        topics=list(request.topics) or None,
        incomplete=list(found.incomplete),
        thresholds=thresholds,
        expected=cluster.groups,
    )
    return DispatchLook(
        triage=triage,
        capture=Capture(info=info, samples=samples, own=cluster.groups, answers=found.answers),
    )
