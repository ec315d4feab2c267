"""Checks as data, two looks compared, and looking again until the check holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evaluation.kept import read
from evaluation.stories import WINDOW
from tests.triage.made import made, subscription
from workbench.cli import triage_watch_and_compare
from workbench.errors import ExitCode, SourceUnreachableError
from workbench.features.subscription_measurements import PartitionFeatures, QueueFeatures
from workbench.humanize import duration, percent, plural, times
from workbench.thresholds import Thresholds
from workbench.triage.action_subject import Subject
from workbench.triage.build_finding import build_finding
from workbench.triage.compare_triages import compare
from workbench.triage.finding import Action, Finding, Scope, TimeLag
from workbench.triage.outcome_checks import Check, all_hold
from workbench.triage.triage_engine import Triage
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import Answer, Verdict

ROW = subscription(
    group_members=2.0,
    partitions=(
        made(PartitionFeatures, partition=0, committed=10.0),
        made(PartitionFeatures, partition=3, committed=99.0),
        made(PartitionFeatures, partition=4),
    ),
    queues=(
        made(QueueFeatures, processor="a", member="m", fill=0.2),
        made(QueueFeatures, processor="a", member="m", fill=0.7),
        made(QueueFeatures, processor="b", member="m", fill=0.1),
        made(QueueFeatures, processor="b", member="m"),  # taken away by a restart with fewer queues
        made(QueueFeatures, processor="c", member="m", fill=0.1),
        made(QueueFeatures, processor="c", member="gone"),  # nobody knows
    ),
)


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        (Check("group_members", ">", 1), Answer.YES),
        (Check("group_members", ">", 2), Answer.NO),
        (Check("group_members", ">=", 2), Answer.YES),
        (Check("group_members", "<=", 2), Answer.YES),
        (Check("group_members", "<", 2), Answer.NO),
        (Check("group_members", "=", 2), Answer.YES),
        (Check("lag_slope", "<", 0), Answer.CANNOT_TELL),
        (Check("partitions", ">", 50, field="committed", items=("3",)), Answer.YES),
        (Check("partitions", ">", 50, field="committed", items=("0", "3")), Answer.NO),
        (Check("partitions", ">", 50, field="committed", items=("4",)), Answer.CANNOT_TELL),
        (Check("partitions", ">", 50, field="committed", items=("9",)), Answer.CANNOT_TELL),
        (Check("queues", "<", 0.5, field="fill", items=("a",)), Answer.NO),
        (Check("queues", "<", 0.5, field="fill", items=("b",)), Answer.YES),
        (Check("queues", "<", 0.5, field="fill", items=("c",)), Answer.CANNOT_TELL),
        (Check("members", "<", 1, field="poll_age_seconds"), Answer.CANNOT_TELL),
    ],
)
def test_one_check(check: Check, answer: Answer) -> None:
    """Every chosen element must pass; what is not known cannot be told."""
    assert check.holds(ROW) is answer


def test_several_checks() -> None:
    """A single no decides; without a check nobody can tell."""
    yes = Check("group_members", ">", 1)
    no = Check("group_members", ">", 5)
    open_ = Check("lag_slope", "<", 0)
    assert all_hold([yes], ROW) is Answer.YES
    assert all_hold([yes, no, open_], ROW) is Answer.NO
    assert all_hold([yes, open_], ROW) is Answer.CANNOT_TELL
    assert all_hold([], ROW) is Answer.CANNOT_TELL


def finding(verdict: Verdict, *, group: str = "pay", members: int = 0) -> Finding:
    """A finding whose action wants members."""
    action = Action(
        title="start them", command=None, verify="members > 0", kind="restart_consumers",
        checks=(Check("group_members", ">", 0),),
    )  # fmt: skip
    return Finding(
        cluster="c", group=group, topic="t", verdict=verdict, state=leaf_of(verdict).state, headline="So.", scope=Scope(),
        time_lag=TimeLag(seconds=12.0, method="interpolated"), lag_messages=7, arrival_per_second=1.0, lag_slope=0.0,
        eta_drain_seconds=None, eta_loss_seconds=None, path=(), actions=(action,), features=subscription(group_members=float(members)),
    )  # fmt: skip


def look(*findings: Finding) -> Triage:
    """A look that found these."""
    return Triage(window=WINDOW, source={}, findings=findings)


def test_two_looks_compared() -> None:
    """By subscription: changed, gone, new; and the check of what was advised then, held against now."""
    before = look(
        finding(Verdict.CONSUMER_STOPPED),
        finding(Verdict.HEALTHY, group="well"),
        finding(Verdict.HEALTHY, group="gone"),
    )
    after = look(
        finding(Verdict.PRODUCER_BURST, members=2),
        finding(Verdict.HEALTHY, group="well"),
        finding(Verdict.HEALTHY, group="new"),
    )
    changes = {change.group: change for change in compare(before, after)}
    assert list(changes) == ["pay", "well", "gone", "new"]
    assert changes["pay"].settled
    assert [it.holds for it in changes["pay"].checks] == [Answer.YES]
    assert (
        changes["pay"].words
        == "pay ← t: consumer_stopped (7 messages, 12 s behind) → producer_burst (7 messages, 12 s behind)"
    )
    assert changes["well"].checks == ()
    assert "no longer there" in changes["gone"].words
    assert changes["new"].words.startswith("new ← t: new; healthy")
    assert changes["gone"].to_json()["after"] is None


def test_watching_ends_when_the_check_holds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A look that fails is told and tried again; then the check holds, and the exit code is 0."""
    monkeypatch.setattr(triage_watch_and_compare.time, "sleep", lambda _seconds: None)
    sick = finding(Verdict.CONSUMER_STOPPED)
    answers = iter([look(sick), look(sick), None, look(replace(sick, features=subscription(group_members=3.0)))])

    def next_look() -> Triage:
        found = next(answers)
        if found is None:
            raise SourceUnreachableError("Prometheus is busy.")
        return found

    assert triage_watch_and_compare.watch(next_look, every_seconds=1, for_seconds=60, as_json=False) == ExitCode.OK
    shown = capsys.readouterr()
    assert "✗ 1. members > 0" in shown.out
    assert "✓ 1. members > 0" in shown.out
    assert "Prometheus is busy." in shown.err
    assert "The check passed." in shown.err


