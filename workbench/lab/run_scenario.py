"""Run a scenario on the lab: steady traffic, the fault, triage through Prometheus or the recorder, and the comparison.

What the scenario did is written beside the capture, never into it; triage sees measurements only.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from workbench.collect.capture import Capture, new_info, write_capture
from workbench.collect.capture_in_memory import collect
from workbench.collect.recorder import Recorder
from workbench.errors import SetupError, WorkbenchError
from workbench.lab.lab import LAB_THRESHOLDS, LAB_WINDOWS, LAG_PROFILES, Lab, check_alive
from workbench.lab.producer_and_consumers import LabFleet
from workbench.lab.scenario_circumstances import Scenario
from workbench.lab.try_advice import AdviceResult, apply_advice
from workbench.triage.finding import Finding
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.triage_engine import Triage, triage
from workbench.triage.verdict_names import Answer
from workbench.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Source = Literal["prometheus", "scrape"]
Say = Callable[[str], None]

_SETTLE_SECONDS = 4.0  # after the producer's start, before the baseline begins
_SCRAPE_SECONDS = 1.5  # the last scrapes of the window have landed then
_RECORDER_ENDS_SECONDS = 120.0  # what it still has to read and to write, on a busy machine


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What was expected, and what triage found."""

    scenario: Scenario
    finding: Finding
    triage: Triage
    capture: Capture
    folder: Path
    seconds: float
    outcome: AdviceResult | None = None

    @property
    def match(self) -> bool:
        """Whether the verdict is right, and every part of the scope that the scenario names."""
        if self.finding.verdict in self.scenario.also:
            return True
        if self.finding.verdict is not self.scenario.expected:
            return False
        return self.scope_right and self.side_seen and self.warned

    @property
    def scope_right(self) -> bool:
        """Whether every part of the scope that the scenario names is right."""
        return all(
            (list(found) if isinstance(found := getattr(self.finding.scope, name), tuple) else found) == wanted
            for name, wanted in self.scenario.scope.items()
        )

    @property
    def warned(self) -> bool:
        """Whether the finding warns of a loss to come, if there is one."""
        return not self.scenario.loss_ahead or self.finding.headline.startswith("Retention deletes unread messages")

    @property
    def side_seen(self) -> bool:
        """Whether what is also true was seen."""
        answers = self.finding.features.answers
        return all(answers[node] is Answer.YES for node in self.scenario.side)

    def to_json(self) -> dict[str, Any]:
        """The document of `workbench lab run --json`."""
        found = self.finding.to_json()
        return {
            **_truth(self.scenario, self.folder),
            "found": {"verdict": found["verdict"], "scope": found["scope"], "headline": found["headline"]},
            "match": self.match,
            **({"advice": self.outcome.to_json()} if self.outcome is not None else {}),
            "seconds": round(self.seconds, 1),
        }


def _truth(scenario: Scenario, folder: Path) -> dict[str, Any]:
    return {
        "scenario": scenario.name,
        "seed": scenario.seed,
        "expected": {"verdict": str(scenario.expected), "scope": scenario.scope},
        **({"also": sorted(map(str, scenario.also))} if scenario.also else {}),
        "capture": str(folder / "capture"),
    }


def run_scenario(
    lab: Lab,
    scenario: Scenario,
    spark: Callable[[], SparkSession],
    *,
    folder: Path,
    source: Source = "prometheus",
    advice: bool = False,
    say: Say = lambda _text: None,
    wanted: Callable[[], None] = lambda: None,
) -> RunResult:
    """Run one scenario from start to verdict.

    Args:
        lab: the running lab; several scenarios may share it.
        scenario: of `scenarios.make_scenario`.
        spark: gives the session; called when it is needed.
        folder: for the fleet's files, the capture and the truth; must not exist.
        source: through Prometheus, or through the scrape recorder alone.
        advice: carry out the first action that the lab can carry out, and see whether it works (through Prometheus only).
        say: called with a line for each stage.
        wanted: called about every second; an exception from it stops the run in order.

    Raises:
        SetupError: if a process of the lab dies unexpectedly.
    """
    if source == "prometheus" and lab.prometheus_url is None:
        raise SetupError("This lab has no Prometheus.", hint="Scrape the metrics directly: --source scrape.")
    began = time.monotonic()
    say(
        f"{scenario.spec.instances} instances, {scenario.spec.partitions} partitions, {scenario.spec.traffic.rate_per_second:.0f}/s"
    )
    with LabFleet.start(lab, scenario.spec, folder / "fleet") as fleet:
        time.sleep(_SETTLE_SECONDS)
        recorder = _Recording(lab, fleet, folder / "recording") if source == "scrape" else None
        started = datetime.now(UTC)
        try:
            say(f"normal traffic for {scenario.steady_seconds:.0f} s")
            _wait(lab, fleet, scenario.steady_seconds, wanted)
            check_alive(lab, {**fleet.instances})
            say("the fault begins")
            scenario.fault(fleet)
            _wait(lab, fleet, scenario.incident_seconds, wanted)
            end = datetime.now(UTC)
            time.sleep(_SCRAPE_SECONDS)
            window = _window(started, end)
            say("looking")
            capture = _through_prometheus(lab, fleet, window) if recorder is None else recorder.finish(window)
            write_capture(folder / "capture", capture)
            (folder / "truth.json").write_text(json.dumps(_truth(scenario, folder), indent=1), encoding="utf-8")
            result = triage(capture, spark(), groups=[scenario.spec.group])
            finding = next(item for item in result.findings if item.topic == scenario.spec.topic)
            outcome = None
            if advice:
                say("carrying out the advised action")
                outcome = apply_advice(
                    fleet,
                    finding,
                    lambda seconds, anew: _look_again(lab, fleet, None if anew else started, seconds, spark()),
                )
                if outcome.kind and not outcome.worked:  # why not?
                    after = _window(started, datetime.now(UTC))
                    write_capture(folder / "capture_after_advice", _through_prometheus(lab, fleet, after))
        finally:
            if recorder is not None:
                recorder.stop()
    if outcome is not None:
        (folder / "lag_after_advice.json").write_text(json.dumps(outcome.lags), encoding="utf-8")
    done = RunResult(
        scenario=scenario,
        finding=finding,
        triage=result,
        capture=capture,
        folder=folder,
        seconds=time.monotonic() - began,
        outcome=outcome,
    )
    (folder / "truth.json").write_text(json.dumps(done.to_json(), indent=1), encoding="utf-8")
    return done


