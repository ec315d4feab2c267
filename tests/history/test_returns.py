"""When a group that had stood still while messages waited went on."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.history.partition_series import Track
from workbench.history.returns import returned_ago

AT = np.arange(-1800.0, 0.1, 30.0)


def stood(begin: float, end: float) -> Track:
    """A partition that is read at one pace, but not between two moments."""
    return Track(AT, np.cumsum(np.where((begin < AT) & (end >= AT), 0.0, 1000.0)))


@pytest.mark.parametrize(
    ("partitions", "since", "ago"),
    [
        ([stood(-900, -60)], -900.0, 30.0),
        ([stood(-900, -60), stood(-900, -120)], -900.0, 90.0),
        ([stood(-900, -60), stood(0, 0)], -900.0, None),
        ([stood(-900, -60)], None, 30.0),
        ([stood(-900, -60)], -150.0, None),
        ([stood(-900, 0)], -900.0, None),
        ([stood(-100, -60)], -100.0, None),
    ],
)
def test_it_went_on_with_the_first_commit_after_all_had_stood(
    partitions: list[Track], since: float | None, ago: float | None
) -> None:
    """Nobody stands still before anything waits, in a short pause, or while another partition is read; who stands is not back."""
    assert returned_ago({number: {"committed": it} for number, it in enumerate(partitions)}, since, 120.0) == ago


def test_without_commits_nothing_is_known() -> None:
    """Where only the lag is measured, nobody knows when it went on."""
    assert returned_ago({0: {"lag": Track(AT, AT * 0.0)}}, None, 120.0) is None
