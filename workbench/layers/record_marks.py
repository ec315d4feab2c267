"""What a record carries through the layers, in its headers: its id, when it was made, and when the last layer gave it out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from xxhash import xxh64_intdigest

from workbench.layers.rows import LATEST_MS, signed

ID_HEADER = "wb-id"
CREATED_HEADER = "wb-ctime"
UPDATED_HEADER = "wb-utime"
OURS = frozenset({ID_HEADER, CREATED_HEADER, UPDATED_HEADER})
_SEED = 42  # of Spark's `xxhash64`
_MOST_DIGITS = 16  # of a time
_FIRST = itemgetter(0)

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


class MarkColumns(NamedTuple):
    """The marks of many records, a column each.

    Attributes:
        hashes: of the ids, as `hash_of`; 0 where there is none.
        named: whether there is one.
        created_ms, updated_ms: ms since the epoch; -1: not known.
    """

    hashes: np.ndarray
    named: np.ndarray
    created_ms: np.ndarray
    updated_ms: np.ndarray


def marks_in(headers: Sequence[Headers | None]) -> MarkColumns | None:
    """What `marks_of` says of each record, many times as fast; None: none of them has a mark."""
    try:
        if OURS.isdisjoint(map(_FIRST, chain.from_iterable(filter(None, headers)))):
            return None
        by_name = [dict(it or ()) for it in headers]
    except ValueError:  # of one record they cannot be read
        by_name = [_readable(it) for it in headers]
    ids, created, updated = (_all_of(by_name, name) for name in (ID_HEADER, CREATED_HEADER, UPDATED_HEADER))
    if ids is None or created is None or updated is None:  # and a later mark without a value takes none away
        return _one_by_one(headers)
    digests = np.fromiter(map(xxh64_intdigest, ids, repeat(_SEED)), dtype=np.uint64, count=len(ids))
    return MarkColumns(digests.view(np.int64), np.ones(len(ids), dtype=bool), _many_ms(created), _many_ms(updated))


def _all_of(headers: Sequence[dict[str, bytes | None]], name: str) -> list[bytes] | None:
    found = [value for it in headers if (value := it.get(name)) is not None]
    return found if len(found) == len(headers) else None


def _one_by_one(headers: Sequence[Headers | None]) -> MarkColumns:
    hashes, created, updated = zip(*map(marks_of, headers), strict=True)
    return MarkColumns(
        np.array([it or 0 for it in hashes], dtype=np.int64),
        np.array([it is not None for it in hashes]),
        *(np.array([-1 if it is None else it for it in column], dtype=np.int64) for column in (created, updated)),
    )


def _readable(headers: Headers | None) -> dict[str, bytes | None]:
    try:
        return dict(headers or ())
    except ValueError:
        return {}


def _many_ms(texts: Sequence[bytes]) -> np.ndarray:
    digits, lengths = b"".join(texts), set(map(len, texts))
    if len(lengths) == 1 and digits.isdigit() and (width := lengths.pop()) <= _MOST_DIGITS:  # times of these years
        found = (np.frombuffer(digits, np.uint8).reshape(-1, width) - ord("0")) @ 10 ** np.arange(width)[::-1]
        return np.where(found < LATEST_MS, found, -1)
    return np.array([-1 if (it := _ms(text)) is None else it for text in texts], dtype=np.int64)


def _ms(text: bytes) -> int | None:
    # A number of any length would cost as much as its writer likes.
    return int(text) if len(text) <= _MOST_DIGITS and text.isdigit() and int(text) < LATEST_MS else None


def time_that_can_be(ms: float) -> int:
    """A time as marks and rows have it: one that cannot be is the first or the last one that can, in every layer.

    Raises:
        ValueError: if it is no number.
    """
    return round(min(max(ms, 0), LATEST_MS - 1))


def headers_for(record_id: bytes, *, created_ms: float, updated_ms: float) -> list[tuple[str, bytes]]:
    """Headers that carry the marks on.

    Raises:
        ValueError: as `time_that_can_be`.
    """
    return [
        (ID_HEADER, record_id),
        (CREATED_HEADER, str(time_that_can_be(created_ms)).encode()),
        (UPDATED_HEADER, str(time_that_can_be(updated_ms)).encode()),
    ]
