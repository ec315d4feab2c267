"""`workbench demo`: a real Kafka, a real incident, its verdict and report."""

from __future__ import annotations

import shutil
import time
import uuid
from contextlib import ExitStack
from pathlib import Path

import click

from workbench.cli.options import FOLDER, renamed
from workbench.errors import ExitCode, UsageError
from workbench.humanize import plural
from workbench.safe_output import say

_MARK = ".workbench-demo"


@click.command(name="demo")
@renamed(
    "--output",
    "out",
    old=("--out",),
    type=FOLDER,
    default=Path("workbench-demo"),
    show_default=True,
    help="Folder for report and capture. The result of an earlier demo is replaced.",
)
@click.option("--seed", default=1, show_default=True, help="Seed for the random durations of the demo.")
def command(out: Path, seed: int) -> int:
    """Start a real Kafka, cause an incident, and find its cause.

    A service “payments” reads the topic “orders”. After a while, its handler for one event type becomes slow. The demo then
    runs the triage that you would run on call, on the data in Prometheus. It takes about 90 seconds, and nothing keeps running.
    """
    if out.exists() and any(out.iterdir()) and not (out / _MARK).exists():
        raise UsageError(
            f"{out} exists and is not the result of an earlier demo.", hint="Name another folder with --output."
        )
    from workbench.cli.lab import fetch_parts, start_spark_beside
    from workbench.cli.progress import Steps
    from workbench.lab.lab import lab_dir, start_lab
    from workbench.lab.process import ending_on_signals
    from workbench.lab.run_scenario import run_scenario
    from workbench.lab.scenarios import demo_scenario
    from workbench.report.html_report import write_html
    from workbench.spark.session import end, session

    began = time.monotonic()
    room = lab_dir() / f"own-{uuid.uuid4().hex[:8]}"
    with Steps() as steps, ExitStack() as stack:
        stack.enter_context(ending_on_signals())
        fetch_parts(steps, tools=False)
        with steps.step("Starting a real Kafka and a Prometheus") as step:
            lab = stack.enter_context(start_lab(room, temporary=True, say=steps.say))
            step.note = f"Kafka at {lab.bootstrap}, Prometheus at {lab.prometheus_url or 'nowhere'}"
        start_spark_beside(steps)
        with steps.step("Causing an incident") as step:
            result = run_scenario(
                lab,
                demo_scenario(lab.bootstrap, seed=seed),
                session,
                folder=room / "run",
                source="prometheus" if lab.prometheus_url else "scrape",
                say=lambda text: steps.say(f"  {text}"),
            )
            step.note = f"read from {result.capture.info.source}, {plural(result.capture.samples.num_rows, 'sample')}"
        with steps.step("Writing report and capture"):
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir(parents=True)
            (out / _MARK).touch()
            shutil.copytree(result.folder / "capture", out / "capture")
            write_html(out / "report.html", result.triage, result.capture)
        with steps.step("Stopping Kafka and the other processes"):
            end(session())
            stack.close()
    from workbench.report.terminal import show
    from workbench.terminal_tables import SafeConsole

    show(SafeConsole(), result.triage, result.capture.samples)
    right = "which is what was done to it" if result.match else f"but {result.scenario.expected} was done to it"
    say(f"Verdict: {result.finding.verdict}, {right}. {time.monotonic() - began:.0f} s in all.")
    say(f"Report:  {out / 'report.html'}")
    say(f"Capture: {out / 'capture'}   again, with no network: workbench triage --capture {out / 'capture'}")
    return ExitCode.OK if result.match else ExitCode.INTERNAL
