"""A standalone Spark cluster on loopback, from pyspark's own jars: a master, and two workers of one core each."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.waiting import wait_for
from workbench.lab.process import free_port
from workbench.spark.java import find_java, spark_home


@dataclass
class Cluster:
    """A master's address, and the processes of it and its workers."""

    url: str
    processes: list[subprocess.Popen[bytes]]

    def executors(self) -> list[psutil.Process]:
        """Those that run now, each a child of a worker."""
        found = []
        for worker in self.processes[1:]:
            for child in psutil.Process(worker.pid).children(recursive=True):
                if any("CoarseGrainedExecutorBackend" in word for word in child.cmdline()):
                    found.append(child)
        return found


@contextmanager
def spark_cluster(room: Path, more: Mapping[str, str]) -> Iterator[Cluster]:
    """One core and 1 GB a worker, so that both have work; all of them end with the block. `more`: of their environment."""
    java = find_java()
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    env = {
        **os.environ,
        **more,
        "JAVA_HOME": str(spark_home(java)),
        "SPARK_HOME": str(jars.parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": "2.13",
        "PYSPARK_PYTHON": sys.executable,
    }
    port = free_port()
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str, *words: str) -> None:
        command = [
            str(Path(env["JAVA_HOME"]) / "bin" / "java"), "-cp", f"{jars}/*", "-Xmx256m", "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1", "--add-opens=java.base/java.lang=ALL-UNNAMED",
            "--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
            "--add-opens=java.base/java.net=ALL-UNNAMED", "--add-opens=java.base/java.util=ALL-UNNAMED",
            f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", *words,
        ]  # fmt: skip
        with (room / f"{len(processes)}.log").open("wb") as log:
            processes.append(subprocess.Popen(command, env=env, cwd=room, stdout=log, stderr=log))

    try:
        start("master.Master", "--port", str(port), "--webui-port", str(free_port()))
        for number in range(2):
            start(
                "worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(room / f"work-{number}"),
                "--webui-port", str(free_port()), f"spark://127.0.0.1:{port}",
            )  # fmt: skip
        wait_for(lambda: (room / "0.log").read_text().count("Registering worker") == 2, 120)
        yield Cluster(f"spark://127.0.0.1:{port}", processes)
    finally:
        family = [child for process in processes for child in psutil.Process(process.pid).children(recursive=True)]
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(30)
        psutil.wait_procs(family, timeout=30)
        assert not [child for child in family if child.is_running()], "an executor has outlived its worker"
