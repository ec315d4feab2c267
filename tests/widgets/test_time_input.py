"""Rules of an input of a time: the text counts, the picker fills it, and what was understood stands beside it at once."""

from __future__ import annotations

import ast
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import workbench.widgets
from workbench.errors import WindowError
from workbench.widgets.dead_letter_panel import LettersPanel
from workbench.widgets.panel_browser_part import Address
from workbench.widgets.prefill import Inputs, LettersWish, Wish
from workbench.widgets.replay import ReplayPanel
from workbench.widgets.time_input import TimeField
from workbench.widgets.triage import TriagePanel
from workbench.window import parse_instant


def field(value: str = "", zone: str = "Asia/Shanghai") -> TimeField:
    """A field of a panel that is seen on a screen in `zone`; "" before the browser has told it."""
    address = Address()
    address.zone = zone
    return TimeField(value, "Since", "now", "wb-since", address=address)


def test_what_was_picked_becomes_text_with_the_zone_of_the_screen() -> None:
    """Summer and winter of one zone have their own offsets; both zones are shown."""
    it = field(zone="Europe/Berlin")
    it.picker.value = datetime(2026, 7, 1, 3, 0)  # noqa: DTZ001 - a browser's picker has no zone
    assert it.value == it.asked == "2026-07-01T03:00:00+02:00"
    assert "2026-07-01 03:00:00+02:00 Europe/Berlin = 2026-07-01 01:00:00 UTC" in it.told.value
    it.picker.value = datetime(2026, 1, 1, 0, 30)  # noqa: DTZ001
    assert it.value == "2026-01-01T00:30:00+01:00"
    assert "= 2025-12-31 23:30:00 UTC" in it.told.value


def test_what_is_typed_moves_the_picker_and_stays_as_it_was_typed() -> None:
    """The text is the source of truth: the picker follows it, and does not write it in other words."""
    it = field()
    for typed in ("2026-11-20T19:00:00Z", "2026-11-21T04:00:00+09:00", "2026-11-21 03:00"):
        it.value = typed
        assert it.picker.value == datetime(2026, 11, 21, 3, 0)  # noqa: DTZ001
        assert it.value == typed
        assert "2026-11-21 03:00:00+08:00 Asia/Shanghai = 2026-11-20 19:00:00 UTC" in it.told.value
    it.value = "1 hour ago"
    assert it.value == it.asked == "1 hour ago"
    assert "role='status'" in it.told.value.replace('"', "'")
    it.value = ""
    assert (it.picker.value, it.told.value, it.asked) == (None, "", "")


def test_a_text_without_a_zone_is_in_that_of_the_screen() -> None:
    """It is shown so, and handed on with its offset; a time of the day is the last one of these."""
    it = field("2026-11-21T03:00")
    assert it.asked == "2026-11-21T03:00:00+08:00"
    it.value = "03:00"
    assert it.asked.endswith("T03:00:00+08:00")
    assert "19:00:00 UTC" in it.told.value


def test_without_a_known_zone_nothing_is_guessed() -> None:
    """Before the browser has told it, and if it tells nonsense: the text needs a zone, and there is nothing to pick."""
    for zone in ("", "../../etc/passwd", "Mars/Olympus", "<b>"):
        it = field("2026-11-21T03:00", zone=zone)
        assert "has no time zone" in it.told.value
        assert it.asked == "2026-11-21T03:00"
        assert it.picker.disabled
        it.value = "2026-11-21T03:00:00+08:00"
        assert "2026-11-20 19:00:00 UTC" in it.told.value
    it = field("2026-11-21T03:00", zone="")
    it._address.zone = "Asia/Shanghai"
    assert "2026-11-20 19:00:00 UTC" in it.told.value
    assert not it.picker.disabled


