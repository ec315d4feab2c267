"""`workbench triage --all`: what it refuses at once, and what it hands over."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tests.fleet import land_fleet, slot_series
from tests.reference.valid import valid
from tests.servers import Script, scripted
from workbench.api.triages import exit_code
from workbench.cli import root
from workbench.collect.capture import NO_BASELINE
from workbench.errors import EvidenceError, ExitCode, NoSeriesError, UsageError, WorkbenchError
from workbench.triage.verdict_names import State, Verdict


def refused(*words: str) -> WorkbenchError:
    """The error that a call ends with."""
    found = CliRunner().invoke(root, ["triage", *words]).exception
    assert isinstance(found, WorkbenchError), found
    return found


def test_what_does_not_go_together_is_refused_before_any_work(tmp_path: Path) -> None:
    """By the names of the options, in one line."""
    assert "Missing option '--cluster', or '--store'." in refused("--all").message
    assert "no other selection" in refused("--all", "--cluster", "c", "--group", "g").message
    assert "need --all" in refused("--cluster", "c", "--store", str(tmp_path)).message
    assert refused("--cluster", "c", "--top", "3").message == "--limit needs --all."
    for word in ("--every", "--timeout", "--for"):
        assert "needs --watch" in refused("--cluster", "c", word, "10s").message
    assert isinstance(refused("--all", "--store", str(tmp_path)), UsageError)
    assert "is not a store" in refused("--all", "--store", str(tmp_path / "none")).message
    missing = refused("--all", "--store", str(tmp_path), "--html", str(tmp_path / "no" / "report.html"))
    assert "There is no folder" in missing.message


def test_an_empty_store_is_no_evidence(tmp_path: Path) -> None:
    """And never a healthy fleet."""
    land_fleet(tmp_path / "store", subscriptions=4, slots=0)
    assert isinstance(refused("--all", "--store", str(tmp_path / "store")), EvidenceError)


def test_a_prometheus_younger_than_a_slot_is_sent_to_the_command_that_judges_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last full slot ended before its first sample."""
    monkeypatch.setattr("workbench.spark.session.start_in_background", lambda: None)
    with scripted(Script(body=b'{"status":"success","data":{"resultType":"matrix","result":[]}}')) as server:
        settings = tmp_path / "workbench.toml"
        settings.write_text(f'[clusters.prod]\nprometheus = "{server.url}"\nprofiles = ["kafka_exporter"]\n')
        words = "--all", "--cluster", "prod", "--store", str(tmp_path / "store"), "--config", str(settings)
        now, then = refused(*words), refused(*words, "--until", "2026-11-21T03:00Z")
    assert isinstance(now, NoSeriesError)
    assert "If the series are younger: workbench triage --cluster prod." in (now.hint or "")
    assert isinstance(then, NoSeriesError)
    assert "younger" not in (then.hint or "")


def test_the_store_of_a_cluster_fits_whatever_the_settings_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has named a folder, so nobody is told to name another one: for a window of another length, or names with slashes."""
    monkeypatch.setattr("workbench.spark.session.start_in_background", lambda: None)
    monkeypatch.setattr("workbench.user_folders.state_dir", lambda: tmp_path / "state")
    settings = tmp_path / "workbench.toml"
    with scripted(Script(body=b'{"status":"success","data":{"resultType":"matrix","result":[]}}')) as server:
        for name in ("prod/eu", "prod"):
            for length in ("15m", "30m"):
                source = f'prometheus = "{server.url}"\nprofiles = ["kafka_exporter"]\n'
                settings.write_text(f'[windows]\nlength = "{length}"\n[clusters."{name}"]\n{source}')
                error = refused("--all", "--cluster", name, "--config", str(settings))
                assert isinstance(error, NoSeriesError), error.message
    stores = [path.parent for path in (tmp_path / "state").rglob("store.json")]
    assert len(stores) == 4
    assert {it.parent for it in stores} == {tmp_path / "state" / "stores"}


def test_no_slot_lands_before_its_last_samples_have_arrived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A landed slot is not asked for again, so neither `--until now` nor a source that is always late makes it begin too early."""
    monkeypatch.setattr("workbench.spark.session.start_in_background", lambda: None)
    (tmp_path / "late.yaml").write_text(
        "title: late\nlate_seconds: 300\nsignals:\n  group_members: {metric: m, labels: {group: g}}\n"
    )
    with scripted(Script(body=b'{"status":"success","data":{"resultType":"matrix","result":[]}}')) as server:
        settings = tmp_path / "workbench.toml"
        for profile, late in (("kafka_exporter", 0), ("./late.yaml", 300)):
            settings.write_text(
                f'[windows]\nlength = "1m"\n[clusters.prod]\nprometheus = "{server.url}"\nprofiles = ["{profile}"]\n'
            )
            for until in ((), ("--until", "now"), ("--until", (datetime.now(UTC) + timedelta(minutes=2)).isoformat())):
                store = str(tmp_path / f"{late}-{len(until)}")
                server.requests.clear()
                refused("--all", "--cluster", "prod", "--store", store, "--config", str(settings), *until)
                ends = [float(query["time"][0]) for _, query, _ in server.requests if "time" in query]
                assert ends and max(ends) <= time.time() - 15 - late


