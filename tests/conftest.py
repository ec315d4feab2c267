"""Fixtures that are dear: one Spark session and one lab for the whole run."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import HealthCheck, settings

from workbench.lab.lab import Lab, start_lab
from workbench.spark import session as spark_session
from workbench.spark.class_archive import VARIABLE as ARCHIVE_VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Programs in caches of their own would each build one behind the tests' back.
os.environ.setdefault(ARCHIVE_VARIABLE, "off")

# Each part of the tests has one JVM for minutes, whoever starts it: worth the second compiler, though less of it than Java takes for
# hours. It compiled for a third of the time of the audits' tests; so it compiles later, and fewer methods into each other.
spark_session._ONE_PASS_JAVA_OPTIONS = ()
spark_session._JAVA_OPTIONS = (
    *spark_session._JAVA_OPTIONS,
    "-XX:Tier4InvocationThreshold=20000", "-XX:Tier4MinInvocationThreshold=2400", "-XX:Tier4CompileThreshold=60000",
    "-XX:Tier4BackEdgeThreshold=160000", "-XX:MaxInlineLevel=6", "-XX:InlineSmallCode=1000", "-XX:FreqInlineSize=120",
    "-XX:-PartialPeelLoop", "-XX:LoopUnrollLimit=0",
)  # fmt: skip

# jsonschema builds a grammar for the format "iri" with it, which takes over a second of each part (workbench/notebook_format.py).
sys.modules.setdefault("rfc3987_syntax", cast(ModuleType, None))

settings.register_profile("workbench", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("workbench")


# The parts that run beside each other (Makefile): each is marked by folders, so that none takes much longer than the others.
_PARTS = {
    "door": ("browser", "cli", "report", "runbooks", "serve", "widgets"),
    "judged": ("audit", "evaluation", "features", "history", "triage"),
    "journey": ("lab",),
}


# Markers that stand in the files themselves, as `pytest.mark.NAME`.
_WRITTEN = ("apt", "cluster", "jvm", "lab", "secured", "slow")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whether the expression of markers can select nothing in a folder or file: it is not imported, as each part would import all."""
    expression = config.option.markexpr
    if re.search(r"\bor\b|[()]", expression):
        return None
    asked = [(word, not negated) for negated, word in re.findall(r"(not )?(\w+)", expression)]
    if collection_path.parent == Path(__file__).parent and collection_path.is_dir():
        return any((collection_path.name in _PARTS[word]) != wanted for word, wanted in asked if word in _PARTS) or None
    needed = [f"mark.{word}" for word, wanted in asked if wanted and word in _WRITTEN]
    if not needed or not collection_path.match("test_*.py"):
        return None
    text = collection_path.read_text(encoding="utf-8")
    return any(word not in text for word in needed) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with its part."""
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        for part, folders in _PARTS.items():
            if folder in folders:
                item.add_marker(part)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that the product itself uses."""
    started = spark_session.session()
    yield started
    spark_session.end(started)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A real Kafka with its exporter, and a Prometheus, which looks at that only for tests with `prometheus_url`.

    Its looks at all that the tests leave behind took a fifth of the processor time of the whole run.
    """
    with start_lab(tmp_path_factory.mktemp("lab") / "lab") as running:
        running.forget("exporter")
        yield running


@pytest.fixture
def prometheus_url(lab: Lab) -> Iterator[str]:
    """The lab's Prometheus, which scrapes the exporter meanwhile. The lab's set-up fetches one, so that there is none is a failure."""
    if lab.prometheus_url is None:
        pytest.fail("this machine has no Prometheus to ask, and none was to be had")
    lab.watch_exporter()
    yield lab.prometheus_url
    lab.forget("exporter")


@pytest.fixture(autouse=True)
def _own_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Settings and state of the user who runs the tests have no say in them; the downloads' cache does."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("WORKBENCH_CONFIG", "WORKBENCH_CLUSTER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("workbench.masking._known", {})  # the secrets of one test are not those of the next
