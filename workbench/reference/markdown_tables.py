"""Tables of Markdown, for the pages that are printed from the code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table; a bar in a cell is escaped."""
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return lines + ["| " + " | ".join(cell(it) for it in row) + " |" for row in rows]


def cell(text: str) -> str:
    """Text as one cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    """Text as code; empty stays empty."""
    return f"`{text}`" if text else ""


def page(lines: Iterable[str]) -> str:
    """Lines as a file."""
    return "\n".join(lines).rstrip("\n") + "\n"
