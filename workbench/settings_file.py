"""Which settings file is read, and what it may say beside itself."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from workbench.limited_reads import read_toml
from workbench.safe_output import say
from workbench.user_folders import config_file

HERE = Path("workbench.toml")  # in the working folder


def chosen_file(named: Path | None) -> Path | None:
    """The named file, else `$WORKBENCH_CONFIG`, else `HERE`, else the user's; None: there is none."""
    if named is not None:
        return named
    if outside := os.environ.get("WORKBENCH_CONFIG"):
        return Path(outside)
    return next((place for place in (HERE, config_file()) if place.is_file()), None)


def written_properties(path: Path | None, cluster: str) -> dict[str, Any]:
    """The table `kafka` of a cluster as it is in its file, where secrets have places."""
    values: Any = {} if path is None else read_toml(path, what="The settings file")
    for name in ("clusters", cluster, "kafka"):
        values = values.get(name, {})
    return dict(values)


@cache
def say_it_is_here(path: Path) -> None:
    """Say once that a file of the working folder is read: people expect their own settings."""
    if "_WORKBENCH_COMPLETE" not in os.environ and (own := config_file()).is_file() and own.resolve() != path:
        say(f"Settings: {path}, instead of {own}.")


def is_own(path: Path) -> bool:
    """Whether a file belongs to this user or to root."""
    return path.stat().st_uid in (0, os.geteuid())


def beside(profiles: Any, folder: Path) -> Any:
    """Profiles with paths relative to the settings file made absolute; anything else is left to the validation."""
    if not isinstance(profiles, list):
        return profiles
    return [
        str((folder / Path(name).expanduser()).resolve())
        if isinstance(name, str) and name.endswith((".yaml", ".yml"))
        else name
        for name in profiles
    ]
