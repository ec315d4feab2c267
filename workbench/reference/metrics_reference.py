"""Metrics of Workbench itself: of the runtime, of `serve`, of reports, audits, and what stands before Kafka (docs/metrics.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from workbench.profiles import load_profile
from workbench.reference.markdown_tables import code, page, table
from workbench.report import audit_state, state_before_kafka
from workbench.report.runs.run_metrics_file import FAMILIES
from workbench.runtime.runtime_metrics import RuntimeMetrics
from workbench.serve.own_metrics import Metrics
from workbench.signals import SIGNALS


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """One metric; `name` as a query has it, without `_bucket`, `_sum` and `_count` of a histogram."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


def of_runtime() -> list[Exported]:
    """Metrics of the runtime: its signals by the shipped profile, then those of its own health."""
    signals = []
    for name, rule in load_profile("runtime").signals.items():
        labels = [*rule.labels.values(), *([rule.stat_label] if rule.stat_label else [])]
        it = SIGNALS[name]
        signals.append(Exported(name=it.metric, kind=it.kind.value, labels=tuple(labels), meaning=it.help))
    known = {it.name for it in signals}
    own = _of(RuntimeMetrics("g", gauges=tuple).registry)
    return [*signals, *(it for it in own if it.name not in known)]


def of_serve() -> list[Exported]:
    """Metrics of `workbench serve`."""
    return _of(Metrics().registry)


def of_reports() -> list[Exported]:
    """Metrics of the textfile beside the scheduled reports."""
    return [Exported(name=name, kind="gauge", labels=labels, meaning=help) for name, labels, help in FAMILIES]


def of_audits() -> list[Exported]:
    """Metrics of the textfile of an audit."""
    return [
        Exported(name=name, kind="gauge", labels=labels, meaning=help) for name, labels, help in audit_state.FAMILIES
    ]


def of_upstream() -> list[Exported]:
    """Metrics of the textfile of what stands before Kafka."""
    return [
        Exported(name=name, kind="gauge", labels=labels, meaning=help)
        for name, labels, help in state_before_kafka.FAMILIES
    ]


def _of(registry: CollectorRegistry) -> list[Exported]:
    """Every family of a registry, also those without a series yet."""
    labels = {}
    for collector in registry._collector_to_names:  # the library tells labels only of series that exist
        for it in collector.describe() if hasattr(collector, "describe") else ():
            labels[it.name] = tuple(getattr(collector, "_labelnames", ()))
    return [
        Exported(
            name=f"{it.name}_total" if it.type == "counter" else it.name,
            kind=it.type,
            labels=labels.get(it.name, tuple(getattr(it, "_labelnames", ()))),
            meaning=it.documentation,
        )
        for it in registry.collect()
    ]


def as_markdown() -> str:
    """The page docs/metrics.md."""
    lines = [
        "# Metrics",
        "",
        "What Workbench itself exports, printed from the code; a test compares with real pages. Metrics that it *reads* are in"
        " [profiles](profiles.md).",
        "",
        "## The runtime",
        "",
        "`GET /metrics` on `metrics_port` ([the runtime](runtime.md)). `runtime` is the profile that reads them. A histogram has"
        " `_bucket`, `_sum` and `_count`; `…_created` is when a series began.",
        "",
        *_rows(of_runtime()),
        "",
        "## `workbench serve`",
        "",
        "`GET /metrics` without a token: no name of a cluster, group or target is in it ([alerts](serve.md)).",
        "",
        *_rows(of_serve()),
        "",
        "## Scheduled reports",
        "",
        "A file `….workbench_report.prom` beside the runs, for node_exporter's textfile collector ([reports](reports.md)).",
        "`cluster` is the cluster of the settings, here and below. If your Prometheus gives its targets such a label,",
        "set `honor_labels: true` for the job that scrapes this node_exporter: otherwise ours is renamed to",
        "`exported_cluster`, and alerts name that of the target.",
        "",
        *_rows(of_reports()),
        "",
        "## Audits",
        "",
        "A file `….workbench_audit.prom`, written by `workbench audit publish` ([audit](audit.md)). What is well has no series.",
        "",
        *_rows(of_audits()),
        "",
        "## Before Kafka",
        "",
        "A file `….workbench_upstream.prom`, written by `workbench audit upstream --cluster prod --output FOLDER`"
        " ([audit](audit.md#before-kafka))."
        " What is well has no series.",
        "",
        *_rows(of_upstream()),
    ]
    return page(lines)


def _rows(found: Sequence[Exported]) -> list[str]:
    cells = [(code(it.name), it.kind, ", ".join(map(code, it.labels)), it.meaning) for it in found]
    return table(["metric", "type", "labels", "meaning"], cells)
