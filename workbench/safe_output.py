"""Output to people: foreign text cannot control the terminal, forge a line, or show a secret.

Tables and progress bars are in `terminal_tables`, with the same rules; no other module prints (tests/test_project.py).
"""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import re
import select
import sys
import threading
import traceback
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from workbench.humanize import lines, one_line, printable
from workbench.masking import masked, masked_document

_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


def say(text: str, *, mark: tuple[str, str] | None = None) -> None:
    """Print a line for people to stderr; `mark` is a coloured word before it."""
    _echo(one_line(masked(text)), mark=mark, err=True)


def tell(text: str = "", *, mark: tuple[str, str] | None = None) -> None:
    """Print a line of the result to stdout."""
    _echo(one_line(masked(text)), mark=mark, err=False)


def tell_address(url: str) -> None:
    """Print an address with its own access token to stdout: the person who started the server must be able to open it."""
    _echo(one_line(url), mark=None, err=False)


def tell_page(text: str) -> None:
    """Print a text of several lines to stdout, such as a runbook. Names in it must already be on one line."""
    _echo(lines(masked(text)), mark=None, err=False)


def say_page(text: str) -> None:
    """Print a text of several lines to stderr. Names in it must already be on one line."""
    _echo(lines(masked(text)), mark=None, err=True)


def say_error(message: str, hint: str | None) -> None:
    """Print an error and its hint."""
    say(f": {message}", mark=("Error", "red"))
    if hint:
        say(f"Hint:  {hint}")


def say_crash(error: BaseException) -> None:
    """Print the traceback of a bug, for a bug report."""
    say_page("".join(traceback.format_exception(error)).rstrip())


def ask(text: str) -> str:
    """Prompt on stderr, and return what the person types."""
    given: str = click.prompt(one_line(masked(text)), default="", show_default=False, err=True)
    return given


def write_json(document: Any, *, indent: int | None = 1) -> None:
    """Write JSON to stdout: never NaN, only ASCII, so it cannot control a terminal; one line without `indent`."""
    sys.stdout.write(json_of(document, indent=indent))
    sys.stdout.flush()


def json_of(document: Any, *, indent: int | None = 1) -> str:
    """What `write_json` writes."""
    text = json.dumps(masked_document(document), allow_nan=False, indent=indent, default=_plain)
    return text.replace("\x7f", "\\u007f") + "\n"


def write_told(text: str) -> None:
    """Write a text to stdout that is as it should be: one of this module's, or what our server has printed for this process.

    What another server would do with it: colours, and nothing else.
    """
    sys.stdout.write(_coloured(text))
    sys.stdout.flush()


def say_told(text: str) -> None:
    """The same, to stderr."""
    sys.stderr.write(_coloured(text))
    sys.stderr.flush()


def are_terminals() -> tuple[bool, bool]:
    """Whether stdout and stderr are terminals."""
    return sys.stdout.isatty(), sys.stderr.isatty()


def _coloured(text: str) -> str:
    """A text whose only control characters are line ends, tabs and colours."""
    return "".join(it if _COLOUR.fullmatch(it) else lines(it) for it in _COLOUR.split(text))


def write_rows(rows: Iterable[Mapping[str, Any]], *, separator: str) -> None:
    """Write rows to stdout, with a head: CSV, or with tabs. What is not known is empty; lists and counts are one field.

    Names are escaped as on a screen, and a text that a spreadsheet would take for a formula begins with an apostrophe: JSON has all
    names as they are.
    """
    sys.stdout.write(rows_of(rows, separator=separator))
    sys.stdout.flush()


def rows_of(rows: Iterable[Mapping[str, Any]], *, separator: str) -> str:
    """What `write_rows` writes."""
    found, text = [dict(row) for row in rows], io.StringIO()
    names = list(dict.fromkeys(name for row in found for name in row))
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    writer.writerow(names)
    for row in found:
        writer.writerow([_cell(row.get(name)) for name in names])
    return text.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(value, Mapping):
        value = "; ".join(f"{name}: {it}" for name, it in value.items())
    elif isinstance(value, list | tuple):
        value = "; ".join(map(str, value))
    text = printable(masked(_plain(value)))
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def _plain(value: Any) -> str:
    """A time as ISO 8601, anything else as its text."""
    return value.isoformat() if isinstance(value, datetime) else masked(str(value))


def log_to_stderr(level: int) -> None:
    """Send the logs of this process to stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(_LogFormatter("%(asctime)s %(levelname)s %(threadName)s %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])


def write_out() -> None:
    """Write what stdout still holds back."""
    sys.stdout.flush()


def reader_has_gone() -> bool:
    """Whether stdout is a pipe that nobody reads any more."""
    state = select.poll()
    state.register(sys.stdout.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in state.poll(0))


def nobody_reads() -> None:
    """Discard further output, because its reader has closed the pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def prepare() -> None:
    """Set up the output of this process, including uncaught errors.

    A character that the terminal cannot show is printed as an escape. An uncaught error of a thread is
    printed, too.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the process that started us
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - until the process ends
    threading.excepthook = lambda told: say_crash(told.exc_value) if told.exc_value is not None else None
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


class _LogFormatter(logging.Formatter):
    """Formats an entry as one line; text in its traceback cannot forge a line."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        return one_line(masked(super().formatMessage(record)))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the library's name
        return lines(masked(super().formatException(ei)))


def _echo(text: str, *, mark: tuple[str, str] | None, err: bool) -> None:
    shown = click.style(one_line(mark[0]), fg=mark[1], bold=err) if mark is not None else ""
    click.echo(f"{shown}{text}", err=err)
