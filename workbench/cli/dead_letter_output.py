"""How `workbench dlq` shows topics, letters, plans and receipts on a terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from workbench.cli.hinted_commands import filled
from workbench.humanize import counted, duration, listed, moment, plural, printable, rate, shell_word, size
from workbench.masking import masked
from workbench.terminal_tables import FittingTable, SafeConsole, right, step_bar, wrapped

if TYPE_CHECKING:
    from workbench.redrive.apply import RedriveReceipt
    from workbench.redrive.dead_letter_topics import LetterTopic
    from workbench.redrive.planfile import RedrivePlan
    from workbench.redrive.show_letters import ShownLetter

_MOST_TARGETS = 20
_BAR_SECONDS = 0.2


def _text(value: object) -> Text:
    return Text(printable(masked(str(value))))


def _counted(counts: Mapping[str, int], most: int = 3) -> str:
    names = [f"{printable(masked(name))} {number:,}" for name, number in list(counts.items())[:most]]
    return ", ".join(names) + (" …" if len(counts) > most else "") or "-"


def show_topics(found: Sequence[LetterTopic], cluster: str) -> None:
    """Show the dead-letter topics as a table."""
    console = SafeConsole()
    if not found:
        console.line_of(f"No dead-letter topic on {cluster}: none has such a name. Name them in dead_letters.topics.")
        return
    what = wrapped("errors of the newest", "source topics", "headers of")
    table = FittingTable("topic", *right("letters", "oldest", "last hour"), *what)
    for it in found:
        table.add_row(
            _text(it.topic),
            it.in_words,
            duration(it.oldest_seconds) if it.oldest_seconds is not None else "-",
            f"{it.per_hour:,}",
            Text(_counted(it.errors)),
            Text(_counted(it.sources)),
            Text(_counted(it.frameworks)),
        )
    console.print(table)
    if any(it.gaps for it in found):
        console.line_of("At most: transactions, compaction or retention have left offsets without a letter.")
    if silent := sum(it.silent for it in found):
        console.line_of(
            f"{plural(silent, 'partition does', 'partitions do')} not answer: letters there are not counted."
        )
    console.line_of(f"Next: workbench dlq show {shell_word(found[0].topic)} --cluster {shell_word(cluster)}")


def show_letters(found: Sequence[ShownLetter], topic: str, *, payload: bool) -> None:
    """Show letters as a table; with payload, key and value on lines of their own."""
    console = SafeConsole()
    if not found:
        console.line_of(f"No letter of {topic} is selected.")
        return
    table = FittingTable("letter", "time", "source", "type", "error", *right("bytes", "rounds"))
    for it in found:
        origin = it.origin
        place = f"{origin.topic}-{origin.partition}:{origin.offset}" if origin.topic else "(not said)"
        table.add_row(
            f"{it.partition}:{it.offset}",
            moment(it.timestamp_ms if it.timestamp_ms >= 0 else None),
            _text(place),
            _text(it.type or "-"),
            _text(origin.error),
            size(it.size),
            str(origin.round),
        )
    console.print(table)
    _explain_unknown(console, found)
    if not payload:
        console.line_of("Keys and values: add --payload.")
        return
    for it in found:
        console.line_of(f"{it.partition}:{it.offset}  key {it.key if it.key is not None else '(none)'}", style="bold")
        if it.value is not None:
            console.line_of(f"  {it.value.type or it.value.kind}: {it.value.line()}")


def _explain_unknown(console: SafeConsole, found: Sequence[ShownLetter]) -> None:
    """What letters of an unknown framework carry, and the setting that says which header is which."""
    unknown = [it for it in found if it.origin.framework == "unknown"]
    if not unknown:
        return
    names = list(dict.fromkeys(name for it in unknown for name in it.headers))
    letters = plural(len(unknown), "letter is", "letters are")
    if not names:
        console.line_of(
            f"{letters} without a header: name their source with --source, or a target with --to.",
            style="yellow",
        )
        return
    guess = next((name for name in names if "topic" in name.lower()), names[0])
    console.line_of(
        f"{letters} of no framework that is known. Their headers: {listed(names, most=20)}.", style="yellow"
    )
    console.line_of("If one of them names the source topic, say so in workbench.toml:", style="yellow")
    console.line_of(f'  [clusters.NAME.dead_letters]   headers = {{topic = "{guess}"}}', style="yellow")


def show_counts_of_letters(counts: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Show counts, a table for each kind."""
    console = SafeConsole()
    for kind, rows in counts.items():
        table = FittingTable(kind, *right("letters"))
        for row in rows:
            table.add_row(_text(row["name"]), f"{row['letters']:,}")
        console.print(table)


