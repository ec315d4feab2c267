"""Common parts of the commands of `workbench dlq`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from workbench.cli.options import A_TIME

F = TypeVar("F", bound=Callable[..., Any])


def selection_options_of_letters(function: F) -> F:
    """Options that select letters; `parse_request.selection_of` takes their values."""
    for option in reversed(
        (
            click.option(
                "--error",
                "errors",
                multiple=True,
                help="Class of the error, or a pattern: '*Timeout*'. May be repeated.",
            ),
            click.option("--from-topic", "sources", multiple=True, help="Source topic, or a pattern. May be repeated."),
            click.option("--since", help=f"Letters from this time on: {A_TIME}."),
            click.option("--until", help=f"Letters before this time: {A_TIME}."),
            click.option(
                "--offset", "offsets", multiple=True, help="partition:first-last, such as 3:100-200. May be repeated."
            ),
            click.option("--key", "keys", multiple=True, help="Exactly this key. May be repeated."),
            click.option(
                "--header",
                "headers",
                multiple=True,
                help="name=value, name!=value, name~pattern, name or !name. May be repeated; all hold.",
            ),
            click.option("--most", type=click.IntRange(min=1), help="At most this number of letters, the first ones."),
        )
    ):
        function = option(function)
    return function
