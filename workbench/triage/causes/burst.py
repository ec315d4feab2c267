"""Far more arrives than usual: consumers at their usual pace fall behind."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.humanize import duration, rate
from workbench.humanize import times as multiple
from workbench.judgement_numbers import MORE
from workbench.triage import capacity
from workbench.triage.action_subject import Subject
from workbench.triage.finding import Action
from workbench.triage.operand import Operand
from workbench.triage.question_types import Conclude, Leaf, Measure, Node, always, no, yes
from workbench.triage.shared_actions import SHRINKS
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Verdict

FAR_MORE = Operand("arrival_ratio", "× the baseline", ">=", setting="burst_ratio")


def _words(row: Row) -> str:
    if row.arrival_ratio is None:
        return f"{rate(row.arrival_per_second)} arriving, no baseline"
    return f"{rate(row.arrival_per_second)} arriving, {multiple(row.arrival_ratio)} the baseline"


QUESTION = Node(
    id="burst",
    question="Do far more records arrive than usual?",
    short="a burst?",
    rules=(
        yes("burst", "far more arrives than usual", FAR_MORE),
        no("usual", "not far more arrives than usual, or the baseline is too short to know what is usual", always),
    ),
    yes=Conclude(Verdict.BURST),
    words=_words,
    needs=("log_end_offset",),
    measures=(
        Measure("log_end_offset", "arrival_ratio", "× the baseline", threshold="burst_ratio"),
        Measure("log_end_offset", "arrival_per_second", "messages/s arriving", baseline="arrival_baseline_per_second"),
    ),
    contributes=True,
)


def _pace(row: Row) -> float | None:
    """Messages/s that the group reads now."""
    if row.arrival_per_second is None or row.lag_slope is None:
        return None
    return max(0.0, row.arrival_per_second - row.lag_slope)


def _headline(row: Row) -> str:
    return (
        f"Burst: {rate(row.arrival_per_second)} arrive, {multiple(row.arrival_ratio)} the usual, and it goes on; "
        f"the group reads {rate(_pace(row))}."
    )


def _actions(it: Subject, row: Row) -> list[Action]:
    pace, usual = _pace(row), row.arrival_baseline_per_second
    spare = pace - usual if pace is not None and usual is not None else None
    if spare is not None and spare > 0 and row.lag_messages:
        then = f"once it ends, the present pace needs {duration(row.lag_messages / spare)} for the backlog of now"
    else:
        then = "at the present pace the backlog stays, even when it ends"
    sizing = capacity.consumers(row)
    more = f" ({sizing.words})" if sizing is not None else ""
    return [
        Action(
            title=f"Ask the producers whether it is meant, and how long it lasts; {then}",
            command=it.changes,
            verify="the arrivals are at their usual rate again, or you know until when they are not",
        ),
        Action(
            title=f"If it lasts: add capacity for that time{more}",
            command=it.members,
            verify="the lag shrinks",
            checks=(SHRINKS,),
        ),
    ]


def _share(row: Row, arriving: float) -> Iterator[tuple[str, float]]:
    usual = row.arrival_baseline_per_second
    if usual and arriving >= MORE * usual:
        yield f"{multiple(arriving / usual)} the usual arrivals", arriving - usual


LEAF = Leaf(verdict=Verdict.BURST, headline=_headline, actions=_actions, share=_share)
