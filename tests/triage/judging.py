"""Judge many stories in one Spark job: building the plan costs a second, whatever the number of subscriptions in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from evaluation.stories import THRESHOLDS, WINDOW, Story
from workbench.samples import concat
from workbench.settings_of_groups import NOTHING_EXPECTED, Expectations
from workbench.thresholds import Thresholds
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.triage_engine import answered
from workbench.window import Window


def rows_of(
    spark: Any,
    samples: pa.Table | Iterable[Story],
    *,
    thresholds: Thresholds = THRESHOLDS,
    window: Window = WINDOW,
    expectations: Expectations = NOTHING_EXPECTED,
) -> dict[str, SubscriptionFeatures]:
    """Answered features by group."""
    table = samples if isinstance(samples, pa.Table) else concat(story.samples() for story in samples)
    found = answered(spark, table, window, thresholds, expectations)
    return {row.group: row for row in found}
