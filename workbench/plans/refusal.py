"""Reasons not to write, with what to do about each."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.queues.snapshot_views import Partition

NO_RIGHT = "Grant these credentials Describe and Read on topic and group, or use others in workbench.toml."


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One reason not to write, for one partition or (None) for all."""

    code: str
    message: str
    partition: Partition | None = None


# What to do, for the reasons that every plan shares.
COMMON_HINTS = {
    "other_cluster": "Use --cluster with the cluster of the plan, or make a new plan.",
    "not_allowed": NO_RIGHT,
    "topic_gone": "Make a new plan.",
    "partition_gone": "Make a new plan.",
    "under_replicated": "Wait until the replicas are back, or continue with --allow-under-replicated.",
    "silent": "Try again once every partition has a leader.",
    "log_changed": "Make a new plan.",
}
