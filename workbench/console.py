"""Tables, styled text and progress bars for people, by rich: no markup in any text, and no character that steers a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.text import Text

from workbench.humanize import lines, one_line
from workbench.masking import masked

PAGE_WIDTH = 120


class SafeConsole(Console):
    """A console whose texts are texts: `[link=…]`, `:emoji:` and control characters are shown as they are written."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """See the base class; the last word on every character, whoever has put it there."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(lines(segment.text), segment.style)

    def line_of(self, text: str, style: str = "") -> None:
        """Print one line, whatever the text holds; it is not cut at the width."""
        self.print(Text(one_line(masked(text)), style=style), soft_wrap=True)


def open_console(*, stderr: bool = False, quiet: bool = False) -> SafeConsole:
    """A console; where that is no terminal, as wide as a page and not as narrow as a punch card."""
    console = SafeConsole(stderr=stderr, quiet=quiet)
    return console if console.is_terminal else SafeConsole(stderr=stderr, quiet=quiet, width=PAGE_WIDTH)


def step_bar(console: SafeConsole, title: str) -> Progress:
    """A bar for one thing that is counted."""
    name = TextColumn(one_line(title).replace("{", "{{").replace("}", "}}"), markup=False)
    return Progress(name, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console)


def worded_bars(console: SafeConsole, *, disable: bool) -> Progress:
    """Bars with a description before and the field `words` behind each."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[words]}", markup=False),
        console=console,
        disable=disable,
    )
