"""`workbench lab`: a real Kafka and Prometheus on this computer."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli.help import Group
from workbench.cli.options import PLACE, completing, json_option, renamed
from workbench.errors import ExitCode
from workbench.safe_output import say, tell, write_json

if TYPE_CHECKING:
    from workbench.cli.progress import Steps
    from workbench.lab.kafka_jars import JarSet
    from workbench.lab.lab import Lab
    from workbench.lab.try_advice import AdviceResult


@click.group(name="lab", cls=Group)
def command() -> None:
    """Run a real Kafka and Prometheus on this computer, to try Workbench, to practise, and to record faults.

    The lab uses free loopback ports and a folder of its own. It does not need root.
    """


@command.command()
@click.option("--ttl", default="8h", show_default=True, help="Stop the lab after this time.")
@click.option("--no-prometheus", is_flag=True, help="Start only Kafka and its exporter.")
@json_option
def up(ttl: str, no_prometheus: bool, as_json: bool) -> int:
    """Start the lab in the background. Every command then accepts --cluster lab."""
    from workbench.cli.progress import Steps
    from workbench.lab import lab_keeper
    from workbench.window import parse_duration

    seconds = parse_duration(ttl).total_seconds()
    with Steps(quiet=as_json) as steps:
        fetch_parts(steps, tools=False)
        prepare_spark(steps)
        with steps.step("Starting Kafka" + ("" if no_prometheus else " and Prometheus")):
            state = lab_keeper.up(ttl_seconds=seconds, with_prometheus=not no_prometheus)
    _print_state(state, as_json)
    return ExitCode.OK


@command.command()
@click.option("--quiet", is_flag=True, help="Print nothing if no lab is running.")
@json_option
def down(quiet: bool, as_json: bool) -> int:
    """Stop the lab, and clean up after one that was killed."""
    from workbench.lab import lab_keeper

    ended = lab_keeper.down()
    if as_json:
        write_json({"ended": ended})
    elif ended or not quiet:
        say(f"Ended: {', '.join(ended)}." if ended else "No lab was running.")
    return ExitCode.OK


@command.command()
@json_option
def status(as_json: bool) -> int:
    """Show the running lab. Exit code 5 if there is none."""
    from workbench.lab import lab_keeper

    state = lab_keeper.running()
    if state is None:
        if as_json:
            write_json({"up": False})
        else:
            say("No lab is running. Start it with: workbench lab up")
        return ExitCode.SOURCE
    _print_state(state, as_json)
    return ExitCode.OK


def _print_state(state: dict[str, Any], as_json: bool) -> None:
    shown = {
        name: state[name] for name in ("cluster", "cluster_id", "bootstrap", "prometheus_url", "directory", "pids")
    }
    if as_json:
        write_json({"up": True, **shown})
        return
    for name, value in shown.items():
        if name == "pids":
            value = ", ".join(f"{process} {pid}" for process, pid in value.items())
        tell(f"{name.replace('_', ' '):15} {'none' if value is None else value}")


@command.command(name="list")
@json_option
def list_(as_json: bool) -> int:
    """List the faults that `lab run` can cause."""
    from workbench.lab.scenarios import SCENARIOS

    if as_json:
        write_json([{"scenario": name, "what": text} for name, (_, text) in SCENARIOS.items()])
    else:
        from workbench.terminal_tables import FittingTable, SafeConsole, wrapped

        table = FittingTable("fault", *wrapped("what happens"), show_header=False, pad_edge=False)
        for name, (_, text) in SCENARIOS.items():
            table.add_row(name, text)
        SafeConsole().print(table)
    return ExitCode.OK


@command.command()
@click.argument("scenario", shell_complete=completing("scenarios"))
@click.option("--seed", default=1, show_default=True, help="Seed for rates, partitions, target and timing.")
@click.option(
    "--source",
    type=click.Choice(["prometheus", "scrape"]),
    default="prometheus",
    show_default=True,
    help="Read the metrics from Prometheus, or scrape them directly.",
)
@click.option("--apply-advice", is_flag=True, help="Also carry out the advised action, and wait for its check.")
@renamed("--output", "out", old=("--out",), type=PLACE, help="Folder for the capture and the logs. It must not exist.")
@json_option
def run(scenario: str, seed: int, source: str, apply_advice: bool, out: Path | None, as_json: bool) -> int:
    """Cause a real incident, and compare the verdict with the real cause. Exit code 0 if they match, 3 if not.

    Uses the running lab, or starts one for this run. List the scenarios with: workbench lab list
    """
    from workbench.cli.progress import Steps
    from workbench.errors import UsageError
    from workbench.lab.lab import lab_dir
    from workbench.lab.process import ending_on_signals
    from workbench.lab.scenarios import make_scenario
    from workbench.spark.session import session

    make_scenario(scenario, seed, bootstrap="", run_id="check")  # refuse a wrong name before anything starts
    folder = (out or lab_dir() / "runs" / f"{scenario}-{seed}-{uuid.uuid4().hex[:6]}").absolute()
    if folder.exists():
        raise UsageError(f"{folder} exists.", hint="Name another folder.")
    folder.mkdir(parents=True)
    with Steps(quiet=as_json) as steps, ExitStack() as stack:
        stack.enter_context(ending_on_signals())
        fetch_parts(steps, tools=False)
        lab = stack.enter_context(running_or_own(steps, with_prometheus=source == "prometheus"))
        start_spark_beside(steps)
        with steps.step(f"Running {scenario} with seed {seed}") as step:
            from workbench.lab.run_scenario import run_scenario

            result = run_scenario(
                lab,
                make_scenario(scenario, seed, bootstrap=lab.bootstrap, run_id=uuid.uuid4().hex[:8]),
                session,
                folder=folder / "run",
                source="prometheus" if source == "prometheus" else "scrape",
                advice=apply_advice,
                say=lambda text: steps.say(f"  {text}"),
            )
            step.note = "match" if result.match else "NO MATCH"
    if as_json:
        write_json(result.to_json())
    else:
        from workbench.report.terminal import show
        from workbench.terminal_tables import SafeConsole

        show(SafeConsole(), result.triage, result.capture.samples)
        tell(
            f"Expected {result.scenario.expected} {result.scenario.scope or ''}: {'match' if result.match else 'NO MATCH'}"
        )
        if result.outcome is not None:
            tell(outcome_words(result.outcome))
        tell(f"Capture: {result.folder / 'capture'}")
    return ExitCode.OK if result.match else ExitCode.FINDINGS


def outcome_words(outcome: AdviceResult) -> str:
    """Describe the outcome of the advice in one line."""
    from workbench.humanize import duration

    if outcome.kind is None:
        return "Advice: no action that the lab can carry out."
    checked = (
        f"its check passed after {duration(outcome.verified)}"
        if outcome.verified is not None
        else "its check did not pass"
    )
    gone = (
        f"the lag was gone after {duration(outcome.lag_gone)}"
        if outcome.lag_gone is not None
        else "the lag was not gone"
    )
    return f"Advice ({outcome.kind}): {checked}; {gone}."


@command.command()
@click.option("--pulsar", "with_pulsar", is_flag=True, help="Also the jars of a Pulsar, 235 MB.")
def setup(with_pulsar: bool) -> int:
    """Download what the lab, the tests and the benchmarks need. Does nothing if it is already there."""
    from workbench.cli.progress import Steps
    from workbench.lab.pulsar import PULSAR

    with Steps() as steps:
        fetch_parts(steps, tools=True)
        prepare_spark(steps)
        if with_pulsar:
            _fetch_jars(steps, PULSAR)
    return ExitCode.OK


def fetch_parts(steps: Steps, *, tools: bool) -> None:
    """Kafka's jars (and its tools) and Prometheus, with a progress bar for what is missing."""
    from workbench.lab.kafka_jars import BROKER, TOOLS
    from workbench.lab.prometheus import ensure_prometheus, find_prometheus

    for jars in (BROKER, TOOLS) if tools else (BROKER,):
        _fetch_jars(steps, jars)
    if find_prometheus() is None:
        with steps.step("Looking for a Prometheus") as step:
            found = ensure_prometheus()
            step.note = str(found) if found else "none available without root; metrics will be scraped directly"


