"""Times in JSON are one language: ISO 8601 with a zone, whatever Kafka, Prometheus or a file calls them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import run_here
from tests.cli.transcribed import furnish
from tests.redrive.fakes import FakeCluster
from tests.redrive.making import TOPIC, gateway_of, letter_of
from workbench.api.groups_now import SnapshotResult
from workbench.humanize import iso_instant
from workbench.queues.snapshot_views import Snapshot
from workbench.redrive.inspect_records import first_records
from workbench.redrive.parse_redrive_request import selection_of
from workbench.redrive.show_letters import newest_letters
from workbench.safe_output import write_json
from workbench.settings import Cluster

LIKE_A_DATE = re.compile(r"\d{4}-\d\d-\d\d\D")
# 2001 to 2096, in seconds, milliseconds and microseconds.
LIKE_AN_EPOCH = tuple((1e9 * scale, 4e9 * scale) for scale in (1, 1e3, 1e6))


def wrong(document: Any, path: str = "") -> Iterator[str]:
    """Parts of a document that are times in another form."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from wrong(value, f"{path}.{name}")
    elif isinstance(document, list | tuple):
        for value in document:
            yield from wrong(value, f"{path}[]")
    elif isinstance(document, str) and LIKE_A_DATE.match(document):
        if "T" not in document or datetime.fromisoformat(document).tzinfo is None:
            yield f"{path} = {document}"
    elif isinstance(document, int | float) and any(low < document < high for low, high in LIKE_AN_EPOCH):
        yield f"{path} = {document}"


def test_a_snapshot_says_when_it_was_taken() -> None:
    """In JSON and in a notebook."""
    taken = Snapshot(taken_at=1_795_000_000.25, groups=(), commits={}, ends={}, starts={})
    found = SnapshotResult(cluster="prod", groups=taken, ranked=None, incomplete=())
    assert found.to_json()["taken_at"] == "2026-11-18T11:06:40.250+00:00"
    assert list(wrong(found.to_json())) == []
    assert "2026-11-18T11:06:40.250+00:00" in found._repr_html_()


def test_letters_and_records_say_when_they_were_written() -> None:
    """And null for a record without a time, or with one that no calendar has."""
    letters = [letter_of(0, 0), letter_of(0, 1)]
    found = newest_letters(
        gateway=gateway_of(letters), letters=FakeCluster(letters), settings=Cluster(name="c", bootstrap="b:9092"),
        topic=TOPIC, selection=selection_of(), most=10, payload=True,
    )  # fmt: skip
    shown = [it.document() for it in found]
    assert len(shown) == 2
    assert all({"timestamp"} <= it.keys() and "timestamp_ms" not in it["origin"] for it in shown)
    records = first_records(
        {(TOPIC, 0): [(0, 2)]}, lambda _topic: FakeCluster(letters), Cluster(name="c", bootstrap="b:9092"), most=10
    )
    assert list(wrong([shown, records])) == []
    assert [iso_instant(it) for it in (-1, None, 10**18)] == [None] * 3


def test_a_time_that_was_forgotten_is_written_so_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Not with a blank in the middle."""
    write_json({"at": datetime(2026, 11, 21, 3, tzinfo=UTC)})
    assert json.loads(capsys.readouterr().out) == {"at": "2026-11-21T03:00:00+00:00"}


@pytest.mark.parametrize(
    "words",
    [
        "profiles check --capture incident --json",
        "events list --cluster prod --json",
        "doctor --cluster prod --group payments --json",
        "lab list --json",
        "replay log --json",
        "report list --json",
    ],
)
def test_no_command_writes_another_form(words: str, tmp_path: Path) -> None:
    """Those that need no server and no Spark."""
    furnish(tmp_path)
    run_here("events", "add", "--cluster", "prod", "--kind", "deploy", "--text", "payments 142", cwd=tmp_path)
    shown = run_here(*words.split(), cwd=tmp_path)
    documents = [json.loads(line) for line in [shown.stdout] if line.strip()]
    assert shown.returncode == 0, shown.stderr
    assert list(wrong(documents)) == []
