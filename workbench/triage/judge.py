"""Judgement of one subscription: measured features → facts → answers → verdict, in plain Python."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime

from workbench.expectations import NOTHING_EXPECTED, Expectations
from workbench.features.measured import MeasuredSubscription
from workbench.schedule import schedule_of
from workbench.thresholds import Thresholds
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import Verdict
from workbench.triage.walk import decided, proven_by, way_of

_MEASURED = tuple(field.name for field in fields(MeasuredSubscription))


def judged(
    measured: MeasuredSubscription,
    thresholds: Thresholds,
    expectations: Expectations = NOTHING_EXPECTED,
    *,
    at: datetime | None = None,
) -> SubscriptionFeatures:
    """Answer every question about a subscription.

    Args:
        measured: its features.
        thresholds: of the tree; objective and commit interval of its group come from `expectations`.
        at: the window's end; without it, no group is a batch.
    """
    limits, batch = expectations.limits(thresholds, measured.group), expectations.of(measured.group).settings.batch
    row = SubscriptionFeatures(
        **{name: getattr(measured, name) for name in _MEASURED},
        limits=limits,
        schedule=schedule_of(batch) if batch is not None else None,
        at=at,
        answers={},
        reasons={},
        verdict=Verdict.CANNOT_TELL,
    )
    rules = decided(row)
    answers = {name: rule.answer for name, rule in rules.items()}
    reasons = {name: rule.id for name, rule in rules.items()}
    way = way_of(answers, proven_by(reasons), row)
    path, passed = tuple(it.id for it in way.path), tuple(it.id for it in way.passed)
    return row.with_answers(answers=answers, reasons=reasons, verdict=way.verdict, path=path, passed=passed)