def test_watching_gives_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 7; and nothing to watch is a success."""
    monkeypatch.setattr(triage_watch_and_compare.time, "sleep", lambda _seconds: None)
    sick = look(finding(Verdict.CONSUMER_STOPPED))
    assert (
        triage_watch_and_compare.watch(lambda: sick, every_seconds=0.01, for_seconds=0.0, as_json=True)
        == ExitCode.DEADLINE
    )
    well = look(finding(Verdict.HEALTHY))
    assert triage_watch_and_compare.watch(lambda: well, every_seconds=1, for_seconds=60, as_json=False) == ExitCode.OK


def _shown(value: float) -> set[str]:
    return {duration(value), percent(value), times(value), plural(round(value), "rebalance")}


def test_the_words_of_a_check_name_its_limit() -> None:
    """ "Back at 23 ms" was ticked at 60 ms: what `--watch` says has happened is what was compared."""
    told = set()
    for case, _, _ in read():
        finding = build_finding(case.judged(), profiles=())
        for action in finding.actions:
            for check in action.checks:
                if check.relation.startswith("<") and check.value:
                    told.add(finding.verdict)
                    assert any(it in action.verify for it in _shown(check.value)), (case.name, action.verify, check)
    assert len(told) >= 9


@pytest.mark.parametrize(("pace", "answer"), [(0.0, Answer.NO), (12.0, Answer.YES), (None, Answer.CANNOT_TELL)])
@pytest.mark.parametrize("verdict", [Verdict.CONSUMER_STOPPED, Verdict.BATCH_MISSED])
def test_what_was_committed_before_the_stop_is_no_restart(verdict: Verdict, pace: float | None, answer: Answer) -> None:
    """The window still holds it: members that are back and commit nothing have not resumed."""
    stopped = subscription(limits=Thresholds(), verdict=verdict, group_members=0.0, lag_slope=5.0)
    subject = Subject("prod", "payments", "orders", None, None)
    actions = [it for it in leaf_of(verdict).actions(subject, stopped) if it.checks]
    later = subscription(group_members=3.0, committed_moved=500.0, committed_recent_per_second=pace, lag_slope=-5.0)
    assert [all_hold(it.checks, later) for it in actions] == [answer]
