"""`workbench capture`: save a stretch of a cluster's measurements as a folder."""

from __future__ import annotations

from pathlib import Path

import click

from workbench.cli.options import (
    cluster_option,
    config_option,
    json_option,
    selection_options,
    window_options,
)
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
    """Save what Prometheus (and Kafka) say about a window, to analyse it later and elsewhere, with no network."""
    from workbench import api

    found = api.capture(
        out,
        cluster=cluster,
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
        say(f"Saved {samples:,} samples in {out}. Analyse: workbench triage --capture {out}")
    for text in found.incomplete:
        say(f"Incomplete: {text}")
    return found.exit_code
