"""Writes a health report: the page, and its result for machines."""

from __future__ import annotations

import json
from pathlib import Path

from workbench.report.health import Health
from workbench.report.html import render_html
from workbench.report.runs.record import REPORT, RESULT, write_durably


def publish(health: Health, out: str) -> None:
    """Write report.html and result.json into a folder; without one, nothing.

    Raises:
        OutputError: if they cannot be written.
    """
    if not out:
        return

    folder = Path(out)
    write_durably(folder / REPORT, render_html(health.triage, health.capture, health=health))
    # Last, so that every result has a report.
    write_durably(folder / RESULT, json.dumps(health.to_json(), allow_nan=False, indent=1, default=str) + "\n")
