"""Action of the triage panel's button: collect, draw a first chart, start Spark, walk the tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workbench.api.load_measurements import measure
from workbench.api.measurement_requests import Measurements, Times
from workbench.api.run_progress import StepNote
from workbench.api.triages import dispatched, judge
from workbench.collect.capture import Capture
from workbench.errors import UsageError
from workbench.triage.triage_engine import Triage
from workbench.widgets.panel_work import PanelWork
from workbench.widgets.prefill import Inputs
from workbench.window import Window

STEPS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """Measurements and their findings."""

    capture: Capture
    result: Triage


class _Steps:
    """Progress adapter: the API's steps become steps of the panel's work."""

    def __init__(self, work: PanelWork) -> None:
        self._work = work

    @contextmanager
    def step(self, title: str) -> Iterator[StepNote]:
        """See `Progress`."""
        self._work.step(title)
        yield StepNote()

    def say(self, text: str) -> None:
        """See `Progress`: a panel has no line for it."""


def look(inputs: Inputs, work: PanelWork, *, first: Callable[[Capture, Window], None]) -> Looked:
    """Collect measurements and run triage.

    Args:
        first: called with the measurements before Spark is up.

    Raises:
        WorkbenchError: as collecting and triage do. CancelledError: if the work was cancelled.
    """
    if bool(inputs.cluster) == bool(inputs.capture):
        raise UsageError(
            "Choose either a cluster or a capture.",
            hint="A capture is a folder; clusters are defined in workbench.toml.",
        )
    request = Measurements(
        cluster=inputs.cluster or None,
        capture=Path(inputs.capture) if inputs.capture else None,
        groups=_one(inputs.group),
        topics=_one(inputs.topic),
        times=Times(since=inputs.since or None, until=inputs.until or None),
    )
    steps = _Steps(work)
    if (now := dispatched(request, progress=steps)) is not None:  # a Pulsar: there is no window to draw
        work.step("Drawing")
        return Looked(capture=now.capture, result=now.triage)
    found = measure(request, progress=steps)
    work.show(lambda: first(found.capture, found.window))
    judged = judge(found, request, progress=steps)
    work.step("Drawing")
    return Looked(capture=found.capture, result=judged.triage)


def _one(name: str) -> tuple[str, ...]:
    return (name,) if name else ()
