"""Terminal view: the verdict in one sentence first, then why, then what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa
from rich.console import Group
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from workbench.features.chart_series import FloatArray, Series, highest, series_of, total
from workbench.humanize import clock, counted, duration, groups_on_topics, one_line, percent, plural, printable, rate
from workbench.queues.group_kinds import SUBSCRIPTIONS
from workbench.terminal_tables import FittingTable, Hanging, Line, SafeConsole, right
from workbench.triage.changes import words_of
from workbench.triage.finding import Finding, PathStep, Shortfall, missing_words
from workbench.triage.question_trees_by_queue import short_of
from workbench.triage.triage_engine import Triage
from workbench.triage.verdict_names import Answer, State, Verdict
from workbench.window import Window

STATE_STYLE = {
    State.LAGGING: "bold red",
    State.DRAINING: "bold yellow",
    State.HEALTHY: "bold green",
    State.CANNOT_TELL: "bold magenta",
}
_PICTURE_WIDTH = 104  # narrower terminals show only text
_MOST_MISSING = 3  # told in full; with a lag exporter alone there are a dozen, and the first questions need the first
_MAX_DETAILED = 10  # longer lists are an overview with the worst ones in detail

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")  # of TOML


def show(console: SafeConsole, result: Triage, samples: pa.Table, *, most: int = _MAX_DETAILED) -> None:
    """Print all findings, the unhealthy ones in detail (at most so many) and the healthy ones in one line each."""
    pictures = console.width >= _PICTURE_WIDTH
    sick = [finding for finding in result.findings if finding.state is not State.HEALTHY]
    healthy = [finding for finding in result.findings if finding.state is State.HEALTHY]
    for finding in sick[:most]:
        console.print(detail(finding, samples, result.window, pictures=pictures))
    if len(sick) > most:
        console.print(_overview(sick[most:], f"{len(sick) - most} more that are not healthy"))
    if len(result.findings) == 1 and healthy:
        console.print(detail(healthy[0], samples, result.window, pictures=pictures))
    elif healthy:
        entries = all(it.lag_entries is not None for it in healthy)  # a Pulsar's
        what = plural(len(healthy), "subscription") if entries else groups_on_topics(len(healthy))
        console.print(_overview(healthy, f"{what} healthy"))
    for group in result.not_judged:
        console.line_of(f" {group.group}: {group.headline}", STATE_STYLE[State.CANNOT_TELL])
    for text in result.sources:
        console.line_of(f" Sources: {text}", "dim")
    for text in result.incomplete:
        console.line_of(f" Incomplete: {text}", "yellow")


def _overview(findings: Sequence[Finding], title: str) -> FittingTable:
    table = FittingTable("group", "topic", "verdict", *right("behind", "messages"), title=title)
    for it in findings:
        table.add_row(
            Text(printable(it.group)),
            Text(printable(it.topic)),
            Text(str(it.verdict), style=STATE_STYLE[it.state]),
            it.time_lag.words,
            it.backlog,
        )
    return table


def detail(finding: Finding, samples: pa.Table, window: Window, *, pictures: bool = True) -> Group:
    """One finding in full; `pictures` are the sparklines, for which a narrow terminal has no room."""
    series = series_of(samples, window, group=finding.group, topic=finding.topic)
    parts: list[object] = [_title(finding), _sentence(finding), Text(), _path(finding, series, pictures=pictures)]
    if finding.record is not None:
        parts.append(_note(one_line(finding.record.words), "cyan"))
    if finding.shortfall is not None:
        parts += _shortfall(finding.shortfall)
    parts += [_note(f"Also true: {text}", "yellow") for text in finding.contributing]
    parts += [_note(f"Also seen: {text}", "yellow") for text in finding.also_seen]
    parts += [_note(f"Not ruled out: {text}", "dim") for text in finding.not_ruled_out]
    if finding.changed is not None:
        parts.append(_note(f"Changed: {words_of(finding.changed)}", "yellow"))
    parts += _cannot_tell(finding)
    if finding.actions:
        parts += [Text(), Text(" What to do, most reversible first", style="bold"), *_actions(finding)]
    if finding.muted:
        parts.insert(1, Text(f" Muted {one_line(finding.muted)}", style="yellow"))
    if finding.owner:
        parts.append(Text(f" Owner: {one_line(finding.owner)}"))
    if finding.own_runbook:
        parts.append(Line(f"Runbook of the group: {finding.own_runbook}", indent=1))
    if finding.runbook:
        parts.append(Line(f"Runbook: {to_runbook(finding.runbook)}", style="dim", indent=1))
    parts += [Line(f"{name}: {address}", style="dim", indent=1) for name, address in finding.links.items()]
    return Group(Text(), *parts, Text())  # type: ignore[arg-type]


def _note(text: str, style: str = "") -> Padding:
    """A sentence below the finding; the lines that it is wrapped into begin below it."""
    return Padding.indent(Text(text, style=style), 2)


def to_runbook(runbook: str) -> str:
    """Its address, or the command that prints it, if the settings have no `runbook_base`."""
    return runbook if "://" in runbook else f"workbench runbooks show {PurePosixPath(runbook).stem}"


def _title(finding: Finding) -> Hanging:
    line, facts = Text(" "), list[Text]()
    line.append(f"{printable(finding.group)} ← {printable(finding.topic)}", style="bold")
    line.append(f"    {finding.state.replace('_', ' ').upper()}", style=STATE_STYLE[finding.state])
    line.append(f" {finding.verdict}", style=STATE_STYLE[finding.state])
    lag = finding.time_lag
    if lag.seconds is not None:
        facts.append(Text(f"{lag.words} behind ({lag.how})"))
    if finding.lag_entries is not None or finding.kind in SUBSCRIPTIONS:
        facts.append(Text(counted(finding.lag_entries, "entry", "entries")))
    else:
        facts.append(Text(f"{counted(finding.lag_messages, 'message')}"))
    if finding.since is not None:
        facts.append(Text(f"since {clock(finding.since)}"))
    if finding.eta_drain_seconds and finding.state is not State.HEALTHY:
        facts.append(Text(f"drained in {duration(finding.eta_drain_seconds)} at this pace"))
    if finding.eta_loss_seconds is not None:
        facts.append(Text(f"retention loss in {duration(finding.eta_loss_seconds)}", style="bold red"))
    return Hanging(line, facts, indent=3)


def _sentence(finding: Finding) -> Table:
    table = Table.grid(Column(width=3, no_wrap=True), Column(ratio=1, overflow="fold"), expand=True)
    table.add_row(Text(" ▶ ", style=STATE_STYLE[finding.state]), Text(finding.headline, style="bold"))
    return table


_ANSWER_STYLE = {Answer.YES: "bold", Answer.NO: "", Answer.CANNOT_TELL: "bold magenta"}


def _path(finding: Finding, series: Series, *, pictures: bool) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    table.add_column(width=2)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1, overflow="fold")
    table.add_column(no_wrap=True, style="cyan")
    for position, step in enumerate(finding.path):
        last = position == len(finding.path) - 1
        decisive = last and finding.state in (State.LAGGING, State.CANNOT_TELL)
        answer = str(step.answer).replace("_", " ")
        table.add_row(
            Text(" ▸" if decisive else "  ", style="bold red"),
            Text(short_of(step.node), style="bold" if decisive else ""),
            Text(answer.upper() if decisive else answer, style=_ANSWER_STYLE[step.answer]),
            Text(step.words),
            Text(_spark(step, series) if pictures else ""),
        )
    return table


def _spark(step: PathStep, series: Series) -> str:
    """The picture that goes with a question."""
    line = None
    match step.node:
        case "lagging":
            line = highest(series.time_lag, "time lag") or total(series.lag, "lag")
        case "consuming":
            line = series.commits
        case "queue_backed_up":
            line = highest(series.fill, "fill") or highest(series.process_time, "process time")
        case "one_slow" | "all_slow":
            line = highest(series.process_time, "process time")
        case "hot_partition" | "stuck":
            line = highest(series.lag, "lag")
    return sparkline(line.values) if line is not None else ""


def _shortfall(found: Shortfall) -> list[object]:
    """Each cause with its share, as a bar."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    table.add_column(width=3)
    table.add_column(ratio=1, overflow="fold")
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True, style="cyan")
    for part in found.parts:
        bar = "█" * max(1, round(part.share * _BAR_WIDTH))
        table.add_row(
            "", Text(printable(part.words)), f"{rate(part.per_second)} ({percent(part.share)})", bar.ljust(_BAR_WIDTH)
        )
    overlap = " (causes overlap)" if len(found.parts) > 1 else ""
    return [Text(), _note(f"{found.words}{overlap}:"), table]


