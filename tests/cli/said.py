"""Every command that Workbench tells people to type: where it stands, and whether the real parser accepts it."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from workbench.cli import root
from workbench.cli.help import EXAMPLES
from workbench.errors import WorkbenchError

PROJECT = Path(__file__).parent.parent.parent
PLACE = "X"  # what the program fills in
# What may stand around a command without being a part of it.
_LINE = re.compile(r"(?<![\w./-])(?:[\w./]*/)?workbench (?=[a-z])")
# The end of a command within a sentence.
_SENTENCE_END = re.compile(
    r"(?:[.;:,?)]+(?=\s|$)|\s[-–—]\s|\s(?:and|or|then|with one|lists|makes|says)\s|…|[“”]).*", re.DOTALL
)
_NAME = re.compile(r"[a-z-]+(?: [a-z-]+){0,2}")  # nothing but the name of a command: `replay log`
_COMMANDS = root.list_commands(click.Context(root, **root.context_settings))
_SHELL_END = re.compile(r"(?:\s#|\s\||\s>|\s2>|\s&&|\s;|;\s|;$).*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Said:
    """One command.

    Attributes:
        where: the file, and what it belongs to.
        words: what follows `workbench`.
        is_name: whether the text only names a command (`workbench lab` within backticks), and is not a line to type.
    """

    where: str
    words: str
    is_name: bool = False


def commands_in(text: str, where: str, *, shell: bool = False) -> Iterator[Said]:
    """Commands within a text; `shell`: all of it is lines for a shell, and `workbench` at the head of one is the program."""
    for line in text.replace("\\\n", " ").splitlines():
        line = re.sub(r"\s#.*", "", line) if shell else line
        for part, quoted in _parts(line, shell=shell):
            for found in _LINE.finditer(part):
                words = _SHELL_END.sub("", part[found.end() :]) if shell or quoted else _sentence(part[found.end() :])
                if (words := _balanced(words.strip())).split(" ")[0] in _COMMANDS or (
                    shell and not part[: found.start()].strip(" $")
                ):
                    yield Said(where, words, is_name=quoted and _NAME.fullmatch(words) is not None)


def _sentence(words: str) -> str:
    """A command that stands unquoted in a sentence ends where the sentence goes on."""
    return _SHELL_END.sub("", _SENTENCE_END.sub("", words))


def _balanced(words: str) -> str:
    """Without the closing quote of a text that contains the command."""
    for closing in ('"', "'", ')"'):
        try:
            shlex.split(words)
        except ValueError:
            words = words.removesuffix(closing).rstrip()
    return words.removesuffix(")") if "(" not in words else words


def _parts(line: str, *, shell: bool) -> list[tuple[str, bool]]:
    """Pieces of a line, and whether each is quoted by backticks or `code` tags."""
    if shell:
        return [(line, False)]
    line = re.sub(r"</?code>", "`", line)
    return [(part, number % 2 == 1) for number, part in enumerate(line.split("`"))]


# Where they stand


def in_sources(package: Path) -> Iterator[Said]:
    """Texts of the program: every string that is no docstring, with `X` for what is filled in."""
    for path in sorted(package.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inside: set[int] = set()
        for node in ast.walk(tree):
            if isinstance(
                node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            ) and ast.get_docstring(node):
                inside.add(id(node.body[0].value))  # type: ignore[attr-defined]
            if isinstance(node, ast.JoinedStr):
                inside |= {id(it) for it in ast.walk(node) if it is not node}
        for node in ast.walk(tree):
            if id(node) in inside:
                continue
            text = _text(node)
            if text and "workbench " in text:
                yield from commands_in(text, f"{path.relative_to(PROJECT)}:{node.lineno}")


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return ""
    text = ""
    for part in node.values:
        if isinstance(part, ast.Constant):
            text += re.sub(r"\{\{.*?\}\}", PLACE, str(part.value))
        elif ast.unparse(part).rstrip("}").endswith(("source", "_source(url, cluster, at)")):
            text += f"--cluster {PLACE}"  # a place of this name is the option that names where to read from
        elif not text or text[-1] in " \n'\"=/(:`<>":
            text += PLACE
        # A place that follows a word directly is a piece that may be empty: `--all{config}`.
    return text


def in_templates(package: Path) -> Iterator[Said]:
    """Pages, reports, and annotations of alert rules."""
    rules = (PROJECT / "runbooks" / "rules").glob("*.yml")
    for path in sorted([*package.rglob("*.j2"), *package.rglob("*.js"), *rules]):
        text = re.sub(r"\{\{.*?\}\}", PLACE, path.read_text(encoding="utf-8"))
        yield from commands_in(re.sub(r"\{%.*?%\}", "", text), str(path.relative_to(PROJECT)))


def in_helps(group: click.Group, path: str = "") -> Iterator[Said]:
    """Help texts, option by option."""
    context = click.Context(group, **root.context_settings)
    for name in group.list_commands(context):
        it = group.get_command(context, name)
        assert it is not None
        whole = f"{path} {name}".strip()
        for text in (it.help, *(getattr(one, "help", None) for one in it.params)):
            yield from commands_in(text or "", f"help of {whole}")
        if isinstance(it, click.Group):
            yield from in_helps(it, whole)


def in_examples() -> Iterator[Said]:
    """The examples under the helps."""
    for path, rows in EXAMPLES.items():
        for words, _ in rows:
            whole = words if "workbench " in words else f"workbench {words}"
            yield from commands_in(whole.replace("$(", "").replace(')"', ""), f"example of {path}", shell=True)


def in_markdown(paths: Iterable[Path]) -> Iterator[Said]:
    """Documents: fenced blocks are lines for a shell, the rest is sentences."""
    for path in paths:
        blocks = re.split(r"^```.*$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for number, block in enumerate(blocks):
            yield from commands_in(block.replace("\\|", "|"), str(path.relative_to(PROJECT)), shell=number % 2 == 1)


def in_notebooks(paths: Iterable[Path]) -> Iterator[Said]:
    """Texts of the notebooks."""
    for path in paths:
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            yield from commands_in("".join(cell["source"]), str(path.relative_to(PROJECT)))


def everything() -> list[Said]:
    """All of them, but for the findings' actions, which `tests.triage.test_action_commands` makes."""
    package = PROJECT / "workbench"
    documents = [
        *(it for it in sorted(PROJECT.glob("*.md")) if it.name != "CHANGELOG.md"),  # it abridges commands
        *sorted((PROJECT / "docs").rglob("*.md")),
        *sorted((PROJECT / "runbooks").glob("*.md")),
    ]
    return [
        *in_sources(package),
        *in_templates(package),
        *in_helps(root),
        *in_examples(),
        *in_markdown(documents),
        *in_notebooks(sorted((PROJECT / "notebooks").glob("*.ipynb"))),
    ]


