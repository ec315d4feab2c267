"""Profiles of one's own: as files, and in the folder beside the settings; every mistake is named."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import run_here
from tests.collect.test_samples_from_prometheus import END, body
from tests.servers import Script, scripted
from workbench import profiles
from workbench.collect.capture_in_memory import collect
from workbench.collect.scrape import Page, page_series
from workbench.errors import ConfigError
from workbench.profiles import known_profiles, load_profile, name_of, parse_profile
from workbench.profiles.profile_fit import RuleState, fit
from workbench.profiles.profile_schema import profile_schema
from workbench.settings import load_settings
from workbench.thresholds import Thresholds
from workbench.triage.triage_engine import triage
from workbench.triage.verdict_names import Verdict
from workbench.window import Window

OURS = """
title: ours
signals:
  consumer_lag: {metric: acme_lag, labels: {group: cg, topic: queue, partition: shard}}
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder for profiles."""
    monkeypatch.setattr(profiles, "profiles_dir", lambda: tmp_path)
    return tmp_path


def test_a_profile_in_the_users_folder_is_known_by_its_name(own: Path) -> None:
    """And is changed while the program runs: notebooks do."""
    (own / "ours.yaml").write_text(OURS)
    assert load_profile("ours").signals["consumer_lag"].metric == "acme_lag"
    assert "ours" in [it.name for it in known_profiles()]
    (own / "ours.yaml").write_text(OURS.replace("acme_lag", "other_lag"))
    assert load_profile("ours").signals["consumer_lag"].metric == "other_lag"


def test_a_path_is_relative_to_the_settings(tmp_path: Path) -> None:
    """Wherever the command is started."""
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "ours.yaml").write_text(OURS)
    settings = tmp_path / "workbench.toml"
    settings.write_text(
        '[clusters.prod]\nprometheus = "http://p:9090"\nprofiles = ["kafka_exporter", "profiles/ours.yaml"]\n'
    )
    cluster = load_settings(settings).cluster("prod")
    assert [load_profile(name).name for name in cluster.profiles] == ["kafka_exporter", "ours"]
    assert [name_of(name) for name in cluster.profiles] == ["kafka_exporter", "ours"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("signals: {lag: {metric: a, labels: {}}}", "'lag' is not a signal"),
        ("signals: {consumer_lag: {metric: a, labels: {cg: group}}}", "'cg' is not a canonical label"),
        ("signals: {consumer_lag: {metric: 'a b', labels: {}}}", "signals.consumer_lag.metric"),
        ("signals: {consumer_lag: {metrics: a, labels: {}}}", "signals.consumer_lag.metric"),
        ("- a list", "not a mapping"),
        ("signals: [", "while parsing"),
        ("", "signals: it is missing"),
    ],
)
def test_a_mistake_is_named_with_the_file(tmp_path: Path, text: str, said: str) -> None:
    """The field, and what could stand there."""
    (tmp_path / "ours.yaml").write_text(text)
    with pytest.raises(ConfigError, match=said) as refused:
        load_profile(str(tmp_path / "ours.yaml"))
    assert str(tmp_path / "ours.yaml") in refused.value.message


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    """Missing, not text, endless, or with the name of another one."""
    with pytest.raises(ConfigError, match=r"missing.yaml cannot be read: No such file"):
        load_profile(str(tmp_path / "missing.yaml"))
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_profile(str(tmp_path / "bytes.yaml"))
    (tmp_path / "kminion.yaml").write_text(OURS)
    with pytest.raises(ConfigError, match="has the name of one that ships"):
        load_profile(str(tmp_path / "kminion.yaml"))
    (tmp_path / "large.yaml").write_text("#" * (2 << 20))
    with pytest.raises(ConfigError, match="too large"):
        load_profile(str(tmp_path / "large.yaml"))


def test_a_process_time_without_types_is_one_processor() -> None:
    """The tree compares processors; one is enough for "all are slow"."""
    profile = parse_profile(
        "signals: {process_time: {metric: work_seconds, labels: {group: cg, member: pod}}}", name="ours"
    )
    page = Page(
        url="http://x",
        taken_at=1.0,
        text='work_seconds_count{cg="g",pod="p"} 5\nwork_seconds_sum{cg="g",pod="p"} 1\n',
    )
    [found] = page_series(page, [profile], cluster="c")
    assert found.names["processor"].to_pylist() == ["all", "all"]


def test_every_rule_says_what_became_of_it() -> None:
    """No such metric, no label, stale, native, found."""
    profile = parse_profile(
        """
