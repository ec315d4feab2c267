"""Commands that wait say on a terminal what they wait for; elsewhere that would be noise in a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import run_here
from tests.replay.fakes import orders, plan_of
from tests.servers import Script, scripted
from workbench.cli.progress import UnderWay
from workbench.replay.planfile import write_file


def said(*words: str, folder: Path, terminal: bool) -> str:
    """What a command prints to stderr."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("FORCE_COLOR", "NO_COLOR"):
            patch.delenv(name, raising=False)
        if terminal:
            patch.setenv("FORCE_COLOR", "1")
            patch.setenv("TERM", "xterm")
        return run_here(*words, cwd=folder).stderr


@pytest.mark.parametrize("terminal", [True, False])
def test_what_is_awaited_is_shown_on_a_terminal(tmp_path: Path, terminal: bool) -> None:
    """By `doctor` for each check, by `watch` until the first round, by `replay follow` until Kafka has answered."""
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
            assert (text in said(*words, folder=tmp_path, terminal=terminal)) == terminal, words


def test_what_is_awaited_says_for_how_long_already_and_at_most() -> None:
    """Nothing in the first second, then the seconds that have passed; names cannot control the terminal."""
    now = [100.0]
    shown = UnderWay("Reading \x1b[31mprod", at_most_seconds=30.0, clock=lambda: now[0])
    assert shown.__rich__().plain == "Reading \\x1b[31mprod"
    now[0] = 112.4
    assert shown.__rich__().plain == "Reading \\x1b[31mprod  12 s of at most 30 s"
    assert UnderWay("x", clock=lambda: now[0]).__rich__().plain == "x"
