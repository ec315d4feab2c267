"""The one place that writes to people: what comes from outside cannot steer a terminal, forge a line, or show a secret.

Tables and progress bars are in `console`, which cleans in the same way; nothing else prints (tests/test_project.py).
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import traceback
from typing import Any

import click

from workbench.humanize import lines, one_line
from workbench.masking import masked, masked_document


def say(text: str, *, mark: tuple[str, str] | None = None) -> None:
    """A line for people, on stderr; `mark` is a coloured word before it."""
    _echo(one_line(masked(text)), mark=mark, err=True)


def tell(text: str = "", *, mark: tuple[str, str] | None = None) -> None:
    """A line of the result, on stdout."""
    _echo(one_line(masked(text)), mark=mark, err=False)


def tell_page(text: str) -> None:
    """A text of many lines on stdout, such as a runbook. Names in it must be on one line already."""
    _echo(lines(masked(text)), mark=None, err=False)


def say_page(text: str) -> None:
    """A text of many lines on stderr. Names in it must be on one line already."""
    _echo(lines(masked(text)), mark=None, err=True)


def say_error(message: str, hint: str | None) -> None:
    """What went wrong, and what to do about it."""
    say(f": {message}", mark=("Error", "red"))
    if hint:
        say(f"Hint:  {hint}")


def say_crash(error: BaseException) -> None:
    """The traceback of an error that is ours, for the report of it."""
    say_page("".join(traceback.format_exception(error)).rstrip())


def ask(text: str) -> str:
    """What a person types, asked on stderr."""
    given: str = click.prompt(one_line(masked(text)), default="", show_default=False, err=True)
    return given


def write_json(document: Any, *, indent: int | None = 1) -> None:
    """Write JSON to stdout, never NaN, which is none. It is ASCII, so no terminal obeys it; without `indent` it is one line."""
    text = json.dumps(masked_document(document), allow_nan=False, indent=indent, default=lambda it: masked(str(it)))
    sys.stdout.write(text.replace("\x7f", "\\u007f") + "\n")
    sys.stdout.flush()


def log_to_stderr(level: int) -> None:
    """Have the logs of this process on stderr."""
    handler = logging.StreamHandler()
    handler.setFormatter(_LogFormatter("%(asctime)s %(levelname)s %(threadName)s %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])


def nobody_reads() -> None:
    """Let what is still to be written go nowhere, for whoever read it has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def prepare() -> None:
    """Have this process write as this module does, whatever happens in it.

    Where the terminal cannot show a character, its number is shown instead of failing in the middle of a result. A thread that ends
    with an error tells it here.
    """
    threading.excepthook = lambda told: say_crash(told.exc_value) if told.exc_value is not None else None
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


class _LogFormatter(logging.Formatter):
    """An entry is one line, and its traceback lines that nobody else has written."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        return one_line(masked(super().formatMessage(record)))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the library's name
        return lines(masked(super().formatException(ei)))


def _echo(text: str, *, mark: tuple[str, str] | None, err: bool) -> None:
    shown = click.style(one_line(mark[0]), fg=mark[1], bold=err) if mark is not None else ""
    click.echo(f"{shown}{text}", err=err)
