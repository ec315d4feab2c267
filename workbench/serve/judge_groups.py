"""Triage of the groups of a cluster, through `workbench.api`, reduced to what is kept and sent."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from workbench.errors import NoSeriesError, WorkbenchError
from workbench.humanize import duration, listed, plural
from workbench.serve.broker_causes import is_over, origins_of
from workbench.serve.group_detail import packed
from workbench.serve.kept_verdict import Judged, attributed, no_longer_found, unknown, worse
from workbench.serve.spark_turns import SparkTurns
from workbench.triage.verdict_names import State

if TYPE_CHECKING:
    from workbench.alerts import Names
    from workbench.api import TriageResult
    from workbench.api.load_measurements import Measured
    from workbench.api.measurement_requests import Measurements
    from workbench.triage.finding import Finding

_log = logging.getLogger(__name__)
_RECENT = timedelta(hours=1)  # the start of an older alert is in the baseline
_BEFORE = timedelta(minutes=5)
AT_ONCE = 100  # groups of one triage: 500 with all signals filled the memory of Spark (2 GB)
_PICTURES = 10  # of one triage: as many as a message names; the other findings of a storm are kept without a picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What to judge.

    Attributes:
        groups: only these; empty: the whole cluster. since: when the first of the alerts began.
        pictures: also render the findings. give_way: asked after each part; if true, the rest is left.
        followed: (key, verdict) of causes on brokers that open incidents have.
    """

    cluster: str
    groups: tuple[str, ...] = ()
    since: datetime | None = None
    pictures: bool = True
    give_way: Callable[[], bool] = lambda: False
    followed: tuple[tuple[str, str], ...] = ()


class GivenWayError(WorkbenchError):
    """A triage has been left for something more urgent."""


Judge = Callable[[Question], Sequence[Judged]]


def _groups_in(measured: Measured) -> set[str]:
    return {str(it) for it in measured.capture.samples["group"].unique().to_pylist() if it}


def with_origins(judged: list[Judged], measured: Measured, question: Question) -> list[Judged]:
    """The verdicts, and causes on brokers with those that they hit."""
    from workbench.api.who_slows_whom import impact_of
    from workbench.features.broker_features import neighbourhood, tells_of_brokers

    kept = measured.capture
    if not tells_of_brokers(kept.samples):
        return judged
    try:
        all_of = neighbourhood(kept.samples, kept.groups, measured.window)
        if not all_of.servers and not any(it is None for it in all_of.leaders.values()):
            return judged
        found = impact_of(kept, all_of)
        result = attributed(judged, origins_of(found))
    except Exception:  # the groups have their verdicts all the same
        _log.exception("the brokers of %s were not compared", question.cluster)
        return judged
    seen = {it.cause for it in result if it.origin is not None}
    ended = [
        no_longer_found(key) for key, verdict in question.followed if key not in seen and is_over(key, verdict, found)
    ]
    return [*sorted(result, key=worse), *ended]


