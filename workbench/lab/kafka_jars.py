"""Kafka's jars, without a build tool: the Ivy that ships inside pyspark resolves them from pinned coordinates.

Every jar is held against the committed SHA-256 list in `checksums/`; nothing that is not on the list is ever started.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import GuardError, SetupError
from workbench.files import atomic_folder, exclusive_lock, write_text
from workbench.lab.process import run_within
from workbench.spark.java import find_java, trust_options
from workbench.user_folders import cache_dir

KAFKA_VERSION = "4.2.0"
_TIMEOUT_SECONDS = 600.0  # Ivy took 27 to 61 s on a good line; ten minutes is a bad one
_WAIT_SECONDS = 2 * _TIMEOUT_SECONDS  # for another process, which may fetch both sets

# Called with (done, total) jars.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class JarSet:
    """One module and everything it needs; or of several modules only the jars with a classifier, such as "test"."""

    name: str
    module: str
    organisation: str = "org.apache.kafka"
    version: str = KAFKA_VERSION
    classifier: str | None = None
    others: tuple[str, ...] = ()
    system: str = "Kafka"

    @property
    def folder(self) -> Path:
        """Where the jars lie once they are fetched and checked."""
        version = KAFKA_VERSION if self.system == "Kafka" else self.version
        return cache_dir() / f"{self.system.lower()}-{version}" / self.name

    @property
    def checksums(self) -> dict[str, str]:
        """File name to SHA-256, as committed."""
        text = (Path(__file__).parent / "checksums" / f"{self.name}.sha256").read_text(encoding="utf-8")
        return {name: digest for digest, name in (line.split() for line in text.splitlines())}

    @property
    def ready(self) -> bool:
        """Whether the jars are here, and still what they were when they came: each is read, which takes a third of a second."""
        try:
            check(self.folder, self.checksums, what=self.name)
        except (SetupError, OSError):
            return False
        return True

    @property
    def classpath(self) -> str:
        """For `java -cp`."""
        return str(self.folder / "*")


BROKER = JarSet("broker", "kafka_2.13")
TOOLS = JarSet("tools", "kafka-tools")  # kafka-consumer-groups and its siblings, for the tests and the benches
STREAMS = JarSet("streams", "kafka-streams")  # for the tests: a real group of its protocol
CONNECT = JarSet("connect", "connect-runtime")  # for the tests: a real group of workers
OLD_BROKER = JarSet(
    "broker_3.9.1", "kafka_2.13", version="3.9.1"
)  # for the tests: what other tools can still read, and ZooKeeper
OLDEST_BROKER = JarSet("broker_2.8.2", "kafka_2.13", version="2.8.2")  # for the tests: one group in a request
# A broker's remote storage that is a folder (LocalTieredStorage), beside the jars of BROKER.
TIERED = JarSet("tiered", "kafka-storage", classifier="test", others=("kafka-clients", "kafka-server-common"))
# For the tests: jobs of Spark's Kafka source and of Flink, whose own Kafka client is part of the connector's jars.
SPARK_KAFKA = JarSet("spark_kafka", "spark-sql-kafka-0-10_2.13", "org.apache.spark", "4.0.0", system="Spark")
FLINK = (
    JarSet("flink", "flink-clients", "org.apache.flink", "1.20.1", system="Flink"),
    JarSet("flink_base", "flink-connector-base", "org.apache.flink", "1.20.1", system="Flink"),
    JarSet("flink_metrics", "flink-metrics-prometheus", "org.apache.flink", "1.20.1", system="Flink"),
    JarSet("flink_kafka", "flink-connector-kafka", "org.apache.flink", "3.4.0-1.20", system="Flink"),
)
# What a Java consumer of the lab is measured with; the two generations write names and labels differently.
JMX_AGENTS = {
    version: JarSet(f"jmx_agent_{version}", "jmx_prometheus_javaagent", "io.prometheus.jmx", version)
    for version in ("0.20.0", "1.0.1")
}


def ensure(jars: JarSet, *, progress: Progress | None = None) -> Path:
    """The folder of a jar set, fetched and checked if it is not there yet, or no longer what it was.

    Safe to call from several processes: the first one fetches, the others wait.

    Raises:
        SetupError: if the download fails or takes too long, or a jar is missing, unexpected or changed.
    """
    if jars.ready:
        return jars.folder
    busy = GuardError(
        f"Another process has been downloading jars for over {_WAIT_SECONDS / 60:.0f} minutes.",
        hint="Stop it, and try again.",
    )
    try:
        with exclusive_lock(cache_dir() / "kafka.lock", busy, wait_seconds=_WAIT_SECONDS):
            if not jars.ready:
                _fetch(jars, progress or (lambda _done, _total: None))
    except GuardError as error:
        raise SetupError(error.message, hint=error.hint) from None
    return jars.folder


def _fetch(jars: JarSet, progress: Progress) -> None:
    with atomic_folder(jars.folder, replace=True) as part:
        _run_ivy(jars, part, progress)
        check(part, jars.checksums, what=f"the {jars.name} jars of {jars.system} {jars.version}")


def _run_ivy(jars: JarSet, target: Path, progress: Progress) -> None:
    command: list[str | Path] = [find_java().program, *trust_options(), "-jar", _ivy_jar()]
    if settings := os.environ.get("WORKBENCH_IVY_SETTINGS"):
        command += ["-settings", settings]
    if jars.classifier is None:
        command += ["-dependency", jars.organisation, jars.module, jars.version]
    else:
        command += ["-ivy", _wanted(jars, target)]
    command += ["-confs", "default"]
    command += ["-cache", cache_dir() / "ivy"]
    # BookKeeper calls its jars with a native library inside .nar; a class path takes only names that end in .jar.
    command += ["-retrieve", f"{target}/[artifact]-[revision](-[classifier]).jar"]
    total, done = len(jars.checksums), 0
    tail: deque[str] = deque(maxlen=4)

    def read(line: str) -> None:
        nonlocal done
        if "[SUCCESSFUL" in line and "!" in line:
            done += 1
            progress(min(done, total), total)
        elif "download" in line.lower() or "error" in line.lower() or "unresolved" in line.lower():
            tail.append(line.strip())

    progress(0, total)
    try:
        code = run_within(_TIMEOUT_SECONDS, command, on_line=read)
    except TimeoutError:
        raise SetupError(
            f"{jars.system} {jars.version} could not be downloaded from the jar repository within {_TIMEOUT_SECONDS:g} s: "
            + _without_hosts(" / ".join(tail) or "no error message"),
            hint="Is the network slow, or does a proxy block the download? Downloaded files are kept; try again.",
        ) from None
    if code != 0:
        raise SetupError(
            f"{jars.system} {jars.version} could not be downloaded from the jar repository (Ivy ended with {code}): "
            + _without_hosts(" / ".join(tail) or "no error message"),
            hint="Check the network and the proxy; WORKBENCH_IVY_SETTINGS names an Ivy settings file for a mirror.",
        )
    progress(total, total)


def _wanted(jars: JarSet, target: Path) -> Path:
    """File that asks Ivy for jars with a classifier, which no option can; beside the folder that they come into."""
    path = target.with_name(f"{jars.name}.ivy.xml")
    wanted = "".join(
        f'<dependency org="{jars.organisation}" name="{name}" rev="{jars.version}" transitive="false">'
        f'<artifact name="{name}" type="jar" ext="jar" m:classifier="{jars.classifier}"/></dependency>'
        for name in (jars.module, *jars.others)
    )
    write_text(
        path,
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        f'<info organisation="workbench" module="{jars.name}"/><dependencies>{wanted}</dependencies></ivy-module>\n',
    )
    return path


def check(folder: Path, expected: dict[str, str], *, what: str) -> None:
    """Hold every jar of a folder against its SHA-256.

    Raises:
        SetupError: naming the first jar that is missing, changed or not on the list.
    """
    found = {path.name: path for path in folder.glob("*.jar")}
    for name, digest in expected.items():
        if name not in found:
            raise SetupError(
                f"{name} is missing among {what}.", hint="Delete the cache folder of the lab and try again."
            )
        with found[name].open("rb") as jar:
            actual = hashlib.file_digest(jar, "sha256").hexdigest()
        if actual != digest:
            raise SetupError(
                f"{name} is not the expected file (its SHA-256 differs).",
                hint="A mirror serves another build, or the download was truncated. Delete the cache folder and try again.",
            )
    if extra := sorted(found.keys() - expected.keys()):
        raise SetupError(
            f"{extra[0]} was not expected among {what}.",
            hint="The repository has new dependencies for these coordinates.",
        )


def _ivy_jar() -> Path:
    import pyspark

    found = sorted((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise SetupError("pyspark has no Ivy jar in its jars folder.", hint="Reinstall pyspark 4.3.")
    return found[-1]


def _without_hosts(text: str) -> str:
    return re.sub(r"https?://[^/\s]+", "…", text)
