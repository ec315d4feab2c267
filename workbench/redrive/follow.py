"""Progress of a redrive, by the positions that its transactions have committed; and what came back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from workbench.redrive.planfile import RedrivePlan
from workbench.redrive.verify import planned_below
from workbench.replay.gateway import Gateway


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveProgress:
    """Progress now.

    Attributes:
        produced: letters whose records are committed; of `planned`.
        per_second: since the look before; None at the first.
        new_letters: letters that arrived in the dead-letter topic since the plan.
    """

    planned: int
    produced: int
    per_second: float | None
    new_letters: int
    begun: bool

    @property
    def is_done(self) -> bool:
        """Whether all letters were produced."""
        return self.begun and self.produced >= self.planned

    @property
    def eta_seconds(self) -> float | None:
        """Seconds until the end at this rate; None if it does not move."""
        return (self.planned - self.produced) / self.per_second if self.per_second else None

    def document(self) -> dict[str, Any]:
        """As plain values."""
        names = ("planned", "produced", "per_second", "eta_seconds", "new_letters", "begun", "is_done")
        return {"schema": "workbench.redrive-progress/1", **{name: getattr(self, name) for name in names}}


@dataclass(slots=True)
class RedriveFollower:
    """Observes a redrive repeatedly, from any machine."""

    plan: RedrivePlan
    gateway: Gateway
    clock: Callable[[], float] = time.monotonic
    _before: tuple[float, int] | None = field(default=None)

    def look(self) -> RedriveProgress:
        """Observe once.

        Raises:
            SourceUnreachableError: if Kafka does not answer.
        """
        plan = self.plan
        positions = {number: at for (topic, number), at in self.gateway.commits(plan.id).items() if topic == plan.topic}
        ordered = self.gateway.commits(plan.order_group).get((plan.topic, 0), 0) if plan.ordered else 0
        logs = self.gateway.logs([(plan.topic, part.partition) for part in plan.partitions])
        produced, now = planned_below(plan, positions, ordered), self.clock()
        rate = None
        if self._before is not None and now > self._before[0]:
            rate = max(0, produced - self._before[1]) / (now - self._before[0])
        self._before = (now, produced)
        new = sum(max(0, logs.ends.get((plan.topic, part.partition), 0) - part.stop) for part in plan.partitions)
        return RedriveProgress(
            planned=plan.letters, produced=produced, per_second=rate, new_letters=new, begun=bool(positions)
        )
