"""`workbench audit restarts` on killed jobs of the real Spark and the real Flink: what it says holds what their sinks have seen."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from evaluation.others.java_consumer import classes_of
from tests.lab.conftest import commit, produce
from tests.lab.killed_jobs import Feed, KilledJob, fed, restarts
from tests.waiting import wait_for
from workbench.api.checkpoint_restarts import RestartsResult
from workbench.errors import ExitCode
from workbench.files import atomic_folder
from workbench.history.job_restarts import JobRestart
from workbench.lab import process
from workbench.lab.kafka_jars import FLINK, SPARK_KAFKA, JarSet, ensure
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import create_topic
from workbench.spark.java import find_java
from workbench.user_folders import cache_dir

pytestmark = [pytest.mark.lab, pytest.mark.slow]

HERE = Path(__file__).parent
DOCUMENT = HERE.parent.parent / "docs" / "profiles.md"
FLINK_JOB = HERE / "java" / "FlinkJob.java"
FIRST = 100  # records that are there when a job starts
NEWEST_JAVA = 21  # that both can run on
DOWN_SECONDS = 4.0
SCRAPE_SECONDS = 1.0  # of the lab's Prometheus; a sample has the time at which its scrape began
SEEN_SECONDS = 5.0  # until a busy machine's Prometheus has seen what a job tells
BATCH_SECONDS = 20.0  # of Spark, on such a machine

Ask = Callable[[], RestartsResult]


def fetched(*jars: JarSet) -> list[Path]:
    """Their folders."""
    if find_java().version > NEWEST_JAVA:
        pytest.skip(f"Spark 4.0 and Flink 1.20 do not run on Java {find_java().version}")
    return [ensure(it) for it in jars]


def spark_python() -> Path:
    """Folder with the Spark that the connector's jars are for, which is another one than the product's."""
    target = cache_dir() / f"spark-{SPARK_KAFKA.version}" / "python"
    if not target.exists():
        with atomic_folder(target, replace=True) as part:
            words = [sys.executable, "-m", "pip", "install", "-q", "--target", part, f"pyspark=={SPARK_KAFKA.version}"]
            subprocess.run(words, check=True, timeout=300)
    return target


def holds(it: JobRestart, job: KilledJob, fell: float, until: float, *, longer_seconds: float) -> int:
    """What is said of one restart is true of the sink; the records that were really read again before `until`."""
    truth, (last, next_read) = job.read_again(fell, until), job.stood(fell)
    assert it.read_again_low is not None
    assert it.read_again_high is not None
    assert it.read_again_low <= truth <= it.read_again_high
    assert it.since is not None
    assert it.until is not None
    assert last - longer_seconds <= it.since <= fell < it.restored
    assert next_read - SCRAPE_SECONDS <= it.until <= next_read + longer_seconds
    return truth


def begun(lab: Lab, job: KilledJob, feed: Feed, topic: str, ask: Ask) -> None:
    """Start it for the first time, and let it read undisturbed: no restart."""
    job.start()
    produce(lab, topic, {0: FIRST // 2, 1: FIRST // 2})
    job.reads()
    wait_for(lambda: ask().found.told == ("pay",))
    assert ask().exit_code == ExitCode.OK
    feed.held.clear()
    wait_for(lambda: job.has_read_all(6 * FIRST), 90)
    assert ask().exit_code == ExitCode.OK


def seen(ask: Ask, count: int) -> tuple[JobRestart, ...]:
    """So many restarts, once the job was seen to read after the last one."""
    wait_for(lambda: len(told := ask().found.restarts) == count and told[-1].until is not None, 60)
    return ask().found.restarts


def fail(job: KilledJob) -> float:
    """Let it fail at a record, in the midst of others; when."""
    (job.folder / "fail").touch()
    wait_for(lambda: not (job.folder / "fail").exists(), 60)
    return time.time()


def restarted_idle(job: KilledJob, feed: Feed, ask: Ask, count: int, *, known_seconds: float) -> float:
    """Kill it when it has read all that there is, and produce again once it is back; when it was killed."""
    feed.held.set()
    wait_for(lambda: job.has_read_all(FIRST + feed.sent), 90)
    time.sleep(known_seconds)
    fell = job.kill()
    time.sleep(DOWN_SECONDS)
    job.start()
    wait_for(lambda: len(ask().found.restarts) == count, 120)
    feed.held.clear()
    job.reads()
    return fell


@pytest.mark.usefixtures("prometheus_url")
def test_a_killed_query_of_spark_is_told_with_what_it_read_again(lab: Lab, admin: AdminClient, tmp_path: Path) -> None:
    """The listener is that of the documents. The batch in which it fails or is killed is read again; killed while idle, nothing is."""
    [jars], python = fetched(SPARK_KAFKA), spark_python()
    shipped = {it.name for it in (python / "pyspark" / "jars").glob("*.jar")}
    own = ",".join(str(it) for it in jars.glob("*.jar") if it.name not in shipped)
    topic, port = "spark.killed-jobs", process.free_port()
    create_topic(lab.bootstrap, topic, 2)
    # The lab's exporter tells the log's end of topics that groups have committed.
    commit(admin, "other", topic, {0: 0, 1: 0})
    job = KilledJob(
        tmp_path,
        lambda run: [
            sys.executable, HERE / "spark_job.py", lab.bootstrap, topic, tmp_path, str(run), str(port), DOCUMENT, own,
        ],
        env={"PYTHONPATH": str(python)},
    )  # fmt: skip
    profiles = ["kafka_exporter", "spark_streaming"]
    ask = partial(restarts, lab, tmp_path, time.time(), profiles=profiles, members={"pay-query": "pay"})
    lab.watch("spark", [f"127.0.0.1:{port}"])
    with job, fed(lab, topic) as feed:
        begun(lab, job, feed, topic, ask)
        failed = fail(job)
        seen(ask, 1)
        first = job.kill_while_reading()
        time.sleep(DOWN_SECONDS)
        job.start()
        job.reads()
        seen(ask, 2)
        second = restarted_idle(job, feed, ask, 3, known_seconds=2 * SEEN_SECONDS)
        started, one, other = seen(ask, 3)
    assert holds(started, job, failed, first, longer_seconds=BATCH_SECONDS) > 0
    assert holds(one, job, first, second, longer_seconds=BATCH_SECONDS) > 0
    assert holds(other, job, second, time.time(), longer_seconds=BATCH_SECONDS) == 0
    assert other.read_again_high == 0
    assert other.since is not None
    assert other.since >= second - SEEN_SECONDS  # it had nothing left to read: not since its last record


@pytest.mark.usefixtures("prometheus_url")
def test_a_killed_job_of_flink_is_told_with_what_it_read_again(lab: Lab, tmp_path: Path) -> None:
    """Killed and started from its last checkpoint, restarted by Flink after an error, and killed while idle."""
    class_path = ":".join(f"{it}/*" for it in fetched(*FLINK))
    classes, topic, port = classes_of([FLINK_JOB], *FLINK), "flink.killed-jobs", process.free_port()
    create_topic(lab.bootstrap, topic, 2)
    opened = [f"--add-opens=java.base/java.{it}=ALL-UNNAMED" for it in ("util", "lang", "time", "net")]
    job = KilledJob(
        tmp_path,
        lambda run: [
            find_java().program, *opened, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            "-cp", f"{classes}:{class_path}", "FlinkJob", lab.bootstrap, topic, tmp_path, str(run), str(port), "3",
        ],
    )  # fmt: skip
    profiles = ["flink", "kafka_exporter"]
    ask = partial(restarts, lab, tmp_path, time.time(), profiles=profiles, members={"pay-app": "pay"})
    lab.watch("flink", [f"127.0.0.1:{port}"])
    with job, fed(lab, topic) as feed:
        begun(lab, job, feed, topic, ask)
        first = job.kill_while_reading()
        time.sleep(DOWN_SECONDS)
        job.start()
        job.reads()
        seen(ask, 1)
        second = fail(job)
        seen(ask, 2)
        third = restarted_idle(job, feed, ask, 3, known_seconds=SEEN_SECONDS)
        one, other, idle = seen(ask, 3)
    truth = holds(one, job, first, second, longer_seconds=SEEN_SECONDS)
    assert truth + holds(other, job, second, third, longer_seconds=SEEN_SECONDS) > 0
    assert holds(idle, job, third, time.time(), longer_seconds=2 * SEEN_SECONDS) == 0
    assert idle.since is not None
    assert idle.since >= third - SEEN_SECONDS  # it had nothing left to read: not since its last record
