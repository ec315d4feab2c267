"""The Spark session: a single, small, quiet one that starts fast and is reused."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import SetupError
from workbench.humanize import first_line
from workbench.spark.class_archive import build_later, learned
from workbench.spark.java import Java, find_java, spark_home
from workbench.spark.jvm import is_plain, start
from workbench.spark.plan_templates import share
from workbench.spark.spark_connect import SCHEME, connected, is_remote

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

# Names a master other than this computer, for example spark://host:7077 (the executors need this package and the data's folder), or a
# Spark Connect server, for example sc://host:15002 (which needs the data's folder).
MASTER_VARIABLE = "WORKBENCH_SPARK_MASTER"

_CONF = {
    "spark.app.name": "workbench",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",  # would cost a port and half a second
    "spark.ui.showConsoleProgress": "false",  # progress bars disturb notebooks and reports
    "spark.sql.shuffle.partitions": "2",  # the default of 200 makes 200 tasks for frames of some thousand rows
    "spark.sql.session.timeZone": "UTC",
    # The stack of every column expression is looked up otherwise, which took most of the time of building a plan.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # The default of 10,000 makes a partition, hence a task, of every 10,000 rows.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Compiling each stage to Java costs more than a triage of some thousand rows; `for_much_data` turns it on again.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Without compiled code each shared expression is looked up in a cache of its own, a third of the time of a triage's job.
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    # More files than 32 are listed by a job otherwise, of a task each.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    # It infers conditions that no source of ours can use, at a tenth of the time of planning.
    "spark.sql.constraintPropagation.enabled": "false",
    # Of an aggregation with arrays, so many groups are kept in memory before it takes to sorting. The default of 128 is made for far
    # larger states; the sorting costs time, and compiles code of its own.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",
}

# A local session accepts no other connections; a cluster's executors must reach it by its own address.
_LOCAL_CONF = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

_JAVA_OPTIONS = (
    "-XX:+UseSerialGC",  # no second collector thread beside two cores' work
    "-Djava.net.preferIPv4Stack=true",
    f"-Dlog4j2.configurationFile={Path(__file__).parent / 'log4j2.properties'}",
)
# One pass of the first compiler: starting is what counts in an interactive triage (3.2 s instead of 4.5 s), and in a sweep of 25,000
# subscriptions the second compiler spent 47 s, more than it saved. What the first one would leave to the interpreter are the longest
# methods, which Spark writes for the widest steps. With one compiler, Java keeps 48 MB for compiled code; a sweep fills them, and from
# then on nothing more is compiled.
_ONE_PASS_JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:-DontCompileHugeMethods",
    "-XX:ReservedCodeCacheSize=256m",
)
# So it is on executors: a sweep of 1,500 subscriptions took 29 CPU seconds of two of them instead of 69. No collector is chosen for
# them: with another one in the cluster's own options, Java would not start.
_EXECUTOR_JAVA_OPTIONS = " ".join(_ONE_PASS_JAVA_OPTIONS)
_MUCH_DATA_CONF = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.subexpressionElimination.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.shuffle.partitions": "8",
}


_FEW_ROWS = 100_000  # that this process keeps beside its own work: some 30 MB
_CONNECT_ROWS = 200_000  # a server of 1 GB took 131,416 samples, and had no memory for 492,810


def _start(kept: bool = False) -> SparkSession:
    if (active := _active()) is not None:
        return active
    master = os.environ.get(MASTER_VARIABLE) or "local[*]"
    if master.startswith(SCHEME):
        queries = {name: value for name, value in _CONF.items() if name.startswith("spark.sql.")}
        return connected(master, queries, variable=MASTER_VARIABLE)
    java = find_java()
    options, conf = [*_JAVA_OPTIONS, *(() if kept else _ONE_PASS_JAVA_OPTIONS)], dict(_CONF)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ["PYSPARK_PYTHON"] = sys.executable  # else the workers take whatever python3 stands first on PATH
        conf |= _LOCAL_CONF
    else:  # Python, and this package in it, may lie elsewhere on the executors
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        conf["spark.executor.defaultJavaOptions"] = _EXECUTOR_JAVA_OPTIONS  # before the cluster's own ones, which stay
    java_home = None
    if not (is_plain(master) and _quick(java, options)):
        java_home = spark_home(java)
        conf["spark.driver.extraJavaOptions"] = " ".join(options)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    for name, value in conf.items():
        builder = builder.config(name, value)
    try:
        with _java_home(java_home):
            return builder.getOrCreate()
    except Exception as error:  # py4j and pyspark raise many kinds
        raise SetupError(
            f"Spark does not start on Java {java.version} from {java.found_in}: {first_line(error)}",
            hint="Try: workbench doctor.",
        ) from None


@contextmanager
def _java_home(home: Path | None) -> Iterator[None]:
    """Have spark-submit start its JVM with this one. Programs that are started afterwards find the Java of their user, not ours."""
    former = os.environ.get("JAVA_HOME")
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    try:
        yield
    finally:
        if home is not None:
            if former is None:
                del os.environ["JAVA_HOME"]
            else:
                os.environ["JAVA_HOME"] = former


def _active() -> SparkSession | None:
    """Active session, if pyspark is loaded and one was started."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _quick(java: Java, options: Sequence[str]) -> bool:
    """Start the JVM with the stored start-up data; return whether that succeeded."""
    if "pyspark" in sys.modules:
        from pyspark import SparkContext

        if SparkContext._gateway is not None:
            return False  # there is one, of a session that was stopped: the next one is made in it
    known = learned(java)
    if known is None:
        build_later()
        return False
    starting = start(java, [*options, *known.options], memory=_CONF["spark.driver.memory"])
    import pyspark.sql  # noqa: F401 - it takes as long as the JVM, which is not kept waiting so

    # The first frame of samples is made with it; its half a second fits into the time that Spark takes to start.
    threading.Thread(target=import_module, args=("pandas",), name="spark-imports", daemon=True).start()
    try:
        starting.connect()
    except SetupError:
        return False  # spark-submit may do better, or else tell why
    share(known.plans)
    return True


