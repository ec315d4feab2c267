"""`workbench watch`: record metrics pages and Kafka's own state, without a Prometheus."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack
from pathlib import Path

import click

from workbench.cli.options import cluster_option, completing, config_option, json_option
from workbench.errors import ExitCode
from workbench.screen import say, write_json


@click.command(name="watch")
@cluster_option()
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder for the capture.")
@click.option("--interval", default="5s", show_default=True, help="Time between two scrapes.")
@click.option("--for", "length", help="Stop after this time. Default: on Ctrl-C.")
@click.option("--metrics", "pages", multiple=True, help="URL of a further metrics page. May be repeated.")
@click.option(
    "--group",
    "groups",
    multiple=True,
    shell_complete=completing("groups"),
    help="Only this consumer group. May be repeated.",
)
@json_option
@config_option
def command(
    cluster: str,
    out: Path,
    interval: str,
    length: str | None,
    pages: tuple[str, ...],
    groups: tuple[str, ...],
    as_json: bool,
    config: Path | None,
) -> int:
    """Record a cluster into a capture until Ctrl-C: its metrics pages, and groups and offsets from Kafka.

    You can analyse the recording at any time with `workbench triage --capture`.
    """
    from workbench.cli.progress import Steps
    from workbench.collect.record import Recorder
    from workbench.settings import load_settings
    from workbench.window import parse_duration

    settings = load_settings(config)
    known = settings.cluster(cluster)
    chosen = known.with_pages(pages)
    seconds = parse_duration(length).total_seconds() if length else None
    recorder = Recorder(
        chosen,
        out,
        interval_seconds=parse_duration(interval).total_seconds(),
        groups=list(groups) or None,
        thresholds=settings.thresholds_of(chosen),
    )
    stop = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, lambda _signal, _frame: stop.set())
    told: set[str] = set()
    first = ExitStack()

    def report(rounds: int, samples: int, missing: list[str]) -> None:
        first.close()
        for text in missing:
            if text not in told:
                told.add(text)
                say(f"Missing: {text}")
        if not as_json and (rounds == 1 or rounds % 12 == 0):
            say(f"{rounds} rounds, {samples:,} samples")

    with first:
        first.enter_context(Steps(quiet=as_json).waiting(f"Reading the sources of {cluster}"))
        capture = recorder.run(stop, seconds=seconds, report=report)
    if as_json:
        write_json({"capture": str(out), "rounds": recorder.rounds, "samples": capture.samples.num_rows})
    else:
        say(f"Recorded {capture.samples.num_rows:,} samples in {out}. Analyse: workbench triage --capture {out}")
    return ExitCode.EVIDENCE if recorder.missing else ExitCode.OK
