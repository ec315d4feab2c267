"""When the runs of a batch are due: at an interval (`every 6h`), or by a cron expression.

A cron expression is in UTC, unless a time zone stands before it: `CRON_TZ=Europe/Berlin 0 2 * * *`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from workbench.errors import WindowError
from workbench.window import parse_duration

_EVERY, _ZONE = "every ", "CRON_TZ="
_NAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS, _MOST_CHARACTERS = 5, 200
# A walk over runs begins at what a clock shows, and an hour that it shows twice is two instants. So a walk begins further away than
# clocks are put back (two hours, rarely), and what is on the other side of the instant that was asked for is left out.
_PUT_BACK = timedelta(hours=3)
_LONGEST = timedelta(days=366)  # more is a mistake in the unit
_LEARNED = datetime(2025, 1, 1, tzinfo=UTC)
_RUNS_LEARNED = 12_000  # a week with a run every minute has 10,080; they take 30 ms
_YEARS_LEARNED = timedelta(days=9 * 366)  # of the 29th of February


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a batch is due.

    Attributes:
        every: longest time between two runs, whenever the first one was; None with a cron expression.
        cron, zone: five fields, and the time zone that they are in.
    """

    every: timedelta | None
    cron: str = ""
    zone: str = "UTC"

    def due_before(self, at: datetime) -> Iterator[datetime]:
        """Instants of a cron expression at which a run was due, newest first, in UTC; `at` is the last one that may count."""
        later = (at + _PUT_BACK).astimezone(ZoneInfo(self.zone))
        runs = (due.astimezone(UTC) for due in CronSim(self.cron, later, reverse=True))
        yield from (due for due in runs if due <= at)

    def due_after(self, at: datetime) -> datetime:
        """The next instant of a cron expression, in UTC."""
        earlier = (at - _PUT_BACK).astimezone(ZoneInfo(self.zone))
        runs = (due.astimezone(UTC) for due in CronSim(self.cron, earlier))
        return next(due for due in runs if due > at)

    @property
    def longest_gap(self) -> timedelta:
        """Longest time between two runs."""
        return self.every if self.every is not None else _longest_gap(self.cron, self.zone)


@lru_cache(maxsize=256)
def schedule_of(text: str) -> Schedule:
    """Read a schedule.

    Raises:
        ValueError: says what is wrong with it.
    """
    words = text.strip()
    if len(words) > _MOST_CHARACTERS:
        raise ValueError(f"a schedule has at most {_MOST_CHARACTERS} characters")
    if words.startswith(_EVERY):
        try:
            every = parse_duration(words.removeprefix(_EVERY).strip())
        except WindowError:
            raise ValueError("this is not an interval, such as every 6h") from None
        if every > _LONGEST:
            raise ValueError("an interval is at most 366 days")
        return Schedule(every)
    zone = "UTC"
    if words.startswith(_ZONE):
        zone, _, words = words.removeprefix(_ZONE).partition(" ")
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("there is no such time zone; one is Europe/Berlin") from None
    cron = " ".join(_NAMES.get(words.strip(), words).split())
    if len(cron.split(" ")) != _FIELDS:
        raise ValueError(
            'this is neither an interval, such as "every 6h", nor five fields of cron, such as "0 2 * * *"'
        )
    try:
        # One that never comes ("31 February") is an error of the first step.
        next(CronSim(cron, _LEARNED))
    except (CronSimError, StopIteration) as error:
        raise ValueError(
            f"{str(error) or 'it never comes'}, in the cron expression (minute hour day month weekday)"
        ) from None
    return Schedule(None, cron, zone)


@lru_cache(maxsize=256)
def _longest_gap(cron: str, zone: str) -> timedelta:
    longest, last = timedelta(0), _LEARNED + _YEARS_LEARNED
    runs = CronSim(cron, _LEARNED.astimezone(ZoneInfo(zone)))
    for number, (one, other) in enumerate(pairwise(runs)):
        gap = other.astimezone(UTC) - one.astimezone(UTC)
        longest = max(longest, gap)
        if number >= _RUNS_LEARNED or other.astimezone(UTC) > last:
            break
    return longest
