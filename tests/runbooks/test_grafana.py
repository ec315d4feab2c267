"""Rules of `workbench export grafana`: every expression is PromQL, the dashboard is one that Grafana imports, alerts burn budgets."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.running import check, run_here
from workbench.lab.prometheus import ensure_prometheus
from workbench.profiles import profile_names
from workbench.runbooks.promtool import check_rules, find_promtool
from workbench.signals import SIGNALS

WITH_LAG = [name for name in sorted(profile_names()) if name not in ("group_state",)]


def export(profile: str, folder: Path, *more: str) -> dict[str, Any] | None:
    """The dashboard for a profile; None where it measures no lag, which is said."""
    shown = run_here("export", "grafana", "--profile", profile, "--out", str(folder), *more, cwd=folder)
    if shown.returncode == 2:
        check(shown, 2, "measure no lag")
        return None
    assert shown.returncode == 0, shown.stderr
    return dict(json.loads((folder / "dashboard.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize("profile", WITH_LAG)
def test_every_profile_gives_a_dashboard_and_rules_that_prometheus_reads(profile: str, tmp_path: Path) -> None:
    """promtool takes the alerts, and each expression of the dashboard with its variables filled in."""
    ensure_prometheus()
    board = export(profile, tmp_path)
    if board is None:
        return
    panels = board["panels"]
    assert panels
    assert len({it["id"] for it in panels}) == len(panels)
    cells = {(it["gridPos"]["x"], it["gridPos"]["y"]) for it in panels}
    assert len(cells) == len(panels)
    assert all(it["gridPos"]["x"] + it["gridPos"]["w"] <= 24 for it in panels)
    assert {"uid", "title", "schemaVersion", "templating", "time", "panels"} <= board.keys()
    names = [it["name"] for it in board["templating"]["list"]]
    rules = []
    for panel in panels:
        assert panel["type"] == "timeseries"
        assert panel["fieldConfig"]["defaults"]["unit"]
        for target in panel["targets"]:
            text = target["expr"]
            for name in names:
                text = text.replace(f"${name}", ".*")
            assert "$group" not in text
            assert "$topic" not in text
            rules.append({"record": f"panel:{panel['id']}", "expr": text})
    (tmp_path / "rules" / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "p", "rules": rules}]}))
    result = check_rules(tmp_path)
    assert result.problems == ()


def test_the_dashboard_has_a_panel_for_each_signal_and_the_objective_as_a_line(tmp_path: Path) -> None:
    """With its help as description."""
    board = export("runtime", tmp_path, "--objective", "90s")
    assert board is not None
    first = board["panels"][0]
    assert first["title"] == "How far behind"
    assert {"color": "red", "value": 90.0} in first["fieldConfig"]["defaults"]["thresholds"]["steps"]
    described = {it["description"] for it in board["panels"]}
    assert SIGNALS["process_time"].help in described
    assert SIGNALS["queue_length"].help in described


def test_the_dashboard_draws_the_share_of_idle_time_that_is_meant(tmp_path: Path) -> None:
    """Of Java's clients, half of what is told would be all of the time."""
    board = export("micrometer", tmp_path)
    assert board is not None
    [drawn] = [it["targets"][0]["expr"] for it in board["panels"] if it["title"] == "Poll idle"]
    told, _, rest = drawn.removeprefix("clamp_max(").partition(" / ")
    assert rest == f"(1 - {told}), 1)"
    assert told.startswith("max by (")


def test_settings_narrow_it_and_give_objective_and_address(tmp_path: Path) -> None:
    """`match`, the threshold and `runbook_base` of the cluster are used."""
    (tmp_path / "workbench.toml").write_text(
        '[thresholds]\ntime_lag_objective_seconds = 45\n[clusters.prod]\nprometheus = "http://p:9090"\n'
        'profiles = ["kafka_exporter"]\nmatch = { env = "prod", zone = "=~eu-.*" }\n'
        '[clusters.prod.groups."*"]\nrunbook_base = "https://wiki.example.com/books"\n'
    )
    shown = run_here("export", "grafana", "--cluster", "prod", "--out", "m", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    text = (tmp_path / "m" / "rules" / "alerts.yml").read_text()
    assert 'env="prod",zone=~"eu-.*"' in text
    assert "+ 45\n" in text
    assert "https://wiki.example.com/books/ConsumerLag.md" in text


FIRES = """
rule_files: [alerts.yml]
evaluation_interval: 30s
tests:
  - interval: 30s
    input_series:
      - {series: 'wb_time_lag_seconds{group="g", topic="t", partition="0", member="m"}', values: '%s'}
    alert_rule_test:
      - eval_time: 2h
        alertname: ConsumerLagBudgetBurn1h
        exp_alerts: []
"""


@pytest.mark.parametrize(
    ("values", "fires"),
    [("0x180 300x60", True), ("0x240", False), ("300x60 0x240", False), ("60x240", False)],
    ids=["late for half an hour", "never late", "long over", "within the objective"],
)
def test_the_budget_alert_fires_while_it_burns_and_ends_soon_after(values: str, fires: bool, tmp_path: Path) -> None:
    """Both windows must burn: an incident that is over does not wake anybody."""
    ensure_prometheus()
    export("runtime", tmp_path)
    (tmp_path / "rules" / "test.yml").write_text(FIRES % values)
    program = find_promtool()
    assert program is not None
    words = [program, "test", "rules", tmp_path / "rules" / "test.yml"]
    shown = subprocess.run(words, capture_output=True, text=True, check=False)
    # No alert is expected in the test: one that fires is what it complains of.
    assert shown.returncode == (1 if fires else 0), shown.stderr
    assert ("is late on t: 2 % of the month" in shown.stderr) is fires


def test_links_of_the_shipped_rules_open_from_a_chat(tmp_path: Path) -> None:
    """A relative path is dead there; and what is no address is refused."""
    done = run_here(
        "export", "rules", "--runbook-base", "https://wiki.example.com/rb/", "--out", str(tmp_path / "a"), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    links = re.findall(
        r"runbook_url: (\S+)", "".join(it.read_text() for it in (tmp_path / "a" / "rules").glob("*.yml"))
    )
    assert len(links) > 20
    assert all(re.fullmatch(r"https://wiki\.example\.com/rb/\w+\.md", link) for link in links)
    refused = run_here("export", "rules", "--runbook-base", "wiki", "--out", str(tmp_path / "no"), cwd=tmp_path)
    check(refused, 2, "is no address")
    assert not (tmp_path / "no").exists()


def test_a_cluster_whose_name_is_a_template_is_text_in_its_alerts(tmp_path: Path) -> None:
    """Annotations are templates of Go: a name within one must not become a part of it."""
    ensure_prometheus()
    (tmp_path / "workbench.toml").write_text(
        '[clusters."eu {{ $x }}"]\nprometheus = "http://127.0.0.1:9"\nprofiles = ["kafka_exporter"]\n'
    )
    shown = run_here("export", "grafana", "--cluster", "eu {{ $x }}", "--output", "mon", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert check_rules(tmp_path / "mon").problems == ()