signals:
  consumer_lag: {metric: acme_lag, labels: {group: cg, topic: queue, partition: shard}}
  committed_offset: {metric: acme_commit, labels: {group: cg}}
  log_end_offset: {metric: acme_end, labels: {topic: queue}}
  rebalances: {metric: acme_rebalance_total, labels: {member: pod}}
  process_time: {metric: acme_work_seconds, labels: {}}
""",
        name="ours",
    )
    examples = {"acme_lag": {"cg": "g", "topic": "t"}, "acme_end": {"queue": "t"}, "acme_rebalance": {"pod": "p"}}
    names = frozenset({*examples, "acme_commit", "acme_work_seconds"})
    checks = {it.signal: it for it in fit(profile, examples, names=names).checks}
    assert {name: it.state for name, it in checks.items()} == {
        "consumer_lag": RuleState.NO_LABEL,
        "committed_offset": RuleState.STALE,
        "log_end_offset": RuleState.FOUND,
        "rebalances": RuleState.NO_METRIC,
        "process_time": RuleState.NATIVE,
    }
    assert checks["consumer_lag"].detail == "acme_lag has no label queue and shard; it has cg and topic"
    assert "there is acme_rebalance" in checks["rebalances"].detail


def test_the_schema_knows_signals_and_labels(tmp_path: Path) -> None:
    """And the command prints it."""
    done = run_here("profiles", "schema", cwd=tmp_path)
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found == profile_schema()
    assert "Unit: messages" in found["properties"]["signals"]["properties"]["consumer_lag"]["description"]
    assert found["properties"]["signals"]["additionalProperties"] is False
    assert "partition" in found["$defs"]["MappingRule"]["properties"]["labels"]["propertyNames"]["enum"]
    assert "name" not in found["properties"]


NINE_LINES = """title: an exporter with names of its own
signals:
  consumer_lag: {metric: acme_backlog, labels: {group: cg, topic: queue, partition: shard}}
  committed_offset: {metric: acme_position, labels: {group: cg, topic: queue, partition: shard}}
  log_end_offset: {metric: acme_end, labels: {topic: queue, partition: shard}}
  group_members: {metric: acme_readers, labels: {group: cg}}
"""


@pytest.mark.jvm
def test_a_profile_of_a_few_lines_leads_to_a_verdict(tmp_path: Path, spark: Any) -> None:
    """From the answer of a server to the finding: nobody reads since ten minutes."""
    assert len(NINE_LINES.splitlines()) < 10
    (tmp_path / "ours.yaml").write_text(NINE_LINES)
    (tmp_path / "workbench.toml").write_text('[clusters.c]\nprometheus = "URL"\nprofiles = ["ours.yaml"]\n')
    times = [END.timestamp() - 30.0 * number for number in range(150)][::-1]
    series: list[tuple[dict[str, str], list[list[object]]]] = []
    for shard in ("0", "1"):
        place = {"cg": "pay", "queue": "orders", "shard": shard}
        ends = {at: 1_000_000 + round(20 * (at - times[0])) for at in times}
        done = {at: min(ends[at], ends[times[-20]]) for at in times}
        log = {"queue": "orders", "shard": shard}
        series += [
            ({"__name__": "acme_backlog", **place}, [[at, str(ends[at] - done[at])] for at in times]),
            ({"__name__": "acme_position", **place}, [[at, str(done[at])] for at in times]),
            ({"__name__": "acme_end", **log}, [[at, str(ends[at])] for at in times]),
        ]
    readers = {"__name__": "acme_readers", "cg": "pay"}
    series.append((readers, [[at, "0" if at > times[-20] else "2"] for at in times]))
    with scripted(Script(body=body(*series))) as server:
        text = (tmp_path / "workbench.toml").read_text().replace("URL", server.url)
        (tmp_path / "workbench.toml").write_text(text)
        cluster = load_settings(tmp_path / "workbench.toml").cluster("c")
        window = Window.ending(END, length=timedelta(minutes=15), baseline=timedelta(hours=1))
        capture = collect(cluster, window, thresholds=Thresholds())
    assert capture.info.profiles == ["ours"]
    [finding] = triage(capture, spark).findings
    assert (finding.group, finding.topic, finding.verdict) == ("pay", "orders", Verdict.CONSUMER_STOPPED)
    assert finding.lag_messages == 2 * 20 * 30 * 19
