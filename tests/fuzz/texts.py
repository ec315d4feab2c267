"""Parsers of what people write: settings, profiles, times; of reports; of orders to a runtime."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, patch

from prometheus_client import CollectorRegistry

from evaluation.stories import WINDOW
from tests.fuzz.mutators import (
    TOKENS,
    json_text,
    of_bytes,
    of_json,
    of_lines,
    of_text,
    of_toml,
    toml_text,
    typed_time,
)
from tests.fuzz.target import CAPTURES, SECRET, Case, Target, changed, from_file, written
from workbench.errors import UsageError

_SETTINGS = {
    "clusters": {
        "prod": {
            "bootstrap": "b1:9092,b2:9092",
            "prometheus": f"https://user:{SECRET}@prometheus:9090/",
            "profiles": ["kafka_exporter", "runtime"],
            "members": {"pay-0": "pay"},
            "metrics": ["http://a:9308/metrics"],
            "kafka": {"sasl.password": SECRET, "sasl.username": "u", "socket.timeout.ms": 3000},
            "prometheus_headers": {"Authorization": f"Bearer {SECRET}"},
            "timeout_seconds": 3.5,
            "windows": {"length": "15m", "baseline": "PT1H"},
        }
    },
    "thresholds": {"time_lag_objective_seconds": 60.0, "hot_factor": 3},
    "windows": {"length": "1h", "baseline": "7d"},
}
_RUNTIME = {
    "runtime": {
        "bootstrap": "b:9092", "group": "g", "topics": ["orders", "^pay-.*"], "admin_token": SECRET, "consumers": 2,
        "dead_letter_topic": "letters", "start_at": "2026-11-21T03:00:00+08:00",
        "kafka": {"sasl.password": SECRET, "fetch.min.bytes": 1},
        "processors": {"refund": {"threads": 8, "delay_seconds": 1.5, "queues": 4}},
    }
}  # fmt: skip
_PROFILE = b"""
name_note: x
signals:
  consumer_lag: {metric: my_lag, labels: {group: consumergroup, topic: topic, partition: partition}, where: {a: "[a-z]+"}}
  process_time:
    metric: my_seconds
    labels: {group: g, topic: t}
    scale: 0.001
    quality: proxy
  group_state: {metric: my_state, labels: {group: g}, state_label: state}