def prepare_spark(steps: Steps) -> None:
    """Build Spark's class archive, if it is missing."""
    from workbench.spark.class_archive import archive_path, build_archive, is_built
    from workbench.spark.java import find_java

    if not is_built(archive_path(find_java())):
        with steps.step("Preparing a faster start of Spark (once)"):
            build_archive()


def start_spark_beside(steps: Steps) -> None:
    """Start Spark in the background; a class archive that is missing is built before that, there too."""
    from workbench.spark.class_archive import archive_path, build_archive, is_built
    from workbench.spark.java import find_java
    from workbench.spark.session import start_in_background

    built = is_built(archive_path(find_java()))
    if not built:
        steps.say("  Beside what follows, a faster start of Spark is prepared (once).")
    start_in_background(None if built else build_archive)


def _fetch_jars(steps: Steps, jars: JarSet) -> None:
    from workbench.lab.kafka_jars import ensure

    if jars.ready:
        return
    with steps.bar(f"Downloading {jars.system} {jars.version} ({jars.name})") as bar:
        task = bar.add_task("jars", total=None)
        ensure(jars, progress=lambda done, total: bar.update(task, completed=done, total=total))


def running_or_own(steps: Steps, *, with_prometheus: bool) -> Lab:
    """The lab that is up, else one of our own that ends with the block."""
    from workbench.lab import lab_keeper
    from workbench.lab.lab import lab_dir, start_lab

    state = lab_keeper.running()
    if state is not None:
        return lab_keeper.attach(state)
    folder = lab_dir() / f"own-{uuid.uuid4().hex[:8]}"
    with steps.step("Starting Kafka" + (" and Prometheus" if with_prometheus else "")):
        return start_lab(folder, with_prometheus=with_prometheus, temporary=True, say=steps.say)
