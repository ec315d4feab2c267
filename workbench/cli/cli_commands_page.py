"""Every command with its arguments, options and examples, from click (docs/commands.md)."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator

import click

from workbench.cli import root
from workbench.cli.help import EXAMPLES
from workbench.errors import ExitCode
from workbench.reference.markdown_tables import code, page, table

_EXITS = {
    ExitCode.OK: "healthy, or done",
    ExitCode.INTERNAL: "internal error; please report it",
    ExitCode.USAGE: "wrong parameter or settings",
    ExitCode.FINDINGS: "a problem was found: a group lags, for example",
    ExitCode.EVIDENCE: "cannot tell: a signal, or a part of a source's answer, is missing",
    ExitCode.SOURCE: "a source is unreachable, or a needed part is not installed",
    ExitCode.GUARD: "a safety check refused the action",
    ExitCode.DEADLINE: "deadline exceeded",
    ExitCode.KERNEL: "the notebook kernel died",
}


def every_command() -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command below `workbench` with its path and context, in the order of the overview."""
    with click.Context(root, info_name="workbench", **root.context_settings) as context:
        yield from _below(root, context, "")


def _below(group: click.Group, context: click.Context, path: str) -> Iterator[tuple[str, click.Command, click.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        with click.Context(command, info_name=name, parent=context, **command.context_settings) as inner:
            yield f"{path} {name}".strip(), command, inner
            if isinstance(command, click.Group):
                yield from _below(command, inner, f"{path} {name}".strip())


def as_markdown() -> str:
    """The page docs/commands.md."""
    found = list(every_command())
    lines = [
        "# Commands",
        "",
        "Printed from the commands; a test compares. `workbench COMMAND --help` says the same. What they print with `--json`:"
        " [JSON](schemas.md).",
        "",
        "## Exit codes",
        "",
        *table(["code", "meaning"], [(str(int(it)), words) for it, words in _EXITS.items()]),
        "| 130 | stopped by Ctrl-C |",
        "",
        "## Overview",
        "",
        *table(
            ["command", "what it does"],
            [(f"[{path}](#{path.replace(' ', '-')})", _first(it)) for path, it, _ in found if " " not in path],
        ),
    ]
    for path, command, context in found:
        lines += ["", f"{'##' if ' ' not in path else '###'} {path}", "", *_text(command)]
        lines += ["", "```", *_usage(path, command, context), "```"]
        if options := [it for it in command.params if isinstance(it, click.Option) and not it.hidden]:
            lines += ["", *table(["option", "meaning"], [_option(it, context) for it in options])]
    return page(lines)


def _paragraphs(command: click.Command) -> list[str]:
    text = inspect.cleandoc(command.help or "").replace("\b", "")
    return [" ".join(it.split()) for it in text.split("\n\n") if it.strip()]


def _first(command: click.Command) -> str:
    return command.get_short_help_str(limit=1000)


def _text(command: click.Command) -> list[str]:
    lines: list[str] = []
    for paragraph in _paragraphs(command):
        lines += [
            *([""] if lines else []),
            *textwrap.wrap(paragraph, 138, break_long_words=False, break_on_hyphens=False),
        ]
    return lines


def _usage(path: str, command: click.Command, context: click.Context) -> list[str]:
    pieces = " ".join(command.collect_usage_pieces(context))
    lines = [f"Usage: {path} {pieces}".rstrip()]
    for words, why in EXAMPLES.get(path, ()):
        lines += [f"  # {why}", f"  {words}" if "workbench " in words else f"  workbench {words}"]
    return lines


def _option(it: click.Option, context: click.Context) -> tuple[str, str]:
    record = it.get_help_record(context)
    names, words = record if record is not None else (", ".join(it.opts), it.help or "")
    return code(names), words
