"""Rules of the runbooks: one for one with verdicts and alerts, true to the tree, and safe to copy from."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.triage.made import subscription
from workbench.cli.runbooks import command
from workbench.cli.triage_alert_option import asked_by
from workbench.lab.prometheus import ensure_prometheus
from workbench.runbooks.check_runbooks import problems
from workbench.runbooks.filled_runbook import filled
from workbench.runbooks.promtool import check_rules
from workbench.runbooks.runbook_file import read_book, read_books
from workbench.runbooks.verdict_path import way_to
from workbench.triage.finding import Action, Finding, Scope, TimeLag
from workbench.triage.question_order import TREE
from workbench.triage.question_types import Ask
from workbench.triage.verdict_leaves import leaf_of
from workbench.triage.verdict_names import State, Verdict

FOLDER = Path(__file__).parent.parent.parent / "runbooks"
HOSTILE = "'; rm -rf / #\n$(id)\x1b[31m"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The runbooks, to be spoiled."""
    return Path(shutil.copytree(FOLDER, tmp_path / "runbooks"))


def test_rules_runbooks_and_verdicts_are_one_for_one() -> None:
    """Nothing is missing, nothing is left over, and the generated parts are those of the tree."""
    assert problems(FOLDER) == []


def test_every_verdict_of_the_tree_has_a_way() -> None:
    """And each step of it is a branch that the declaration has."""
    for verdict in Verdict:
        way = way_to(verdict)
        if verdict is Verdict.CANNOT_TELL:
            assert way is None
            continue
        assert way is not None, verdict
        last, _ = way[-1]
        assert verdict in last.verdicts
        for (node, answer), (following, _) in pairwise(way):
            assert (node.yes if answer == "yes" else node.no) == Ask(following.id)
            assert node.id in TREE


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda it: (it / "HotKey.md").unlink(), "The alert HotKey has no runbook"),
        (lambda it: shutil.copy(it / "HotKey.md", it / "Another.md"), "Another.md belongs to no alert"),
        (lambda it: edit(it / "HotKey.md", "**yes**", "**no**"), "the diagnosis differs from the tree"),
        (lambda it: edit(it / "HotKey.md", "## Rollback", "## Afterwards"), "the sections are not"),
        (lambda it: edit(it / "HotKey.md", "severity: page", "severity: ticket"), "severity ticket, but the rule"),
        (
            lambda it: edit(it / "rules/verdicts.yml", "verdict: hot_key", "verdict: x"),
            "hot_key does not have exactly one",
        ),
        (lambda it: edit(it / "rules/verdicts.yml", "runbooks/HotKey.md", "HotKey"), "does not end in /HotKey.md"),
    ],
)
def test_every_drift_is_found(copy: Path, spoil: object, told: str) -> None:
    """Named in a sentence."""
    spoil(copy)  # type: ignore[operator]
    assert any(told in text for text in problems(copy)), problems(copy)


def edit(path: Path, old: str, new: str) -> None:
    """Replace some text that must be there."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_the_rules_of_the_verdicts_come_from_the_runbooks(copy: Path) -> None:
    """Severity and meaning stand in the runbook alone; a file of rules without our mark belongs to somebody else."""
    rules = copy / "rules" / "verdicts.yml"
    before = rules.read_text(encoding="utf-8")
    edit(copy / "HotKey.md", "severity: page", "severity: ticket")
    edit(copy / "HotKey.md", "## Meaning\n\n", '## Meaning\n\nWarm "keys".\n')
    assert any("rules/verdicts.yml does not match the runbooks" in text for text in problems(copy))
    run = CliRunner().invoke(command, ["write", "--dir", str(copy)], standalone_mode=False)
    assert run.exception is None
    assert problems(copy) == []
    assert rules.read_text(encoding="utf-8") != before
    rules.unlink()
    CliRunner().invoke(command, ["write", "--dir", str(copy)], standalone_mode=False)
    assert problems(copy) == []
    own = "# Ours.\n" + before.split("\n", 1)[1]
    rules.write_text(own, encoding="utf-8")
    CliRunner().invoke(command, ["write", "--dir", str(copy)], standalone_mode=False)
    assert rules.read_text(encoding="utf-8") == own


def test_an_alert_may_share_the_runbook_that_names_it(copy: Path, tmp_path: Path) -> None:
    """Each of its alerts must be a rule, stand under "Meaning", and be shown by its name."""
    shown = CliRunner().invoke(command, ["show", "DeadLettersOld", "--dir", str(copy)], standalone_mode=False)
    assert "# DeadLetters" in shown.output
    assert problems(copy) == []
    edit(copy / "DeadLetters.md", "- `DeadLettersOld`:", "- Old:")
    assert problems(copy) == ["DeadLetters.md: its meaning does not name DeadLettersOld."]
    edit(copy / "rules" / "symptoms.yml", "alert: DeadLettersOld", "alert: DeadLettersOlder")
    assert len(problems(copy)) == 2


def test_promtool_takes_the_rules_and_their_tests_pass(copy: Path) -> None:
    """The real promtool; and it would notice a wrong rule and a rule that does not fire."""
    ensure_prometheus()
    good = check_rules(FOLDER)
    if not good.ran:  # a machine without apt and without a Prometheus: the rest of the file still holds
        assert shutil.which("promtool") is None
        return
    assert good.problems == ()
    for path in (copy / "rules" / "tests").glob("*.yml"):
        if "../symptoms.yml" not in path.read_text():  # what is spoiled below has no say in it
            path.unlink()
    edit(copy / "rules" / "symptoms.yml", "> 120", "> 1200")
    assert any("ConsumerLag" in text for text in check_rules(copy).problems)
    edit(copy / "rules" / "symptoms.yml", "> 1200", "> 120")
    for right, wrong in (("[1h:5m]", "[10m:5m]"), ("offset 1d)", "offset 1m)"), ("unless on", "and on")):
        edit(copy / "rules" / "symptoms.yml", right, wrong)
        assert any("DeadLetters" in text for text in check_rules(copy).problems), right
        edit(copy / "rules" / "symptoms.yml", wrong, right)
    edit(copy / "rules" / "symptoms.yml", "> 120", "> > 3")
    assert len(check_rules(copy).problems) >= 1


def finding(name: str) -> Finding:
    """A finding about a group with this name."""
    return Finding(
        cluster="prod",
        group=name,
        topic="orders",
        verdict=Verdict.SLOW_PROCESSOR,
        state=State.LAGGING,
        headline=f"Slow: {name}",
        scope=Scope(),
        time_lag=TimeLag(seconds=1.0, method="exact"),
        lag_messages=1,
        arrival_per_second=1.0,
        lag_slope=None,
        eta_drain_seconds=None,
        eta_loss_seconds=None,
        path=(),
        actions=(Action(title=f"Look at {name}", command="workbench triage", verify="it is gone"),),
        runbook=leaf_of(Verdict.SLOW_PROCESSOR).runbook,
        features=subscription(),
    )


def test_a_filled_runbook_can_be_copied_from_whatever_the_names_are() -> None:
    """One shell word for each name, no control character, no front matter, and the finding's own actions."""
    text = filled(read_book(FOLDER / "SlowProcessor.md"), finding(HOSTILE), bootstrap="b:9092")
    assert "$GROUP" not in text
    assert "\x1b" not in text
    assert not text.startswith("---")
    assert "## For this finding" in text
    for line in text.splitlines():
        if "workbench triage --cluster" in line:
            assert line.startswith("$ workbench triage --cluster prod --group $'")
            assert "\\x0a" in line


