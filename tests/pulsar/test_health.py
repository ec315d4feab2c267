"""The health report of a Pulsar: its subscriptions as they are now, in entries, with what cannot be told."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.pulsar.pages import FakeAdmin, consumer, subscription, topic
from tests.reference.valid import valid
from tests.servers import Script, scripted
from workbench.api import pulsar_triage
from workbench.api.reports import health
from workbench.errors import ExitCode, SourceUnreachableError, UsageError
from workbench.report.health_report import Health
from workbench.report.health_result import read_previous
from workbench.report.runs.parameters import health_parameters
from workbench.report.send_report import alerts_of, chat_text
from workbench.spark import session

SETTINGS = '[clusters.events]\nsystem = "pulsar"\ntimeout_seconds = 5\npulsar.admin_url = "{url}"\n'


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A settings file; the looks are made one right after the other."""
    monkeypatch.setattr(pulsar_triage, "APART_SECONDS", 0.1)
    return tmp_path / "workbench.toml"


def reported(settings: Path, previous: Path | None = None) -> Health:
    """A report on two subscriptions, of which one is dead."""
    admin = FakeAdmin(
        {"public/default/orders": topic(billing=subscription(consumers=[consumer()]), dead=subscription())}
    )
    with scripted(Script(answer=admin)) as server:
        settings.write_text(SETTINGS.format(url=server.url))
        return health(cluster="events", config=str(settings), previous=str(previous or ""), run_id="one")


def test_the_subscriptions_of_a_pulsar_are_in_the_report(settings: Path) -> None:
    """With their verdicts and entries, no error budgets, and without a Spark."""
    found = reported(settings)
    assert session._starting is None
    assert found.exit_code is ExitCode.FINDINGS
    document = valid("health", found.to_json())
    lines = {it["group"]: it for it in document["lines"]}
    dead = lines["dead@public/default/orders"]
    assert (dead["verdict"], dead["lag_messages"], dead["lag_entries"]) == ("dead_subscription", None, 10)
    assert "There are no error budgets" in found.budget_sentence
    assert lines["billing@public/default/orders"]["state"] == "cannot_tell"  # its positions are not told


def test_its_result_is_read_by_the_next_run_and_sent(settings: Path, tmp_path: Path) -> None:
    """With what has changed, an alert by the verdict's own name, and a text for a chat."""
    before = tmp_path / "result.json"
    before.write_text(json.dumps(reported(settings).to_json(), default=str))
    assert read_previous(str(before)) is not None
    again = reported(settings, before)
    assert again.previous_run == "one"
    assert {it.news for it in again.lines if it.finding.verdict == "dead_subscription"} == {"still"}
    document = json.loads(before.read_text())
    names = {it["labels"]["alertname"] for it in alerts_of(document, now=datetime.now(UTC))}
    assert "DeadSubscription" in names
    assert "dead subscription" in chat_text(document)


def test_a_pulsar_has_no_period_in_the_past(settings: Path) -> None:
    """Asked for one, the run is refused before a kernel starts; without, it needs no Prometheus."""
    settings.write_text(SETTINGS.format(url="http://127.0.0.1:1"))
    with pytest.raises(UsageError, match="is judged as it is now"):
        health_parameters(cluster="events", since="3h", config=settings)
    assert health_parameters(cluster="events", config=settings).since == ""
    with pytest.raises(SourceUnreachableError, match="'events'"):
        health(cluster="events", config=str(settings))
