"""A batch is silent between its runs, and a run that was due and did not come is named: with a lag exporter alone.

The data of a triage reach back 75 minutes, and the last run is often hours ago.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.triage.judging import rows_of
from workbench.collect.capture import Capture, new_info
from workbench.samples import SampleBatch, SeriesTable, concat
from workbench.settings_of_groups import Expectations, GroupSettings
from workbench.sweep.fleet_store import StoreInfo, make_store
from workbench.sweep.sweep_engine import sweep
from workbench.thresholds import Thresholds
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.triage_engine import triage
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import State, Verdict
from workbench.window import Window

pytestmark = pytest.mark.jvm

END = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)  # a Saturday
WINDOW = Window.ending(END, length=timedelta(minutes=15), baseline=timedelta(hours=1))
LOADED = 75 * 60.0
MINUTE, HOUR = 60.0, 3600.0
RATE = 5.0  # messages per second and partition


@dataclass
class Batch:
    """A batch that an exporter watches; runs are seconds before the window's end at which one has read everything.

    A partition may have runs of its own. `told`: the exporter knows the age of the oldest message.
    """

    schedule: str | None
    runs: Sequence[float]
    want: Verdict
    others: Sequence[float] | None = None  # runs of the partitions from the second one on
    told: bool = False
    members: float | None = 0.0
    busy: float | None = None  # factor of the arrivals in the data, compared with those before

    def samples(self, name: str) -> pa.Table:
        """What the exporter shows."""
        batch = SampleBatch("c", "kafka_exporter")
        times = np.arange(-LOADED, 1.0, 30.0)
        stamps = np.round((END.timestamp() + times) * 1e6).astype(np.int64)

        def produced(at: Any) -> Any:
            """Messages up to a time: a week of them before the data."""
            at = np.asarray(at, dtype=float)
            return np.floor(1e7 + RATE * (np.minimum(at, -LOADED) + (self.busy or 1.0) * np.maximum(at + LOADED, 0.0)))

        for number in range(3):
            runs = np.sort([-it for it in (self.runs if number == 0 or self.others is None else self.others)])
            last = np.array([max((run for run in runs if run <= at), default=runs[0]) for at in times])
            place, log = (
                {"group": name, "topic": f"{name}-t", "partition": number},
                {"topic": f"{name}-t", "partition": number},
            )
            committed, end = produced(last), produced(times)
            batch.add("log_end_offset", log, stamps, end)
            batch.add("log_start_offset", log, stamps, np.zeros(len(times)))
            batch.add("committed_offset", place, stamps, committed)
            batch.add("consumer_lag", place, stamps, end - committed)
            if self.told:
                batch.add("time_lag", place, stamps, np.maximum(times - last, 0.0))
        if self.members is not None:
            batch.add("group_members", {"group": name}, stamps, np.full(len(times), self.members))
        return batch.to_arrow()


DAY = 24 * HOUR
CASES = {
    "ran in the data": Batch("0 2 * * *", (57 * MINUTE, 25 * HOUR), Verdict.HEALTHY),
    "missed an hour ago": Batch("0 2 * * *", (25 * HOUR,), Verdict.BATCH_MISSED),
    "missed four minutes ago": Batch("56 2 * * *", (DAY,), Verdict.BATCH_MISSED),
    "still allowed to begin": Batch("59 2 * * *", (DAY,), Verdict.HEALTHY),
    "silent for 23 hours": Batch("0 4 * * *", (23 * HOUR - 3 * MINUTE,), Verdict.HEALTHY),
    "missed nine hours ago": Batch("0 18 * * *", (33 * HOUR - 3 * MINUTE,), Verdict.BATCH_MISSED),
    "not due at the weekend": Batch("0 1 * * 1-5", (26 * HOUR - 2 * MINUTE,), Verdict.HEALTHY),
    "missed, and the exporter knows the age": Batch("0 23 * * *", (28 * HOUR,), Verdict.BATCH_MISSED, told=True),
    "silent, and the exporter knows the age": Batch("0 23 * * *", (4 * HOUR - MINUTE,), Verdict.HEALTHY, told=True),
    "missed in another time zone": Batch("CRON_TZ=Europe/Berlin 30 3 * * *", (DAY,), Verdict.BATCH_MISSED),
    "every six hours, five ago": Batch("every 6h", (5 * HOUR,), Verdict.HEALTHY),
    "every six hours, fourteen ago": Batch("every 6h", (14 * HOUR,), Verdict.BATCH_MISSED),
    "every hour, 70 minutes ago, in the data": Batch("every 1h", (70 * MINUTE, 130 * MINUTE), Verdict.BATCH_MISSED),
    "every hour, 40 minutes ago, in the data": Batch("every 1h", (40 * MINUTE, 100 * MINUTE), Verdict.HEALTHY),
    "members stay, and the run does not come": Batch("0 2 * * *", (25 * HOUR,), Verdict.BATCH_MISSED, members=3.0),
    "without members in the metrics": Batch("0 2 * * *", (25 * HOUR,), Verdict.BATCH_MISSED, members=None),
    "silent, in the busiest hour": Batch("0 5 * * *", (22 * HOUR,), Verdict.HEALTHY, busy=1.6),
    # By the rate in the data it is 32 hours' worth: a run 19 hours ago and less traffic since, or the one of yesterday.
    "the data do not say": Batch("0 8 * * *", (19 * HOUR,), Verdict.CANNOT_TELL, busy=0.6),
}  # fmt: skip


def expected(name: str, it: Batch) -> dict[str, GroupSettings]:
    """The settings of one."""
    return {} if it.schedule is None else {name: GroupSettings(batch=it.schedule)}


def named(text: str) -> str:
    """The group of a case."""
    return text.replace(" ", "-").replace(",", "")


@pytest.fixture(scope="module")
def rows(spark: Any) -> dict[str, SubscriptionFeatures]:
    """All of them in one job."""
    known = Expectations({k: v for name, it in CASES.items() for k, v in expected(named(name), it).items()})
    table = concat(it.samples(named(name)) for name, it in CASES.items())
    return rows_of(spark, table, thresholds=Thresholds(), window=WINDOW, expectations=known)


@pytest.mark.parametrize("name", CASES)
def test_silence_is_healthy_and_a_missed_run_is_not(rows: dict[str, SubscriptionFeatures], name: str) -> None:
    """By the schedule of the settings."""
    row = rows[named(name)]
    assert row.verdict is CASES[name].want, (row.answers, row.batch_late, row.batch_ran, row.batch_due_seconds)


def test_a_run_that_left_partitions_out_is_late_and_not_missed(spark: Any) -> None:
    """It ran: why a part of it stands still is another question."""
    it = Batch("0 2 * * *", (25 * HOUR,), Verdict.CANNOT_TELL, others=(57 * MINUTE, 25 * HOUR))
    row = rows_of(
        spark,
        it.samples("part"),
        thresholds=Thresholds(),
        window=WINDOW,
        expectations=Expectations(expected("part", it)),
    )["part"]
    assert row.batch_late and row.batch_ran and not row.batch_missed
    assert leaf_of(row.verdict).state is not State.HEALTHY
    assert row.verdict is not Verdict.BATCH_MISSED


def test_without_the_setting_the_same_silence_is_no_batch(spark: Any) -> None:
    """Nobody can know it."""
    it = CASES["missed an hour ago"]
    row = rows_of(spark, it.samples("g"), thresholds=Thresholds(), window=WINDOW)["g"]
    assert (row.batch_due_seconds, row.batch_missed) == (None, False)
    assert row.verdict is not Verdict.BATCH_MISSED


def captured(names: Sequence[str]) -> Capture:
    """A recording of some of the cases."""
    info = new_info(
        cluster="c",
        source="prometheus",
        profiles=["kafka_exporter"],
        window=WINDOW,
        expected={k: v for name in names for k, v in expected(named(name), CASES[name]).items()},
    )
    return Capture(info=info, samples=concat(CASES[name].samples(named(name)) for name in names))


def test_the_finding_says_when_the_run_was_due(spark: Any) -> None:
    """Of one group, and of a recording with several; the incident begins when it was due."""
    names = ["missed an hour ago", "silent for 23 hours", "every hour, 70 minutes ago, in the data"]
    capture = captured(names)
    of_all = {it.group: it for it in triage(capture, spark).findings}
    for name in names:
        (alone,) = triage(capture, spark, groups=[named(name)]).findings
        assert alone.headline == of_all[named(name)].headline
    missed = of_all[named(names[0])]
    assert missed.headline.startswith(
        "Batch missed: the run due at 2026-11-21 02:00Z (1 h ago) has committed nothing;"
    ), missed.headline
    assert missed.since == datetime(2026, 11, 21, 2, tzinfo=UTC)
    assert missed.runbook == "runbooks/BatchMissed.md"
    assert "the run due at 2026-11-20 04:00Z (23 h ago) left nothing behind" in of_all[named(names[1])].headline
    # 70 minutes ago, and an hour later it was due.
    assert "the run due at 2026-11-21 02:50Z (10 min ago)" in of_all[named(names[2])].headline


def test_a_sweep_says_the_same(spark: Any, tmp_path: Path) -> None:
    """Each group of the table has the verdict of its triage."""
    info = StoreInfo(
        cluster="c",
        slot_seconds=900,
        profiles=["kafka_exporter"],
        expected={k: v for name, it in CASES.items() for k, v in expected(named(name), it).items()},
    )
    store = make_store(tmp_path / "store", info)
    table = concat(it.samples(named(name)) for name, it in CASES.items())
    for end in store.slots_of(store.window_ending(END)):
        store.land(end, SeriesTable.of_samples(table))
    found = sweep(store, spark, top=100)
    assert dict(zip(found.table["group"].to_pylist(), found.table["verdict"].to_pylist(), strict=True)) == {
        named(name): it.want for name, it in CASES.items()
    }
    headlines = {it.group: it.headline for it in found.findings}
    assert "due at 2026-11-21 02:00Z" in headlines[named("missed an hour ago")]
