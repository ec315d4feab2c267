"""How `workbench replay` shows plans, receipts and verdicts on a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from workbench.cli.hinted_commands import filled
from workbench.humanize import moment, one_line, plural, printable, shell_word, size
from workbench.masking import masked
from workbench.terminal_tables import FittingTable, SafeConsole, right

if TYPE_CHECKING:
    from workbench.plans.journal import Entry
    from workbench.replay.planfile import Plan
    from workbench.replay.receipt import Receipt
    from workbench.replay.verify_evidence import Checked

_MOST_REASONS = 8
_MOST_ROWS = 40  # a plan of thousands is read in its file; the screen shows the partitions with the most to replay


def show_plan(plan: Plan, bootstrap: str, path: Path | None, *, login_file: str | None = None) -> None:
    """Show head, warnings, table, the same with Kafka's own tool, and the next step."""
    from workbench.replay.plan import kafka_command

    console = SafeConsole()
    show_head(console, plan)
    console.print(_partitions(plan))
    if len(plan.partitions) > _MOST_ROWS:
        more = plural(len(plan.partitions) - _MOST_ROWS, "partition")
        console.line_of(f"… and {more} with fewer messages. The plan has all of them.")
    command = kafka_command(plan, bootstrap, login_file)
    console.line_of(f"The same with Kafka's own tool (write the CSV with --csv plan.csv): {command}")
    if path is not None:
        console.line_of(f"Plan {plan.short_hash}. Next: workbench replay apply {shell_word(str(path))}", style="bold")
    else:
        console.line_of(f"Plan {plan.short_hash}. Save it with -o plan.json. Nothing has been changed.", style="bold")


def show_head(console: SafeConsole, plan: Plan) -> None:
    """What was asked for and what was found, as the notebook's cards say it, and what must be known before applying."""
    from workbench.replay.plan_head import cards, sentence

    console.line_of(f"Replay of {one_line(plan.from_group)} into {one_line(plan.new_group)}", style="bold")
    console.line_of(sentence(plan))
    for it in cards(plan):
        console.line_of(f"  {it.name:<14}{it.value:<26}{it.note}".rstrip())
    for warning in plan.warnings:
        console.line_of(f"! {one_line(warning)}", style="yellow")


def _partitions(plan: Plan) -> FittingTable:
    """A line for each partition, or for those with the most messages."""
    many = len(plan.topics) > 1
    numbers = right("partition", "begins at", "record's time (UTC)", "messages", "old commit", "bytes ≈")
    topic = ["topic"] if many else []
    table = FittingTable(*topic, *numbers, "found", drops=("bytes ≈", "old commit", "found"))
    rows = sorted(plan.partitions, key=lambda part: -part.messages)[:_MOST_ROWS]
    for part in plan.partitions if len(plan.partitions) <= _MOST_ROWS else rows:
        table.add_row(
            *([Text(printable(part.topic))] if many else []),
            str(part.partition),
            "-" if part.target is None else f"{part.target:,}",
            moment(part.target_timestamp),
            f"{part.messages:,}",
            "-" if part.old_committed is None else f"{part.old_committed:,}",
            size(part.bytes_estimate),
            part.resolution.value.replace("_", " "),
        )
    return table


def show_receipt(receipt: Receipt, plan_file: Path, *, as_json: bool) -> None:
    """Show outcome, reasons, each partition that is not as planned, and what to do. With JSON, all on stderr."""
    console = SafeConsole(stderr=as_json or receipt.outcome.value not in ("done", "dry_run"))
    good = receipt.outcome.value in ("done", "dry_run")
    console.line_of(receipt.sentence, style="bold green" if good else "bold red")
    for reason in receipt.reasons[:_MOST_REASONS]:
        console.line_of(f"  {one_line(reason)}")
    counts = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in sorted(receipt.counts().items()))
    console.line_of(f"Partitions: {counts}.  {receipt.seconds:.1f} s")
    for part in [part for part in receipt.partitions if part.error][:_MOST_ROWS]:
        console.line_of(f"  {printable(part.topic)}-{part.partition}: {one_line(part.error or '')}")
    for hint in receipt.hints:
        console.line_of(f"Hint:  {one_line(filled(hint))}")
    if receipt.rollback is not None:
        console.line_of(f"Roll back with: workbench replay rollback {shell_word(str(receipt.rollback))}")
    if receipt.outcome.value == "done":
        name = shell_word(str(plan_file))
        console.line_of(f"Next: workbench replay cutover {name} --fleet fleet.toml, or start consumers in")
        console.line_of(f"      {one_line(receipt.group)} and: workbench replay follow {name}")


