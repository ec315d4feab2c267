"""Restarts of jobs with checkpoints, from pages of their exporters: what is said holds what happened, and no more is said."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from tests.cli.running import run_here
from tests.reference.valid import valid
from workbench.api.checkpoint_restarts import job_restarts as restarts_of
from workbench.collect.capture import Capture, CaptureInfo, WindowModel, write_capture
from workbench.collect.scrape import Page, page_series
from workbench.collect.source_join import with_derived, with_groups
from workbench.errors import ExitCode
from workbench.history.job_restarts import JobRestarts, job_restarts
from workbench.profiles import load_profile
from workbench.samples import SERIES_ORDER, SampleBatch, concat_series
from workbench.window import Window

START = 1_795_600_000.0
SECONDS = 600
WINDOW = Window(
    baseline_start=datetime.fromtimestamp(START, UTC),
    start=datetime.fromtimestamp(START, UTC),
    end=datetime.fromtimestamp(START + SECONDS, UTC),
)
SOURCE = "flink_taskmanager_job_task_operator_KafkaSourceReader_topic_partition"


@dataclass
class FlinkJob:
    """A job of one partition that reads `rate` records a second, of which as many arrive; crashes last `down` seconds."""

    crashes: Sequence[int] = ()
    rate: int = 100
    down: int = 40
    every: int = 30  # between checkpoints
    scrape: int = 5
    end_age: int = 0  # of what the exporter tells, in seconds
    read_again: list[int] = field(default_factory=list)
    restored: list[float] = field(default_factory=list)

    def pages(self) -> list[tuple[float, str, str]]:
        """Time, page of the job, page of an exporter."""
        position, checkpoint, committed, restored, down = 1_000, 1_000, -1, START - 1, 0  # of its first start too
        found = []
        for second in range(SECONDS):
            if second in self.crashes:
                self.read_again.append(position - checkpoint)
                down = self.down
            if down:
                down -= 1
                if not down:
                    position, committed, restored = checkpoint, -1, START + second
                    self.restored.append(restored)
            else:
                position = min(position + 2 * self.rate, 1_000 + self.rate * second)
                if second % self.every == 0:
                    checkpoint = committed = position
            if second % self.scrape == 0:
                of_job = f'flink_jobmanager_job_lastCheckpointRestoreTimestamp{{job_name="pay"}} {restored * 1000}\n'
                if not down:
                    labels = '{job_name="pay",topic="orders",partition="0"}'
                    of_job += (
                        f"{SOURCE}_currentOffset{labels} {position - 1}\n{SOURCE}_committedOffset{labels} {committed}\n"
                    )
                end = 1_000 + self.rate * (second + 1 - self.end_age)
                exported = f'kafka_topic_partition_current_offset{{topic="orders",partition="0"}} {end}\n'
                found.append((START + second, of_job, exported))
        return found


def samples(pages: Sequence[tuple[float, str, str]], profile: str = "flink", *, without: str = "\0") -> pa.Table:
    """Samples of the pages, but for lines with a word."""
    found = []
    for at, *texts in pages:
        for name, text in zip((profile, "kafka_exporter"), texts, strict=True):
            kept = "".join(f"{it}\n" for it in text.splitlines() if without not in it)
            if not kept:
                continue
            chosen = load_profile(name)
            for series in page_series(Page(url="http://page", taken_at=at, text=kept), [chosen], cluster="c"):
                found.append(with_groups(series, chosen, {"pay": "payments"}))
    table = with_derived(concat_series(found)).to_samples()
    return table.sort_by([(it, "ascending") for it in (*SERIES_ORDER, "ts")])


def found_in(job: FlinkJob, *, without: str = "\0") -> JobRestarts:
    """What is found of a job."""
    return job_restarts(samples(job.pages(), without=without), WINDOW)


@pytest.mark.parametrize("seed", range(12))
def test_bounds_hold_what_was_read_again_and_how_long_it_stood(seed: int) -> None:
    """Whatever the rates, the checkpoints and the scrapes are."""
    chance = random.Random(seed)
    job = FlinkJob(
        crashes=(chance.randrange(100, 200), chance.randrange(350, 450)), rate=chance.choice([1, 37, 400]),
        down=chance.randrange(12, 90), every=chance.choice([10, 30, 60]), scrape=chance.choice([5, 10]), end_age=chance.choice([0, 4]),
    )  # fmt: skip
    found = found_in(job)
    assert [it.restored for it in found.restarts] == pytest.approx(job.restored)
    for it, truth in zip(found.restarts, job.read_again, strict=True):
        assert it.missing == ()
        assert it.read_again_low is not None
        assert it.read_again_high is not None
        assert it.read_again_low <= truth <= it.read_again_high
        assert it.outage_seconds is not None
        assert job.down <= it.outage_seconds <= job.down + 2 * job.scrape
        assert it.replay_ratio[1] == it.read_again_high / (it.passed or 0)
    first = found.restarts[0]  # it was at the end of the log: only what is read and arrives within scrapes is open
    assert (first.read_again_high or 0) - (first.read_again_low or 0) <= 6 * job.rate * job.scrape


def test_a_job_that_did_not_restart_has_none_and_tells_so() -> None:
    """It tells its first start. A start before which nobody saw it is none, also while it has not read anything."""
    found = found_in(FlinkJob())
    assert (found.restarts, found.told, found.untold) == ((), ("payments",), ())
    assert found_in(FlinkJob(), without="Offset{").restarts == ()
    born = [it for it in FlinkJob(crashes=(150,)).pages() if it[0] >= START + 190]
    assert job_restarts(samples(born), WINDOW).restarts == ()


def test_what_is_not_measured_is_named_and_never_none_read_again() -> None:
    """Each signal in turn is left out."""
    crash = FlinkJob(crashes=(235,))
    assert found_in(crash, without="lastCheckpointRestore").untold == ("payments",)
    [it] = found_in(crash, without="_committedOffset").restarts
    assert (it.read_again_high, it.missing) == (None, ("committed_offset",))
    assert (it.read_again_low or 0) > 0
    [it] = found_in(crash, without="current_offset").restarts
    assert (it.read_again_high, it.missing) == (None, ("log_end_offset",))
    [it] = found_in(crash, without="_currentOffset").restarts
    assert (it.read_again_low, it.missing) == (0, ("read_offset",))
    assert (it.read_again_high or 0) >= crash.read_again[0]
    [it] = found_in(crash, without="Offset{").restarts
    assert (it.since, it.until, it.read_again_low, it.read_again_high) == (None, None, None, None)


def test_a_job_that_falls_again_before_it_was_seen_to_read_is_bounded() -> None:
    """What it has read since is not known, but not more than there was behind its checkpoint."""
    crash = FlinkJob(crashes=(400, 432), down=30, scrape=5)
    unseen = [
        (at, of_job if not 425 < at - START < 435 else of_job.splitlines()[0] + "\n", end)
        for at, of_job, end in crash.pages()
    ]
    first, second = job_restarts(samples(unseen), WINDOW).restarts
    assert (first.missing, second.missing) == ((), ())
    assert (second.since, second.read_again_low, second.passed) == (None, 0, None)
    assert (second.read_again_high or -1) >= crash.read_again[1]


def test_a_job_that_begins_from_an_older_checkpoint_has_no_upper_bound() -> None:
    """Someone started it from a savepoint of before: what its last checkpoint says is no bound of what it reads again."""
    crash = FlinkJob(crashes=(400,), down=20)
    pages = [it for it in crash.pages() if it[0] < START + 420]
    labels = '{job_name="pay",topic="orders",partition="0"}'
    of_job = f'flink_jobmanager_job_lastCheckpointRestoreTimestamp{{job_name="pay"}} {(START + 419) * 1000}\n'
    of_job += f"{SOURCE}_currentOffset{labels} 1199\n{SOURCE}_committedOffset{labels} -1\n"
    [it] = job_restarts(samples([*pages, (START + 420, of_job, pages[-1][2])]), WINDOW).restarts
    assert (it.read_again_high, it.missing) == (None, ())
    assert (it.read_again_low or 0) > crash.read_again[0]


def test_a_job_that_has_not_come_back_is_not_said_to_have() -> None:
    """The window ends before its sources are there again."""
    pages = [it for it in FlinkJob(crashes=(500,)).pages() if it[0] < START + 540]
    of_job = f'flink_jobmanager_job_lastCheckpointRestoreTimestamp{{job_name="pay"}} {(START + 539) * 1000}\n'
    [it] = job_restarts(samples([*pages, (START + 540, of_job, pages[-1][2])]), WINDOW).restarts
    assert it.since is not None
    assert (it.until, it.outage_seconds) == (None, None)


def test_an_idle_job_has_not_stood_since_its_last_record() -> None:
    """It was at the end of the log until it fell: it has missed nothing before."""
    [it] = found_in(FlinkJob(crashes=(400,), rate=0)).restarts
    assert it.outage_seconds is not None
    assert it.outage_seconds <= 50
    assert it.replay_ratio == (None, None)  # of nothing


def test_a_query_of_spark_is_at_work_again_once_a_batch_ended() -> None:
    """Its listener tells ends of batches: how much of one was read twice is a bound."""
    found = []
    for second in range(0, SECONDS, 5):
        is_down = 300 <= second < 340
        started = START + (0 if second < 340 else 338)
        done = 1_000 + 100 * ((second if second < 300 else 290 if second < 355 else second) // 10 * 10)
        page = f'spark_kafka_query_started_seconds{{query="pay"}} {started}\n'
        if not 340 <= second < 355:
            page += f'spark_kafka_end_offset{{query="pay",topic="orders",partition="0"}} {done}\n'
        end = f'kafka_topic_partition_current_offset{{topic="orders",partition="0"}} {1_000 + 100 * (second + 1)}\n'
        found.append((START + second, "" if is_down else page, end))
    [it] = job_restarts(samples(found, "spark_streaming"), WINDOW).restarts
    assert it.restored == START + 338
    assert (it.since, it.until) == (START + 290, START + 355)
    assert (it.read_again_low, it.missing) == (0, ("read_offset",))
    assert it.read_again_high is not None
    assert 1_000 <= it.read_again_high <= 1_700


def test_a_client_that_commits_to_kafka_is_no_job() -> None:
    """Nobody says that its restarts cannot be told: it has no checkpoint to begin from."""
    batch = SampleBatch("c", "librdkafka")
    times = [(START + second) * 1_000_000 for second in range(0, SECONDS, 30)]
    labels = {"group": "pay", "topic": "orders", "partition": 0, "member": "pay-0"}
    for signal in ("committed_offset", "given_offset"):
        batch.add(signal, labels, times, [float(at) for at in range(len(times))])
    assert job_restarts(batch.to_arrow(), WINDOW) == JobRestarts()


def test_the_command_says_it_of_a_recording(tmp_path: Path) -> None:
    """3: there is one; 4: no job tells. JSON has the shape of its schema, and says that it is recorded."""
    table = samples(FlinkJob(crashes=(235,)).pages())
    info = CaptureInfo(
        cluster="prod",
        source="prometheus",
        profiles=["flink"],
        window=WindowModel(baseline_start=WINDOW.baseline_start, start=WINDOW.start, end=WINDOW.end),
        created_at=WINDOW.end,
    )
    write_capture(tmp_path / "capture", Capture(info=info, samples=table))
    write_capture(tmp_path / "nothing", Capture(info=info, samples=table.slice(0, 0)))
    made = restarts_of(capture=tmp_path / "capture")
    assert made.exit_code == ExitCode.FINDINGS
    told = valid("audit-restarts", made.to_json())
    assert (told["recorded"], told["restarts"][0]["group"]) == (True, "payments")
    shown = run_here("audit", "restarts", "--capture", "capture", cwd=tmp_path)
    assert shown.returncode == ExitCode.FINDINGS
    assert "payments  restored " in shown.stdout
    assert "records read again" in shown.stdout
    shown = run_here("audit", "restarts", "--capture", "nothing", cwd=tmp_path)
    assert shown.returncode == ExitCode.EVIDENCE
    assert "No job tells" in shown.stderr
