"""`workbench audit restarts`: how long jobs with checkpoints stood, and how much they read again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli.options import A_TIME, capture_option, cluster_option, config_option, json_option
from workbench.humanize import clock, duration, listed, plural, printable
from workbench.safe_output import say, tell, write_json

if TYPE_CHECKING:
    from workbench.history.job_restarts import JobRestart


@click.command(name="restarts")
@cluster_option(unless=("capture",))
@capture_option
@click.option("--group", "groups", multiple=True, help="Only this group. May be repeated.")
@click.option("--since", help=f"Start of the window: {A_TIME}. Default: 15m ago.")
@click.option("--until", help=f"End of the window: {A_TIME}. Default: now.")
@json_option
@config_option
def restarts_command(
    cluster: str | None,
    capture: Path | None,
    groups: tuple[str, ...],
    since: str | None,
    until: str | None,
    as_json: bool,
    config: Path | None,
) -> int:
    """Show restarts of Flink's and Spark's jobs: how long each stood, and how many records it read again.

    From the metrics of their checkpoints (profiles flink and spark_streaming), not from rows of an audit. Numbers are bounds.
    Exit code 3 if a job restarted, 4 if it cannot be told.
    """
    from workbench.api.checkpoint_restarts import job_restarts
    from workbench.cli.progress import Steps

    with Steps(quiet=as_json) as steps:
        found = job_restarts(
            cluster=cluster, capture=capture, groups=groups, since=since, until=until, config=config, progress=steps
        )
    if as_json:
        write_json(found.to_json())
        return found.exit_code
    for it in found.found.restarts:
        tell(_line(it))
    for group in found.found.untold:
        tell(f"{printable(group)}  cannot tell: restore_time is missing")
    if not found.found.told and not found.found.untold:
        say(
            "No job tells when it began from a checkpoint. See docs/audit.md, and map jobs to groups in the cluster's members."
        )
    elif not found.found.restarts:
        say(f"No restart of {plural(len(found.found.told), 'job')} that tells of its own.")
    return found.exit_code


def _line(it: JobRestart) -> str:
    begun = f"restored {_at(it.restored)}"
    if it.outage_seconds is not None:
        stood = f"stood {duration(it.outage_seconds)} at most ({_at(it.since)} to {_at(it.until)})"
    elif it.since is not None:
        stood = f"not seen to read since {_at(it.since)}"
    else:
        stood = "cannot tell how long it stood"
    return f"{printable(it.group)}  {begun}: {stood}; {_again(it)}{_lacking(it)}"


def _again(it: JobRestart) -> str:
    low, high = it.read_again_low, it.read_again_high
    if low is None or (not low and high is None):
        return "cannot tell how many records were read again"
    if high is None:
        return f"{plural(low, 'record')} read again, or more"
    ratio = it.replay_ratio[1]
    of = "" if ratio is None else f", {ratio:.2%} at most of the {it.passed:,} before"
    return f"{low:,} to {plural(high, 'record')} read again{of}"


def _lacking(it: JobRestart) -> str:
    return f" (missing: {listed(list(it.missing))})" if it.missing else ""


def _at(seconds: float | None) -> str:
    return "unknown" if seconds is None else clock(seconds)
