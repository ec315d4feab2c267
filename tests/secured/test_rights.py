"""The table of rights in docs/lab.md: with the rights of a row alone the command runs, and without one of them the error names it."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.redrive.redriving import letters, write_letters
from tests.secured.conftest import commit, fill, fresh, run, settings_for
from tests.three_brokers.access import ADMIN, ONCALL, READER, RIGHTS, Right
from tests.three_brokers.secured import SecuredLab
from workbench.replay.receipt import rollback_path

pytestmark = [pytest.mark.lab, pytest.mark.secured]
ALL = "*"
REDRIVE = "workbench-redrive-*"
_KNOWN_SECONDS = 0.3  # until every broker knows a change


class Stage:
    """A topic with records and letters, two groups, and plans that `oncall` has made."""

    def __init__(self, secured: SecuredLab, folder: Path) -> None:
        self.secured, self.folder = secured, folder
        self.topic, self.old, self.new = fresh("rights"), fresh("rights-old"), fresh("rights-new")
        now = int(time.time() * 1000)
        self.since = datetime.fromtimestamp(now // 1000 - 50, UTC).isoformat()
        fill(secured, self.topic, 2, 60, times=lambda number: now - 1000 * (60 - number))
        commit(secured, self.old, self.topic, {0: 0, 1: 0})
        self.letters = f"{self.topic}-dlt"
        secured.create_topic(self.letters, 2)
        write_letters(secured.bootstrap, self.letters, letters(20, self.topic), secured.properties(ADMIN))
        self.ours = settings_for(secured, folder, ONCALL)
        self.plans = 0

    def words(self, new: str) -> list[str]:
        """Of a plan of a replay."""
        self.plans += 1
        path = self.folder / f"plan-{self.plans}.json"
        return [
            "replay", "plan", "--cluster", "mine", "--from-group", self.old, "--new-group", new,
            "--topic", self.topic, "--since", self.since, "-o", str(path),
        ]  # fmt: skip

    def plan(self, new: str) -> Path:
        """A plan that `oncall` has made."""
        words = self.words(new)
        done = run(self.secured, self.ours, *words)
        assert done.returncode == 0, done.stderr
        return Path(words[-1])

    def apply(self, path: Path) -> list[str]:
        """The command that carries it out."""
        return ["replay", "apply", str(path), "--confirm", json.loads(path.read_text())["hash"], "--json"]

    def applied(self, new: str) -> Path:
        """A plan that `oncall` has carried out."""
        path = self.plan(new)
        done = run(self.secured, self.ours, *self.apply(path))
        assert done.returncode == 0, done.stderr
        return path

    def rollback(self, path: Path) -> list[str]:
        """The command that undoes it."""
        back = rollback_path(path)
        return ["replay", "rollback", str(back), "--confirm", json.loads(back.read_text())["hash"]]

    def redrive(self) -> Path:
        """A plan of dead letters that `oncall` has made."""
        self.plans += 1
        path = self.folder / f"redrive-{self.plans}.json"
        done = run(self.secured, self.ours, "dlq", "plan", self.letters, "--cluster", "mine", "-o", str(path))
        assert done.returncode == 0, done.stderr
        return path

    def redriven(self) -> list[str]:
        """The command that produces them again."""
        path = self.redrive()
        return ["dlq", "apply", str(path), "--apply", "--confirm", json.loads(path.read_text())["hash"]]


@pytest.fixture(scope="module")
def stage(secured: SecuredLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """`reader` has no right at all, until a test gives some."""
    secured.heal()
    secured.forbid(READER, *RIGHTS[READER])
    try:
        yield Stage(secured, tmp_path_factory.mktemp("rights"))
    finally:
        secured.allow(READER, *RIGHTS[READER])


def tried(stage: Stage, folder: Path, words: list[str], *rights: Right) -> subprocess.CompletedProcess[str]:
    """A command of `reader`, who has these rights and no other."""
    if rights:
        stage.secured.allow(READER, *rights)
    time.sleep(_KNOWN_SECONDS)
    try:
        return run(stage.secured, settings_for(stage.secured, folder, READER), *words, user=READER)
    finally:
        if rights:
            stage.secured.forbid(READER, *rights)


# Of a command of the table: its words, made anew for each run with the name of a new group; its rights; its exit code with all of them.
Row = tuple[Callable[[Stage, str], list[str]], Callable[[Stage, str], list[Right]], int]
ROWS: dict[str, Row] = {
    "snapshot --group": (
        lambda it, _new: ["snapshot", "--cluster", "mine", "--group", it.old],
        lambda it, _new: [("DESCRIBE", "GROUP", it.old)],
        0,
    ),
    "snapshot": (
        lambda _it, _new: ["snapshot", "--cluster", "mine"],
        lambda _it, _new: [("DESCRIBE", "BROKER", "kafka-cluster"), ("DESCRIBE", "GROUP", ALL)],
        0,
    ),
    "replay plan": (
        lambda it, new: it.words(new),
        lambda it, new: [("DESCRIBE", "GROUP", it.old), ("DESCRIBE", "GROUP", new), ("DESCRIBE", "TOPIC", it.topic)],
        0,
    ),
    "replay apply": (
        lambda it, new: it.apply(it.plan(new)),
        lambda it, new: [("READ", "GROUP", new), ("READ", "TOPIC", it.topic)],
        0,
    ),
    "replay rollback": (
        lambda it, new: it.rollback(it.applied(new)),
        lambda it, new: [("DELETE", "GROUP", new)],
        0,
    ),
    "replay follow": (
        lambda it, new: ["replay", "follow", str(it.applied(new)), "--once"],
        lambda it, new: [("DESCRIBE", "GROUP", it.old), ("DESCRIBE", "GROUP", new), ("DESCRIBE", "TOPIC", it.topic)],
        7,
    ),
    "replay verify": (
        lambda it, new: ["replay", "verify", str(it.applied(new))],
        lambda it, new: [("DESCRIBE", "GROUP", it.old), ("DESCRIBE", "GROUP", new), ("READ", "TOPIC", it.topic)],
        3,
    ),
    "dlq show": (
        lambda it, _new: ["dlq", "show", it.letters, "--cluster", "mine", "--limit", "2"],
        lambda it, _new: [("READ", "TOPIC", it.letters)],
        0,
    ),
    "dlq plan": (
        lambda it, new: ["dlq", "plan", it.letters, "--cluster", "mine", "-o", str(it.folder / f"{new}.json")],
        lambda it, _new: [("READ", "TOPIC", it.letters), ("DESCRIBE", "TOPIC", it.topic)],
        0,
    ),
    "dlq verify": (
        lambda it, _new: ["dlq", "verify", str(it.redrive())],
        lambda it, _new: [("READ", "TOPIC", it.letters), ("READ", "TOPIC", it.topic)],
        3,
    ),
    "dlq apply": (
        lambda it, _new: it.redriven(),
        lambda it, _new: [
            ("READ", "TOPIC", it.letters), ("WRITE", "TOPIC", it.topic),
            ("READ", "GROUP", REDRIVE), ("WRITE", "TRANSACTIONAL_ID", REDRIVE),
        ],
        0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("command", ROWS)
def test_a_command_runs_with_its_rights_alone_and_names_the_one_that_lacks(
    stage: Stage, tmp_path: Path, command: str
) -> None:
    """Each of its rights is taken away in turn: another exit code, and the error names the resource and what is not permitted."""
    words, rights, code = ROWS[command]
    for number in range(len(rights(stage, "x"))):
        new = fresh("rights-new")
        every, line = rights(stage, new), words(stage, new)
        lacking = every.pop(number)
        shown = tried(stage, tmp_path, line, *every)
        said = shown.stdout + shown.stderr
        assert shown.returncode in (4, 5, 6), (lacking, said)
        operation, kind, name = lacking
        named = {"BROKER": "the cluster", ALL: stage.old, REDRIVE: REDRIVE.removesuffix("*")}
        assert named.get(kind) or named.get(name, name) in said, (lacking, said)
        assert re.search(rf"lacks? |may not be|may not|not permitted|needs {operation}|uthorization failed", said), said
        assert "Traceback" not in said
    new = fresh("rights-new")
    shown = tried(stage, tmp_path, words(stage, new), *rights(stage, new))
    assert shown.returncode == code, shown.stderr


def test_what_a_plan_does_without_some_rights_it_says(stage: Stage, tmp_path: Path) -> None:
    """No estimate of the bytes, a warning about the retention; and with the rights, both."""
    new = fresh("rights-new")
    topic = [("DESCRIBE", "TOPIC", stage.topic), ("DESCRIBE", "GROUP", stage.old), ("DESCRIBE", "GROUP", new)]
    more = [("DESCRIBE_CONFIGS", "TOPIC", stage.topic), ("READ", "TOPIC", stage.topic)]
    poor, rich = (tried(stage, tmp_path, stage.words(new), *rights) for rights in (topic, topic + more))
    assert poor.returncode == rich.returncode == 0
    said = "its retention cannot be read, so the margin is unknown"
    assert said in poor.stdout + poor.stderr
    assert said not in rich.stdout + rich.stderr


def test_what_would_refuse_half_of_a_change_is_said_before_it(stage: Stage, tmp_path: Path) -> None:
    """READ of a topic and of the group, and WRITE with the transactional id: by the dry run, and of letters by the plan already."""
    new, says = fresh("rights-new"), "'reader' lacks"

    def said(code: int, words: list[str], *rights: Right) -> str:
        shown = tried(stage, tmp_path, words, *rights)
        assert shown.returncode == code, shown.stderr
        return " ".join((shown.stdout + shown.stderr).split())

    words = [*stage.apply(stage.plan(new)), "--dry-run"]
    described = said(6, words, ("DESCRIBE", "TOPIC", stage.topic), ("READ", "GROUP", new))
    assert f"{says} READ on topic '{stage.topic}'" in described
    assert f"{says} READ on group '{new}'" in said(6, words, ("READ", "TOPIC", stage.topic), ("DESCRIBE", "GROUP", new))
    mine = f"{new}-dlt"  # letters that no other test has redriven
    stage.secured.create_topic(mine, 2)
    write_letters(stage.secured.bootstrap, mine, letters(20, stage.topic), stage.secured.properties(ADMIN))
    plan, most = (
        stage.folder / f"{new}-letters.json",
        [("READ", "TOPIC", mine), ("WRITE", "TOPIC", stage.topic)],
    )
    made = said(0, ["dlq", "plan", mine, "--cluster", "mine", "-o", str(plan)], *most)
    assert f"{says} WRITE on transactional id '{REDRIVE}'" in made
    dry = ["dlq", "apply", str(plan), "--dry-run"]
    reads, writes = ("READ", "GROUP", REDRIVE), ("WRITE", "TRANSACTIONAL_ID", REDRIVE)
    assert f"{says} WRITE on transactional id" in said(6, dry, *most, reads)
    assert f"{says} READ on group" in said(6, dry, *most, ("DESCRIBE", "GROUP", REDRIVE), writes)
    untold = said(0, dry, *most, reads, ("DESCRIBE", "TRANSACTIONAL_ID", REDRIVE))
    assert "Unknown: whether these credentials may write with the transactional id" in untold


def test_the_table_of_the_documents_is_this_one() -> None:
    """Row by row: operation and kind of resource."""
    kinds = {"GROUP": "group", "TOPIC": "topic", "BROKER": "cluster", "TRANSACTIONAL_ID": "transactional id"}
    table = (
        (Path(__file__).parent.parent.parent / "docs" / "lab.md").read_text().split("## Rights that Workbench needs")[1]
    )
    written: dict[str, list[tuple[str, str]]] = {}
    names: list[str] = []
    for line in table.splitlines():
        cells = [it.strip() for it in line.split("|")[1:-1]]
        if len(cells) == 3 and cells[1].isupper():
            names = re.findall(r"`([^`]+)`", cells[0]) or names
            for name in names:
                written.setdefault(name, []).append((cells[1], cells[2]))
    it = SimpleNamespace(old="o", topic="t", letters="l")
    for command, (_, rights, _) in ROWS.items():
        for operation, kind, _ in rights(it, "n"):  # type: ignore[arg-type]
            rows = written[command]
            assert any(op == operation and kinds[kind] in what for op, what in rows), (command, operation, kind, rows)
