"""Triage of a capture: samples → features (Spark, all subscriptions in one job) → answers → findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from workbench.collect.capture import Capture
from workbench.errors import ConfigError, NoSeriesError
from workbench.history.backlog_before_kafka import words_of_lag_before
from workbench.history.gateway_counts import processes
from workbench.humanize import listed, shell_word, with_missing
from workbench.profiles import Profile, is_path, lag_arrives_late, load_profile
from workbench.queues.group_kinds import REDRIVE, Unjudged, is_redrive_plan, kinds_in, unjudged_in
from workbench.samples_by_subscription import SamplesBySubscription
from workbench.settings_of_groups import NOTHING_EXPECTED, Expectations
from workbench.thresholds import Thresholds
from workbench.triage.action_subject import Recording
from workbench.triage.build_finding import build_finding, of_kind
from workbench.triage.changes import nearest_change
from workbench.triage.finding import Finding
from workbench.triage.measured_from_spark_rows import measured_of, with_facts
from workbench.triage.onset import onset
from workbench.triage.owner_links_commands import WAITING, Begun, with_settings
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.tree_walk import judged
from workbench.triage.verdict_names import State, waits
from workbench.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "workbench.triage/1"
# Worst first: lagging with a cause, lagging without one, unknown, draining, healthy.
ORDER = (State.LAGGING, State.CANNOT_TELL, State.DRAINING, State.HEALTHY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Triage:
    """All findings of one run.

    Attributes:
        findings: one for each subscription.
        sources: how many sources measured the same, in words.
        not_judged: groups without a subscription that could be judged: share groups, Connect's, others', those without a commit.
    """

    window: Window
    source: dict[str, Any]
    findings: tuple[Finding, ...]
    incomplete: tuple[str, ...] = ()
    not_judged: tuple[Unjudged, ...] = ()
    sources: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The document `workbench.triage/1`."""
        return {
            "schema": SCHEMA,
            "window": self.window.to_json(),
            "source": self.source,
            "incomplete": list(self.incomplete),
            "sources": list(self.sources),
            "findings": [finding.to_json() for finding in self.findings],
            "not_judged": [group.to_json() for group in self.not_judged],
        }


def answered(
    spark: SparkSession,
    samples: pa.Table,
    window: Window,
    thresholds: Thresholds,
    expectations: Expectations = NOTHING_EXPECTED,
) -> list[SubscriptionFeatures]:
    """Samples to one judged row per subscription."""
    rows = condensed(samples, window, thresholds, expectations)
    return judged_rows(measured(spark, rows, thresholds).toArrow(), window, thresholds, expectations)


def condensed(samples: pa.Table, window: Window, thresholds: Thresholds, expectations: Expectations) -> pa.Table:
    """The rows of `features.condense_by_subscription.condense_each`: what is done before Spark is needed, and while it starts."""
    from workbench.features.condense_by_subscription import condense_each

    return condense_each(samples, window, lambda group: expectations.limits(thresholds, group))


def measured(spark: SparkSession, rows: pa.Table, thresholds: Thresholds) -> DataFrame:
    """Rows of `condensed` to one row of features per subscription (`features.subscription_features.of_summary`)."""
    from workbench.features.condense_by_subscription import features_of

    return features_of(spark, rows, stale_after_seconds=thresholds.stale_after_seconds)


def facts(
    spark: SparkSession, rows: pa.Table, window: Window, thresholds: Thresholds, expectations: Expectations
) -> DataFrame:
    """Rows of `condensed` to one row per subscription: measured features, and the facts that the questions test."""
    table = measured(spark, rows, thresholds).toArrow()
    return spark.createDataFrame(with_facts(table, judged_rows(table, window, thresholds, expectations)))


def judged_rows(
    table: pa.Table, window: Window, thresholds: Thresholds, expectations: Expectations
) -> list[SubscriptionFeatures]:
    """Rows of `measured`, with the answers of the tree."""
    return [judged(row, thresholds, expectations, at=window.end) for row in measured_of(table)]


