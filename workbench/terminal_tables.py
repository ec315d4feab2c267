"""Tables, styled text and progress bars with rich, without markup in foreign text and without control characters."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from workbench.humanize import lines, one_line
from workbench.masking import masked

PAGE_WIDTH = 120
_UNBOUNDED = 100_000
_TRAILING = re.compile(r" +$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """Where another process prints: all that a console must know to print for it here, to the last byte.

    Attributes:
        terminal: whether it is one. columns: its width, if the environment has no `COLUMNS`.
        environment: those of its variables that consoles look at.
        wide: whether tables are as wide as they need (`-o wide`).
    """

    terminal: bool = False
    columns: int = 80
    environment: Mapping[str, str] = field(default_factory=dict)
    wide: bool = False


class SafeConsole(Console):
    """Console that prints text literally: `[link=…]`, `:emoji:` and control characters are not interpreted.

    Without a terminal it is as wide as `COLUMNS` says, or else as a page, and lines do not end in blanks.

    Args:
        screen: of another process; what is printed for it is kept, in `printed`.
    """

    def __init__(self, *, screen: Screen | None = None, **options: Any) -> None:
        environment = os.environ if screen is None else screen.environment
        of_variable = environment.get("COLUMNS", "").isdigit()
        self._kept = _Kept(screen) if screen is not None else None
        self.wide = screen is not None and screen.wide
        if screen is not None:
            options |= {"file": self._kept, "_environ": screen.environment}
        super().__init__(markup=False, emoji=False, highlight=False, **options)
        if self.is_terminal:
            if screen is not None and not of_variable:
                self.width = screen.columns
            return
        if options.get("width") is None and not of_variable:
            self.width = PAGE_WIDTH
        if self._kept is not None:
            self.file = _Trimmed(lambda: self._kept)  # type: ignore[assignment, arg-type, return-value]
        elif options.get("file") is None:
            self.file = _Trimmed(lambda: sys.stderr if self.stderr else sys.stdout)  # type: ignore[assignment]

    @property
    def printed(self) -> str:
        """What was printed for the screen of another process."""
        return self._kept.getvalue() if self._kept is not None else ""

    def print(self, *objects: Any, **options: Any) -> None:
        """See the base class; what is wider than the screen goes on in the next line, and is not cut."""
        super().print(*objects, **{"crop": False, **options})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """See the base class; cleans every character of the output."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(lines(segment.text), segment.style)

    def line_of(self, text: str, style: str = "") -> None:
        """Print any text on one line, not wrapped at the width."""
        self.print(Text(one_line(masked(text)), style=style), soft_wrap=True)


class _Kept(io.StringIO):
    """What is printed for the screen of another process."""

    def __init__(self, screen: Screen) -> None:
        super().__init__()
        self._terminal = screen.terminal

    def isatty(self) -> bool:
        """Whether that screen is a terminal."""
        return self._terminal


