"""Tables, styled text and progress bars with rich, without markup in foreign text and without control characters."""

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
    """Console that prints text literally: `[link=…]`, `:emoji:` and control characters are not interpreted."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """See the base class; cleans every character of the output."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(lines(segment.text), segment.style)

    def line_of(self, text: str, style: str = "") -> None:
        """Print any text on one line, not wrapped at the width."""
        self.print(Text(one_line(masked(text)), style=style), soft_wrap=True)


def open_console(*, stderr: bool = False, quiet: bool = False) -> SafeConsole:
    """Open a console; without a terminal, it is as wide as a page."""
    console = SafeConsole(stderr=stderr, quiet=quiet)
    return console if console.is_terminal else SafeConsole(stderr=stderr, quiet=quiet, width=PAGE_WIDTH)


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
