"""Health report: every subscription of a cluster, worst first, changes since the last run, and what could not be judged."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from workbench.collect.capture import Capture, read_capture
from workbench.errors import ExitCode
from workbench.humanize import count, duration, percent, plural, printable
from workbench.report.budget import Budget, budgets
from workbench.report.result import SCHEMA, read_previous
from workbench.report.sizing import SizingAdvice, sizing_of
from workbench.settings import Thresholds, load_settings
from workbench.triage.engine import Triage, incomplete_verdict, triage
from workbench.triage.finding import Finding
from workbench.triage.verdict import State
from workbench.window import Window, parse_instant

# A change of the time lag by less than this share is noise between two looks a day apart.
_SAME = 0.2
# From so many samples on, compiling Spark's stages costs less than not to.
_MUCH = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLine:
    """One subscription of the overview.

    Attributes:
        trend: against the last run: new, worse, better, same, recovered, or None if there was none.
        budget: None if its time lag was never measured in the period.
    """

    finding: Finding
    budget: Budget | None
    trend: str | None
    before_seconds: float | None = None

    @property
    def budget_words(self) -> str:
        """The error budget in half a line."""
        it = self.budget
        if it is None:
            return "cannot tell: time lag was not measured"
        if it.holds is False:
            return f"exceeded: {duration(it.late_seconds)} late, {duration(it.allowed_seconds)} allowed"
        if it.holds is None:
            return f"cannot tell: only {percent(it.known_share)} of the period measured"
        return f"within budget: {duration(it.late_seconds)} late of {duration(it.allowed_seconds)} allowed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Result of one run."""

    run_id: str
    capture: Capture
    triage: Triage
    start: datetime
    end: datetime
    lines: tuple[HealthLine, ...]
    sizing: SizingAdvice
    previous_run: str | None = None
    gone: tuple[str, ...] = field(default=())

    @property
    def states(self) -> dict[str, int]:
        """Number of subscriptions by state, including states without any."""
        found = Counter(line.finding.state for line in self.lines)
        return {str(state): found[state] for state in State}

    @property
    def exit_code(self) -> ExitCode:
        """Exit code; findings outweigh "cannot tell"."""
        if self.states[State.LAGGING]:
            return ExitCode.FINDINGS
        return ExitCode.EVIDENCE if incomplete_verdict(self.triage.findings) else ExitCode.OK

    @property
    def sentence(self) -> str:
        """The whole report in one sentence."""
        states = self.states
        parts = [f"{states[state]} {str(state).replace('_', ' ')}" for state in State if states[state]]
        return f"{plural(len(self.lines), 'subscription')}: {', '.join(parts)}."

    @property
    def over_budget(self) -> int:
        """Number of subscriptions that have exceeded their error budget."""
        return sum(line.budget is not None and line.budget.holds is False for line in self.lines)

    @property
    def budget_unknown(self) -> int:
        """Number of subscriptions whose error budget is unknown."""
        return sum(line.budget is None or line.budget.holds is None for line in self.lines)

    @property
    def not_judged(self) -> tuple[tuple[Finding, str], ...]:
        """Subscriptions that could not be judged, and why."""
        return tuple((it.finding, it.finding.headline) for it in self.lines if it.finding.state is State.CANNOT_TELL)

    def to_json(self) -> dict[str, Any]:
        """The document `workbench.health/1`."""
        return {
            "schema": SCHEMA,
            "run_id": self.run_id,
            "cluster": self.capture.info.cluster,
            "source": self.triage.source,
            "period": {"start": self.start.isoformat(), "end": self.end.isoformat()},
            "judged": self.triage.window.to_json(),
            "exit_code": int(self.exit_code),
            "subscriptions": len(self.lines),
            "states": self.states,
            "verdicts": dict(Counter(str(line.finding.verdict) for line in self.lines)),
            "over_budget": self.over_budget,
            "budget_unknown": self.budget_unknown,
            "incomplete": list(self.triage.incomplete),
            "previous_run": self.previous_run,
            "gone": list(self.gone),
            "sizing": self.sizing.to_json(),
            "lines": [_line_json(line) for line in self.lines],
            "findings": [line.finding.to_json() for line in self.lines if line.finding.state is not State.HEALTHY],
        }


def _line_json(line: HealthLine) -> dict[str, Any]:
    it = line.finding
    return {
        "group": it.group,
        "topic": it.topic,
        "state": str(it.state),
        "verdict": str(it.verdict),
        "headline": it.headline,
        "time_lag_seconds": it.time_lag.seconds,
        "lag_messages": it.lag_messages,
        "trend": line.trend,
        "budget": line.budget.to_json() if line.budget is not None else None,
    }


