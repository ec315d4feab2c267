"""The door for programs: what it exports, what it returns, and that commands go through it."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import workbench
from tests.profiles.test_pages import STATISTICS
from tests.reference.valid import valid
from tests.servers import Script, scripted
from workbench import api
from workbench.api.html_table import table_html
from workbench.api.measurement_requests import Measurements, Times
from workbench.cli.replay import plan_command
from workbench.collect.capture import read_capture
from workbench.errors import ExitCode, SourceUnreachableError, UsageError, WindowError
from workbench.samples import SAMPLES_SCHEMA
from workbench.settings import Windows

ROOT = Path(__file__).parent.parent.parent
INCIDENT = ROOT / "notebooks" / "captures" / "incident-1"
NOTHING = b'{"status":"success","data":{"resultType":"matrix","result":[]}}'
HOSTILE = "<img src=x onerror=alert(1)>\x1b[2J"


def test_every_package_says_what_it_exports() -> None:
    """`__all__` is complete and right: each name is there, and what is imported to be handed on is named."""
    packages = [workbench.__name__] + [
        found.name for found in pkgutil.walk_packages(workbench.__path__, "workbench.") if found.ispkg
    ]
    for name in packages:
        module = importlib.import_module(name)
        assert isinstance(module.__all__, list), name
        assert sorted(module.__all__, key=str.lower) == sorted(set(module.__all__), key=str.lower), name
        for member in module.__all__:
            assert hasattr(module, member), f"{name}.{member}"


def test_members_of_the_api_are_documented_and_typed() -> None:
    """A name that is exported by accident, or without an explanation, would be a promise nobody meant."""
    for name in api.__all__:
        member = getattr(api, name)
        assert (member.__doc__ or "").strip(), name
        if callable(member) and not isinstance(member, type):
            assert "Raises:" in member.__doc__, name
            assert set(member.__annotations__) >= {"return"}, name


@pytest.mark.jvm
def test_a_triage_of_a_capture(tmp_path: Path) -> None:
    """Typed findings, the command's JSON, a report, and HTML for a notebook."""
    found = api.triage(capture=INCIDENT)
    assert found.findings[0].headline
    assert valid("triage", found.to_json())["schema"] == "workbench.triage/1"
    assert found.exit_code is ExitCode.FINDINGS
    shown = found._repr_html_()
    assert found.findings[0].group in shown
    assert "<script" not in shown
    found.write_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 10_000
    with pytest.raises(Exception, match="group 'nobody'"):
        api.triage(capture=INCIDENT, groups=["nobody"])


@pytest.mark.jvm
def test_what_sources_say_of_their_gaps_is_escaped() -> None:
    """It is shown once, before the findings."""
    found = api.triage(capture=INCIDENT)
    shown = replace(found, triage=replace(found.triage, incomplete=(HOSTILE,)))._repr_html_()
    assert shown.count("Incomplete:") == 1
    assert "<img" not in shown
    assert "\x1b" not in shown


def test_a_replay_is_refused_by_default_where_there_is_no_record() -> None:
    """As by the command: what to do there is asked for, never guessed."""
    [option] = [it for it in plan_command.params if it.name == "after_end"]
    assert inspect.signature(api.plan_replay).parameters["after_end"].default == option.default == "fail"


@pytest.mark.jvm
def test_samples_and_features_of_a_capture_are_frames() -> None:
    """With the columns that are promised, and a row for each subscription."""
    capture = read_capture(INCIDENT)
    samples = api.samples(capture=str(INCIDENT))
    assert samples.columns == SAMPLES_SCHEMA.names
    assert samples.count() == capture.samples.num_rows
    features = api.features(capture=INCIDENT)
    rows = features.select("group", "topic", "lag_messages", "late", "partitions").collect()
    assert len(rows) == len(api.triage(capture=INCIDENT).findings)
    group = rows[0]["group"]
    narrow = api.features(capture=INCIDENT, groups=[group]).select("group").collect()
    assert {row["group"] for row in narrow} == {group}
    assert api.samples(capture=INCIDENT, groups=[group]).where("`group` <> ''").select("group").distinct().count() == 1


