"""The verdict does not depend on where in the window an incident began, nor on how long the window is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from evaluation.stories import END
from tests.triage.judging import rows_of
from tests.triage.test_incidents import TRUTH, shifted
from workbench.lab.lab import LAB_THRESHOLDS
from workbench.window import Window

pytestmark = pytest.mark.jvm
RECORDED = 48  # seconds of each incident


@pytest.mark.parametrize(
    "seconds", [12, 30, 46, *(pytest.param(it, marks=pytest.mark.slow) for it in (18, 24, 36, 42))]
)
def test_the_recorded_incidents_in_windows_of_any_length(spark: Any, seconds: int) -> None:
    """Incidents that began 15 to 35 s before the end: in short windows they began before, in long ones inside."""
    window = Window.ending(END, length=timedelta(seconds=seconds), baseline=timedelta(seconds=RECORDED - seconds))
    rows = rows_of(spark, pa.concat_tables([shifted(name) for name in TRUTH]), thresholds=LAB_THRESHOLDS, window=window)
    wrong = {
        truth["scenario"]: (str(rows[truth["group"]].verdict), truth["verdict"])
        for truth in TRUTH.values()
        if str(rows[truth["group"]].verdict) != truth["verdict"]
    }
    assert not wrong
