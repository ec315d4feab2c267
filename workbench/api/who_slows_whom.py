"""Impact: who slows whom on a cluster's brokers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.api.load_measurements import measure
from workbench.api.measurement_requests import Measurements, Times
from workbench.api.run_progress import SILENT, Progress
from workbench.errors import ExitCode
from workbench.humanize import plural
from workbench.queues.tool_words import tools_of

if TYPE_CHECKING:
    from workbench.api.sql_over_samples import Drawn
    from workbench.collect.capture import Capture
    from workbench.features.broker_features import Neighbourhood
    from workbench.triage.broker_findings import BrokerLook
    from workbench.triage.finding import Action
    from workbench.triage.who_holds_up_whom import Impact


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A part of an answer that a notebook shows; its text is escaped."""

    html: str = field(repr=False)

    def _repr_html_(self) -> str:
        return self.html


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpactResult:
    """Who slows whom.

    Attributes:
        cluster: its name.
        found: causes, each with its offender, victims and what was compared; readers that are not accused; the answer.
        actions: of each cause, a cap with its command, and the way back.
        brokers: what is wrong with brokers, no matter who reads, with the groups that it hits.
        incomplete: what the sources have left out, a sentence each.
        seen: lines over time, of brokers and of everybody that they serve.
    """

    cluster: str
    found: Impact
    actions: tuple[Sequence[Action], ...]
    brokers: BrokerLook
    incomplete: tuple[str, ...] = ()
    seen: Neighbourhood = field(repr=False)

    @property
    def exit_code(self) -> ExitCode:
        """3 with a cause or a finding about a broker, 4 if it cannot be told, else 0."""
        from workbench.triage.verdict_names import Answer

        if self.brokers.findings:
            return ExitCode.FINDINGS
        codes = {Answer.YES: ExitCode.FINDINGS, Answer.NO: ExitCode.OK, Answer.CANNOT_TELL: ExitCode.EVIDENCE}
        return codes[self.found.answer]

    def to_json(self) -> dict[str, Any]:
        """The document `workbench.impact/1`."""
        from workbench.triage.who_holds_up_whom import document

        return {
            **document(self.found, self.cluster, self.actions),
            "broker_findings": [it.to_json() for it in self.brokers.findings],
            "silent": list(self.brokers.silent),
            "unknown": {verdict: list(signals) for verdict, signals in self.brokers.unknown.items()},
            "unsuited": dict(self.brokers.unsuited),
            "incomplete": list(self.incomplete),
        }

    @property
    def charts(self) -> list[Drawn]:
        """For a notebook: of each cause what the offender moves, who waits since then, and who is on which broker."""
        from workbench.api.sql_over_samples import Drawn
        from workbench.report.charts import PLOTLY_CONFIG, escape_plotly
        from workbench.report.who_slows_whom_charts import charts_of_cause

        made = [chart for cause in self.found.causes for chart in charts_of_cause(self.seen, cause)]
        return [
            Drawn(
                figure={
                    **it.figure,
                    "layout": {**it.figure["layout"], "title": {"text": escape_plotly(it.title)}},
                    "config": PLOTLY_CONFIG,
                },
                note=it.title,
            )
            for it in made
        ]

    def write_html(self, path: Path) -> None:
        """Write a page that works offline.

        Raises:
            UsageError: if it cannot be written there.
        """
        from workbench.report.html_report import write_page
        from workbench.report.who_slows_whom_page import render_impact

        text = render_impact(
            self.cluster, self.found, self.actions, self.brokers, self.seen, incomplete=self.incomplete
        )
        write_page(path, text)

    @property
    def others(self) -> Shown:
        """For a notebook: brokers in trouble by themselves, who is not accused and why, and what is not measured."""
        from workbench.report.who_slows_whom_page import others_fragment

        return Shown(html=others_fragment(self.found, self.brokers))

    def _repr_html_(self) -> str:
        from workbench.report.who_slows_whom_page import answer_fragment

        return answer_fragment(self.found, self.actions, incomplete=self.incomplete)


