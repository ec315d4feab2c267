"""Files that people or other programs have written, read within bounds: of size, and of how deep things lie in one another."""

from __future__ import annotations

import errno
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.errors import ConfigError
from workbench.humanize import first_line

if TYPE_CHECKING:
    from pydantic import ValidationError

_SETTINGS_BYTES = 4 << 20  # ten thousand clusters
_SETTINGS_DEPTH = 20  # a file has five levels; what walks over it calls itself for each


class Problem(NamedTuple):
    """The first thing that is wrong with a document.

    Attributes:
        field: where, as `clusters.prod.url`; what the caller calls the document where it is wrong as a whole.
        reason: what is wrong with it, without the value: that may be a secret.
        is_unknown: whether there is no such field.
    """

    field: str
    reason: str
    is_unknown: bool

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}"


def first_problem(error: ValidationError, *, whole: str = "the whole") -> Problem:
    """The first error of a validation."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or whole
    return Problem(field, first["msg"].removeprefix("Value error, "), first["type"] == "extra_forbidden")


def read_within(path: Path, most_bytes: int) -> bytes:
    """The content of a file of at most so many bytes; a device that never ends has more.

    Raises:
        OSError: if it cannot be read, or is larger (EFBIG).
    """
    with path.open("rb") as file:
        found = file.read(most_bytes + 1)
    if len(found) > most_bytes:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return found


def read_toml(path: Path, *, what: str) -> dict[str, Any]:
    """A TOML file as plain values.

    Args:
        what: what a message calls it: "The settings file".

    Raises:
        ConfigError: if it cannot be read or is no TOML.
    """
    try:
        values = tomllib.loads(read_within(path, _SETTINGS_BYTES).decode())
        if _depth_over(values, _SETTINGS_DEPTH):
            raise RecursionError
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except RecursionError:
        reason = "its tables lie too deep in one another"
    except ValueError as error:  # no TOML, no UTF-8, a number of thousands of digits
        reason = first_line(error)
    else:
        return values
    raise ConfigError(f"{what} {path} cannot be read: {reason}.")


def _depth_over(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most):
        level = [
            item
            for holder in level
            if isinstance(holder, dict | list)
            for item in (holder.values() if isinstance(holder, dict) else holder)
        ]
        if not level:
            return False
    return True
