"""Everything about one verdict in one place: `triage/causes` and `triage/status` declare a `Leaf` for each."""

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
from workbench.triage.wording import reconciling

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from workbench.features.series import Series

    # A line of the series (None if there is none), and the limit that it exceeds while the verdict holds.
    Sign = tuple[npt.NDArray[np.float64] | None, float]


def changed_members(row: SubscriptionFeatures) -> list[str]:
    """Sentences about members that joined or left, and about partitions that wait for a member; most verdicts show them."""
    changed, waits = row.changed_members, reconciling(row)
    return [
        *([f"Members that joined, left or restarted in the window: {listed(sorted(changed))}."] if changed else []),
        *([f"The group is {waits}."] if waits else []),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A verdict with its texts, sizing and actions.

    Attributes:
        verdict: which one.
        state: of a subscription with this verdict; every cause is a cause of lagging.
        headline: the verdict in one sentence.
        scope: what it is about; the sizing's `keep_up` fills in `needed`.
        sizing: number of threads or consumers that are needed, for verdicts about capacity.
        actions: what to do, most reversible first, with the checks that show whether it worked.
        also_true: further sentences, besides the tree's other answers.
        onset: the line that shows when it began; None: the time lag, above the floor of growth.
        began_ago: seconds since it began, where an event that the offsets show is the beginning; it comes before any line.
    """

    verdict: Verdict
    headline: Callable[[SubscriptionFeatures], str]
    state: State = State.LAGGING
    scope: Callable[[SubscriptionFeatures], Scope] = lambda _row: Scope()
    sizing: Callable[[SubscriptionFeatures, Thresholds], Sizing | None] = lambda _row, _thresholds: None
    actions: Callable[[Subject, SubscriptionFeatures], Sequence[Action]] = lambda _subject, _row: ()
    also_true: Callable[[SubscriptionFeatures], Sequence[str]] = changed_members
    onset: Callable[[Series, SubscriptionFeatures, Thresholds], Sign] | None = None
    began_ago: Callable[[SubscriptionFeatures], float | None] = lambda _row: None

    @property
    def runbook(self) -> str | None:
        """File of the runbook, by the verdict's name: `slow_processor` → `runbooks/SlowProcessor.md`; None for `healthy`."""
        if self.state is State.HEALTHY:
            return None
        return f"runbooks/{self.verdict.value.title().replace('_', '')}.md"
