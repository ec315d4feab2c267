"""Partitions of a member that is behind are read one after the other: such a stop has an end, and others move meanwhile."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.history.partition_series import Track
from workbench.history.partition_turns import longest_turn

AT = np.arange(-900.0, 1.0, 10.0)
END = Track(AT, 1e6 + 100 * (AT + 900))


def moving(during: list[tuple[float, float]]) -> dict[str, Track]:
    """A commit that moves in these spans only, while messages arrive."""
    inside = np.zeros(len(AT), dtype=bool)
    for begin, end in during:
        inside |= (begin < AT) & (end >= AT)
    return {"committed": Track(AT, 1e5 + np.cumsum(np.where(inside, 500.0, 0.0))), "log_end": END}


TURNS = {
    0: moving([(-900, -600), (-300, 0)]),
    1: moving([(-600, -300)]),
}


def test_the_longest_turn_is_that_of_a_stop_that_ended() -> None:
    """One partition waits for 5 min while the other is read, and goes on."""
    assert longest_turn(TURNS, -900.0) == pytest.approx(310, abs=20)


def test_a_stop_without_an_end_is_no_turn() -> None:
    """A partition that has not moved again may be stuck."""
    assert longest_turn({0: moving([(-900, -500)]), 1: moving([(-900, 0)])}, -900.0) in (None, pytest.approx(10, abs=5))


def test_a_restart_is_no_turn() -> None:
    """All stand still together, and go on together."""
    together = [(-900, -600), (-300, 0)]
    assert (longest_turn({0: moving(together), 1: moving(together)}, -900.0) or 0.0) < 50


def test_who_stood_still_while_all_others_went_on_took_no_turn() -> None:
    """It was stuck, and was helped: nobody waits for it now. Nor does one that stopped long before that."""
    stuck, always = moving([(-900, -800), (-300, 0)]), moving([(-900, 0)])
    assert longest_turn({0: stuck, 1: always, 2: always}, -900.0) is None
    assert longest_turn({0: stuck, 1: always, 2: moving([(-900, -500)])}, -900.0) is None


def test_stops_that_come_again_and_again_are_usual() -> None:
    """Of a client that is throttled: nobody waits for its partition, but it goes on each time."""
    again, always = moving([(-900, -800), (-700, -600), (-500, -400), (-300, 0)]), moving([(-900, 0)])
    assert longest_turn({0: again, 1: always}, -900.0) == pytest.approx(110, abs=20)
    assert longest_turn({0: again, 1: again}, -900.0) is None


def test_one_that_waits_since_another_goes_on_shows_a_turn() -> None:
    """Its own stop has no end yet."""
    told = {0: moving([(-900, -600), (-200, 0)]), 1: moving([(-900, -800), (-600, -200)])}
    assert longest_turn(told, -900.0) == pytest.approx(410, abs=20)


def test_what_has_nothing_to_read_does_not_wait() -> None:
    """A quiet partition is not in line."""
    quiet = dict(TURNS[0])
    quiet["log_end"] = Track(AT, quiet["committed"].value)
    assert (longest_turn({0: quiet, 1: TURNS[1]}, -900.0) or 0.0) < 50


def test_stops_before_the_trouble_do_not_count() -> None:
    """Only what ended since it fell behind."""
    assert (longest_turn(TURNS, -250.0) or 0.0) < 50


def test_one_partition_takes_no_turns() -> None:
    """Nor do none."""
    assert longest_turn({0: TURNS[0]}, -900.0) is None
    assert longest_turn({}, -900.0) is None
