"""`workbench impact`: who slows whom on a cluster's brokers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli.options import FILE, capture_option, cluster_option, config_option, json_option, window_options
from workbench.safe_output import say, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.api.who_slows_whom import ImpactResult
    from workbench.terminal_tables import SafeConsole
    from workbench.triage.finding import Action
    from workbench.triage.who_holds_up_whom import BlamedCause

_SHOWN = 20  # victims of one cause; --json has all of them


@click.command(name="impact")
@cluster_option(unless=("capture",))
@capture_option
@window_options
@click.option(
    "--observe",
    help="Without a Prometheus: record the cluster for this time first, for example 5m. Its first third is the baseline.",
)
@click.option("--html", type=FILE, help="Also write it with its charts as one offline HTML file.")
@json_option
@config_option
def command(
    cluster: str | None,
    capture: Path | None,
    since: str | None,
    until: str | None,
    baseline: str | None,
    observe: str | None,
    html: Path | None,
    as_json: bool,
    config: Path | None,
) -> int:
    """Find out who slows whom: one group, client or producer that takes so much of a broker that others wait.

    Read-only. Compares bytes, waiting and the brokers' own signals before and after, on the brokers concerned and on the others.
    It is a correlation. A cap that would end it is printed with its command and the way back. Brokers that are in trouble by
    themselves are named, too, with the groups that they hit. Exit code 3 with a culprit or such a broker, 4 if it cannot be told,
    with the signals that are missing.
    """
    from workbench import api
    from workbench.cli.late_errors import LateErrors
    from workbench.cli.progress import Steps

    late = LateErrors()
    with Steps(quiet=as_json) as steps:
        found = api.impact(
            cluster=cluster,
            capture=capture,
            since=since,
            until=until,
            baseline=baseline,
            observe=observe,
            config=config,
            progress=steps,
        )
        if html is not None:
            with late.kept(), steps.step("Writing the page") as step:
                found.write_html(html)
                step.note = str(html)
    if as_json:
        write_json(found.to_json())
    else:
        _show(found)
    for text in found.incomplete:
        say(f"Incomplete: {text}")
    late.tell()
    return found.exit_code


def _show(found: ImpactResult) -> None:
    from workbench.humanize import listed, printable
    from workbench.terminal_tables import FittingTable, SafeConsole, right, wrapped
    from workbench.triage.who_holds_up_whom import rate_of, strain_words

    console = SafeConsole()
    if len(found.found.causes) != 1:  # of one, its own headline says the same
        console.print(found.found.sentence)
    for cause, actions in zip(found.found.causes, found.actions, strict=True):
        _show_cause(console, found, cause, actions)
    if found.brokers.silence is not None:
        console.print(found.brokers.silence)
    for finding in found.brokers.findings:
        console.print(f"{finding.verdict}: {finding.headline}")
        for strain in finding.strains:
            console.print(f"  {strain_words(strain)}")
        if finding.groups:
            console.print(f"  groups: {listed([printable(it) for it in finding.groups])}")
        _show_actions(console, finding.actions)
    if held := found.found.held_up:
        table = FittingTable("group", "brokers", title="Held up, and no reader explains it")
        for group, brokers in list(held.items())[:_SHOWN]:
            table.add_row(printable(group), listed(brokers))
        console.print(table)
    if found.found.cleared:
        table = FittingTable("who", *right("now"), *wrapped("because"), title="Busiest of those that are not accused")
        for one in found.found.cleared:
            table.add_row(one.who, rate_of(one.bytes_per_second), one.because)
        console.print(table)
    for verdict, reason in found.brokers.unsuited.items():
        console.print(f"Not asked: {verdict}: {printable(reason)}.")
    lacking = dict.fromkeys([*found.found.missing, *(it for names in found.brokers.unknown.values() for it in names)])
    if lacking:
        open_ones = f", so it cannot be told: {listed(list(found.brokers.unknown))}" if found.brokers.unknown else ""
        console.print(f"Not measured: {listed(list(lacking), most=12)}{open_ones}. See docs/impact.md.")


def _show_cause(console: SafeConsole, found: ImpactResult, cause: BlamedCause, actions: Sequence[Action]) -> None:
    from workbench.humanize import duration, listed, plural, printable
    from workbench.terminal_tables import FittingTable, right
    from workbench.triage.who_holds_up_whom import CORRELATION, moment_of

    console.print(cause.headline)
    for fact in cause.facts:
        console.print(f"  {fact}")
    _show_timeline(console, found, cause)
    console.print(f"  {CORRELATION}")
    numbers, drops = right("before", "behind", "lag grows", "elsewhere"), ("before", "elsewhere", "since")
    table = FittingTable("group", "brokers", "since", *numbers, title="Groups that are held up", drops=drops)
    for one in cause.victims[:_SHOWN]:
        table.add_row(
            printable(one.group),
            listed(one.brokers),
            f"{moment_of(one.since):%H:%M:%S}",
            duration(one.behind_seconds_before),
            duration(one.behind_seconds),
            _signed(one.lag_growth_of_arrivals),
            "-" if one.lag_growth_elsewhere is None else _signed(one.lag_growth_elsewhere),
        )
    console.print(table)
    if len(cause.victims) > _SHOWN:
        console.print(f"  and {plural(len(cause.victims) - _SHOWN, 'more group')}")
    if cause.cap_words is not None:
        console.print(cause.cap_words)
    _show_actions(console, actions)


def _show_actions(console: SafeConsole, actions: Sequence[Action]) -> None:
    from workbench.terminal_tables import Line

    for number, action in enumerate(actions, 1):
        console.print(f"{number}. {action.title}.")
        if action.command:
            console.print(Line(action.command))
        console.print(f"   Check: {action.verify}.")


def _show_timeline(console: SafeConsole, found: ImpactResult, cause: BlamedCause) -> None:
    """What the offender moves, and the lag of who waits most, over the same time; the judged window is the last part."""
    import numpy as np

    from workbench.humanize import clock, duration, printable
    from workbench.report.terminal import sparkline
    from workbench.report.who_slows_whom_charts import moves_of, waits_of
    from workbench.triage.who_holds_up_whom import rate_of

    moves = list(moves_of(found.seen, cause.offender).values())
    worst = cause.victims[0]
    waits = waits_of(found.seen, worst.group, worst.brokers)
    times = found.seen.times
    if not moves or waits is None:
        return
    moved = np.sum(moves, axis=0)
    drawn = ((moved, "moves", rate_of), (waits, "waits", duration))
    console.print(f"  {clock(float(times[0]))} to {clock(float(times[-1]))}:")
    for line, verb, words in drawn:
        who = cause.offender.words if verb == "moves" else printable(worst.group)
        console.print(f"  {sparkline(line).replace(' ', '·')} {verb} at most {words(float(np.nanmax(line)))}: {who}")


def _signed(share: float) -> str:
    """`0.21` → "+21 %"."""
    return f"{round(100 * share):+d} %"


__all__ = ["command"]