def test_a_selector_needs_a_cluster() -> None:
    """It is asked of a Prometheus, and says itself which groups it means."""
    with pytest.raises(UsageError, match="selector"):
        api.samples("kafka_consumergroup_lag", capture=INCIDENT)
    with pytest.raises(UsageError, match="selector"):
        api.samples("kafka_consumergroup_lag", cluster="prod", groups=["g"])


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"cluster": "a", "capture": Path("b")},
        {"capture": Path("b"), "observe": "60s"},
        {"cluster": "a", "observe": "60s", "times": Times(since="1h ago")},
    ],
)
def test_contradictions_are_refused_before_anything_is_asked(wrong: dict[str, Any]) -> None:
    """One of cluster and capture; `observe` looks ahead and at a live cluster."""
    with pytest.raises(UsageError):
        Measurements(**wrong)


def test_times_of_a_recording_count_from_its_end() -> None:
    """ "5m ago" of an incident of last year is in that year."""
    window = read_capture(INCIDENT).window
    assert Times().window_in(window) == window
    found = Times(since="5m ago", baseline="2m").window_in(window)
    assert (found.end, found.seconds, found.baseline_seconds) == (window.end, 300.0, 120.0)
    with pytest.raises(WindowError):
        Times(since="5m ago", baseline="90000d").window(Windows())


def test_tables_escape_what_a_broker_says() -> None:
    """Names of groups and topics come from outside."""
    shown = table_html(HOSTILE, [{"group": HOSTILE, "lag_messages": 1234, "none": None}] * 50, notes=[HOSTILE])
    assert "<img" not in shown
    assert "\x1b" not in shown
    assert ("1,234" in shown, "10 more rows" in shown, "–" in shown) == (True, True, True)
    assert "Nothing" in table_html("t", [])


@pytest.mark.jvm
def test_a_clients_statistics_become_a_capture(tmp_path: Path) -> None:
    """Of a consumer in any language with librdkafka inside; its group is told, since the statistics do not name it."""
    start = 1_700_000_000
    lines = []
    for number in range(120):
        document = json.loads(json.dumps(STATISTICS))
        document["time"] = start + 10 * number
        lines.append(json.dumps(document))
    file = tmp_path / "stats.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    saved = api.capture_statistics(file, tmp_path / "capture", group="payments")
    assert saved.capture.window.seconds == 900.0
    found = api.triage(capture=tmp_path / "capture")
    assert {finding.group for finding in found.findings} == {"payments"}
    assert found.findings[0].lag_messages == 120
    with pytest.raises(UsageError, match="not empty"):
        api.capture_statistics(file, tmp_path / "capture", group="payments")
    file.write_text("\n".join(lines[:1]), encoding="utf-8")
    with pytest.raises(UsageError, match="single point in time"):
        api.capture_statistics(file, tmp_path / "other", group="payments")
    file.write_text("{", encoding="utf-8")
    with pytest.raises(SourceUnreachableError, match="Line 1"):
        api.capture_statistics(file, tmp_path / "other", group="payments")
    assert not (tmp_path / "other").exists()


@pytest.mark.jvm
def test_a_clusters_token_reaches_its_prometheus_and_no_plan(tmp_path: Path) -> None:
    """Tasks run in processes of their own, and plans are printed: the token goes by a private file."""
    config = tmp_path / "workbench.toml"
    with scripted(Script(body=NOTHING)) as server:
        config.write_text(
            f'[clusters.c]\nprometheus = "{server.url}"\n'
            'prometheus_headers = {Authorization = "Bearer s3cret-t0ken"}\n',
            encoding="utf-8",
        )
        frame = api.samples("m", cluster="c", since="1970-01-01T00:00:01Z", until="1970-01-01T00:00:10Z", config=config)
        assert frame.count() == 0
        assert len(server.requests) > 1
        plan = frame._jdf.queryExecution().toString()
        assert {headers.get("Authorization") for _, _, headers in server.requests} == {"Bearer s3cret-t0ken"}
    assert "s3cret" not in plan