@dataclass(slots=True, kw_only=True)
class SparkJudge:
    """Triage by `workbench.api`, with the Spark session of this process."""

    config: Path | None = None
    turns: SparkTurns = field(default_factory=SparkTurns)
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))

    def __call__(self, question: Question) -> Sequence[Judged]:
        """Judge a cluster.

        Raises:
            WorkbenchError: as `workbench.api.triage`.
        """
        from workbench.api.load_measurements import measure
        from workbench.api.measurement_requests import Measurements, Times
        from workbench.api.triages import dispatched

        # A cluster that is asked itself is judged as it is now, whenever the alert began.
        asked = dispatched(Measurements(cluster=question.cluster, groups=question.groups, config=self.config))
        if asked is not None:
            return sorted(self._judged(asked, set(), pictures=False), key=worse)
        # Who holds a group up is known by those who share its brokers.
        whole = self._are_brokers_measured(question.cluster) or len(question.groups) > AT_ONCE
        request = Measurements(
            cluster=question.cluster,
            groups=() if whole else question.groups,
            times=Times(since=self._start(question)),
            config=self.config,
        )
        try:
            measured = measure(request)
        except NoSeriesError:
            if len(request.groups) < 2:
                raise
            request = replace(request, groups=())  # one of them has gone
            measured = measure(request)
        groups = question.groups or tuple(sorted(_groups_in(measured)))
        return with_origins(self._in_parts(measured, request, groups, question), measured, question)

    def _are_brokers_measured(self, cluster: str) -> bool:
        from workbench.features.broker_features import OF_SERVERS
        from workbench.profiles import load_profile
        from workbench.settings import load_settings

        of_brokers = set(OF_SERVERS)
        profiles = load_settings(self.config).cluster(cluster).profiles
        return any(of_brokers & load_profile(it).signals.keys() for it in profiles)

    def _in_parts(
        self, measured: Measured, request: Measurements, groups: tuple[str, ...], question: Question
    ) -> list[Judged]:
        """Judge some groups at a time: Spark's memory for a triage does not grow with the cluster."""
        from workbench.api.triages import judge

        found: list[Judged] = []
        for start in range(0, max(1, len(groups)), AT_ONCE):
            if start and question.give_way():
                raise GivenWayError("New alerts come first.")
            part = groups[start : start + AT_ONCE]
            try:
                result = judge(measured, replace(request, groups=part), turn=self.turns.turn())
            except NoSeriesError:
                continue  # no group of this part has data; the alert is told so
            found += self._judged(result, set(part), pictures=question.pictures and not found)
        return sorted(found, key=worse)

    def _start(self, question: Question) -> str | None:
        """Start of the window: the usual one, or earlier if an alert began before it."""
        from workbench.settings import load_settings

        settings = load_settings(self.config)
        length = settings.windows_of(settings.cluster(question.cluster)).length
        if question.since is None or not length < self.now() - question.since <= _RECENT:
            return None
        return (question.since - min(_BEFORE, length)).isoformat()

    def _judged(self, found: TriageResult, groups: set[str], *, pictures: bool) -> list[Judged]:
        chosen = [it for it in found.findings if not groups or it.group in groups]
        result = []
        for number, finding in enumerate(chosen):
            drawn = pictures and number < _PICTURES and finding.state is not State.HEALTHY
            picture, trend = (_picture(finding, found), _trend(finding, found)) if drawn else (None, None)
            detail = packed(finding, found.capture)
            kept = replace(reduced(finding), picture=picture, trend=trend, detail=detail)
            result.append(_as_far_as_seen(kept, found.capture.unanswered))
        result += [
            unknown(it.group, listed, it.headline.removeprefix("Cannot tell: "), cause=f"kind:{it.kind}")
            for it in found.triage.not_judged
            if not groups or it.group in groups
            for listed in (it.topics or ("",))
        ]
        return result

    def warm_up(self, recorded: Path | None) -> None:
        """Start Spark, and let it judge a recording, so that the first alert finds its code loaded."""
        from workbench import api
        from workbench.report.html_report import environment
        from workbench.spark.session import start_in_background

        start_in_background()
        environment().get_template("finding.html.j2")
        if recorded is None:
            return
        try:
            with self.turns.turn():
                found = api.triage(capture=recorded)
            self._judged(found, set(), pictures=True)
        except WorkbenchError:
            return  # the next triage tells what is wrong

    def names(self) -> Names:
        """How alerts name groups and clusters, by the settings of now."""
        from workbench.alerts import NO_NAMES, Names
        from workbench.settings import load_settings

        try:
            return Names.of(load_settings(self.config))
        except WorkbenchError:
            return NO_NAMES  # the next triage tells what is wrong

    def clusters(self) -> Mapping[str, object]:
        """Clusters of the settings by name; a running lab only if there are none."""
        from workbench.settings import LAB_CLUSTER, load_settings

        settings = load_settings(self.config)
        if settings.clusters:
            return settings.clusters
        try:
            return {LAB_CLUSTER: settings.cluster(LAB_CLUSTER)}
        except WorkbenchError:
            return {}


def _as_far_as_seen(judged: Judged, unanswered: Sequence[str]) -> Judged:
    """No all-clear by a part of the measurements: what a source did not answer may lag."""
    if not unanswered or judged.state != State.HEALTHY:
        return judged
    reason = f"what was measured is well, but a part is missing: {listed(unanswered, most=1)}."
    return replace(
        unknown(judged.group, judged.topic, reason, cause="unanswered"), detail=judged.detail, muted=judged.muted
    )


def reduced(finding: Finding) -> Judged:
    """Reduce a finding; without pictures."""
    shared = finding.scope.brokers
    return Judged(
        group=finding.group,
        topic=finding.topic,
        verdict=str(finding.verdict),
        state=str(finding.state),
        headline=finding.headline,
        cause=":".join((str(finding.verdict), *sorted(shared))),
        time_lag_seconds=finding.time_lag.seconds,
        time_lag_words=finding.time_lag.words,
        lag_messages=finding.lag_messages,
        actions=tuple(
            it.title for it in finding.actions[:3]
        ),  # commands are on the page: a chat would change their characters
        runbook=finding.own_runbook or finding.runbook,
        owner=finding.owner,
        muted=finding.muted,
    )


def _trend(finding: Finding, found: TriageResult) -> str | None:
    """Its lag over the window, as a picture that any chat shows, and that no chat has to fetch."""
    from workbench.features.chart_series import highest, series_of, total
    from workbench.report.terminal import sparkline

    window = found.triage.window
    series = series_of(found.capture.samples, window, group=finding.group, topic=finding.topic)
    for name, line, words in (
        ("Time lag", highest(series.time_lag, "time lag"), duration),
        ("Lag", total(series.lag, "lag"), lambda number: plural(round(number), "message")),
    ):
        if line is not None and (drawn := sparkline(line.values)):
            length = duration((window.end - window.start).total_seconds())
            return f"{name}, last {length}: {drawn.replace(' ', '·')} at most {words(float(np.nanmax(line.values)))}"
    return None


def _picture(finding: Finding, found: TriageResult) -> str:
    from workbench.report.html_report import section_of

    return section_of(finding, "finding", found.capture, found.triage.window).body