def impact(
    *,
    cluster: str | None = None,
    capture: str | Path | None = None,
    since: str | None = None,
    until: str | None = None,
    baseline: str | None = None,
    observe: str | None = None,
    config: Path | None = None,
    progress: Progress = SILENT,
) -> ImpactResult:
    """Find out which group, client or producer slows others on the brokers that they share: a correlation, with what speaks for it.

    Needs the lag of groups by partition, leaders (Kafka itself: `bootstrap`) and the brokers' own metrics
    (profile `jmx_kafka_broker`, or another of docs/impact.md). What is missing is named, and leads to "cannot tell".

    Args:
        cluster, capture: a cluster of the settings, or a recorded folder; one of the two.
        since, until: timestamps with a time zone, or `15m ago`; default: the last 15 minutes.
        baseline: length of the time before it to compare with, such as `1h` (default).
        observe: without a Prometheus: record the cluster for this time first, such as `5m`; its first third is the baseline.
        config: the settings file; None: `$WORKBENCH_CONFIG`, `./workbench.toml`, or the user's.
        progress: receives the steps.

    Raises:
        WorkbenchError: as `triage`; Spark is not needed.
    """
    from workbench.features.broker_features import neighbourhood
    from workbench.window import Window

    request = Measurements(
        cluster=cluster,
        capture=None if capture is None else Path(capture),
        times=Times(since=since, until=until, baseline=baseline),
        observe=observe,
        config=config,
    )
    measured = measure(request, progress=progress, spark=False)
    kept, window = measured.capture, measured.window
    if observe is not None:  # nothing was recorded before
        window = Window(
            baseline_start=window.start, start=window.start + (window.end - window.start) / 3, end=window.end
        )
    with progress.step("Comparing brokers and groups, before and after") as step:
        all_of = neighbourhood(kept.samples, kept.groups, window)
        found = impact_of(kept, all_of, quotas=lambda: _quotas(cluster, config))
        groups = len({group for group, _ in all_of.groups})
        step.note = f"{plural(groups, 'group')}, {plural(len(all_of.brokers), 'broker')}"
    return found


def impact_of(
    kept: Capture,
    all_of: Neighbourhood,
    *,
    quotas: Callable[[], Mapping[tuple[str, bool], float] | None] = lambda: None,
) -> ImpactResult:
    """Judge brokers and their neighbours; `quotas` tells those that are set, and is asked only if somebody is to be capped."""
    from workbench.collect.capture import NO_BASELINE
    from workbench.triage.blame_heavy_readers import blame
    from workbench.triage.brokers import judge_brokers
    from workbench.triage.who_holds_up_whom import actions_of

    tools = tools_of(kept.bootstrap, login_file=kept.login_file)
    found = blame(all_of, kept.info.thresholds)
    brokers = judge_brokers(all_of, found, kept.info.thresholds, tools, no_replicas=_no_replicas(kept.info.profiles))
    told = quotas() if found.causes else None
    return ImpactResult(
        cluster=kept.info.cluster,
        found=found,
        actions=tuple(actions_of(it, tools, told) for it in found.causes),
        brokers=brokers,
        seen=all_of,
        incomplete=tuple(text for text in kept.info.incomplete if text != NO_BASELINE),  # its first third is one
    )


def _no_replicas(profiles: Sequence[str]) -> str | None:
    """Why brokers that are measured so have no replicas; a capture may name a profile that this machine lacks."""
    from workbench.errors import ConfigError
    from workbench.profiles import load_profile

    for name in profiles:
        with suppress(ConfigError):
            if (reason := load_profile(name).no_replicas) is not None:
                return reason
    return None


def _quotas(cluster: str | None, config: Path | None) -> Mapping[tuple[str, bool], float] | None:
    """What is set for client ids now; None of a recording, or if the cluster does not tell."""
    from workbench.queues.systems import system_of
    from workbench.settings import load_settings

    chosen = load_settings(config).cluster(cluster) if cluster is not None else None
    if chosen is None or chosen.bootstrap is None:
        return None
    return system_of(chosen).observer(chosen).client_quotas()
