"""Rules of names that do not exist: an answer with near names, before anything slow begins."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.cli.running import check, run_here
from tests.servers import Script, scripted

CAPTURE = str(Path(__file__).parent.parent.parent / "notebooks" / "captures" / "incident-1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--group", "payment"], "Did you mean `payments`?"),
        (["--topic", "order"], "Did you mean `orders`?"),
        (["--group", "nope"], "It has: payments."),
    ],
)
def test_an_unknown_name_is_answered_before_spark_starts(words: list[str], said: str, tmp_path: Path) -> None:
    """`run_here` checks that no start of Spark was left behind."""
    check(run_here("triage", "--capture", CAPTURE, *words, cwd=tmp_path), 2, said)


def prometheus(_path: str, query: dict[str, list[str]]) -> bytes:
    """An exporter's lag of the group payments on the topic orders, for queries that match it."""
    [asked] = query.get("query", [""])
    wrong = any(f'="{name}"' in asked for name in ("payment", "nope", "order"))
    now = time.time()
    labels = {"__name__": "kafka_consumergroup_lag", "consumergroup": "payments", "topic": "orders", "partition": "0"}
    series = {"metric": labels, "values": [[now - 30 + at, "5"] for at in range(30)]}
    there = [] if wrong or "kafka_consumergroup_lag" not in asked else [series]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": there}}).encode()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--group", "payment"], "Did you mean `payments`?"),
        (["--topic", "order"], "Did you mean `orders`?"),
        (["--group", "nope"], "The groups that it has: payments."),
    ],
)
def test_with_prometheus_alone_too(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A live cluster without Kafka in its settings: the names come from the series; Spark waits for them a moment (here: longer)."""
    monkeypatch.setattr("workbench.api.load_measurements._HEAD_START_SECONDS", 60.0)
    with scripted(Script(answer=prometheus)) as server:
        (tmp_path / "workbench.toml").write_text(
            f'[clusters.prod]\nprometheus = "{server.url}"\nprofiles = ["kafka_exporter"]\n'
        )
        check(run_here("triage", "--cluster", "prod", *words, cwd=tmp_path), 4, said)