def _cannot_tell(finding: Finding) -> list[Padding]:
    lines = []
    if finding.candidates and finding.verdict is Verdict.CANNOT_TELL:
        names = ", ".join(str(verdict) for verdict in finding.candidates)
        lines.append(_note(f"Left: {names}", "magenta"))
    missing = missing_words(finding.missing)
    lines += [_note(words, "magenta") for words in missing[:_MOST_MISSING]]
    if more := missing[_MOST_MISSING:]:
        names = ", ".join(words.partition(": ")[2].partition(". ")[0] for words in more)
        lines.append(_note(f"Missing or open, too: {names} (what decides each: --html or --json)", "magenta"))
    return lines


def _actions(finding: Finding) -> list[object]:
    """Numbered; a command stands on a line of its own, whole."""
    shown: list[object] = []
    for number, action in enumerate(finding.actions, 1):
        shown.append(_numbered(str(number), Text(action.title)))
        if action.command:
            shown += [Line(line, style="cyan", indent=5) for line in action.command.splitlines()]
        elif action.kind:
            shown.append(_numbered("", Text(how_to_set(action.kind, finding.group, finding.cluster), style="dim")))
        shown.append(_numbered("", Text(f"check: {action.verify}", style="dim")))
    return shown


def how_to_set(kind: str, group: str, cluster: str) -> str:
    """Where the settings take the command of an action from."""
    name = printable(cluster) if _BARE_KEY.fullmatch(cluster) else f'"{printable(cluster)}"'
    return f'no command yet: set {kind} in workbench.toml, [clusters.{name}.groups."{printable(group)}".actions]'


def _numbered(number: str, text: Text) -> Table:
    table = Table.grid(
        Column(width=3, justify="right"), Column(ratio=1, overflow="fold"), padding=(0, 2, 0, 0), expand=True
    )
    table.add_row(number, text)
    return table


_BAR_WIDTH = 10
_BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: FloatArray, *, width: int = 24) -> str:
    """A line of blocks, each the maximum of its share of the values; a gap is a blank. Empty if nothing was measured."""
    if not len(values) or np.isnan(values).all():
        return ""
    pieces = np.array_split(values, min(width, len(values)))
    peaks = [np.nan if np.isnan(piece).all() else float(np.nanmax(piece)) for piece in pieces]
    low, high = 0.0, float(np.nanmax(peaks))
    if high <= low:
        return "".join(" " if np.isnan(peak) else _BLOCKS[0] for peak in peaks)
    return "".join(
        " "
        if np.isnan(peak)
        else _BLOCKS[min(len(_BLOCKS) - 1, max(0, int((peak - low) / (high - low) * len(_BLOCKS))))]
        for peak in peaks
    )
