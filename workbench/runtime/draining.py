"""What a partition still finishes while it is revoked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from workbench.runtime.event import TopicPartition
from workbench.runtime.partition_state import PartitionState
from workbench.runtime.processors import Processors


def with_former(
    states: Mapping[TopicPartition, PartitionState], partitions: Sequence[TopicPartition]
) -> list[PartitionState]:
    """States of the assigned ones of these partitions, and of their former logs."""
    found = []
    for partition in partitions:
        state = states.get(partition)
        while state is not None:
            found.append(state)
            state = state.former
    return found


def begin_drain(state: PartitionState, processors: Processors, *, collect: Callable[[], None], is_former: bool) -> None:
    """From here on, start only events below one that is finished, in flight, or read below offsets that are gone.

    Every event below it must finish; otherwise finished events above a hole could not be committed and would be repeated elsewhere.
    No event above it has started, so the next owner reads those; but not those of a former log, or those deleted since.
    """
    with state.gate:  # a processor that sees `draining` waits for the bound here
        state.draining = True
        # Only now read the events in flight: a processor first publishes its event, then checks `draining`.
        at_work = (event for pool in processors for slot in pool.slots for event in slot.at_work())
        mine = [event.offset for event in at_work if event.owner is state]
        collect()
        state.drain_until = max(*mine, state.tracker.highest_finished, state.given_up_until, state.gone_until, -1)
        if is_former and state.position is not None:
            state.drain_until = state.position - 1


def has_drained(state: PartitionState) -> bool:
    """Whether every event up to the bound is finished, and its dead letter delivered."""
    return state.watch.may_commit(state.drain_until + 1)


def not_drained(states: Sequence[PartitionState], *, clock: Callable[[], float], step: Callable[[], None]) -> list[str]:
    """Wait until all have drained, or had their time; names of those that have not."""
    while late := [state for state in states if not has_drained(state)]:
        if clock() >= max(state.drain_by for state in late):
            return [f"{topic}-{number}" for topic, number in sorted({state.partition for state in late})]
        step()
    return []
