"""Hidden fields: values that are never shown, by the field's name or path."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fnmatch import translate
from typing import Any

from workbench.masking import MASK

# A name as words: accessToken, access_token, ACCESS-TOKEN, APIKey2.
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[^\W\d_A-Za-z]+")
# Words that name a secret wherever they stand (passwordHash); those that do at the end of a name only (a tokenCount is none); and what
# the end of a name without borders tells (accesstoken).
_SECRETS = frozenset(
    f"{word}{plural}"
    for word in ("password", "passwd", "passphrase", "pwd", "secret", "credential")
    for plural in ("", "s")
)
_SECRET_ENDS = ("token", "apikey", "privatekey", "accesskey", "authorization", *_SECRETS)


def is_secret(name: str) -> bool:
    """Whether a field is named like a secret, in any spelling."""
    words = [word.lower() for word in _WORD.findall(name)]
    return not _SECRETS.isdisjoint(words) or "".join(words).endswith(_SECRET_ENDS)


class Hide:
    """Replaces the values of hidden fields. Fields that are named like secrets are always hidden."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.is_configured = bool(names)
        self._named = re.compile("|".join(translate(name.lower()) for name in names)) if names else None

    def is_hidden(self, name: str, path: str) -> bool:
        """Whether a field is hidden, by its name or its dotted path."""
        if is_secret(name):
            return True
        return self._named is not None and bool(self._named.match(name.lower()) or self._named.match(path.lower()))

    def apply(self, value: Any, path: str = "", depth: int = 0) -> Any:
        """A copy with hidden values replaced; what is nested too deeply is cut."""
        if depth > 40:
            return "…"
        if isinstance(value, dict):
            found = {}
            for key, item in value.items():
                name = str(key)
                below = f"{path}.{name}" if path else name
                found[name] = MASK if self.is_hidden(name, below) else self.apply(item, below, depth + 1)
            return found
        if isinstance(value, list | tuple):
            return [self.apply(item, path, depth + 1) for item in value]
        if isinstance(value, bytes | bytearray):
            return bytes(value).hex()
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)
        return value if isinstance(value, str | int | float | bool) or value is None else str(value)
