"""What the triage panel does when its button is pressed: collect, paint a first chart, start Spark, walk the tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from workbench.collect.capture import Capture, read_capture
from workbench.errors import UsageError
from workbench.settings import load_settings
from workbench.triage.engine import Triage
from workbench.widgets.prefill import Inputs
from workbench.widgets.work import Work
from workbench.window import Window, parse_instant

STEPS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What came of it."""

    capture: Capture
    result: Triage


def look(inputs: Inputs, work: Work, *, first: Callable[[Capture, Window], None]) -> Looked:
    """Collect and judge.

    Args:
        first: called with the measurements before Spark is up.

    Raises:
        WorkbenchError: as collecting and triage do. CancelledError: if the work was cancelled.
    """
    if bool(inputs.cluster) == bool(inputs.capture):
        raise UsageError(
            "Choose either a cluster or a capture.", hint="A capture is a folder; a cluster stands in workbench.toml."
        )
    from workbench.spark.session import session, start_in_background

    start_in_background()
    work.step("Reading the capture" if inputs.capture else f"Asking the sources of {inputs.cluster}")
    capture, window = _recorded(inputs) if inputs.capture else _collected(inputs)
    work.step("Starting Spark")
    work.show(lambda: first(capture, window))
    spark = session()
    work.step("Walking the tree")
    from workbench.triage.engine import triage

    result = triage(capture, spark, window=window, groups=_one(inputs.group), topics=_one(inputs.topic))
    work.step("Drawing")
    return Looked(capture=capture, result=result)


def _one(name: str) -> list[str] | None:
    return [name] if name else None


def _recorded(inputs: Inputs) -> tuple[Capture, Window]:
    capture = read_capture(Path(inputs.capture).expanduser())
    window = capture.window
    if not inputs.since and not inputs.until:
        return capture, window
    # "15m ago" means before the recording's end, not before now.
    end = parse_instant(inputs.until, now=window.end) if inputs.until else window.end
    start = parse_instant(inputs.since, now=window.end) if inputs.since else end - (window.end - window.start)
    return capture, Window(baseline_start=min(window.baseline_start, start), start=start, end=end)


def _collected(inputs: Inputs) -> tuple[Capture, Window]:
    from workbench.collect import live

    settings = load_settings()
    cluster = settings.cluster(inputs.cluster)
    lengths = settings.windows_of(cluster)
    now = datetime.now(UTC)
    end = parse_instant(inputs.until, now=now) if inputs.until else now
    start = parse_instant(inputs.since, now=now) if inputs.since else end - lengths.length
    window = Window(baseline_start=min(start, start - lengths.baseline), start=start, end=end)
    thresholds = settings.thresholds_of(cluster)
    capture = live.collect(cluster, window, thresholds=thresholds, groups=_one(inputs.group), topics=_one(inputs.topic))
    return capture, window
