"""Values of settings from elsewhere: ${NAME} from the environment, ${file:PATH} from a file. So a settings file needs no secrets."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from workbench.errors import ConfigError
from workbench.humanize import is_text
from workbench.limited_reads import read_within

SECRET_PLACE = re.compile(r"\$\{(?:file:([^{}]+)|(\w+))\}")
_ANY_PLACE = re.compile(r"\$\{[^{}]*\}?")
_LONGEST_SECRET = 65_536  # a key in PEM has some thousand characters


def takes_values(value: Any) -> bool:
    """Whether a document has a place for a value from elsewhere."""
    if isinstance(value, dict | list):
        return any(map(takes_values, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and _ANY_PLACE.search(value) is not None


def from_environment(value: Any, path: Path, key: str = "") -> Any:
    """Replace ${NAME} by environment variables and ${file:PATH} by the text of files, so that the file needs no secrets.

    What is put in is not looked at again: a password may have such a place in it.

    Args:
        key: of the value in the file, for messages.

    Raises:
        ConfigError: naming the file, the key and the place, never a value: if there is none of that name, or a place is written
            otherwise, as a password would be the text of the place.
    """
    if isinstance(value, dict):
        return {name: from_environment(item, path, f"{key}.{name}".lstrip(".")) for name, item in value.items()}
    if isinstance(value, list):
        return [from_environment(item, path, f"{key}.{number}") for number, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        try:
            return _text_of(match[1]) if match[2] is None else _variable(match[2])
        except ValueError as error:
            raise ConfigError(f"{path}: {key} uses {match[0]}, which {error}.") from None

    if not all(map(SECRET_PLACE.fullmatch, _ANY_PLACE.findall(value))):  # what follows may be a secret
        raise ConfigError(
            f"{path}: {key} has a ${{ that begins neither ${{NAME}}, with letters, digits and underscores, nor ${{file:PATH}}.",
            hint="If it is part of the value itself, put the value into a file, and write ${file:PATH}.",
        )
    return SECRET_PLACE.sub(replace, value)


def _variable(name: str) -> str:
    found = os.environ.get(name)
    if found is None:
        raise ValueError("is not set in the environment")
    if not is_text(found):
        raise ValueError("is not UTF-8 in the environment")
    return found


def _text_of(name: str) -> str:
    try:
        return read_within(Path(name).expanduser(), _LONGEST_SECRET).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ValueError(f"cannot be read: {reason}") from None
