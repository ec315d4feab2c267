"""`workbench watch`: record metrics pages and Kafka's own state, without a Prometheus."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack
from pathlib import Path

import click

from workbench.cli.options import FOLDER, cluster_option, config_option, groups_option, json_option, renamed
from workbench.errors import ExitCode, SetupError, UsageError
from workbench.humanize import plural, shell_word
from workbench.safe_output import say, write_json


@click.command(name="watch")
@cluster_option()
@renamed("--output", "out", old=("--out",), type=FOLDER, help="Folder for the capture; required without --live.")
@click.option("--live", is_flag=True, help="Show the fleet and one group on the terminal instead, read from Kafka.")
@click.option("--interval", default="5s", show_default=True, help="Time between two scrapes.")
@click.option("--for", "length", help="Stop after this time. Default: on Ctrl-C.")
@click.option("--metrics", "pages", multiple=True, help="URL of a further metrics page. May be repeated.")
@groups_option
@json_option
@config_option
def command(
    cluster: str,
    out: Path | None,
    live: bool,
    interval: str,
    length: str | None,
    pages: tuple[str, ...],
    groups: tuple[str, ...],
    as_json: bool,
    config: Path | None,
) -> int:
    """Record a cluster into a capture until Ctrl-C: its metrics pages, and groups and offsets from Kafka.

    You can analyse the recording at any time with `workbench triage --capture`.

    --live records nothing: it shows groups on topics by lag, and keys triage, capture and open the runbook of the chosen group.
    """
    if live:
        return _live(
            cluster, out=out, others=bool(length or pages or as_json), groups=groups, interval=interval, config=config
        )
    if out is None:
        raise UsageError("--output is missing.", hint="Name a folder for the capture, or watch with --live.")
    from workbench.cli.progress import Steps
    from workbench.collect.recorder import Recorder
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
            say(f"{plural(rounds, 'round')}, {plural(samples, 'sample')}")

    with first:
        first.enter_context(Steps(quiet=as_json).waiting(f"Reading the sources of {cluster}"))
        capture = recorder.run(stop, seconds=seconds, report=report)
    if as_json:
        write_json({"capture": str(out), "rounds": recorder.rounds, "samples": capture.samples.num_rows})
    else:
        say(
            f"Recorded {plural(capture.samples.num_rows, 'sample')} in {out}. "
            f"Analyse: workbench triage --capture {shell_word(str(out))}"
        )
    return ExitCode.EVIDENCE if recorder.missing else ExitCode.OK


def _live(
    cluster: str, *, out: Path | None, others: bool, groups: tuple[str, ...], interval: str, config: Path | None
) -> int:
    from workbench.queues.systems import not_there
    from workbench.settings import load_settings
    from workbench.terminal_tables import SafeConsole
    from workbench.window import parse_duration

    if out is not None or others:
        raise UsageError("--live records nothing: it takes --cluster, --group and --interval alone.")
    seconds = parse_duration(interval).total_seconds()
    chosen = load_settings(config).cluster(cluster)
    if chosen.system != "kafka":
        raise not_there(chosen, "`watch --live` does")
    if chosen.bootstrap is None:
        raise UsageError(
            f"The cluster {cluster!r} has no bootstrap in the settings.", hint="--live reads from Kafka; add it."
        )
    if not SafeConsole().is_terminal:
        raise UsageError("--live needs a terminal.", hint="For a script: workbench snapshot --cluster CLUSTER --json")
    try:
        from workbench.cli.watch_live import live
    except ModuleNotFoundError as error:
        raise SetupError(f"{error.name} is not installed.", hint="Try: pip install textual") from None
    return live(cluster, groups=groups, every_seconds=seconds, config=config)
