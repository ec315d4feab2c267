"""`workbench audit upstream`: from pages of gateways and agents, by a profile of one's own, to what a person on call sees."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.audit.states import MADE
from tests.cli.running import run_here
from tests.history.gateway import END, Gateway, during, replayed, window_of
from tests.reference.valid import valid
from tests.servers import Script, scripted
from workbench.api.gateway_state import upstream
from workbench.collect.capture import Capture, CaptureInfo, WindowModel, write_capture
from workbench.collect.scrape import Page, page_series
from workbench.errors import ExitCode
from workbench.history.backlog_before_kafka import LagBeforeKafka
from workbench.history.gateway_breakers import BreakerState
from workbench.profiles import parse_profile
from workbench.report.state_before_kafka import before_kafka_of
from workbench.samples import concat_series

PROFILE = parse_profile(
    """
title: our gateways
signals:
  gateway_sends:
    metric: gw_kafka_sends_total
    labels: {member: instance, queue: cluster}
    stat_label: result
    stats: {success: ok, error: failed}
  gateway_answers:
    metric: gw_http_answers_total
    labels: {member: instance}
    stat_label: code
  disk_backlog_age: {metric: agent_oldest_seconds, labels: {member: instance}}
  disk_backlog_bytes: {metric: agent_disk_kb, labels: {member: instance}, scale: 1000}
