"""Python API for programs and notebooks: the commands as functions with typed results.

    from workbench import api
    look = api.triage(cluster="prod", groups=["payments"])
    print(look.findings[0].headline)
    lag = api.samples("kafka_consumergroup_lag", cluster="prod", since="1d ago")
    lag.groupBy("consumergroup").max("value").show()

A notebook displays a result as HTML; `to_json()` returns what the command prints with `--json`. `samples` and `features` return Spark
frames.
Functions raise the errors of `workbench.errors`, each with a message and a hint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.api.audit_of_period import audit_state
    from workbench.api.audits import AuditLedger, audit
    from workbench.api.captures import CaptureResult, capture, capture_statistics
    from workbench.api.checkpoint_restarts import RestartsResult, job_restarts
    from workbench.api.compare_and_trace_records import compare, trace
    from workbench.api.gateway_state import UpstreamResult, upstream
    from workbench.api.groups_now import SnapshotResult, snapshot
    from workbench.api.letter_redrives import (
        LetterTopics,
        PlannedRedrive,
        apply_redrive,
        dead_letters,
        plan_redrive,
        verify_redrive,
    )
    from workbench.api.load_measurements import features, samples
    from workbench.api.partitions_to_avoid import exclude_partitions
    from workbench.api.replays import (
        PlannedReplay,
        apply_replay,
        cut_over_replay,
        follow_replay,
        plan_replay,
        retire_replay,
        roll_back_replay,
        verify_replay,
    )
    from workbench.api.reports import health
    from workbench.api.run_progress import Progress
    from workbench.api.triages import TriageResult, triage
    from workbench.api.who_slows_whom import ImpactResult, impact

# Where each name is, imported on first use: a replay needs neither the audit's tables nor the reports. No module has such a name.
_ROOMS = {
    "compare_and_trace_records": ("compare", "trace"),
    "audit_of_period": ("audit_state",),
    "audits": ("AuditLedger", "audit"),
    "gateway_state": ("UpstreamResult", "upstream"),
    "captures": ("CaptureResult", "capture", "capture_statistics"),
    "partitions_to_avoid": ("exclude_partitions",),
    "who_slows_whom": ("ImpactResult", "impact"),
    "letter_redrives": (
        "LetterTopics",
        "PlannedRedrive",
        "apply_redrive",
        "dead_letters",
        "plan_redrive",
        "verify_redrive",
    ),
    "triages": ("TriageResult", "triage"),
    "checkpoint_restarts": ("RestartsResult", "job_restarts"),
    "load_measurements": ("features", "samples"),
    "replays": (
        "PlannedReplay",
        "apply_replay",
        "cut_over_replay",
        "follow_replay",
        "plan_replay",
        "retire_replay",
        "roll_back_replay",
        "verify_replay",
    ),
    "reports": ("health",),
    "run_progress": ("Progress",),
    "groups_now": ("SnapshotResult", "snapshot"),
}

__all__ = [
    "AuditLedger",
    "CaptureResult",
    "ImpactResult",
    "LetterTopics",
    "PlannedRedrive",
    "PlannedReplay",
    "Progress",
    "RestartsResult",
    "SnapshotResult",
    "TriageResult",
    "UpstreamResult",
    "apply_redrive",
    "apply_replay",
    "audit",
    "audit_state",
    "capture",
    "capture_statistics",
    "compare",
    "cut_over_replay",
    "dead_letters",
    "exclude_partitions",
    "features",
    "follow_replay",
    "health",
    "impact",
    "job_restarts",
    "plan_redrive",
    "plan_replay",
    "retire_replay",
    "roll_back_replay",
    "samples",
    "snapshot",
    "trace",
    "triage",
    "upstream",
    "verify_redrive",
    "verify_replay",
]


def __getattr__(name: str) -> Any:
    """Import a function's or result's module on first use."""
    room = next((room for room, names in _ROOMS.items() if name in names), None)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = globals()[name] = getattr(import_module(f"{__name__}.{room}"), name)
    return found


def __dir__() -> list[str]:
    """All of them, for who completes a name."""
    return sorted({*globals(), *__all__})
