"""`workbench report`: scheduled reports, and how they ended."""

from __future__ import annotations

from pathlib import Path

import click

from workbench.cli.help import Group
from workbench.cli.options import (
    A_TIME,
    FOLDER,
    PLACE,
    cluster_option,
    config_option,
    json_option,
    renamed,
    table_option,
    wrote_rows,
)
from workbench.errors import ExitCode
from workbench.safe_output import say, say_error, tell, tell_page, write_json


@click.group(name="report", cls=Group)
def command() -> None:
    """Run, list and send reports. Each run has a record of how it ended."""


@command.group(cls=Group)
def run() -> None:
    """Run a report."""


@run.command()
@cluster_option(unless=("capture",))
@click.option("--capture", type=PLACE, help="Report on a capture; needs no network.")
@click.option("--since", help=f"Start of the period: {A_TIME}. Default: 24h before its end.")
@click.option("--until", help=f"End of the period: {A_TIME}. Default: the last full minute, or a capture's end.")
@renamed(
    "--output",
    "out",
    old=("--out",),
    type=FOLDER,
    default=Path("workbench-reports"),
    show_default=True,
    help="Folder of the runs; each run gets its own folder in it.",
)
@renamed(
    "--timeout",
    "deadline",
    old=("--deadline",),
    default="10m",
    show_default=True,
    help="Time limit of the whole run; exit code 7 after it.",
)
@click.option("--again", is_flag=True, help="Repeat a run that is already done.")
@click.option(
    "--keep",
    help="Afterwards remove older runs of the same cluster: keep so many (100), or those that began within an age (90d). "
    "Default: keep all.",
)
@json_option
@config_option
def health(
    cluster: str | None,
    capture: Path | None,
    since: str | None,
    until: str | None,
    out: Path,
    deadline: str,
    again: bool,
    keep: str | None,
    as_json: bool,
    config: Path | None,
) -> int:
    """Report on every group on a topic of a cluster, worst first: triage, error budget, capacity, and what could not be judged.

    Writes run.json (how it ended), result.json, report.html (one offline file) and executed.ipynb (for the audit). The same source
    and period give the same run. Exit codes: 0 all is well, 3 something lags, 4 evidence incomplete, 7 deadline, 8 kernel died.
    """
    from workbench.report.runs.parameters import health_parameters
    from workbench.report.runs.run_record import REPORT
    from workbench.report.runs.run_retention import parse_keep
    from workbench.report.runs.runner import run_health
    from workbench.window import parse_duration

    seconds = parse_duration(deadline).total_seconds()
    kept = parse_keep(keep) if keep is not None else None
    parameters = health_parameters(cluster=cluster, capture=capture, since=since, until=until, config=config)
    ended = run_health(parameters, out, deadline_seconds=seconds, again=again, keep=kept, say=say)
    record = ended.record
    if as_json:
        write_json(
            {**record.model_dump(mode="json", by_alias=True), "folder": str(ended.folder), "repeated": ended.repeated}
        )
    elif record.message is None:
        tell(str(ended.folder / REPORT))
    if record.message is not None:
        say_error(record.message, record.hint or f"See {ended.folder}.")
    return int(record.exit_code if record.exit_code is not None else ExitCode.INTERNAL)


@command.command(name="list")
@renamed(
    "--output",
    "out",
    old=("--out",),
    type=FOLDER,
    default=Path("workbench-reports"),
    show_default=True,
    help="Folder of the runs.",
)
@table_option
def list_(out: Path, as_json: bool) -> int:
    """List the runs in a folder, oldest first, and how each ended. A run whose process is gone is "lost"."""
    from workbench.humanize import duration
    from workbench.report.runs.run_record import runs_in

    runs = runs_in(out)
    if as_json:
        write_json(
            [{**record.model_dump(mode="json", by_alias=True), "folder": str(folder)} for folder, record in runs]
        )
        return ExitCode.OK
    names = {"run_id", "report", "cluster", "state", "exit_code", "started_at", "ended_at", "seconds", "message"}
    if wrote_rows(lambda: (record.model_dump(mode="json", include=names) for _, record in runs)):
        return ExitCode.OK
    if not runs:
        say(f"No runs in {out}.")
    for folder, record in runs:
        code = "-" if record.exit_code is None else record.exit_code
        words = f"{record.state:<11} exit {code}  {duration(record.seconds):>10}  {folder.name}"
        tell(f"{record.started_at:%Y-%m-%d %H:%M:%SZ}  {words}" + (f"  {record.message}" if record.message else ""))
    return ExitCode.OK


@command.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option(
    "--alertmanager", help="Base URL of an Alertmanager. Sends an alert for each group on a topic that is not healthy."
)
@click.option("--webhook", help="URL of a webhook. Sends result.json. $WORKBENCH_WEBHOOK_TOKEN is its bearer token.")
@click.option("--grafana", help="Base URL of a Grafana. Creates an annotation. $WORKBENCH_GRAFANA_TOKEN is its token.")
@click.option("--text", "as_text", is_flag=True, help="Print a short text for a chat to stdout.")
def send(folder: Path, alertmanager: str | None, webhook: str | None, grafana: str | None, as_text: bool) -> int:
    """Send the result of a run to other systems.

    FOLDER is the folder of the run. Each target is tried three times; exit code 5 if one did not accept it.
    Alerts of the run before it, whose folder is beside it, end if they are not true any more.
    """
    import os

    from workbench.cli.progress import Steps
    from workbench.errors import UsageError, WorkbenchError
    from workbench.report import send_report
    from workbench.report.health_result import read_previous
    from workbench.report.runs.run_record import RESULT, run_named

    document = read_previous(str(folder / RESULT))
    if document is None:
        raise UsageError(f"{folder} has no result of a run.", hint="See: workbench report list")
    if as_text:
        tell_page(send_report.chat_text(document))
    former = run_named(folder.absolute().parent, str(document.get("previous_run") or ""))
    before = read_previous(str(former[0] / RESULT)) if former is not None else None
    sends = [
        (alertmanager, "Alertmanager", "/api/v2/alerts", send_report.alerts_of(document, before=before), None),
        (webhook, "webhook", "", document, os.environ.get("WORKBENCH_WEBHOOK_TOKEN")),
        (
            grafana,
            "Grafana",
            "/api/annotations",
            send_report.annotation_of(document),
            os.environ.get("WORKBENCH_GRAFANA_TOKEN"),
        ),
    ]
    failed: WorkbenchError | None = None
    for url, what, path, body, token in sends:
        if url is None:
            continue
        try:
            with Steps().waiting(f"Sending to {what}"):
                send_report.send(url.rstrip("/") + path, body, what=what, token=token)
            say(f"{what}: taken.")
        except WorkbenchError as error:  # the others are tried all the same
            say(error.message)
            failed = failed or error
    return int(failed.exit_code) if failed is not None else ExitCode.OK
