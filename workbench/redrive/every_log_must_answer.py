"""Logs of partitions that must all answer: one that does not would look as if it had no records."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.errors import SourceUnreachableError
from workbench.plans.refusal import NO_RIGHT
from workbench.queues.replay_port import Gateway, LogView
from workbench.queues.snapshot_views import Partition


def whole_logs(gateway: Gateway, partitions: Sequence[Partition], *, stable: bool = False) -> LogView:
    """See `Gateway.logs`.

    Raises:
        SourceUnreachableError: if one of them does not answer.
    """
    logs = gateway.logs(partitions, stable=stable)
    for (topic, number), words in logs.errors.items():
        raise SourceUnreachableError(
            f"{topic}-{number} does not answer: {words}.", hint=NO_RIGHT if logs.denied else None
        )
    return logs
