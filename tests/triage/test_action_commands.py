"""Rules of the commands in findings: they can be pasted, and those of a recording do not need what is gone."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from evaluation.stories import WINDOW, Story
from tests.cli.said import commands_in, problem_of
from tests.triage.judging import rows_of
from tests.triage.test_verdicts import CASES
from workbench.triage.action_subject import Recording
from workbench.triage.build_finding import build_finding
from workbench.triage.subscription import SubscriptionFeatures

pytestmark = pytest.mark.jvm
FOLDER = Path("recordings/of monday")


@pytest.fixture(scope="module")
def rows(spark: Any) -> list[SubscriptionFeatures]:
    """Every story, so every verdict."""
    return [
        *rows_of(spark, [case.make(Story(group=name, topic=f"about {name}")) for name, case in CASES.items()]).values()
    ]


def commands(rows: list[SubscriptionFeatures], recording: Recording | None) -> dict[str, list[str]]:
    """Commands of the actions by story."""
    bootstrap = "kafka:9092" if recording is None else None
    found = {}
    for row in rows:
        made = build_finding(row, profiles=[], since=WINDOW.start, bootstrap=bootstrap, recording=recording)
        found[row.group] = [it.command for it in made.actions if it.command]
    return found


@pytest.mark.parametrize("recording", [None, Recording(FOLDER, WINDOW.end, True), Recording(FOLDER, WINDOW.end, False)])
def test_every_command_of_ours_is_accepted(
    rows: list[SubscriptionFeatures], recording: Recording | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the real parser, in a folder without settings."""
    monkeypatch.chdir(tmp_path)
    every = [
        it for texts in commands(rows, recording).values() for text in texts for it in commands_in(text, "", shell=True)
    ]
    assert len(every) >= 5
    assert [(it.words, why) for it in every if (why := problem_of(it)) is not None] == []


def test_a_recording_offers_what_it_can_do(rows: list[SubscriptionFeatures]) -> None:
    """No cluster that the reader does not have, no port of the machine that recorded, and nothing that waits."""
    for texts in commands(rows, Recording(FOLDER, WINDOW.end, False)).values():
        for text in texts:
            assert "--cluster" not in text
            assert "--watch" not in text
            assert "kafka:9092" not in text
            assert not text.startswith("workbench ") or "--capture 'recordings/of monday'" in text


def test_changes_are_those_before_the_recorded_onset(rows: list[SubscriptionFeatures]) -> None:
    """Not those of the last 24 hours, whenever it is read."""
    before = f"{WINDOW.start - timedelta(hours=24):%Y-%m-%dT%H:%M:%SZ}"
    known = [text for texts in commands(rows, Recording(FOLDER, WINDOW.end, True)).values() for text in texts]
    asked = [text for text in known if text.startswith("workbench events list")]
    assert asked
    assert all(text.endswith(f"--since {before}") for text in asked)
