"""Handlers fail, time out or give records up more than usual: the group keeps up, or lags because of what follows each failure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.features.subscription_measurements import ProcessorFeatures
from workbench.humanize import listed, percent
from workbench.judgement_numbers import FAR, PART
from workbench.triage.action_subject import Subject
from workbench.triage.facts.unknown_numbers import all_of, at_least, times
from workbench.triage.facts.work_or_arrivals import MORE_FAIL
from workbench.triage.finding import Action, Scope
from workbench.triage.operand import Operand
from workbench.triage.outcome_checks import Check
from workbench.triage.question_types import Conclude, Leaf, Measure, Node, always, leaves_open, no, proves, yes
from workbench.triage.shared_actions import LOAD_MORE, SHRINKS
from workbench.triage.status.limited_by_own_work import HAS_ROOM
from workbench.triage.subscription import SubscriptionFeatures as Row
from workbench.triage.verdict_names import Answer, Verdict

if TYPE_CHECKING:
    from workbench.features.chart_series import Series
    from workbench.triage.question_types import Sign


def _words(row: Row) -> str:
    unnamed = (
        f"{percent(row.unnamed_share)} end with a word that is no outcome in the profile" if row.unnamed_share else ""
    )
    if row.failing_share is None:
        return unnamed or "nobody counts how attempts end"
    was = f", was {percent(row.failing_baseline_share)}" if row.failing_baseline_share is not None else ""
    return f"{percent(row.failing_share)} of the attempts fail{was}{unnamed and '; ' + unnamed}"


def _may_fail(row: Row) -> bool:
    """Whether far more attempts than before end with a word that nobody knows; without a good time, whether many do."""
    many = at_least(row.unnamed_share, row.limits.failing_ratio)
    return many is True and at_least(row.unnamed_share, times(FAR, row.unnamed_baseline_share)) is not False


QUESTION = Node(
    id="failing",
    by="side",
    question="Do more records fail than usual, although the group keeps up?",
    short="records failing?",
    rules=(
        yes(
            "more_fail",
            "far more attempts fail than before",
            *MORE_FAIL,
        ),
        leaves_open(
            "no_baseline",
            "attempts fail, and the data show no good time to tell whether as many do usually",
            lambda row: row.failing_baseline_share is None and at_least(row.failing_share, row.limits.failing_ratio),
            Operand("failing_share", "of the attempts", ">=", setting="failing_ratio"),
            look=LOAD_MORE,
        ),
        leaves_open(
            "own_words",
            "more attempts than before end with a word that is no outcome in the profile: they failed, or they did not",
            _may_fail,
            Operand("unnamed_share", "of the attempts", ">=", setting="failing_ratio"),
            look="say in the profile what each word means (stats, of the signal processed)",
        ),
        no("as_before", "no more attempts fail than before, or nobody counts them", always),
    ),
    yes=Conclude(Verdict.FAILING_RECORDS),
    words=_words,
    needs=("processed",),
    measures=(
        Measure(
            "processed",
            "failing_share",
            "of the attempts",
            threshold="failing_ratio",
            baseline="failing_baseline_share",
        ),
    ),
    contributes=True,
)


# What comes before it has ruled out that records do not reach the handlers, and that few partitions or far more records are the reason.
SLOWED = Node(
    id="slowed",
    question="Do failures take the time?",
    short="slowed by failures?",
    rules=(
        proves(
            "given_up",
            "far more attempts fail than before, and commits pass most of what fails",
            lambda row: row.gives_up,
            *MORE_FAIL,
        ),
        yes(
            "after_failures",
            "far more attempts fail than before, and its handlers take half of a thread or less: what follows a failure takes the time"
            " (a back-off, a letter, records that are read again)",
            *MORE_FAIL,
            HAS_ROOM,
        ),
        yes(
            "again",
            "far more attempts fail than before, and clearly more is handled than is committed: what fails is tried again",
            lambda row: row.handled_again and all_of(*(it.holds(row) for it in MORE_FAIL)) is True,
            *MORE_FAIL,
        ),
        no(
            "not_failures",
            "no more attempts fail than before, or the handlers' own work takes the time, or nobody counts them",
            always,
        ),
    ),
    yes=Conclude(Verdict.FAILING_RECORDS),
    words=_words,
    needs=("processed", "process_time"),
    measures=QUESTION.measures,
)


def _share(it: ProcessorFeatures) -> float:
    return (it.failed or 0.0) / it.outcomes if it.outcomes else 0.0


def _names(row: Row) -> list[str]:
    """Event types that fail about as much as the worst of them."""
    worst = max((_share(it) for it in row.processors), default=0.0)
    return sorted({it.processor for it in row.processors if worst and _share(it) >= worst / 2})


def _slows(row: Row) -> bool:
    return row.answers["lagging"] is Answer.YES


def _headline(row: Row) -> str:
    was = f", was {percent(row.failing_baseline_share)}" if row.failing_baseline_share is not None else ""
    but = "the group falls behind" if _slows(row) else "the group keeps up"
    if _slows(row) and (row.handled_again or HAS_ROOM.holds(row)):
        but += ": what follows a failure takes the time"
    # The only one may have no name of its own: a profile without event types calls it "all".
    types = f" ({listed(_names(row))})" if len(row.processors) > 1 else ""
    return f"Records fail: {percent(row.failing_share)} of the attempts{was}{types}, while {but}."


def _actions(it: Subject, row: Row) -> list[Action]:
    of = f"the errors of {listed(_names(row))}" if len(row.processors) > 1 else "their errors"
    less = Action(
        title="Until it is fixed, let a failure take less of the thread's time: a shorter back-off, fewer tries, letters that are not"
        " waited for one by one, no second fetch of what was polled (Spring: setSeekAfterError(false) of the error handler)",
        verify="the lag shrinks",
        checks=(SHRINKS,),
    )
    return [
        Action(
            title=f"Read the handlers' log for {of}, and look at what they depend on",
            verify="you know why they fail",
        ),
        *([less] if _slows(row) else []),
        Action(
            title="Once it is fixed, replay what was given up from the onset on, into a new group",
            command=f"{it.triage} --json",
            verify=f"less than {percent(row.limits.failing_ratio)} of the attempts fail",
            checks=(Check("failing_share", "<", row.limits.failing_ratio),),
        ),
    ]


def _onset(series: Series, row: Row) -> Sign:
    """The share of attempts that fail, above the threshold and three times the usual."""
    usual = row.failing_baseline_share or 0.0
    return series.failing.values, max(row.limits.failing_ratio, FAR * usual if usual < PART else usual)


LEAF = Leaf(
    verdict=Verdict.FAILING_RECORDS,
    headline=_headline,
    scope=lambda row: Scope(processors=tuple(_names(row))),
    actions=_actions,
    onset=_onset,
)
