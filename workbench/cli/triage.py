"""`workbench triage`: find out whether consumers lag, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from workbench.cli.options import (
    FILE,
    PLACE,
    StorePlace,
    cluster_option,
    config_option,
    default_cluster,
    renamed,
    selection_options,
    table_option,
    window_options,
    wrote_rows,
)
from workbench.errors import UsageError
from workbench.files import require_empty
from workbench.safe_output import write_json

if TYPE_CHECKING:
    from workbench.api.measurement_requests import Measurements
    from workbench.api.triages import TriageResult
    from workbench.cli.triage_all import SweepRequest
    from workbench.triage.triage_engine import Triage


@click.command(name="triage")
@cluster_option(unless=("folder", "alert", "compare", "everything", "via"))
@click.option("--capture", "folder", type=PLACE, help="Analyse a capture; needs no network.")
@selection_options
@window_options
@click.option(
    "--observe",
    help="Without a Prometheus: record the cluster for this long first, for example 60s. Of a Pulsar: time between the two looks"
    " (default 10s).",
)
@click.option("--save", type=PLACE, help="Save the analysed measurements as a capture in this folder.")
@click.option("--html", type=FILE, help="Also write the report as one offline HTML file.")
@click.option("--watch", is_flag=True, help="Repeat the triage, and report when the check of an action passes.")
@click.option("--every", default="15s", show_default=True, help="With --watch: time between two triages.")
@renamed(
    "--timeout",
    "patience",
    old=("--for",),
    default="30m",
    show_default=True,
    help="With --watch: stop after this time.",
)
@click.option(
    "--compare",
    nargs=2,
    type=PLACE,
    metavar="BEFORE AFTER",
    help="Compare two captures: what changed, and whether the advised actions worked.",
)
@click.option(
    "--alert",
    type=FILE,
    help="File with an Alertmanager webhook. Sets cluster, group, topic and time, and prints the runbook with them filled in.",
)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Triage every group on every topic of the cluster, worst first. Without"
    " --cluster and without a default: of every cluster of the settings, one after the other.",
)
@click.option(
    "--store",
    type=StorePlace(path_type=Path, file_okay=False),
    help="With --all: folder of the stored samples, or s3://BUCKET/PREFIX. Default with --cluster: a folder per cluster, which"
    " keeps one window.",
)
@renamed(
    "--limit",
    "top",
    old=("--top",),
    default=20,
    show_default=True,
    type=click.IntRange(min=0),
    help="With --all: number of findings to show in full.",
)
@click.option("--parquet", type=FILE, help="With --all: also write the whole table to this file.")
@click.option(
    "--via",
    metavar="URL",
    help="Let a running `workbench serve` judge, on its warm Spark and by its settings: http://127.0.0.1:8480.",
)
@click.option(
    "--token-file",
    type=FILE,
    help="With --via: file with the server's token. Default: $WORKBENCH_SERVE_TOKEN, or serve.token in the state folder.",
)
@table_option
@config_option
def command(**given: Any) -> int:
    """Find out whether consumers lag and why, with evidence and actions.

    Exit codes: 0 healthy (or draining), 3 a group lags, 4 data is missing, or a source's answer is incomplete.
    """
    if given["via"] is not None:
        from workbench.cli.triage_via import triage_via

        return triage_via(given)
    if given["token_file"] is not None:
        raise UsageError("--token-file needs --via.")
    from workbench.cli.triage_every_cluster import clusters_to_triage, triage_each

    if names := clusters_to_triage(given):
        return triage_each(names, lambda name: _run({**given, "cluster": name}), as_json=given["as_json"])
    return _run(given)


def _run(given: Mapping[str, Any]) -> int:
    from workbench.queues.systems import own_parts

    for own in own_parts("workbench.cli.triage_{}").values():
        if (code := own.triage(given)) is not None:
            return int(code)
    if given["everything"]:
        from workbench.cli.triage_all import triage_all

        return triage_all(_sweep_request(given))
    _refuse_without_their_flag(given)
    if given["compare"] is not None:
        return _compare(_compare_request(given))
    filled = _filled_by_alert(given)
    if filled["watch"]:
        return _watch(_watch_request(filled))
    return _look(_look_request(filled))


def _refuse_without_their_flag(given: Mapping[str, Any]) -> None:
    if given["store"] is not None or given["parquet"] is not None:
        raise UsageError("--store and --parquet need --all.")
    source = click.get_current_context().get_parameter_source
    for name, option, flag, needed in (
        ("top", "--limit", "everything", "--all"),
        ("every", "--every", "watch", "--watch"),
        ("patience", "--timeout", "watch", "--watch"),
    ):
        if not given[flag] and source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(f"{option} needs {needed}.")


# One look


@dataclass(frozen=True, slots=True, kw_only=True)
class LookRequest:
    """One triage and its outputs: a folder for the capture, a file for the report, JSON on stdout."""

    measurements: Measurements
    save: Path | None
    html: Path | None
    as_json: bool
    with_runbooks: bool


def _look_request(given: Mapping[str, Any]) -> LookRequest:
    measurements, save, html = measurements_of(given), given["save"], given["html"]
    # Refuse before the work what would fail after it.
    if html is not None and not html.parent.is_dir():
        raise UsageError(f"There is no folder {html.parent} for the report.", hint="Create it first.")
    if save is not None:
        require_empty(save)
    return LookRequest(
        measurements=measurements,
        save=save,
        html=html,
        as_json=given["as_json"],
        with_runbooks=given["alert"] is not None,
    )


def measurements_of(given: Mapping[str, Any]) -> Measurements:
    """What the options ask for."""
    from workbench.api.measurement_requests import Measurements, Times

    return Measurements(
        cluster=given["cluster"],
        capture=given["folder"],
        groups=given["groups"],
        topics=given["topics"],
        times=Times(since=given["since"], until=given["until"], baseline=given["baseline"]),
        observe=given["observe"],
        config=given["config"],
    )


def _look(request: LookRequest) -> int:
    from workbench.api.load_measurements import measure
    from workbench.api.triages import judge
    from workbench.cli.late_errors import LateErrors
    from workbench.cli.progress import Steps
    from workbench.report.printed_triage import rows_of_triage

    late = LateErrors()
    with Steps(quiet=request.as_json) as steps:
        found = measure(request.measurements, progress=steps)
        if request.save is not None:
            from workbench.collect.capture import write_capture

            with late.kept():
                write_capture(request.save, found.capture)
                steps.say(f"Saved as {request.save}.")
        result = judge(found, request.measurements, progress=steps)
        if request.html is not None:
            with late.kept(), steps.step("Writing the report") as step:
                result.write_html(request.html)
                step.note = str(request.html)
    if request.as_json:
        write_json(result.to_json())
    elif not wrote_rows(lambda: rows_of_triage(result.findings)):
        _show(result, with_runbooks=request.with_runbooks)
    late.tell()
    return result.exit_code


def _show(result: TriageResult, *, with_runbooks: bool) -> None:
    from workbench.report.printed_triage import show_triage
    from workbench.terminal_tables import SafeConsole

    show_triage(SafeConsole(), result.triage, result.capture)
    if with_runbooks:
        from workbench.cli.triage_alert_option import show_runbooks

        show_runbooks(result.triage, bootstrap=result.capture.bootstrap, login_file=result.capture.login_file)


def _filled_by_alert(given: Mapping[str, Any]) -> Mapping[str, Any]:
    if given["alert"] is None:
        return given
    from workbench.cli.triage_alert_option import asked_by

    names = ("cluster", "groups", "topics", "since")
    asked = asked_by(
        given["alert"],
        recorded=given["folder"] is not None,
        config=given["config"],
        **{name: given[name] for name in names},
    )
    cluster = asked.cluster
    if cluster is None and given["folder"] is None:
        cluster = default_cluster(given["config"])
    since = given["since"] if given["watch"] or given["observe"] is not None else asked.since
    return {**given, "cluster": cluster, "groups": asked.groups, "topics": asked.topics, "since": since}


# The other modes


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRequest:
    """Two recordings, the earlier one first."""

    looks: tuple[Measurements, Measurements]
    as_json: bool


def _compare_request(given: Mapping[str, Any]) -> CompareRequest:
    if given["watch"] or any(
        given[name] for name in ("cluster", "folder", "since", "until", "baseline", "observe", "save", "html")
    ):
        raise UsageError(
            "--compare takes two captures and no other source or time.", hint="Only --group and --topic can narrow it."
        )
    before, after = (measurements_of({**given, "folder": folder}) for folder in given["compare"])
    return CompareRequest(looks=(before, after), as_json=given["as_json"])


def _compare(request: CompareRequest) -> int:
    from workbench.api.load_measurements import measure
    from workbench.api.triages import judge
    from workbench.cli.progress import Steps
    from workbench.cli.triage_watch_and_compare import show_comparison

    with Steps(quiet=request.as_json) as steps:
        before, after = (judge(measure(look, progress=steps), look, progress=steps) for look in request.looks)
    return show_comparison(before.triage, after.triage, as_json=request.as_json)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRequest:
    """Repeated triage of a live cluster."""

    measurements: Measurements
    every_seconds: float
    for_seconds: float
    as_json: bool


def _watch_request(given: Mapping[str, Any]) -> WatchRequest:
    from workbench.window import parse_duration

    if given["cluster"] is None or any(given[name] for name in ("since", "until", "observe", "save", "html")):
        raise UsageError("--watch needs a live cluster, and its window ends now.", hint="Give --cluster and --group.")
    return WatchRequest(
        measurements=measurements_of(given),
        every_seconds=parse_duration(given["every"]).total_seconds(),
        for_seconds=parse_duration(given["patience"]).total_seconds(),
        as_json=given["as_json"],
    )


def _watch(request: WatchRequest) -> int:
    from workbench.api.load_measurements import measure
    from workbench.api.triages import judge
    from workbench.cli.progress import Steps
    from workbench.cli.triage_watch_and_compare import watch

    def look() -> Triage:
        with Steps(quiet=request.as_json).waiting(f"Triage of {request.measurements.cluster}"):
            return judge(measure(request.measurements), request.measurements).triage

    return watch(look, every_seconds=request.every_seconds, for_seconds=request.for_seconds, as_json=request.as_json)


def _sweep_request(given: Mapping[str, Any]) -> SweepRequest:
    from workbench.cli.triage_all import SweepRequest

    others = ("folder", "watch", "compare", "alert", "groups", "topics", "since", "baseline", "observe", "save")
    if any(given[name] for name in others):
        raise UsageError(
            "--all takes --cluster, --store, --until, --limit, --html and --parquet, and no other selection options.",
            hint="The window is the newest slot of the store, the baseline the four slots before it.",
        )
    if given["cluster"] is None and given["store"] is None:
        given = {**given, "cluster": default_cluster(given["config"], instead=("--store",))}
    names = ("cluster", "store", "until", "top", "html", "parquet", "as_json", "config")
    return SweepRequest(**{name: given[name] for name in names})
