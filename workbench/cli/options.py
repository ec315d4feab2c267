"""Options and output that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from workbench.errors import WindowError
from workbench.settings import Cluster, Settings, Windows
from workbench.window import Window, parse_duration, parse_instant

F = TypeVar("F", bound=Callable[..., Any])


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
            "--cluster", required=required, help="Name of a cluster in workbench.toml; `lab` is the running lab."
        )(function)

    return add


def selection_options(function: F) -> F:
    """`--group` and `--topic`, each any number of times."""
    function = click.option("--topic", "topics", multiple=True, help="Only this topic. May be repeated.")(function)
    return click.option("--group", "groups", multiple=True, help="Only this consumer group. May be repeated.")(function)


def window_options(function: F) -> F:
    """`--since`, `--until` and `--baseline`."""
    function = click.option("--baseline", help="Length of the baseline before the window. Default: 1h.")(function)
    function = click.option("--until", help='End of the window. Default: "now".')(function)
    return click.option(
        "--since",
        help='Start of the window: "15m ago" (default) or a timestamp with a time zone, 2026-11-21T03:00:00+08:00.',
    )(function)


def json_option(function: F) -> F:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print the result as JSON to stdout.")(function)


def window_of(since: str | None, until: str | None, baseline: str | None, windows: Windows) -> Window:
    """The window that the options name.

    Raises:
        WindowError: if one of them is unreadable, has no zone, or the order is wrong.
    """
    now = datetime.now(UTC)
    end = parse_instant(until, now=now) if until else now
    length = parse_duration(baseline) if baseline else windows.baseline
    if since is None:
        return Window.ending(end, length=windows.length, baseline=length)
    start = parse_instant(since, now=now)
    try:
        return Window(baseline_start=start - length, start=start, end=end)
    except OverflowError:
        raise WindowError("The baseline starts before year 1.", hint="Shorten it with --baseline.") from None


def pick_cluster(settings: Settings, name: str) -> Cluster:
    """The cluster of this name.

    Raises:
        UnknownClusterError: if there is none.
    """
    return settings.cluster(name)
