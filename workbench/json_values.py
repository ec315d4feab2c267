"""Dataclasses as JSON has them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any


def fields_of(it: Any) -> dict[str, Any]:
    """The fields of a dataclass by name, those within it too; lists for tuples."""
    return asdict(it, dict_factory=lambda pairs: {k: [*v] if isinstance(v, tuple) else v for k, v in pairs})
