"""Rules of what is lost while a panel works: it is said, with what to press, and nothing stays under way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.widgets.test_replay_panel import FakeGateway, ReplayPanel, applied, gateway, panel
from workbench.errors import SourceUnreachableError
from workbench.lab.process import free_port
from workbench.widgets.controls import Panel
from workbench.widgets.prefill import Inputs
from workbench.widgets.triage import TriagePanel

__all__ = ["gateway", "panel"]  # fixtures

INCIDENT = Path(__file__).parents[2] / "notebooks" / "captures" / "incident-1"
KILLED = f"""
import os, signal
from pyspark import SparkContext
from workbench.widgets.prefill import Inputs
from workbench.widgets.triage import TriagePanel

panel = TriagePanel(Inputs(capture={str(INCIDENT)!r}))
panel.find.click(); panel.wait()
assert panel.status.value == "Done.", panel.trouble.value
process = SparkContext._gateway.proc
os.kill(process.pid, signal.SIGKILL); process.wait()
panel.find.click(); panel.wait(60)
print(panel.status.value, panel.trouble.value, panel.find.disabled)
"""


def at_rest(it: Panel, button: Any) -> None:
    """Its button can be pressed again, Cancel cannot, and no step is said to go on."""
    assert not button.disabled
    assert it.cancel.disabled
    assert "…" not in it.status.value
    assert it.bar.value == 0


def test_a_closed_prometheus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named, with the button to press when it is there again."""
    port = free_port()
    (tmp_path / "settings.toml").write_text(f'[clusters.c]\nprometheus = "http://127.0.0.1:{port}"\n')
    monkeypatch.setenv("WORKBENCH_CONFIG", str(tmp_path / "settings.toml"))
    made = TriagePanel(Inputs(cluster="c", group="g"))
    made.find.click()
    made.wait()
    assert f"127.0.0.1:{port}" in made.trouble.value
    assert made.status.value == "Failed. When it answers again, press Find the cause."
    at_rest(made, made.find)


def test_a_kafka_that_is_lost_while_a_replay_is_followed(
    panel: ReplayPanel, gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was seen stays, and Follow can be pressed again."""
    applied(panel)

    def lost(*_given: object, **_named: object) -> None:
        raise SourceUnreachableError("Kafka at b:9092 does not answer.")

    monkeypatch.setattr(gateway, "commits", lost)
    panel.follow.click()
    panel.wait(30)
    assert "does not answer" in panel.trouble.value
    assert panel.status.value == "Failed. When it answers again, press Follow."
    at_rest(panel, panel.follow)
    monkeypatch.undo()


@pytest.mark.jvm
def test_a_spark_that_was_killed() -> None:
    """Not called a bug: it does not come back in this kernel, so the kernel is to be restarted."""
    shown = subprocess.run(
        [sys.executable, "-c", KILLED], capture_output=True, text=True, timeout=240, check=True
    ).stdout
    assert "Spark has ended" in shown
    assert "Restart Kernel and Run All Cells" in shown
    assert "bug" not in shown
    assert shown.rstrip().endswith("False")
