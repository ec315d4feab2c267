"""The chart of a group's page: what was sampled, held until the next sample, and nothing where nothing was judged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.serve.serving import HOSTILE, NOW, Office, judged
from workbench.serve import fleet_verdicts
from workbench.serve.fleet_verdicts import NOT_JUDGED
from workbench.serve.page_queries import Reading
from workbench.serve.step_chart import DAY, chosen_range, held, step_chart
from workbench.triage.verdict_names import State

BEGUN = NOW - DAY


def row(hours: float, lag: float | None, verdict: str = "healthy") -> Any:
    """A finding that many hours after the picture begins."""
    states = {"healthy": State.HEALTHY, "cannot_tell": State.CANNOT_TELL, NOT_JUDGED: State.CANNOT_TELL}
    state = states.get(verdict, State.LAGGING)
    return {
        "at": BEGUN + hours * 3600,
        "time_lag": lag,
        "time_lag_words": None,
        "verdict": verdict,
        "state": str(state),
    }


def drawn(*rows: Any, until: float = NOW, **values: Any) -> str:
    """A day's picture, which must be well-formed."""
    picture = str(step_chart(rows, start=BEGUN, end=NOW, until=until, **values))
    ElementTree.fromstring(picture)
    return picture


def line(picture: str) -> str:
    """The curve."""
    [path] = re.findall(r'class="line" d="([^"]*)"', picture)
    return str(path)


def test_a_lag_is_held_until_the_next_sample_and_never_slopes() -> None:
    """Healthy for 18 h, and then late for 6 h: one level and one step, no straight line between the two."""
    path = line(drawn(row(0, 0.0), row(18, 600.0, "slow_processor")))
    assert re.fullmatch(r"(M[\d.]+ [\d.]+|V[\d.]+|H[\d.]+)+", path)
    assert re.findall(r"[MH]([\d.]+)", path) == ["0.0", "750.0", "1000.0"]
    assert re.findall(r"M[\d.]+ ([\d.]+)|V([\d.]+)", path) == [("100.0", ""), ("", "0.0")]


def test_where_nothing_is_known_there_is_a_gap() -> None:
    """A lag that is unknown, a server that did not run, and the time after the last triage."""
    rows = [row(0, 5.0), row(6, None, "cannot_tell"), row(9, 5.0), row(12, None, NOT_JUDGED), row(15, 5.0)]
    picture = drawn(*rows, until=BEGUN + 18 * 3600)
    assert re.findall(r"M([\d.]+) [\d.]+H([\d.]+)", line(picture)) == [
        ("0.0", "250.0"),
        ("375.0", "500.0"),
        ("625.0", "750.0"),
    ]
    assert "not judged for 9 h" in picture
    assert NOT_JUDGED.replace("_", " ") + " for 3" not in picture
    assert "cannot tell for 3 h" in picture
    assert "nothing is known" in drawn()


def test_it_has_a_scale_dates_an_objective_and_marks_that_need_no_colour() -> None:
    """Minutes at the side, hours and a date below, a dashed line, a hatch and a letter for lagging."""
    picture = drawn(row(0, 0.1), row(18, 600.0, "slow_processor"), objective=120.0)
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", picture)
    assert {"5 min", "10 min", "12:00", "L"} <= set(texts), texts
    assert any(re.fullmatch(r"[A-Z][a-z]{2} \d+", it) for it in texts), texts
    assert picture.count('class="objective"') == 1
    assert 'fill="url(#lagging-0)"' in picture and 'id="lagging-0"' in picture
    assert "at most 10 min, last 10 min; lagging for 6 h" in picture


def test_a_group_that_flaps_is_a_small_picture_of_its_worst() -> None:
    """Ten thousand changes in a day: no spike is lost, and the page stays small."""
    rows = [row(24 * n / 10_000, 900.0 if n == 5000 else 1.0, "hot_key" if n % 2 else "healthy") for n in range(10_000)]
    picture = drawn(*rows)
    assert len(picture) < 60_000
    assert "at most 15 min" in picture


def test_what_is_hostile_is_text() -> None:
    """A verdict of a database that somebody has changed."""
    picture = drawn({**row(0, 1.0), "verdict": HOSTILE, "state": '"><script>'}, name='"><b>')
    assert "<img" not in picture and "<script" not in picture and "<b>" not in picture


@pytest.mark.parametrize(
    ("age", "name"), [(3600.0, "24h"), (2 * DAY, "7d"), (20 * DAY, "30d"), (90 * DAY, "30d"), (None, "30d")]
)
def test_the_range_is_chosen_by_what_is_known(age: float | None, name: str) -> None:
    """The shortest that shows all of it, if nobody has asked for another."""
    first = None if age is None else NOW - age
    assert chosen_range("", first, now=NOW) == name
    assert chosen_range("7d", first, now=NOW) == "7d"
    assert chosen_range("1y", first, now=NOW) == name


def test_what_held_before_the_picture_begins_is_in_it_and_an_outage_of_the_server_is_not(tmp_path: Path) -> None:
    """A group that is healthy for 40 days has one row; a night without a server is a gap in it, with no new verdict."""
    office = Office(tmp_path)
    begun = office.clock.now
    calm = [judged("calm", verdict="healthy", time_lag_seconds=0.2)]
    for day in range(40):
        office.clock.now = begun + day * DAY
        fleet_verdicts.record(office.store, "prod", calm, every_seconds=DAY)
    office.clock.now += 4 * DAY
    fleet_verdicts.record(office.store, "prod", calm, every_seconds=DAY)
    now = office.clock.now
    [rows] = Reading(office.store).history("prod", "calm", start=now - 30 * DAY, end=now).values()
    spans = [(it.start - begun, it.end - begun) for it in held(rows, start=now - 30 * DAY, until=now + 1)]
    assert spans == [(13 * DAY, 39 * DAY), (43 * DAY, 43 * DAY + 1)]
    [present] = Reading(office.store).present("prod", "calm")
    assert present["since"] == begun