@pytest.mark.jvm
def test_a_slot_that_is_incomplete_is_said_and_is_no_all_clear(spark: Any, tmp_path: Path) -> None:
    """Exit code 4 where all is well in the part that is known; with whole slots it is 0."""
    store = land_fleet(tmp_path / "store", subscriptions=4, slot_seconds=600)
    words = ["--all", "--store", str(tmp_path / "store"), "--json"]
    assert CliRunner().invoke(root, ["triage", *words], standalone_mode=False).return_value == ExitCode.OK
    for end in store.landed()[:2]:
        store.land(end, slot_series(4, end, 600, 30), missing=["store 7 is silent"])
    shown = CliRunner().invoke(root, ["triage", *words], standalone_mode=False)
    assert shown.return_value == ExitCode.EVIDENCE
    incomplete = json.loads(shown.stdout)["incomplete"]
    assert len(incomplete) == 2
    assert all("store 7 is silent" in text and f"{store.landed()[0]:%Y-%m-%d}" in text for text in incomplete)


@pytest.mark.jvm
def test_a_table_a_report_and_an_exit_code(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst first on the terminal, all of them in Parquet, the worst with charts in one HTML file; as of a large fleet."""
    monkeypatch.setattr("workbench.sweep.sweep_engine.SMALL_SAMPLES", 0)
    land_fleet(tmp_path / "store", subscriptions=120, slot_seconds=600)
    words = ["--all", "--store", str(tmp_path / "store"), "--top", "2"]
    outputs = ["--html", str(tmp_path / "report.html"), "--parquet", str(tmp_path / "all.parquet")]
    shown = CliRunner().invoke(root, ["triage", *words, *outputs], standalone_mode=False)
    assert shown.exception is None, shown.output
    assert shown.return_value == ExitCode.FINDINGS
    assert "120 groups on topics" in shown.stdout
    assert "consumer_stopped" in shown.stdout
    assert "1 more that are not healthy" in shown.stdout
    assert "5 of 5 files read" in shown.stderr
    assert pq.read_table(tmp_path / "all.parquet").num_rows == 120
    report = (tmp_path / "report.html").read_text()
    assert "group-000007" in report
    assert "group-000008" not in report
    again = CliRunner().invoke(root, ["triage", *words, "--json"], standalone_mode=False)
    document = json.loads(again.stdout)
    assert valid("sweep", document)["schema"] == "workbench.sweep/1"
    assert document["reading"]["files_read"] == 0
    assert len(document["findings"]) == 2


@pytest.mark.parametrize(
    ("state", "incomplete", "code"),
    [
        (State.HEALTHY, (), ExitCode.OK),
        (State.HEALTHY, ("store 7 is silent",), ExitCode.EVIDENCE),
        (State.DRAINING, ("store 7 is silent",), ExitCode.EVIDENCE),
        (State.LAGGING, ("store 7 is silent",), ExitCode.FINDINGS),
        (State.HEALTHY, (NO_BASELINE,), ExitCode.OK),
    ],
)
def test_a_part_is_no_all_clear_for_one_triage_either(
    state: State, incomplete: tuple[str, ...], code: ExitCode
) -> None:
    """What lags, lags; that nothing lags is known of the whole only. A baseline that nobody asked for is not missed."""
    finding = SimpleNamespace(state=state, verdict=Verdict.HEALTHY, muted=None)
    assert exit_code(SimpleNamespace(findings=(finding,), incomplete=incomplete, not_judged=())) == code  # type: ignore[arg-type]


def test_what_is_muted_does_not_count() -> None:
    """But what is not, beside it, does."""
    muted = SimpleNamespace(state=State.LAGGING, verdict=Verdict.HOT_KEY, muted="until then: migration")
    loud = SimpleNamespace(state=State.LAGGING, verdict=Verdict.HOT_KEY, muted=None)
    assert exit_code(SimpleNamespace(findings=(muted,), incomplete=(), not_judged=())) == ExitCode.OK  # type: ignore[arg-type]
    assert exit_code(SimpleNamespace(findings=(muted, loud), incomplete=(), not_judged=())) == ExitCode.FINDINGS  # type: ignore[arg-type]