def _look_again(
    lab: Lab, fleet: LabFleet, started: datetime | None, seconds: float, session: SparkSession
) -> SubscriptionFeatures | None:
    """Features of the last seconds, with the whole run before them as the baseline if its start is given."""
    end = datetime.now(UTC)
    start = end - timedelta(seconds=seconds)
    window = Window(baseline_start=started or start, start=start, end=end)
    try:
        seen = triage(_through_prometheus(lab, fleet, window), session, groups=[fleet.spec.group])
    except WorkbenchError:
        return None
    return next((item.features for item in seen.findings if item.topic == fleet.spec.topic), None)


def _window(started: datetime, end: datetime) -> Window:
    start = end - LAB_WINDOWS.length
    return Window(baseline_start=min(started, start - timedelta(seconds=1)), start=start, end=end)


def _wait(lab: Lab, fleet: LabFleet, seconds: float, wanted: Callable[[], None]) -> None:
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        wanted()
        time.sleep(min(1.0, left))
        check_alive(lab, {"producer": fleet.producer} if fleet.producer is not None else {})


def _through_prometheus(lab: Lab, fleet: LabFleet, window: Window) -> Capture:
    named = lab.cluster(profiles=fleet.spec.profiles).model_copy(update={"members": _members(fleet)})
    return collect(named, window, thresholds=LAB_THRESHOLDS, groups=[fleet.spec.group])


def _members(fleet: LabFleet) -> dict[str, str]:
    """A client that has crashed, or was put out of its group, is listed nowhere: a pattern names the group of those named as pods."""
    return {f"{fleet.spec.group}-*": fleet.spec.group}


class _Recording:
    """The scrape recorder beside the scenario."""

    def __init__(self, lab: Lab, fleet: LabFleet, folder: Path) -> None:
        pages = [f"http://{address}/metrics" for address in fleet.pages()]
        by_page = dict.fromkeys(fleet.pages(), fleet.spec.group)  # whose page tells no client
        profiles = [it for it in fleet.spec.profiles if it not in LAG_PROFILES]
        self._group = fleet.spec.group
        self._recorder = Recorder(
            lab.cluster(metrics=pages, profiles=profiles).model_copy(
                update={"prometheus": None, "members": _members(fleet) | by_page}
            ),
            folder,
            interval_seconds=1.0,
            groups=[self._group],
            thresholds=LAB_THRESHOLDS,
        )
        self._stop = threading.Event()
        self._capture: Capture | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._capture = self._recorder.run(self._stop)
        except BaseException as error:
            self._failure = error

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(_RECORDER_ENDS_SECONDS)

    def finish(self, window: Window) -> Capture:
        """Close the recording and cut it to the window of the look."""
        self.stop()
        if self._capture is None:
            late = f"it has not ended within {_RECORDER_ENDS_SECONDS:g} s"
            raise SetupError(f"The recorder failed: {late if self._thread.is_alive() else self._failure}")
        recorded = self._capture
        info = new_info(
            cluster=recorded.info.cluster,
            bootstrap=recorded.info.bootstrap,
            source="watch",
            profiles=recorded.info.profiles,
            window=window,
            groups=[self._group],
            incomplete=recorded.info.incomplete,
            thresholds=LAB_THRESHOLDS,
        )
        return Capture(info=info, samples=recorded.samples, groups=recorded.groups)
