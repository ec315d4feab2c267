"""The folder of `workbench notebook`: copies of the notebooks, and settings of JupyterLab for them alone."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from workbench import notebook_format
from workbench.errors import UsageError

_EXTENSIONS = Path(__file__).parent.parent / "widgets" / "labextension"
_SHIPPED = ("captures", "audits")
# No news from the network, no question about it, and every cell in the page from the beginning.
_LAB_SETTINGS = {
    "@jupyterlab/apputils-extension/notification.jupyterlab-settings": '{"fetchNews": "false", "checkForUpdates": false}',
    "@jupyterlab/notebook-extension/tracker.jupyterlab-settings": '{"windowingMode": "none"}',
}


def prepare(folder: Path, source: Path) -> None:
    """Copies of the notebooks for this user; one that is there stays as it is.

    Raises:
        UsageError: if the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(source.glob("*.ipynb")):
            if not (folder / path.name).exists():
                shutil.copyfile(path, folder / path.name)
        for name in _SHIPPED:
            if (source / name).is_dir() and not (folder / name).exists():
                shutil.copytree(source / name, folder / name)
        for setting, text in _LAB_SETTINGS.items():
            file = folder / ".lab" / "settings" / setting
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        _trust(folder, source)
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be written: {error.strerror}.", hint="Name another folder with --dir."
        ) from None


def _trust(folder: Path, source: Path) -> None:
    """Sign the copies that are still as shipped, as `jupyter trust` does, but for this folder's JupyterLab only.

    Only what is signed runs on opening. A notebook that somebody else puts here does not.
    """
    nbformat = notebook_format.load()
    from nbformat.sign import NotebookNotary

    notary = NotebookNotary(data_dir=str(_signatures(folder)))
    for path in sorted(source.glob("*.ipynb")):
        copy = folder / path.name
        if copy.read_bytes() == path.read_bytes():
            notary.sign(nbformat.read(copy, as_version=4))


def _signatures(folder: Path) -> Path:
    made = folder.resolve() / ".lab" / "trust"
    made.mkdir(mode=0o700, exist_ok=True)
    return made


def lab_environment(folder: Path, inputs: dict[str, str | None]) -> dict[str, str]:
    """The environment of JupyterLab: the panel's inputs, and settings and workspaces of its own."""
    own = folder.resolve() / ".lab"
    outside = {name: value for name, value in os.environ.items() if name not in inputs}
    return {
        **outside,
        **{name: value for name, value in inputs.items() if value},
        "JUPYTERLAB_SETTINGS_DIR": str(own / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(own / "workspaces"),
    }


def lab_command(folder: Path, name: str, *, port: int, browser: bool, more: tuple[str, ...] = ()) -> list[str]:
    """JupyterLab's command line: loopback only, and with the token that it makes itself."""
    words = [
        sys.executable,
        "-m",
        "jupyterlab",
        str(folder / name),
        "--ip=127.0.0.1",
        f"--port={port}",
        f"--ServerApp.root_dir={folder.resolve()}",
        "--LabApp.news_url=",
        f"--NotebookNotary.data_dir={_signatures(folder)}",
        f"--LabApp.extra_labextensions_path={_EXTENSIONS}",
        *more,
    ]
    if not browser:
        words.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        words.append("--allow-root")  # it refuses otherwise, in containers too; loopback and token stay
    return words
