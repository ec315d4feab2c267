"""`workbench snapshot`: groups, lag and members from Kafka itself."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from workbench.cli.options import cluster_option, config_option, groups_option, renamed, table_option, wrote_rows
from workbench.safe_output import say, write_json

if TYPE_CHECKING:
    from workbench.api.groups_now import SnapshotResult
    from workbench.queues.snapshot_views import GroupView, Snapshot

_SAID = 20  # missing parts that are listed; --json has all of them


@click.command(name="snapshot")
@cluster_option()
@groups_option
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(["classic", "consumer", "share", "streams", "connect"]),
    help="Only groups of this kind. May be repeated.",
)
@renamed(
    "--limit",
    "top",
    old=("--top",),
    type=click.IntRange(min=1),
    help="Show only the N groups on topics that are furthest behind, a line each.",
)
@click.option(
    "--sort",
    type=click.Choice(["lag", "time_lag"]),
    help="Sort by messages (lag) or by time lag, which is bounded by offset lookups in the log. Default with --limit: lag.",
)
@renamed(
    "--timeout",
    "deadline",
    old=("--deadline",),
    help="Time limit of the whole snapshot, for example 15s. Default: the cluster's timeout_seconds.",
)
@table_option
@config_option
def command(
    cluster: str,
    groups: tuple[str, ...],
    kinds: tuple[str, ...],
    top: int | None,
    sort: str | None,
    deadline: str | None,
    as_json: bool,
    config: Path | None,
) -> int:
    """Show groups of every kind, members and the lag of each partition, from Kafka itself.

    Read-only: joins no group and writes nothing. Reads commits before log ends, so lag is never negative.
    The lag of a share group is the broker's own number. Exit code 4 if a group could not be read in time.
    """
    from workbench import api
    from workbench.cli.progress import Steps
    from workbench.settings import load_settings
    from workbench.window import parse_duration

    limit = (
        parse_duration(deadline).total_seconds() if deadline else load_settings(config).cluster(cluster).timeout_seconds
    )
    title = f"Reading groups and offsets of {cluster} from Kafka"
    with Steps(quiet=as_json) as steps, steps.waiting(title, at_most_seconds=limit):
        found = api.snapshot(
            cluster=cluster,
            groups=groups,
            kinds=kinds,
            top=top,
            sort="time_lag" if sort == "time_lag" else "lag" if sort else None,
            deadline=deadline,
            config=config,
        )
    if as_json:
        write_json(found.to_json())
    elif wrote_rows(lambda: found.ranked if found.ranked is not None else found.partitions):
        pass
    elif found.ranked is not None:
        _show_ranked(found.ranked, found.groups)
    else:
        _show(found)
    for text in found.incomplete[:_SAID]:
        say(f"Incomplete: {text}")
    if len(found.incomplete) > _SAID:
        say(f"Incomplete: {len(found.incomplete) - _SAID:,} more.")
    return found.exit_code


def _show_ranked(rows: list[dict[str, Any]], snapshot: Snapshot) -> None:
    from rich.text import Text

    from workbench.humanize import count, duration, plural, printable
    from workbench.terminal_tables import FittingTable, SafeConsole, right

    with_time = bool(rows) and "time_lag_low" in rows[0]
    counts = ", ".join(f"{number:,} {printable(kind)}" for kind, number in snapshot.kinds.items())
    title = plural(len(snapshot.groups), "group") + (f": {counts}" if counts else "")
    numbers = right(*(["behind"] if with_time else []), "messages", "partitions", "members")
    drops = ("kind", "state", "members", "partitions")
    table = FittingTable("group ← topic", *numbers, "kind", "state", title=title, drops=drops)
    for row in rows:
        name = Text(printable(row["group"]) + (f" ← {printable(row['topic'])}" if row["topic"] is not None else ""))
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
        table.add_row(
            name,
            *time_lag,
            count(row["lag_messages"]) if row["lag_entries"] is None else _entries(row["lag_entries"]),
            partitions,
            "-" if row["members"] is None else f"{row['members']:,}",
            printable(row["kind"]),
            state,
        )
    SafeConsole().print(table)


def _entries(number: int) -> str:
    """A backlog of a queue that counts batches: so many messages at least."""
    from workbench.humanize import counted

    return "0" if number == 0 else counted(number, "entry", "entries")


def _show(found: SnapshotResult) -> None:
    from rich.text import Text

    from workbench.humanize import plural, printable
    from workbench.queues.group_kinds import SHARE, UNKNOWN, cannot_judge
    from workbench.terminal_tables import FittingTable, SafeConsole, right

    def _count_of(view: GroupView) -> str:
        return f", {plural(view.member_count, 'member')}" if view.member_count is not None else ""

    console = SafeConsole()
    by_group: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in found.partitions:
        by_group[row["group"]].append(row)
    for view in found.groups.groups:
        kind = f"{printable(view.protocol)}, " if view.protocol != UNKNOWN else ""
        head = f"{printable(view.group)}  {kind}{view.state.replace('_', ' ')}"
        moving = f", {plural(len(view.reassigning), 'partition')} to move" if view.reassigning else ""
        shared = view.protocol == SHARE
        offsets = right("partition", "start" if shared else "committed", "log end", "lag")
        table = FittingTable("topic", *offsets, "owner", title=f"{head}{_count_of(view)}{moving}")
        for row in by_group[view.group]:
            numbers = (row["start_offset" if shared else "committed"], row["log_end"], row["lag_messages"])
            shown = ["-" if number is None else f"{number:,}" for number in numbers]
            if row["lag_entries"] is not None:
                shown[-1] = _entries(row["lag_entries"])
            owner = printable(row["client_id"]) if row["client_id"] else "-"
            table.add_row(Text(printable(row["topic"])), str(row["partition"]), *shown, Text(owner))
        console.print(table)
        if (why := cannot_judge(view.protocol)) is not None:
            console.line_of(f"  Not judged by triage. {why[:1].upper()}{why[1:]}.", "dim")
    if not found.groups.groups:
        console.print("The cluster has no group of these kinds.")
