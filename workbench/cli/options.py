"""Options and output that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

A_TIME = "15m ago, or a timestamp with a time zone"  # the words for a time in every help
F = TypeVar("F", bound=Callable[..., Any])


def completing(names: str) -> Any:
    """Completion by a function of `cli.completion`, which is loaded when somebody presses Tab."""

    def complete(context: click.Context, parameter: click.Parameter, typed: str) -> Any:
        from workbench.cli import completion

        return completion.of(getattr(completion, names))(context, parameter, typed)

    return complete


def config_option(function: F) -> F:
    """`--config`."""
    return click.option(
        "--config",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Settings file. Default: $WORKBENCH_CONFIG, ./workbench.toml or ~/.config/lag-workbench/workbench.toml.",
    )(function)


def cluster_option(*, required: bool = True) -> Callable[[F], F]:
    """`--cluster`."""

    def add(function: F) -> F:
        return click.option(
            "--cluster",
            required=required,
            shell_complete=completing("clusters"),
            help="Name of a cluster in workbench.toml; `lab` is the running lab.",
        )(function)

    return add


def groups_option(function: F) -> F:
    """`--group`, any number of times."""
    return click.option(
        "--group",
        "groups",
        multiple=True,
        shell_complete=completing("groups"),
        help="Only this consumer group. May be repeated.",
    )(function)


def selection_options(function: F) -> F:
    """`--group` and `--topic`, each any number of times."""
    return groups_option(
        click.option("--topic", "topics", multiple=True, help="Only this topic. May be repeated.")(function)
    )


def window_options(function: F) -> F:
    """`--since`, `--until` and `--baseline`."""
    function = click.option("--baseline", help="Length of the baseline before the window. Default: 1h.")(function)
    function = click.option("--until", help=f"End of the window: {A_TIME}. Default: now.")(function)
    return click.option(
        "--since",
        help=f"Start of the window: {A_TIME} (2026-11-21T03:00:00+08:00). Default: 15m ago.",
    )(function)


def json_option(function: F) -> F:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON to stdout.")(function)
