"""A process that is killed at any of its changes to what lasts: that one and all later ones do not happen, not even to clean up."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest

_CHANGES = ("rename", "replace", "mkdir", "unlink", "rmdir", "remove")


class Killed(BaseException):
    """No change gets through any more."""


def killed_at_each_change(
    work: Callable[[], object], again: Callable[[], object], *, of: object = os, changes: Sequence[str] = _CHANGES
) -> Iterator[int]:
    """Do `work`, killed before its first change, then before its second, until one run ends by itself; `again` precedes each.

    `changes` are functions of the module, or methods of the class, `of`. Yields after each run the number of changes that it made.
    """
    made, ended = 0, False
    while not ended:
        again()
        with pytest.MonkeyPatch.context() as patch:
            left = [made]
            for name in changes:
                patch.setattr(of, name, _until_killed(getattr(of, name), left))
            with suppress(Killed):
                work()
                ended = True
        yield made
        made += 1


def _until_killed(change: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    def changed(*args: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        return change(*args, **options)

    return changed
