"""Alert rules judge each group by its own objective: promtool evaluates what the export commands write."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.cli.running import run_here
from workbench.lab.prometheus import ensure_prometheus
from workbench.runbooks.promtool import find_promtool
from workbench.settings import load_settings
from workbench.settings_of_groups import Expectations

SETTINGS = """
[clusters.prod]
prometheus = "http://p:9090"
profiles = ["%s"]
[clusters.prod.groups."*"]
owner = "#kafka"
[clusters.prod.groups."billing-*"]
time_lag_objective = "10m"
[clusters.prod.groups."billing-fast*"]
time_lag_objective = "30s"
[clusters.prod.groups."billing-fast.1"]
time_lag_objective = "1h"
[clusters.prod.groups."*-sink"]
commit_every = "15m"
[clusters.prod.groups."nightly"]
batch = "0 2 * * 1-5"
[clusters.prod.groups."o'neil\\"s (a|b)"]
time_lag_objective = "3m"
"""
# Group → how far it may be behind, in seconds.
ALLOWED = {
    "search": 120.0,
    "billing-eu": 600.0,
    "billing-fast": 30.0,
    "billing-fast2": 30.0,
    "billing-fast.1": 3600.0,
    "billing-fastx1": 30.0,
    "audit-sink": 120.0 + 900.0,
    "billing-sink": 600.0 + 900.0,
    "nightly": 120.0 + 3 * 86_400.0,
    "o'neil\"s (a|b)": 180.0,
    "o'neil\"s a": 120.0,
}


def promtool_agrees(folder: Path, rules: str, series: list[str], tests: list[dict[str, object]], at: str) -> None:
    """Let promtool evaluate rules after some time."""
    ensure_prometheus()
    document = {
        "rule_files": [rules],
        "evaluation_interval": "30s",
        "tests": [
            {
                "interval": "30s",
                "input_series": [{"series": text.split("  ")[0], "values": text.split("  ")[1]} for text in series],
                "promql_expr_test": [{**it, "eval_time": at} for it in tests],
            }
        ],
    }
    (folder / "test.yml").write_text(yaml.safe_dump(document, allow_unicode=True))
    shown = subprocess.run(
        [str(find_promtool()), "test", "rules", str(folder / "test.yml")], capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr + shown.stdout


def quoted(group: str) -> str:
    """A label's value in a series."""
    return group.replace('"', '\\"')


@pytest.mark.parametrize("command", ["grafana", "rules"])
def test_each_group_is_late_by_its_own_objective(command: str, tmp_path: Path) -> None:
    """A second over it is late, a second under it is not; the recorded objective is that of the settings, pattern by pattern."""
    (tmp_path / "workbench.toml").write_text(SETTINGS % "runtime")
    more = ["--runbook-base", "https://wiki.example/rb"] if command == "rules" else []
    done = run_here("export", command, "--cluster", "prod", "--out", "out", *more, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    file = {"grafana": "alerts.yml", "rules": "objectives.yml"}[command]
    series, recorded, late = [], [], []
    for group, allowed in ALLOWED.items():
        for topic, over in (("over", 1), ("under", -1)):
            labels = f'group="{quoted(group)}", topic="{topic}"'
            series.append(f'wb_time_lag_seconds{{{labels}, partition="0", member="m"}}  {allowed + over}x20')
            recorded.append({"labels": f"workbench:time_lag_objective_seconds{{{labels}}}", "value": allowed})
            late.append({"labels": f"workbench:late:bool{{{labels}}}", "value": float(over > 0)})
    tests = [
        {"expr": "workbench:time_lag_objective_seconds", "exp_samples": recorded},
        {"expr": "workbench:late:bool", "exp_samples": late},
    ]
    promtool_agrees(tmp_path / "out" / "rules", file, series, tests, "5m")
    # And it is what a triage judges by.
    settings = load_settings(tmp_path / "workbench.toml")
    chosen = settings.cluster("prod")
    for group, allowed in ALLOWED.items():
        limits = Expectations(chosen.groups).limits(settings.thresholds_of(chosen), group)
        assert limits.time_lag_objective_seconds + limits.commit_every_seconds == allowed, group


def test_a_lag_exporter_alone_is_judged_by_the_lag_at_the_pace_of_the_commits(tmp_path: Path) -> None:
    """It has no time lag: 600 messages at 2 per second are five minutes; and lag without a commit is late for every objective."""
    (tmp_path / "workbench.toml").write_text(SETTINGS % "kafka_exporter")
    done = run_here(
        "export", "rules", "--cluster", "prod", "--runbook-base", "https://w.example/r", "--out", "o", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    series, late = [], []
    for group, commits, expected in (
        ("search", "0+60x40", 1.0),
        ("billing-eu", "0+60x40", 0.0),
        ("billing-x", "7x40", 1.0),
    ):
        labels = f'consumergroup="{group}", topic="t", partition="0"'
        series += [
            f"kafka_consumergroup_lag{{{labels}}}  600x40",
            f"kafka_consumergroup_current_offset{{{labels}}}  {commits}",
        ]
        late.append({"labels": f'workbench:late:bool{{group="{group}", topic="t"}}', "value": expected})
    promtool_agrees(
        tmp_path / "o" / "rules",
        "objectives.yml",
        series,
        [{"expr": "workbench:late:bool", "exp_samples": late}],
        "15m",
    )


def test_the_symptom_alert_of_a_cluster_fires_by_group(tmp_path: Path) -> None:
    """300 s behind: more than the two minutes of all, and less than the ten of billing."""
    (tmp_path / "workbench.toml").write_text(SETTINGS % "runtime")
    done = run_here(
        "export", "rules", "--cluster", "prod", "--runbook-base", "https://w.example/r", "--out", "o", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "o" / "rules"
    both = (
        yaml.safe_load((folder / "objectives.yml").read_text())["groups"]
        + yaml.safe_load((folder / "symptoms.yml").read_text())["groups"]
    )
    (folder / "both.yml").write_text(yaml.safe_dump({"groups": both}))
    series = [
        f'wb_time_lag_seconds{{group="{group}", topic="t", partition="0", member="m"}}  300x60'
        for group in ("search", "billing-eu")
    ]
    fired = [
        {
            "labels": f'ALERTS{{alertname="ConsumerLag", alertstate="firing", group="{group}", topic="t", severity="page"}}',
            "value": 1.0,
        }
        for group in ("search",)
    ]
    promtool_agrees(
        folder, "both.yml", series, [{"expr": 'ALERTS{alertname="ConsumerLag"}', "exp_samples": fired}], "15m"
    )


def test_without_a_cluster_the_shipped_rules_stay(tmp_path: Path) -> None:
    """One objective, for a first look."""
    done = run_here("export", "rules", "--runbook-base", "https://w.example/r", "--out", "o", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "(wb_time_lag_seconds) > 120" in (tmp_path / "o" / "rules" / "symptoms.yml").read_text()
    assert not (tmp_path / "o" / "rules" / "objectives.yml").exists()
