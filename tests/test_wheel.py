"""Rules of what is installed: the notebooks, their recordings and the runbooks come with the wheel, and are found there."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built with the back end that the environment has, and unpacked elsewhere."""
    room = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(room / "dist")],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=300,
    )
    [wheel] = (room / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
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


def test_what_is_installed_finds_them(installed: Path, tmp_path: Path) -> None:
    """From any folder, with the package that was unpacked and not with the repository's."""
    probe = (
        "from workbench import assets; from workbench.widgets import game;"
        "print(assets.notebook('replay')); print(assets.shipped('runbooks')); print(game.incidents())"
    )
    shown = subprocess.run(
        [sys.executable, "-c", probe],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout.splitlines()
    assert len(shown) == 3
    for line in shown:
        assert Path(line).is_relative_to(installed / "workbench" / "_shipped")
        assert Path(line).exists()
