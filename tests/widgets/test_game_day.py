"""Rules of the game day: the truth stays hidden until there is a guess, and a guess is judged by what was really done."""

from __future__ import annotations

import json
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.widgets.test_panel import HOSTILE, hostile_capture
from workbench.errors import SetupError
from workbench.lab.scenarios import SCENARIOS
from workbench.triage.triage_engine import triage
from workbench.triage.verdict_names import Verdict
from workbench.widgets import game_day_incidents
from workbench.widgets.game_day import GameDayPanel, game_day_panel
from workbench.widgets.panel_work import CancelledError, PanelWork

TRUTH: dict[str, Any] = json.loads((game_day_incidents.incidents() / "truth.json").read_text())


def text_of(panel: GameDayPanel) -> str:
    """Everything that the panel shows as markup or chart."""
    charts = [json.dumps({**it["data"], "text/plain": ""}) for it in panel.charts.outputs]
    return " ".join([panel.alert.value, panel.status.value, panel.answer.value, panel.path.value, *charts])


@pytest.mark.jvm
def test_a_round_from_the_first_chart_to_the_truth(spark: Any) -> None:
    """Nothing of the scenario is on the screen before; afterwards guess, tree and truth stand side by side, with the runbook."""
    panel = GameDayPanel("a seed")
    panel.recorded.click()
    panel.wait()
    assert panel.trouble.value == ""
    incident = panel.incident
    assert incident is not None
    assert len(panel.charts.outputs) >= 3
    before = text_of(panel)
    assert "svg" not in before
    for word in (incident.truth.scenario, str(incident.truth.verdict), incident.truth.what, incident.finding.headline):
        assert word not in before
    assert panel.say.disabled
    panel.hint.click()
    assert incident.finding.path[0].question in panel.alert.value
    wrong = Verdict.THROTTLED if incident.truth.verdict is not Verdict.THROTTLED else Verdict.HOT_KEY
    panel.guess.value = wrong
    assert not panel.say.disabled
    panel.say.click()
    [played] = panel.rounds
    assert (played.right, played.hints, played.guess) == (False, 1, wrong)
    assert incident.truth.what in panel.answer.value
    assert "<code>workbench runbooks show " in panel.answer.value  # a path in the package leads nowhere
    assert "svg" in panel.path.value
    assert panel.say.disabled  # one verdict for each incident
    panel.judge()
    assert len(panel.rounds) == 1
    panel.recorded.click()
    assert panel.answer.value == ""
    panel.wait()
    assert panel.incident is not incident
    panel.guess.value = panel.incident.truth.verdict  # type: ignore[union-attr]
    panel.say.click()
    assert "1 of 2 right" in panel.answer.value


def test_incidents_are_drawn_once_each_and_by_chance() -> None:
    """Every one comes up before one comes again; a seed draws the same order."""
    chance, played = random.Random("x"), []
    for _ in TRUTH:
        played.append(game_day_incidents.draw(chance, played))
    assert sorted(played) == sorted(TRUTH)
    assert game_day_incidents.draw(chance, played) in TRUTH
    assert [game_day_incidents.draw(random.Random("y"), []) for _ in range(2)] == [
        game_day_incidents.draw(random.Random("y"), [])
    ] * 2


def test_every_recorded_incident_has_a_truth_in_words() -> None:
    """A scenario of the lab, a verdict, and a folder; what it tells is never in the name of the folder."""
    for name, noted in TRUTH.items():
        truth = game_day_incidents.truth_of(noted["scenario"], noted["verdict"], noted["scope"])
        assert truth.what == SCENARIOS[noted["scenario"]][1]
        assert (game_day_incidents.incidents() / name / "capture.json").is_file()
        assert noted["scenario"] not in name


@pytest.mark.parametrize(
    ("typed", "found"),
    [("", set()), ("partition 3, 5", {"3", "5"}), ("refund", {"refund"}), ("Member a-0 and b-1", {"a-0", "b-1"})],
)
def test_a_place_is_read_as_people_write_it(typed: str, found: set[str]) -> None:
    """With or without the noun."""
    assert game_day_incidents.places(typed) == found


def test_the_place_counts_where_there_is_one() -> None:
    """A right verdict with a wrong place is not quite right; where the whole is sick there is no place to name."""
    whole = game_day_incidents.truth_of("slow_downstream", "slow_downstream", {})
    part = game_day_incidents.truth_of("hot_partition", "hot_partition", {"partitions": [5]})
    common: dict[str, Any] = {"tree": Verdict.HOT_PARTITION, "seconds": 1.0, "hints": 0}
    guess = Verdict.SLOW_DOWNSTREAM
    assert game_day_incidents.GameRound(truth=whole, guess=guess, where=frozenset(), **common).where_right is None
    assert game_day_incidents.GameRound(truth=part, guess=guess, where=frozenset({"4"}), **common).where_right is False
    assert game_day_incidents.GameRound(truth=part, guess=guess, where=frozenset({"5"}), **common).where_right is True


def live_lab(monkeypatch: pytest.MonkeyPatch, make: Any) -> None:
    """Instead of a lab, something that ends at once."""
    monkeypatch.setattr(game_day_incidents, "live", make)


@pytest.mark.jvm
def test_hostile_names_stay_text(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after the guess, in what was typed too."""
    capture = hostile_capture()
    result = triage(capture, spark, groups=[HOSTILE])
    truth = game_day_incidents.GameTruth(
        scenario="x", what=HOSTILE, verdict=Verdict.SLOW_PROCESSOR, where=frozenset({HOSTILE})
    )
    incident = game_day_incidents.Incident(truth=truth, capture=capture, triage=result, finding=result.findings[0])
    live_lab(monkeypatch, lambda _chance, _work: incident)
    panel = GameDayPanel("x")
    panel.live.click()
    panel.wait()
    panel.guess.value, panel.where.value = Verdict.SLOW_PROCESSOR, "<img src=x>"
    panel.say.click()
    assert "slow processor" in panel.answer.value
    assert "<img" not in text_of(panel)


def test_a_live_incident_can_be_broken_off_and_a_lab_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancel reaches the run within a second, so that it ends what it has started."""
    begun, ended = threading.Event(), threading.Event()

    def waits(_chance: random.Random, work: PanelWork) -> game_day_incidents.Incident:
        begun.set()
        try:
            for _ in range(600):
                work.pause(0.1)
        except CancelledError:
            ended.set()
            raise
        raise AssertionError

    live_lab(monkeypatch, waits)
    panel = GameDayPanel()
    panel.live.click()
    assert begun.wait(10)
    panel.cancel.click()
    assert ended.wait(10)
    assert panel.status.value == "Cancelled."
    assert panel.incident is None
    assert panel.say.disabled

    def fails(_chance: random.Random, _work: PanelWork) -> game_day_incidents.Incident:
        raise SetupError("No Kafka to be had.", hint="Look into the log.")

    live_lab(monkeypatch, fails)
    panel.live.click()
    panel.wait()
    assert "No Kafka to be had." in panel.trouble.value
    assert not panel.live.disabled


def test_an_installation_without_recordings_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And points to the live ones."""
    monkeypatch.setattr(game_day_incidents, "shipped", lambda _name: tmp_path)
    panel = GameDayPanel()
    panel.recorded.click()
    assert "no recorded incidents" in panel.trouble.value


def test_the_same_seed_gives_the_same_panel() -> None:
    """So that a cell that is run again keeps the score."""
    assert game_day_panel("s") is game_day_panel("s")
    assert game_day_panel("s") is not game_day_panel("t")
