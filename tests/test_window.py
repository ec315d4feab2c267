"""Rules of instants, durations and windows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.errors import WindowError
from workbench.window import Window, parse_duration, parse_instant

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("90s", 90), ("15m", 900), ("2h30m", 9000), ("7d", 604_800), ("500ms", 0.5), ("1.5h", 5400)),
        *(("1 hour", 3600), ("2 Hours 30 minutes", 9000), ("10 sec", 10), ("3 days", 259_200), ("1 week", 604_800)),
    ],
)
def test_durations_are_read_with_their_units(text: str, seconds: float) -> None:
    """A number with a unit, or several of them in a row."""
    assert parse_duration(text).total_seconds() == seconds


@pytest.mark.parametrize(
    "text", ["", "5", "m", "5x", "1 month", "1 mo", "5 hous", "-5m", "0s", "5m later", "1e3s", "9" * 30 + "w"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    """Nothing is guessed, and nothing overflows into a traceback."""
    with pytest.raises(WindowError):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-21T03:00:00+08:00", datetime(2026, 11, 20, 19, 0, tzinfo=UTC)),
        ("2026-11-20T19:00:00Z", datetime(2026, 11, 20, 19, 0, tzinfo=UTC)),
        ("now", NOW),
        ("15m ago", NOW - timedelta(minutes=15)),
        ("1 hour ago", NOW - timedelta(hours=1)),
    ],
)
def test_instants_come_out_in_utc(text: str, expected: datetime) -> None:
    """A zone, "now" or "… ago"."""
    assert parse_instant(text, now=NOW) == expected


@pytest.mark.parametrize(
    "text", ["2026-11-21T03:00:00", "2026-11-21", "yesterday", "", "0001-01-01T00:00:00+23:00", "99999999w ago"]
)
def test_naive_and_unreadable_instants_are_refused(text: str) -> None:
    """An instant without a zone is a mistake that costs hours of data."""
    with pytest.raises(WindowError) as caught:
        parse_instant(text, now=NOW)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-21 03:00", datetime(2026, 11, 20, 19, 0, tzinfo=UTC)),
        ("2026-11-21T03:00:00+09:00", datetime(2026, 11, 20, 18, 0, tzinfo=UTC)),
        ("03:00", datetime(2026, 11, 20, 19, 0, tzinfo=UTC)),  # NOW is 20:00 there
        ("20:00", NOW),
        ("20:00:01", NOW + timedelta(seconds=1) - timedelta(days=1)),
    ],
)
def test_a_screen_lends_its_zone_to_a_text_without_one(text: str, expected: datetime) -> None:
    """A zone in the text is stronger; a time of the day is the last one of these."""
    assert parse_instant(text, now=NOW, zone=ZoneInfo("Asia/Shanghai")) == expected


@pytest.mark.parametrize(
    ("now", "zone", "clock", "expected"),
    [
        # 01:30 was there twice that night, at 05:30 and at 06:30 UTC.
        ("2026-11-01T06:45Z", "America/New_York", "01:30", "2026-11-01T06:30Z"),
        ("2026-11-01T06:15Z", "America/New_York", "01:30", "2026-11-01T05:30Z"),
        # 02:30 was not there that night.
        ("2026-03-08T12:00Z", "America/New_York", "02:30", "2026-03-07T07:30Z"),
        # Nor was the 30th of December.
        ("2011-12-30T10:30Z", "Pacific/Apia", "01:00", "2011-12-29T11:00Z"),
    ],
)
def test_a_time_of_the_day_is_the_last_one_also_where_the_clock_changes(
    now: str, zone: str, clock: str, expected: str
) -> None:
    """An hour that is there twice has two, and one that is not there none."""
    found = parse_instant(clock, now=datetime.fromisoformat(now), zone=ZoneInfo(zone))
    assert found == datetime.fromisoformat(expected)


@pytest.mark.parametrize("text", ["3:00", "0300", "03", "25:00", "03:00:00.5", "yesterday", ""])
def test_a_zone_makes_no_time_of_other_texts(text: str) -> None:
    """What could be a number of something else is no time of the day."""
    with pytest.raises(WindowError):
        parse_instant(text, now=NOW, zone=ZoneInfo("Asia/Shanghai"))


# DTZ001: hypothesis takes its bounds without a zone.
FIRST, LAST = datetime(1990, 1, 1), datetime(8999, 1, 1)  # noqa: DTZ001


@given(st.datetimes(timezones=st.just(timezone(timedelta(hours=-7))), min_value=FIRST, max_value=LAST))
def test_an_instant_with_a_zone_survives_its_own_text(instant: datetime) -> None:
    """Writing and reading does not move it."""
    assert parse_instant(instant.isoformat()) == instant


def test_a_window_must_run_forward() -> None:
    """Reversed, empty and naive windows are refused, with both ends named."""
    with pytest.raises(WindowError, match="not before its end"):
        Window(baseline_start=NOW, start=NOW, end=NOW)
    with pytest.raises(WindowError, match="not before its end"):
        Window(baseline_start=NOW, start=NOW, end=NOW - timedelta(seconds=1))
    with pytest.raises(WindowError, match="baseline"):
        Window(baseline_start=NOW, start=NOW - timedelta(hours=1), end=NOW)
    with pytest.raises(WindowError, match="no time zone"):
        Window(baseline_start=NOW, start=datetime(2026, 11, 21), end=NOW)  # noqa: DTZ001
