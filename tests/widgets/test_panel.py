"""Rules of the triage panel: hostile text stays text, an error is one line, and what was typed is never lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import workbench.spark.session
from evaluation.stories import THRESHOLDS, WINDOW, Story, lagging, steps
from tests.pulsar.pages import FakeAdmin, subscription, topic
from tests.servers import Script, scripted
from workbench.alerts import parse_alerts
from workbench.api import pulsar_triage
from workbench.collect.capture import Capture, new_info, write_capture
from workbench.errors import UsageError
from workbench.report.finding_fragment import style
from workbench.samples import concat
from workbench.widgets.prefill import Inputs, prefill
from workbench.widgets.triage import TriagePanel

HOSTILE = "<img src=x onerror=alert(1)>\"'&\n</script>"


def hostile_capture() -> Capture:
    """A slow processor whose names would like to be markup, and a healthy neighbour."""
    story = lagging(Story(group=HOSTILE, topic=HOSTILE)).people(rebalances=steps(1, 2, at=-50)).fetch_queue().enqueue()
    story.processor("order").processor(HOSTILE, seconds=steps(0.01, 0.4, at=-80.0), fill=steps(0.05, 0.95, at=-80.0))
    calm = Story(group="calm", topic="calm").all_partitions().calm()
    info = new_info(
        cluster=HOSTILE, source="test", profiles=["runtime"], window=WINDOW, thresholds=THRESHOLDS, incomplete=[HOSTILE]
    )
    events = ({"ts": WINDOW.start.isoformat(), "kind": HOSTILE, "text": HOSTILE},)
    return Capture(info=info, samples=concat([story.samples(), calm.samples()]), events=events)


@pytest.fixture
def panel(spark: Any, tmp_path: Path) -> Iterator[TriagePanel]:
    """A panel on such a capture, after its button was pressed."""
    write_capture(tmp_path / "capture", hostile_capture())
    made = TriagePanel(Inputs(capture=str(tmp_path / "capture")))
    made.find.click()
    made.wait()
    yield made


@pytest.mark.jvm
def test_the_panel_answers_and_hostile_names_stay_text(panel: TriagePanel, tmp_path: Path) -> None:
    """The sentence, the tree, the charts and the other subscription; no element comes from a name."""
    assert panel.status.value == "Done."
    assert panel.result is not None
    assert str(panel.result.findings[0].verdict) == "slow_processor"
    assert "<svg" in panel.answer.value
    html = [panel.verdict.value, panel.answer.value, panel.trouble.value]
    html += [it["data"].get("text/html", "") for it in panel.charts.outputs]
    assert not any("<img" in text or "</script>" in text for text in html)
    assert len(panel.choice.options) == 2
    # What was found is offered the next time, and anything else may be typed.
    assert set(panel.group.options) == {it.group for it in panel.result.findings}
    assert set(panel.topic.options) == {it.topic for it in panel.result.findings}
    kind = "application/vnd.plotly.v1+json"
    figures = [it["data"][kind] for it in panel.charts.outputs if kind in it["data"]]
    assert len(figures) >= 5
    for figure in figures:
        assert figure["config"]["showSendToCloud"] is False
        assert "<img" not in json.dumps(figure)
    panel.choice.value = 1
    assert "calm" in panel.verdict.value
    panel.path.value = str(tmp_path / "saved")
    panel.save_html.click()
    panel.save_capture.click()
    assert (tmp_path / "saved.html").is_file()
    assert (tmp_path / "saved" / "capture.json").is_file()
    panel.save_capture.click()
    assert "not empty" in panel.trouble.value
    (tmp_path / "saved.html").write_text("another's")
    panel.save_html.click()
    assert "already exists" in panel.trouble.value
    assert (tmp_path / "saved.html").read_text() == "another's"
    panel.path.value = str(tmp_path / "saved.v2")
    panel.save_html.click()
    assert (tmp_path / "saved.v2.html").is_file()


@pytest.mark.jvm
def test_open_in_spark_writes_a_notebook_and_shows_its_cells(
    panel: TriagePanel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the finding that is shown; names stay text. Another finding, or another triage, shows none."""
    monkeypatch.chdir(tmp_path)
    panel.open_spark.click()
    [written] = tmp_path.glob("spark-*.ipynb")
    assert written.name in panel.spark.value and written.name in panel.status.value
    assert panel.spark.value.count("copyable cell") == 3
    assert "<img" not in panel.spark.value
    panel.choice.value = 1
    assert panel.spark.value == ""
    panel.open_spark.click()
    assert (tmp_path / "spark-calm.ipynb").is_file()
    monkeypatch.chdir("/proc")  # nothing can be written there
    panel.open_spark.click()
    assert "cannot be written" in panel.trouble.value


def test_a_mistake_is_told_in_the_panel() -> None:
    """One line and a hint; the button can be pressed again."""
    made = TriagePanel(Inputs(capture="/nowhere/<b>"))
    made.find.click()
    made.wait()
    assert "There is no folder /nowhere/&lt;b&gt;" in made.trouble.value
    assert not made.find.disabled
    assert made.cancel.disabled


def test_the_style_does_not_leave_the_panel() -> None:
    """Every rule stands inside of the scope; nothing restyles the notebook around it."""
    text = style()
    assert text.startswith("@scope (.wb) {")
    assert ":root" not in text
    assert "body {" not in text


