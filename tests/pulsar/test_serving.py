"""A Pulsar in the server: its alerts name a subscription of one topic, and it is judged by two looks; so it is for agents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pulsar.pages import FakeAdmin, serving, subscription, topic
from workbench.alerts import parse_alerts
from workbench.errors import UsageError
from workbench.queues.position import packed
from workbench.queues.replay_port import LogView
from workbench.serve.judge_groups import Question, SparkJudge
from workbench.serve.mcp_tools import make_server


def dead() -> FakeAdmin:
    """Two topics with a subscription of one name each, that nobody reads; one has no backlog."""
    return FakeAdmin(
        {
            "public/default/paid": topic(billing=subscription()),
            "public/default/created": topic(billing=subscription(msgBacklog=0, backlogSize=0)),
        }
    )


def settings(folder: Path, url: str | None) -> Path:
    """Of this Pulsar."""
    file = folder / "workbench.toml"
    file.write_text(f'[clusters.events]\nsystem = "pulsar"\n[clusters.events.pulsar]\nadmin_url = "{url}"\n')
    return file


@pytest.mark.parametrize("end", ["", "-partition-3"])
def test_an_alert_names_the_subscription_of_its_topic(end: str) -> None:
    """As a triage names it; without the label `subscription`, it is about the topic."""
    labels = {"alertname": "AckHole", "subscription": "billing", "topic": f"persistent://shop/orders/paid{end}"}
    [found] = parse_alerts(json.dumps([{"labels": labels}]))
    assert (found.group, found.topic) == ("billing@shop/orders/paid", "shop/orders/paid")
    [of_topic] = parse_alerts(json.dumps([{"labels": {**labels, "subscription": ""}}]))
    assert (of_topic.group, of_topic.topic) == ("", "shop/orders/paid")
    [of_kafka] = parse_alerts(json.dumps([{"labels": {"subscription": "gold", "topic": "paid", "group": "g"}}]))
    assert (of_kafka.group, of_kafka.topic) == ("g", "paid")


def test_the_server_judges_it_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One subscription for an alert, all for the fleet; worst first."""
    monkeypatch.setattr("workbench.api.pulsar_triage.APART_SECONDS", 0.0)
    with serving(dead()) as (cluster, _):
        judge = SparkJudge(config=settings(tmp_path, cluster.pulsar.admin_url))
        [found] = judge(Question(cluster="events", groups=("billing@public/default/paid",)))
        assert (found.group, found.topic) == ("billing@public/default/paid", "public/default/paid")
        assert (found.verdict, found.state) == ("dead_subscription", "lagging")
        assert found.detail is not None and found.picture is None
        whole = judge(Question(cluster="events"))
    assert [(it.topic, it.verdict) for it in whole] == [
        ("public/default/paid", "dead_subscription"),
        ("public/default/created", "healthy"),
    ]


def test_an_agent_is_told_what_it_is_and_what_is_not_there(tmp_path: Path) -> None:
    """Clusters say their system; a plan of a replay is refused in a sentence, and names the command."""
    from workbench.serve.mcp_tools import _Tools

    with serving(dead()) as (cluster, _):
        config = settings(tmp_path, cluster.pulsar.admin_url)
        assert make_server(config) is not None
        tools = _Tools(config)
        assert next(it for it in tools.clusters()["clusters"] if it["name"] == "events")["system"] == "pulsar"
        with pytest.raises(UsageError, match="but by the command `workbench replay plan` does not work on a Pulsar"):
            tools.plan_replay("events", "billing", "again", ["public/default/paid"], "2h ago")
        with pytest.raises(UsageError, match="Reading a history of its metrics does not work on a Pulsar"):
            tools.evidence("events", "billing@public/default/paid")


def test_letters_after_a_position_are_counted_and_not_subtracted() -> None:
    """Of packed positions the difference is no number."""
    entries = [packed((ledger, entry, 0)) or 0 for ledger, held in ((4, 3), (9, 5)) for entry in range(held)]
    end = packed((9, 5, 0)) or 0
    key = ("shop/orders/paid-DLQ", 0)
    logs = LogView(
        starts={key: entries[0]}, ends={key: end}, sizes={key: 8}, back=lambda _key, number: [*entries, end][8 - number]
    )
    assert [logs.records_from(key, it) for it in (entries[0], entries[2], entries[3], entries[7], end)] == [
        8,
        6,
        5,
        1,
        0,
    ]
    assert logs.records_from(key, 0) == 8
    assert logs.records_from(("other", 0), 0) is None
    assert LogView(starts={key: 5}, ends={key: 90}).records_from(key, 80) == 10