def test_a_wrong_text_says_what_is_wrong_beside_the_field() -> None:
    """At once, with a hint, as text only; what was picked before stays."""
    it = field("2026-11-21T03:00:00Z")
    picked = it.picker.value
    it.value = "<img src=x> yesterday"
    assert 'role="alert"' in it.told.value
    assert "is not a timestamp" in it.told.value
    assert "15m ago" in it.told.value
    assert "<img" not in it.told.value
    assert it.picker.value == picked
    it.picker.value = datetime(2, 11, 21)  # noqa: DTZ001 - while somebody types the year
    assert "outside of the calendar" in it.told.value
    assert it.picker.value == datetime(2, 11, 21)  # noqa: DTZ001


def test_an_end_that_is_not_after_its_start_is_told_before_a_button_is_pressed() -> None:
    """Whichever of the two was changed last; both are named in both zones. A start that cannot be read is said there alone."""
    address = Address()
    address.zone = "Asia/Shanghai"
    start = TimeField("2026-11-21 03:00", "Since", "", "wb-since", address=address)
    end = TimeField("2026-11-20T20:00:00Z", "Until", "", "wb-until", address=address, after=start)
    assert 'role="status"' in end.told.value
    start.value = "2026-11-21T03:00:00-05:00"
    assert 'role="alert"' in end.told.value
    assert "2026-11-20 20:00:00 UTC is not after the start" in end.told.value
    assert "2026-11-21 08:00:00 UTC" in end.told.value
    end.value = "now"
    assert 'role="status"' in end.told.value
    for typed in ("", "yesterday"):
        start.value = typed
        end.value = "2026-11-20T20:00:00Z"
        assert 'role="status"' in end.told.value


def test_a_time_that_is_relative_stays_so_while_the_clock_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second passes between any two looks at it: the picker that the text has filled in is no pick of a person."""
    real, looks = parse_instant, count()

    def later(text: str, **more: Any) -> datetime:
        return real(text, **more) + timedelta(seconds=next(looks))

    monkeypatch.setattr("workbench.widgets.time_input.parse_instant", later)
    panel = TriagePanel(Inputs(capture="somewhere", since="3h ago", until="2h ago"))
    panel.address.zone = "America/New_York"
    assert (panel.inputs.since, panel.inputs.until) == ("3h ago", "2h ago")
    panel.since.picker.value = datetime(2026, 11, 21, 3, 0)  # noqa: DTZ001 - the picker is naive
    assert panel.since.value == "2026-11-21T03:00:00-05:00"


def test_every_time_of_a_panel_is_such_a_field() -> None:
    """Since and until of triage, replay and dead letters, filled in and handed on; no panel has a plain text for a time."""
    made = (
        TriagePanel(Inputs(capture="somewhere", since="3h ago", until="2h ago")),
        ReplayPanel(Wish(cluster="prod", since="3h ago", until="2h ago")),
        LettersPanel(LettersWish(cluster="prod", since="3h ago", until="2h ago")),
    )
    for panel in made:
        panel.address.zone = "America/New_York"
        asked = panel.inputs if isinstance(panel, TriagePanel) else panel.wish
        assert (asked.since, asked.until) == ("3h ago", "2h ago")
        for time in (panel.since, panel.until):
            assert isinstance(time, TimeField)
            time.value = "2026-11-21 03:00"
            assert "2026-11-21 03:00:00-05:00 America/New_York = 2026-11-21 08:00:00 UTC" in time.told.value
        asked = panel.inputs if isinstance(panel, TriagePanel) else panel.wish
        assert asked.since == asked.until == "2026-11-21T03:00:00-05:00"
    for path in Path(str(workbench.widgets.__file__)).parent.glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "text":
                words = {it.value for it in call.args if isinstance(it, ast.Constant)}
                assert not words & {"Since", "Until", "At"}, path


def test_commands_still_refuse_a_time_without_a_zone() -> None:
    """They show no screen's zone, so nothing would be seen of a slip."""
    for text in ("03:00", "2026-11-21T03:00", "2026-11-21"):
        with pytest.raises(WindowError):
            parse_instant(text)
