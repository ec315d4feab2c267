"""A finding without Spark, for what comes after it."""

from __future__ import annotations

from typing import Any

from tests.triage.made import subscription
from workbench.triage.finding import Finding, Scope, TimeLag
from workbench.triage.verdict_names import State, Verdict


def finding(**values: Any) -> Finding:
    """One slow processor, with any field changed."""
    usual: dict[str, Any] = {
        "cluster": "prod",
        "group": "payments",
        "topic": "orders",
        "verdict": Verdict.SLOW_PROCESSOR,
        "state": State.LAGGING,
        "headline": "One processor is slow.",
        "scope": Scope(),
        "time_lag": TimeLag(seconds=20.0, method="exact_record"),
        "lag_messages": 3615,
        "arrival_per_second": 200.0,
        "lag_slope": 131.0,
        "eta_drain_seconds": None,
        "eta_loss_seconds": None,
        "path": (),
        "features": subscription(),
    }
    return Finding(**(usual | values))
