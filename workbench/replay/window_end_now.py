"""Where a plan's window ends now: one statement for follow, verify and retire. Pure."""

from __future__ import annotations

from dataclasses import replace

from workbench.logs.window_end import WindowEnd, window_ends
from workbench.queues.replay_port import ClusterView, LogView
from workbench.queues.snapshot_views import Partition
from workbench.replay.guard import remade_topics
from workbench.replay.planfile import Plan


def windows_now(plan: Plan, cluster: ClusterView, logs: LogView, *, now_ms: float) -> dict[Partition, WindowEnd]:
    """Find the window's end in each partition of a plan; of a topic that was recreated, no commit proves anything.

    Args:
        cluster: with the plan's topics.
        logs: as for `window_ends`.
    """
    remade = remade_topics(plan, cluster)
    return {
        key: replace(end, open=f"The topic {key[0]!r} was deleted and recreated since the plan was made.")
        if key[0] in remade
        else end
        for key, end in window_ends(plan, logs, now_ms=now_ms).items()
    }
