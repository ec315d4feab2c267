"""When runs of a batch are due: intervals, cron in a time zone, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from workbench.schedule import schedule_of

SUNDAY = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize("text", ["every 6h", " every 6h ", "every 360m"])
def test_an_interval_has_no_due_time(text: str) -> None:
    """Only its length is known."""
    assert schedule_of(text).every == schedule_of(text).longest_gap == timedelta(hours=6)


@pytest.mark.parametrize(
    ("text", "due", "following", "gap"),
    [
        ("0 2 * * *", "2026-11-22T02:00Z", "2026-11-23T02:00Z", timedelta(days=1)),
        ("30 22 * * 1-5", "2026-11-20T22:30Z", "2026-11-23T22:30Z", timedelta(days=3)),
        ("CRON_TZ=Asia/Kolkata 0 2 * * *", "2026-11-21T20:30Z", "2026-11-22T20:30Z", timedelta(days=1)),
        # On the day of the change to winter time there are 25 hours between two runs.
        ("CRON_TZ=Europe/Berlin 0 6 * * *", "2026-11-22T05:00Z", "2026-11-23T05:00Z", timedelta(hours=25)),
        ("@hourly", "2026-11-22T12:00Z", "2026-11-22T13:00Z", timedelta(hours=1)),
        ("0 0 29 2 *", "2024-02-29T00:00Z", "2028-02-29T00:00Z", timedelta(days=1461)),
    ],
)  # fmt: skip
def test_the_last_and_the_next_run_are_known(text: str, due: str, following: str, gap: timedelta) -> None:
    """In UTC; a run that is due now is the last one. The longest gap counts weekends and changes of the clock."""
    schedule = schedule_of(text)
    assert next(schedule.due_before(SUNDAY)) == datetime.fromisoformat(due)
    assert schedule.due_after(SUNDAY) == datetime.fromisoformat(following)
    assert schedule.longest_gap == gap


@given(st.integers(0, 59), st.integers(0, 23), st.integers(0, 6), st.integers(0, 10_000))
def test_runs_of_a_weekday_agree_with_a_walk_through_the_minutes(minute: int, hour: int, day: int, ago: int) -> None:
    """Against a naive oracle: the last minute before an instant that fits."""
    at = SUNDAY - timedelta(minutes=ago)
    found = list(islice(schedule_of(f"{minute} {hour} * * {day}").due_before(at), 2))
    one = at
    while (one.minute, one.hour, one.isoweekday() % 7) != (minute, hour, day):
        one -= timedelta(minutes=1)
    assert found == [one, one - timedelta(days=7)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("every", "neither an interval"),
        ("every soon", "not an interval"),
        ("every 900d", "at most 366 days"),
        ("every 0s", "not an interval"),
        ("6h", "neither an interval"),
        ("0 2 * *", "neither an interval"),
        ("0 0 2 * * *", "neither an interval"),
        ("0 25 * * *", "Bad hour"),
        ("0 2 31 2 *", "cron expression"),
        ("CRON_TZ=Europe/Nowhere 0 2 * * *", "no such time zone"),
        ("CRON_TZ=../../etc/passwd 0 2 * * *", "no such time zone"),
        ("CRON_TZ= 0 2 * * *", "no such time zone"),
        ("1" * 5000 + " * * * *", "at most 200 characters"),
        ("", "neither an interval"),
        ("*/0 * * * *", "Bad minute"),
    ],
)
def test_a_mistake_is_named(text: str, said: str) -> None:
    """Without the text itself, which may be here by mistake."""
    with pytest.raises(ValueError, match=said) as raised:
        schedule_of(text)
    assert len(str(raised.value)) < 200


@given(st.text(alphabet="0123456789*/-,LW#@ MONJAevry hCRON_TZ=\x00é", max_size=40))
def test_any_text_is_a_schedule_or_a_value_error(text: str) -> None:
    """Nothing else is raised, and a schedule has a last run."""
    try:
        schedule = schedule_of(text)
    except ValueError:
        return
    assert schedule.longest_gap > timedelta(0)
    if schedule.every is None:
        assert next(schedule.due_before(SUNDAY)) <= SUNDAY


@pytest.mark.parametrize(
    ("zone", "day"),
    [
        ("America/New_York", "2026-11-01"),
        ("America/New_York", "2026-03-08"),
        ("Europe/Berlin", "2026-10-25"),
        ("Pacific/Apia", "2021-04-03"),
        ("Africa/Casablanca", "2026-02-15"),
        ("Asia/Kolkata", "2026-11-01"),
    ],
)
@pytest.mark.parametrize("cron", ["0 * * * *", "*/15 * * * *", "30 1 * * *", "30 2 * * *", "15 1,2,3 * * *"])
def test_a_night_in_which_the_clock_changes_hides_no_run(zone: str, day: str, cron: str) -> None:
    """At every minute the last and the next run are those of a walk that began days before, when no hour was there twice."""
    schedule, noon = schedule_of(f"CRON_TZ={zone} {cron}"), datetime.fromisoformat(f"{day}T12:00Z")
    walk = CronSim(cron, (noon - timedelta(days=3)).astimezone(ZoneInfo(zone)))
    runs = [due.astimezone(UTC) for due in takewhile(lambda due: due < noon + timedelta(days=3), walk)]
    for at in (noon + timedelta(minutes=5 * number) for number in range(-288, 288)):
        assert next(schedule.due_before(at)) == max(due for due in runs if due <= at)
        assert schedule.due_after(at) == min(due for due in runs if due > at)
