"""`workbench triage --all` over all clusters of the settings: each one's rows, and one that cannot be read spoils no other."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.cli.running import check, run_here
from tests.pulsar.pages import FakeAdmin, subscription, topic
from tests.servers import Script, scripted
from workbench.cli.triage_every_cluster import triage_each
from workbench.errors import EvidenceError, SourceUnreachableError, UsageError

EVENTS = '[clusters.events]\nsystem = "pulsar"\ntimeout_seconds = 5\npulsar.admin_url = "{url}"\n'
OF_PAYMENTS = {"consumergroup": "payments", "topic": "orders", "partition": "0"}
SHOP = '[clusters.shop]\nprometheus = "{url}"\nprofiles = ["kafka_exporter"]\n'


def prometheus(_path: str, query: dict[str, list[str]]) -> bytes:
    """Two hours of a lag of 5 messages of the group payments."""
    there = "kafka_consumergroup_lag" in query.get("query", [""])[0]
    labels = {"__name__": "kafka_consumergroup_lag", **OF_PAYMENTS}
    series = {"metric": labels, "values": [[time.time() - 7200 + 15 * number, "5"] for number in range(480)]}
    found = {"resultType": "matrix", "result": [series] if there else []}
    return json.dumps({"status": "success", "data": found}).encode()


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ({"a": 0, "b": 0}, 0),
        ({"a": 0, "b": 3, "c": 4}, 3),
        ({"a": 4, "b": 0}, 4),
        ({"a": SourceUnreachableError("a is down"), "b": 0}, 4),
        ({"a": SourceUnreachableError("a is down"), "b": 3}, 3),
        ({"a": UsageError("a: what?"), "b": EvidenceError("b: nothing")}, 2),
    ],
)
def test_the_worst_cluster_decides(
    answers: dict[str, int | Exception], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lagging over everything; a cluster without an answer is evidence that is missing; all without one is an error."""
    asked = []

    def one(name: str) -> int:
        asked.append(name)
        answer = answers[name]
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert triage_each(sorted(answers), one, as_json=True) == code
    assert asked == sorted(answers)
    shown = capsys.readouterr().err
    assert all(str(it) in shown for it in answers.values() if isinstance(it, Exception))


def test_one_table_is_of_one_cluster(tmp_path: Path) -> None:
    """Columns of a Pulsar and of a Kafka are not the same."""
    (tmp_path / "workbench.toml").write_text(
        EVENTS.format(url="http://127.0.0.1:1") + SHOP.format(url="http://127.0.0.1:1")
    )
    for words in (["-o", "csv"], ["--html", "all.html"], ["--parquet", "all.parquet"]):
        check(run_here("triage", "--all", *words, cwd=tmp_path), 2, "hold the table of one cluster")


@pytest.mark.jvm
def test_a_kafka_and_a_pulsar_beside_each_other(spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document each; with the Pulsar down, the Kafka's is there, and the Pulsar is named."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    admin = FakeAdmin({"public/default/orders": topic(dead=subscription())})
    with scripted(Script(answer=admin)) as pulsar, scripted(Script(answer=prometheus)) as kafka:
        settings = tmp_path / "workbench.toml"
        settings.write_text(EVENTS.format(url=pulsar.url) + SHOP.format(url=kafka.url))
        done = run_here("triage", "--all", "--json", cwd=tmp_path)
        first, at = json.JSONDecoder().raw_decode(done.stdout)
        second = json.loads(done.stdout[at:])
        assert done.returncode == 3, done.stderr
        assert [it["verdict"] for it in first["findings"]] == ["dead_subscription"]
        assert (first["source"]["cluster"], second["source"]["cluster"]) == ("events", "shop")
        assert [it["group"] for it in second["unwell"]] == ["payments"]
        settings.write_text(EVENTS.format(url="http://127.0.0.1:1") + SHOP.format(url=kafka.url))
        done = run_here("triage", "--all", "--json", cwd=tmp_path)
    assert done.returncode == 4
    assert "Error: The admin of the Pulsar 'events' does not tell tenants" in done.stderr
    assert [it["group"] for it in json.loads(done.stdout)["unwell"]] == ["payments"]
