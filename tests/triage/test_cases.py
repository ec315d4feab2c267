"""Kept cases: measured features of stories, clients, incidents and odd life, judged without Spark (`evaluation.kept` chooses them)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from evaluation.corpus import Case
from evaluation.kept import from_text, read, reasons_of, to_text
from evaluation.stories.score import Mark
from workbench.triage.question_order import TREE
from workbench.triage.tree_walk import CALM
from workbench.triage.verdict_names import Answer, Verdict

CASES = list(read())
# Rules that decide no kept case: of batches, owners, restoring, quotas, remote storage, returns, rollouts, two readers and jobs, which
# tests with a story of their own have (test_batch, test_owners, test_own_work, test_cold_read, test_after_a_stop, test_scaled_out,
# test_events, test_slowed_by_failures, test_subtasks_of_jobs), and of what is hardly measured. A rule that is neither here nor in a
# case is new.
WITHOUT_A_CASE = frozenset(
    {
        "cold_read.cold",
        "cold_read.nobody_reads",
        "cold_read.own_work",
        "cold_read.remote",
        "cold_read.start_unknown",
        "consuming.batch_missed",
        "consuming.gone",
        "consuming.just_back",
        "consuming.restoring",
        "consuming.unowned",
        "consuming.unsubscribed",
        "data_usable.bad",
        "data_usable.to_and_fro",
        "failing.no_baseline",
        "hot_partition.alone",
        "lagging.abandoned",
        "lagging.batch_drains",
        "lagging.batch_in_time",
        "lagging.batch_late",
        "lagging.batch_unknown",
        "lagging.client_hangs",
        "lagging.short",
        "one_queue.busy_member",
        "queue_backed_up.few_busy",
        "queue_backed_up.inside",
        "queue_backed_up.may_wait_inside",
        "queue_backed_up.no_queue",
        "queue_backed_up.round_trips",
        "queue_backed_up.waits_inside",
        "rebalancing.crashing",
        "rebalancing.rollout",
        "reset.anew",
        "reset.late_commits",
        "slowed.again",
        "stuck.no_commits",
        "stuck.restoring",
        "stuck.unowned",
        "throttled.next_answer",
        "too_few.no_members",
        "too_few.uneven",
    }
)


def _id(found: tuple[Case, str, list[str]]) -> str:
    return f"{found[0].set} {found[0].name} → {found[1]}"


@pytest.mark.parametrize(("case", "verdict", "path"), CASES, ids=map(_id, CASES))
def test_verdict_and_path_are_those_of_the_case(case: Case, verdict: str, path: list[str]) -> None:
    """Every question on the way, and the rule that decided it; and the verdict is right."""
    row = case.judged()
    assert (str(row.verdict), reasons_of(row)) == (verdict, path)
    assert case.mark(row) is Mark.RIGHT


def test_every_rule_decides_somewhere() -> None:
    """On the path of a kept case, or it is one of those that none has."""
    decided = {reason for _, _, path in CASES for reason in path}
    every = {f"{name}.{rule.id}" for name, node in TREE.items() for rule in node.rules}
    assert every - decided == WITHOUT_A_CASE


def test_the_cases_are_of_every_verdict() -> None:
    """Some that are calm, and each cause."""
    found = Counter(verdict for _, verdict, _ in CASES)
    assert set(found) == {str(it) for it in Verdict} - {"batch_missed", "cold_read"}


def test_a_case_is_kept_as_it_was() -> None:
    """Written again, it is the same text."""
    for case, verdict, path in CASES[:20]:
        again, *same = from_text(to_text(case, case.judged()))
        assert (again.measured, same) == (case.measured, [verdict, path])


def test_what_is_open_ends_the_walk_or_was_passed() -> None:
    """A path has open questions only at its end, or where a proof or a side question passed them."""
    for case, _, _ in CASES:
        row = case.judged()
        open_ones = [name for name in row.path if row.answers[name] is Answer.CANNOT_TELL]
        assert set(open_ones) <= {*row.passed, row.path[-1]}
        assert row.verdict not in CALM or not open_ones


def test_failures_without_a_good_time_to_compare_with_are_no_all_clear() -> None:
    """Nobody knows whether as many fail usually; where hardly any fail, that is not asked."""
    case = next(case for case, verdict, _ in CASES if verdict == "failing_records")
    for failed, wanted in ((1.0, "cannot_tell"), (0.0, "healthy")):
        unknown = tuple(
            replace(it, failing_baseline=None, failed=(it.failed or 0.0) * failed) for it in case.measured.processors
        )
        row = replace(case, measured=replace(case.measured, processors=unknown)).judged()
        assert row.verdict == wanted
        assert (row.reasons["failing"] == "no_baseline") is (wanted == "cannot_tell")
