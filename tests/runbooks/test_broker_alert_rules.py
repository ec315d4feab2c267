"""Alert rules about brokers follow the profiles of a cluster; what these do not measure has no rule, and is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.runbooks.test_objectives import promtool_agrees, run_here
from workbench.profiles import load_profile
from workbench.reference.broker_profile_table import of_brokers
from workbench.runbooks.broker_alert_rules import broker_rules, shipped_rules
from workbench.runbooks.runbook_promql import measured

ROOT = Path(__file__).parent.parent.parent
SETTINGS = '[clusters.prod]\nprometheus = "http://127.0.0.1:9"\nmatch = {env = "live"}\nprofiles = ["runtime", "%s"]\n'


def rules_of(*profiles: str) -> dict[str, Any]:
    """By alert."""
    text = broker_rules(measured([load_profile(it) for it in profiles]), {}, command="a test")
    return {} if text is None else {it["alert"]: it for it in yaml.safe_load(text)["groups"][0]["rules"]}


def test_the_shipped_rules_are_those_of_the_agent_without_rules() -> None:
    """One source; `workbench runbooks write` makes them."""
    assert (ROOT / "runbooks" / "rules" / "brokers.yml").read_text(encoding="utf-8") == shipped_rules()


@pytest.mark.parametrize("profile", [it.name for it in of_brokers()])
def test_a_rule_names_only_metrics_of_its_profile(profile: str) -> None:
    """And of each alert that it can tell there is one."""
    known = set(load_profile(profile).metrics())
    for it in rules_of(profile).values():
        used = {name for name in known if name in it["expr"]}
        assert used, it["expr"]
        assert "kafka_server_ReplicaManager_Value" not in it["expr"] or profile == "jmx_kafka_broker"


def test_what_is_not_measured_has_no_rule_and_is_named() -> None:
    """A rule over metrics that nobody exports would be silent for ever."""
    text = broker_rules(measured([load_profile("redpanda_broker")]), {}, command="a test")
    assert text is not None
    assert "without a rule: MetadataStorm, RequestQueueFull, FlushSlow, SlowBroker, CoordinatorMoving." in text
    assert set(rules_of("redpanda_broker")) == {"UnderReplicated", "Leaderless", "RemoteStorageFailing"}
    assert rules_of("kafka_exporter") == {}


def test_the_rules_of_a_cluster_with_strimzis_names_fire(tmp_path: Path) -> None:
    """At both sides of each limit; both kinds of failure are added up; a counter of idle time is read as a share."""
    (tmp_path / "workbench.toml").write_text(SETTINGS % "jmx_broker_strimzi")
    base = ["--runbook-base", "https://wiki.example/rb"]
    done = run_here("export", "rules", "--cluster", "prod", *base, "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = {
        it["alert"]: it
        for it in yaml.safe_load((tmp_path / "out" / "rules" / "brokers.yml").read_text())["groups"][0]["rules"]
    }
    assert written["FlushSlow"]["annotations"]["runbook_url"] == "https://wiki.example/rb/FlushSlow.md"
    of = 'env="live", cluster="c"'
    idle = "kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_count_total"
    waits = "kafka_network_requestmetrics_requestqueuetimems"
    series = []
    for broker, flush, share, wait, failed in (
        ("b1", 1000, 0.29, 20, 2),
        ("b2", 999, 0.31, 20, 1),
        ("b3", 10, 0.29, 19, 0),
    ):
        own = f'{of}, instance="{broker}"'
        series += [
            f'kafka_log_logflushstats_logflushrateandtimems{{{own}, quantile="0.99"}}  {flush}x40',
            f"{idle}{{{own}}}  0+{share * 30e9:.0f}x80",
            f'{waits}{{{own}, request="Produce", quantile="0.99"}}  {wait}x40',
            f'{waits}{{{own}, request="Produce", quantile="0.5"}}  900x40',
            f"kafka_server_brokertopicmetrics_remotefetcherrors_total{{{own}}}  0x20 {failed}x20",
            f"kafka_server_brokertopicmetrics_remotecopyerrors_total{{{own}}}  0x20 {failed}x20",
        ]

    def fires(alert: str, *brokers: str) -> dict[str, Any]:
        labels = [f'{{cluster="c", instance="{it}"}}' for it in brokers]
        return {
            "expr": f"count by (cluster, instance) ({written[alert]['expr']})",
            "exp_samples": [{"labels": it, "value": 1} for it in labels],
        }

    tests = [fires("FlushSlow", "b1"), fires("RequestQueueFull", "b1"), fires("RemoteStorageFailing", "b1")]
    promtool_agrees(
        tmp_path / "out" / "rules", "brokers.yml", [it.replace("x40", "x80") for it in series], tests, "12m"
    )


def test_a_cluster_without_measured_brokers_gets_no_rules_about_them(tmp_path: Path) -> None:
    """It is told so."""
    (tmp_path / "workbench.toml").write_text(SETTINGS % "kafka_exporter")
    done = run_here(
        "export", "rules", "--cluster", "prod", "--runbook-base", "https://w.example/r", "--out", "o", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "measure no broker" in done.stderr + done.stdout
    assert not (tmp_path / "o" / "rules" / "brokers.yml").exists()
