"""Rules of the settings file: every door reads the same one, and takes the cluster that it names."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import PROGRAM, check, run, run_here
from tests.servers import Script, scripted
from workbench.report.runs.parameters import HealthParameters

EMPTY = b'{"status":"success","data":{"resultType":"matrix","result":[]}}'
TWO = '[clusters.prod]\nbootstrap = "127.0.0.1:9"\n[clusters.staging]\nbootstrap = "127.0.0.1:9"\n'
SAID = "Cluster: prod (the only one in "


def prometheus(path: str, _query: object) -> bytes:
    """A server that has nothing."""
    return EMPTY if path.endswith(("query", "query_range")) else b'{"status":"success","data":[]}'


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder where `init` has just been run: a Prometheus that answers, and a Kafka that does not."""
    with scripted(Script(answer=prometheus)) as server:
        words = ["init", "--prometheus", server.url, "--bootstrap", "127.0.0.1:9", "--yes", "--unchecked"]
        shown = run_here(*words, cwd=tmp_path)
        assert (tmp_path / "workbench.toml").exists(), shown.stderr
        text = (tmp_path / "workbench.toml").read_text().replace("# timeout_seconds = 30", "timeout_seconds = 0.5")
        (tmp_path / "workbench.toml").write_text(text)
        yield tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["snapshot"],
        ["triage", "--group", "payments"],
        ["capture", "--out", "recording"],
        ["watch", "--out", "recording", "--for", "1s"],
        ["dlq", "list"],
        ["dlq", "show", "orders-dlt"],
        ["replay", "plan", "--from-group", "a", "--new-group", "b", "--topic", "t", "--since", "1h"],
        ["profiles", "check"],
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_a_command_takes_the_only_cluster_and_says_so(words: list[str], folder: Path) -> None:
    """In the folder of `init`, without a variable and without --cluster; what fails is its Kafka, not the option."""
    shown = run(*words, cwd=folder)
    assert f"{SAID}{folder}/workbench.toml)." in shown.stderr
    assert shown.returncode != 2, shown.stderr
    assert "There is no cluster" not in shown.stderr


def test_what_needs_no_kafka_is_done(folder: Path) -> None:
    """Events and what is expected of a group; `doctor` names the file."""
    added = run_here("events", "add", "--text", "x", cwd=folder)
    assert (added.returncode, SAID in added.stderr) == (0, True), added.stderr
    assert "  deploy   x\n" in run_here("events", "list", cwd=folder).stdout
    told = run_here("doctor", "--group", "payments", cwd=folder)
    assert (told.returncode, SAID in told.stderr) == (0, True), told.stderr
    assert f"1 cluster: prod  ({folder}/workbench.toml)" in run("doctor", cwd=folder).stdout


def opened(monkeypatch: pytest.MonkeyPatch, cwd: Path, *words: str) -> tuple[Mapping[str, str], str]:
    """Environment with which `workbench notebook` would start JupyterLab, and what it said."""
    started: list[Mapping[str, str]] = []

    def supervised(_words: object, environment: Mapping[str, str], **_options: Any) -> int:
        started.append(environment)
        return 0

    monkeypatch.setattr("workbench.cli.notebook.supervised", supervised)
    shown = run_here("notebook", *words, "--no-browser", cwd=cwd)
    assert shown.returncode == 0, shown.stderr
    return started[0], shown.stderr


def test_a_kernel_reads_the_file_of_the_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs in a folder of its own, where there is no file; the command gives it the absolute path, and the cluster."""
    environment, said = opened(monkeypatch, folder)
    assert environment["WORKBENCH_CONFIG"] == str(folder / "workbench.toml")
    assert environment["WORKBENCH_CLUSTER"] == "prod"
    assert SAID in said
    code = "from workbench.widgets import replay_panel; print(replay_panel().cluster.options, replay_panel().cluster.value)"
    kernel = subprocess.run(
        [sys.executable, "-c", code], cwd=folder / "workbench-notebooks", env=dict(environment),
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert kernel.stdout == "('prod',) prod\n"


def test_a_named_file_is_that_of_the_kernel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--config`, relative to the folder of the command."""
    (folder / "other.toml").write_text(TWO)
    environment, _ = opened(monkeypatch, folder, "--config", "other.toml", "--cluster", "staging")
    assert environment["WORKBENCH_CONFIG"] == str(folder / "other.toml")
    assert environment["WORKBENCH_CLUSTER"] == "staging"


