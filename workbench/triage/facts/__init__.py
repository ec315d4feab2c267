"""What the questions test: facts of one subscription, computed from its measured features in plain Python."""

from __future__ import annotations

from functools import cached_property
from typing import TypeVar

T = TypeVar("T")

__all__ = ["fact"]


class fact(cached_property[T]):  # noqa: N801 - a decorator, as `property` is
    """A fact: computed when a rule, or a person's own query, asks for it. Its docstring and its type declare it."""
