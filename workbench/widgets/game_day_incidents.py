"""Incidents of a game day: recorded ones, or live ones from a lab on this computer; and the score of a guess."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.collect.capture import Capture, read_capture
from workbench.errors import UsageError
from workbench.lab.scenarios import SCENARIOS, make_scenario
from workbench.shipped_files import shipped
from workbench.triage.finding import Finding
from workbench.triage.triage_engine import Triage
from workbench.triage.verdict_names import AnyVerdict, Verdict
from workbench.widgets.panel_work import PanelWork

if TYPE_CHECKING:
    from workbench.lab.lab import Lab

RECORDED_STEPS, LIVE_STEPS = 3, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class GameTruth:
    """The injected fault; shown after the guess.

    Attributes:
        what: the scenario in words.
        where: partitions, processors, members … with the fault; empty if it affects the whole group.
    """

    scenario: str
    what: str
    verdict: Verdict
    where: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """An incident with its truth, measurements and finding."""

    truth: GameTruth
    capture: Capture
    triage: Triage
    finding: Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class GameRound:
    """One incident that was played, and its score.

    Attributes:
        where_right: None if the fault has no place.
        seconds: from the first chart to the guess.
        hints: answers of the tree that were shown before the guess.
    """

    truth: GameTruth
    guess: Verdict
    where: frozenset[str]
    tree: AnyVerdict
    seconds: float
    hints: int

    @property
    def right(self) -> bool:
        """Whether the guessed verdict is right."""
        return self.guess is self.truth.verdict

    @property
    def where_right(self) -> bool | None:
        """Whether the guessed place is right."""
        return self.where == self.truth.where if self.truth.where else None

    @property
    def tree_right(self) -> bool:
        """Whether the tree's verdict is right."""
        return self.tree is self.truth.verdict


def places(words: str) -> frozenset[str]:
    """Parse the typed place: "partition 3, 5" → 3 and 5."""
    nouns = {"partition", "partitions", "processor", "processors", "member", "members", "broker", "brokers", "and"}
    return frozenset(word for word in words.replace(",", " ").split() if word.lower() not in nouns)


def truth_of(scenario: str, verdict: str, scope: Mapping[str, Any]) -> GameTruth:
    """Build the truth from the notes of the scenario's run."""
    where: set[str] = set()
    for value in scope.values():
        where |= {str(item) for item in value} if isinstance(value, list | tuple) else {str(value)}
    return GameTruth(scenario=scenario, what=SCENARIOS[scenario][1], verdict=Verdict(verdict), where=frozenset(where))


def incidents() -> Path:
    """Folder of the recorded incidents; its `truth.json` is never read by triage.

    Raises:
        UsageError: if this installation has none.
    """
    folder = shipped("notebooks") / "incidents"
    if not (folder / "truth.json").is_file():
        raise UsageError("This installation has no recorded incidents.", hint="Play a live incident.")
    return folder


def draw(chance: random.Random, played: Sequence[str]) -> str:
    """Draw an incident that was not played yet, or any if all were.

    Raises:
        UsageError: if there are none.
    """
    names: list[str] = sorted(json.loads((incidents() / "truth.json").read_text(encoding="utf-8")))
    return chance.choice([name for name in names if name not in played] or names)


def recorded(name: str, work: PanelWork) -> Incident:
    """Load a recorded incident and run triage on it, without showing the verdict.

    Raises:
        WorkbenchError: as reading and triage do.
    """
    from workbench.spark.session import session, start_in_background
    from workbench.triage.triage_engine import triage

    start_in_background()
    work.step("Reading the recording")
    folder = incidents()
    noted = json.loads((folder / "truth.json").read_text(encoding="utf-8"))[name]
    capture = read_capture(folder / name)
    work.step("Starting Spark")
    spark = session()
    work.step("Running triage")
    result = triage(capture, spark, groups=[noted["group"]])
    truth = truth_of(noted["scenario"], noted["verdict"], noted["scope"])
    return Incident(truth=truth, capture=capture, triage=result, finding=result.findings[0])


def live(chance: random.Random, work: PanelWork) -> Incident:
    """Inject a fault into a real Kafka on this computer: the running lab, or one that is started and stopped.

    Raises:
        WorkbenchError: as the lab does.
        CancelledError: if the work was cancelled; everything is stopped in order then.
    """
    from workbench.lab.lab import lab_dir
    from workbench.lab.run_scenario import run_scenario
    from workbench.spark.session import session, start_in_background

    run_id = uuid.uuid4().hex[:8]
    name, seed = chance.choice(sorted(SCENARIOS)), chance.randrange(1_000_000)
    start_in_background()
    with ExitStack() as stack:
        work.step("Starting Kafka")
        lab = stack.enter_context(_lab(work.step))
        result = run_scenario(
            lab,
            make_scenario(name, seed, bootstrap=lab.bootstrap, run_id=run_id),
            session,
            folder=lab_dir() / "runs" / f"game-{run_id}",  # the name must not reveal the scenario
            source="prometheus" if lab.prometheus_url else "scrape",
            say=lambda words: work.step(words[:1].upper() + words[1:]),
            wanted=lambda: work.pause(0),
        )
        work.step("Stopping the lab")
    noted = result.to_json()["expected"]
    return Incident(
        truth=truth_of(name, noted["verdict"], noted["scope"]),
        capture=result.capture,
        triage=result.triage,
        finding=result.finding,
    )


def _lab(say: Callable[[str], None]) -> Lab:
    from workbench.lab import lab_keeper
    from workbench.lab.lab import lab_dir, start_lab

    state = lab_keeper.running()
    if state is not None:
        return lab_keeper.attach(state)
    return start_lab(lab_dir() / f"own-{uuid.uuid4().hex[:8]}", temporary=True, say=say)
