"""Progress of a redrive, by the positions that its transactions have committed; and what came back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from workbench.queues.replay_port import Gateway
from workbench.redrive.commit_marks import PlanProgress, PlanState
from workbench.redrive.later_letters import LaterLetters, later_letters
from workbench.redrive.planfile import RedrivePlan
from workbench.redrive.verify import marks_in, produced_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveProgress:
    """Progress now.

    Attributes:
        produced: letters whose records are committed; of `planned`.
        refused: letters that were left out, because the target refuses them.
        per_second: since the look before; None at the first.
        new_letters: letters that arrived in the dead-letter topic since the plan; None if a partition does not answer, or the topic was
            deleted since.
    """

    planned: int
    produced: int
    refused: int
    per_second: float | None
    new_letters: int | None
    state: PlanState | None

    @property
    def left(self) -> int:
        """Letters that are neither produced nor left out."""
        return self.planned - self.produced - self.refused

    @property
    def is_done(self) -> bool:
        """Whether no letter is left, and the plan was not ended before."""
        return self.state in (PlanState.BEGUN, PlanState.DONE) and self.left <= 0

    @property
    def eta_seconds(self) -> float | None:
        """Seconds until the end at this rate; None if it does not move."""
        return self.left / self.per_second if self.per_second else None

    def document(self) -> dict[str, Any]:
        """As plain values."""
        names = ("planned", "produced", "refused", "per_second", "eta_seconds", "new_letters", "is_done")
        state = {"begun": self.state is not None, "state": self.state.value if self.state is not None else None}
        return {"schema": "workbench.redrive-progress/1", **{name: getattr(self, name) for name in names}, **state}


@dataclass(slots=True)
class RedriveFollower:
    """Observes a redrive repeatedly, from any machine."""

    plan: RedrivePlan
    gateway: Gateway
    clock: Callable[[], float] = time.monotonic
    _before: tuple[float, int] | None = field(default=None)
    _later: LaterLetters | None = field(default=None)  # asked for once: that lists the cluster

    def look(self) -> RedriveProgress:
        """Observe once.

        Raises:
            SourceUnreachableError: if Kafka does not answer.
        """
        plan = self.plan
        positions = {number: at for (topic, number), at in self.gateway.commits(plan.id).items() if topic == plan.topic}
        ordered = self.gateway.commits(plan.order_group).get((plan.topic, 0), 0) if plan.ordered else 0
        marks = marks_in(plan, self.gateway.notes(plan.id)) if positions else {}
        progress = PlanProgress(positions=positions, ordered=ordered, marks=marks)
        later = self._later = self._later or later_letters(plan, self.gateway)
        logs = self.gateway.logs([(plan.topic, number) for number in later.starts])
        handled = produced_of(plan, positions, ordered, ())
        produced, now = produced_of(plan, positions, ordered, progress.refused), self.clock()
        rate = None
        if self._before is not None and now > self._before[0]:
            rate = max(0, produced - self._before[1]) / (now - self._before[0])
        self._before = (now, produced)
        new = [logs.records_from((plan.topic, number), at) for number, at in later.starts.items()]
        return RedriveProgress(
            planned=plan.letters,
            produced=produced,
            refused=handled - produced,
            per_second=rate,
            new_letters=None if None in new or later.fate is not None else sum(filter(None, new)),
            state=progress.state,
        )
