"""Files from people or other programs, read with limits on size and nesting."""

from __future__ import annotations

import errno
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from workbench.errors import ConfigError
from workbench.humanize import first_line

if TYPE_CHECKING:
    from pydantic import ValidationError

_SETTINGS_BYTES = 4 << 20  # enough for ten thousand clusters
_SETTINGS_DEPTH = 20  # a valid file has five levels; its readers are recursive


_ONE_OF = {"str": "a text", "int": "a number", "float": "a number", "bool": "true or false"}


class Problem(NamedTuple):
    """First problem of a document.

    Attributes:
        field: its path, such as `clusters.prod.url`; the caller's name for the document if the problem concerns all of it.
        reason: the problem, without the value, which may be a secret.
        is_unknown: whether the field does not exist.
    """

    field: str
    reason: str
    is_unknown: bool

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}"


def first_problem(error: ValidationError, *, whole: str = "the whole") -> Problem:
    """Return the first error of a validation."""
    found = error.errors(include_input=False, include_url=False, include_context=False)
    first, place = found[0], found[0]["loc"]
    reason = _in_our_words(first["type"], first["msg"])
    alike = [it for it in found if it["loc"][:-1] == place[:-1]]
    if len(alike) > 1 and place[-1] in _ONE_OF:  # a value of several types has an error for each of them
        kinds = dict.fromkeys(_ONE_OF[it["loc"][-1]] for it in alike if it["loc"][-1] in _ONE_OF)
        place, reason = place[:-1], f"it must be {' or '.join(kinds)}"
    return Problem(".".join(str(part) for part in place) or whole, reason, first["type"] == "extra_forbidden")


def _in_our_words(kind: str, said: str) -> str:
    """The validator's words for people who do not know the validator."""
    if kind == "extra_forbidden":
        return "there is no such field"
    if kind == "missing":
        return "it is missing"
    said = said.partition(", unable to parse")[0]  # it says the same once more
    said = re.sub(r"a valid dictionary( or instance of \w+)?", "a valid table", said)
    said = said.removeprefix("Value error, ").replace("Input should be a valid ", "it must be a ")
    return said.replace("Input should be ", "it must be ").replace("it must be a integer", "it must be a whole number")


def is_web_address(url: str) -> bool:
    """Whether a text is an http or https URL with a host."""
    try:
        parts = urlsplit(url)
    except ValueError:  # a bracket without its pair
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _without_waiting(path: str, flags: int) -> int:
    """Open a file, also a pipe that nobody writes to; reading waits as usual."""
    handle = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(handle, True)
    return handle


def read_within(path: Path, most_bytes: int) -> bytes:
    """Read a file of limited size; an endless device exceeds every limit, and a pipe that nobody writes to ends at once.

    Raises:
        OSError: if it cannot be read, is larger (EFBIG), or is a pipe without content (EPIPE).
    """
    with open(path, "rb", opener=_without_waiting) as file:
        found = file.read(most_bytes + 1)
        if not found and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EPIPE, "it is a pipe, and nobody writes to it", str(path))
    if len(found) > most_bytes:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
    return found


def read_toml(path: Path, *, what: str) -> dict[str, Any]:
    """Read a TOML file as plain values.

    Args:
        what: name of the file in messages, such as "The settings file".

    Raises:
        ConfigError: if it cannot be read or is not TOML.
    """
    try:
        values = tomllib.loads(read_within(path, _SETTINGS_BYTES).decode("utf-8-sig"))  # some editors begin with a mark
        if _depth_over(values, _SETTINGS_DEPTH):
            raise RecursionError
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except RecursionError:
        reason = "its tables are nested too deeply"
    except ValueError as error:  # not TOML, not UTF-8, or a number with thousands of digits
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
