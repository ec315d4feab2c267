"""Rules of commands on a screen or a page: each can be pasted. The real parser decides."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from tests.cli.running import check, run_here
from tests.cli.said import PROJECT, Said, commands_in, everything, problem_of
from workbench.cli.hinted_commands import filled
from workbench.extras import how_to_install
from workbench.humanize import listed

EVERY = everything()


@pytest.fixture(autouse=True)
def _nothing_to_take_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without settings: a command names its cluster."""
    monkeypatch.chdir(tmp_path)


def test_every_command_is_accepted() -> None:
    """Of hints, helps, examples, reports, pages, documents, runbooks and notebooks: no option is missing, unknown or wrong."""
    wrong = [f"{it.where}: workbench {it.words}: {why}" for it in EVERY if (why := problem_of(it)) is not None]
    assert not wrong, "\n".join(wrong)
    assert len(EVERY) >= 300


def test_every_kind_of_place_is_read() -> None:
    """A collector that finds nothing would be content."""
    for place in (
        "workbench/cli/",
        "workbench/replay/",
        ".j2",
        "help of",
        "example of",
        "README",
        "docs/",
        "runbooks/",
        "notebooks/",
    ):
        assert any(place in it.where for it in EVERY), place


@pytest.mark.parametrize(
    ("text", "found", "wrong"),
    [
        ("List its groups with: workbench snapshot.", "snapshot", "--cluster"),
        ("See: workbench replay follow, and verify.", "replay follow", "PLAN"),
        ("`workbench triage --groups x --cluster c`", "triage --groups x --cluster c", "--groups"),
        ("(see: workbench profiles neww)", "profiles neww", "neww"),
        ("Next: workbench triage --cluster c --group g, then wait.", "triage --cluster c --group g", None),
        ("It is what `workbench replay log` shows.", "replay log", None),
        ("/srv/.venv/bin/workbench lab up  # a comment", "lab up", None),
        ("workbench is a program, and workbench commands are words.", None, None),
    ],
)
def test_the_collector_sees_what_is_wrong(text: str, found: str | None, wrong: str | None) -> None:
    """It ends a command where the sentence goes on, and knows a name from a line to type."""
    said = list(commands_in(text, "here"))
    assert [it.words for it in said] == ([found] if found else [])
    for it in said:
        why = problem_of(it)
        assert (why is None) == (wrong is None), why
        assert (wrong or "") in (why or "")


def test_a_hint_names_the_plan_and_the_cluster_that_were_typed(tmp_path: Path) -> None:
    """Who writes it does not know them; without either it stays as it is."""
    typed = {"PLAN": "'my plan.json'", "CLUSTER": "prod"}
    assert filled("See: workbench replay follow PLAN, on CLUSTER", typed) == (
        "See: workbench replay follow 'my plan.json', on prod"
    )
    assert filled("See: workbench replay follow PLAN", {}) == "See: workbench replay follow PLAN"
    (tmp_path / "workbench.toml").write_text('[clusters.shop]\nbootstrap = "127.0.0.1:9"\n')
    shown = run_here("watch", "--live", cwd=tmp_path)
    assert "Hint:  For a script: workbench snapshot --cluster shop --json" in shown.stderr
    check(run_here("triage", "--capture", ".", cwd=tmp_path), 2, "workbench capture --cluster CLUSTER --output FOLDER")


def test_what_a_hint_installs_is_there() -> None:
    """Each extra of the package, from where the package came from: nobody else can register that name."""
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert len(extras) > 4
    for extra in extras:
        *words, what = shlex.split(how_to_install(extra))
        path = re.fullmatch(rf"(.+)\[{extra}\]", what)
        assert (words, path is not None) == (["pip", "install"], True), what
        assert path is not None
        assert (Path(path[1]) / "pyproject.toml").is_file()
    for name in [*PROJECT.glob("docs/*.md"), *PROJECT.glob("*.md"), *(PROJECT / "workbench").rglob("*.py")]:
        asked = re.findall(r"pip install '?([^'`\s]*)\[(\w+)", name.read_text(encoding="utf-8"))
        assert all(where == "." and extra in extras for where, extra in asked), (
            name,
            listed([str(it) for it in asked]),
        )


def test_a_name_alone_must_exist() -> None:
    """Within backticks it needs no arguments."""
    assert problem_of(Said("here", "replay log", is_name=True)) is None
    assert problem_of(Said("here", "replay logs", is_name=True)) is not None


_OF_FILES = {"plan_file", "path", "out", "fleet", "folder", "rollback", "receipt.rollback", "file"}


def test_files_in_commands_are_words_of_a_shell() -> None:
    """ "my plan.json" as it is would be two of them: a path goes through `shell_word` before it is in a command."""
    seen, bare = 0, []
    for source in sorted((PROJECT / "workbench").rglob("*.py")):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.JoinedStr):
                continue
            before = ""
            for part in node.values:
                if isinstance(part, ast.Constant):
                    before += str(part.value)
                elif isinstance(part, ast.FormattedValue) and re.search(r"\bworkbench [a-z][^.:;]*$", before):
                    seen += 1
                    if ast.unparse(part.value) in _OF_FILES:
                        bare.append(f"{source.name}:{node.lineno} {ast.unparse(part.value)}")
    assert not bare
    assert seen >= 20
