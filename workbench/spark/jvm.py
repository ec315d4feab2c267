"""Direct start of Spark's JVM on this computer, without spark-submit.

pyspark runs `spark-submit`: two shell scripts and a JVM that makes up the command of the JVM proper, which then prepares for jobs
on any kind of cluster, with 280 jars to search. With Spark's default configuration, none of that is needed.
What the command has to say to Java was asked of Spark's launcher when the class archive was made (`class_archive`).
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import SetupError
from workbench.spark.java import Java, spark_home, unwanted_options

_MAIN = "org.apache.spark.api.python.PythonGatewayServer"  # of pyspark's own gateway, behind spark-submit
_CONNECTION = "connection"
_START_SECONDS = 60.0
_LOOK_SECONDS = 0.005

# If one of these is set, Spark is configured by the user, and spark-submit starts it.
_CUSTOM = (
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "SPARK_SUBMIT_OPTS",
    "SPARK_PREPEND_CLASSES",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
    "PYSPARK_SUBMIT_ARGS",
    "PYSPARK_GATEWAY_PORT",
)

# Parts of Spark for other clusters, other clients and other work. MLlib alone costs each session half a second: it registers
# functions that take Scala's reflection to describe.
_LEFT_OUT = re.compile(
    r"(spark-(mllib|connect|kubernetes|yarn|hive|graphx|streaming|repl|pipelines)|breeze|spire|algebra_|cats-kernel|scala-compiler"
    r"|hive-|derby|datanucleus|kubernetes-|vertx-|volcano|jline|rocksdbjni|leveldbjni)"
)


def is_plain(master: str) -> bool:
    """Whether Spark runs in one JVM on this computer, with the default configuration."""
    if master.partition("[")[0] != "local" or any(os.environ.get(name) for name in _CUSTOM):
        return False
    return not (_pyspark() / "conf").exists()


def class_path() -> list[Path]:
    """Jars of a local session; logging jars first, as in Spark."""
    jars = (jar for jar in (_pyspark() / "jars").glob("*.jar") if not _LEFT_OUT.match(jar.name))
    return sorted(jars, key=lambda jar: (not jar.name.startswith("slf4j-api"), jar))


def java_options(java: Java) -> list[str]:
    """Options of Spark's launcher for this Java, without class path and memory.

    Raises:
        SetupError: if the launcher does not print them.
    """
    env = {**os.environ, "JAVA_HOME": str(spark_home(java)), "SPARK_PRINT_LAUNCH_COMMAND": "1"}
    shown = subprocess.run(
        [_pyspark() / "bin" / "spark-submit", "--version"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
        errors="replace",
    )
    for line in shown.stderr.splitlines():
        if line.startswith("Spark Command: "):
            _java, _cp, _path, *words = shlex.split(line.removeprefix("Spark Command: "))
            told = words[: words.index("org.apache.spark.deploy.SparkSubmit")]
            unwanted = unwanted_options(java)
            return [word for word in told if word not in unwanted and not word.startswith("-Xmx")]
    raise SetupError("Spark's launcher did not print its command.")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingJvm:
    """A starting JVM, before the first connection."""

    process: subprocess.Popen[bytes]
    room: Path

    def connect(self) -> None:
        """Wait until it accepts connections, and use it for pyspark's sessions.

        Raises:
            SetupError: if it exits before, or takes too long.
        """
        try:
            port, secret = _told(self.room / _CONNECTION, self.process)
        except SetupError:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            shutil.rmtree(self.room, ignore_errors=True)
        _connect(port, secret, self.process)


def start(java: Java, options: Sequence[str], *, memory: str) -> StartingJvm:
    """Start a JVM for a session.

    Args:
        java: to run it on.
        options: for it.
        memory: maximum heap size, for example "2g".
    """
    room = Path(tempfile.mkdtemp(prefix="workbench-"))
    command = [str(java.program), "-cp", os.pathsep.join(map(str, class_path())), f"-Xmx{memory}", *options, _MAIN]
    env = {
        **os.environ,
        "JAVA_HOME": str(java.program.resolve().parent.parent),
        "SPARK_HOME": str(_pyspark()),
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(room / _CONNECTION),
    }
    # As pyspark does it: the JVM ends when its standard input does, and Ctrl-C is not for it.
    process = subprocess.Popen(command, stdin=subprocess.PIPE, env=env, preexec_fn=_deaf)
    return StartingJvm(process=process, room=room)


def _deaf() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _told(place: Path, process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Read port and secret from the JVM's file."""
    until = time.monotonic() + _START_SECONDS
    while not place.exists():
        if process.poll() is not None or time.monotonic() > until:
            raise SetupError("Spark's JVM does not start.", hint="Try: workbench doctor.")
        time.sleep(_LOOK_SECONDS)
    data = place.read_bytes()  # complete: the JVM writes another file and renames it
    port, length = struct.unpack_from(">ii", data)
    return port, data[8 : 8 + length].decode()


def _connect(port: int, secret: str, process: subprocess.Popen[bytes]) -> None:
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    # The variables by which spark-submit leads a program to the JVM that it has started.
    ours = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ |= ours
    try:
        gateway = launch_gateway()
    finally:
        for name in ours:
            del os.environ[name]
    gateway.proc = process
    SparkContext._ensure_initialized(gateway=gateway)


def _pyspark() -> Path:
    spec = importlib.util.find_spec("pyspark")  # not imported: that takes a while, which the JVM can use
    if spec is None or spec.origin is None:
        raise SetupError("pyspark is not installed here.", hint="Run: pip install pyspark")
    return Path(spec.origin).parent
