"""Rules of completion: each shell, with the script that the command prints, offers what exists here."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.cli.shells import offered
from tests.lab.conftest import commit
from workbench.lab.lab import Lab
from workbench.lab.lab_broker import create_topic

SHELLS = [
    pytest.param("bash"),
    pytest.param("zsh", marks=pytest.mark.apt),
    pytest.param("fish", marks=pytest.mark.apt),
]
SETTINGS = """
[clusters.prod]
bootstrap = "127.0.0.1:9"
[clusters.preprod]
metrics = ["http://127.0.0.1:9/metrics"]
[clusters.staging]
metrics = ["http://127.0.0.1:9/metrics"]
"""


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """A folder with three clusters in its settings, and state of its own."""
    (tmp_path / "workbench.toml").write_text(SETTINGS)
    return tmp_path


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "candidates"),
    [
        ("workbench rep", {"replay", "report"}),
        ("workbench triage --cluster pr", {"prod", "preprod"}),
        ("workbench snapshot --cluster st", {"staging"}),
        ("workbench triage --cluster nope", set()),
        ("workbench lab run stuck", {"stuck_partition"}),
        ("workbench export grafana --profile kafka_e", {"kafka_exporter", "kafka_exporter_fork"}),
        ("workbench notebook ga", {"game_day"}),
        ("workbench runbooks show ConsumerSt", {"ConsumerStopped"}),
        ("workbench replay plan --after-end ", {"fail", "end", "skip"}),
    ],
)
def test_names_are_completed(room: Path, shell: str, line: str, candidates: set[str]) -> None:
    """Commands, clusters of the settings, scenarios, profiles, notebooks, runbooks, choices."""
    assert set(offered(shell, line, room=room)) == candidates


@pytest.mark.parametrize("shell", SHELLS)
def test_options_are_completed(room: Path, shell: str) -> None:
    """Those that begin so."""
    assert {"--cluster", "--capture", "--compare"} <= set(offered(shell, "workbench triage --c", room=room))


@pytest.mark.parametrize("shell", ["bash"])
def test_an_error_completes_nothing_and_says_nothing(room: Path, shell: str) -> None:
    """No cluster yet, no such cluster, broken settings: a message would garble the line that is typed."""
    assert offered(shell, "workbench triage --group pay", room=room) == []
    assert offered(shell, "workbench triage --cluster nope --group pay", room=room) == []
    (room / "workbench.toml").write_text("[clusters.prod\n")
    assert offered(shell, "workbench triage --cluster pr", room=room) == []


@pytest.mark.lab
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("words", ["triage", "watch", "snapshot", "doctor"])
def test_groups_come_from_kafka(lab: Lab, room: Path, shell: str, words: str) -> None:
    """Those of the cluster on the line; asked once, then kept for five minutes."""
    topic = f"completed-{shell}-{words}"
    create_topic(lab.bootstrap, topic, 1)
    commit(AdminClient({"bootstrap.servers": lab.bootstrap}), f"grp-{shell}-{words}", topic, {0: 0})
    (room / "workbench.toml").write_text(f'[clusters.prod]\nbootstrap = "{lab.bootstrap}"\n')
    line = f"workbench {words} --cluster prod --group grp-{shell}-{words[:3]}"
    assert offered(shell, line, room=room) == [f"grp-{shell}-{words}"]
    (room / "workbench.toml").write_text(f'[clusters.prod]\nbootstrap = "{lab.bootstrap}"\ntimeout_seconds = 1\n')
    assert offered(shell, line, room=room) == [f"grp-{shell}-{words}"]
    assert len(list((room / "state").rglob("completion/*.json"))) == 1
