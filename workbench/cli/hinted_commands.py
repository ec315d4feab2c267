"""What was typed, for the commands in hints: who writes a hint often knows neither the cluster's name nor the plan's file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from workbench.humanize import shell_word

_NAMES = re.compile(r"\b(?:PLAN|CLUSTER)\b")


class PlanFile(click.Path):
    """The file of a plan; hints name it."""

    name = "file"

    def __init__(self) -> None:
        super().__init__(path_type=Path, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See the base class."""
        found = super().convert(value, param, ctx)
        if isinstance(param, click.Argument):
            keep(ctx, "PLAN", str(found))
        return found


def keep(context: click.Context | None, name: str, value: str) -> None:
    """Keep what was typed for `PLAN` or `CLUSTER`, for the hints of this command."""
    if context is not None and isinstance(context.obj, dict):
        context.obj[name] = shell_word(value)


def filled(text: str, typed: Mapping[str, str] | None = None) -> str:
    """A hint with what was typed in place of `PLAN` and `CLUSTER`.

    Args:
        typed: by these names; None: of the command that runs.
    """
    if typed is None:
        context = click.get_current_context(silent=True)
        typed = context.obj if context is not None and isinstance(context.obj, dict) else {}
    known = typed
    return _NAMES.sub(lambda it: known.get(it[0], it[0]), text)
