"""Rows as an HTML table for a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from workbench.humanize import one_line, printable

_MOST_ROWS = 40


def table_html(title: str, rows: Sequence[Mapping[str, Any]], *, notes: Sequence[str] = ()) -> str:
    """Render the first rows with a caption; all text is escaped, and None is shown as a dash."""
    from workbench.report.finding_fragment import style

    names = list(rows[0]) if rows else []
    numbers = {name for name in names if any(_is_number(row[name]) for row in rows[:_MOST_ROWS])}
    head = "".join(
        f"<th{' class=n' if name in numbers else ''}>{escape(name.replace('_', ' '))}</th>" for name in names
    )
    body = "".join(f"<tr>{''.join(_cell(row[name]) for name in names)}</tr>" for row in rows[:_MOST_ROWS])
    more = [f"{len(rows) - _MOST_ROWS:,} more rows."] if len(rows) > _MOST_ROWS else []
    lines = "".join(f'<p class="note">{escape(one_line(text))}</p>' for text in [*more, *notes])
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else "<p>Nothing.</p>"
    return f'<style>{style()}</style><div class="wb"><h3>{escape(printable(title))}</h3>{table}{lines}</div>'


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: Any) -> str:
    if not _is_number(value):
        return f"<td>{'–' if value is None else escape(printable(value))}</td>"
    return f'<td class="n">{value:,}</td>'
