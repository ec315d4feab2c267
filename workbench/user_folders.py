"""Folders of this program on the user's machine, by the platform's conventions or the XDG variables."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from platformdirs import PlatformDirs

_DIRS = PlatformDirs("lag-workbench", appauthor=False)


def cache_dir() -> Path:
    """Cache folder, for downloads: `$XDG_CACHE_HOME/lag-workbench`, on Linux `~/.cache/lag-workbench`."""
    return _made(_DIRS.user_cache_path)


def state_dir() -> Path:
    """State folder, for running and past work: `$XDG_STATE_HOME/lag-workbench`, on Linux `~/.local/state/lag-workbench`."""
    return _made(_DIRS.user_state_path)


def config_file() -> Path:
    """Path of the user's settings: `workbench.toml` in `$XDG_CONFIG_HOME/lag-workbench`, on Linux `~/.config` (may not exist)."""
    return _DIRS.user_config_path / "workbench.toml"


def profiles_dir() -> Path:
    """Folder of the user's own profiles: `profiles` beside the user's settings (may not exist)."""
    return _DIRS.user_config_path / "profiles"


def _made(folder: Path) -> Path:
    with suppress(
        OSError
    ):  # who only reads needs none; who writes into it gets the reason, and says what could not be written
        folder.mkdir(parents=True, exist_ok=True)
    return folder
