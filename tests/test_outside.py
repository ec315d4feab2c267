"""Rules of the files for people outside: what they say is what make, the package and the repository do."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from workbench import __version__

ROOT = Path(__file__).parent.parent
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def recipe(target: str) -> list[str]:
    """The commands of one of make's targets, with paths from the repository's folder."""
    _, _, rest = MAKEFILE.partition(f"\n{target}:")
    lines = rest.split("\n\n")[0].splitlines()[1:]
    return [line.strip().lstrip("@").replace("$(BIN)", ".venv/bin") for line in lines]


def test_the_hooks_are_those_of_make_lint() -> None:
    """Word by word, and none of them is fetched."""
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert [repo["repo"] for repo in hooks] == ["local"]
    assert [hook["entry"] for hook in hooks[0]["hooks"]] == recipe("lint")
    assert all(hook["pass_filenames"] is False for hook in hooks[0]["hooks"])


def test_the_image_is_made_by_the_commands_of_make_setup() -> None:
    """By the locks, with their hashes; the package itself without what they do not hold."""
    installs = [line.removeprefix("RUN ") for line in DOCKERFILE.splitlines() if "pip install" in line]
    for line in installs[:-1]:
        assert f"$(BIN)/{line}" in MAKEFILE, line
    assert f"$(BIN)/{installs[-1][:-1]}-e ." in MAKEFILE
    locks = {path.name for path in (ROOT / ".ci").glob("requirements*.lock")}
    assert set(re.findall(r"\.ci/(\S+)", DOCKERFILE)) == locks


def test_the_image_has_no_secrets_and_a_user_without_rights() -> None:
    """Settings come from outside at run time; nothing is copied that is not part of the package."""
    steps = [line.split(maxsplit=1) for line in DOCKERFILE.splitlines() if re.match(r"[A-Z]+ ", line)]
    kinds = [kind for kind, _ in steps]
    assert {"ADD", "ARG", "SECRET"}.isdisjoint(kinds)
    assert [what for kind, what in steps if kind == "USER"] == ["10001"]
    assert "RUN" not in kinds[kinds.index("USER") :]
    names = {word.partition("=")[0] for kind, what in steps if kind == "ENV" for word in shlex.split(what)}
    assert names == {"PATH", "WORKBENCH_SPARK_ARCHIVE"}
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {".git", ".venv", "workbench.toml"} <= set(ignored)


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "CHANGELOG.md"])
def test_what_the_guides_name_exists(name: str) -> None:
    """Files, make's targets and links; a placeholder in <> stands for what a contributor adds."""
    text = (ROOT / name).read_text(encoding="utf-8")
    paths = re.findall(r"`((?:workbench|tests|runbooks|notebooks)/[\w./-]*)`", text)
    missing = [path for path in paths if not (ROOT / path).exists()]
    missing += [path for path in re.findall(r"\]\((?!http)([^)#]+)\)", text) if not (ROOT / path).exists()]
    missing += [target for target in re.findall(r"`make ([a-z-]+)", text) if f"\n{target}:" not in MAKEFILE]
    assert missing == []


def test_the_version_has_its_changes() -> None:
    """The newest version of the changelog is the package's, below what is not released, if there is anything."""
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.M)
    assert next(it for it in headings if it != "Unreleased") == __version__
