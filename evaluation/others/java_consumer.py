"""Java consumers with the Prometheus JMX agent: compiled once, and started as people configure them.

A listener, a Kafka Streams application, and a sink of Kafka Connect.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workbench.errors import SetupError
from workbench.files import atomic_folder
from workbench.lab.kafka_jars import CONNECT, JMX_AGENTS, STREAMS, TOOLS, JarSet, ensure
from workbench.spark.java import find_java
from workbench.user_folders import cache_dir

Rules = Literal["plain", "connect", "strimzi"]
Protocol = Literal["classic", "consumer", "streams"]

_FOLDER = Path(__file__).with_name("java")
_COMPILE_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A kind of Java consumer.

    Attributes:
        main: its class. sources: files that are compiled for it. jars: what it needs.
        heap: most of its memory.
        consumer_id: client id of its consumer, for the name of an instance.
        profiles: what its pages show, besides the consumer's own metrics; those that are for an agent without rules apart.
    """

    main: str
    sources: tuple[str, ...]
    jars: JarSet
    heap: str = "96m"
    consumer_id: str = "{name}"
    profiles: tuple[str, ...] = ()
    plain_profiles: tuple[str, ...] = ()


PROGRAMS: dict[str, Program] = {
    "java": Program(main="LabConsumer", sources=("LabConsumer.java",), jars=TOOLS, profiles=("spring_listener",)),
    "streams": Program(
        main="LabStreams", sources=("LabHandler.java", "LabStreams.java"), jars=STREAMS, heap="128m",
        consumer_id="{name}-StreamThread-1-consumer", plain_profiles=("kafka_streams",),
    ),
    "connect_sink": Program(
        main="LabSink", sources=("LabHandler.java", "LabSink.java"), jars=CONNECT, heap="160m",
        consumer_id="connector-consumer-{name}-0", profiles=("connect_sink",),
    ),
}  # fmt: skip
# The profile for each set of rules, and the listener's timer.
PROFILES: dict[Rules, str] = {
    "plain": "jmx_exporter_plain",
    "connect": "jmx_exporter",
    "strimzi": "jmx_exporter_strimzi",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaMeasured:
    """How a Java consumer is measured, and the protocol that its group speaks."""

    rules: Rules = "connect"
    agent: str = "1.0.1"
    protocol: Protocol = "classic"
    max_poll_records: int = 500


def client_id(consumer: str, name: str, *, whole: bool = True) -> str:
    """Client id of an instance's consumer; not `whole`: of all whose names begin with this, what it begins with."""
    pattern = PROGRAMS[consumer].consumer_id if consumer in PROGRAMS else "{name}"
    return pattern.format(name=name) if whole else pattern.partition("{name}")[0] + name


def compiled(program: Program = PROGRAMS["java"]) -> Path:
    """The folder with the consumer's classes, compiled if a source has changed.

    Raises:
        SetupError: if there is no Java compiler, or it fails.
    """
    return classes_of([_FOLDER / name for name in program.sources], program.jars)


def classes_of(sources: Sequence[Path], *jars: JarSet) -> Path:
    """The folder with the classes of some sources, compiled if one has changed.

    Raises:
        SetupError: as `compiled`.
    """
    return compiled_with(":".join(it.classpath for it in jars), sources, *jars)


def compiled_with(class_path: str, sources: Sequence[Path], *jars: JarSet) -> Path:
    """The folder with the classes of some sources, compiled with this class path if they have not been before; jars of it are fetched.

    Raises:
        SetupError: as `compiled`.
    """
    java = find_java().program.resolve()
    texts = [path.read_bytes() for path in sources]
    digest = hashlib.sha256(b"".join([class_path.encode(), *texts])).hexdigest()[:16]
    target = cache_dir() / "lab-consumer" / digest
    if target.exists():
        return target
    compiler = java.with_name("javac") if java.with_name("javac").exists() else shutil.which("javac")
    if compiler is None:
        raise SetupError(
            "The lab's Java consumers need a Java compiler, and this Java has none.",
            hint="Install a JDK 17 or newer and set JAVA_HOME to it.",
        )
    for it in jars:
        ensure(it)
    with atomic_folder(target, replace=True) as part:
        ran = subprocess.run(
            [compiler, "-parameters", "-cp", class_path, "-d", part, *sources],
            capture_output=True, text=True, encoding="utf-8", timeout=_COMPILE_SECONDS, check=False, errors="replace",
        )  # fmt: skip
        if ran.returncode != 0:
            raise SetupError(f"The lab's Java consumer could not be compiled: {ran.stderr.strip()[:500]}")
    return target


def started(*words: str | Path, heap: str = "160m") -> list[str | Path]:
    """What starts a program of the lab in Java."""
    return [find_java().program, f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *words]


def command(
    measured: JavaMeasured, *, jmx_port: int, files: list[Path], program: Program = PROGRAMS["java"]
) -> list[str | Path]:
    """What starts one consumer with its agent.

    Raises:
        SetupError: if a jar cannot be fetched, or the class cannot be compiled.
    """
    agents = JMX_AGENTS[measured.agent]
    agent = next(ensure(agents).glob("*.jar"))
    return started(
        f"-javaagent:{agent}=127.0.0.1:{jmx_port}:{_FOLDER / f'jmx_{measured.rules}.yaml'}",
        "-cp", f"{compiled(program)}:{program.jars.classpath}", program.main, *files,
        heap=program.heap,
    )  # fmt: skip


def kafka_settings(
    measured: JavaMeasured, timing: dict[str, str | int | float | bool]
) -> dict[str, str | int | float | bool]:
    """The client's properties; a member of a group of the new protocol gets its times from the broker."""
    own: dict[str, str | int | float | bool] = {
        "group.protocol": measured.protocol,
        "max.poll.records": measured.max_poll_records,
        # Its averages cover the last one to two of these, by default 30 s each. A lab compresses time.
        "metrics.sample.window.ms": 3000,
    }
    return {**timing, **own} if measured.protocol == "classic" else own
