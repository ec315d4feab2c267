"""Members by the counters of their handlers."""

from __future__ import annotations

import numpy as np
import pytest

from evaluation.stories import TIMES, WINDOW, Story
from workbench.chronicle.members import disproved, members_of
from workbench.chronicle.series import Line
from workbench.samples import SERIES_ORDER, concat

ORDER = [(name, "ascending") for name in (*SERIES_ORDER, "ts")]


def counted(group: str) -> Story:
    """Handlers of one process that have finished a record a second."""
    labels = {"group": group, "topic": "orders", "member": "pod-1", "processor": "all"}
    return Story().add("process_time", (TIMES - TIMES[0]).tolist(), stat="count", **labels)


def test_a_process_beside_its_clients_is_no_member() -> None:
    """Where the clients are measured by names of their own, theirs count; where the handlers alone are, the process is the member."""
    both = counted("both").add("rebalances", 2.0, group="both", member="client-1")
    table = concat([both.samples(), counted("alone").samples()]).sort_by(ORDER)
    found = members_of(table, WINDOW, {("test", "both"), ("test", "alone")})
    assert {(group, name) for (_, group, _), members in found.items() for name in members} == {("alone", "pod-1")}
    assert found["test", "alone", "orders"]["pod-1"].worked == 0.0


def commits(moves: list[float]) -> dict[tuple[str, str, str], dict[int, dict[str, Line]]]:
    """A partition whose commit moves at these times (seconds before the end)."""
    at = TIMES
    value = np.searchsorted(np.array(moves), at, side="right").astype(float)
    return {("test", "g", "orders"): {0: {"committed": Line(at, value)}}}


@pytest.mark.parametrize(("moves", "wrong"), [([-60.0, -45.0, -30.0, -15.0], True), ([-60.0], False), ([], False)])
def test_commits_disprove_a_count_of_none(moves: list[float], wrong: bool) -> None:
    """Three that come well after the last member was counted; who sets offsets by hand moves them once."""
    counts = np.where(TIMES < -100, 3.0, 0.0)
    samples = Story().add("group_members", counts.tolist(), group="g").samples().sort_by(ORDER)
    usual = list(np.arange(-170.0, -110.0, 10.0))
    assert bool(disproved(samples, WINDOW, commits(usual + moves))) is wrong


def test_a_count_with_members_is_not_disproved() -> None:
    """It says what it should."""
    samples = Story().add("group_members", 3.0, group="g").samples().sort_by(ORDER)
    assert not disproved(samples, WINDOW, commits([-60.0, -45.0, -30.0, -15.0]))
