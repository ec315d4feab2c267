"""Jobs that tell what they have read beside what they have committed, as Flink's: a commit that stands is not yet a reader that stands.

Nobody counts their members: an exporter shows none while their commits move.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evaluation.stories.truth import WINDOW
from tests.triage.judging import rows_of
from workbench.collect.source_join import with_derived
from workbench.samples import SampleBatch
from workbench.thresholds import Thresholds
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_names import Verdict

pytestmark = pytest.mark.jvm

EVERY, RATE, PARTITIONS = 30.0, 60.0, 4
AT = np.arange((WINDOW.baseline_start - WINDOW.end).total_seconds(), 1.0, EVERY)
END = 5e6 + RATE * (AT - AT[0])
BEGAN = -600.0
BAD = BEGAN < AT


def checkpointed(read: np.ndarray, every: float = 60.0) -> np.ndarray:
    """What the last checkpoint has committed of this."""
    at = np.floor((AT - AT[0]) / every) * every + AT[0]
    return read[np.searchsorted(AT, at)]


def standing(values: np.ndarray) -> np.ndarray:
    """As before, and since then as at the beginning of it."""
    return np.where(BAD, values[np.flatnonzero(BAD)[0] - 1], values)


READ = END - 40.0
COMMITTED = checkpointed(READ)
STANDS = standing(COMMITTED)
# What a partition's read position and commit are, the third one's if it differs.
JOBS: dict[str, tuple[np.ndarray, np.ndarray | None]] = {
    "well": (READ, COMMITTED),
    "checkpoints fail": (READ, STANDS),
    "slower, and checkpoints fail": (np.where(BAD, STANDS + 0.9 * (END - STANDS), READ), STANDS),
    "hangs": (standing(READ), checkpointed(standing(READ))),
    "falls and begins again": (np.where(BAD, STANDS + (AT - BEGAN) % 180 * 2 * RATE, READ), STANDS),
    "never commits": (READ, None),
    "a client that never commits": (READ, None),
    "a client whose commits stand": (READ, STANDS),
    "never commits, slower": (np.where(BAD, standing(END) + (AT - BEGAN) * 0.5 * RATE, READ), None),
}
CLIENTS = [it for it in JOBS if it.startswith("a client")]


@pytest.fixture(scope="module")
def rows(spark: Any) -> dict[str, SubscriptionFeatures]:
    """All of them at once."""
    stamps = np.round((WINDOW.end.timestamp() + AT) * 1e6).astype(np.int64)
    batch = SampleBatch("test", "page")
    for job, (read, committed) in JOBS.items():
        for partition in range(PARTITIONS):
            labels = {"topic": job, "partition": partition}
            batch.add("log_end_offset", labels, stamps, END)
            batch.add(
                "given_offset" if job in CLIENTS else "read_offset",
                {**labels, "group": job},
                stamps,
                np.minimum(read, END),
            )
            if committed is not None:
                batch.add("committed_offset", {**labels, "group": job}, stamps, np.minimum(committed, END))
        batch.add("group_members", {"group": job}, stamps, np.zeros(len(stamps)))
    return rows_of(spark, with_derived(batch.to_series()).to_samples(), thresholds=Thresholds(), window=WINDOW)


@pytest.mark.parametrize("job", ["well", "never commits"])
def test_who_keeps_up_is_well(rows: dict[str, SubscriptionFeatures], job: str) -> None:
    """Of a job that commits nothing, what it has read counts."""
    assert rows[job].verdict is Verdict.HEALTHY, (rows[job].verdict, rows[job].reasons)


def test_what_a_client_was_given_is_no_commit(rows: dict[str, SubscriptionFeatures]) -> None:
    """It keeps its position in Kafka, and would lose it with a restart; where the commits stand, it reads on, as a job does."""
    assert rows["a client that never commits"].verdict is not Verdict.HEALTHY
    stands, job = rows["a client whose commits stand"], rows["checkpoints fail"]
    assert (stands.verdict, stands.read_share, stands.polling) == (job.verdict, job.read_share, job.polling)


@pytest.mark.parametrize("job", ["checkpoints fail", "slower, and checkpoints fail"])
def test_who_reads_on_does_not_stand(rows: dict[str, SubscriptionFeatures], job: str) -> None:
    """Records are read; the commits do not arrive. No share says that nothing is read."""
    row = rows[job]
    assert (row.verdict, row.stall_cause) == (Verdict.STUCK_PARTITION, "commit_fails"), (row.verdict, row.reasons)
    assert row.polling is True and row.unread == []


@pytest.mark.parametrize("job", ["hangs", "falls and begins again"])
def test_who_gets_nowhere_is_not_said_to_read(rows: dict[str, SubscriptionFeatures], job: str) -> None:
    """A position that stands too, or that comes back to the commit again and again, proves no reading."""
    row = rows[job]
    assert row.stall_cause is None and row.polling is None and len(row.unread) == PARTITIONS
    assert row.verdict is Verdict.CANNOT_TELL, (row.verdict, row.reasons)


def test_a_slow_job_without_commits_is_late(rows: dict[str, SubscriptionFeatures]) -> None:
    """Its lag is that of what it has read: growing, and nothing says why."""
    row = rows["never commits, slower"]
    assert row.growing is True and row.verdict is Verdict.CANNOT_TELL, (row.verdict, row.reasons)
