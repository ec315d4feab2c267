"""Rules of the help pages: each command answers without being asked twice, with examples that work as they stand."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.cli.running import check, run_here
from workbench.cli import root
from workbench.cli.help import EXAMPLES
from workbench.cli.options import A_TIME
from workbench.humanize import near
from workbench.report.runs.parameters import health_parameters
from workbench.shipped_files import shipped
from workbench.window import parse_instant


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Every command below a group, with its path."""
    context = click.Context(group)
    for name in group.list_commands(context):
        it = group.get_command(context, name)
        assert it is not None
        whole = f"{path} {name}".strip()
        yield whole, it
        if isinstance(it, click.Group):
            yield from commands(it, whole)


EVERY = dict(commands(root))
GROUPS = ["", *(path for path, it in EVERY.items() if isinstance(it, click.Group))]


@pytest.mark.parametrize("path", GROUPS)
def test_a_group_without_a_command_shows_its_help(path: str, tmp_path: Path) -> None:
    """To stdout, over several lines, with exit code 0; the same as `--help`."""
    bare = run_here(*path.split(), cwd=tmp_path)
    assert bare.returncode == 0
    assert bare.stderr == ""
    assert bare.stdout.startswith("Usage: workbench")
    assert len(bare.stdout.splitlines()) > 10
    assert bare.stdout == run_here(*path.split(), "--help", cwd=tmp_path).stdout


@pytest.mark.parametrize("path", ["", *EVERY])
def test_every_help_has_examples_within_80_columns(path: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No command is cut or wrapped, and no description ends in dots."""
    monkeypatch.setenv("COLUMNS", "80")
    shown = run_here(*path.split(), "--help", cwd=tmp_path).stdout
    assert "Examples:" in shown
    assert "..." not in shown.replace("COMMAND [ARGS]...", "")
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize("path", EVERY)
def test_every_option_says_what_it_does(path: str) -> None:
    """An option without words is a riddle."""
    for it in EVERY[path].params:
        assert not isinstance(it, click.Option) or it.help, (path, it.name)


@pytest.mark.parametrize(("path", "words"), [(path, words) for path, rows in EXAMPLES.items() for words, _ in rows])
def test_an_example_is_accepted_by_its_command(path: str, words: str) -> None:
    """Options exist, their values are of their kind, and nothing required is left out."""
    if words.startswith("eval"):
        return
    parts = shlex.split(words.split(" > ")[0].split(" | ")[0].replace("\\\n", ""))
    context, command = click.Context(root, info_name="workbench"), root
    while isinstance(command, click.Group) and parts:
        name, it, parts = command.resolve_command(context, parts)
        assert it is not None
        context = click.Context(it, info_name=name, parent=context)
        command = it
    if "--help" in parts:
        return
    missing = [one.name for one in command.params if isinstance(one, click.Argument) and one.required]
    try:
        command.parse_args(context, list(parts))
    except click.BadParameter as error:
        # Files of the examples are not there; everything else must be right.
        assert "does not exist" in error.format_message(), (missing, error.format_message())


@pytest.mark.parametrize(
    ("words", "means"),
    [
        (["triag"], "triage"),
        (["snapshots"], "snapshot"),
        (["lab", "staus"], "status"),
        (["replay", "aply"], "apply"),
        (["runbooks", "show", "slow_procesor"], "SlowProcessor"),
        (["notebook", "lag-triage"], "lag_triage"),
        (["snapshot", "--cluster", "labb"], "lab"),
        (["lab", "run", "slow_proces"], "slow_processor"),
    ],
)
def test_a_mistyped_name_gets_a_suggestion(words: list[str], means: str, tmp_path: Path) -> None:
    """The nearest names, in backticks, before the list of all."""
    shown = run_here(*words, cwd=tmp_path)
    check(shown, 2, "Did you mean", f"`{means}`")


def test_nothing_is_near_to_a_name_that_is_far() -> None:
    """A wrong suggestion is worse than none."""
    assert near("xyzzy", ["triage", "snapshot"]) == []
    assert near("TRIAGE", ["triage", "snapshot"]) == ["triage"]
    assert near("lab", ["lab"]) == [], "a name that exists is no suggestion for itself"


def test_the_help_of_notebook_names_every_notebook() -> None:
    """With a few words for each, in the order of use."""
    said = EVERY["notebook"].help or ""
    named = re.findall(r"^ +(\w+)  +\w", said, flags=re.M)
    assert sorted(named) == sorted(it.stem for it in shipped("notebooks").glob("*.ipynb"))


def test_every_time_is_explained_in_the_same_words() -> None:
    """`--since`, `--until` and `--at` of all commands."""
    found = {
        f"{path} {option.opts[0]}": option.help or ""
        for path, command in commands(root)
        for option in command.params
        if isinstance(option, click.Option) and {"--since", "--until", "--at"} & {*option.opts}
    }
    assert len(found) > 12
    assert [name for name, text in found.items() if A_TIME not in text] == []


@pytest.mark.parametrize("when", ["15m", "15m ago", "now", "2026-11-21T03:00Z", "2026-11-21T03:00:00+08:00"])
def test_every_command_takes_the_same_forms(when: str, tmp_path: Path) -> None:
    """Wherever a time is given; the recording is the only one that ends before now."""
    (tmp_path / "workbench.toml").write_text('[clusters.prod]\nprometheus = "http://127.0.0.1:9"\n')
    added = run_here("events", "add", "--cluster", "prod", "--text", "x", "--at", when, cwd=tmp_path)
    assert added.returncode == 0, added.stderr
    listed = run_here("events", "list", "--cluster", "prod", "--since", when, cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert run_here("profiles", "check", "--cluster", "prod", "--at", when, cwd=tmp_path).returncode == 5
    assert parse_instant(when).tzinfo is not None
    if when != "now":
        assert health_parameters(
            cluster="prod", capture=None, since=when, until=None, config=tmp_path / "workbench.toml"
        ).since


def test_one_thing_has_one_word_and_old_words_are_accepted(tmp_path: Path) -> None:
    """A file or folder is --output, a number of lines --limit, a time limit --timeout; scripts with the old words go on."""
    old = {"--out", "--top", "--deadline"}
    seen = set()
    for path, it in EVERY.items():
        for one in it.params:
            if not isinstance(one, click.Option):
                continue
            shown = one.get_help_record(click.Context(it))
            assert shown is None or not old & set(re.split(r"[\s,]+", shown[0])), (path, shown)
            seen |= old & set(getattr(one, "old", ()))
    assert seen == old
    shown = run_here("capture", "--cluster", "nope", "--out", "x", cwd=tmp_path)
    check(shown, 2, "There is no cluster 'nope'")
