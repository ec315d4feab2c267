"""The whole runtime under whatever may happen to it, in any order: nothing lost, nothing passed over, nothing that stands still."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.runtime.world import BEHAVIOURS, CONSUMERS, PARTITIONS, World

STEPS = int(os.environ.get("MACHINE_STEPS", "2000"))
STEPS_EACH = 100

KEYS = st.sampled_from([0, 1, 2, None, None])
partitions, consumers = st.integers(0, PARTITIONS - 1), st.integers(0, CONSUMERS - 1)
owners = st.one_of(consumers, consumers, st.none())  # two of three are ours


# What happens next, drawn from one list: with a rule for each, hypothesis leaves most of them out of most runs.
WORK = ("produce",) * 8 + ("step",) * 8 + ("time_passes",) * 8 + ("slow_handlers_return",) * 6
TROUBLES = (
    *("one_partition_moves",) * 3,
    *("an_eager_rebalance", "a_session_is_lost", "commits_are_refused", "letters_change", "rows_change") * 2,
    *("ids_come_late", "retention") * 2,
    *(
        "a_log_begins_anew",
        "drain_or_resume",
        "a_kill",
        "a_deploy",
        "a_switch",
        "a_switch_to_ranges",
        "ranges_are_interrupted",
        "a_wave_of_large_records",
    ),
)

Draw = Callable[[Any], Any]


class Machine(RuleBasedStateMachine):
    """Steps are what a broker, a deploy, a coordinator or a handler may do."""

    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        for partition in range(PARTITIONS):
            self.world.assign(partition, partition % CONSUMERS)

    @rule(what=st.sampled_from(WORK + TROUBLES), data=st.data())
    def happens(self, what: str, data: st.DataObject) -> None:
        getattr(self, f"_{what}")(data.draw)

    def _produce(self, draw: Draw) -> None:
        partition = draw(partitions)
        for key, behaviour in draw(st.lists(st.tuples(KEYS, st.sampled_from(BEHAVIOURS)), min_size=1, max_size=6)):
            self.world.produce(partition, key, behaviour)

    def _step(self, draw: Draw) -> None:
        for _ in range(draw(st.integers(1, 4))):
            for number in range(CONSUMERS):
                self.world.step(number)

    def _time_passes(self, draw: Draw) -> None:
        self.world.advance(draw(st.sampled_from([0.02, 0.15, 0.5, 2.5])))
        for number in range(CONSUMERS):
            self.world.step(number)

    def _slow_handlers_return(self, draw: Draw) -> None:
        self.world.release()

    def _one_partition_moves(self, draw: Draw) -> None:
        self.world.assign(draw(partitions), draw(owners))

    def _an_eager_rebalance(self, draw: Draw) -> None:
        for part in self.world.owners:
            self.world.take_away(part, "revoked")
        for partition in range(PARTITIONS):
            self.world.assign(partition, draw(owners))

    def _a_session_is_lost(self, draw: Draw) -> None:
        consumer = draw(consumers)
        for part, owner in self.world.owners.items():
            if owner == consumer:
                self.world.take_away(part, "lost")

    def _commits_are_refused(self, draw: Draw) -> None:
        refused = draw(st.booleans())
        self.world.broker.refuses = lambda _partition: "REBALANCE_IN_PROGRESS" if refused else None

    def _letters_change(self, draw: Draw) -> None:
        self.world.letters = draw(st.sampled_from(["ok", "refuse", "fatal"]))

    def _rows_change(self, draw: Draw) -> None:
        self.world.rows_mode = draw(st.sampled_from(["ok", "ok", "slow", "lost"]))

    def _a_log_begins_anew(self, draw: Draw) -> None:
        if self.world.ranges is None:  # of ranges, it ends the member
            self.world.remake(draw(partitions))

    def _ids_come_late(self, draw: Draw) -> None:
        """From here on, as of now, or no longer."""
        self.world.ids_asked_at = draw(st.sampled_from([None, self.world.clock.now, float("inf")]))

    def _retention(self, draw: Draw) -> None:
        """Often before somebody has read what it takes."""
        partition = draw(partitions)
        for _ in range(draw(st.sampled_from([0, 4]))):
            self.world.produce(partition, 0, "ok")
        self.world.retain(partition, draw(st.sampled_from([0.2, 0.7, 1.0])))

    def _ranges_are_interrupted(self, draw: Draw) -> None:
        """A run of ranges ends amid its work, and the next one is kept waiting for the topic ids."""
        world = self.world
        for partition in range(PARTITIONS):
            for key in (0, 1, None, 2, 0, 1, 2):
                world.produce(partition, key, draw(st.sampled_from(["ok", "ok", "slow", "retry"])))
        world.ids_asked_at = float("inf")
        logs = {part: [(world.broker.starts["t", part], world.broker.end(("t", part)))] for part in range(PARTITIONS)}
        if draw(st.booleans()):
            logs = {part: self._some_of(draw, *whole) for part, [whole] in logs.items()}
        world.stop(group=True, ranges=logs)
        for again in range(2):
            for partition in range(PARTITIONS):
                world.assign(partition, draw(consumers))
            for _ in range(draw(st.integers(1, 3))):
                world.advance(0.15)
                for number in range(CONSUMERS):
                    world.step(number)
            if not again:
                draw(st.sampled_from([world.crash, world.stop]))()
                world.ids_asked_at = None

    def _a_wave_of_large_records(self, draw: Draw) -> None:
        for partition in range(PARTITIONS):
            self.world.produce(partition, partition, "slow")
            self.world.produce(partition, None, "slow")
            for number in range(12):
                self.world.produce(partition, number % 3, "big")

    def _a_switch_to_ranges(self, draw: Draw) -> None:
        """Of what the logs hold, one or several; the last ends are those of the logs, or before."""
        found = {
            part[1]: self._some_of(draw, log[0].offset, log[-1].offset + 1)
            for part, log in self.world.broker.logs.items()
            if log and draw(st.booleans())
        }
        self.world.stop(group=True, ranges=found or None)

    def _some_of(self, draw: Draw, start: int, end: int) -> list[tuple[int, int]]:
        """Ranges within [start, end), not empty, in order."""
        found: list[tuple[int, int]] = []
        while start < end and len(found) < 3 and (not found or draw(st.booleans())):
            first = draw(st.integers(start, end - 1))
            found.append((first, draw(st.integers(first, end - 1)) + 1))
            start = found[-1][1]
        return found

    def _drain_or_resume(self, draw: Draw) -> None:
        (self.world.task.drain if draw(st.booleans()) else self.world.task.resume)()

    def _a_kill(self, draw: Draw) -> None:
        self.world.crash()

    def _a_deploy(self, draw: Draw) -> None:
        self.world.stop()

    def _a_switch(self, draw: Draw) -> None:
        self.world.stop(group=True)

    @invariant()
    def nothing_is_broken(self) -> None:
        Machine.steps += 1
        self.world.judge_state()
        assert self.world.broken == []

    def teardown(self) -> None:
        try:
            self.world.calm()
        finally:
            self.world.close()
        assert self.world.broken == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("steps", [STEPS, pytest.param(20_000, marks=pytest.mark.slow)])
def test_no_order_of_troubles_breaks_a_promise(caplog: pytest.LogCaptureFixture, steps: int) -> None:
    """Rebalances of both kinds, back-pressure, retries, delays, timeouts, letters too large or refused, cut and shortened logs, late
    ids, panics, keys or none, large records, ranges, kills, switches."""
    caplog.set_level(logging.CRITICAL)  # the troubles are ours
    Machine.steps = 0
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=1 + steps * 8 // (5 * STEPS_EACH),  # a draw may end early
            stateful_step_count=STEPS_EACH,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
            **({"phases": (Phase.generate,)} if "MACHINE_STEPS" in os.environ else {}),
        ),
    )
    assert Machine.steps >= steps
