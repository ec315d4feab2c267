"""Rules of what is installed: the notebooks, their recordings and the runbooks come with the wheel, and are found there."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from tests.wheel import ROOT, built
from workbench import __version__


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked elsewhere."""
    room = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(built(room / "dist")) as archive:
        archive.extractall(room / "site")
    return room / "site"


def files(folder: Path) -> dict[str, bytes]:
    """Every file below it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_wheel_holds_what_is_for_people(installed: Path) -> None:
    """Byte by byte what is in the repository; a new notebook or runbook cannot be forgotten. The README's pictures stay out."""
    shipped = installed / "workbench" / "_shipped"
    notebooks = {
        name: data
        for name, data in files(ROOT / "notebooks").items()
        if not name.startswith(("images/", ".ipynb_checkpoints/"))
    }
    assert files(shipped / "notebooks") == notebooks
    assert files(shipped / "runbooks") == files(ROOT / "runbooks")
    assert not (installed / "tests").exists()


def test_the_wheel_holds_the_whole_package(installed: Path) -> None:
    """Templates, profiles, checksums and the mark of a typed package, and nothing that a run has left behind."""
    package = {
        f"workbench/{name}": data for name, data in files(ROOT / "workbench").items() if "__pycache__" not in name
    }
    shipped = {name: data for name, data in files(installed).items() if name.startswith("workbench/")}
    assert {name: data for name, data in shipped.items() if "/_shipped/" not in name} == package
    assert "workbench/py.typed" in shipped


def test_the_wheel_says_what_it_is(installed: Path) -> None:
    """Version from the package, license by its SPDX name with its text, the extras that commands name."""
    [folder] = installed.glob("*.dist-info")
    told = message_from_bytes((folder / "METADATA").read_bytes())
    assert (told["Name"], told["Version"]) == ("lag-workbench", __version__)
    assert (told["License-Expression"], told.get_all("License-File")) == ("Apache-2.0", ["LICENSE"])
    assert (folder / "licenses" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert {"notebook", "connect", "java", "dev"} <= set(told.get_all("Provides-Extra", []))


def test_the_source_archive_builds_the_same_wheel(installed: Path, tmp_path: Path) -> None:
    """Whoever installs from source gets what the repository would give."""
    with tarfile.open(built(tmp_path / "sdist", kind="sdist")) as archive:
        archive.extractall(tmp_path / "source", filter="data")
    [source] = (tmp_path / "source").iterdir()
    with zipfile.ZipFile(built(tmp_path / "dist", source=source)) as archive:
        archive.extractall(tmp_path / "site")
    assert files(tmp_path / "site") == files(installed)


def test_what_is_installed_finds_them(installed: Path, tmp_path: Path) -> None:
    """From any folder, with the package that was unpacked; folders beside it that have their names are somebody else's."""
    for name in ("notebooks", "runbooks"):
        (installed / name).mkdir(exist_ok=True)
    probe = (
        "from workbench import assets; from workbench.widgets import game;"
        "print(assets.notebook('replay')); print(assets.shipped('runbooks')); print(game.incidents())"
    )
    shown = subprocess.run(
        [sys.executable, "-c", probe],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout.splitlines()
    assert len(shown) == 3
    for line in shown:
        assert Path(line).is_relative_to(installed / "workbench" / "_shipped")
        assert Path(line).exists()
