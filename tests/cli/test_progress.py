"""Commands that wait say what they wait for: on a terminal at once, in a log or a pipe after a second, and then rarely."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.cli.running import run, run_here
from tests.replay.fakes import orders, plan_of
from tests.servers import Script, scripted
from workbench.cli.progress import PlainLines, UnderWay
from workbench.plans.strict_document import write_file


def said(*words: str, folder: Path, terminal: bool) -> str:
    """What a command prints to stderr."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("FORCE_COLOR", "NO_COLOR"):
            patch.delenv(name, raising=False)
        if terminal:
            patch.setenv("FORCE_COLOR", "1")
            patch.setenv("TERM", "xterm")
        return run_here(*words, cwd=folder).stderr


def test_what_is_awaited_is_shown_on_a_terminal(tmp_path: Path) -> None:
    """At once: by `doctor` for each check, by `watch` until the first round, by `replay follow` until Kafka has answered."""
    with scripted(Script(body="")) as server:
        (tmp_path / "workbench.toml").write_text(
            f'[clusters.here]\nbootstrap = "127.0.0.1:1"\ntimeout_seconds = 1\nmetrics = ["{server.url}"]\n'
        )
        plan = plan_of(orders())
        write_file(tmp_path / "plan.json", plan.document())
        texts = {
            ("doctor",): "Checking here: kafka",
            ("watch", "--cluster", "here", "--out", "capture", "--for", "1s"): "Reading the sources of here",
            ("replay", "follow", "plan.json", "--cluster", "here", "--once"): "Reading the topics of",
        }
        for words, text in texts.items():
            assert text in said(*words, folder=tmp_path, terminal=True), words


def test_what_is_awaited_says_for_how_long_already_and_at_most() -> None:
    """Nothing in the first second, then the seconds that have passed; names cannot control the terminal."""
    now = [100.0]
    shown = UnderWay("Reading \x1b[31mprod", limit=lambda: "at most 30 s", clock=lambda: now[0])
    assert shown.__rich__().plain == "Reading \\x1b[31mprod"
    now[0] = 112.4
    assert shown.__rich__().plain == "Reading \\x1b[31mprod  12 s, at most 30 s"
    assert UnderWay("x", clock=lambda: now[0]).__rich__().plain == "x"


# What each command says while a source keeps it waiting for 2.5 s.
SLOW = {
    "triage --cluster here": "… Reading the sources of here, at most 4.0 s for each answer",
    "triage --cluster here --json": "… Reading the sources of here",
    "triage --all --cluster here --store store": "… Reading the sources of here for 5 of 5 slots",
    "triage --cluster here --group payments --watch --for 1s": "… Triage of here",
    "snapshot --cluster dead": "… Reading groups and offsets of dead from Kafka, at most 3.0 s",
    "capture --cluster here --out taken": "… Reading the sources of here",
    "watch --cluster dead --out recorded --for 1s": "… Reading the sources of dead",
    "profiles check --cluster here": "… Reading the names of the metrics from Prometheus",
    "profiles check --cluster here --json": "… Reading the names of the metrics from Prometheus",
    "profiles new --name mine --cluster here": "… Reading the names of the metrics from Prometheus",
    "doctor": "… Checking here: prometheus",
    "init --yes --name here --prometheus {url} --out new.toml": "… Asking Prometheus, at most 10 s",
    "replay plan --cluster dead --from-group a --new-group b --topic t --since 5m -o p.json": "… Reading offsets of dead from Kafka",
    "replay follow plan.json --cluster dead --once": "… Reading the topics of",
    "replay verify plan.json --cluster dead": "… Reading the commits of new",
    "replay apply plan.json --cluster dead --dry-run": "… Checking and committing for new",
    "replay retire plan.json --cluster dead --confirm {hash}": "… Reading the topics of",
    "dlq list --cluster dead": "… Reading the dead-letter topics of dead",
    "dlq show orders-dlt --cluster dead": "… Reading the letters of orders-dlt",
    "dlq plan orders-dlt --cluster dead": "… Reading the letters of orders-dlt",
}


@pytest.mark.parametrize("words", SLOW)
def test_nothing_is_silent_for_more_than_a_second_in_a_pipe(tmp_path: Path, words: str) -> None:
    """One line on stderr, after a second, with what is awaited; stdout stays the result's own, with --json too."""
    with scripted(Script(body=b"{}", delay_seconds=2.5)) as server:
        (tmp_path / "workbench.toml").write_text(
            f'[clusters.here]\nprometheus = "{server.url}"\ntimeout_seconds = 4\n'
            '[clusters.dead]\nbootstrap = "127.0.0.1:1"\ntimeout_seconds = 3\n'
        )
        plan = plan_of(orders())
        write_file(tmp_path / "plan.json", plan.document())
        filled = words.replace("{url}", server.url).replace("{hash}", plan.hash)
        shown = run(*filled.split(), cwd=tmp_path)
    assert SLOW[words].replace("{url}", server.url) in shown.stderr, shown.stderr
    assert "…" not in shown.stdout


def test_plain_lines_are_rare() -> None:
    """After 1, 10 and 30 seconds, then once a minute; what ends within a second leaves none."""
    told: list[str] = []
    waited: list[float] = []

    def wait(_over: threading.Event, seconds: float) -> bool:
        waited.append(seconds)
        return sum(waited) > 200

    lines = PlainLines("Reading prod", told.append, limit=lambda: "at most 5 min", wait=wait)
    with lines:
        lines._thread.join(5)
    assert told == [
        "… Reading prod, at most 5 min",
        *(f"… Reading prod, {seconds} s already, at most 5 min" for seconds in (10, 30, 60, 120, 180)),
    ]
    told.clear()
    with PlainLines("Reading prod", told.append):
        pass
    assert told == []
