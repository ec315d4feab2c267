"""Jobs whose subtasks tell of themselves (Flink): an exporter counts none of them, and each restart of the job makes clients anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from evaluation.stories.truth import WINDOW
from tests.triage.judging import rows_of
from tests.triage.test_jobs_that_read_on import (
    AT,
    BAD,
    BEGAN,
    COMMITTED,
    END,
    PARTITIONS,
    RATE,
    READ,
    STANDS,
    checkpointed,
    standing,
)
from workbench.collect.source_join import with_derived
from workbench.samples import SampleBatch
from workbench.thresholds import Thresholds
from workbench.triage.action_subject import Subject
from workbench.triage.outcome_checks import all_hold
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import Answer, Verdict

pytestmark = pytest.mark.jvm

SUBTASKS = 2
EACH = RATE * PARTITIONS / SUBTASKS  # records/s of one
STARTED = float(WINDOW.baseline_start.timestamp())


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is measured of one; by default it is well. `seen` are the samples in which its subtasks tell of themselves.

    `less` is how many times less the last subtask's sink has to do than the others'.
    """

    read: np.ndarray = field(default_factory=lambda: READ)
    committed: np.ndarray = field(default_factory=lambda: COMMITTED)
    started: np.ndarray = field(default_factory=lambda: np.full(len(AT), STARTED))
    handled: np.ndarray = field(default_factory=lambda: np.full(len(AT), EACH))  # a second, of each subtask's sink
    busy: np.ndarray = field(default_factory=lambda: np.full(len(AT), 0.3))
    idle: np.ndarray = field(default_factory=lambda: np.full(len(AT), 0.9))
    seen: np.ndarray = field(default_factory=lambda: np.full(len(AT), True))
    less: np.ndarray = field(default_factory=lambda: np.ones(len(AT)))


