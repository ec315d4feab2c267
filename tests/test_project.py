"""Rules of the repository itself."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
import yaml

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_environment_and_project_ask_for_the_same() -> None:
    """Pin by pin, so that conda's users and pip's users run the same thing."""
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    [by_pip] = [item["pip"] for item in environment["dependencies"] if isinstance(item, dict)]
    assert sorted(set(by_pip) - {"-e ."}) == sorted(PROJECT["dependencies"])
    assert f"python{PROJECT['requires-python']}" in environment["dependencies"]


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-build.lock", "requirements-java.lock"])
def test_the_locks_are_hashed_and_name_no_host(name: str) -> None:
    """Every requirement has a version and hashes; where they come from is the installer's business."""
    text = (ROOT / ".ci" / name).read_text()
    assert "://" not in text
    assert not re.search(r"^\s*-", re.sub(r"^\s+--hash=\S+( \\)?$", "", text, flags=re.M), flags=re.M)
    for block in re.split(r"\n(?=\S)", text.strip()):
        assert re.match(r"[A-Za-z0-9._-]+==", block), block[:80]
        assert "--hash=sha256:" in block, block[:80]


def test_the_lock_holds_what_the_project_asks_for() -> None:
    """A dependency that is not in the lock would not be installed by make."""
    lock = (ROOT / ".ci" / "requirements.lock").read_text().lower()
    extras = PROJECT["optional-dependencies"]["dev"]
    for requirement in [*PROJECT["dependencies"], *extras]:
        name = re.split(r"[<>=\[;]", requirement)[0].strip().lower()
        assert re.search(rf"^{re.escape(name)}==", lock, flags=re.M), name


def test_what_is_built_is_built_with_what_the_locks_hold() -> None:
    """A build in isolation fetches its back end by no lock: no version, no hash. So make asks for none, and brings it before."""
    makefile = (ROOT / "Makefile").read_text()
    installs = [line for line in makefile.splitlines() if "pip install" in line and "java" not in line]
    built = [line for line in installs if "--only-binary :all:" not in line or "--no-binary" in line]
    assert built and all("--no-build-isolation" in line for line in built)
    assert all("--require-hashes" in line or "--no-deps" in line for line in installs)
    first = next(line for line in installs if "requirements-build.lock" in line)
    assert installs.index(first) < min(map(installs.index, built))
    block = (ROOT / ".ci" / "requirements-build.lock").read_text()
    assert block in (ROOT / ".ci" / "requirements.lock").read_text()
    assert ".ci/requirements-build.lock" in next(line for line in makefile.splitlines() if line.startswith("$(READY):"))


def test_importing_the_package_is_cheap() -> None:
    """No JVM, no Spark, no Kafka client and no pandas comes with `import workbench` or the command's overview."""
    heavy = "{'pyspark', 'confluent_kafka', 'pandas', 'pyarrow', 'rich'}"
    probe = f"import sys, workbench, workbench.cli; print(sorted({heavy} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_every_command_explains_itself() -> None:
    """Each command of the overview loads, and has a help text and a word for every option."""
    from workbench.cli import _COMMANDS, root

    with click.Context(root) as context:
        for name in _COMMANDS:
            command = root.get_command(context, name)
            assert command is not None
            found = [command, *(command.commands.values() if isinstance(command, click.Group) else ())]
            for each in found:
                assert each.help, name
                for parameter in each.params:
                    assert isinstance(parameter, click.Argument) or parameter.help, (name, parameter.name)  # type: ignore[attr-defined]


def test_data_flows_one_way() -> None:
    """A module imports from its own step or from steps before it, never from one that comes after (ARCHITECTURE.md)."""
    order = ["ground", "profiles", "collect", "features", "triage", "report"]
    aside = {
        "widgets": {"replay", "lab", *order},
        "runbooks": set(order[: order.index("triage") + 1]),
        "lab": {"runtime", *order},
        "cli": {"runtime", "lab", "replay", "widgets", "runbooks", *order},
        "runtime": {"ground"},
        "replay": {"ground", "collect"},
    }
    ground = {path.stem for path in (ROOT / "workbench").glob("*.py")}
    wrong = []
    for path in (ROOT / "workbench").rglob("*.py"):
        relative = path.relative_to(ROOT / "workbench")
        step = "ground" if len(relative.parts) == 1 else relative.parts[0]
        allowed = aside.get(step) or set(order[: order.index(step) + 1])
        for name in re.findall(r"^\s*(?:from|import) workbench\.(\w+)", path.read_text(), flags=re.M):
            target = "ground" if name in ground else name
            if target not in allowed | {step}:
                wrong.append(f"{relative} imports {name}")
    # The archive's warm-up run calls a whole triage on purpose, in a process of its own.
    assert [item for item in wrong if not item.startswith("spark_archive.py")] == []


def test_every_module_says_what_it_is_for() -> None:
    """And none has grown past two rooms."""
    for path in (ROOT / "workbench").rglob("*.py"):
        text = path.read_text()
        assert text.startswith('"""'), path
        assert text.count("\n") <= 450, path
