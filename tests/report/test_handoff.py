"""Rules of handing a result on: what others get is stable, harmless and without secrets, and is tried again."""

from __future__ import annotations

import json
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests
from click.testing import CliRunner

from tests.report.runs.test_record import recorded
from tests.servers import Script, scripted, with_own_share
from workbench.cli import root
from workbench.errors import SourceUnreachableError, UsageError
from workbench.lab.process import free_port
from workbench.lab.prometheus import ensure_alertmanager
from workbench.report.send_report import ATTEMPTS, alerts_of, annotation_of, chat_text, send

HOSTILE = "<img src=x onerror=alert(1)>\n\x1b[31m"


def document() -> dict[str, Any]:
    """A result with a sick and a healthy subscription."""
    sick = {"group": HOSTILE, "topic": "orders", "state": "lagging", "verdict": "slow_processor", "headline": "Slow."}
    well = {"group": "calm", "topic": "orders", "state": "healthy", "verdict": "healthy", "headline": "Well."}
    return {
        "schema": "workbench.health/1",
        "run_id": "health-prod-1",
        "cluster": "prod",
        "judged": {"start": "2026-11-21T02:45:00+00:00", "end": "2026-11-21T03:00:00+00:00"},
        "states": {"lagging": 1, "healthy": 1},
        "verdicts": {"slow_processor": 1, "healthy": 1},
        "over_budget": 1,
        "lines": [{**sick, "time_lag_seconds": 1120.0}, {**well, "time_lag_seconds": 0.1}],
    }


def test_only_what_is_not_healthy_alerts_and_labels_hold_no_number() -> None:
    """The same subscription with the same verdict is the same alert at the next run, however far behind it is."""
    [alert] = alerts_of(document())
    later = document()
    later["lines"][0]["time_lag_seconds"] = 9.0
    assert alerts_of(later)[0]["labels"] == alert["labels"]
    assert alert["labels"]["alertname"] == "SlowProcessor"


def test_an_alert_leads_to_its_runbook_from_a_chat() -> None:
    """An address of the settings is a link; without one there is the command, never a path in the package."""
    [alert] = alerts_of(document())
    assert alert["annotations"]["runbook"] == "workbench runbooks show SlowProcessor"
    assert "runbook_url" not in alert["annotations"]
    linked = document()
    linked["lines"][0]["runbook"] = "https://wiki.example.com/books/SlowProcessor.md"
    [alert] = alerts_of(linked)
    assert alert["annotations"]["runbook_url"] == "https://wiki.example.com/books/SlowProcessor.md"
    assert "runbook" not in alert["annotations"]
    assert alert["labels"]["alertname"] == "SlowProcessor"


def test_what_is_not_true_any_more_ends() -> None:
    """A report each hour, and alerts that last two days: without an end, one would fire for days after the group is well again."""
    now = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)

    def sent(**line: Any) -> list[tuple[str, bool]]:
        later = document()
        later["lines"][0].update(line)
        found = alerts_of(later, before=document(), now=now)
        return [(it["labels"]["verdict"], it["endsAt"] > now.isoformat()) for it in found]

    assert sent() == [("slow_processor", True)]
    assert sent(state="healthy", verdict="healthy") == [("slow_processor", False)]
    assert sent(verdict="hot_key") == [("hot_key", True), ("slow_processor", False)]
    assert sent(muted="until tomorrow") == [("slow_processor", False)]
    assert sent(group="another", state="healthy") == []  # it may be just as bad, and nobody measures it


def test_the_run_before_is_found_beside_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name, which is no path to anywhere else."""
    sick, well = document(), document()
    for it in (sick, well):
        it["exit_code"] = 3
    well["run_id"], well["lines"][0]["state"], well["lines"][0]["verdict"] = "health-prod-2", "healthy", "healthy"
    recorded(tmp_path, "health-prod-1", 2)
    recorded(tmp_path, "health-prod-2", 1)
    (tmp_path / "health-prod-1" / "result.json").write_text(json.dumps(sick))
    sent: list[Any] = []
    monkeypatch.setattr("workbench.report.send_report.send", lambda _url, body, **_: sent.append(body))
    for previous in ("health-prod-1", "../health-prod-1"):
        well["previous_run"] = previous
        (tmp_path / "health-prod-2" / "result.json").write_text(json.dumps(well))
        words = ["report", "send", str(tmp_path / "health-prod-2"), "--alertmanager", "http://alertmanager:9093"]
        assert CliRunner().invoke(root, words, catch_exceptions=False, standalone_mode=False).return_value == 0
    assert [[it["labels"]["verdict"] for it in body] for body in sent] == [["slow_processor"], []]


def test_texts_for_others_are_harmless() -> None:
    """Grafana draws its text as HTML; a chat's is one line for each subscription."""
    assert "<img" not in annotation_of(document())["text"]
    assert annotation_of(document())["timeEnd"] - annotation_of(document())["time"] == 15 * 60 * 1000
    assert len(chat_text(document()).splitlines()) == 2
    assert "\x1b" not in chat_text(document())


def test_it_is_tried_again_and_then_told() -> None:
    """Three times on 5xx, once on a refusal; the token is in no message."""
    for status, times in ((503, ATTEMPTS), (400, 1)):
        with scripted(Script(status=status)) as server:
            with pytest.raises(SourceUnreachableError, match=str(status)) as told:
                send(server.url, {}, what="webhook", token="tok3n", sleep=lambda _seconds: None)
            assert len(server.requests) == times
            assert server.requests[0][2]["Authorization"] == "Bearer tok3n"
            assert "tok3n" not in str(told.value)
    with pytest.raises(SourceUnreachableError):
        send("http://127.0.0.1:1", {}, what="webhook", sleep=lambda _seconds: None)
    with pytest.raises(UsageError):
        send("file:///etc/passwd", {}, what="webhook")


@pytest.mark.apt
def test_a_real_alertmanager_takes_it(tmp_path: Path) -> None:
    """And lists the alert with its labels; where no Alertmanager can be had, what it documents is held by the tests above."""
    program = ensure_alertmanager()
    if program is None:
        assert alerts_of(document())[0]["endsAt"]
        return
    (tmp_path / "am.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    port = free_port()
    words = with_own_share(
        program, f"--config.file={tmp_path}/am.yml", f"--storage.path={tmp_path}/data",
        f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=",
    )  # fmt: skip
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/api/v2/alerts"
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                send(url, alerts_of(document()), what="Alertmanager", sleep=lambda _seconds: None)
                break
            except SourceUnreachableError:
                assert time.monotonic() < deadline
                assert child.poll() is None
                time.sleep(0.3)
        [listed] = requests.get(url, timeout=10).json()
        assert listed["labels"]["verdict"] == "slow_processor"
        assert listed["labels"]["group"] == HOSTILE
    finally:
        child.terminate()
        child.wait(30)
