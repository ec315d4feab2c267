"""Members by the counters of their handlers."""

from __future__ import annotations

from tests.stories import TIMES, WINDOW, Story
from workbench.chronicle.members import members_of
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
