"""The types that a user of the API gets: `make lint` has mypy check the functions below (they are not run)."""

from __future__ import annotations

from typing import Any, assert_type

from pyspark.sql import DataFrame

from workbench import api
from workbench.errors import ExitCode
from workbench.redrive.apply import RedriveReceipt
from workbench.redrive.verify import RedriveCheck
from workbench.triage.finding import Finding


def results() -> None:
    """What functions return."""
    assert_type(api.triage(cluster="c"), api.TriageResult)
    assert_type(api.triage(cluster="c").findings, tuple[Finding, ...])
    assert_type(api.triage(cluster="c").exit_code, ExitCode)
    assert_type(api.triage(cluster="c").to_json(), dict[str, Any])
    assert_type(api.samples("up", cluster="c"), DataFrame)
    assert_type(api.features(capture="folder"), DataFrame)
    assert_type(api.snapshot(cluster="c"), api.SnapshotResult)
    assert_type(api.capture("folder", cluster="c"), api.CaptureResult)
    assert_type(
        api.plan_replay(cluster="c", from_group="a", new_group="b", topics=["t"], since="1h ago"), api.PlannedReplay
    )
    assert_type(api.dead_letters(cluster="c"), api.LetterTopics)
    assert_type(api.plan_redrive(cluster="c", topic="t"), api.PlannedRedrive)
    assert_type(api.apply_redrive("plan.json"), RedriveReceipt)
    assert_type(api.verify_redrive("plan.json"), RedriveCheck)


def mistakes() -> None:
    """What must not pass: an ignore without an error below it is an error itself."""
    api.triage("c")  # type: ignore[call-arg]
    api.triage(cluster=1)  # type: ignore[arg-type]
    api.snapshot()  # type: ignore[call-arg]
    api.apply_redrive("plan.json", confirm=True)  # type: ignore[arg-type]
    api.samples(3)  # type: ignore[arg-type]