""",
    name="ours",
)
SETTINGS = """
[clusters.prod.breaker]
normal = "kafka-a"
failover = "kafka-b"
largest_share = 0.8
"""


def capture_of(folder: Path, gateway: Gateway, *, age: float = 0.0, refused: float = 0.0) -> Path:
    """A recording of 15 minutes of a gateway and an agent, scraped each 15 s."""
    tables = []
    for second in range(14, gateway.seconds, 15):
        lines = [
            f'gw_kafka_sends_total{{instance="gw-1",cluster="kafka-{"a" if to == "normal" else "b"}",'
            f'result="{"success" if outcome == "ok" else "error"}"}} {gateway.counts[second].get((to, outcome), 0)}'
            for to in ("normal", "failover")
            for outcome in ("ok", "failed")
        ]
        lines += [f'gw_http_answers_total{{instance="gw-1",code="200"}} {100 * second}']
        lines += [f'gw_http_answers_total{{instance="gw-1",code="429"}} {100 * refused * max(0, second - 300):.0f}']
        lines += [f'agent_oldest_seconds{{instance="agent-7"}} {min(age, second):.0f}']
        lines += [f'agent_disk_kb{{instance="agent-7"}} {10 * min(age, second):.0f}']
        page = Page(
            url="http://page", taken_at=END - gateway.seconds + second + 1, text="".join(f"{it}\n" for it in lines)
        )
        tables += page_series(page, [PROFILE], cluster="prod")
    samples = concat_series(tables).to_samples()
    window = window_of(900)
    info = CaptureInfo(
        cluster="prod",
        source="prometheus",
        profiles=["kafka_exporter"],
        window=WindowModel(baseline_start=window.baseline_start, start=window.start, end=window.end),
        created_at=window.end,
    )
    write_capture(folder, Capture(info=info, samples=samples))
    return folder


def test_a_calm_cluster_is_said_to_be_calm_and_one_that_tells_nothing_is_not(tmp_path: Path) -> None:
    """0, and 4."""
    (tmp_path / "workbench.toml").write_text(SETTINGS)
    capture_of(tmp_path / "calm", Gateway().run())
    shown = run_here("audit", "upstream", "--capture", "calm", cwd=tmp_path)
    assert (shown.returncode, shown.stdout.startswith("gw-1  closed at ")) == (ExitCode.OK, True)
    assert "; 0.0% went to failover" in shown.stdout
    assert "2 processes hold nothing back." in shown.stderr
    (tmp_path / "workbench.toml").write_text("")  # which destination is the normal one, nobody says
    shown = run_here("audit", "upstream", "--capture", "calm", cwd=tmp_path)
    assert shown.returncode == ExitCode.EVIDENCE
    assert "Records are sent to: kafka-a and kafka-b." in shown.stdout


def test_faults_and_what_waits_are_told_with_since_when_and_how_much(tmp_path: Path) -> None:
    """3; JSON has the shape of its schema."""
    (tmp_path / "workbench.toml").write_text(SETTINGS)
    both = Gateway(normal=during((300, 900)), failover=during((400, 900))).run()
    capture_of(tmp_path / "late", both, age=600, refused=0.25)
    shown = run_here("audit", "upstream", "--capture", "late", cwd=tmp_path)
    assert shown.returncode == ExitCode.FINDINGS
    assert "gw-1  failing at " in shown.stdout
    assert "\n  not diverted: " in shown.stdout
    assert "Lag before Kafka: agent-7 keeps 6 MB, the oldest 10 min old, on its disk since " in shown.stdout
    assert "Lag before Kafka: gw-1 answers 429 since " in shown.stdout
    assert "is not measured: what waits before Kafka is not in it" in shown.stderr
    told = valid("audit-upstream", upstream(capture=tmp_path / "late", config=tmp_path / "workbench.toml").to_json())
    assert told["recorded"] is True
    assert [it["process"] for it in told["held_back"]] == ["agent-7", "gw-1"]
    agent, gateway = told["held_back"]
    assert (agent["age_low_seconds"], agent["age_high_seconds"], agent["size_bytes"]) == (600.0, 600.0, 6_000_000)
    assert agent["since"] == datetime.fromtimestamp(END - 600, UTC).isoformat(timespec="milliseconds")
    assert gateway["refused_share"] == pytest.approx(0.2, abs=0.02)
    assert {it["fault"] for it in told["breakers"][0]["findings"]} >= {"not diverted"}


def test_the_answer_is_published_for_pages_and_alert_rules(tmp_path: Path) -> None:
    """As of the end of the window; what nobody tells leaves no file, so that the one before it becomes old."""
    (tmp_path / "workbench.toml").write_text(SETTINGS)
    both = Gateway(normal=during((300, 900)), failover=during((400, 900))).run()
    capture_of(tmp_path / "late", both, age=600, refused=0.25)
    shown = run_here("audit", "upstream", "--capture", "late", "--output", "out/audits", "--every", "1m", cwd=tmp_path)
    assert shown.returncode == ExitCode.FINDINGS, shown.stderr
    assert {it.name for it in (tmp_path / "out" / "audits").iterdir()} == {
        "prod.workbench_upstream.json", "prod.workbench_upstream.prom",
    }  # fmt: skip
    page = (tmp_path / "out" / "audits" / "prod.workbench_upstream.prom").read_text()
    assert f'workbench_upstream_last_success_timestamp_seconds{{cluster="prod"}} {END}\n' in page
    assert 'workbench_upstream_breaker{cluster="prod",process="gw-1",fault="not diverted"} 1\n' in page
    assert 'held_back_seconds{cluster="prod",process="agent-7",kind="disk",destination=""} 600\n' in page
    assert 'workbench_upstream_processes{cluster="prod",tell_of="waiting"} 2\n' in page
    told = valid("upstream-state", json.loads((tmp_path / "out/audits/prod.workbench_upstream.json").read_text()))
    assert {it["what"] for it in told["lines"]} == {"both open", "not diverted", "429", "disk"}
    assert (told["every_seconds"], told["breakers"], told["tell_of_waiting"]) == (60.0, 1, 2)
    empty = upstream(
        capture=capture_of(tmp_path / "none", Gateway(seconds=1).run()), config=tmp_path / "workbench.toml"
    )
    assert (empty.state(every_seconds=1.0), empty.exit_code) == (None, ExitCode.EVIDENCE)


def test_a_half_that_nobody_tells_is_no_all_clear(tmp_path: Path) -> None:
    """Of agents alone no breaker is known; of gateways that have all ended, not how their breakers are now."""
    (tmp_path / "workbench.toml").write_text("")  # nobody sends to a destination of this name
    found = upstream(capture=capture_of(tmp_path / "half", Gateway().run()), config=tmp_path / "workbench.toml")
    state = found.state(every_seconds=60.0)
    assert state is not None
    assert [(it.process, it.words) for it in state.lines] == [(None, "no gateway tells of its breaker")]
    assert (found.exit_code, state.is_fault, state.is_open) == (ExitCode.EVIDENCE, False, False)
    ended = replayed(Gateway(seconds=600).run().scraped(15), 600)["gw-1"]
    gone = replace(ended, state=BreakerState.UNKNOWN, missing=())
    left = before_kafka_of([gone], LagBeforeKafka(told=("agent-7",)), until=MADE)
    assert left is not None
    assert [it.words for it in left.lines] == ["no gateway tells how its breaker is now"]


def test_a_process_that_tells_half_of_both_is_told_with_both() -> None:
    """What its breaker lacks, and what is not known of its disk."""
    ended = replayed(Gateway(seconds=600).run().scraped(15), 600)["gw-1"]
    half = replace(ended, missing=("its answers",))
    state = before_kafka_of([half], LagBeforeKafka(untold=((half.gateway, "what it has sent"),)), until=MADE)
    assert state is not None
    words = [it.words for it in state.lines if it.what == "cannot tell"]
    assert words == [f"{half.gateway} does not tell its answers", f"{half.gateway} does not tell what it has sent"]


def test_of_a_live_cluster_each_process_is_read_by_its_own_profile(tmp_path: Path) -> None:
    """A breaker that tells its state, and an agent that tells what waits and what it has sent: an age as bounds. Consumers are calm."""
    now = time.time()
    times = [now - 3600 + 15 * at for at in range(240)]
    blocked = now - 400
    gateway = {"instance": "gw-\x1b[31m1", "name": "kafka-a"}
    agent = {"host": "agent-7", "component_id": "to_gw", "component_kind": "sink", "buffer_type": "disk"}
    lag = {"consumergroup": "g", "topic": "t", "partition": "0"}
    every = [
        ("kafka_consumergroup_lag", lag, lambda _at: 7.0),
        ("resilience4j_circuitbreaker_state", {**gateway, "state": "open"}, lambda at: at > blocked),
        ("resilience4j_circuitbreaker_state", {**gateway, "state": "closed"}, lambda at: at <= blocked),
        ("resilience4j_circuitbreaker_calls_seconds_count", {**gateway, "kind": "successful"}, lambda at: 10 * at),
        ("resilience4j_circuitbreaker_calls_seconds_count", {**gateway, "kind": "failed"}, lambda _at: 0.0),
        ("vector_buffer_events", agent, lambda at: 50 * max(0.0, at - blocked)),
        ("vector_component_sent_events_total", agent, lambda at: 50 * min(at, blocked) - 50 * (now - 4000)),
    ]

    def prometheus(_path: str, query: dict[str, list[str]]) -> bytes:
        [asked] = query.get("query", [""])
        names = set(re.findall(r"[a-z0-9_]{9,}", asked))
        found = [
            {"metric": {"__name__": name, **labels}, "values": [[at, str(float(value(at)))] for at in times]}
            for name, labels, value in every
            if name in names
        ]
        return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": found}}).encode()

    with scripted(Script(answer=prometheus)) as server:
        (tmp_path / "workbench.toml").write_text(
            f'[clusters.prod]\nprometheus = "{server.url}"\nprofiles = ["kafka_exporter", "resilience4j", "vector"]\n{SETTINGS}'
        )
        shown = run_here("audit", "upstream", "--cluster", "prod", cwd=tmp_path)
        told = valid("audit-upstream", upstream(cluster="prod", config=tmp_path / "workbench.toml").to_json())
    assert shown.returncode == ExitCode.FINDINGS
    assert "\x1b" not in shown.stdout
    assert "\n  open (by its gauge): " in shown.stdout
    assert "The lag of all consumers is 7 messages: what waits before Kafka is not in it." in shown.stderr
    [held] = told["held_back"]
    assert (held["process"], held["destination"], held["is_growing"]) == ("agent-7", "to_gw", True)
    assert held["age_low_seconds"] <= 400 <= held["age_high_seconds"] + 15
    assert told["consumer_lag_messages"] == 7
    assert (told["breakers"][0]["state"], told["breakers"][0]["is_told"]) == ("open", True)
