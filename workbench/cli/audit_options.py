"""Options of the commands of `workbench audit`: where the rows are."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar

import click

from workbench.cli.options import A_TIME, PLACE, config_option
from workbench.errors import WindowError

if TYPE_CHECKING:
    from workbench.api.audits import AuditLedger

F = TypeVar("F", bound=Callable[..., Any])


def of_rows(function: F) -> F:
    """NAME, or `--rows`, or `--topic` and `--cluster`; with `--layers` and the lengths. They are handed on as one mapping, `source`."""

    def wrapped(**given: Any) -> int:
        names = ("name", "rows", "topic", "cluster", "layers", "window_length", "lateness", "config")
        source = {it: given.pop(it) for it in names}
        result: int = function(source=source, **given)
        return result

    command: Any = update_wrapper(wrapped, function)  # with the options that it has already
    for option in (
        config_option,
        click.option(
            "--lateness",
            help="A window is final once its layers have told of a time so long after its end.  [default: 10m]",
        ),
        click.option("--window-length", help="Length of the windows in the rows.  [default: 1m]"),
        click.option("--layers", help="Names of the layers in order, separated by commas."),
        click.option("--cluster", help="Cluster of the topic, and of the records. Default: the default cluster."),
        click.option("--topic", help="Instead: a topic with the rows."),
        click.option("--rows", type=PLACE, help="Instead: file or folder of rows, Parquet or JSON lines."),
        click.argument("name", required=False),
    ):
        command = option(command)
    found: F = command
    return found


def ledger_of(source: dict[str, Any], *, stream: str | None = None, since_ms: int | None = None) -> AuditLedger:
    """The ledger of what the options name.

    Raises:
        UsageError, ConfigError, SourceUnreachableError: as `api.audit`.
    """
    from workbench.api.audits import audit

    return audit(stream=stream, since_ms=since_ms, **given(source))


def given(source: dict[str, Any]) -> dict[str, Any]:
    """What the options name, as arguments of `api.audit`."""
    layers = [it.strip() for it in (source["layers"] or "").split(",") if it.strip()]
    return {
        **{it: source[it] for it in ("rows", "name", "topic", "cluster", "lateness", "config")},
        "layers": layers,
        "window": source["window_length"],
    }


def since_option(*, required: bool = False) -> Callable[[F], F]:
    """`--since`."""
    return click.option("--since", required=required, help=f"Start of the first window: {A_TIME}.")


def until_option(*, required: bool = False) -> Callable[[F], F]:
    """`--until`."""
    return click.option("--until", required=required, help=f"End of the last window, exclusive: {A_TIME}.")


def span_of(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """Both in ms since the epoch; None where none is given.

    Raises:
        WindowError: if one is no time, or they are in the wrong order.
    """
    from workbench.window import instant_ms, parse_instant

    first = None if since is None else instant_ms(parse_instant(since))
    last = None if until is None else instant_ms(parse_instant(until))
    if first is not None and last is not None and last <= first:
        raise WindowError("The windows end before they begin.", hint="Give --until a later time than --since.")
    return first, last