def test_a_recording_is_opened_as_before(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a cluster to choose, or for a notebook that reads none."""
    for words in (["game_day"], ["--config", "two.toml"]):
        (folder / "two.toml").write_text(TWO)
        environment, said = opened(monkeypatch, folder, *words)
        assert "WORKBENCH_CLUSTER" not in environment
        assert environment["WORKBENCH_CAPTURE"].endswith("incident-1")
        assert "Cluster:" not in said


def test_an_unknown_cluster_is_answered_before_jupyterlab_starts(folder: Path) -> None:
    """Exit code 2, and no folder."""
    check(run_here("notebook", "--cluster", "prd", cwd=folder), 2, "There is no cluster 'prd'.", "`prod`")
    assert not (folder / "workbench-notebooks").exists()


def test_a_report_is_given_the_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kernel runs in the run's folder."""
    asked: list[HealthParameters] = []

    def run_health(parameters: HealthParameters, *_given: object, **_options: object) -> Any:
        asked.append(parameters)
        raise KeyboardInterrupt

    monkeypatch.setattr("workbench.report.runs.runner.run_health", run_health)
    shown = run_here("report", "run", "health", cwd=folder)
    assert shown.returncode == 130
    assert asked[0].cluster == "prod"
    assert asked[0].config == str(folder / "workbench.toml")


@pytest.mark.parametrize("words", [["serve"], ["mcp"]])
def test_a_server_keeps_the_file_that_it_began_with(
    words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An absolute path, whatever becomes of its working folder."""
    asked: list[object] = []

    class Server:
        def run(self, _how: str) -> None:
            pass

    monkeypatch.setattr("workbench.serve.server.serve", lambda options, **_: asked.append(options.config))
    monkeypatch.setattr("workbench.serve.mcp_tools.make_server", lambda config: asked.append(config) or Server())
    assert run_here(*words, cwd=folder).returncode == 0
    assert asked == [folder / "workbench.toml"]


@pytest.mark.parametrize(
    ("environment", "head", "said"),
    [
        ({"WORKBENCH_CLUSTER": "staging"}, 'default = "prod"\n', "Cluster: staging (WORKBENCH_CLUSTER)."),
        ({}, 'default = "staging"\n', "Cluster: staging (the default in {file})."),
    ],
)
def test_a_default_is_taken_in_this_order(
    environment: dict[str, str], head: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable, the file's own default, the only cluster."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "workbench.toml").write_text(head + TWO)
    shown = run_here("events", "list", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert said.format(file=tmp_path / "workbench.toml") in shown.stderr


def test_an_open_choice_is_an_error_that_names_the_clusters(tmp_path: Path) -> None:
    """And says how to make one the default; a default that does not exist is a mistake in the file."""
    check(run_here("snapshot", cwd=tmp_path), 2, "Missing option '--cluster'.", "workbench init")
    file = tmp_path / "workbench.toml"
    file.write_text(TWO)
    check(
        run_here("snapshot", cwd=tmp_path), 2, "Missing option '--cluster'.", "prod, staging", str(file), "default = "
    )
    file.write_text('default = "prd"\n' + TWO)
    check(run_here("snapshot", cwd=tmp_path), 2, "default: there is no cluster 'prd'. Did you mean `prod`?")


def test_the_journal_takes_a_settings_file(folder: Path) -> None:
    """As every command of replay: its secrets are masked, and a mistake in it is told."""
    assert run_here("replay", "log", "--config", "workbench.toml", cwd=folder).returncode == 0
    check(run_here("replay", "log", "--config", "nope.toml", cwd=folder), 2, "nope.toml cannot be read")


def test_completion_knows_the_default_cluster(folder: Path) -> None:
    """Groups complete without --cluster: it is asked (here: in vain, and silently)."""
    environment = {
        **os.environ,
        "_WORKBENCH_COMPLETE": "bash_complete",
        "COMP_WORDS": "workbench snapshot --group pay",
        "COMP_CWORD": "3",
    }
    done = subprocess.run(
        [PROGRAM], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")
