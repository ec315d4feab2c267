"""What a record carries through the layers, in its headers: its id, when it was made, and when the last layer gave it out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xxhash import xxh64_intdigest

from workbench.layers.rows import LATEST_MS, signed

ID_HEADER = "wb-id"
CREATED_HEADER = "wb-ctime"
UPDATED_HEADER = "wb-utime"
OURS = frozenset({ID_HEADER, CREATED_HEADER, UPDATED_HEADER})
_SEED = 42  # of Spark's `xxhash64`

Headers = Sequence[tuple[str, bytes | None]]


class Marks(NamedTuple):
    """The marks of a record; None where it has none.

    Attributes:
        hash: of its id, as `hash_of`.
        created_ms, updated_ms: ms since the epoch.
    """

    hash: int | None = None
    created_ms: int | None = None
    updated_ms: int | None = None


NO_MARKS = Marks()


def hash_of(record_id: bytes) -> int:
    """64 bits of a record's id, signed: the number that Spark's `xxhash64(id)` gives for a binary column."""
    return signed(xxh64_intdigest(record_id, _SEED))


def marks_of(headers: Headers | None) -> Marks:
    """The marks in a record's headers, the last of each name. What is no mark of ours says nothing."""
    if not headers:
        return NO_MARKS
    hashed: int | None = None
    created: int | None = None
    updated: int | None = None
    try:
        for name, value in headers:
            if value is None or name not in OURS:
                continue
            if name == ID_HEADER:
                hashed = hash_of(value)
            elif name == CREATED_HEADER:
                created = _ms(value)
            elif name == UPDATED_HEADER:
                updated = _ms(value)
    except ValueError:  # headers that the client cannot read
        return NO_MARKS
    return Marks(hashed, created, updated)


def _ms(text: bytes) -> int | None:
    # A number of any length would cost as much as its writer likes.
    return int(text) if len(text) <= 16 and text.isdigit() and int(text) < LATEST_MS else None


def headers_for(record_id: bytes, *, created_ms: int, updated_ms: int) -> list[tuple[str, bytes]]:
    """Headers that carry the marks on."""
    return [
        (ID_HEADER, record_id),
        (CREATED_HEADER, str(created_ms).encode()),
        (UPDATED_HEADER, str(updated_ms).encode()),
    ]
