"""`workbench triage`: find out whether consumers lag, and why."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli.options import (
    cluster_option,
    config_option,
    json_option,
    selection_options,
    window_of,
    window_options,
)
from workbench.errors import ExitCode, UsageError
from workbench.screen import write_json

if TYPE_CHECKING:
    from workbench.cli.progress import Steps
    from workbench.collect.capture import Capture
    from workbench.triage.engine import Triage
    from workbench.window import Window


@click.command(name="triage")
@cluster_option(required=False)
@click.option("--capture", "folder", type=click.Path(path_type=Path), help="Analyse a capture; needs no network.")
@selection_options
@window_options
@click.option("--observe", help="Without a Prometheus: record the cluster for this long first, for example 60s.")
@click.option(
    "--save", type=click.Path(path_type=Path), help="Save the analysed measurements as a capture in this folder."
)
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), help="Also write the report as one offline HTML file."
)
@click.option("--watch", is_flag=True, help="Repeat the triage, and report when the check of an action passes.")
@click.option("--every", default="15s", show_default=True, help="With --watch: time between two triages.")
@click.option("--for", "patience", default="30m", show_default=True, help="With --watch: stop after this time.")
@click.option(
    "--compare",
    nargs=2,
    type=click.Path(path_type=Path),
    metavar="BEFORE AFTER",
    help="Compare two captures: what changed, and whether the advised actions worked.",
)
@click.option(
    "--alert",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with an Alertmanager webhook. Sets cluster, group, topic and time, and prints the runbook with them filled in.",
)
@click.option("--all", "everything", is_flag=True, help="Triage every subscription of the cluster, worst first.")
@click.option(
    "--store",
    type=click.Path(path_type=Path, file_okay=False),
    help="With --all: folder of the stored samples. Default with --cluster: one per cluster, which keeps one window.",
)
@click.option(
    "--top",
    default=20,
    show_default=True,
    type=click.IntRange(min=0),
    help="With --all: number of findings to show in full.",
)
@click.option(
    "--parquet",
    type=click.Path(path_type=Path, dir_okay=False),
    help="With --all: also write the whole table to this file.",
)
@json_option
@config_option
def command(
    cluster: str | None,
    folder: Path | None,
    groups: tuple[str, ...],
    topics: tuple[str, ...],
    since: str | None,
    until: str | None,
    baseline: str | None,
    observe: str | None,
    save: Path | None,
    html: Path | None,
    watch: bool,
    every: str,
    patience: str,
    compare: tuple[Path, Path] | None,
    alert: Path | None,
    everything: bool,
    store: Path | None,
    top: int,
    parquet: Path | None,
    as_json: bool,
    config: Path | None,
) -> int:
    """Find out whether consumers lag and why, with evidence and actions.

    Exit codes: 0 healthy (or draining), 3 a subscription lags, 4 data is missing, or a source's answer is incomplete.
    """
    if everything:
        if folder is not None or watch or compare or alert or any((groups, topics, since, baseline, observe, save)):
            raise UsageError(
                "--all takes --cluster, --store, --until, --top, --html and --parquet, and no other selection options.",
                hint="The window is the newest slot of the store, the baseline the four slots before it.",
            )
        from workbench.cli.triage_all import triage_all

        return triage_all(
            cluster, store, until=until, top=top, html=html, parquet=parquet, as_json=as_json, config=config
        )
    if store is not None or parquet is not None:
        raise UsageError("--store and --parquet need --all.")
    if alert is not None and compare is None:
        from workbench.cli.triage_alert import asked_by

        asked = asked_by(alert, cluster=cluster, recorded=folder is not None, groups=groups, topics=topics, since=since)
        cluster, groups, topics = asked.cluster, asked.groups, asked.topics
        since = since if watch or observe is not None else asked.since
    chosen = (list(groups), list(topics))
    if compare is not None:
        if cluster is not None or folder is not None or watch or any((since, until, baseline, observe, save, html)):
            raise UsageError(
                "--compare takes two captures and no other source or time.",
                hint="Only --group and --topic can narrow it.",
            )
        return _compare(compare, *chosen, as_json=as_json)
    if watch:
        if cluster is None or any((since, until, observe, save, html)):
            raise UsageError(
                "--watch needs a live cluster, and its window ends now.", hint="Give --cluster and --group."
            )
        return _watch(cluster, *chosen, baseline, every, patience, config, as_json=as_json)
    if (cluster is None) == (folder is None):
        raise UsageError(
            "Give either --cluster or --capture.", hint="A cluster of workbench.toml, or the folder of a capture."
        )
    if folder is not None and observe is not None:
        raise UsageError("--observe records a live cluster; a capture is already recorded.")
    _check_outputs(html, save)
    from workbench.cli.progress import Steps

    with Steps(quiet=as_json) as steps:
        if cluster is not None:
            capture = _from_cluster(
                cluster, list(groups), list(topics), (since, until, baseline), observe, config, steps
            )
            window = capture.window
        else:
            capture, window = _from_folder(folder or Path(), (since, until, baseline), steps)
        if save is not None:
            from workbench.collect.capture import write_capture

            write_capture(save, capture)
            steps.say(f"Saved as {save}.")
        result = _analyse(capture, window, list(groups), list(topics), steps)
        if html is not None:
            from workbench.report.html import write_html

            with steps.step("Writing the report") as step:
                write_html(html, result, capture)
                step.note = str(html)
    if as_json:
        write_json(result.to_json())
    else:
        from workbench.console import open_console
        from workbench.report.terminal import show

        show(open_console(), result, capture.samples)
        if alert is not None:
            from workbench.cli.triage_alert import show_runbooks

            show_runbooks(result, bootstrap=capture.info.bootstrap)
    return exit_code(result)


def _compare(folders: tuple[Path, Path], groups: list[str], topics: list[str], *, as_json: bool) -> int:
    from workbench.cli.progress import Steps
    from workbench.cli.triage_again import show_comparison

    with Steps(quiet=as_json) as steps:
        looks = []
        for folder in folders:
            capture, window = _from_folder(folder, (None, None, None), steps)
            looks.append(_analyse(capture, window, groups, topics, steps))
    return show_comparison(*looks, as_json=as_json)


def _watch(
    cluster: str,
    groups: list[str],
    topics: list[str],
    baseline: str | None,
    every: str,
    patience: str,
    config: Path | None,
    *,
    as_json: bool,
) -> int:
    from workbench.cli.progress import Steps
    from workbench.cli.triage_again import watch
    from workbench.window import parse_duration

    def look() -> Triage:
        with Steps(quiet=True) as steps:
            capture = _from_cluster(cluster, groups, topics, (None, None, baseline), None, config, steps)
            return _analyse(capture, capture.window, groups, topics, steps)

    seconds = [parse_duration(text).total_seconds() for text in (every, patience)]
    return watch(look, every_seconds=seconds[0], for_seconds=seconds[1], as_json=as_json)


def _check_outputs(html: Path | None, save: Path | None) -> None:
    """Refuse before the work what would fail after it."""
    if html is not None and not html.parent.is_dir():
        raise UsageError(f"There is no folder {html.parent} for the report.", hint="Create it first.")
    if save is not None and save.exists() and (not save.is_dir() or any(save.iterdir())):
        raise UsageError(f"{save} exists and is not empty.", hint="Name another folder for the capture.")


_Times = tuple[str | None, str | None, str | None]


def _from_cluster(
    name: str,
    groups: list[str],
    topics: list[str],
    times: _Times,
    observe: str | None,
    config: Path | None,
    steps: Steps,
) -> Capture:
    from workbench.settings import load_settings
    from workbench.spark.session import start_in_background
    from workbench.window import parse_duration

    settings = load_settings(config)
    cluster = settings.cluster(name)
    thresholds = settings.thresholds_of(cluster)
    if observe is not None:
        if any(times):
            raise UsageError("--observe records from now on; --since, --until and --baseline select the past.")
        from workbench.collect import live

        seconds = parse_duration(observe).total_seconds()
        return live.observe(cluster, seconds, thresholds=thresholds, groups=groups or None, say=steps.say)
    window = window_of(*times, settings.windows_of(cluster))
    start_in_background()  # it takes longer than any query, and than loading what asks it
    from workbench.collect import live

    with steps.step(f"Reading the sources of {cluster.name}") as step:
        capture = live.collect(cluster, window, thresholds=thresholds, groups=groups or None, topics=topics or None)
        step.note = f"{capture.samples.num_rows:,} samples"
    return capture


def _from_folder(folder: Path, times: _Times, steps: Steps) -> tuple[Capture, Window]:
    from workbench.collect.capture import INFO, read_capture
    from workbench.settings import Windows
    from workbench.spark.session import start_in_background
    from workbench.window import Window, parse_duration, parse_instant

    if (folder / INFO).is_file():
        start_in_background()
    with steps.step(f"Reading {folder}") as step:
        capture = read_capture(folder)
        step.note = f"{capture.samples.num_rows:,} samples, recorded {capture.info.created_at:%Y-%m-%d %H:%M:%SZ}"
    since, until, baseline = times
    if not any(times):
        return capture, capture.window
    # "15m ago" means before the recording's end, not before now.
    end = parse_instant(until, now=capture.window.end) if until else capture.window.end
    start = parse_instant(since, now=capture.window.end) if since else capture.window.start
    length = parse_duration(baseline) if baseline else Windows().baseline
    return capture, Window(baseline_start=start - length, start=start, end=end)


def _analyse(capture: Capture, window: Window, groups: list[str], topics: list[str], steps: Steps) -> Triage:
    started = time.monotonic()
    from workbench.spark.session import session
    from workbench.triage.engine import load, triage

    with steps.step("Starting Spark") as step:
        load()
        spark = session()
        step.note = f"Spark {spark.version}, {spark.conf.get('spark.master')}"
    with steps.step("Walking the tree") as step:
        result = triage(capture, spark, window=window, groups=groups or None, topics=topics or None)
        step.note = f"{len(result.findings)} subscriptions, {time.monotonic() - started:.1f} s in all"
    return result


def exit_code(result: Triage) -> int:
    """What the shell is told: the worst of the findings; what lags outweighs what cannot be told.

    Where nothing lags in a part of the data, something may lag in the rest.
    """
    from workbench.collect.capture import NO_BASELINE
    from workbench.triage.engine import incomplete_verdict
    from workbench.triage.verdict import State

    if any(finding.state is State.LAGGING for finding in result.findings):
        return ExitCode.FINDINGS
    partial = any(text != NO_BASELINE for text in result.incomplete)  # that one is what --observe asks for
    return ExitCode.EVIDENCE if partial or incomplete_verdict(result.findings) else ExitCode.OK
