"""Signals of jobs that keep their positions in checkpoints of their own (Flink, Spark), a part of `workbench.signals`."""

from __future__ import annotations

from typing import Literal

# Name, unit, grain, help, whether a negative value is a placeholder.
OF_JOBS: tuple[tuple[str, str, Literal["group_partition", "member"], str, bool], ...] = (
    (
        "read_offset",
        "offset",
        "group_partition",
        "Next offset that a job reads: what is between its checkpoint and here, it reads again after a restart.",
        True,
    ),
    (
        "restore_time",
        "seconds",
        "member",
        "When a job last began from its checkpoint, since the epoch: a change is a restart.",
        False,
    ),
)
