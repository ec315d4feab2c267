"""Triage and sweep by a real Spark Connect server, from pyspark's own jars, on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.fleet import land_fleet
from tests.waiting import wait_for
from workbench.lab.process import free_port
from workbench.spark.java import find_java, spark_home
from workbench.spark.session import MASTER_VARIABLE

pytestmark = [pytest.mark.jvm, pytest.mark.cluster]
ROOT = Path(__file__).parent.parent.parent
CAPTURE = ROOT / "notebooks" / "captures" / "incident-1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address; it ends with the test."""
    room, port = tmp_path_factory.mktemp("connect"), free_port()
    env = {
        **os.environ,
        "JAVA_HOME": str(spark_home(find_java())),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
    }
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }
    words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    command = [
        str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]",
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer", *words,
    ]  # fmt: skip
    log = room / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=env, cwd=room, stdout=out, stderr=out)
    try:
        wait_for(lambda: "Spark Connect server started" in log.read_text() or process.poll() is not None, 120)
        assert process.poll() is None, log.read_text()[-3000:]
        yield f"sc://127.0.0.1:{port}"
    finally:
        family = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        process.wait(30)
        psutil.wait_procs(family, timeout=30)


def shown(master: str | None, *words: str | Path) -> str:
    """What `workbench triage` prints, by that server or in a session of its own."""
    env = {name: value for name, value in os.environ.items() if name != MASTER_VARIABLE}
    if master is not None:
        env[MASTER_VARIABLE] = master
    program = Path(sys.executable).with_name("workbench")
    run = subprocess.run(
        [program, "triage", *words, "--json"], env=env, cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 3, run.stderr
    return run.stdout


def test_a_server_finds_what_a_session_of_ours_finds(server: str) -> None:
    """Byte for byte."""
    assert shown(server, "--capture", CAPTURE) == shown(None, "--capture", CAPTURE)


def test_a_sweep_of_a_shared_folder(server: str, tmp_path: Path) -> None:
    """Also condensing is the server's work, by Python of its own."""
    here, there = (land_fleet(tmp_path / name / "store", subscriptions=60) for name in ("here", "there"))
    ours, theirs = shown(None, "--all", "--store", here.root), shown(server, "--all", "--store", there.root)
    assert theirs.replace(str(there.root), str(here.root)) == ours
