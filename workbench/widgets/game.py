"""The incidents of a game day: drawn by chance from those that ship, or made on a lab of this computer; and how a guess is judged."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.assets import shipped
from workbench.collect.capture import Capture, read_capture
from workbench.errors import UsageError
from workbench.lab.scenarios import SCENARIOS, make_scenario
from workbench.triage.engine import Triage
from workbench.triage.finding import Finding
from workbench.triage.verdict import Verdict
from workbench.widgets.work import Work

if TYPE_CHECKING:
    from workbench.lab.lab import Lab

RECORDED_STEPS, LIVE_STEPS = 3, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What was really done; shown after the guess.

    Attributes:
        what: the scenario in words.
        where: parts, processors, members … that it was done to; empty if it was done to the whole.
    """

    scenario: str
    what: str
    verdict: Verdict
    where: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """An incident with everything that is known of it."""

    truth: Truth
    capture: Capture
    triage: Triage
    finding: Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One incident that was played.

    Attributes:
        where_right: None if there was no place to name.
        seconds: from the first chart to the guess.
        hints: answers of the tree that were looked at before.
    """

    truth: Truth
    guess: Verdict
    where: frozenset[str]
    tree: Verdict
    seconds: float
    hints: int

    @property
    def right(self) -> bool:
        """Whether the guess is the truth."""
        return self.guess is self.truth.verdict

    @property
    def where_right(self) -> bool | None:
        """Whether the place is the one, too."""
        return self.where == self.truth.where if self.truth.where else None

    @property
    def tree_right(self) -> bool:
        """Whether the tree's verdict is the truth."""
        return self.tree is self.truth.verdict


def places(words: str) -> frozenset[str]:
    """What was typed as the place: "partition 3, 5" → 3 and 5."""
    nouns = {"partition", "partitions", "processor", "processors", "member", "members", "broker", "brokers", "and"}
    return frozenset(word for word in words.replace(",", " ").split() if word.lower() not in nouns)


def truth_of(scenario: str, verdict: str, scope: Mapping[str, Any]) -> Truth:
    """From what was noted when the scenario was run."""
    where: set[str] = set()
    for value in scope.values():
        where |= {str(item) for item in value} if isinstance(value, list | tuple) else {str(value)}
    return Truth(scenario=scenario, what=SCENARIOS[scenario][1], verdict=Verdict(verdict), where=frozenset(where))


def incidents() -> Path:
    """Where the recorded ones lie, with `truth.json` beside them, which triage never reads.

    Raises:
        UsageError: if this installation has none.
    """
    folder = shipped("notebooks") / "incidents"
    if not (folder / "truth.json").is_file():
        raise UsageError("This installation has no recorded incidents.", hint="Play a live one.")
    return folder


def draw(chance: random.Random, played: Sequence[str]) -> str:
    """One that was not played yet; when all were, any.

    Raises:
        UsageError: if there are none.
    """
    names: list[str] = sorted(json.loads((incidents() / "truth.json").read_text(encoding="utf-8")))
    return chance.choice([name for name in names if name not in played] or names)


def recorded(name: str, work: Work) -> Incident:
    """A recorded incident, judged; nothing of the verdict is told.

    Raises:
        WorkbenchError: as reading and triage do.
    """
    from workbench.spark.session import session, start_in_background
    from workbench.triage.engine import triage

    start_in_background()
    work.step("Reading the recording")
    folder = incidents()
    noted = json.loads((folder / "truth.json").read_text(encoding="utf-8"))[name]
    capture = read_capture(folder / name)
    work.step("Starting Spark")
    spark = session()
    work.step("Looking")
    result = triage(capture, spark, groups=[noted["group"]])
    truth = truth_of(noted["scenario"], noted["verdict"], noted["scope"])
    return Incident(truth=truth, capture=capture, triage=result, finding=result.findings[0])


def live(chance: random.Random, work: Work) -> Incident:
    """A fault on a real Kafka of this computer: the lab that is up, or one that is started and ended.

    Raises:
        WorkbenchError: as the lab does.
        CancelledError: if it is not wanted any more; everything is ended in order then.
    """
    from workbench.lab.lab import lab_dir
    from workbench.lab.run import run_scenario
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
            folder=lab_dir() / "runs" / f"game-{run_id}",  # its name tells nothing
            source="prometheus" if lab.prometheus_url else "scrape",
            say=lambda words: work.step(words[:1].upper() + words[1:]),
            wanted=lambda: work.pause(0),
        )
        work.step("Ending what was started")
    noted = result.to_json()["expected"]
    return Incident(
        truth=truth_of(name, noted["verdict"], noted["scope"]),
        capture=result.capture,
        triage=result.triage,
        finding=result.finding,
    )


def _lab(say: Callable[[str], None]) -> Lab:
    from workbench.lab import keeper
    from workbench.lab.lab import lab_dir, start_lab

    state = keeper.running()
    if state is not None:
        return keeper.attach(state)
    return start_lab(lab_dir() / f"own-{uuid.uuid4().hex[:8]}", temporary=True, say=say)
