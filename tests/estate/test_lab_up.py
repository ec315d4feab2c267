"""`workbench lab up --brokers 3 --secure`: up, used by every command, and nothing left behind."""

from __future__ import annotations

import json
import re
from pathlib import Path

import psutil
import pytest

from tests.lab.conftest import workbench
from workbench.settings import lab_cluster_file

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("words", [("--brokers", "3"), ("--secure",)])
def test_three_brokers_and_security_come_together(words: tuple[str, ...]) -> None:
    """Another combination is a mistake."""
    shown = workbench("lab", "up", *words)
    assert shown.returncode == 2
    assert "--brokers 3 --secure" in shown.stderr


@pytest.mark.slow
def test_up_use_and_down(tmp_path: Path) -> None:
    """The settings that it prints lead to the cluster, and no password is printed."""
    shown = workbench("lab", "up", "--brokers", "3", "--secure")
    try:
        assert shown.returncode == 0, shown.stderr
        password_file = Path(re.search(r"< (\S+);", shown.stdout)[1])  # type: ignore[index]
        password = password_file.read_text().strip()
        status = workbench("lab", "status", "--json")
        up = json.loads(status.stdout)
        assert password not in shown.stdout + shown.stderr + status.stdout
        assert lab_cluster_file().stat().st_mode & 0o077 == 0
        memory = sum(psutil.Process(pid).memory_info().rss for pid in up["pids"].values())
        assert memory < 1.6e9
        own = tmp_path / "workbench.toml"
        own.write_text(shown.stdout[shown.stdout.index("[clusters.lab]") :].replace("[clusters.lab", "[clusters.mine"))
        env = {"WORKBENCH_LAB_PASSWORD": password}
        words = ("snapshot", "--json", "--cluster")
        assert workbench(*words, "mine", "--config", str(own), env=env).returncode == 0
        assert workbench(*words, "lab").returncode == 0
        assert workbench("lab", "up").returncode == 6
        made = tmp_path / "made.toml"
        init = workbench("init", "--lab", "--name", "made", "--out", str(made))
        assert init.returncode == 0, init.stderr
        assert password not in made.read_text() + init.stdout + init.stderr
        assert workbench(*words, "made", "--config", str(made)).returncode == 0
    finally:
        ended = json.loads(workbench("lab", "down", "--json").stdout)["ended"]
    assert {"kafka-1", "kafka-2", "kafka-3"} <= set(ended)
    assert not [pid for pid in up["pids"].values() if psutil.pid_exists(pid)]
