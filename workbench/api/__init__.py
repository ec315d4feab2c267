"""Workbench for programs and notebooks: what the commands do, as functions with typed results.

    from workbench import api
    look = api.triage(cluster="prod", groups=["payments"])
    print(look.findings[0].headline)
    lag = api.samples("kafka_consumergroup_lag", cluster="prod", since="1d ago")
    lag.groupBy("consumergroup").max("value").show()

In a notebook a result shows itself; `to_json()` is what the command prints with `--json`. `samples` and `features` return Spark frames.
Functions raise the errors of `workbench.errors`, which say what is wrong and what to do.
"""

from __future__ import annotations

from workbench.api.captures import CaptureResult, capture, capture_statistics
from workbench.api.look import TriageResult, triage
from workbench.api.measure import features, samples
from workbench.api.progress import Progress
from workbench.api.replays import PlannedReplay, plan_replay
from workbench.api.reports import health
from workbench.api.snapshots import SnapshotResult, snapshot

__all__ = [
    "CaptureResult",
    "PlannedReplay",
    "Progress",
    "SnapshotResult",
    "TriageResult",
    "capture",
    "capture_statistics",
    "features",
    "health",
    "plan_replay",
    "samples",
    "snapshot",
    "triage",
]