# Whether they can be typed


class _AnyPath(click.Path):
    """A path that need not be there."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self.coerce_path_result(value)


def _parse(command: click.Command, context: click.Context, parts: list[str]) -> None:
    """Parse as the program does; a value that the program fills in is a text, a number or a choice."""
    types = [(it, it.type) for it in command.params]
    for it, kind in types:
        if isinstance(kind, click.Path):
            it.type = _AnyPath(path_type=kind.type)
    try:
        command.parse_args(context, list(parts))
    except click.MissingParameter:
        raise
    except click.BadParameter as error:
        if PLACE not in parts or error.param is None:
            raise
        value = error.param.type.choices[0] if isinstance(error.param.type, click.Choice) else "1"
        command.parse_args(context, [value if it == PLACE else it for it in parts])
    finally:  # the commands are those that other tests show
        for it, kind in types:
            it.type = kind


def problem_of(said: Said) -> str | None:
    """Why the parser refuses a command; None if it accepts it. Files need not exist, and `X` stands for any value."""
    abridged = "…" in said.words  # in documents: the options that stand above it
    try:
        parts = shlex.split(said.words.replace("…", ""))
    except ValueError as error:
        return f"no shell line: {error}"
    context, command = click.Context(root, info_name="workbench", **root.context_settings), root
    try:
        while isinstance(command, click.Group) and parts and not parts[0].startswith("-"):
            name, it, parts = command.resolve_command(context, parts)
            assert it is not None
            context = click.Context(it, info_name=name, parent=context)
            command = it
        if said.is_name or (isinstance(command, click.Group) and not parts):
            return None if not parts or not isinstance(command, click.Group) else f"no command: {parts}"
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            _parse(command, context, parts)
    except click.exceptions.Exit:
        return None  # --help
    except (click.MissingParameter, click.BadOptionUsage) as error:
        return None if abridged else error.format_message()
    except click.UsageError as error:
        return error.format_message()
    except WorkbenchError as error:  # there is no cluster to take by default
        return None if abridged else error.message
    return None
