"""Headers of a message of confluent-kafka: one function for all readers. Imports nothing of ours: Spark's executors have it, too."""

from __future__ import annotations

from collections.abc import Sequence
from operator import methodcaller
from typing import Any

Headers = Sequence[tuple[str, bytes | None]]

# Stands for headers that the client cannot decode; compared by identity. It has a name that no reader looks for.
UNREADABLE: Headers = (("", b"unreadable"),)

# Not `message.headers()`: the client returns a value and sets an error beside it, and Python finds that in calls that it has not
# specialised only. In one that has run a few times, the error came up in whatever was called next.
_ask = methodcaller("headers")


def headers_of(message: Any) -> Headers | None:
    """Headers of a message, None if it has none, or `UNREADABLE`. Each message is asked once, and never again.

    A header's name that is not UTF-8 makes the client raise a SystemError (confluent-kafka 2.16), a ValueError in other releases; asked
    again, what it has kept of them ends the process.
    """
    try:
        found: Headers | None = _ask(message)
    except Exception:
        return UNREADABLE
    return found
