"""Triage of a recorded incident, from the shell and in a running session."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tests.bench.harness import Result, median_seconds, result
from workbench.errors import SetupError
from workbench.lab.prometheus import ensure_prometheus, start_prometheus

CAPTURE = Path("notebooks/captures/incident-1")
COLD_RUNS, WARM_RUNS = 5, 5


def triage_cold() -> Result:
    """Shell to verdict: a new process, Spark and all."""
    program = Path(sys.executable).with_name("workbench")
    _learn()

    def run() -> None:
        shell([program, "triage", "--capture", CAPTURE])

    run()  # the page cache is warm after it, as on a machine that is in use
    return result("triage_cold", "shell to verdict, one recorded subscription", median_seconds(run, runs=COLD_RUNS))


def _learn() -> None:
    """Have the start-up data made from this tree: they are kept for a version, and a checkout changes without a new one."""
    from workbench.spark.class_archive import archive_path, build_archive, learned_path
    from workbench.spark.java import find_java

    archive = archive_path(find_java())
    newest = max(it.stat().st_mtime for it in Path("workbench").rglob("*.py"))
    if learned_path(archive).exists() and learned_path(archive).stat().st_mtime < newest:
        learned_path(archive).unlink()
    assert build_archive()


def shell(command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run it as a shell does, until the prompt is back: (exit code, what it printed).

    Into a file: a pipe would stay open until the JVM, which has it from its parent, has cleaned up, half a second after the prompt.
    """
    with tempfile.TemporaryFile("w+") as shown:
        code = subprocess.run(command, stdout=shown, stderr=shown, env=env, check=False).returncode
        shown.seek(0)
        return code, shown.read()


def triage_warm() -> Result:
    """The same in a session that is up, as in a notebook."""
    from workbench.collect.capture import read_capture
    from workbench.spark.session import session
    from workbench.triage.triage_engine import triage

    capture, spark = read_capture(CAPTURE), session()
    triage(capture, spark)
    seconds = median_seconds(lambda: triage(capture, spark), runs=WARM_RUNS)
    return result("triage_warm", "verdict in a running session, one recorded subscription", seconds)


def triage_cold_prometheus() -> Result:
    """Shell to verdict out of a real Prometheus: a new process asks for 75 minutes of one lagging group, and judges."""
    with two_hours() as (url, end), tempfile.TemporaryDirectory() as room:
        settings = Path(room) / "w.toml"
        settings.write_text(f'[clusters.c]\nprometheus = "{url}"\nprofiles = ["kafka_exporter"]\n')
        program = Path(sys.executable).with_name("workbench")
        instant = datetime.fromtimestamp(end, UTC).isoformat()
        start = datetime.fromtimestamp(end - 900, UTC).isoformat()
        _learn()
        words: list[str | Path] = ["--cluster", "c", "--group", "payments", "--since", start, "--until", instant]
        words += ["--config", settings]

        def run() -> None:
            code, shown = shell([program, "triage", *words])
            assert code in (3, 4), shown
            assert "payments" in shown

        run()
        seconds = median_seconds(run, runs=COLD_RUNS)
    work = f"shell to verdict, one group of {PARTITIONS} partitions in Prometheus"
    return result("triage_cold_prometheus", work, seconds)


PARTITIONS, _STEP = 12, 30


@contextmanager
def two_hours() -> Iterator[tuple[str, int]]:
    """(URL, last instant) of a Prometheus with two hours of a group whose lag grows for the last twenty minutes."""
    program = ensure_prometheus()
    if program is None:
        raise SetupError("This bench needs a Prometheus.")
    end = int(time.time()) // 7200 * 7200 - 7200
    stamps = range(end - 7200, end, _STEP)
    with tempfile.TemporaryDirectory() as room:
        folder = Path(room) / "prometheus"
        folder.mkdir()
        lines: list[str] = []

        def series(metric: str, labels: str, value: Callable[[int], int]) -> None:
            lines.extend(f"{metric}{{{labels}}} {value(stamp)} {stamp}" for stamp in stamps)

        def lag(stamp: int) -> int:
            return 5 + max(0, stamp - end + 1200) * 30

        parts = [f'topic="orders",partition="{number}"' for number in range(PARTITIONS)]
        group = 'consumergroup="payments"'
        for metric, value, owner in (
            ("kafka_consumergroup_current_offset", lambda stamp: 50 * (stamp - end + 90_000) - lag(stamp), f"{group},"),
            ("kafka_consumergroup_lag", lag, f"{group},"),
            ("kafka_topic_partition_current_offset", lambda stamp: 50 * (stamp - end + 90_000), ""),
            ("kafka_topic_partition_oldest_offset", lambda stamp: 0, ""),
        ):
            lines.append(f"# TYPE {metric} gauge")
            for part in parts:
                series(metric, owner + part, value)
        lines.append("# TYPE kafka_consumergroup_members gauge")
        series("kafka_consumergroup_members", group, lambda stamp: 6)
        (folder / "samples.txt").write_text("\n".join([*lines, "# EOF", ""]))
        subprocess.run(
            [
                program.with_name("promtool"), "tsdb", "create-blocks-from", "openmetrics",
                folder / "samples.txt", folder / "data",
            ],
            capture_output=True,
            check=True,
        )  # fmt: skip
        server = start_prometheus(folder)
        try:
            yield server.url, end - _STEP
        finally:
            server.stop()
