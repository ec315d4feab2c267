"""Common parts of the commands of `workbench dlq`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from workbench.cli.options import A_TIME
from workbench.safe_output import say

F = TypeVar("F", bound=Callable[..., Any])


def dry_run_option(function: F) -> F:
    """`--dry-run`, and the `--apply` that once was needed to change anything."""

    def noted(context: click.Context, _parameter: click.Parameter, given: bool) -> None:
        if given and not context.resilient_parsing:
            say("--apply is not needed any more: without --dry-run, the command does it after its confirmation.")

    function = click.option(
        "--apply", is_flag=True, hidden=True, expose_value=False, callback=noted, help="Not needed any more."
    )(function)
    return click.option("--dry-run", is_flag=True, help="Check only: change nothing.")(function)


def selection_options_of_letters(function: F) -> F:
    """Options that select letters; `parse_redrive_request.selection_of` takes their values."""
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