def look(
    *,
    cluster: str = "",
    capture: str = "",
    since: str = "",
    until: str = "",
    config: str = "",
    previous: str = "",
    run_id: str = "",
) -> Health:
    """Collect a period and run triage on its end.

    Triage covers the end of the period, with the length of the settings' window; the error budget covers all of it.

    Args:
        cluster, capture: a cluster of the settings, or a recorded folder.
        since, until: the period, ISO 8601 with zone; empty: all of a capture.
        previous: path of the last run's result.json, for the trend; empty or unreadable: none.

    Raises:
        SourceUnreachableError: if the source does not answer. NoSeriesError: if it has nothing.
    """
    from workbench.spark.session import for_much_data, session, start_in_background

    start_in_background()
    if capture:
        recorded = read_capture(Path(capture))
        window = recorded.window
        start = parse_instant(since) if since else window.baseline_start
        end = parse_instant(until) if until else window.end
        if end != window.end:
            window = Window(baseline_start=start, start=max(start, end - (window.end - window.start)), end=end)
    else:
        recorded, window, start, end = _collected(cluster, since, until, config)
    spark = session()
    if recorded.samples.num_rows > _MUCH:
        for_much_data(spark)
    result = triage(recorded, spark, window=window)
    spent = budgets(
        recorded.samples,
        spark,
        start=start,
        end=end,
        objective_seconds=recorded.info.thresholds.time_lag_objective_seconds,
    )
    return assess(recorded, result, spent, start=start, end=end, previous=read_previous(previous), run_id=run_id)


def _collected(cluster: str, since: str, until: str, config: str) -> tuple[Capture, Window, datetime, datetime]:
    from workbench.collect import live

    settings = load_settings(Path(config) if config else None)
    chosen = settings.cluster(cluster)
    thresholds: Thresholds = settings.thresholds_of(chosen)
    lengths = settings.windows_of(chosen)
    start, end = parse_instant(since), parse_instant(until)
    window = Window.ending(end, length=lengths.length, baseline=lengths.baseline)
    asked = Window(baseline_start=min(start, window.baseline_start), start=window.start, end=end)
    return live.collect(chosen, asked, thresholds=thresholds), window, start, end


def assess(
    capture: Capture,
    result: Triage,
    spent: Mapping[tuple[str, str], Budget],
    *,
    start: datetime,
    end: datetime,
    previous: Mapping[str, Any] | None = None,
    run_id: str = "",
) -> Health:
    """Combine the results; pure."""
    before = {(it["group"], it["topic"]): it for it in (previous or {}).get("lines", [])}
    lines = tuple(
        HealthLine(
            finding=finding,
            budget=spent.get((finding.group, finding.topic)),
            trend=_trend(finding, before.get((finding.group, finding.topic))) if previous is not None else None,
            before_seconds=(before.get((finding.group, finding.topic)) or {}).get("time_lag_seconds"),
        )
        for finding in result.findings
    )
    seen = {(finding.group, finding.topic) for finding in result.findings}
    return Health(
        run_id=run_id,
        capture=capture,
        triage=result,
        start=start,
        end=end,
        lines=lines,
        sizing=sizing_of(result.findings, capture),
        previous_run=(previous or {}).get("run_id"),
        gone=tuple(f"{group} ← {topic}" for group, topic in sorted(before) if (group, topic) not in seen),
    )


def _trend(finding: Finding, before: Mapping[str, Any] | None) -> str:
    if before is None:
        return "new"
    sick, was_sick = finding.state is State.LAGGING, before["state"] == State.LAGGING
    if sick != was_sick:
        # "Cannot tell" is neither recovered nor worse.
        if finding.state is State.CANNOT_TELL or before["state"] == State.CANNOT_TELL:
            return "unknown"
        return "worse" if sick else "recovered"
    now, then = finding.time_lag.seconds, before["time_lag_seconds"]
    if now is None or then is None:
        return "unknown"
    if abs(now - then) <= _SAME * max(now, then, 1.0):
        return "same"
    return "worse" if now > then else "better"


def publish(health: Health, out: str) -> None:
    """Write report.html and result.json into a folder; without one, nothing.

    Raises:
        OutputError: if they cannot be written.
    """
    if not out:
        return
    from workbench.report.html import render_html
    from workbench.report.runs.record import REPORT, RESULT, write_durably

    folder = Path(out)
    write_durably(folder / REPORT, render_html(health.triage, health.capture, health=health))
    # Last, so that every result has a report.
    write_durably(folder / RESULT, json.dumps(health.to_json(), allow_nan=False, indent=1, default=str) + "\n")


def overview(health: Health, *, most: int = 30) -> str:
    """The worst subscriptions as plain text: a notebook's output that holds no markup, whatever names there are."""
    rows: Sequence[tuple[str, ...]] = [
        (
            str(line.finding.state).replace("_", " "),
            str(line.finding.verdict),
            duration(line.finding.time_lag.seconds),
            count(line.finding.lag_messages),
            line.trend or "-",
            f"{printable(line.finding.group)} ← {printable(line.finding.topic)}",
        )
        for line in health.lines[:most]
    ]
    head = ("state", "verdict", "time lag", "lag", "trend", "subscription")
    widths = [max(len(row[n]) for row in [head, *rows]) for n in range(len(head) - 1)]
    text = [
        "  ".join([*(row[n].ljust(widths[n]) for n in range(len(widths))), row[-1]]).rstrip() for row in [head, *rows]
    ]
    more = len(health.lines) - len(rows)
    return "\n".join([health.sentence, "", *text, *([f"… and {more} more in the report"] if more > 0 else [])])
