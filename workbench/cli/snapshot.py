"""`workbench snapshot`: groups, lag and members as Kafka itself sees them now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli.options import cluster_option, config_option, json_option, print_json, say
from workbench.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from workbench.collect.kafka import Snapshot


@click.command(name="snapshot")
@cluster_option()
@click.option("--group", "groups", multiple=True, help="Only this consumer group. May be repeated.")
@json_option
@config_option
def command(cluster: str, groups: tuple[str, ...], as_json: bool, config: Path | None) -> int:
    """Groups, members and lag of each partition, from Kafka itself: commits first, then ends, so lag is never negative.

    Read-only: no group is joined, nothing is written. Exit code 4 if some group could not be read.
    """
    from workbench.collect.kafka import KafkaCluster
    from workbench.settings import load_settings

    chosen = load_settings(config).cluster(cluster)
    if chosen.bootstrap is None:
        raise UsageError(f"The cluster {cluster!r} has no bootstrap in the settings.", hint="Add it to workbench.toml.")
    kafka = KafkaCluster(chosen.bootstrap, chosen.kafka, deadline_seconds=chosen.timeout_seconds)
    snapshot = kafka.snapshot(groups=list(groups) or None)
    if as_json:
        print_json(_document(cluster, snapshot))
    else:
        _show(snapshot)
    for text in snapshot.incomplete:
        say(f"Incomplete: {text}")
    return ExitCode.EVIDENCE if snapshot.incomplete else ExitCode.OK


def _rows(snapshot: Snapshot) -> list[dict[str, Any]]:
    owners = {
        (view.group, *part): member for view in snapshot.groups for member in view.members for part in member.partitions
    }
    rows = []
    for (group, topic, partition), committed in sorted(snapshot.commits.items()):
        owner = owners.get((group, topic, partition))
        rows.append(
            {
                "group": group,
                "topic": topic,
                "partition": partition,
                "committed": committed,
                "log_end": snapshot.ends.get((topic, partition)),
                "lag_messages": snapshot.lag(group, topic, partition),
                "client_id": owner.client_id if owner else None,
                "host": owner.host if owner else None,
            }
        )
    return rows


def _document(cluster: str, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "schema": "workbench.snapshot/1",
        "cluster": cluster,
        "taken_at": snapshot.taken_at,
        "groups": [
            {"group": view.group, "state": view.state, "protocol": view.protocol, "members": len(view.members)}
            for view in snapshot.groups
        ],
        "partitions": _rows(snapshot),
        "incomplete": list(snapshot.incomplete),
    }


def _show(snapshot: Snapshot) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from workbench.words import plural, printable

    console = Console(highlight=False)
    rows = _rows(snapshot)
    for view in snapshot.groups:
        mine = [row for row in rows if row["group"] == view.group]
        table = Table(
            title=f"{printable(view.group)}  {view.state.replace('_', ' ')}, {plural(len(view.members), 'member')}",
            title_justify="left",
            title_style="bold",
            box=None,
        )
        table.add_column("topic")
        for name in ("partition", "committed", "log end", "lag"):
            table.add_column(name, justify="right")
        table.add_column("owner")
        for row in mine:
            numbers = (row["committed"], row["log_end"], row["lag_messages"])
            shown = ["-" if number is None else f"{number:,}" for number in numbers]
            owner = printable(row["client_id"]) if row["client_id"] else "-"
            table.add_row(Text(printable(row["topic"])), str(row["partition"]), *shown, Text(owner))
        console.print(table)
    if not snapshot.groups:
        console.print("The cluster has no consumer group.")
