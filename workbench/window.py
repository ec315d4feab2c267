"""Timestamps, durations and the time window of an analysis. All times have a time zone; naive ones are refused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo

from workbench.errors import WindowError

# Kafka's timestamps start in 1970, and no record is from the far future; a margin of centuries is left for arithmetic.
_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
_LONGEST_SECONDS = 100 * 365.25 * 86400  # threads can wait that long, and dates can represent it
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
# "1h" as Prometheus and Kubernetes write it, and "1 hour" as people do; "1 month" is neither, and no minute.
_UNIT = r"ms|s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?|w(?:eeks?)?"
_PART = re.compile(rf"(\d+(?:\.\d+)?)({_UNIT})")
_DURATION = re.compile(rf"(?:\d+(?:\.\d+)?(?:{_UNIT}))+")
# Today, before that time; a night that leaves it out; a day that a zone has left out (Apia, 2011); and the day before these.
_DAYS_WITHOUT = 4
_CLOCK = re.compile(r"\d{2}:\d{2}(?::\d{2})?")
_MOST_CHARACTERS = 100  # three times the longest timestamp; the search for units is quadratic in a run of digits
_INSTANT_HINT = (
    'Write "15m ago", or a timestamp with a time zone: "2026-11-21T03:00:00+08:00", "2026-11-20T19:00:00Z", "now".'
)


def parse_duration(text: str) -> timedelta:
    """Parse "90s", "15m", "2h30m", "7d" or "1 hour" as a positive duration.

    Raises:
        WindowError: if the text is anything else, zero or negative.
    """
    compact = text.strip().lower().replace(" ", "")
    parts = _PART.findall(compact) if len(compact) <= _MOST_CHARACTERS else []
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise WindowError(f"{text!r} is not a duration.", hint="Write it as 90s, 15m, 2h30m or 7d.")
    seconds = sum(float(number) * _UNIT_SECONDS[unit if unit == "ms" else unit[0]] for number, unit in parts)
    if seconds <= 0:
        raise WindowError(f"The duration {text!r} is not longer than zero.", hint="Write it as 90s, 15m, 2h30m or 7d.")
    if seconds > _LONGEST_SECONDS:
        raise WindowError(f"The duration {text!r} is longer than a hundred years.", hint="Write 90s, 15m or 7d.")
    return timedelta(seconds=seconds)


def _ago(text: str) -> str | None:
    """The duration in "15m ago" or "15m"; None for anything else."""
    if text.lower().endswith("ago"):
        return text[:-3]
    compact = text.lower().replace(" ", "")
    return text if len(compact) <= _MOST_CHARACTERS and _DURATION.fullmatch(compact) else None


def parse_instant(text: str, *, now: datetime | None = None, zone: tzinfo | None = None) -> datetime:
    """Parse a timestamp with an explicit time zone, "now", or "15m ago" ("15m" means the same); the result is in UTC.

    Args:
        zone: of a timestamp without one, and of "03:00", the last time that it was 03:00; only for a screen that shows, in this zone
            and in UTC, what it has understood. None: both are refused.

    Raises:
        WindowError: if the text has no time zone, is invalid, or is outside the supported years.
    """
    now = now or datetime.now(UTC)
    stripped = text.strip()
    if stripped.lower() == "now":
        return now
    if (ago := _ago(stripped)) is not None:
        try:
            return _in_calendar(now - parse_duration(ago), text)
        except OverflowError:
            raise _outside(text) from None
    try:
        instant = _last_time(stripped, now.astimezone(zone)) if zone and _CLOCK.fullmatch(stripped) else None
        instant = instant or datetime.fromisoformat(stripped)
    except ValueError:
        raise WindowError(f"{text!r} is not a timestamp.", hint=_INSTANT_HINT) from None
    if instant.tzinfo is None and zone is not None:
        instant = instant.replace(tzinfo=zone)
    if instant.tzinfo is None:
        raise WindowError(f"The timestamp {text!r} has no time zone.", hint=_INSTANT_HINT)
    try:
        return _in_calendar(instant.astimezone(UTC), text)
    except OverflowError:
        raise _outside(text) from None


def _last_time(clock: str, now: datetime) -> datetime:
    """When a clock in the zone of `now` showed that time last. In a night in which it changes, it shows some twice or not at all."""
    named, zone, until = time.fromisoformat(clock), now.tzinfo, now.astimezone(UTC)
    days = (now.date() - timedelta(days=ago) for ago in range(_DAYS_WITHOUT))
    named_then = (
        datetime.combine(day, named, zone).replace(fold=fold).astimezone(UTC) for day in days for fold in (0, 1)
    )
    return max(it for it in named_then if it <= until and it.astimezone(zone).time() == named)


def plausible(instant: datetime) -> datetime:
    """Refuse implausible years in a document: near the ends of the calendar, date arithmetic fails.

    Raises:
        ValueError: with the year.
    """
    if not _FIRST <= instant <= _LAST:
        raise ValueError(f"the year {instant.year} is outside {_FIRST.year} to {_LAST.year}")
    return instant


def _in_calendar(instant: datetime, text: str) -> datetime:
    try:
        return plausible(instant)
    except ValueError:
        raise _outside(text) from None


def _outside(text: str) -> WindowError:
    return WindowError(
        f"The time {text!r} lies outside of the calendar ({_FIRST:%Y} to {_LAST:%Y}).", hint=_INSTANT_HINT
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Time window of an analysis: `[start, end]` is judged, `[baseline_start, start)` is the baseline.

    Raises:
        WindowError: if a time is naive or the order is not `baseline_start <= start < end`.
    """

    baseline_start: datetime
    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        for name in ("baseline_start", "start", "end"):
            instant: datetime = getattr(self, name)
            if instant.tzinfo is None:
                raise WindowError(f"The window's {name} {instant.isoformat()} has no time zone.", hint=_INSTANT_HINT)
            object.__setattr__(self, name, instant.astimezone(UTC))
        if self.start >= self.end:
            raise WindowError(
                f"The window starts at {self.start.isoformat()}, which is not before its end {self.end.isoformat()}.",
                hint="Swap the two, or widen the window.",
            )
        if self.baseline_start > self.start:
            raise WindowError(
                f"The baseline starts at {self.baseline_start.isoformat()}, after the window's start.",
                hint="The baseline is the time before the window.",
            )

    @classmethod
    def ending(cls, end: datetime, *, length: timedelta, baseline: timedelta) -> Window:
        """Make the window of `length` before `end`, with `baseline` before that."""
        try:
            return cls(baseline_start=end - length - baseline, start=end - length, end=end)
        except OverflowError:
            raise WindowError("The window starts before the calendar begins.", hint="Shorten it.") from None

    @property
    def seconds(self) -> float:
        """Length of the judged part."""
        return (self.end - self.start).total_seconds()

    @property
    def baseline_seconds(self) -> float:
        """Length of the part before it."""
        return (self.start - self.baseline_start).total_seconds()

    def to_json(self) -> dict[str, str]:
        """The three times as ISO 8601 with a time zone."""
        return {
            "start": self.start.isoformat(),
            "end": self.end.isoformat(),
            "baseline_start": self.baseline_start.isoformat(),
        }


def instant_ms(instant: datetime) -> int:
    """Round a time up to milliseconds since the epoch, as in Kafka's timestamps."""
    from datetime import UTC, timedelta

    span = instant - datetime(1970, 1, 1, tzinfo=UTC)
    return (
        -(-span // timedelta(milliseconds=1)) if span % timedelta(milliseconds=1) else span // timedelta(milliseconds=1)
    )
