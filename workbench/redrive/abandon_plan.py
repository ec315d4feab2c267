"""The end of a plan that is not done: it is discarded before it has begun, or given up after. The end is written to Kafka first."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from workbench.errors import GuardError, WorkbenchError
from workbench.plans.journal import Journal, only_one
from workbench.redrive.commit_marks import PlanProgress, PlanState, marks_of
from workbench.redrive.guard import HINTS, RedriveNow, check_claims, ended_words
from workbench.redrive.planfile import RedrivePlan
from workbench.redrive.redrive_ledger import Ledger, ended_of
from workbench.redrive.redrive_ports import Sink
from workbench.redrive.verify import produced_of

_OWNER = "ended"


def end_plan(
    plan: RedrivePlan, state: PlanState, sink: Sink, look: Callable[[], RedriveNow], *, was_started: bool
) -> PlanProgress:
    """Write the end of a plan to Kafka.

    Args:
        state: discarded or given up.
        sink: has begun, so that nobody produces for the plan any more.
        look: the cluster's current state.

    Returns:
        What the plan has produced.

    Raises:
        GuardError: if the plan is done or ended otherwise; if it was begun and shall be discarded, or was not and shall be given up;
            or if another plan has claimed its letters.
    """
    progress = sink.progress()
    numbers = [part.partition for part in plan.partitions]
    if progress.state is state:
        return progress
    if progress.state is None and was_started:
        raise GuardError("The position of the plan in Kafka has expired.", hint=HINTS["position_expired"])
    if progress.state is None and state is PlanState.DISCARDED:
        start = {part.partition: part.log_start for part in plan.partitions}
        marks = marks_of(state, _OWNER, numbers, {})
        found = sink.claim(start, 0 if plan.ordered else None, marks, lambda: check_claims(plan, look()))
        if found.state is state:
            return found
        progress = found
    if progress.state is None:
        raise GuardError(f"The plan {plan.short_hash} was not begun: there is nothing to give up.")
    if progress.state is PlanState.DONE or (progress.state is PlanState.BEGUN and progress.is_through(plan)):
        raise GuardError(f"The plan {plan.short_hash} was applied: its letters were produced.")
    if progress.state is not PlanState.BEGUN:
        raise GuardError(f"{ended_words(plan, progress.state)}.", hint=HINTS[progress.state.value])
    if state is PlanState.DISCARDED:
        raise GuardError(
            f"The plan {plan.short_hash} was begun: some of its letters were produced.",
            hint="Apply it to the end; or give it up (dlq give-up), make a new plan of the rest, and discard that.",
        )
    sink.commit(progress.positions, progress.ordered, marks_of(state, _OWNER, numbers, progress.refused))
    return sink.progress()  # where records and positions do not take effect together, the sink has noted more


def give_up(
    plan: RedrivePlan, journal: Journal, ledger: Ledger, end: Callable[[], PlanProgress], *, reason: str
) -> int:
    """Give up what a begun plan has not produced: other plans may take these letters, and the plan produces nothing more.

    Args:
        end: writes the end to Kafka (`end_plan`).

    Returns:
        Number of letters that the plan has produced.

    Raises:
        GuardError: as `end_plan`; or if it runs on this machine. SourceUnreachableError: if Kafka does not answer.
    """
    with only_one(plan.id):
        ended = ledger.ended(plan)
        if ended is not None and ended.outcome != "given_up":
            raise GuardError(f"The plan {plan.short_hash} has ended: {ended.outcome}.")
        note = partial(journal.append, plan=plan.hash, cluster_id=plan.cluster_id, group=plan.id, action="discard")
        note(phase="begin", target="rest of the plan", detail=reason)
        ledger.keep(plan)
        try:
            progress = end()
        except WorkbenchError as error:
            note(phase="end", target="rest of the plan", outcome="failed", detail=error.message, after=error)
            raise
        ledger.end(plan, ended_of("given_up", plan, progress, refused=progress.refused, reason=reason))
        note(phase="end", target="rest of the plan", outcome="done", detail=reason)
        return produced_of(plan, progress.positions, progress.ordered or 0, progress.refused)