"""


def _settings() -> list[Target]:
    from workbench.profiles import parse_profile
    from workbench.runtime.config import RuntimeConfig
    from workbench.settings import load_settings

    def use(path: Path) -> object:
        settings = load_settings(path)
        return [(settings.thresholds_of(it), settings.windows_of(it)) for it in settings.clusters.values()]

    def make_environment(random: Random) -> Case:
        names = (
            "GROUP",
            "TOPICS",
            "KAFKA__SASL.PASSWORD",
            "PROCESSORS__X__THREADS",
            "CONSUMERS",
            "ADMIN_TOKEN",
            "START_AT",
            "",
            "__",
            "A__B",
        )
        values = ("12", '["orders"]', SECRET, "{}", "[", '{"a": 1}', "2026-11-21T03:00:00Z")
        some = random.sample(names, random.randint(1, 4))
        return {name: of_text(random, random.choice(values)).encode(errors="replace") for name in some}

    def from_environment(case: Mapping[str, bytes], _folder: Path) -> object:
        base = {"BOOTSTRAP": b"b:1", "GROUP": b"g", "TOPICS": b'["t"]'}
        given = {
            f"WORKBENCH_RUNTIME_{name}": text.decode().replace("\0", "") for name, text in {**base, **case}.items()
        }
        return RuntimeConfig.from_environment(given)

    def use_profile(data: bytes, _folder: Path) -> object:
        profile = parse_profile(data.decode(errors="replace"), name="own")
        labels = {"consumergroup": "g", "topic": "t", "partition": "3", "g": "g", "state": "Stable", "a": "abc"}
        return [profile.meaning(metric, labels) for metric in profile.metrics()]

    profiles = Path(__file__).parent.parent.parent / "workbench" / "profiles"
    shipped = [(profiles / f"{name}.yaml").read_bytes() for name in ("kafka_exporter", "micrometer", "decaton")]
    return [
        Target(name="settings", make=changed(of_toml, toml_text(_SETTINGS)), call=from_file(use, "w.toml"), share=8),
        Target(name="runtime_file", make=changed(of_toml, toml_text(_RUNTIME)), call=from_file(RuntimeConfig.from_toml, "r.toml")),
        Target(name="runtime_environment", make=make_environment, call=from_environment, share=2),
        Target(name="profile", make=changed(of_bytes, _PROFILE, *shipped), call=use_profile, share=3),
    ]  # fmt: skip


# Reports, orders, and what a person types


def _reports() -> list[Target]:
    from workbench.report import health_report, send_report
    from workbench.report.health_result import SCHEMA, read_previous
    from workbench.report.runs.parameters import health_parameters
    from workbench.report.runs.run_record import RunRecord, runs_in

    started = datetime(2026, 11, 21, tzinfo=UTC)
    record = RunRecord(
        run_id="r", report="health", cluster="c", parameters={"a": "b"}, started_at=started, deadline_seconds=60.0, pid=1,
        process_started=1.0, steps=[{"title": "look", "state": "done", "seconds": 1.5}],
    )  # fmt: skip
    result = {
        "schema": SCHEMA, "run_id": "r", "cluster": "c", "exit_code": 3, "over_budget": 1,
        "judged": {"start": "2026-11-21T02:45:00+00:00", "end": "2026-11-21T03:00:00+00:00"},
        "states": {"lagging": 1, "healthy": 0}, "verdicts": {"slow_processor": 1},
        "lines": [
            {
                "group": "pay", "topic": "orders", "state": "lagging", "verdict": "slow_processor", "headline": "Slow.",
                "time_lag_seconds": 12.5, "budget": None,
            }
        ],
    }  # fmt: skip
    now: Any = SimpleNamespace(group="pay", topic="orders", state="lagging", time_lag=SimpleNamespace(seconds=3.0))

    def use_record(case: Mapping[str, bytes], folder: Path) -> object:
        return runs_in(written(folder, case))

    def make_record(random: Random) -> Case:
        data = record.model_dump_json(by_alias=True).encode()
        return {f"{name}/run.json": of_json(random, data) if name == "a" else data for name in "ab"}

    def use_previous(path: Path) -> object:
        before = read_previous(str(path))
        if before is None:
            return None
        lines = {(it["group"], it["topic"]): it for it in before["lines"]}
        said = send_report.chat_text(before), send_report.alerts_of(before), send_report.annotation_of(before)
        return said, health_report._trend(now, lines.get(("pay", "orders")))

    def make_parameters(random: Random) -> Case:
        both = random.random() < 0.5  # else the other one is good, and this one's value is used
        return {
            "since": typed_time(random) if both or random.random() < 0.5 else b"24h",
            "until": typed_time(random) if both else b"2026-11-21T03:00:00+08:00",
        }

    def use_parameters(case: Mapping[str, bytes], _folder: Path) -> object:
        typed = {name: text.decode(errors="surrogateescape") for name, text in case.items()}
        return health_parameters(capture=CAPTURES / "incident-1", since=typed["since"], until=typed["until"])

    return [
        Target(name="run_record", make=make_record, call=use_record, share=2),
        Target(name="previous_result", make=changed(of_json, json_text(result)), call=from_file(use_previous, "result.json"), share=2),
        Target(name="report_parameters", make=make_parameters, call=use_parameters, share=2),
    ]  # fmt: skip


def _http() -> Target:
    """Orders to the runtime, as requests on the wire: heads and bodies."""
    from workbench.runtime.runtime_http import _Handler

    class Runtime:
        state = SimpleNamespace(value="running")
        registries = (CollectorRegistry(),)

        def drain(self) -> bool:
            return True

        resume = drain

        def switch_group(
            self, group: str, since: datetime, max_bytes_per_second: int | None = None, ranges: object = None
        ) -> bool:
            assert group and since.tzinfo is not None
            assert max_bytes_per_second is None or max_bytes_per_second >= 1000
            (since - timedelta(0)).isoformat().encode()
            group.encode()
            return since.timestamp() * 1000 < 2**62

    body = json_text({"group": "g2", "since": "2026-11-21T03:00:00Z", "max_bytes_per_second": 5000})

    def make(random: Random) -> bytes:
        sent = of_json(random, body) if random.random() < 0.8 else body
        path = random.choice((b"/replay",) * 6 + (b"/drain", b"/metrics", b"/", b"/nowhere"))
        verb = b"GET" if path in (b"/metrics", b"/") else b"POST"
        length = str(len(sent)).encode() if random.random() < 0.9 else random.choice(TOKENS)
        head = (
            verb + b" " + path + b" HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + SECRET.encode() + b"\r\n"
            b"Accept: application/openmetrics-text; version=1.0.0\r\nContent-Length: " + length + b"\r\n\r\n"
        )
        return (of_bytes(random, head) if random.random() < 0.3 else head) + sent

    def call(data: bytes, _folder: Path) -> object:
        handler: Any = object.__new__(_Handler)
        handler.runtime, handler.token, handler.client_address = Runtime(), SECRET, ("127.0.0.1", 1)
        handler.rfile, handler.wfile = io.BytesIO(data), io.BytesIO()
        handler.handle_one_request()
        said = handler.wfile.getvalue()
        if said.startswith(b"HTTP/1.1 500") or b"Traceback" in said or SECRET.encode() in said:
            raise AssertionError(f"the page answers {said[:200]!r}")
        if len(said) > 10_000:
            raise AssertionError(f"the page answers {len(said)} bytes")
        return len(said)

    return Target(name="http_orders", make=make, call=call)


def _typed() -> Target:
    from workbench.window import parse_duration, parse_instant

    def make(random: Random) -> Case:
        return {"duration" if random.random() < 0.4 else "instant": typed_time(random)}

    def call(case: Mapping[str, bytes], _folder: Path) -> object:
        [(kind, data)] = case.items()
        text = data.decode(errors="surrogateescape")
        if kind == "duration":
            return parse_duration(text) > timedelta(0)
        found = parse_instant(text, now=WINDOW.end)
        assert found.utcoffset() == timedelta(0)
        return found

    return Target(name="typed_times", make=make, call=call)


_EVENTS = b"""{"ts": "2026-11-21T02:58:00Z", "kind": "deploy", "text": "payments 142", "service": "payments", "group": "pay-*"}
{"ts": "2026-11-21T02:59:00+08:00", "kind": "config", "text": "retention.ms"}
"""


def _events() -> list[Target]:
    """Events from a file, from the list on the disk, and from the answers of Grafana and Alertmanager."""
    from workbench.collect import deploys_and_alerts
    from workbench.schedule import schedule_of

    grafana = [{"time": 1795345504776, "text": "<b>deploy</b> 142", "tags": ["deploy", "payments"]}]
    alerts = [{"startsAt": "2026-11-21T02:58:00.123Z", "labels": {"alertname": "ConsumerLag", "group": "pay"}}]

    def from_store(path: Path) -> object:
        store = deploys_and_alerts.EventStore("c", path.parent)
        found = store.read(WINDOW.start, WINDOW.end)
        return store.add([*found, *deploys_and_alerts.EventStore("other", path.parent).read()])

    def answered(data: bytes, _folder: Path) -> object:
        web = SimpleNamespace(status_code=200, json=lambda: json.loads(data.decode(errors="replace")))
        session = MagicMock()
        session.__enter__.return_value.get.return_value = web
        with patch.object(deploys_and_alerts, "WebSession", lambda **_: session):
            try:
                return deploys_and_alerts.of_grafana("http://g:3000", WINDOW.start, WINDOW.end)
            except deploys_and_alerts.SourceUnreachableError:
                return deploys_and_alerts.of_alertmanager("http://a:9093")

    def schedule(data: bytes, _folder: Path) -> object:
        try:
            found = schedule_of(data.decode(errors="replace"))
        except ValueError as error:
            raise UsageError(str(error)) from None  # as the settings do
        return found.longest_gap, None if found.every is not None else next(found.due_before(WINDOW.end))

    return [
        Target(name="events_file", make=changed(of_lines, _EVENTS), call=from_file(deploys_and_alerts.of_file, "e.jsonl"), share=2),
        Target(name="events_store", make=changed(of_lines, _EVENTS), call=from_file(from_store, "c.jsonl")),
        Target(name="events_answer", make=changed(of_json, json_text(grafana), json_text(alerts)), call=answered, share=2),
        Target(name="schedule", make=changed(of_bytes, b"every 6h", b"CRON_TZ=Europe/Berlin */5 2-4 1,15 * 1-5"), call=schedule),
    ]  # fmt: skip


def targets() -> list[Target]:
    """All of this module."""
    return [*_settings(), *_reports(), _http(), _typed(), *_events()]
