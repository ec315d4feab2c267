"""`workbench audit upstream`: breakers of gateways before Kafka, and what they and agents hold back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli.options import A_TIME, FOLDER, capture_option, cluster_option, config_option, json_option
from workbench.humanize import clock, duration, listed, plural, printable
from workbench.safe_output import say, tell, write_json

if TYPE_CHECKING:
    from workbench.api.gateway_state import UpstreamResult
    from workbench.history.gateway_breakers import Breaker


_MOST_SHOWN = 20


@click.command(name="upstream")
@cluster_option(unless=("capture",))
@capture_option
@click.option("--since", help=f"Start of the window: {A_TIME}. Default: 15m ago.")
@click.option("--until", help=f"End of the window: {A_TIME}. Default: now.")
@click.option(
    "--output",
    "out",
    type=FOLDER,
    help="Folder that serve and node_exporter read: write the answer there, too. Run it by a timer.",
)
@click.option(
    "--every", default="5m", show_default=True, help="When the next one is due; three times as old, it is stale."
)
@json_option
@config_option
def upstream_command(
    cluster: str | None,
    capture: Path | None,
    since: str | None,
    until: str | None,
    out: Path | None,
    every: str,
    as_json: bool,
    config: Path | None,
) -> int:
    """Show what stands before Kafka: breakers of gateways, and records that wait where no consumer lags.

    From metrics of gateways and agents, by a profile, and the breaker's own settings, `[clusters.NAME.breaker]` (docs/audit.md).
    With --output, for the pages of `workbench serve` and for alert rules: CLUSTER.workbench_upstream.json and .prom, each instead of
    the one before. If nothing is told, or it fails, the old ones stay, and become stale.
    Exit code 3 if a breaker is open or has a fault, or records are held back; 4 if one of the two cannot be told.
    """
    from workbench.api.gateway_state import upstream
    from workbench.cli.progress import Steps

    with Steps(quiet=as_json) as steps:
        found = upstream(cluster=cluster, capture=capture, since=since, until=until, config=config, progress=steps)
    path = None if out is None else _write(out, found, every)
    if as_json:
        write_json(found.to_json())
        return found.exit_code
    in_order = sorted(found.breakers, key=lambda it: not it.findings)
    _tell_some([[_line(it), *(f"  {one.words}" for one in it.findings)] for it in in_order])
    _tell_some([[f"Lag before Kafka: {it.words}."] for it in found.lag.held])
    _tell_some([[f"{printable(name)}  cannot tell: it does not tell {printable(what)}"] for name, what in found.untold])
    _tell_rest(found)
    if path is not None:
        say(f"Written: {path}")
    return found.exit_code


def _write(out: Path, found: UpstreamResult, every: str) -> Path | None:
    from workbench.files import writing
    from workbench.report.state_before_kafka import write_upstream
    from workbench.window import parse_duration

    if (state := found.state(every_seconds=parse_duration(every).total_seconds())) is None:
        return None
    with writing(f"The folder {out}"):
        out.mkdir(parents=True, exist_ok=True)
    return write_upstream(out, state)


def _tell_some(entries: Sequence[Sequence[str]]) -> None:
    for lines in entries[:_MOST_SHOWN]:
        for line in lines:
            tell(line)
    if len(entries) > _MOST_SHOWN:
        tell(f"And {len(entries) - _MOST_SHOWN:,} more, with --json.")


def _line(it: Breaker) -> str:
    share = "" if it.failover_share is None else f"; {it.failover_share:.1%} went to failover"
    at = "" if it.until is None else f" at {clock(it.until)}"
    seen = (
        "" if it.is_told or it.resolution_seconds is None else f", from counters over {duration(it.resolution_seconds)}"
    )
    return f"{printable(it.gateway)}  {it.state}{at}{seen}{share}"


def _tell_rest(found: UpstreamResult) -> None:
    if not found.breakers:
        sent = f" Records are sent to: {listed(found.destinations)}." if found.destinations else ""
        tell(f"No gateway tells what it sends to the normal cluster: export gateway_sends or breaker_state.{sent}")
    if not found.lag.told and not found.lag.untold:
        tell(
            "Nothing tells whether records wait before Kafka: export gateway_answers by code, or disk_backlog_age of agents."
        )
    if found.lag.held:
        lag = "is not measured" if found.kafka_lag is None else f"is {plural(found.kafka_lag, 'message')}"
        say(f"The lag of all consumers {lag}: what waits before Kafka is not in it.")
    elif not found.untold and found.lag.told:
        say(f"{plural(len(found.lag.told), 'process holds', 'processes hold')} nothing back.")