SLOWER = np.where(BAD, standing(END) + (AT - BEGAN) * 0.5 * RATE, READ)
JOBS = {
    "well": Job(),
    "cancelled": Job(read=standing(READ), committed=standing(COMMITTED), seen=~BAD),
    "crashes": Job(
        read=np.where(BAD, STANDS + (AT - BEGAN) % 120 * RATE, READ),
        committed=STANDS,
        started=np.where(BAD, STARTED + np.floor((AT - BEGAN) / 120) * 120 + 9000, STARTED),
        handled=np.where(BAD, EACH / 2, EACH),
    ),
    "waits inside": Job(
        committed=STANDS, handled=np.where(BAD, EACH / 2, EACH), busy=np.where(BAD, 1.0, 0.3),
    ),
    "uneven keys": Job(
        committed=STANDS, handled=np.where(BAD, 0.8 * EACH, EACH), busy=np.where(BAD, 1.0, 0.8), less=np.where(BAD, 20.0, 1.0),
    ),
    "checkpoints fail": Job(committed=STANDS),
    "slower": Job(
        read=SLOWER, committed=checkpointed(SLOWER), idle=np.where(BAD, 0.0, 0.9), busy=np.where(BAD, 1.0, 0.3),
        handled=np.where(BAD, EACH / 2, EACH),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark: Any) -> dict[str, SubscriptionFeatures]:
    """All of them at once."""
    stamps = np.round((WINDOW.end.timestamp() + AT) * 1e6).astype(np.int64)
    batch = SampleBatch("test", "page")
    for name, job in JOBS.items():
        batch.add("group_members", {"group": name}, stamps, np.zeros(len(stamps)))
        for partition in range(PARTITIONS):
            labels = {"topic": name, "partition": partition}
            batch.add("log_end_offset", labels, stamps, END)
            batch.add("committed_offset", {**labels, "group": name}, stamps, np.minimum(job.committed, END))
            read = np.minimum(job.read, END)
            batch.add("read_offset", {**labels, "group": name}, stamps[job.seen], read[job.seen])
        for subtask in range(SUBTASKS):
            labels = {"group": name, "member": f"{name}-{subtask}"}
            told = {
                "start_time": job.started,
                "rebalances": np.zeros(len(AT)),
                "poll_age": np.ones(len(AT)),
                "poll_idle": job.idle,
            }
            for signal, values in told.items():
                batch.add(signal, labels, stamps[job.seen], values[job.seen])
            sink = {**labels, "processor": "sink"}
            less = job.less if subtask == SUBTASKS - 1 else 1.0
            handled = job.handled / less
            count = np.cumsum(handled) * float(np.diff(AT)[0])
            for stat, values in (("mean", job.busy / less), ("batch", handled), ("count", count)):
                batch.add("process_time", sink, stamps[job.seen], values[job.seen], stat=stat)
    return rows_of(spark, with_derived(batch.to_series()).to_samples(), thresholds=Thresholds(), window=WINDOW)


def test_a_count_that_is_disproved_is_that_of_those_who_poll(rows: dict[str, SubscriptionFeatures]) -> None:
    """An exporter's count of 0 is no number of members: there are as many as tell of their polls, and none that is known is not 0."""
    assert rows["well"].verdict is Verdict.HEALTHY, (rows["well"].verdict, rows["well"].reasons)
    assert {rows[it].group_members for it in ("well", "slower", "checkpoints fail")} == {float(SUBTASKS)}
    assert rows["cancelled"].group_members is None


def test_who_has_gone_and_commits_no_more_has_stopped(rows: dict[str, SubscriptionFeatures]) -> None:
    """That nobody counts its members leaves nothing open where they have told of themselves, and tell no more."""
    assert rows["cancelled"].verdict is Verdict.CONSUMER_STOPPED, rows["cancelled"].reasons


def test_who_starts_anew_again_and_again_crashes(rows: dict[str, SubscriptionFeatures]) -> None:
    """Although no rebalance is counted."""
    row = rows["crashes"]
    assert (row.verdict, row.storm_cause) == (Verdict.REBALANCE_STORM, "member_crash"), (row.verdict, row.reasons)
    assert row.reasons["rebalancing"] == "crashing"


def test_what_waits_inside_for_its_handlers_has_no_failing_commits(rows: dict[str, SubscriptionFeatures]) -> None:
    """Its source reads all that comes, and waits for more; a commit waits until the sink has handled what was read before."""
    row = rows["waits inside"]
    assert row.waits_inside is True and row.own_work is True and row.stall_cause is None
    assert row.verdict is Verdict.SLOW_PROCESSOR, (row.verdict, row.reasons)


def test_one_busy_subtask_beside_idle_ones_has_a_hot_key(rows: dict[str, SubscriptionFeatures]) -> None:
    """What a pipeline has read of every partition waits for one of its members: no partition has more, and no handler is slower."""
    row = rows["uneven keys"]
    assert row.verdict is Verdict.HOT_KEY, (row.verdict, row.reasons)
    assert row.hot_members == ("uneven keys-0",)
    assert not any(it.hot_members for name, it in rows.items() if name != "uneven keys")
    leaf = leaf_of(Verdict.HOT_KEY)
    assert leaf.scope(row).members == ("uneven keys-0",)
    assert "(uneven keys-0) busy all the time next to idle ones" in leaf.headline(row)
    actions = leaf.actions(Subject("test", "g", "t"), row)
    assert "keeps uneven keys-0 busy" in actions[0].title and actions[1].kind == "spread_keys"
    assert all_hold(actions[1].checks, row) is Answer.NO


def test_commits_that_stand_while_all_is_handled_fail(rows: dict[str, SubscriptionFeatures]) -> None:
    """Nothing waits inside."""
    row = rows["checkpoints fail"]
    assert row.waits_inside is False
    assert (row.verdict, row.stall_cause) == (Verdict.STUCK_PARTITION, "commit_fails"), (row.verdict, row.reasons)


def test_a_slower_sink_is_named(rows: dict[str, SubscriptionFeatures]) -> None:
    """The source waits for room, so its own work is the limit, and its times are compared with before."""
    assert rows["slower"].verdict is Verdict.SLOW_PROCESSOR, (rows["slower"].verdict, rows["slower"].reasons)
