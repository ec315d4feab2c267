"""`workbench capture`: save the measurements of a period as a folder."""

from __future__ import annotations

from pathlib import Path

import click

from workbench.cli.options import (
    FILE,
    cluster_option,
    config_option,
    json_option,
    output_folder,
    selection_options,
    window_options,
)
from workbench.errors import UsageError
from workbench.humanize import plural, shell_word
from workbench.safe_output import say, write_json


@click.command(name="capture")
@cluster_option(unless=("statistics",))
@output_folder("Folder for the capture.")
@click.option(
    "--statistics",
    type=FILE,
    help="Instead of asking a cluster: librdkafka's statistics of a client as a file, one JSON object a line. Needs --group.",
)
@selection_options
@window_options
@json_option
@config_option
def command(
    cluster: str | None,
    out: Path,
    statistics: Path | None,
    groups: tuple[str, ...],
    topics: tuple[str, ...],
    since: str | None,
    until: str | None,
    baseline: str | None,
    as_json: bool,
    config: Path | None,
) -> int:
    """Save the measurements of a window as a folder, to analyse it later or elsewhere, without a network."""
    from workbench import api
    from workbench.cli.progress import Steps

    if statistics is not None:
        if len(groups) != 1 or topics or any((since, until, baseline)):
            raise UsageError(
                "--statistics takes one --group, --output and perhaps --cluster.",
                hint="The statistics do not name the consumer group; the window is the end of the file.",
            )
        found = api.capture_statistics(statistics, out, group=groups[0], cluster=cluster or "clients", config=config)
    else:
        with Steps(quiet=as_json) as steps, steps.waiting(f"Reading the sources of {cluster}"):
            found = api.capture(
                out,
                cluster=cluster or "",  # given: there are no statistics
                groups=groups,
                topics=topics,
                since=since,
                until=until,
                baseline=baseline,
                config=config,
            )
    if as_json:
        write_json(found.to_json())
    else:
        samples = found.capture.samples.num_rows
        say(f"Saved {plural(samples, 'sample')} in {out}. Analyse: workbench triage --capture {shell_word(str(out))}")
    for text in found.incomplete:
        say(f"Incomplete: {text}")
    return found.exit_code
