"""A Prometheus that is away for a moment is no group whose members have gone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from evaluation.stories import THRESHOLDS, WINDOW, Story
from tests.triage.judging import rows_of
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import State, Verdict

pytestmark = pytest.mark.jvm

# Longer than a member may be silent, and shorter than the lag may be unknown.
AWAY = timedelta(seconds=1.25 * THRESHOLDS.stale_after_seconds)


def until(samples: pa.Table, *, of_group: str, members_only: bool) -> pa.Table:
    """What was measured before the pause."""
    late = pc.greater(samples["ts"], pa.scalar(WINDOW.end - AWAY, samples["ts"].type))
    mine = pc.fill_null(pc.equal(samples["group"], of_group), True)
    chosen = pc.and_(late, mine)
    if members_only:
        chosen = pc.and_(chosen, pc.is_valid(samples["member"]))
    return samples.filter(pc.invert(chosen))


def idle(group: str) -> pa.Table:
    """A group without arrivals; of each partition a transaction's marker is left."""
    story = Story(group=group, topic=group, partitions=2, members=2)
    story.all_partitions(rate=0.0, lag=1.0, time_lag=None).people()
    return story.samples()


def test_the_end_of_all_measurements_is_no_end_of_the_members(spark: Any) -> None:
    """Everything falls silent at once: nobody is called. Members that fall silent alone, with the same lag, are gone."""
    away = until(idle("away"), of_group="away", members_only=False)
    [quiet] = rows_of(spark, away, thresholds=THRESHOLDS).values()
    assert leaf_of(quiet.verdict).state is not State.LAGGING, (quiet.verdict, quiet.answers)
    [gone] = rows_of(spark, until(idle("gone"), of_group="gone", members_only=True), thresholds=THRESHOLDS).values()
    assert gone.verdict is Verdict.CONSUMER_STOPPED, (gone.verdict, gone.answers)
