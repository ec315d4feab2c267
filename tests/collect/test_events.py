"""Events: kept once, read by window, imported from what teams have; every mistake is named."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from tests.cli.running import run_here
from tests.servers import Script, scripted
from workbench.collect.deploys_and_alerts import (
    ClusterEvent,
    EventStore,
    of_alertmanager,
    of_changes,
    of_file,
    of_grafana,
    of_window,
)
from workbench.errors import SourceUnreachableError, UsageError

AT = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)


def deploy(at: datetime = AT, **more: object) -> ClusterEvent:
    """A deploy of payments 142."""
    return ClusterEvent.model_validate({"ts": at, "kind": "deploy", "service": "payments", "version": "142", **more})


def test_an_event_is_kept_once_and_found_in_its_window(tmp_path: Path) -> None:
    """In time, whatever the order in which they came."""
    store = EventStore("prod", tmp_path)
    assert store.add([deploy(AT + timedelta(minutes=5)), deploy()]) == 2
    assert store.add([deploy(), deploy()]) == 0
    assert [it.ts for it in store.read()] == [AT, AT + timedelta(minutes=5)]
    assert store.read(start=AT + timedelta(minutes=1))[0].ts == AT + timedelta(minutes=5)
    [found] = of_window("prod", AT - timedelta(minutes=1), AT + timedelta(minutes=1), folder=tmp_path)
    assert found["text"] == "payments 142"
    assert found["ts"] == AT.isoformat()


def test_a_line_that_a_kill_has_cut_costs_only_itself(tmp_path: Path) -> None:
    """And the next one is not glued to it."""
    store = EventStore("prod", tmp_path)
    store.add([deploy()])
    store.path.write_text(store.path.read_text() + '{"ts": "2026-11-2')
    assert len(store.read()) == 1
    store.add([deploy(AT + timedelta(hours=1))])
    assert len(store.read()) == 2


def test_the_name_of_a_cluster_stays_in_the_folder(tmp_path: Path) -> None:
    """It comes from the settings, which may be anybody's."""
    assert EventStore("../../etc/x", tmp_path).path.parent == tmp_path


def test_clusters_with_names_that_are_alike_have_their_own_events(tmp_path: Path) -> None:
    """A deploy of one of them is no cause in the other."""
    names = ["prod_eu", "prod/eu", "prod eu"]
    EventStore("prod/eu", tmp_path).add([deploy()])
    assert [len(EventStore(name, tmp_path).read()) for name in names] == [0, 1, 0]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"kind": "deploy"}', "line 2: ts: it is missing"),
        ('{"ts": "2026-11-21T03:00:00"}', "line 2: ts: this time has no time zone"),
        ('{"ts": "9999-11-21T03:00:00Z"}', "not plausible"),
        ("[1]", "line 2"),
        ("nonsense", "line 2"),
    ],
)
def test_a_wrong_line_of_a_file_is_named(tmp_path: Path, line: str, said: str) -> None:
    """Nothing of the file is taken then."""
    path = tmp_path / "events.jsonl"
    path.write_text(f'{{"ts": "2026-11-21T03:00:00Z", "text": "fine"}}\n{line}\n')
    with pytest.raises(UsageError, match=said):
        of_file(path)


def test_grafana_and_alertmanager_are_read() -> None:
    """Kinds by tags; markup is left out; alerts by their beginning."""
    annotations = [{"time": AT.timestamp() * 1000, "tags": ["Deploy", "x"], "text": "<b>payments</b> 142"}]
    with scripted(Script(body=json.dumps(annotations).encode())) as server:
        [found] = of_grafana(server.url, AT - timedelta(hours=1), AT, headers={"Authorization": "Bearer t"})
    path, query, headers = server.requests[0]
    assert path == "/api/annotations"
    assert query["to"] == [str(round(AT.timestamp() * 1000))]
    assert headers["Authorization"] == "Bearer t"
    assert (found.ts, found.kind, found.text) == (AT, "deploy", "payments 142")
    alerts = [{"startsAt": AT.isoformat(), "labels": {"alertname": "ConsumerLag", "group": "pay"}}]
    with scripted(Script(body=json.dumps(alerts).encode())) as server:
        [alert] = of_alertmanager(server.url)
    assert (alert.ts, alert.kind, alert.text) == (AT, "alert", "ConsumerLag pay")


@pytest.mark.parametrize("body", [b"{}", b"[1]", b"<html>", b""])
def test_an_answer_of_something_else_is_no_list_of_events(body: bytes) -> None:
    """The host is named, the URL with its password is not."""
    with (
        scripted(Script(body=body)) as server,
        pytest.raises(SourceUnreachableError, match=r"127\.0\.0\.1:\d+") as refused,
    ):
        of_grafana(server.url.replace("//", "//user:secret@"), AT, AT)
    assert "secret" not in refused.value.message


def test_changes_of_deployments_are_events() -> None:
    """The instant is that of the first sample with the new value."""
    times = np.arange(3) * 30_000_000
    labels = {"namespace": "shop", "deployment": "pay"}
    [scaled] = of_changes("kube_deployment_spec_replicas", [(labels, times, np.array([2.0, 2.0, 5.0]))])
    assert (scaled.kind, scaled.text) == ("scaling", "shop/pay scaled from 2 to 5")
    assert scaled.ts.timestamp() == 60
    assert of_changes("kube_deployment_metadata_generation", [(labels, times, np.array([1.0, 1.0, 1.0]))]) == []


def test_the_commands_add_import_and_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the last step of a deploy would."""
    monkeypatch.setattr("workbench.collect.deploys_and_alerts.state_dir", lambda: tmp_path)
    (tmp_path / "workbench.toml").write_text('[clusters.prod]\nbootstrap = "b:9092"\n')

    def call(*words: str) -> tuple[int, str, str]:
        done = run_here("events", *words, "--cluster", "prod", cwd=tmp_path)
        return done.returncode, done.stdout, done.stderr

    assert call("add", "--service", "payments", "--version", "142", "--group", "pay-*")[0] == 0
    assert call("add")[0] == 2
    assert call("add", "--kind", "deplyo", "--text", "x")[0] == 2
    (tmp_path / "more.jsonl").write_text(json.dumps({"ts": datetime.now(UTC).isoformat(), "text": "quota raised"}))
    assert "1 new" in call("import", "--file", "more.jsonl")[2].replace(" of them", "")
    assert "0 of them new" in call("import", "--file", "more.jsonl")[2]
    assert call("import")[0] == 2
    code, out, _ = call("list")
    assert code == 0
    assert "deploy   payments 142  (groups pay-*)" in out
    assert "quota raised" in out
