"""`replay inspect` with schemas: counts by the schema's type, and records decoded, with hidden fields replaced."""

from __future__ import annotations

import io
import json
from pathlib import Path

import fastavro
import pytest
from confluent_kafka.admin import AdminClient

from tests.lab.conftest import commit
from tests.lab.replaying import fresh, replay
from tests.redrive.redriving import write_letters
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import create_topic
from workbench.redrive.letter_headers import Letter

pytestmark = pytest.mark.lab


def framed(number: int, name: str, card: str) -> bytes:
    """An Avro value with Confluent's frame."""
    schema = {"type": "record", "name": name, "fields": [{"name": "card", "type": "string"}]}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"card": card})
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def test_records_by_schema(lab: Lab, admin: AdminClient, settings_file: Path, tmp_path: Path) -> None:
    """Of exactly the ranges of the plan."""
    topic, old = fresh("avro"), fresh("old")
    create_topic(lab.bootstrap, topic, 1)
    for number, name in enumerate(("acme.Paid", "acme.Refund")):
        schema = {"type": "record", "name": name, "fields": [{"name": "card", "type": "string"}]}
        (tmp_path / f"{number}.avsc").write_text(json.dumps(schema))
    values = [framed(at % 2, ("acme.Paid", "acme.Refund")[at % 2], "4111111111111111") for at in range(10)]
    write_letters(lab.bootstrap, topic, [Letter(0, at, 0, b"k", value, []) for at, value in enumerate(values)])
    commit(admin, old, topic, {0: 10})
    settings = settings_file.read_text().replace(
        "timeout_seconds = 10", "timeout_seconds = 10\n[clusters.mine.records]\n", 1
    )
    head, _, tail = settings.partition("[clusters.mine.records]\n")
    rest = tail.partition("[windows]")
    text = (
        f'{head}{rest[0]}[clusters.mine.records]\nschemas = "{tmp_path}"\nhidden_fields = ["card"]\n[windows]{rest[2]}'
    )
    settings_file.write_text(text)
    path = tmp_path / "plan.json"
    words = ("--cluster", "mine", "--from-group", old, "--new-group", fresh("new"), "--topic", topic, "-o", str(path))
    made = replay("plan", *words, "--range", f"{topic}:0:0-3", "--range", f"{topic}:0:5-6", settings=settings_file)
    assert made.returncode == 0, made.stderr
    counted = replay("inspect", str(path), "--by", "type", "--json", settings=settings_file)
    assert counted.returncode == 0, counted.stderr
    assert {it["name"]: it["records"] for it in json.loads(counted.stdout)["type"]} == {
        "acme.Paid": 2,
        "acme.Refund": 2,
    }
    shown = replay("inspect", str(path), "--show", "10", "--json", settings=settings_file)
    records = json.loads(shown.stdout)["records"]
    assert [it["offset"] for it in records] == [0, 1, 2, 5]
    assert all(it["value"] == {"card": "***"} for it in records)
    assert "4111" not in shown.stdout