def test_commands_of_a_filled_runbook_log_in() -> None:
    """Where the cluster needs it, also if its brokers are not known; else as the runbook has them."""
    book = read_book(FOLDER / "StuckPartition.md")
    for bootstrap, login_file, options in (
        ("b:9092", "on call.properties", "--bootstrap-server b:9092 --command-config 'on call.properties'"),
        (None, "c.properties", '--bootstrap-server "$BOOTSTRAP" --command-config c.properties'),
        ("b:9092", None, "--bootstrap-server b:9092"),
        (None, None, '--bootstrap-server "$BOOTSTRAP"'),
    ):
        text = filled(book, finding("g"), bootstrap=bootstrap, login_file=login_file)
        assert f"$ kafka-transactions {options} list --duration-filter 60000\n" in text
        assert text.count(options) == text.count("--bootstrap-server")


def test_an_alert_says_whom_to_look_at(tmp_path: Path) -> None:
    """What the options say stands over it; an old alert is judged by what is true now."""
    from datetime import UTC, datetime

    path = tmp_path / "alert.json"
    labels = {"alertname": "ConsumerLag", "cluster": "prod", "group": "payments", "topic": "orders"}
    alerts = [{"status": "firing", "labels": labels, "startsAt": "2026-11-21T03:00:00Z"}]
    path.write_text(json.dumps({"version": "4", "alerts": alerts}))
    now = datetime(2026, 11, 21, 3, 10, tzinfo=UTC)
    one = asked_by(path, cluster=None, recorded=False, groups=(), topics=("mine",), since=None, now=now)
    assert (one.cluster, one.groups, one.topics) == ("prod", ("payments",), ("mine",))
    assert one.since == "2026-11-21T02:55:00+00:00"
    later = asked_by(path, cluster="other", recorded=False, groups=(), topics=(), since=None, now=now.replace(hour=9))
    assert (later.cluster, later.since) == ("other", None)


def test_the_command_tells_in_its_exit_code(copy: Path) -> None:
    """0 if all fits, 3 if not; show knows alerts and verdicts."""
    from workbench.cli.runbooks import command
    from workbench.errors import ExitCode

    for path in (copy / "rules" / "tests").glob("*.yml"):
        if path.stem != "rules_test":  # those of all files are run by the test of promtool
            path.unlink()
    run = CliRunner().invoke
    assert run(command, ["check", "--dir", str(copy), "--json"], standalone_mode=False).return_value == ExitCode.OK
    (copy / "HotKey.md").unlink()
    assert run(command, ["check", "--dir", str(copy)], standalone_mode=False).return_value == ExitCode.FINDINGS
    assert "# SlowProcessor" in run(command, ["show", "slow_processor"], standalone_mode=False).output


def test_every_command_of_a_runbook_is_known() -> None:
    """Those that a test on the lab runs, word for word: a new one has to be added there."""
    from tests.lab.test_runbook_commands import COMMANDS

    assert {it for book in read_books(FOLDER) for it in book.commands} == set(COMMANDS)
