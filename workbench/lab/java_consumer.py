"""Java consumers with the Prometheus JMX agent: compiled once, and started as people configure them."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workbench.errors import SetupError
from workbench.files import atomic_folder
from workbench.lab.jars import JMX_AGENTS, TOOLS, ensure
from workbench.places import cache_dir
from workbench.spark.java import find_java

Rules = Literal["plain", "connect", "strimzi"]
Protocol = Literal["classic", "consumer"]

_FOLDER = Path(__file__).with_name("java")
_SOURCE = _FOLDER / "LabConsumer.java"
_COMPILE_SECONDS = 120.0
# The profile for each set of rules, and the listener's timer.
PROFILES: dict[Rules, str] = {
    "plain": "jmx_exporter_plain",
    "connect": "jmx_exporter",
    "strimzi": "jmx_exporter_strimzi",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """How a Java consumer is measured, and the protocol that its group speaks."""

    rules: Rules = "connect"
    agent: str = "1.0.1"
    protocol: Protocol = "classic"
    max_poll_records: int = 500


def compiled() -> Path:
    """The folder with the consumer's class, compiled if its source has changed.

    Raises:
        SetupError: if there is no Java compiler, or it fails.
    """
    java = find_java().program.resolve()
    digest = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]
    target = cache_dir() / "lab-consumer" / digest
    if target.exists():
        return target
    compiler = java.with_name("javac") if java.with_name("javac").exists() else shutil.which("javac")
    if compiler is None:
        raise SetupError(
            "The lab's Java consumers need a Java compiler, and this Java has none.",
            hint="Install a JDK 17 or newer and set JAVA_HOME to it.",
        )
    with atomic_folder(target, replace=True) as part:
        ran = subprocess.run(
            [compiler, "-cp", f"{ensure(TOOLS)}/*", "-d", part, _SOURCE],
            capture_output=True, text=True, encoding="utf-8", timeout=_COMPILE_SECONDS, check=False, errors="replace",
        )  # fmt: skip
        if ran.returncode != 0:
            raise SetupError(f"The lab's Java consumer could not be compiled: {ran.stderr.strip()[:500]}")
    return target


def command(measured: Measured, *, jmx_port: int, files: list[Path]) -> list[str | Path]:
    """What starts one consumer with its agent.

    Raises:
        SetupError: if a jar cannot be fetched, or the class cannot be compiled.
    """
    agents = JMX_AGENTS[measured.agent]
    agent = next(ensure(agents).glob("*.jar"))
    return [
        find_java().program, "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
        f"-javaagent:{agent}=127.0.0.1:{jmx_port}:{_FOLDER / f'jmx_{measured.rules}.yaml'}",
        "-cp", f"{compiled()}:{TOOLS.classpath}", "LabConsumer", *files,
    ]  # fmt: skip


def kafka_settings(
    measured: Measured, timing: dict[str, str | int | float | bool]
) -> dict[str, str | int | float | bool]:
    """The client's properties; a member of a group of the new protocol gets its times from the broker."""
    own: dict[str, str | int | float | bool] = {
        "group.protocol": measured.protocol,
        "max.poll.records": measured.max_poll_records,
        # Its averages cover the last one to two of these, by default 30 s each. A lab compresses time.
        "metrics.sample.window.ms": 3000,
    }
    return own if measured.protocol == "consumer" else {**timing, **own}
