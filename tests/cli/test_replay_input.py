"""Mistakes at `workbench replay`: one line, a hint, the right exit code, nothing written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import check, refused, run_here
from tests.replay.fakes import orders, plan_of
from workbench.plans.strict_document import write_file

PLAN = plan_of(orders())
ASK = ["replay", "plan", "--cluster", "prod", "--from-group", "a", "--new-group", "b", "--topic", "t"]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Clusters that nobody answers for; one has no bootstrap."""
    path = tmp_path / "w.toml"
    path.write_text(
        '[clusters.prod]\nbootstrap = "127.0.0.1:9"\ntimeout_seconds = 1\n'
        '[clusters.c]\nbootstrap = "127.0.0.1:9"\ntimeout_seconds = 1\n[clusters.blind]\n'
    )
    write_file(tmp_path / "plan.json", PLAN.document())
    (tmp_path / "fleet.toml").write_text('kind = "http"\ninstances = ["http://127.0.0.1:9"]\n')
    return path


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        ([*ASK, "--since", "2026-11-21T03:00:00"], 2, ["2026-11-21T03:00:00", "zone"]),
        ([*ASK, "--since", "soon"], 2, ["soon"]),
        ([*ASK, "--since", "1h ago", "--until", "2h ago"], 2, ["not after its start"]),
        ([*ASK[:-4], "a", "--topic", "t", "--since", "1h ago"], 2, ["--new-group"]),
        ([*ASK[:-3], "a", "--topic", "t", "--since", "1h ago"], 2, ["both 'a'"]),
        ([*ASK, "--since", "1h ago", "--partition", "x"], 2, ["'x'"]),
        ([*ASK, "--since", "1h ago", "--after-end", "guess"], 2, ["guess"]),
        ([*ASK, "--since", "1h ago", "-o", "no/such/folder/p.json"], 2, ["no/such/folder"]),
        ([*ASK, "--since", "1h ago"], 5, ["127.0.0.1:9"]),
        ([*ASK, "--since", "1h ago", "-o", "plan.json"], 2, ["another plan", "--force"]),
        ([*ASK, "--since", "1h ago", "-o", "plan.json", "--force"], 5, ["127.0.0.1:9"]),
        ([*ASK, "--since", "1h ago", "-o", "w.toml", "--force"], 2, ["not a valid plan"]),
        ([*ASK, "--since", "1h ago", "--csv", "plan.json"], 2, ["is not a CSV file"]),
        (["replay", "plan", "--cluster", "blind", *ASK[4:], "--since", "1h ago"], 2, ["bootstrap"]),
        (["replay", "apply", "nowhere.json"], 2, ["nowhere.json"]),
        (["replay", "apply", "w.toml"], 2, ["w.toml", "not JSON"]),
        (["replay", "apply", "plan.json"], 2, ["a confirmation is required"]),
        (["replay", "apply", "plan.json", "--confirm", "12345678"], 6, ["12345678"]),
        (["replay", "apply", "plan.json", "--confirm", PLAN.hash[:7]], 6, ["nor the hash"]),
        (["replay", "apply", "plan.json", "--confirm", f"{PLAN.new_group} {PLAN.messages}"], 5, ["127.0.0.1:9"]),
        (["replay", "apply", "plan.json", "--confirm", PLAN.short_hash], 5, ["127.0.0.1:9"]),
        (["replay", "apply", "plan.json", "--dry-run"], 5, ["127.0.0.1:9"]),
        (["replay", "apply", "plan.json", "--retention-margin", "some"], 2, ["some"]),
        (["replay", "follow", "plan.json", "--once"], 5, ["127.0.0.1:9"]),
        (["replay", "verify", "plan.json"], 5, ["127.0.0.1:9"]),
        (["replay", "verify", "plan.json", "--processed", "nowhere"], 2, ["nowhere"]),
        (["replay", "rollback", "plan.json"], 2, ["not a rollback file"]),
        (["replay", "cutover", "plan.json", "--fleet", "nowhere.toml"], 2, ["nowhere.toml"]),
        (["replay", "cutover", "plan.json", "--fleet", "w.toml"], 2, ["w.toml"]),
        (
            ["replay", "cutover", "plan.json", "--fleet", "fleet.toml", "--back", "--carry-others"],
            2,
            ["--carry-others"],
        ),
        (["replay", "appply"], 2, ["appply"]),
    ],
)
def test_a_mistake_is_told_in_one_line(
    tmp_path: Path, config: Path, words: list[str], code: int, named: list[str]
) -> None:
    """No traceback, and no file appears."""
    before = sorted(tmp_path.rglob("*"))
    extra = ["--config", str(config)] if words[1] != "appply" else []
    refused([*words, *extra], code, *named, cwd=tmp_path)
    assert [path for path in sorted(tmp_path.rglob("*")) if "state" not in path.parts] == before


def test_an_edited_plan_is_refused(tmp_path: Path, config: Path) -> None:
    """By every command that takes one."""
    document = PLAN.document()
    document["new_group"] = "somebody-elses"
    (tmp_path / "plan.json").write_text(json.dumps(document))
    for words in (["apply"], ["follow"], ["verify"], ["inspect"], ["cutover", "--fleet", "fleet.toml"]):
        shown = run_here("replay", words[0], "plan.json", *words[1:], "--config", str(config), cwd=tmp_path)
        check(shown, 6, "was changed after it was written")


def test_an_empty_journal(tmp_path: Path) -> None:
    """Nothing was ever changed: an empty list."""
    shown = run_here("replay", "log", "--json", cwd=tmp_path)
    assert (shown.returncode, json.loads(shown.stdout)) == (0, [])
