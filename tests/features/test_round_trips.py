"""Round trips of a group whose members come and go: what is usual is known of those that were there before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evaluation.stories import TIMES, lagging
from tests.triage.judging import rows_of

pytestmark = pytest.mark.jvm
JOINED = -90.0  # when it fell behind
LATER = np.asarray(TIMES) > JOINED


def group(spark: Any, *members: tuple[str, float | None, float | None]) -> Any:
    """Members with their round trips before and in the window, in seconds; None: it was not there."""
    story = lagging()
    for name, before, now in members:
        values = np.where(LATER, np.nan if now is None else now, np.nan if before is None else before)
        story.add("broker_rtt", values.tolist(), keep=~np.isnan(values), group=story.group, member=name)
    [row] = rows_of(spark, story.samples()).values()
    return row


@pytest.mark.parametrize(
    ("members", "baseline"),
    [
        ((("old", 0.04, 4.0), ("new", None, 4.0)), 0.04),  # added while it is slow
        ((("old", 0.04, None), ("new", None, 4.0)), 0.04),  # replaced by a deploy
        ((("old", 0.04, 0.05), ("far", 0.3, 0.3), ("new", None, 4.0)), 0.3),  # the slowest of the others counts
        ((("old", 0.04, 4.0), ("far", 0.3, 0.3)), 0.04),  # its own, if it has one
        ((("new", None, 4.0),), None),
    ],
)
def test_what_is_usual_is_the_groups_where_a_member_is_new(
    spark: Any, members: tuple[tuple[str, float | None, float | None], ...], baseline: float | None
) -> None:
    """The slowest round trips, and what they are compared with."""
    row = group(spark, *members)
    assert row.rtt_seconds == pytest.approx(4.0, rel=0.1)
    assert row.rtt_baseline_seconds == (None if baseline is None else pytest.approx(baseline, rel=0.1))
