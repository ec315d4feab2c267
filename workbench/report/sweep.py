"""Terminal view of a sweep: the fleet's states, and its worst subscriptions as a table."""

from __future__ import annotations

import pyarrow as pa
from rich.text import Text

from workbench.humanize import count, duration, groups_on_topics, one_line, printable
from workbench.report.terminal import STATE_STYLE
from workbench.sweep.sweep_engine import Sweep
from workbench.terminal_tables import FittingTable, SafeConsole, right, wrapped
from workbench.triage.verdict_names import State

_MORE = 20  # rows of the table under the findings


def show_sweep(console: SafeConsole, result: Sweep) -> None:
    """Counts first, then the worst with their verdict in a sentence, then how many more there are."""
    console.print(_head(result))
    if result.findings:
        console.print(_worst(result))
    shown_already = {(it.group, it.topic) for it in result.findings} | {(it.group, None) for it in result.not_judged}
    unwell = result.unwell()
    keys = zip(unwell["group"].to_pylist(), unwell["topic"].to_pylist(), strict=True)
    rest = unwell.filter(
        pa.array([not {(group, topic), (group, None)} & shown_already for group, topic in keys], pa.bool_())
    )
    if rest.num_rows:
        shown = min(rest.num_rows, _MORE)
        console.print(_more(rest.slice(0, shown).to_pylist(), f"{rest.num_rows:,} more that are not healthy"))
        if rest.num_rows > shown:
            console.print(
                Text(f" … and {rest.num_rows - shown:,} more: --json or --parquet has all of them.", style="dim")
            )
    if result.not_judged:
        console.print(_not_judged(result))
    for text in result.incomplete:
        console.line_of(f" Incomplete: {text}", "yellow")


def _head(result: Sweep) -> Text:
    line = Text(" ")
    line.append(printable(result.source["cluster"]), style="bold")
    line.append(f"   {groups_on_topics(result.table.num_rows)}, {result.window.start:%Y-%m-%d %H:%M} to ")
    line.append(f"{result.window.end:%H:%M:%S} UTC")
    for state, number in result.states.items():
        line.append(f"   {number:,} {state.replace('_', ' ')}", style=STATE_STYLE[State(state)])
    causes = ", ".join(f"{number:,} {name}" for name, number in result.verdicts.items() if name != State.HEALTHY)
    return line.append(f"\n {causes}\n" if causes else "\n")


def _not_judged(result: Sweep) -> FittingTable:
    table = FittingTable("group", "kind", *right("messages"), *wrapped("why"), title=" Cannot be judged")
    for it in result.not_judged:
        why = Text(it.headline, style=STATE_STYLE[State.CANNOT_TELL])
        table.add_row(Text(printable(it.group)), Text(printable(it.kind)), count(it.lag_messages), why)
    return table


def _worst(result: Sweep) -> FittingTable:
    numbers = right("behind", "messages")
    table = FittingTable("group ← topic", "kind", *numbers, *wrapped("why"), drops=("kind", "messages"))
    for it in result.findings:
        why = Text(f"{it.verdict}  ", style=STATE_STYLE[it.state])
        why.append(it.headline, style="default")
        if it.muted:
            why.append(f"  muted {one_line(it.muted)}", style="yellow")
        if it.owner:
            why.append(f"  owner: {one_line(it.owner)}", style="dim")
        name = Text(f"{printable(it.group)} ← {printable(it.topic)}")
        table.add_row(name, printable(it.kind or "-"), it.time_lag.words, count(it.lag_messages), why)
    return table


def _more(rows: list[dict[str, object]], title: str) -> FittingTable:
    numbers, drops = right("behind", "messages"), ("kind", "messages")
    table = FittingTable("group ← topic", "kind", *numbers, "verdict", title=f" {title}", drops=drops)
    for row in rows:
        seconds, messages = row["time_lag_seconds"], row["lag_messages"]
        table.add_row(
            Text(f"{printable(row['group'])} ← {printable(row['topic'])}"),
            printable(str(row["kind"] or "-")),
            duration(seconds if isinstance(seconds, float) else None),
            count(messages if isinstance(messages, float) else None),
            Text(str(row["verdict"]), style=STATE_STYLE[State(str(row["state"]))]),
        )
    return table
