"""Rules of what people do about an incident on its page: acknowledge, mute, close. No message too many, and none lost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.serve.serving import HOSTILE, Office, Running, alert, judged, running
from tests.serve.test_opened_pages import Person, post
from workbench.serve.incident_actions import Handling, handle
from workbench.serve.similar_incidents import words_of_similar


@pytest.fixture
def office(tmp_path: Path) -> Office:
    """With one incident, told to its target."""
    made = Office(tmp_path)
    post(made, alert("payments"))
    made.worker.judge_alerts()
    assert made.send() == ["new"]
    return made


def incident_of(office: Office) -> str:
    """The id of the latest incident."""
    row = office.store.row("SELECT id FROM incident ORDER BY opened DESC, id DESC")
    assert row is not None
    return str(row["id"])


def does(office: Office, what: Handling, hours: int = 1) -> bool:
    """As the page does it."""
    return handle(office.store, incident_of(office), what, author="Ada", hours=hours, settings=office.settings)


def later(office: Office, seconds: float) -> None:
    """Time passes, and the incident is looked at again."""
    office.clock.now += seconds
    office.worker._look_at.clear()
    assert office.worker.look_again()


def test_a_muted_incident_sends_nothing_until_the_mute_is_over(office: Office) -> None:
    """What has changed by then is told; without a change nothing is."""
    assert does(office, Handling.MUTE)
    office.oracle.says = lambda _question: [judged(verdict="consumer_stopped")]
    later(office, 600)
    assert office.send() == ["new"]
    later(office, 3600)
    assert office.send() == ["new", "verdict"]
    assert does(office, Handling.MUTE)
    later(office, 4000)
    assert office.send() == ["new", "verdict"]


def test_the_end_of_a_muted_incident_is_told(office: Office) -> None:
    """Whoever was told of it knows that it is over."""
    assert does(office, Handling.MUTE, 24)
    office.oracle.says = lambda _question: [judged(verdict="healthy")]
    later(office, 600)
    assert office.send() == ["new", "recovered"]


def test_a_mute_can_be_taken_back(office: Office) -> None:
    """Then changes are told at once."""
    assert does(office, Handling.MUTE, 24)
    assert does(office, Handling.UNMUTE)
    office.oracle.says = lambda _question: [judged(verdict="consumer_stopped")]
    later(office, 600)
    assert office.send() == ["new", "verdict"]


def test_an_incident_that_is_closed_by_hand_is_told_and_opens_anew_with_the_alert(office: Office) -> None:
    """Once; a closed one cannot be handled again. The alert that goes on is not forgotten."""
    first = incident_of(office)
    assert does(office, Handling.CLOSE)
    assert office.send() == ["new", "ended"]
    assert "Closed by hand" in office.postman.parcels[-1].message.headline
    assert not does(office, Handling.CLOSE)
    assert not does(office, Handling.ACKNOWLEDGE)
    office.clock.now += 4000
    post(office, alert("payments"))
    office.worker.judge_alerts()
    assert incident_of(office) != first
    assert office.send() == ["new", "ended", "new"]


def test_what_was_clicked_is_not_quoted_as_what_helped(office: Office) -> None:
    """A later incident quotes notes of people, and no "Muted for 1 h"."""
    assert does(office, Handling.MUTE)
    with office.store.reading() as db:
        assert "what was done" not in (words_of_similar(db, incident_of(office)) or "")


@pytest.fixture
def server(office: Office) -> Iterator[Running]:
    """Its pages."""
    with running(office, threads=False) as found:
        yield found


def test_the_buttons_of_the_page(office: Office, server: Running) -> None:
    """With the visit's form only; what was done stands on the page, with its author as text."""
    person, path = Person(server.url), f"/incidents/{incident_of(office)}"
    page = person.see(path)
    assert re.findall(r'name="what" value="(\w+)"', page) == ["acknowledge", "mute", "close"]
    csrf = re.findall(r'name="csrf" value="([^"]+)"', page)[0]
    address, form = f"{server.url}{path}/handling", {"csrf": csrf, "author": HOSTILE}
    assert requests.post(address, data={**form, "what": "close"}, timeout=10).status_code == 401
    assert person.post(address, data={"what": "close", "csrf": "x"}, timeout=10).status_code == 403
    for wrong in ({"what": "delete"}, {"what": "mute", "hours": "9000"}, {}):
        assert person.post(address, data={**form, **wrong}, timeout=10).status_code == 400
    page = person.post(address, data={**form, "what": "acknowledge"}, timeout=10).text
    assert "Acknowledged by" in page and "<img" not in page
    page = person.post(address, data={**form, "what": "mute", "hours": "4"}, timeout=10).text
    assert "Muted until" in page and "in 4 h" in page
    assert 'value="unmute"' in page
    page = person.post(address, data={**form, "what": "close"}, timeout=10).text
    assert "(closed)" in page
    assert 'name="what"' not in page
    assert person.post(address, data={**form, "what": "close"}, timeout=10).status_code == 404
