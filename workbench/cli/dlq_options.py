"""Common parts of the commands of `workbench dlq`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from workbench.errors import GuardError, UsageError

if TYPE_CHECKING:
    from workbench.redrive.kafka import RedriveKafka
    from workbench.redrive.picks import Picks
    from workbench.redrive.plan import RedriveRequest
    from workbench.redrive.planfile import Destination
    from workbench.redrive.selection import Selection
    from workbench.settings import Cluster

# Parameters of the options that select letters.
SELECTS = ("errors", "sources", "since", "until", "offsets", "keys", "headers", "most")

F = TypeVar("F", bound=Callable[..., Any])


def selection_options_of_letters(function: F) -> F:
    """Options that select letters; `selection_of` takes their values."""
    for option in reversed(
        (
            click.option(
                "--error",
                "errors",
                multiple=True,
                help="Class of the error, or a pattern: '*Timeout*'. May be repeated.",
            ),
            click.option("--from-topic", "sources", multiple=True, help="Source topic, or a pattern. May be repeated."),
            click.option("--since", help="Letters from this time on: a timestamp with a time zone, or 15m ago."),
            click.option("--until", help="Letters before this time."),
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


def selection_of(
    *,
    errors: Sequence[str],
    sources: Sequence[str],
    since: str | None,
    until: str | None,
    offsets: Sequence[str],
    keys: Sequence[str],
    headers: Sequence[str],
    most: int | None,
) -> Selection:
    """Make the selection.

    Raises:
        UsageError: naming what is wrong.
    """
    from datetime import UTC, datetime

    from pydantic import ValidationError

    from workbench.inputs import first_problem
    from workbench.redrive.selection import Selection
    from workbench.replay.planfile import instant_ms
    from workbench.window import parse_instant

    now = datetime.now(UTC)
    try:
        return Selection(
            errors=list(errors),
            sources=list(sources),
            since_ms=instant_ms(parse_instant(since, now=now)) if since else None,
            until_ms=instant_ms(parse_instant(until, now=now)) if until else None,
            offsets=list(offsets),
            keys=list(keys),
            headers=list(headers),
            most=most,
        )
    except ValidationError as error:
        raise UsageError(f"{first_problem(error, whole='the selection')}.") from None


def letters_setup(cluster: str, config: Path | None) -> tuple[Cluster, RedriveKafka]:
    """Settings and connection of a cluster.

    Raises:
        ConfigError, UsageError: if the settings are wrong.
    """
    from workbench.redrive.kafka import RedriveKafka
    from workbench.replay.connect import gateway_of
    from workbench.settings import load_settings

    chosen = load_settings(config).cluster(cluster)
    return chosen, RedriveKafka(gateway_of(chosen))


def request_of_redrive(
    settings: Cluster,
    topic: str,
    *,
    to: Destination,
    selection: Selection,
    done: Mapping[int, Picks],
    again: bool,
    reason: str | None,
    chosen: Mapping[str, Any],
) -> RedriveRequest:
    """Make the request from the values of the options."""
    from workbench.redrive.plan import RedriveRequest
    from workbench.redrive.planfile import Dedup, Order

    return RedriveRequest(
        cluster=settings.name,
        topic=topic,
        selection=selection,
        destination=to,
        dedup=Dedup(chosen["dedup"]),
        order=Order(chosen["order"]),
        max_rounds=chosen["max_rounds"],
        max_records_per_second=chosen["max_records_per_second"],
        max_bytes_per_second=chosen["max_bytes_per_second"],
        mapping={str(name): header for name, header in settings.dead_letters.headers.items()},
        done=done,
        again=again,
        reason=reason,
    )


def check_redrive_place(path: Path) -> None:
    """Refuse to overwrite a file, or to write where no folder is.

    Raises:
        UsageError, GuardError: saying which.
    """
    if not path.absolute().parent.is_dir():
        raise UsageError(f"The folder of {path} does not exist.")
    if path.with_suffix(".receipt.json").exists():
        raise GuardError(f"{path} is a plan that was applied: its receipt is next to it.", hint="Choose another name.")
    if path.exists():
        raise UsageError(f"{path} exists.", hint="Give the new plan another name.")