def end(session: SparkSession, *, seconds: float = 30.0) -> None:
    """Stop the session and its JVM, and wait until the JVM has exited (otherwise it would briefly outlive this process)."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    session.stop()
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(seconds)
        SparkContext._gateway = SparkContext._jvm = None


def is_local(spark: SparkSession) -> bool:
    """Whether Spark's work is done on this computer."""
    return not is_remote(spark) and str(spark.sparkContext.master).startswith("local")


def frame_of(spark: SparkSession, samples: pa.Table) -> DataFrame:
    """Upload samples as a frame; a Spark Connect server keeps them in its memory, so their number is limited.

    Raises:
        SetupError: if there are too many.
    """
    if is_remote(spark) and samples.num_rows > _CONNECT_ROWS:
        raise SetupError(
            f"{samples.num_rows:,} samples are too many to upload to a Spark Connect server (at most {_CONNECT_ROWS:,}).",
            hint="Select fewer samples, or store them in a folder that the server can read: workbench triage --all --store FOLDER",
        )
    # Spark reads no further than a batch without rows.
    batches = samples.to_batches()
    there = [it for it in batches if it.num_rows]
    if 0 < len(there) < len(batches):
        samples = type(samples).from_batches(there)
    return spark.createDataFrame(samples)


def cut_off(frame: DataFrame, *, made_of: DataFrame | None = None) -> DataFrame:
    """The same rows in this process, if they are few: what is made of them knows nothing of how they were made. Else kept by Spark.

    Args:
        made_of: what Spark keeps for them alone; it is let go once they are here. None: the frame itself, which is kept meanwhile.
    """
    from pyspark.sql import SparkSession

    kept = frame.cache() if made_of is None else made_of
    rows = frame.limit(_FEW_ROWS + 1).toArrow()
    if rows.num_rows > _FEW_ROWS:
        return kept if made_of is None else frame.cache()
    kept.unpersist()
    session = frame.sparkSession
    before = None if is_remote(session) else SparkSession.getActiveSession()
    try:
        return session.createDataFrame(rows, frame.schema)
    finally:
        if before is not None:  # the session of a frame that is made becomes that of all later work
            SparkSession._activeSession = before
            before._jvm.SparkSession.setActiveSession(before._jsparkSession)  # type: ignore[union-attr]


def for_much_data(session: SparkSession) -> None:
    """Configure the session for hundreds of thousands of samples: compile the stages, and use one task per 100,000 rows.

    910,000 samples of 500 subscriptions took a third of the time so (2 cores); a triage of some thousand takes longer.
    """
    for name, value in _MUCH_DATA_CONF.items():
        session.conf.set(name, value)


@contextmanager
def for_little_data(session: SparkSession) -> Iterator[None]:
    """Configure the session for some thousand rows, as it starts; what was set before comes back afterwards."""
    with _set(session, {name: _CONF[name] for name in _MUCH_DATA_CONF}):
        yield


@contextmanager
def in_tasks_of(session: SparkSession, rows: int, *, each: int) -> Iterator[None]:
    """Configure the session to shuffle so many rows in tasks of bounded size, but no fewer than usual."""
    name = "spark.sql.shuffle.partitions"
    usual = int(session.conf.get(name) or "1")
    with _set(session, {name: str(max(usual, -(-rows // each)))}):
        yield


@contextmanager
def _set(session: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    before = {name: session.conf.get(name) or "" for name in conf}
    for name, value in conf.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            session.conf.set(name, value)


_starting: Future[SparkSession] | None = None


def start_in_background(first: Callable[[], object] | None = None) -> None:
    """Start the session in the background; `session` then waits for it instead of starting another.

    Args:
        first: what is to be done before it, in the background too.
    """
    global _starting
    if _starting is None:
        pool = ThreadPoolExecutor(1, thread_name_prefix="spark-start")
        if first is not None:
            pool.submit(first)
        _starting = pool.submit(_start)
        pool.shutdown(wait=False)


def has_ended() -> bool:
    """Whether Spark was started by this process and its JVM has ended, or was killed: it does not come back in this process."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    return process is not None and process.poll() is not None


def session(*, kept: bool = False) -> SparkSession:
    """Return the session of this process; start it if there is none.

    Args:
        kept: also use the JVM's second compiler in a new session. It pays off for repeated queries on large data (a notebook
        with millions of samples: a third less time once it is warm), but costs more than it saves for a single run.

    Raises:
        SetupError: if there is no usable Java, or Spark does not start.
    """
    global _starting
    if _starting is not None:
        pending, _starting = _starting, None
        return pending.result()
    return _start(kept)
