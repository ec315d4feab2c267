"""Signals of what stands before Kafka (gateways with a breaker, agents that buffer on disk), a part of `workbench.signals`."""

from __future__ import annotations

from typing import Literal

# Name, unit, kind, help. `queue` is the destination, as its exporter names it.
OF_GATEWAYS: tuple[tuple[str, str, Literal["gauge", "counter"], str], ...] = (
    (
        "gateway_sends",
        "records",
        "counter",
        "Records that a process before Kafka has sent to a destination, by outcome: ok, failed; or total and failed.",
    ),
    (
        "gateway_answers",
        "requests",
        "counter",
        "Answers that a gateway gave to its clients, by HTTP code: 429 tells them to come again later.",
    ),
    (
        "breaker_state",
        "state",
        "gauge",
        "1 for the state (closed, open, half_open) that the breaker of a destination is in, 0 for the others.",
    ),
    ("disk_backlog_records", "records", "gauge", "Records that a process before Kafka keeps on its disk."),
    ("disk_backlog_bytes", "bytes", "gauge", "Bytes that a process before Kafka keeps on its disk."),
    ("disk_backlog_age", "seconds", "gauge", "Age of the oldest record on that disk; 0 when there is none."),
)
