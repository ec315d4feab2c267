"""Values of settings from elsewhere: ${NAME} from the environment, ${file:PATH} from a file. So a settings file needs no secrets."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from workbench.errors import ConfigError
from workbench.humanize import is_text

_ENV = re.compile(r"\$\{(\w+)\}")
_FILE = re.compile(r"\$\{file:([^{}]+)\}")
_PLACE = re.compile(r"\$\{[^{}]*\}?")
_LONGEST_SECRET = 65_536  # a key in PEM has some thousand characters


def takes_values(value: Any) -> bool:
    """Whether a document has a place for a value from elsewhere."""
    if isinstance(value, dict | list):
        return any(map(takes_values, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and _PLACE.search(value) is not None


def from_environment(value: Any, path: Path) -> Any:
    """Replace ${NAME} by environment variables and ${file:PATH} by the text of files, so that the file needs no secrets.

    Raises:
        ConfigError: if one is not there, or a place for one is written otherwise: a password would be the text of the place.
    """
    if isinstance(value, dict):
        return {key: from_environment(item, path) for key, item in value.items()}
    if isinstance(value, list):
        return [from_environment(item, path) for item in value]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if found is None:
            raise ConfigError(f"{path} uses ${{{match[1]}}}, which is not set in the environment.")
        if not is_text(found):
            raise ConfigError(f"{path} uses ${{{match[1]}}}, which is not UTF-8 in the environment.")
        return found

    for place in _PLACE.findall(value):
        if _ENV.fullmatch(place) is None and _FILE.fullmatch(place) is None:
            raise ConfigError(  # what follows may be a secret
                f"{path} has a ${{ that begins neither ${{NAME}}, with letters, digits and underscores, nor ${{file:PATH}}.",
                hint="If it is part of the value itself, put the value into a file, and write ${file:PATH}.",
            )
    return _FILE.sub(lambda match: _text_of(match[1], path), _ENV.sub(replace, value))


def _text_of(name: str, path: Path) -> str:
    try:
        with Path(name).expanduser().open(encoding="utf-8") as file:
            return file.read(_LONGEST_SECRET).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigError(f"{path} uses ${{file:{name}}}, which cannot be read: {reason}.") from None
