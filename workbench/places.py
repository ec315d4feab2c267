"""Folders of this program on the user's machine, by the XDG conventions."""

from __future__ import annotations

import os
from pathlib import Path

_NAME = "lag-workbench"


def cache_dir() -> Path:
    """Downloads that can be fetched again: `$XDG_CACHE_HOME/lag-workbench`."""
    return _made(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / _NAME)


def state_dir() -> Path:
    """What runs or has run here: `$XDG_STATE_HOME/lag-workbench`."""
    return _made(Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / _NAME)


def config_file() -> Path:
    """The user's settings: `$XDG_CONFIG_HOME/lag-workbench/workbench.toml` (it need not exist)."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / _NAME / "workbench.toml"


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
