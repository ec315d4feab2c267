"""Rules of the dead-letter panel: nothing is produced before the hash was typed, and what is produced is verified."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.api.test_letter_redrives import EVIL, Kafka, kafka  # noqa: F401 - a fixture
from tests.redrive.making import TOPIC
from tests.test_safe_output import STEERS
from workbench import api
from workbench.plans.journal import Journal
from workbench.redrive.planfile import read_redrive_plan
from workbench.widgets.dead_letter_panel import LettersPanel
from workbench.widgets.letters_actions import Doors
from workbench.widgets.prefill import LettersWish, letters_wish_of


@pytest.fixture
def panel(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LettersPanel]:  # noqa: F811
    """A panel on ten letters in memory, one of them hostile."""
    monkeypatch.chdir(tmp_path)
    doors = Doors(apply=partial(api.apply_redrive, retention_margin_seconds=0))
    yield LettersPanel(LettersWish(cluster="mine", reason="a test", file=str(tmp_path / "plan.json")), doors=doors)


def listed(panel: LettersPanel) -> LettersPanel:
    """With the topics listed; the only one is taken."""
    panel.look.click()
    panel.wait()
    assert panel.trouble.value == ""
    assert panel.topic.value == TOPIC
    return panel


def planned(panel: LettersPanel) -> LettersPanel:
    """With a plan made."""
    listed(panel).make.click()
    panel.wait()
    assert panel.trouble.value == ""
    assert panel.planned is not None
    return panel


def test_list_plan_apply_and_verify(panel: LettersPanel, kafka: Kafka, tmp_path: Path) -> None:  # noqa: F811
    """The whole life of a redrive, by buttons alone."""
    planned(panel)
    assert panel.planned is not None
    plan = read_redrive_plan(tmp_path / "plan.json")
    assert plan.hash == panel.planned.plan.hash
    assert (plan.letters, plan.reason) == (10, "a test")
    assert plan.short_hash not in panel.asking.value
    assert panel.verify.disabled
    assert kafka.cluster.records == []
    panel.dry.click()
    panel.wait()
    assert "All safety checks passed for 10 letters" in panel.outcome.value
    assert kafka.cluster.records == []
    assert Journal.of_user().read()[0] == []
    panel.typed.value = f"{plan.topic} {plan.letters}"
    panel.apply.click()
    panel.wait()
    assert "Done: 10 records produced" in panel.outcome.value
    assert len(kafka.cluster.records) == 10
    assert (panel.records.value, panel.records.max) == (10, 10)
    assert panel.typed.value == ""
    assert panel.apply.disabled
    panel.verify.click()
    panel.wait()
    assert panel.check is not None
    assert panel.check.sentences()[0] in panel.verdict.value.replace("&#39;", "'")


@pytest.mark.parametrize("typed", ["", "1234567", "0" * 8, TOPIC, " "])
def test_apply_wants_topic_and_number(panel: LettersPanel, kafka: Kafka, typed: str) -> None:  # noqa: F811
    """The button stays dead for anything else, and what is behind it refuses all the same."""
    planned(panel).typed.value = typed
    assert panel.apply.disabled
    panel.start_apply(dry_run=False)
    panel.wait()
    assert "is neither the dead-letter topic and the number of letters nor the hash" in panel.trouble.value
    assert kafka.cluster.records == []


def test_another_plan_needs_another_confirmation(panel: LettersPanel, tmp_path: Path) -> None:
    """And another file: the plan before stays."""
    planned(panel)
    assert panel.planned is not None
    panel.typed.value = panel.planned.plan.short_hash
    panel.file.value = str(tmp_path / "second.json")
    panel.errors.value = "Time*"
    panel.make.click()
    panel.wait()
    assert panel.typed.value == ""
    assert panel.apply.disabled
    assert read_redrive_plan(tmp_path / "second.json").letters == 9
    assert read_redrive_plan(tmp_path / "plan.json").letters == 10


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"topic": ""}, "Enter the topic of dead letters."),
        ({"most": "many"}, "is no number of letters at most"),
        ({"most": "0"}, "is no number of letters at most"),
        ({"cap": "-5"}, "is no number of records per second"),
        ({"since": "yesterday"}, "yesterday"),
        ({"file": "/nowhere/plan.json"}, "does not exist"),
    ],
)
def test_wrong_input_is_named(panel: LettersPanel, change: dict[str, str], words: str) -> None:
    """Before Kafka is asked; nothing is planned."""
    panel.topic.value = TOPIC
    for name, value in change.items():
        getattr(panel, name).value = value
    panel.make.click()
    panel.wait()
    assert words in panel.trouble.value
    assert panel.planned is None
    assert not list(Path().glob("*.json"))


def test_each_plan_without_a_name_has_a_file_of_its_own(panel: LettersPanel, tmp_path: Path) -> None:
    """With the time in its name."""
    panel.file.value = ""
    planned(panel)
    [path] = tmp_path.glob("redrive-plan-2*.json")
    assert panel.path is not None
    assert panel.path.name == path.name
    assert path.name in panel.asking.value


def test_hostile_letters_are_inert(panel: LettersPanel) -> None:
    """Names of errors come from any producer."""
    planned(panel)
    for shown in (panel.found.value, panel.review.value):
        assert EVIL[:4] not in shown
        assert "&lt;img" in shown
        assert not STEERS.search(shown)


def test_inputs_come_from_the_notebook_or_the_address() -> None:
    """What is given wins; other values of the address are not taken."""
    wish = letters_wish_of({"errors": "Time*"}, {}, query="?cluster=prod&topic=orders.dlq&errors=all")
    assert wish == LettersWish(cluster="prod", topic="orders.dlq", errors="Time*")
    assert letters_wish_of({"topic": "mine"}, {}, query="?topic=other").topic == "mine"
