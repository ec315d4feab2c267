"""Notebooks and runbooks that ship with the package, in the repository or in an installed package."""

from __future__ import annotations

from pathlib import Path

from workbench.errors import UsageError
from workbench.humanize import did_you_mean


def shipped(folder: str) -> Path:
    """Find the folder `notebooks` or `runbooks`.

    Raises:
        UsageError: if this installation has none.
    """
    package = Path(__file__).parent
    # The wheel's folder first: next to an installed package, a folder of this name may be a foreign one.
    for place in (package / "_shipped" / folder, package.parent / folder):
        if place.is_dir():
            return place
    raise UsageError(f"This installation has no {folder}.", hint="Install it from the repository or the wheel.")


def notebook(name: str) -> Path:
    """Find a notebook that ships with the package, by its name without the extension.

    Raises:
        UsageError: listing the available notebooks.
    """
    folder = shipped("notebooks")
    path = folder / f"{name}.ipynb"
    if not path.is_file():
        names = sorted(it.stem for it in folder.glob("*.ipynb"))
        means = did_you_mean(name, names)
        raise UsageError(f"There is no notebook {name!r}.{means}", hint=f"Notebooks: {', '.join(names)}.")
    return path
