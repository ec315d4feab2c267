"""The order of a sweep's table is that of a triage's findings."""

from __future__ import annotations

import pyarrow as pa

from workbench.sweep.table_order import worst_first


def test_an_age_that_nobody_knows_is_the_worst_where_messages_wait() -> None:
    """Of one state; where nothing waits, there is nothing old."""
    rows = [
        ("late", "slow_processor", 5000.0, 10),
        ("unknown", "consumer_stopped", None, 600),
        ("nothing", "consumer_stopped", None, 0),
        ("calm", "healthy", None, 3),
    ]
    table = pa.table(
        {
            "group": [group for group, *_ in rows],
            "topic": ["orders" for _ in rows],
            "verdict": [verdict for _, verdict, *_ in rows],
            "time_lag_seconds": pa.array([seconds for *_, seconds, _ in rows], pa.float64()),
            "lag_messages": [messages for *_, messages in rows],
        }
    )
    assert worst_first(table, frozenset())["group"].to_pylist() == ["unknown", "late", "nothing", "calm"]