def show_redrive_plan(plan: RedrivePlan, path: Path | None) -> None:
    """Show what goes where, what stays and why, the warnings, and the next step."""
    from workbench.redrive.plan import seconds_of

    console = SafeConsole()
    console.line_of(f"Redrive of {counted(plan.letters, 'letter')} of {plan.topic}, {size(plan.bytes)}", style="bold")
    cap = []
    if plan.max_records_per_second is not None:
        cap.append(rate(plan.max_records_per_second))
    if plan.max_bytes_per_second is not None:
        cap.append(f"{size(plan.max_bytes_per_second)}/s")
    needed = seconds_of(plan)
    console.line_of(
        f"Cap: {' and '.join(cap) or 'none'}" + (f", so it takes {duration(needed)}" if needed is not None else "")
    )
    table = FittingTable("target", *right("partitions", "letters", "bytes"))
    for it in sorted(plan.targets, key=lambda it: -it.letters)[:_MOST_TARGETS]:
        table.add_row(_text(it.topic), str(len(it.ends)), f"{it.letters:,}", size(it.bytes))
    if plan.destination.url is not None:
        table.add_row(_text(plan.destination.url), "-", f"{plan.letters:,}", size(plan.bytes))
    console.print(table)
    console.line_of(f"Errors: {_counted(plan.errors, 8)}")
    if plan.left:
        console.line_of(f"Stay: {_counted({name.replace('_', ' '): n for name, n in plan.left.items()}, 12)}")
    for warning in plan.warnings:
        console.line_of(f"! {warning}", style="yellow")
    console.line_of(f"Hash {plan.short_hash}", style="bold")
    console.line_of(
        f"Next: workbench dlq apply {shell_word(str(path))}"
        if path is not None
        else "Save it with -o redrive.json. Nothing has been changed."
    )


def show_redrive_receipt(receipt: RedriveReceipt, path: Path, *, as_json: bool) -> None:
    """Show the outcome, the reasons, and what to do. With JSON, all on stderr."""
    good = receipt.outcome.value not in ("refused", "partial")
    console = SafeConsole(stderr=as_json or not good)
    console.line_of(receipt.sentence, style="bold green" if good else "bold red")
    for reason in receipt.reasons[:10]:
        console.line_of(f"  {reason}")
    for note in receipt.notes:
        console.line_of(f"  {note}")
    for hint in receipt.hints:
        console.line_of(f"Hint: {filled(hint)}")
    if receipt.outcome.value in ("done", "partial"):
        console.line_of(f"Next: workbench dlq verify {shell_word(str(path))}")


class ApplyBar:
    """Progress of `apply` on a terminal."""

    def __init__(self, letters: int, *, quiet: bool) -> None:
        self._console = SafeConsole(stderr=True, quiet=quiet)
        self._bar = step_bar(self._console, "Records")
        self._task = self._bar.add_task("", total=letters)
        self.shows = self._console.is_terminal and not quiet
        self._told = 0.0

    def __enter__(self) -> ApplyBar:
        if self.shows:
            self._bar.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self.shows:
            self._bar.stop()

    def show(self, produced: int) -> None:
        """Show the number of records so far."""
        if self.shows and time.monotonic() - self._told > _BAR_SECONDS:
            self._told = time.monotonic()
            self._bar.update(self._task, completed=produced)
