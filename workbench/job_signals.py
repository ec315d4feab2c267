"""Signals of jobs that keep their positions in checkpoints of their own (Flink, Spark), and of clients that read beyond their commits;
a part of `workbench.signals`."""

from __future__ import annotations

from typing import Literal

# The source of commits that are what a job has read: it keeps its positions to itself, and commits nothing.
READ_AS_COMMITTED = "read position"

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
        "given_offset",
        "offset",
        "group_partition",
        "Next offset that a client gives to its application: what is between the commit and here, is read again after a restart.",
        True,
    ),
    (
        "batch_start_offset",
        "offset",
        "group_partition",
        "Where the last batch of a job began that runs a batch as a whole again if it had not ended.",
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
