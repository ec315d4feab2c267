"""How many values an Avro schema can make of some bytes: known before anything is decoded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

# Visits of parts of a schema. A named record counts wherever it is used, so a few kB of schema may stand for 2^30 of them; whoever
# needs more than this has a value with 100,000 fields even if all of them are empty.
_MOST_PARTS = 200_000
_BYTES = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1, "enum": 1}


class _TooManyPartsError(Exception):
    """The schema stands for too many parts to count them."""


def values_bound(schema: Any, named: Mapping[str, Any]) -> Callable[[int], float]:
    """Upper bound of the values (records, fields, items) that a reader of this schema makes, by the bytes that it is given.

    What repeats (items of arrays and maps, a record within itself) takes at least its smallest size each time; without a size there is
    no bound. See the Avro specification 1.11, "Binary encoding": a null, a fixed of size 0 and a record of such fields have none.
    """
    ratios = [0.0]  # values for each byte, of each thing that repeats

    def repeats(least: int, values: int) -> None:
        ratios.append(values / least if least else math.inf)

    visits = 0
    references: dict[str, set[str]] = {}  # of a record's fields

    def cost(it: Any, within: tuple[str, ...]) -> tuple[int, int]:
        """Fewest bytes of it, and its values without those that repeat."""
        nonlocal visits
        visits += 1
        if visits > _MOST_PARTS:
            raise _TooManyPartsError
        if isinstance(it, list):
            found = [cost(branch, within) for branch in it] or [(0, 1)]
            return 1 + min(least for least, _ in found), max(values for _, values in found)
        if isinstance(it, str):
            if it in _BYTES:
                return _BYTES[it], 1
            if it in within:
                return 0, 1
            return cost(named[it], within) if it in named else (0, 1)
        kind = it.get("type")
        if kind == "array":
            repeats(*cost(it.get("items"), within))
            return 1, 1
        if kind == "map":
            least, values = cost(it.get("values"), within)
            repeats(least + 1, values + 1)  # a key has its length
            return 1, 1
        if kind == "fixed":
            return int(it.get("size", 0)), 1
        if kind in ("record", "error"):
            name = str(it.get("name"))
            if name in within:
                return 0, 1
            fields = [cost(field["type"], (*within, name)) for field in it.get("fields", ())]
            least, values = sum(it[0] for it in fields), 1 + sum(it[1] for it in fields)
            if name not in references:
                references[name] = _references(it.get("fields", ()), named)
            if name in references[name]:
                repeats(least, values)
            return least, values
        if kind == "enum":
            return 1, 1
        return cost(kind, within)

    try:
        _, values = cost(schema, ())
    except _TooManyPartsError:
        return lambda _size: math.inf
    ratio = max(ratios)
    return lambda size: values + (ratio * size if size else 0)


def _references(part: Any, named: Mapping[str, Any], seen: set[str] | None = None) -> set[str]:
    """Names that a part of a schema refers to, at any depth."""
    seen = set() if seen is None else seen
    if isinstance(part, str):
        if part in named and part not in seen:
            seen.add(part)
            _references(named[part], named, seen)
    elif isinstance(part, Mapping):
        for name in ("type", "items", "values", "fields"):
            _references(part.get(name), named, seen)
    elif isinstance(part, list | tuple):
        for item in part:
            _references(item, named, seen)
    return seen
