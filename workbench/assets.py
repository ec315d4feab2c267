"""Files that ship with the package but are for people: notebooks and runbooks, in the repository or in an installed package."""

from __future__ import annotations

from pathlib import Path

from workbench.errors import UsageError


def shipped(folder: str) -> Path:
    """The folder `notebooks` or `runbooks`.

    Raises:
        UsageError: if this installation has none.
    """
    package = Path(__file__).parent
    # The wheel's own first: beside an installed package, a folder of this name is somebody else's.
    for place in (package / "_shipped" / folder, package.parent / folder):
        if place.is_dir():
            return place
    raise UsageError(f"This installation has no {folder}.", hint="Install it from the repository or the wheel.")


def notebook(name: str) -> Path:
    """A notebook that ships with the package, without its ending.

    Raises:
        UsageError: naming those that there are.
    """
    folder = shipped("notebooks")
    path = folder / f"{name}.ipynb"
    if not path.is_file():
        names = ", ".join(sorted(it.stem for it in folder.glob("*.ipynb")))
        raise UsageError(f"There is no notebook {name!r}.", hint=f"Notebooks: {names}.")
    return path
