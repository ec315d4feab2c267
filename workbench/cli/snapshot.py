"""`workbench snapshot`: groups, lag and members as Kafka itself sees them now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli.options import cluster_option, config_option, json_option
from workbench.errors import ExitCode, UsageError
from workbench.screen import say, write_json

if TYPE_CHECKING:
    from workbench.collect.kafka import Snapshot
    from workbench.collect.kafka_ages import Age

    Ages = Mapping[tuple[str, str, int], Age]

_SAID = 20  # holes told one by one; --json has them all


@click.command(name="snapshot")
@cluster_option()
@click.option("--group", "groups", multiple=True, help="Only this consumer group. May be repeated.")
@click.option(
    "--top", type=click.IntRange(min=1), help="Show only the N subscriptions that are furthest behind, a line each."
)
@click.option(
    "--sort",
    type=click.Choice(["lag", "time_lag"]),
    help="Sort by messages (lag) or by time lag, which is bounded by offset lookups in the log. Default with --top: lag.",
)
@click.option(
    "--deadline", help="Time limit of the whole snapshot, for example 15s. Default: the cluster's timeout_seconds."
)
@json_option
@config_option
def command(
    cluster: str,
    groups: tuple[str, ...],
    top: int | None,
    sort: str | None,
    deadline: str | None,
    as_json: bool,
    config: Path | None,
) -> int:
    """Show groups, members and the lag of each partition, from Kafka itself.

    Read-only: joins no group and writes nothing. Reads commits before log ends, so lag is never negative.
    Exit code 4 if a group could not be read in time.
    """
    from workbench.collect.kafka import KafkaCluster
    from workbench.collect.kafka_ages import ages
    from workbench.settings import load_settings
    from workbench.window import parse_duration

    chosen = load_settings(config).cluster(cluster)
    if chosen.bootstrap is None:
        raise UsageError(f"The cluster {cluster!r} has no bootstrap in the settings.", hint="Add it to workbench.toml.")
    seconds = parse_duration(deadline).total_seconds() if deadline else chosen.timeout_seconds
    kafka = KafkaCluster(chosen.bootstrap, chosen.kafka, deadline_seconds=seconds)
    snapshot = kafka.snapshot(groups=list(groups) or None)
    incomplete = list(snapshot.incomplete)
    overview = top is not None or sort is not None
    old: Ages | None = ages(kafka, snapshot, incomplete) if sort == "time_lag" else None
    ranked = _ranked(snapshot, old)[:top] if overview else None
    if as_json:
        write_json(_document(cluster, snapshot, ranked, incomplete))
    elif ranked is not None:
        _show_ranked(ranked, snapshot)
    else:
        _show(snapshot)
    for text in incomplete[:_SAID]:
        say(f"Incomplete: {text}")
    if len(incomplete) > _SAID:
        say(f"Incomplete: {len(incomplete) - _SAID:,} more.")
    return ExitCode.EVIDENCE if incomplete else ExitCode.OK


def _ranked(snapshot: Snapshot, old: Ages | None) -> list[dict[str, Any]]:
    """A row for each subscription, the furthest behind first; what is not known comes last."""
    parts: dict[tuple[str, str], list[int]] = defaultdict(list)
    for group, topic, number in snapshot.commits:
        parts[group, topic].append(number)
    views = {view.group: view for view in snapshot.groups}
    rows = []
    for (group, topic), numbers in parts.items():
        lags = [lag for number in numbers if (lag := snapshot.lag(group, topic, number)) is not None]
        row: dict[str, Any] = {
            "group": group,
            "topic": topic,
            "state": views[group].state,
            "members": len(views[group].members),
            "partitions": len(numbers),
            "partitions_known": len(lags),
            "lag_messages": sum(lags) if lags else None,
        }
        if old is not None:
            known = [old[group, topic, number] for number in numbers if (group, topic, number) in old]
            oldest = max(known, key=lambda age: age.low) if known else None
            row["time_lag_low"] = oldest.low if oldest is not None else None
            row["time_lag_high"] = oldest.high if oldest is not None else None
        rows.append(row)

    def behind(row: dict[str, Any]) -> tuple[Any, ...]:
        age = row.get("time_lag_low")
        lag = row["lag_messages"]
        by_age = -(age if age is not None else -1.0) if old is not None else 0.0
        return by_age, -(lag if lag is not None else -1), row["group"], row["topic"]

    return sorted(rows, key=behind)


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


def _document(
    cluster: str, snapshot: Snapshot, ranked: list[dict[str, Any]] | None, incomplete: list[str]
) -> dict[str, Any]:
    head = {"schema": "workbench.snapshot/1", "cluster": cluster, "taken_at": snapshot.taken_at}
    if ranked is not None:
        return {**head, "group_count": len(snapshot.groups), "subscriptions": ranked, "incomplete": incomplete}
    return {
        **head,
        "groups": [
            {"group": view.group, "state": view.state, "protocol": view.protocol, "members": len(view.members)}
            for view in snapshot.groups
        ],
        "partitions": _rows(snapshot),
        "incomplete": incomplete,
    }


def _show_ranked(rows: list[dict[str, Any]], snapshot: Snapshot) -> None:
    from rich.table import Table
    from rich.text import Text

    from workbench.console import open_console
    from workbench.humanize import count, duration, plural, printable

    with_time = bool(rows) and "time_lag_low" in rows[0]
    table = Table(title=f"{plural(len(snapshot.groups), 'group')}", title_justify="left", title_style="bold", box=None)
    table.add_column("group ← topic", overflow="fold")
    if with_time:
        table.add_column("behind", justify="right", no_wrap=True)
    table.add_column("messages", justify="right", no_wrap=True)
    table.add_column("partitions", justify="right")
    table.add_column("members", justify="right")
    table.add_column("state")
    for row in rows:
        name = Text(f"{printable(row['group'])} ← {printable(row['topic'])}")
        time_lag = []
        if with_time:
            low, high = row["time_lag_low"], row["time_lag_high"]
            if low is None:
                time_lag.append("unknown")
            elif high is None:
                time_lag.append(f"over {duration(low)}")
            else:
                time_lag.append("0 s" if high == 0 else f"{duration(low)} to {duration(high)}")
        known, all_of_them = row["partitions_known"], row["partitions"]
        partitions = f"{all_of_them:,}" if known == all_of_them else f"{known:,} of {all_of_them:,} known"
        state = row["state"].replace("_", " ")
        table.add_row(name, *time_lag, count(row["lag_messages"]), partitions, f"{row['members']:,}", state)
    open_console().print(table)


def _show(snapshot: Snapshot) -> None:
    from rich.table import Table
    from rich.text import Text

    from workbench.console import SafeConsole
    from workbench.humanize import plural, printable

    console = SafeConsole()
    by_group: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in _rows(snapshot):
        by_group[row["group"]].append(row)
    for view in snapshot.groups:
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
        for row in by_group[view.group]:
            numbers = (row["committed"], row["log_end"], row["lag_messages"])
            shown = ["-" if number is None else f"{number:,}" for number in numbers]
            owner = printable(row["client_id"]) if row["client_id"] else "-"
            table.add_row(Text(printable(row["topic"])), str(row["partition"]), *shown, Text(owner))
        console.print(table)
    if not snapshot.groups:
        console.print("The cluster has no consumer group.")
