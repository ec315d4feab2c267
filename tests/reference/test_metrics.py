"""Rules of docs/metrics.md: the pages that the programs really export have these metrics, with these types and labels, and no other."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.audit.states import edge, state, stream, upstream
from tests.report.runs.test_record import recorded, result
from tests.runtime.helpers import record, until
from tests.runtime.test_runtime import Running
from tests.serve.serving import Office
from workbench.reference.metrics_reference import Exported, of_audits, of_reports, of_runtime, of_serve, of_upstream
from workbench.report.audit_state import SilentLayer, SlowStream, numbers
from workbench.report.runs.run_metrics_file import export, metrics_name
from workbench.report.state_before_kafka import numbers as numbers_of_upstream
from workbench.runtime import Dead

LATE = {"le", "quantile"}


def families(text: str) -> dict[str, tuple[str, set[str]]]:
    """Name (a counter's with `_total`) to type and labels of the samples."""
    found = {}
    for it in text_string_to_metric_families(text):
        if it.name.endswith("_created"):
            continue  # the library's: when a series began
        name = f"{it.name}_total" if it.type == "counter" else it.name
        found[name] = (it.type, {label for sample in it.samples for label in sample.labels} - LATE)
    return found


def agree(found: dict[str, tuple[str, set[str]]], told: list[Exported], *, maybe: bool = False) -> None:
    """Each metric of a page is told, with its type and its labels; `maybe`: a page may lack some."""
    said = {it.name: it for it in told}
    assert found.keys() <= said.keys()
    assert maybe or said.keys() == found.keys()
    for name, (kind, labels) in found.items():
        assert said[name].kind == kind, name
        assert not labels or labels == set(said[name].labels), name


def test_the_runtime_exports_what_the_page_says(tmp_path: Path) -> None:
    """A real page, after records that were handled, and one that became a dead letter."""

    def handle(event: object) -> object:
        return Dead("no") if getattr(event, "record").offset == 3 else None  # noqa: B009 - any event

    with Running(handle) as it:
        it.source.produce(record(n) for n in range(6))
        it.wait_for_commit(6)
        address = it.runtime.metrics_address
        assert address is not None

        def text() -> str:
            with urllib.request.urlopen("http://{}:{}/metrics".format(*address or ()), timeout=5) as page:
                return str(page.read().decode())

        until(lambda: "wb_committed_offset{" in text())  # noted after the log has it
        found = families(text())
    told = of_runtime()
    agree(found, told, maybe=True)
    # What needs a broker: its client's statistics, and the ends of the logs.
    assert {it.name for it in told} - found.keys() <= {
        "wb_heartbeat_age_seconds", "wb_broker_rtt_seconds", "wb_throttle_time_seconds", "wb_fetch_queue_length_messages",
        "wb_log_end_offset", "wb_log_start_offset", "wb_consumer_lag_messages", "wb_time_lag_seconds",
    }  # fmt: skip


def test_the_server_exports_what_the_page_says(tmp_path: Path) -> None:
    """Also before anything has happened: a query of an alert finds its metric."""
    office = Office(tmp_path)
    office.worker.metrics.alerts.labels("new").inc()
    office.worker.metrics.triages.labels("alert", "ok").inc()
    office.worker.metrics.triage_seconds.labels("alert").observe(1)
    agree(families(office.worker.metrics.page(office.store).decode()), of_serve())


def test_the_textfile_has_what_the_page_says(tmp_path: Path) -> None:
    """Of a run that found something."""
    run = recorded(tmp_path, "health-1", 1)
    result(tmp_path / "health-1", "payments")
    export(tmp_path, run)
    found = families((tmp_path / metrics_name("health", "prod")).read_text(encoding="utf-8"))
    agree(found, of_reports())
    assert all(labels for _, labels in found.values())


def test_an_audit_exports_what_the_page_says() -> None:
    """Of one where everything is wrong that can be."""
    wrong = edge(lost=1, doubled=1, others=1, unknown=1, late=1, overdue_seconds=1.0, breach="too many")
    silent = SilentLayer(layer="a", told=None, seconds=700.0)
    slow = SlowStream(layer="b", seconds=5.0, limit_seconds=1.0)
    found = state(stream("s", wrong, unheard=("a → b",), silent=(silent,), slow=slow))
    agree(families(numbers(found)), of_audits())


def test_what_stands_before_kafka_is_exported_as_the_page_says() -> None:
    """A series for each kind of fault of a process, however often it occurred; names are escaped."""
    found = numbers_of_upstream(upstream('gw-"1\n', "open", "open", "429", "disk", "cannot tell"))
    agree(families(found), of_upstream())
    assert found.count("workbench_upstream_breaker{") == 1
    assert 'process="gw-\\"1\\n"' in found
    quiet = families(numbers_of_upstream(upstream("gw-1")))
    assert quiet.keys() == {
        f"workbench_upstream_{it}" for it in ("last_success_timestamp_seconds", "every_seconds", "processes")
    }


def test_every_metric_of_ours_in_an_alert_rule_is_exported() -> None:
    """A rule about a metric that nobody has never fires."""
    folder = Path(__file__).parent.parent.parent / "runbooks" / "rules"
    named = {it for path in folder.glob("*.yml") for it in re.findall(r"\b(?:workbench|wb)_\w+", path.read_text())}
    told = {it.name for of in (of_runtime, of_serve, of_reports, of_audits, of_upstream) for it in of()}
    assert len(named) > 10
    assert {re.sub("_(bucket|sum|count)$", "", it) for it in named} <= told
