"""Some hours of a healthy fleet: nobody is called, and whoever stops is seen. `make fleet-day` runs a whole day of 500 groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evaluation.stories.day import day, fleet, landed

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

HOURS = 3.0


def test_hours_of_a_fleet(tmp_path: Path, spark: Any) -> None:
    """100 groups with deploys, hiccups, bursts and a restart of Prometheus; two more stop for half an hour."""
    members = fleet(11, 100, HOURS)
    found = day(landed(tmp_path, members, seed=11, hours=HOURS), spark, members, hours=HOURS)
    assert found.judged == 1300
    assert found.alarms == []
    assert (found.seen, found.stopped) == (2, 2)
    assert len(found.unsure) <= 10  # while Prometheus restarts