class _Trimmed:
    """A stream, such as the current stdout, for a file or a pipe: lines without blanks at their ends."""

    def __init__(self, stream: Callable[[], TextIO]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream().write(_TRAILING.sub("", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream(), name)


class Line:
    """A line to copy, such as a command: never wrapped or cut by us."""

    def __init__(self, text: str, *, style: str = "", indent: int = 0) -> None:
        self.text, self.style, self.indent = one_line(masked(text)), style, indent

    def __rich_console__(self, console: Console, _options: ConsoleOptions) -> Iterable[Segment]:
        yield Segment(" " * self.indent)
        yield Segment(self.text, console.get_style(self.style) if self.style else None)
        yield Segment.line()


class Hanging:
    """A heading and its facts: on one line if there is room, else the facts below it, whole and indented."""

    def __init__(self, heading: Text, facts: Sequence[Text], *, indent: int) -> None:
        self._heading, self._facts, self._indent = heading, facts, indent

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> Iterable[Any]:
        whole = Text("   ").join([self._heading, *self._facts])
        if whole.cell_len <= options.max_width or not self._facts:
            yield whole
            return
        yield self._heading
        line = Text(" " * self._indent)
        for fact in self._facts:
            if line.cell_len > self._indent and line.cell_len + 3 + fact.cell_len > options.max_width:
                yield line
                line = Text(" " * self._indent)
            line = Text.assemble(line, "   " if line.cell_len > self._indent else "", fact)
        yield line


def right(*names: str) -> list[Column]:
    """Columns of numbers."""
    return [Column(name, justify="right") for name in names]


def wrapped(*names: str) -> list[Column]:
    """Columns of words, which may take several lines."""
    return [Column(name, ratio=1, overflow="fold") for name in names]


class FittingTable(Table):
    """Table that cuts nothing: names, numbers and times stay whole, and only columns that are `wrapped` wrap.

    If it does not fit on the terminal, the columns named in `drops` are left out, one after the other; if it still does not, each
    row becomes a record: its first value, then a line for each of the others.
    In a file or a pipe it is as wide as it needs, unless `COLUMNS` is set; on a terminal too, if `wide` is set (`-o wide`).
    """

    wide = False  # of every table of this process

    def __init__(self, *columns: str | Column, drops: Sequence[str] = (), **options: Any) -> None:
        self._drops = drops
        super().__init__(*columns, box=None, title_justify="left", title_style="bold", header_style="bold", **options)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Any]:
        wide = self.wide or getattr(console, "wide", False)
        if wide or (not options.is_terminal and not console._environ.get("COLUMNS", "").isdigit()):
            options = options.update(width=_UNBOUNDED, max_width=_UNBOUNDED)
        for column in self.columns:
            column.no_wrap = column.ratio is None
        if options.max_width >= _UNBOUNDED:
            for column in self.columns:
                column.ratio, column.no_wrap = None, True
        dropped = []
        for name in self._drops:
            if self._needed(console, options) <= options.max_width:
                break
            dropped.append(name)
            self.columns = [it for it in self.columns if _plain(it.header) != name]
            for index, column in enumerate(self.columns):
                column._index = index
        if self._needed(console, options) <= options.max_width:
            yield from super().__rich_console__(console, options)
        else:
            yield from self._records()
        if dropped:
            yield Text(f"Not shown at this width: {', '.join(dropped)}.", style="dim")

    def _needed(self, console: Console, options: ConsoleOptions) -> int:
        wide = options.update(width=_UNBOUNDED, max_width=_UNBOUNDED)
        total = self._extra_width
        for column in self.columns:
            sizes = [
                Measurement.get(console, wide, it.renderable) for it in self._get_cells(console, column._index, column)
            ]
            least = max((it.maximum if column.ratio is None else max(it.minimum, _WORDS) for it in sizes), default=0)
            total += least + 2
        return total

    def _records(self) -> Iterable[Any]:
        if self.title:
            yield Text(str(self.title), style="bold")
        names = [_plain(column.header) for column in self.columns]
        width = max((len(name) for name in names[1:]), default=0)
        rows = zip(*(list(column.cells) for column in self.columns), strict=True)
        for first, *others in rows:
            yield Line(_plain(first), style="bold")
            for name, cell in zip(names[1:], others, strict=True):
                if _plain(cell):
                    record = Table.grid(Column(width=width + 4, no_wrap=True), Column(overflow="fold"))
                    record.add_row(Text(f"  {name}", style="dim"), cell)
                    yield record


_WORDS = 24  # columns of words that are narrower read like a poem


def _plain(cell: Any) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


def print_done(console: SafeConsole, title: str, seconds: float, note: str | None) -> None:
    """Print the line that a step leaves: how long it took, and its result."""
    took = f"{seconds:.1f} s{f'  {note}' if note else ''}"
    words = one_line(masked(title)), one_line(masked(took))
    console.print(Text.assemble(("✓ ", "green"), f"{words[0]}  ", (words[1], "dim")), soft_wrap=True)


def step_bar(console: SafeConsole, title: str) -> Progress:
    """Progress bar of one count."""
    name = TextColumn(one_line(title).replace("{", "{{").replace("}", "}}"), markup=False)
    return Progress(name, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console)


def worded_bars(console: SafeConsole, *, disable: bool) -> Progress:
    """Progress bars, each with a description before it and the field `words` after it."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[words]}", markup=False),
        console=console,
        disable=disable,
    )
