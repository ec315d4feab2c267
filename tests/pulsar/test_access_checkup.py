"""Rules of `workbench doctor` on a Pulsar: what can be read, what may not, what is off, and the setting that turns it on."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import run_here
from tests.pulsar.pages import FakeAdmin, subscription, topic
from tests.servers import Script, scripted
from workbench.pulsar_metrics_by_setting import METRIC_SETTINGS

ROOT = Path(__file__).parents[2]

ORDERS = {"public/default/orders": topic(billing=subscription(), dead=subscription())}
POLICIES: dict[str, Any] = {
    "persistent/public/default/orders/internalStats": {"cursors": {}},
    "persistent/public/default/orders/messageTTL": 0,
}
RUNNING = {
    "brokers/version": b"4.0.7",
    "brokers/configuration/runtime": {
        "exposeTopicLevelMetricsInPrometheus": "true",
        "exposeConsumerLevelMetricsInPrometheus": "false",
        "exposeManagedCursorMetricsInPrometheus": "false",
        "bookkeeperClientExposeStatsToPrometheus": "false",
        "topicLevelPoliciesEnabled": "true",
        "defaultRetentionTimeInMinutes": "0",
    },
}


def looked(
    folder: Path, admin: FakeAdmin, *, status: int = 200, settings: str = ""
) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit code, and what is said of the cluster by name of the check."""
    with scripted(Script(answer=admin, status=status)) as server:
        (folder / "workbench.toml").write_text(
            f'[clusters.events]\nsystem = "pulsar"\ntimeout_seconds = 5\npulsar.admin_url = "{server.url}"\n{settings}'
        )
        done = run_here("doctor", "--cluster", "events", "--json", cwd=folder)
    rows = {
        it["check"].removeprefix("events: "): it for it in json.loads(done.stdout) if it["check"].startswith("events")
    }
    assert all(line.startswith("… ") for line in done.stderr.splitlines())  # a slow machine is told what it waits for
    return done.returncode, rows


def test_a_pulsar_that_tells_all(tmp_path: Path) -> None:
    """Its version, how many subscriptions, the rights; and what is off, by the setting's name, with what it costs."""
    code, rows = looked(tmp_path, FakeAdmin(ORDERS, extra={**POLICIES, **RUNNING}))
    assert code == 0
    assert rows["pulsar"]["what"] == "cluster standalone, version 4.0.7"
    assert rows["subscriptions"]["what"] == "2 subscriptions on 1 topic"
    assert rows["positions and policies"]["what"] == "those of public/default/orders can be read"
    off = rows["broker settings"]
    assert (off["ok"], off["needed"]) == (False, False)
    assert "exposeConsumerLevelMetricsInPrometheus=false: the alert on consumers without permits" in off["what"]
    assert "exposeManagedCursorMetricsInPrometheus=false: how much of the writes acknowledgements are" in off["what"]
    assert "bookkeeperClientExposeStatsToPrometheus=false: how long writes to bookies take" in off["what"]
    assert "defaultRetentionTimeInMinutes=0: a replay reaches only" in off["what"]
    assert "exposeTopicLevelMetricsInPrometheus" not in off["what"]


def test_every_setting_that_turns_a_metric_on_is_looked_for(tmp_path: Path) -> None:
    """Findings, alerts, the profile and the page name no other one, and the page says of each whether it is on by default."""
    named = re.compile(r"\b\w+(?:In|To)Prometheus\b")
    files = ("docs/pulsar.md", "runbooks/rules/pulsar.yml", "workbench/profiles/pulsar_broker.yaml", "docs/tree.md")
    texts = {it: (ROOT / it).read_text(encoding="utf-8") for it in files}
    listed = {it.name: it for it in METRIC_SETTINGS}
    assert set().union(*(named.findall(text) for text in texts.values())) == listed.keys()
    for told, state in re.findall(r"`(\w+(?:In|To)Prometheus)` \((on|off)\)", texts["docs/pulsar.md"]):
        assert listed[told].is_default is (state == "on"), told
    running = {"brokers/configuration/runtime": dict.fromkeys(listed, "false")}
    _, rows = looked(tmp_path, FakeAdmin(ORDERS, extra={**POLICIES, **running}))
    assert all(f"{name}=false: " in rows["broker settings"]["what"] for name in listed)


def test_what_a_token_may_not_read_is_said_with_what_it_costs(tmp_path: Path) -> None:
    """A token for subscriptions alone: triage works with less, and the command does not fail for it."""
    code, rows = looked(tmp_path, FakeAdmin(ORDERS))
    assert code == 0
    assert rows["pulsar"]["what"] == "cluster standalone, version not told"
    assert not rows["positions and policies"]["ok"]
    assert "no hole, no throttling" in rows["positions and policies"]["what"]
    assert "no expiry, no quota" in rows["positions and policies"]["what"]
    assert "Only a superuser may read them" in rows["broker settings"]["what"]


@pytest.mark.parametrize("status", [401, 403])
def test_a_token_that_is_refused_is_a_needed_part_that_is_missing(tmp_path: Path, status: int) -> None:
    """Code 5, each check in a sentence, and no token in it."""
    code, rows = looked(tmp_path, FakeAdmin(ORDERS), status=status, settings='pulsar.token = "s3cret-t0ken"\n')
    assert code == 5
    assert "may it do this?" in rows["pulsar"]["what"]
    assert not rows["subscriptions"]["ok"] and rows["subscriptions"]["needed"]
    assert "s3cret" not in json.dumps(rows)


def test_one_topic_without_an_answer_is_named(tmp_path: Path) -> None:
    """The count of the others would look like all."""
    admin = FakeAdmin({**ORDERS, "public/default/broken": b"{"})
    _, rows = looked(tmp_path, admin)
    assert not rows["subscriptions"]["ok"]
    assert "public/default/broken" in rows["subscriptions"]["what"]


def test_a_pulsar_without_an_address_says_which_setting_it_needs(tmp_path: Path) -> None:
    """And does not pass as fine."""
    (tmp_path / "workbench.toml").write_text('[clusters.events]\nsystem = "pulsar"\n')
    done = run_here("doctor", "--json", cwd=tmp_path)
    [row] = [it for it in json.loads(done.stdout) if it["check"].startswith("events")]
    assert done.returncode == 5
    assert "pulsar.admin_url" in row["what"]
