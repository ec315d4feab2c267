"""The group catches up with a backlog, whatever left it: a burst, a standstill, slow handlers that are over."""

from __future__ import annotations

from workbench.humanize import counted, duration, rate
from workbench.judgement_numbers import MORE
from workbench.triage.action_subject import Subject
from workbench.triage.finding import Action
from workbench.triage.question_types import Conclude, Leaf, Measure, Node, always, no, yes
from workbench.triage.shared_actions import SHRINKS
from workbench.triage.status import lagging
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import State, Verdict


def _words(row: Row) -> str:
    if row.draining and row.eta_drain_seconds is not None:
        return f"caught up in about {duration(row.eta_drain_seconds)} at this pace"
    if row.draining:
        return "the lag shrinks"
    return (
        "what is behind does not catch up in time"
        if row.late_or_soon
        else "nothing is late that it has to catch up with"
    )


QUESTION = Node(
    id="draining",
    by="gate",
    question="Is it catching up?",
    short="catching up?",
    rules=(
        yes("drains", "each partition that is behind catches up in time", lambda row: row.draining),
        no("not_behind", "nothing has to be caught up, or it would take too long", always),
    ),
    yes=Conclude(Verdict.PRODUCER_BURST),
    words=_words,
    needs=("consumer_lag",),
    measures=(Measure("consumer_lag", "eta_drain_seconds", "s until nothing waits"),),
)


def _headline(row: Row) -> str:
    falling = lagging.trend(row)
    pace = rate(abs(falling)) if falling is not None and falling < 0 else "an unknown pace"
    # A standstill leaves a backlog, too.
    burst = row.arrival_ratio is not None and row.arrival_ratio >= MORE
    remote = f" {_remote(row)}" if row.cold_messages else ""
    return f"Draining{' after a burst' if burst else ''}: {lagging.age(row)} behind and shrinking by {pace}; {_words(row)}.{remote}"


def _remote(row: Row) -> str:
    back = f"; {lagging.back_on_disks(row)}" if row.tail_seconds is not None else ""  # it catches up, at whatever pace
    return f"{counted(row.cold_messages, 'message')} of it are in remote storage, no longer on the brokers' own disks{back}."


def _actions(it: Subject, _row: Row) -> list[Action]:
    return [
        Action(
            title="Watch until it is drained",
            command=f"{it.triage} --watch",
            verify="the time lag shrinks",
            checks=(SHRINKS,),
        )
    ]


LEAF = Leaf(verdict=Verdict.PRODUCER_BURST, state=State.DRAINING, headline=_headline, actions=_actions)
