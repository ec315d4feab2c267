"""Rules of `workbench triage --alert`: from Alertmanager's message to the runbook with this incident's values filled in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from workbench.cli import root
from workbench.errors import ExitCode

ROOT = Path(__file__).parent.parent.parent
INCIDENT = ROOT / "notebooks" / "captures" / "incident-1"


def payload(path: Path, **labels: str) -> Path:
    """A message as Alertmanager posts it."""
    alerts = [
        {"status": "resolved", "labels": {"alertname": "Other"}, "startsAt": "0001-01-01T00:00:00Z"},
        {
            "status": "firing",
            "labels": {"alertname": "ConsumerLagGrowing", **labels},
            "startsAt": "2026-11-21T03:00:00Z",
        },
    ]
    path.write_text(json.dumps({"version": "4", "alerts": alerts, "truncatedAlerts": 0, "unknown": 1}))
    return path


@pytest.mark.jvm
def test_an_alert_is_answered_with_its_runbook(spark: Any, tmp_path: Path) -> None:
    """On a recorded incident: the verdict, then the runbook of the verdict, with the group in its commands; exit code 3."""
    alert = payload(tmp_path / "alert.json", cluster="prod", consumergroup="payments", topic="orders")
    ran = CliRunner().invoke(root, ["triage", "--alert", str(alert), "--capture", str(INCIDENT)], standalone_mode=False)
    assert ran.exception is None
    assert ran.return_value == ExitCode.FINDINGS
    assert ran.output.index("slow_processor") < ran.output.index("# SlowProcessor")
    for heading in ("## Meaning", "## Diagnosis", "## Mitigation", "## Verify", "## Rollback", "## For this finding"):
        assert heading in ran.output
    assert "refund" in ran.output[ran.output.index("## For this finding") :]
    assert "--group payments" in ran.output
    assert '"$GROUP"' not in ran.output[ran.output.index("# SlowProcessor") :]


@pytest.mark.jvm
def test_an_alert_about_somebody_else_is_no_verdict(spark: Any, tmp_path: Path) -> None:
    """A group that the recording does not know: told so, and never "healthy"."""
    alert = payload(tmp_path / "alert.json", cluster="prod", group="somebody-else")
    ran = CliRunner().invoke(root, ["triage", "--alert", str(alert), "--capture", str(INCIDENT)], standalone_mode=False)
    assert getattr(ran.exception, "exit_code", None) == ExitCode.USAGE
    assert "somebody-else" in str(ran.exception)
