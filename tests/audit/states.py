"""Answers of audits, as tests of pages need them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from workbench.report.audit_state import AuditState, EdgeState, StreamState, WindowLine
from workbench.report.state_before_kafka import UpstreamLine, UpstreamState

MADE = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def edge(name: str = "collector", **values: Any) -> EdgeState:
    """An edge; complete, if nothing else is said."""
    given = {
        "edge": name, "layer": None if "→" in name else name, "sent": 1_000, "lost": 0, "doubled": 0, "others": 0, "missing_at_most": 0,
        "open": 0, "provisional": 0, "final": 5, "amended": 0, "unknown": 0, "late": 0, "overdue_seconds": None, "breach": None,
        **values,
    }  # fmt: skip
    return EdgeState.model_validate(given)


def stream(name: str, *edges: EdgeState, **values: Any) -> StreamState:
    """A stream of such edges."""
    given = {"unheard": (), "silent": (), "slow": None, **values}
    return StreamState(stream=name, grade="S1", edges=edges or (edge(),), **given)


def window(name: str, **values: Any) -> WindowLine:
    """A window that lacks records."""
    given = {
        "stream": name, "edge": "collector", "start": MADE - timedelta(hours=1), "state": "final", "arrival": "loss", "lost_low": 4,
        "lost_high": 4, "doubled_low": 0, "doubled_high": 0, **values,
    }  # fmt: skip
    return WindowLine.model_validate(given)


def state(*streams: StreamState, windows: tuple[WindowLine, ...] = (), **values: Any) -> AuditState:
    """What an audit says, of six hours."""
    given = {
        "audit": "orders", "cluster": "prod", "made_at": MADE, "since": MADE - timedelta(hours=6), "until": MADE,
        "window_seconds": 60.0, "every_seconds": 900.0, **values,
    }  # fmt: skip
    return AuditState(streams=streams, windows=windows, **given)


def upstream(process: str, *what: str, **values: Any) -> UpstreamState:
    """What stands before a cluster: these faults of a process, of which each but the breaker's has lasted for ten minutes."""
    lines = [
        UpstreamLine.model_validate(
            {"process": process, "what": it, "words": f"{it} of {process}", "seconds": 600.0 if it in ("429", "disk") else None}
        )
        for it in what
    ]  # fmt: skip
    given = {
        "cluster": "prod", "since": MADE - timedelta(minutes=15), "until": MADE, "every_seconds": 300.0, "breakers": 1,
        "tell_of_waiting": 1, "lines": tuple(lines), **values,
    }  # fmt: skip
    return UpstreamState.model_validate(given)