def test_the_same_call_gives_the_same_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a cell that is run again loses no input."""
    from workbench.widgets import triage_panel

    monkeypatch.setattr(workbench.spark.session, "start_in_background", lambda: None)
    first = triage_panel(capture="/somewhere")
    first.group.value = "payments"
    assert triage_panel(capture="/somewhere") is first
    assert triage_panel(capture="/elsewhere") is not first


def webhook(**labels: str) -> str:
    """A payload as Alertmanager posts it."""
    alert = {
        "status": "firing",
        "labels": {"alertname": "ConsumerLag", **labels},
        "startsAt": "2026-11-21T03:00:00.000Z",
    }
    done = {"status": "resolved", "labels": {"alertname": "Other"}, "startsAt": "0001-01-01T00:00:00Z"}
    return json.dumps({"version": "4", "alerts": [done, alert], "truncatedAlerts": 2, "new_field": {}})


def test_an_alert_fills_in_the_inputs(tmp_path: Path) -> None:
    """Cluster, group and topic by the usual labels; the window begins before it fired. What the notebook says outweighs it."""
    path = tmp_path / "alert.json"
    path.write_text(webhook(cluster="prod", consumergroup=HOSTILE, topic="orders"))
    found = prefill({"alert": str(path), "topic": "mine"}, {"WORKBENCH_CAPTURE": "/demo", "WORKBENCH_GROUP": "outside"})
    assert found == Inputs(cluster="prod", group=HOSTILE, topic="mine", since="2026-11-21T02:45:00+00:00")


def test_the_environment_fills_in_what_nobody_else_does() -> None:
    """And a cluster that is named drops the environment's capture."""
    outside = {"WORKBENCH_CAPTURE": "/demo", "WORKBENCH_TOPIC": "orders"}
    assert prefill({}, outside) == Inputs(capture="/demo", topic="orders")
    assert prefill({"cluster": "prod"}, outside) == Inputs(cluster="prod", topic="orders")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"alerts": []}', '{"alerts": [{"labels": 3}]}', "[" * 100_000])
def test_what_is_no_webhook_is_refused_in_one_line(text: str) -> None:
    """Not a traceback, and no guess."""
    with pytest.raises(UsageError):
        parse_alerts(text)


def test_firing_alerts_come_first() -> None:
    """A resolved one of the same message is not what wakes somebody up; Go's zero time is none."""
    first, second = parse_alerts(webhook(group="g"))
    assert (first.group, first.firing, first.truncated) == ("g", True, 2)
    assert (second.firing, second.starts_at) == (False, None)


def test_an_address_fills_in_what_the_notebook_does_not_say() -> None:
    """Over alert and environment; a name that is no input, and a file with an alert, cannot come from a link."""
    query = "?cluster=prod&group=pay+ments&topic=%3Cb%3E&alert=/etc/passwd&reset&since=2026-11-21T03:00:00%2B08:00"
    found = prefill({"group": "mine"}, {"WORKBENCH_CAPTURE": "/demo", "WORKBENCH_TOPIC": "orders"}, query=query)
    assert found == Inputs(cluster="prod", group="mine", topic="<b>", since="2026-11-21T03:00:00+08:00")
    assert prefill({}, {"QUERY_STRING": "capture=/incident"}) == Inputs(capture="/incident")
    assert prefill({"capture": "/mine"}, {"QUERY_STRING": "cluster=prod"}) == Inputs(capture="/mine")


@pytest.mark.parametrize("query", ["?" + "&" * 5000, "?group=" + "x" * 100_000, "?%ff%fe=1&group=%00", "?group", "???"])
def test_a_strange_address_does_no_harm(query: str) -> None:
    """It is anybody's text."""
    assert len(prefill({}, {}, query=query).group) <= 1_000


def test_an_address_does_not_take_away_what_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It arrives from the browser after the panel is there; what nobody has touched is filled in."""
    from workbench.widgets import triage_panel

    monkeypatch.setattr(workbench.spark.session, "start_in_background", lambda: None)
    monkeypatch.setenv("WORKBENCH_CAPTURE", "/demo")
    panel = triage_panel(until="5m ago")
    assert panel.inputs.capture == "/demo"
    panel.group.value = "typed"
    panel.address.query = "?cluster=prod&group=payments&topic=orders&until=1m+ago"
    assert panel.inputs == Inputs(cluster="prod", group="typed", topic="orders", until="5m ago")


def test_the_start_that_is_not_typed_is_that_of_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster's own window, and none for a recording."""
    (tmp_path / "w.toml").write_text(
        '[clusters.a]\nwindows = {length = "18s"}\n[clusters.b]\nwindows = {length = "30m"}\n[clusters.c]\n'
    )
    monkeypatch.setenv("WORKBENCH_CONFIG", str(tmp_path / "w.toml"))
    panel = TriagePanel(Inputs(cluster="a"))
    seen = [panel.since.placeholder]
    for name in ("b", "c", "(a capture)"):
        panel.source.value = name
        seen.append(panel.since.placeholder)
    assert seen == ["18s ago", "30m ago", "15m ago", "as it was recorded"]


def test_the_panel_judges_a_pulsar_as_it_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By two looks: the verdict and what to do, without a window to draw; a period in the past is refused in a line."""
    monkeypatch.setattr(pulsar_triage, "APART_SECONDS", 0.1)
    with scripted(Script(answer=FakeAdmin({"public/default/orders": topic(dead=subscription())}))) as server:
        (tmp_path / "workbench.toml").write_text(
            f'[clusters.events]\nsystem = "pulsar"\ntimeout_seconds = 5\npulsar.admin_url = "{server.url}"\n'
        )
        monkeypatch.setenv("WORKBENCH_CONFIG", str(tmp_path / "workbench.toml"))
        made = TriagePanel(Inputs(cluster="events"))
        made.find.click()
        made.wait()
        assert made.status.value == "Done.", made.trouble.value
        assert "Nobody is connected" in made.verdict.value
        assert "pulsar-admin" in made.answer.value and "kafka-" not in made.answer.value
        made.since.value = "3h ago"
        made.find.click()
        made.wait()
    assert "is judged as it is now" in made.trouble.value
