"""Metrics of the server itself; they name no cluster, group or target, so anybody may read them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from workbench.serve.server_database import Store

_SECONDS = (0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 30, 60, 120, 300)


class Metrics:
    """Counters and times of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.alerts = Counter(
            "workbench_serve_alerts",
            "Alerts accepted: new, known, resolved, dropped, group_unread.",
            ["kind"],
            registry=self.registry,
        )
        self.refused = Counter(
            "workbench_serve_refused",
            "Requests refused before they were read, by HTTP status.",
            ["status"],
            registry=self.registry,
        )
        self.triages = Counter(
            "workbench_serve_triages",
            "Triages by purpose (alert, again, fleet, asked) and result (ok, failed).",
            ["purpose", "result"],
            registry=self.registry,
        )
        self.triage_seconds = Histogram(
            "workbench_serve_triage_seconds",
            "Duration of a triage, by purpose.",
            ["purpose"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.messages = Counter(
            "workbench_serve_messages",
            "Messages by kind of target, and result (sent, failed).",
            ["kind", "result"],
            registry=self.registry,
        )
        self.answer_seconds = Histogram(
            "workbench_serve_alert_to_message_seconds",
            "Time from the first alert of an incident to the target's acceptance of its message.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.late = Counter(
            "workbench_serve_late_alerts", "Alerts passed on without a verdict.", registry=self.registry
        )
        self.truncated = Counter(
            "workbench_serve_truncated_alerts",
            "Alerts that Alertmanager left out of its messages.",
            registry=self.registry,
        )
        self.skipped = Counter(
            "workbench_serve_skipped",
            "Alerts, incidents and subscriptions that an internal error has cost; the others go on.",
            ["kind"],
            registry=self.registry,
        )
        self._waiting = Gauge("workbench_serve_alerts_waiting", "Alerts without a verdict.", registry=self.registry)
        self._open = Gauge("workbench_serve_incidents_open", "Open incidents.", registry=self.registry)
        self._unsent = Gauge("workbench_serve_messages_waiting", "Messages to be sent.", registry=self.registry)
        self.leading = Gauge(
            "workbench_serve_leading",
            "1 where alerts are judged; 0 where another instance does.",
            registry=self.registry,
        )
        self.ready = Gauge("workbench_serve_ready", "1 when Spark is warm.", registry=self.registry)

    def page(self, store: Store) -> bytes:
        """The metrics in Prometheus' text format."""
        self._waiting.set(store.number("SELECT count(*) FROM alert WHERE state = 'waiting'"))
        self._open.set(store.number("SELECT count(*) FROM incident WHERE closed IS NULL"))
        self._unsent.set(store.number("SELECT count(*) FROM outbox WHERE state IN ('waiting', 'sending')"))
        return generate_latest(self.registry)
