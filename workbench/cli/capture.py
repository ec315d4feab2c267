"""`workbench capture`: save a stretch of a cluster's measurements as a folder."""

from __future__ import annotations

from pathlib import Path

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
from workbench.screen import say, write_json


@click.command(name="capture")
@cluster_option()
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder for the capture.")
@selection_options
@window_options
@json_option
@config_option
def command(
    cluster: str,
    out: Path,
    groups: tuple[str, ...],
    topics: tuple[str, ...],
    since: str | None,
    until: str | None,
    baseline: str | None,
    as_json: bool,
    config: Path | None,
) -> int:
    """Save the measurements of a window as a folder, to analyse it later or elsewhere, without a network."""
    from workbench.collect.capture import write_capture
    from workbench.collect.live import collect
    from workbench.settings import load_settings

    if out.exists() and any(out.iterdir()):
        raise UsageError(f"{out} exists and is not empty.", hint="Name another folder for the capture.")
    settings = load_settings(config)
    chosen = settings.cluster(cluster)
    window = window_of(since, until, baseline, settings.windows_of(chosen))
    found = collect(
        chosen,
        window,
        thresholds=settings.thresholds_of(chosen),
        groups=list(groups) or None,
        topics=list(topics) or None,
    )
    write_capture(out, found)
    if as_json:
        write_json({"capture": str(out), "samples": found.samples.num_rows, "incomplete": found.info.incomplete})
    else:
        say(f"Saved {found.samples.num_rows:,} samples in {out}. Analyse: workbench triage --capture {out}")
    for text in found.info.incomplete:
        say(f"Incomplete: {text}")
    return ExitCode.EVIDENCE if found.info.incomplete else ExitCode.OK
