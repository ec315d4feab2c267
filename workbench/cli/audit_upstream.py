"""`workbench audit upstream`: breakers of gateways before Kafka, and what they and agents hold back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from workbench.cli.options import A_TIME, capture_option, cluster_option, config_option, json_option
from workbench.humanize import clock, duration, listed, plural, printable
from workbench.screen import say, tell, write_json

if TYPE_CHECKING:
    from workbench.api.before_kafka import UpstreamResult
    from workbench.history.breakers import Breaker, BreakerFinding


_MOST_SHOWN = 20


@click.command(name="upstream")
@cluster_option(unless=("capture",))
@capture_option
@click.option("--since", help=f"Start of the window: {A_TIME}. Default: 15m ago.")
@click.option("--until", help=f"End of the window: {A_TIME}. Default: now.")
@json_option
@config_option
def upstream_command(
    cluster: str | None, capture: Path | None, since: str | None, until: str | None, as_json: bool, config: Path | None
) -> int:
    """Show what stands before Kafka: breakers of gateways, and records that wait where no consumer lags.

    From metrics of gateways and agents, by a profile, and the breaker's own settings, `[clusters.NAME.breaker]` (docs/audit.md).
    Exit code 3 if a breaker is open or has a fault, or records are held back; 4 if one of the two cannot be told.
    """
    from workbench.api.before_kafka import upstream
    from workbench.cli.progress import Steps

    with Steps(quiet=as_json) as steps:
        found = upstream(cluster=cluster, capture=capture, since=since, until=until, config=config, progress=steps)
    if as_json:
        write_json(found.to_json())
        return found.exit_code
    in_order = sorted(found.breakers, key=lambda it: not it.findings)
    _tell_some([[_line(it), *map(_finding, it.findings)] for it in in_order])
    _tell_some([[f"Lag before Kafka: {it.words}."] for it in found.lag.held])
    _tell_some([[f"{printable(name)}  cannot tell: it does not tell {printable(what)}"] for name, what in found.untold])
    _tell_rest(found)
    return found.exit_code


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


def _finding(it: BreakerFinding) -> str:
    shares = (
        ("of records went to failover", it.failover_share),
        ("of sends to the normal cluster failed", it.failed),
        ("of those to failover", it.failover_failed),
    )
    told = [f"{value:.1%} {words}" for words, value in shares if value is not None]
    if it.changes is not None:
        told.append(f"{plural(it.changes, 'change')} of state, or more")
    how = " (by its gauge)" if it.is_told else ""
    return f"  {it.fault}{how}: {clock(it.since)} to {clock(it.until)}{': ' if told else ''}{listed(told)}"


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
