"""How fast a group has read in its best minutes since it is behind."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.history.best_pace import best_paces
from workbench.history.partition_series import Track

AT = np.arange(-1800.0, 0.1, 30.0)


def read_at(*paces: float) -> Track:
    """Commits of a partition that was read at these paces, in messages/s, one after the other for equally long."""
    each = np.repeat(paces, len(AT) // len(paces) + 1)[: len(AT) - 1]
    return Track(AT, np.concatenate([[0.0], np.cumsum(each * 30.0)]))


def found(*partitions: Track, since: float | None = None, between: float = 30.0) -> dict[int, float]:
    """Of these partitions, in a window of a quarter of an hour."""
    return best_paces({number: {"committed": it} for number, it in enumerate(partitions)}, since, 900.0, between)


def test_what_was_read_best_counts_and_not_what_is_read_now() -> None:
    """A neighbour's load comes and goes; what a group could read, its consumers can."""
    assert found(read_at(100, 40, 90, 30)) == {0: pytest.approx(100)}


def test_what_was_before_the_lag_does_not_count() -> None:
    """Then there may have been other members."""
    assert found(read_at(100, 40, 90, 30), since=-1340.0)[0] == pytest.approx(90)


def test_partitions_that_take_turns_are_no_faster_together() -> None:
    """The best minutes are those of the whole group: one partition is read while the other waits."""
    turns = read_at(*(100, 0) * 6), read_at(*(0, 100) * 6)
    assert sum(found(*turns).values()) == pytest.approx(100)


def test_one_lump_of_a_rare_commit_is_no_pace() -> None:
    """A stretch has several commits in it."""
    lumps = Track(AT, np.floor((AT + 1800) / 300) * 300 * 50)
    assert sum(found(lumps, between=300.0).values()) == pytest.approx(50)
    assert not found(lumps, since=-600.0, between=300.0)


def test_without_commits_nothing_is_known() -> None:
    """Missing is not 0."""
    assert best_paces({0: {"lag": Track(AT, AT * 0.0)}}, None, 900.0, 30.0) == {}