def show_journal(entries: list[Entry]) -> None:
    """Show one line per change, latest last: its end, or its beginning where it was interrupted."""
    console = SafeConsole()
    if not entries:
        console.line_of("Nothing was replayed here yet.")
        return
    ended = _begins_with_an_end(entries)
    columns = ("when", "who", "plan", "group", "action", "outcome", "changes")
    table = FittingTable(*columns, drops=("who", "plan", "changes"))
    for at, entry in enumerate(entries):
        if at in ended:
            continue
        who = f"{entry.who}@{entry.host}"
        outcome = entry.outcome or "begun"
        what = entry.action + (f" {entry.target}" if entry.target else "")
        some = ", ".join(
            f"{topic}-{number}: {_offset(old)} → {_offset(new)}"
            for topic, number, old, new, error in entry.changes[:2]
            if (old, new, error) != (None, None, None)  # of a Pulsar; its positions are no numbers
        )
        more = f" and {len(entry.changes) - 2:,} more" if len(entry.changes) > 2 else ""
        words = [
            entry.at[:19] + "Z",
            who,
            entry.plan[:8],
            entry.group,
            what,
            outcome,
            (some + more) or (entry.detail or ""),
        ]
        table.add_row(*(Text(printable(masked(word))) for word in words))
    console.print(table)


def _begins_with_an_end(entries: list[Entry]) -> set[int]:
    """Indexes of the lines before a change that a later line of the same run ends; each end has one begin.

    A number of a process is no name of a run: in containers each one has the same.
    """
    found, open_ends = set[int](), set[tuple[str, ...]]()
    for at, entry in reversed(list(enumerate(entries))):
        run = (entry.plan, entry.group, entry.action, entry.target or "", entry.host, str(entry.pid))
        if entry.phase == "end":
            open_ends.add(run)
        elif run in open_ends:
            open_ends.remove(run)
            found.add(at)
    return found


def _offset(offset: int | None) -> str:
    return "none" if offset is None else f"{offset:,}"


_VERDICT_STYLES = {"verified": "bold green", "incomplete": "bold red"}


def show_verdict(found: Checked) -> None:
    """Show verdict, evidence, and each partition that is not verified."""
    console = SafeConsole()
    style = _VERDICT_STYLES.get(found.verdict.value, "bold yellow")
    console.line_of(found.sentence, style=style)
    console.line_of(f"Evidence: {', '.join(found.evidence)}. {plural(len(found.partitions), 'partition')}.")
    lacking = [it for it in found.partitions if it.verdict.value not in ("verified", "not_planned")]
    for part in lacking[:_MOST_ROWS] if found.is_started else ():
        console.line_of(f"  {printable(part.topic)}-{part.partition}: {part.reason}")
    total = [part.records for part in found.partitions if part.records is not None]
    if total:
        console.line_of(f"Records read: {sum(total):,}.")
    for row in found.key_ranges:
        name = "without a key" if row["key_range"] < 0 else f"key range {row['key_range']}"
        console.line_of(f"  {name}: {plural(row['records'], 'record')}, {row['processed']:,} processed")
    for note in found.notes:
        console.line_of(f"! {one_line(note)}", style="yellow")
    moved = len(found.old_moved)
    console.line_of(
        "The old group's offsets have not changed since the plan was made."
        if not moved
        else f"The old group has moved on in {plural(moved, 'partition')} since the plan was made (it is still consuming)."
    )


def show_counts(found: dict[str, list[dict[str, Any]]]) -> None:
    """A table for each kind of count."""
    console = SafeConsole()
    for kind, rows in found.items():
        table = FittingTable(kind, *right("records", "bytes"))
        for row in rows:
            table.add_row(Text(printable(row["name"])), f"{row['records']:,}", size(row["bytes"]))
        console.print(table)


def preflight_lines(plan: Plan, cap: int | None, instances: int) -> list[str]:
    """Describe the load of a replay on the brokers, and instances that cannot take part."""
    from workbench.humanize import duration
    from workbench.replay.plan import bytes_per_broker

    loads = sorted(bytes_per_broker(plan).items())
    lines = [f"Bytes to read from broker {broker}: {size(load)}" for broker, load in loads]
    parts = len(plan.partitions)
    if instances > parts:
        lines.append(
            f"{plural(instances - parts, 'instance')} of {instances} may get no partition: the plan has {parts}. "
            "More instances do not make it faster."
        )
    total = plan.bytes_estimate
    if cap is not None and total is not None:
        lines.append(
            f"At {size(cap)}/s per instance, {plural(instances, 'instance')} need at least {duration(total / (cap * instances))}."
        )
    return lines
