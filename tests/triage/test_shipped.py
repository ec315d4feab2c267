"""The captures that ship with the project: recorded on the lab, small, and still understood."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from workbench.collect.capture import read_capture
from workbench.triage.triage_engine import triage

ROOT = Path(__file__).parent.parent.parent
CAPTURES = ROOT / "notebooks" / "captures"
TRUTH: dict[str, Any] = json.loads((ROOT / "tests" / "truth.json").read_text())


def test_every_capture_has_its_truth_elsewhere_and_is_small() -> None:
    """At most 300 KB each."""
    folders = sorted(path.name for path in CAPTURES.iterdir())
    assert folders == sorted(
        [*TRUTH, "neighbours-1"]
    )  # of several groups: the test of the notebook `impact` has its truth
    for name in folders:
        assert sum(path.stat().st_size for path in (CAPTURES / name).iterdir()) <= 300_000


@pytest.mark.jvm
@pytest.mark.parametrize("name", TRUTH)
def test_a_shipped_capture_is_understood(name: str, spark: Any) -> None:
    """Verdict and scope."""
    truth = TRUTH[name]
    [finding] = triage(read_capture(CAPTURES / name), spark).findings
    assert str(finding.verdict) == truth["verdict"]
    assert finding.group == truth["group"]
    for attribute, wanted in truth["scope"].items():
        assert list(getattr(finding.scope, attribute)) == wanted
