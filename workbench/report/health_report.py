"""Health report: every subscription of a cluster, worst first, changes since the last run, and what could not be judged."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from workbench.collect.capture import Capture
from workbench.errors import ExitCode
from workbench.humanize import duration, groups_on_topics, percent, plural, printable
from workbench.json_values import fields_of
from workbench.report.dead_letters import DeadLetterLine, dead_letters_in
from workbench.report.error_budget import SHORTEST_SECONDS, Budget
from workbench.report.health_audit_lines import StreamLine
from workbench.report.health_broker_lines import BrokerLine
from workbench.report.health_result import NEWS, SCHEMA
from workbench.report.sizing_advice import SizingAdvice, sizing_of
from workbench.report.state_before_kafka import BeforeKafka
from workbench.triage.finding import Finding
from workbench.triage.owner_links_commands import WAITING
from workbench.triage.triage_engine import Triage, incomplete_verdict
from workbench.triage.verdict_names import State

_DAY_SECONDS = 86_400.0
# A change of the time lag by less than this share is noise between two looks a day apart.
_SAME = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLine:
    """One subscription of the overview.

    Attributes:
        trend: against the last run: new, worse, better, same, recovered, or None if there was none.
        budget: None if its time lag was never measured in the period.
        was: its state in the last run; None if it was not in it.
        lagging_since: end of the first of the runs in a row in which it was behind; None if it is not.
    """

    finding: Finding
    budget: Budget | None
    trend: str | None
    before_seconds: float | None = None
    was: str | None = None
    lagging_since: datetime | None = None

    @property
    def waits(self) -> bool:
        """Whether it is a planned replay that nobody has started yet: no trouble, and no news."""
        return self.finding.muted == WAITING

    @property
    def news(self) -> str | None:
        """One of `NEWS`; None without an earlier run, and for what is well as before or cannot be told."""
        behind, was_behind = (it in (State.LAGGING, State.DRAINING) for it in (self.finding.state, self.was))
        if self.trend is None or self.waits:
            return None
        if behind and was_behind:
            return "worse" if self.trend == "worse" else "still"
        if was_behind:
            return "fixed" if self.finding.state is State.HEALTHY else None
        return "new" if self.finding.state is State.LAGGING else None

    def news_words(self, end: datetime) -> str:
        """What is to be known about it, in half a line; `end`: of the period."""
        it = self.finding
        if self.news == "fixed":
            return f"was {duration(self.before_seconds)} behind" if self.before_seconds is not None else "was behind"
        behind = f"{it.time_lag.words} behind"
        if self.news != "new" and self.lagging_since is not None:
            behind += f" {_how_long((end - self.lagging_since).total_seconds())}"
        parts = [str(it.verdict).replace("_", " "), behind]
        if self.news != "new" and self.before_seconds is not None:
            parts.append(f"was {duration(self.before_seconds)}")
        if self.news == "new" and self.was == State.CANNOT_TELL:
            parts.append("could not be judged before")
        return ", ".join(parts)

    @property
    def budget_words(self) -> str:
        """The error budget in half a line."""
        it = self.budget
        if it is None:
            return "cannot tell: time lag was not measured"
        if it.too_short:
            why = f"an error budget needs at least {duration(SHORTEST_SECONDS)}"
            return (
                f"late for {duration(it.late_seconds)} of {duration(it.period_seconds)} ({why})"
                if it.late_seconds
                else why
            )
        if it.holds is False:
            return f"exceeded: {duration(it.late_seconds)} late, {duration(it.allowed_seconds)} allowed"
        if it.holds is None:
            return f"cannot tell: only {percent(it.known_share)} of the period measured"
        return f"within budget: {duration(it.late_seconds)} late of {duration(it.allowed_seconds)} allowed"


@dataclass(frozen=True, kw_only=True)
class Health:
    """Result of one run. What a page asks for at each of thousands of lines is computed once."""

    run_id: str
    capture: Capture
    triage: Triage
    start: datetime
    end: datetime
    lines: tuple[HealthLine, ...]
    sizing: SizingAdvice
    previous_run: str | None = None
    previous_end: datetime | None = None
    gone: tuple[str, ...] = field(default=())
    dead_letters: tuple[DeadLetterLine, ...] = ()
    arrivals: tuple[StreamLine, ...] = ()
    brokers: tuple[BrokerLine, ...] = ()
    brokers_unsure: str | None = None
    before_kafka: BeforeKafka | None = None

    @property
    def compared_with(self) -> str:
        """The previous run by its period's end, and how long that was before this one's."""
        if self.previous_end is None or self.previous_end > self.end:
            return printable(self.previous_run or "no earlier run")
        earlier = duration((self.end - self.previous_end).total_seconds())
        return f"{self.previous_end.astimezone(UTC):%Y-%m-%d %H:%M} UTC, {earlier} earlier"

    @cached_property
    def states(self) -> dict[str, int]:
        """Number of subscriptions by state, including states without any."""
        found = Counter(line.finding.state for line in self.lines)
        return {str(state): found[state] for state in State}

    @property
    def exit_code(self) -> ExitCode:
        """Exit code; findings outweigh "cannot tell"; muted ones do not count."""
        if any(line.finding.state is State.LAGGING and line.finding.muted is None for line in self.lines):
            return ExitCode.FINDINGS
        upstream = self.before_kafka
        if self.brokers or any(it.is_breach for it in self.arrivals) or (upstream and upstream.is_fault):
            return ExitCode.FINDINGS
        unsure = (
            (upstream and upstream.is_open)
            or any(it.is_open for it in self.arrivals)
            or incomplete_verdict(self.triage.findings)
            or any(it.muted is None for it in self.triage.not_judged)
        )
        return ExitCode.EVIDENCE if unsure else ExitCode.OK

    @property
    def sentence(self) -> str:
        """The whole report in one sentence."""
        states = Counter(str(line.finding.state) for line in self.lines if not line.waits)
        parts = [f"{states[state]} {str(state).replace('_', ' ')}" for state in State if states[state]]
        if self.waiting:
            parts.append(plural(len(self.waiting), "planned replay"))
        others = len(self.triage.not_judged)
        beside = f" {plural(others, 'group')} that cannot be judged." if others else ""
        causes = f" {plural(len(self.brokers), 'cause')} on brokers." if self.brokers else ""
        return f"{groups_on_topics(len(self.lines))}: {', '.join(parts)}.{beside}{causes}"

    def held_up_by(self, group: str) -> str | None:
        """Headline of the cause on brokers that hits a group."""
        return next((it.headline for it in self.brokers if group in it.groups), None)

    @property
    def waiting(self) -> tuple[HealthLine, ...]:
        """Planned replays without consumers yet."""
        return tuple(line for line in self.lines if line.waits)

    @property
    def news(self) -> dict[str, tuple[HealthLine, ...]]:
        """What has changed since the last run, worst first, and what has not though it should; kinds without any are left out."""
        found = {kind: tuple(line for line in self.lines if line.news == kind) for kind in NEWS}
        return {kind: lines for kind, lines in found.items() if lines}

    @cached_property
    def kinds_differ(self) -> bool:
        """Whether a column of kinds would tell anything."""
        kinds = {line.finding.kind for line in self.lines} | {it.kind for it in self.triage.not_judged}
        return len(kinds) > 1

    @cached_property
    def budgets_differ(self) -> bool:
        """Whether a column of error budgets would tell anything."""
        return len({self.budget_cell(line) for line in self.lines}) > 1 or self.budget_unknown < len(self.lines)

    def budget_cell(self, line: HealthLine) -> str:
        """Its error budget, or how late it was in a period that is too short for one: why there is none is said above."""
        it = line.budget
        if self.too_short is None or it is None:
            return line.budget_words
        return f"{duration(it.late_seconds)} late" if it.late_seconds else "–"

    @property
    def budget_sentence(self) -> str:
        """How many error budgets are exceeded, out of those that can be judged."""
        judged = len(self.lines) - self.budget_unknown
        if self.too_short is not None:
            return self.too_short
        if not judged:
            return "No error budget can be judged: too little of the period was measured."
        over = self.over_budget or "None"
        beside = f" For {self.budget_unknown} it cannot be judged." if self.budget_unknown else ""
        have = "has" if self.over_budget <= 1 else "have"
        return f"{over} of {plural(judged, 'error budget')} {have} been exceeded (99.99 % of the time within the objective).{beside}"

    @cached_property
    def over_budget(self) -> int:
        """Number of subscriptions that have exceeded their error budget."""
        return sum(line.budget is not None and line.budget.holds is False for line in self.lines)

    @cached_property
    def too_short(self) -> str | None:
        """Why there is no error budget, if the period is too short for one."""
        length = (self.end - self.start).total_seconds()
        if length >= SHORTEST_SECONDS:
            return None
        return f"There are no error budgets: {duration(length)} is too short, they need {duration(SHORTEST_SECONDS)} or more."

    @cached_property
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
            "sizing": fields_of(self.sizing),
            "dead_letters": [it.to_json() for it in self.dead_letters],
            "arrivals": [fields_of(it) for it in self.arrivals],
            "brokers": [fields_of(it) for it in self.brokers],
            "brokers_unsure": self.brokers_unsure,
            "before_kafka": self.before_kafka.to_json() if self.before_kafka is not None else None,
            "lines": [_line_json(line) for line in self.lines],
            "not_judged": [group.to_json() for group in self.triage.not_judged],
            "findings": [line.finding.to_json() for line in self.lines if line.finding.state is not State.HEALTHY],
        }


def _line_json(line: HealthLine) -> dict[str, Any]:
    it = line.finding
    return {
        "group": it.group,
        "owner": it.owner,
        "runbook": it.own_runbook or it.runbook,
        "muted": it.muted,
        "topic": it.topic,
        "kind": it.kind,
        "state": str(it.state),
        "verdict": str(it.verdict),
        "headline": it.headline,
        "time_lag_seconds": it.time_lag.seconds,
        "time_lag_words": it.time_lag.words,
        "lag_messages": it.lag_messages,
        "lag_entries": it.lag_entries,
        "trend": line.trend,
        "news": line.news,
        "lagging_since": line.lagging_since.isoformat() if line.lagging_since is not None else None,
        "budget": line.budget.to_json() if line.budget is not None else None,
    }


def assess(
    capture: Capture,
    result: Triage,
    spent: Mapping[tuple[str, str], Budget],
    *,
    start: datetime,
    end: datetime,
    previous: Mapping[str, Any] | None = None,
    run_id: str = "",
    letter_topics: Sequence[str] = (),
    arrivals: Sequence[StreamLine] = (),
    brokers: Sequence[BrokerLine] = (),
    brokers_unsure: str | None = None,
    before_kafka: BeforeKafka | None = None,
) -> Health:
    """Combine the results; pure. `letter_topics` are the settings' patterns of dead-letter topics; empty: by convention."""
    before = {(it["group"], it["topic"]): it for it in (previous or {}).get("lines", [])}
    lines = tuple(
        HealthLine(
            finding=finding,
            budget=spent.get((finding.group, finding.topic)),
            trend=_trend(finding, before.get((finding.group, finding.topic))) if previous is not None else None,
            before_seconds=(before.get((finding.group, finding.topic)) or {}).get("time_lag_seconds"),
            was=(before.get((finding.group, finding.topic)) or {}).get("state"),
            lagging_since=_lagging_since(finding, before.get((finding.group, finding.topic)), _end_of(previous), end),
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
        previous_end=_end_of(previous),
        gone=tuple(f"{group} ← {topic}" for group, topic in sorted(before) if (group, topic) not in seen),
        dead_letters=dead_letters_in(capture.samples, start=start, end=end, patterns=letter_topics),
        arrivals=tuple(arrivals),
        brokers=tuple(brokers),
        brokers_unsure=brokers_unsure,
        before_kafka=before_kafka,
    )


def _end_of(previous: Mapping[str, Any] | None) -> datetime | None:
    """End of the period of an earlier run; a result of another program may have none."""
    try:
        return datetime.fromisoformat((previous or {})["period"]["end"])
    except (KeyError, TypeError, ValueError):
        return None


def _lagging_since(
    finding: Finding, before: Mapping[str, Any] | None, previous_end: datetime | None, end: datetime
) -> datetime | None:
    """Since which run it is behind, as the runs in a row say."""
    if finding.state not in (State.LAGGING, State.DRAINING):
        return None
    if before is None or before["state"] not in (State.LAGGING, State.DRAINING):
        return end
    try:
        since = datetime.fromisoformat(before["lagging_since"])
    except (KeyError, TypeError, ValueError):  # of an earlier version
        since = previous_end or end
    return min(since, end) if since.tzinfo is not None else previous_end or end


def _how_long(seconds: float) -> str:
    days = seconds / _DAY_SECONDS
    return f"for {days:.0f} days" if days >= 1.5 else f"for {duration(seconds)}"


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


def overview(health: Health, *, most: int = 30) -> str:
    """The worst subscriptions as plain text: a notebook's output that holds no markup, whatever names there are."""
    rows: Sequence[tuple[str, ...]] = [
        (
            str(line.finding.state).replace("_", " "),
            str(line.finding.verdict),
            line.finding.time_lag.words,
            line.finding.backlog,
            line.trend or "-",
            line.finding.kind or "-",
            f"{printable(line.finding.group)} ← {printable(line.finding.topic)}",
        )
        for line in health.lines[:most]
    ]
    head = ("state", "verdict", "time lag", "lag", "trend", "kind", "group ← topic")
    widths = [max(len(row[n]) for row in [head, *rows]) for n in range(len(head) - 1)]
    text = [
        "  ".join([*(row[n].ljust(widths[n]) for n in range(len(widths))), row[-1]]).rstrip() for row in [head, *rows]
    ]
    more = len(health.lines) - len(rows)
    beside = [f"{printable(it.group)}: {it.headline}" for it in health.triage.not_judged]
    letters = [f"{it.topic}: {it.words}" for it in health.dead_letters if it.letters != 0]
    if letters:
        letters = ["", "Dead letters:", *letters]
    if health.arrivals:
        letters += [
            "",
            "Did everything arrive?",
            *(f"{printable(it.stream or it.audit)}: {printable(it.words)}" for it in health.arrivals),
        ]
    if (upstream := health.before_kafka) is not None:
        letters += ["", f"Before Kafka: {upstream.sentence}", *(printable(it.words) for it in upstream.lines)]
    causes = [f"{printable(it.headline)} {printable(it.words)}".rstrip() for it in health.brokers]
    causes += [printable(health.brokers_unsure)] if health.brokers_unsure else []
    if causes:
        causes = ["On brokers:", *causes, ""]
    return "\n".join(
        [
            health.sentence,
            "",
            *causes,
            *text,
            *([f"… and {more} more in the report"] if more > 0 else []),
            *beside,
            *letters,
        ]
    )


def publish(health: Health, out: str) -> None:
    """Write report.html and result.json into a folder; without one, nothing.

    Raises:
        OutputError: if they cannot be written.
    """
    if not out:
        return
    from workbench.report.html_report import render_html
    from workbench.report.runs.run_record import REPORT, RESULT, write_durably

    folder = Path(out)
    write_durably(folder / REPORT, render_html(health.triage, health.capture, health=health))
    # Last, so that every result has a report.
    write_durably(folder / RESULT, json.dumps(health.to_json(), allow_nan=False, indent=1, default=str) + "\n")
