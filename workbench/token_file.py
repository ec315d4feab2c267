"""The file with the tokens of a server: one on each line; after a blank, a time with its zone says when it ends.

`TOKEN 2027-01-01T00:00:00Z`. The server reads it, and so does a command that asks the server.
"""

from __future__ import annotations

from pathlib import Path

from workbench.errors import UsageError, WindowError
from workbench.limited_reads import read_within
from workbench.masking import remember
from workbench.window import parse_instant

TOKEN_VARIABLE = "WORKBENCH_SERVE_TOKEN"  # noqa: S105 - the name of the variable, not its value
SHORTEST_TOKEN = 16
_MAX_BYTES = 64 << 10


def read_tokens(path: Path) -> dict[str, float | None]:
    """Tokens of a file, and when each ends (seconds since 1970; None: never).

    Raises:
        UsageError: if a line is no token. OSError: if the file cannot be read.
    """
    found: dict[str, float | None] = {}
    for line in read_within(path, _MAX_BYTES).decode(errors="replace").splitlines():
        token, _, until = line.strip().partition(" ")
        if not token or token.startswith("#"):
            continue
        remember(token)
        if len(token) < SHORTEST_TOKEN:
            raise UsageError(f"{path} has a token of fewer than {SHORTEST_TOKEN} characters.")
        try:
            found[token] = parse_instant(until.strip()).timestamp() if until.strip() else None
        except WindowError:
            raise UsageError(f"{path}: the end of a token is not a timestamp with a time zone.") from None
    return found
