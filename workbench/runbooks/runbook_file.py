"""A runbook as a file: front matter, sections, commands, and the parts that are generated."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from workbench.errors import UsageError
from workbench.limited_reads import first_problem
from workbench.runbooks.verdict_path import diagnosis, picture
from workbench.triage.question_trees_by_queue import tree_of
from workbench.triage.verdict_names import AnyVerdict, Verdict

SECTIONS = ("Meaning", "Impact", "Diagnosis", "Mitigation", "Verify", "Rollback")
_FRONT = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_COMMANDS = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(\n<!-- end -->)", re.DOTALL)


class FrontMatter(BaseModel):
    """What stands at the head of a runbook; `also` are further alerts that lead to it."""

    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid")

    alert: str
    severity: str
    also: tuple[str, ...] = ()
    verdict: AnyVerdict | None = None
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """One runbook."""

    path: Path
    front: FrontMatter
    text: str

    @property
    def sections(self) -> tuple[str, ...]:
        """Its headings of the second level, in their order."""
        return tuple(re.findall(r"^## (.+)$", self.text, flags=re.MULTILINE))

    @property
    def title(self) -> str:
        """Its heading of the first level."""
        found = re.search(r"^# (.+)$", self.text, flags=re.MULTILINE)
        return found[1] if found else ""

    @property
    def meaning(self) -> str:
        """What stands under "Meaning", on one line."""
        found = re.search(r"^## Meaning\n(.*?)(?=^## |\Z)", self.text, flags=re.MULTILINE | re.DOTALL)
        return " ".join(found[1].split()) if found else ""

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that it asks people to run, one for each line."""
        lines = [line for block in _COMMANDS.findall(self.text) for line in block.splitlines()]
        return tuple(line.removeprefix("$ ") for line in lines if line.startswith("$ "))

    def regenerated(self) -> str:
        """Its text with the generated parts as the tree's declaration makes them now."""
        verdict = self.front.verdict
        if verdict is None:
            return self.text
        if isinstance(verdict, Verdict):
            parts = {"diagnosis": diagnosis(verdict), "picture": picture(verdict)}
        else:
            own = tree_of(verdict)
            parts = {"diagnosis": own.diagnosis(verdict), "picture": own.picture(verdict)}
        return _BLOCK.sub(lambda it: it[1] + parts[it[2]] + it[3] if it[2] in parts else it[0], self.text)


def read_book(path: Path) -> Book:
    """Read a runbook.

    Raises:
        UsageError: if its front matter is missing or wrong.
    """
    text = path.read_text(encoding="utf-8")
    found = _FRONT.match(text)
    if found is None:
        raise UsageError(f"{path} has no front matter.")
    try:
        return Book(path=path, front=FrontMatter.model_validate(yaml.safe_load(found[1])), text=text)
    except (ValidationError, yaml.YAMLError) as error:
        reason = first_problem(error) if isinstance(error, ValidationError) else "not valid YAML"
        raise UsageError(f"{path}: front matter: {reason}.") from None


def for_people(text: str) -> str:
    """A runbook without its front matter and the marks of its generated parts."""
    return re.sub(r"^<!-- .* -->\n", "", _FRONT.sub("", text, count=1), flags=re.MULTILINE)


def read_books(folder: Path) -> list[Book]:
    """All runbooks of a folder, by name."""
    return [read_book(path) for path in sorted(folder.glob("*.md")) if path.name != "README.md"]
