"""The exported dashboards against Grafana's schema: its foundation SDK, whose classes Grafana generates from it."""

from __future__ import annotations

import json
import subprocess
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.runbooks.test_grafana import WITH_LAG, export

pytestmark = pytest.mark.slow

# What a class of the schema does not know, it drops; so what comes back must be what went in.
THROUGH_THE_SCHEMA = """
import json, sys
from grafana_foundation_sdk.cog import encoder, plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
plugins.register_default_plugins()
print(json.dumps([Dashboard.from_json(it) for it in json.load(sys.stdin)], cls=encoder.JSONEncoder))
"""


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the schema's classes, beside the environment of this project."""
    home = tmp_path_factory.mktemp("schema") / "venv"
    venv.create(home, with_pip=True)
    wanted = Path(__file__).with_name("grafana_schema.txt")
    words = [home / "bin" / "pip", "install", "-q", "--require-hashes", "--only-binary", ":all:", "-r", wanted]
    subprocess.run(words, check=True, timeout=300)
    return home / "bin" / "python"


def through(python: Path, boards: list[Any]) -> list[Any]:
    """The dashboards as the schema's classes understand them."""
    words = [python, "-I", "-c", THROUGH_THE_SCHEMA]
    shown = subprocess.run(words, input=json.dumps(boards), capture_output=True, text=True, check=True, timeout=300)
    return list(json.loads(shown.stdout))


def lost(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """What of ours the schema does not know, by path."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [
            it
            for name, value in ours.items()
            if name in theirs or value not in (None, [], {})
            for it in (lost(value, theirs[name], f"{path}.{name}") if name in theirs else [f"{path}.{name}"])
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [it for n, (a, b) in enumerate(zip(ours, theirs, strict=True)) for it in lost(a, b, f"{path}[{n}]")]
    return [] if ours == theirs else [path]


def test_every_dashboard_is_one_by_grafanas_schema(schema: Path, tmp_path: Path) -> None:
    """For each profile: no field that Grafana does not know, down to the options of a panel."""
    boards = []
    for name in WITH_LAG:
        folder = tmp_path / name
        folder.mkdir()
        if (board := export(name, folder)) is not None:
            boards.append(board)
    assert len(boards) > 5
    known = through(schema, boards)
    assert [lost(ours, theirs) for ours, theirs in zip(boards, known, strict=True)] == [[]] * len(boards)


def test_a_wrong_field_is_seen(schema: Path, tmp_path: Path) -> None:
    """At each depth, so that the test above can fail."""
    board = export("runtime", tmp_path)
    assert board is not None
    panel = board["panels"][0]
    board["refesh"] = "30s"
    panel["tpye"] = "timeseries"
    panel["options"]["legend"]["calk"] = ["max"]
    panel["fieldConfig"]["defaults"]["custom"]["lineWith"] = 2
    [known] = through(schema, [board])
    assert {it.rpartition(".")[2] for it in lost(board, known)} == {"refesh", "tpye", "calk", "lineWith"}
