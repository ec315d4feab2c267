"""Triage of a capture: samples → features → answers → findings, for every subscription in one Spark job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from workbench.collect.capture import Capture
from workbench.collect.kafka_kinds import REDRIVE, Unjudged, is_redrive_plan, kinds_in, unjudged_in
from workbench.errors import ConfigError, NoSeriesError
from workbench.expectations import NOTHING_EXPECTED, Expectations
from workbench.profiles import Profile, load_profile
from workbench.settings import Thresholds
from workbench.triage.build import build_finding, of_kind
from workbench.triage.changes import nearest_change
from workbench.triage.finding import Finding
from workbench.triage.onset import onset
from workbench.triage.rows import features_of
from workbench.triage.settle import with_settings
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import State
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
        not_judged: groups without a subscription that could be judged: share groups, Connect's, those of other programs.
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
) -> DataFrame:
    """Samples to one answered row per subscription; all of it after the summary is one Spark plan."""
    from workbench.triage.walk import with_verdicts

    return with_verdicts(suspects(spark, samples, window, thresholds, expectations), thresholds)


def suspects(
    spark: SparkSession,
    samples: pa.Table,
    window: Window,
    thresholds: Thresholds,
    expectations: Expectations = NOTHING_EXPECTED,
) -> DataFrame:
    """Samples to one row of features per subscription, with what the questions test (`triage.anomalies`)."""
    from workbench.features.each import summarise_each
    from workbench.features.subscriptions import of_summary
    from workbench.triage.anomalies import with_suspects

    summary = summarise_each(spark, samples, window, lambda group: expectations.limits(thresholds, group))
    features = of_summary(summary, stale_after_seconds=thresholds.stale_after_seconds)
    return with_suspects(features, thresholds, expectations, at=window.end)


def answered_fleet(
    summary: DataFrame,
    thresholds: Thresholds,
    expectations: Expectations = NOTHING_EXPECTED,
    *,
    at: datetime | None = None,
) -> DataFrame:
    """Answer all questions for thousands of groups, from the summary of kept slots: all by the same window."""
    from workbench.features.subscriptions import of_fleet
    from workbench.triage.anomalies import with_suspects
    from workbench.triage.walk import with_verdicts

    features = of_fleet(summary, stale_after_seconds=thresholds.stale_after_seconds)
    return with_verdicts(with_suspects(features, thresholds, expectations, at=at), thresholds)


def load() -> None:
    """Import the modules of a triage, pyspark among them, while Spark starts."""
    from workbench.features import each, subscriptions  # noqa: F401
    from workbench.triage import anomalies, walk  # noqa: F401


def triage(
    capture: Capture,
    spark: SparkSession,
    *,
    thresholds: Thresholds | None = None,
    window: Window | None = None,
    groups: list[str] | None = None,
    topics: list[str] | None = None,
) -> Triage:
    """Analyse a capture.

    Args:
        capture: the measurements.
        spark: the Spark session.
        thresholds, window: replace the capture's own.
        groups, topics: only these.

    Raises:
        NoSeriesError: if the capture has no lag of these groups and topics.
    """
    limits = thresholds or capture.info.thresholds
    expected = Expectations(capture.info.expected)
    if groups is not None and len(groups) == 1:
        limits = expected.limits(limits, groups[0])
        # One group's limits are those of all; a batch is nothing that a limit says.
        expected_in_spark = expected if expected.of(groups[0]).settings.batch is not None else NOTHING_EXPECTED
    else:
        expected_in_spark = expected
    seen = window or capture.window
    samples = capture.samples_of(groups or (), topics or ())
    rows = features_of(answered(spark, samples, seen, limits, expected_in_spark).toArrow()) if samples.num_rows else []
    others = tuple(
        replace(it, muted=expected.of(it.group).muted(seen.end))
        for it in unjudged_in(
            capture.groups, without={row.group for row in rows}, only=groups or (), topics=topics or ()
        )
    )
    if not rows and not others:
        raise NoSeriesError(
            f"No lag of {_asked_for(groups, topics)} in the window or its baseline.",
            hint="Check the names, and that a profile fits the exporter: workbench profiles list",
        )
    profiles = profiles_named(capture.info.profiles)
    kinds = kinds_in(capture.groups)
    findings = [
        finding_of(
            row,
            samples,
            seen,
            limits,
            expected,
            profiles=profiles,
            bootstrap=capture.info.bootstrap,
            events=capture.events,
            kind=REDRIVE if is_redrive_plan(row.group) else kinds.get(row.group),
        )
        for row in rows
    ]
    findings.sort(key=lambda it: (ORDER.index(it.state), -(it.time_lag.seconds or 0.0), it.group, it.topic))
    return Triage(
        window=seen,
        source={"kind": capture.info.source, "cluster": capture.info.cluster, "profiles": capture.info.profiles},
        findings=tuple(findings),
        incomplete=tuple(capture.info.incomplete),
        not_judged=others,
        sources=tuple(capture.info.sources),
    )


def finding_of(
    row: SubscriptionFeatures,
    samples: pa.Table,
    window: Window,
    thresholds: Thresholds,
    expectations: Expectations,
    *,
    profiles: Sequence[Profile],
    bootstrap: str | None,
    events: Sequence[Mapping[str, Any]] = (),
    kind: str | None = None,
) -> Finding:
    """Build the finding of one subscription with the kind of its group, and with what is expected of it."""
    limits, expected = expectations.limits(thresholds, row.group), expectations.of(row.group)
    found = of_kind(
        build_finding(
            row,
            thresholds=limits,
            profiles=profiles,
            since=onset(samples, window, row, limits),
            bootstrap=bootstrap,
        ),
        kind,
    )
    changed = nearest_change(events, samples, window, group=row.group, topic=row.topic, since=found.since)
    return with_settings(replace(found, changed=changed), expected, window, now=window.end)


def _asked_for(groups: list[str] | None, topics: list[str] | None) -> str:
    parts = [f"group {name!r}" for name in groups or ()] + [f"topic {name!r}" for name in topics or ()]
    return ", ".join(parts) or "any group"


def profiles_named(names: Iterable[str]) -> list[Profile]:
    """Load the profiles of these names; unknown names are left out."""
    found = []
    for name in names:
        try:
            found.append(load_profile(name))
        except ConfigError:  # Kafka itself is a source without a profile; another version may know other profiles
            continue
    return found


def incomplete_verdict(findings: tuple[Finding, ...]) -> bool:
    """Whether a verdict is missing, of a group that is not muted."""
    return any(finding.state is State.CANNOT_TELL and finding.muted is None for finding in findings)
