"""What belongs to one verdict, in one place: `triage/verdicts` has a module with a `Leaf` for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.humanize import listed
from workbench.settings import Thresholds
from workbench.triage.capacity import Sizing
from workbench.triage.finding import Action, Scope
from workbench.triage.subject import Subject
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict import State, Verdict

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from workbench.features.series import Series

    # A line of the series (None if there is none), and the limit that it is over while the verdict holds.
    Sign = tuple[npt.NDArray[np.float64] | None, float]


def changed_members(row: SubscriptionFeatures) -> list[str]:
    """Who came and went, which is worth a line beside most causes."""
    changed = row.changed_members
    return [f"Members that came, went or restarted in the window: {listed(sorted(changed))}."] if changed else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A verdict and all that is said and done about it.

    Attributes:
        verdict: which one.
        state: of a subscription with this verdict; every cause is a cause of lagging.
        headline: the verdict in one sentence.
        scope: what exactly it is about; `needed` is filled in by what is `keep_up` of the sizing.
        sizing: how many are needed of what there is too little of, for verdicts about capacity.
        actions: what to do, most reversible first, with the checks that show whether it worked.
        also_true: what to say beside it, apart from the tree's other answers.
        onset: what shows since when it is so; None: the time lag, over the floor of growth.
    """

    verdict: Verdict
    headline: Callable[[SubscriptionFeatures], str]
    state: State = State.LAGGING
    scope: Callable[[SubscriptionFeatures], Scope] = lambda _row: Scope()
    sizing: Callable[[SubscriptionFeatures, Thresholds], Sizing | None] = lambda _row, _thresholds: None
    actions: Callable[[Subject, SubscriptionFeatures], Sequence[Action]] = lambda _subject, _row: ()
    also_true: Callable[[SubscriptionFeatures], Sequence[str]] = changed_members
    onset: Callable[[Series, SubscriptionFeatures, Thresholds], Sign] | None = None

    @property
    def runbook(self) -> str | None:
        """The runbook's file by the verdict's name, `slow_processor` → `runbooks/SlowProcessor.md`; health needs none."""
        if self.state is State.HEALTHY:
            return None
        return f"runbooks/{self.verdict.value.title().replace('_', '')}.md"