def load() -> None:
    """Import the modules of a triage, pyspark among them, while Spark starts."""
    from workbench.features import condense_by_subscription, subscription_features  # noqa: F401
    from workbench.triage import tree_walk  # noqa: F401


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A triage up to the point where Spark is needed.

    Attributes:
        capture: what was measured.
        window, thresholds: to judge it by.
        groups, topics: only these; empty: all.
        samples: of these groups and topics.
        rows: `condensed` ones; none without a sample.
    """

    capture: Capture
    window: Window
    thresholds: Thresholds
    groups: tuple[str, ...]
    topics: tuple[str, ...]
    samples: pa.Table
    rows: pa.Table | None

    @property
    def expected(self) -> Expectations:
        """What is expected of the groups."""
        return self.capture.expectations


def triage(
    capture: Capture,
    spark: SparkSession,
    *,
    thresholds: Thresholds | None = None,
    window: Window | None = None,
    groups: Sequence[str] | None = None,
    topics: Sequence[str] | None = None,
) -> Triage:
    """Analyse a capture: `judge` what `prepare` returns.

    Raises:
        NoSeriesError: if the capture has no lag of these groups and topics.
    """
    return judge(prepare(capture, thresholds=thresholds, window=window, groups=groups, topics=topics), spark)


def prepare(
    capture: Capture,
    *,
    thresholds: Thresholds | None = None,
    window: Window | None = None,
    groups: Sequence[str] | None = None,
    topics: Sequence[str] | None = None,
) -> Prepared:
    """Do the part of a triage that needs no Spark.

    Args:
        capture: the measurements.
        thresholds, window: replace the capture's own.
        groups, topics: only these.
    """
    limits = thresholds or capture.info.thresholds
    if groups is not None and len(groups) == 1:
        limits = capture.expectations.limits(limits, groups[0])
    limits = _as_fresh_as_they_are(limits, profiles_named(capture.info.profiles))
    found = Prepared(
        capture=capture,
        window=window or capture.window,
        thresholds=limits,
        groups=tuple(groups or ()),
        topics=tuple(topics or ()),
        samples=capture.samples_of(groups or (), topics or ()),
        rows=None,
    )
    if not found.samples.num_rows:
        return found
    return replace(found, rows=condensed(found.samples, found.window, limits, found.expected))


def _as_fresh_as_they_are(limits: Thresholds, profiles: Sequence[Profile]) -> Thresholds:
    """Thresholds under which values that are always late are no old ones; where another source of lag is not late, nothing changes."""
    late = lag_arrives_late(profiles)
    return limits.model_copy(update={"stale_after_seconds": limits.stale_after_seconds + late}) if late else limits


def _without_lag(signals: Sequence[str], source: str) -> str:
    """What to do where nothing tells where a group stands, and what is measured instead."""
    there = f"Measured: {listed(sorted(signals))}. " if signals else ""
    return (
        f"{there}A lag takes consumer_lag, or committed_offset and log_end_offset. Check the names, and which metrics there are: "
        f"workbench profiles check {source}"
    )


def judge(asked: Prepared, spark: SparkSession) -> Triage:
    """Judge what was prepared.

    Raises:
        NoSeriesError: if there is no lag of its groups and topics.
    """
    capture, samples, seen, limits = asked.capture, asked.samples, asked.window, asked.thresholds
    groups, topics, expected = asked.groups, asked.topics, asked.expected
    of_cluster = f"--cluster {shell_word(capture.info.cluster)}"
    source = f"--capture {shell_word(str(capture.folder))}" if capture.folder is not None else of_cluster
    rows: Sequence[SubscriptionFeatures] = ()
    if asked.rows is not None:
        rows = judged_rows(measured(spark, asked.rows, limits).toArrow(), seen, limits, expected)
    others = tuple(
        replace(it, muted=expected.of(it.group).muted(seen.end))
        for it in unjudged_in(capture.groups, without={row.group for row in rows}, only=groups, topics=topics)
    )
    if not rows and not others:
        before = "consumer_lag" not in capture.samples["signal"].unique().to_pylist() and processes(
            capture.samples, seen
        )
        raise NoSeriesError(
            with_missing(
                f"No lag of {_asked_for(groups, topics)} in the window or its baseline.", capture.info.incomplete
            ),
            hint=f"What is measured stands before Kafka: workbench audit upstream {source}"
            if before
            else _without_lag(capture.samples["signal"].unique().to_pylist(), source),
        )
    profiles = profiles_named(capture.info.profiles)
    kinds = kinds_in(capture.groups)
    recording = Recording(capture.folder, seen.end, capture.is_known) if capture.folder is not None else None
    places = SamplesBySubscription(samples) if len(rows) > 1 else None
    findings = [
        finding_of(
            row,
            samples if places is None else places.about(row.group, row.topic),
            seen,
            expected,
            profiles=profiles,
            bootstrap=capture.bootstrap,
            login_file=capture.login_file,
            recording=recording,
            events=capture.events,
            kind=REDRIVE if is_redrive_plan(row.group) else kinds.get(row.group),
            begun=capture.begun,
        )
        for row in rows
    ]
    findings.sort(
        key=lambda it: (rank(it.state, it.muted), -waits(it.time_lag.seconds, it.lag_messages), it.group, it.topic)
    )
    return Triage(
        window=seen,
        source={"kind": capture.info.source, "cluster": capture.info.cluster, "profiles": capture.info.profiles},
        findings=tuple(findings),
        incomplete=(
            *capture.info.incomplete,
            *words_of_lag_before(
                capture.samples,
                seen,
                late_seconds=limits.time_lag_objective_seconds,
                stale_seconds=limits.stale_after_seconds,
                source=source,
            ),
        ),
        not_judged=others,
        sources=tuple(capture.info.sources),
    )


def finding_of(
    row: SubscriptionFeatures,
    samples: pa.Table,
    window: Window,
    expectations: Expectations,
    *,
    profiles: Sequence[Profile],
    bootstrap: str | None,
    login_file: str | None = None,
    recording: Recording | None = None,
    events: Sequence[Mapping[str, Any]] = (),
    kind: str | None = None,
    begun: Begun | None = None,
) -> Finding:
    """Build the finding of one subscription with the kind of its group, and with what is expected of it."""
    expected = expectations.of(row.group)
    found = of_kind(
        build_finding(
            row,
            profiles=profiles,
            since=onset(samples, window, row),
            bootstrap=bootstrap,
            login_file=login_file,
            recording=recording,
        ),
        kind,
    )
    changed = nearest_change(events, samples, window, group=row.group, topic=row.topic, since=found.since)
    return with_settings(replace(found, changed=changed), expected, window, now=window.end, begun=begun)


def rank(state: State, muted: str | None) -> float:
    """Place in a list, worst first; a replay that waits for its consumers stands just above what is healthy."""
    return ORDER.index(State.HEALTHY) - 0.5 if muted == WAITING and state is not State.HEALTHY else ORDER.index(state)


def _asked_for(groups: Sequence[str], topics: Sequence[str]) -> str:
    parts = [f"group {name!r}" for name in groups] + [f"topic {name!r}" for name in topics]
    return ", ".join(parts) or "any group"


def profiles_named(names: Iterable[str]) -> list[Profile]:
    """Load the profiles of these names; unknown names are left out, and so are paths: a capture must not open any file it names."""
    found = []
    for name in names:
        if is_path(name):
            continue
        try:
            found.append(load_profile(name))
        except ConfigError:  # Kafka itself is a source without a profile; another version may know other profiles
            continue
    return found


def incomplete_verdict(findings: tuple[Finding, ...]) -> bool:
    """Whether a verdict is missing, of a group that is not muted."""
    return any(finding.state is State.CANNOT_TELL and finding.muted is None for finding in findings)
