"""What a person asks a redrive for, as texts; the same for the command and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from pydantic import ValidationError

from workbench.errors import UsageError
from workbench.limited_reads import first_problem
from workbench.redrive.planfile import Destination, To
from workbench.redrive.selection import Selection
from workbench.window import instant_ms, parse_instant


def selection_of(
    *,
    errors: Sequence[str] = (),
    sources: Sequence[str] = (),
    since: str | None = None,
    until: str | None = None,
    offsets: Sequence[str] = (),
    keys: Sequence[str] = (),
    headers: Sequence[str] = (),
    most: int | None = None,
) -> Selection:
    """Make the selection.

    Raises:
        UsageError, WindowError: naming what is wrong.
    """
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


def destination_of(
    *,
    to_topic: str | None = None,
    to_url: str | None = None,
    fallback: str | None = None,
    partition_by: Literal["origin", "key"] = "origin",
    timestamps: Literal["new", "original"] = "new",
) -> Destination:
    """Make the destination; without a topic and a URL, the source topics.

    Raises:
        UsageError: naming what is wrong.
    """
    if to_topic is not None and to_url is not None:
        raise UsageError("--to and --to-url exclude each other.")
    kind = To.TOPIC if to_topic is not None else To.HTTP if to_url is not None else To.SOURCE
    try:
        return Destination(
            kind=kind, topic=to_topic, url=to_url, fallback=fallback, partition=partition_by, timestamps=timestamps
        )
    except ValidationError as error:
        raise UsageError(f"{first_problem(error, whole='the destination')}.") from None
