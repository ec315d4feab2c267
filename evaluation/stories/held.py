"""Sick life, third part: the log itself gives nothing more."""

from __future__ import annotations

from evaluation.stories.stops import STILL
from evaluation.stories.truth import Cast, Plan


def open_transaction(cast: Cast) -> Plan:
    """A producer has left a transaction open in some partitions, or all; consumers with read_committed stop before it."""
    life = cast.life(least=2)
    ago = cast.since(life, 3, 70)
    some = (1, max(1, life.partitions // 3), life.partitions)[cast.turn // 2 % 3]
    chosen = sorted(cast.rng.choice(life.partitions, some, replace=False).tolist())
    life.stop(chosen, ago)
    view = cast.view(life)
    view.held_back = tuple(chosen)
    never = STILL | {"consumer_stopped", "restart_consumers"}
    return cast.sick(
        life,
        {"stuck_partition"},
        causes={"open_transaction"},
        never=never,
        onset=ago,
        mentions="transaction",
        view=view,
    )


HELD = {open_transaction: (6, "LR")}
