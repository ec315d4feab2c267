"""What is kept of the fleet, and for how long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serve.serving import Office, alert, judged
from tests.serve.test_incidents import post
from workbench.serve import fleet_verdicts
from workbench.serve.incident_actions import add_note
from workbench.serve.kept_verdict import worse
from workbench.serve.page_queries import Reading

DAY = 86_400.0


@pytest.fixture
def office(tmp_path: Path) -> Office:
    """A worker without threads."""
    return Office(tmp_path)


def test_only_changes_are_kept_and_lag_each_hour(office: Office) -> None:
    """A healthy day is one row; a lagging one 24; the page shows since when."""
    begun = office.clock.now
    for _ in range(288):
        verdicts = [judged("calm", verdict="healthy"), judged("slow")]
        fleet_verdicts.record(office.store, "prod", verdicts, every_seconds=300)
        office.clock.now += 300
    kept = {row[0]: row[1] for row in office.store.rows("SELECT grp, count(*) FROM finding GROUP BY grp")}
    assert kept["calm"] == 1
    assert kept["slow"] in (24, 25)
    number, rows = Reading(office.store).fleet()
    assert (number, [row["grp"] for row in rows]) == (2, ["slow", "calm"])
    assert rows[0]["since"] == begun


def test_a_group_that_has_gone_leaves_the_page(office: Office) -> None:
    """After three rounds; its history stays."""
    fleet_verdicts.record(office.store, "prod", [judged("a"), judged("b")], every_seconds=300)
    office.clock.now += 901
    fleet_verdicts.record(office.store, "prod", [judged("a")], every_seconds=300)
    assert [row["grp"] for row in Reading(office.store).fleet()[1]] == ["a"]
    assert Reading(office.store).history("prod", "b", start=0, end=office.clock.now)


def test_the_page_is_filtered_and_sorted_and_a_filter_is_no_query(office: Office) -> None:
    """By part of a name, state and cluster; a quote or a wildcard in it is a letter."""
    found = [
        judged("pay-1", time_lag_seconds=5.0),
        judged("pay-2", time_lag_seconds=50.0),
        judged("100%", verdict="healthy"),
    ]
    fleet_verdicts.record(office.store, "prod", found, every_seconds=300)
    fleet_verdicts.record(office.store, "test", [judged("pay-1")], every_seconds=300)
    reading = Reading(office.store)
    assert [row["grp"] for row in reading.fleet(text="PAY", cluster="prod")[1]] == ["pay-2", "pay-1"]
    assert [row["grp"] for row in reading.fleet(text="%")[1]] == ["100%"]
    assert reading.fleet(text="' OR 1 --")[0] == 0
    assert reading.fleet(sort="grp; DROP TABLE fleet")[0] == 4
    assert [row["grp"] for row in reading.fleet(state="healthy")[1]] == ["100%"]


def test_who_waits_for_nobody_knows_how_long_is_the_worst(office: Office) -> None:
    """An age that is not known is no age of 0: messages wait, perhaps since yesterday."""
    found = [
        judged("late", time_lag_seconds=5000.0, lag_messages=10),
        judged("unknown", time_lag_seconds=None, lag_messages=600),
        judged("nothing", time_lag_seconds=None, lag_messages=0),
    ]
    fleet_verdicts.record(office.store, "prod", found, every_seconds=300)
    for sort in ("worst", "time_lag"):
        rows = Reading(office.store).fleet(sort=sort)[1]
        assert [row["grp"] for row in rows] == ["unknown", "late", "nothing"]
    assert [it.group for it in sorted(found, key=worse)] == ["unknown", "late", "nothing"]


def test_what_is_too_old_is_deleted_and_open_incidents_stay(office: Office) -> None:
    """Findings, closed incidents with their notes and alerts, sent messages."""
    post(office, alert("ends"), alert("stays"))
    office.oracle.says = lambda q: [judged(it, cause=it) for it in q.groups]
    office.worker.judge_alerts()
    office.send()
    [row] = office.store.rows("SELECT incident FROM member WHERE grp = 'ends'")
    add_note(office.store, row["incident"], author="ann", kind="note", words="x")
    office.clock.now += 61
    office.oracle.says = lambda q: [
        judged("ends", verdict="healthy", cause="healthy"),
        judged("stays", cause="stays"),
    ]
    office.worker.look_again()
    office.clock.now += 366 * DAY
    fleet_verdicts.forget(office.store, keep_seconds=365 * DAY)
    left = {
        name: office.store.number(f"SELECT count(*) FROM {name}") for name in ("incident", "alert", "member", "note")
    }
    assert left == {"incident": 1, "alert": 1, "member": 1, "note": 0}
    assert office.store.number("SELECT count(*) FROM finding") == 0
