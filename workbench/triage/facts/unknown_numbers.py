"""Comparison and arithmetic of numbers that may be unknown: None in, None out, and never a guess.

An unknown operand leaves the answer open, unless the others decide it: `all_of(False, None)` is False, `any_of(True, None)` is True.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
Known = bool | None
Number = float | None


def _of_known(function: Callable[[float, float], T]) -> Callable[[Number, Number], T | None]:
    """The same of numbers that may be unknown."""
    return lambda a, b: None if a is None or b is None else function(a, b)


above = _of_known(operator.gt)
at_least = _of_known(operator.ge)
below = _of_known(operator.lt)
at_most = _of_known(operator.le)
equal = _of_known(operator.eq)
RELATIONS = {">": above, ">=": at_least, "<": below, "<=": at_most, "=": equal}
plus = _of_known(operator.add)
minus = _of_known(operator.sub)
times = _of_known(operator.mul)


def all_of(*them: Known) -> Known:
    """Whether all hold: one that does not decides, whatever is open; True of none."""
    return False if False in them else None if None in them else True


def any_of(*them: Known) -> Known:
    """Whether any holds: one that does decides, whatever is open; False of none."""
    return True if True in them else None if None in them else False


def first_known(*them: T | None) -> T | None:
    """The first that is not open."""
    return next((it for it in them if it is not None), None)


def ratio(a: Number, b: Number) -> Number:
    """a ÷ b; unknown if b is 0."""
    return None if a is None or not b else a / b


def known(*them: Number) -> list[float]:
    """Those that are known."""
    return [it for it in them if it is not None]


def most(*them: Number) -> Number:
    """The largest that is known."""
    return max(known(*them), default=None)


def least(*them: Number) -> Number:
    """The smallest that is known."""
    return min(known(*them), default=None)


def total(them: Iterable[Number]) -> Number:
    """Their sum; unknown if one is."""
    found = 0.0
    for it in them:
        if it is None:
            return None
        found += it
    return found


def lower_median(them: Iterable[Number]) -> Number:
    """The lower median of those that are known."""
    ordered = sorted(known(*them))
    return ordered[(len(ordered) + 1) // 2 - 1] if ordered else None
