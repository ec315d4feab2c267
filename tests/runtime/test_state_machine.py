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

STEPS = int(os.environ.get("MACHINE_STEPS", "2500"))
STEPS_EACH = 100

partitions, consumers = st.integers(0, PARTITIONS - 1), st.integers(0, CONSUMERS - 1)
owners = st.one_of(consumers, consumers, st.none())  # two of three are ours


# What happens next, drawn from one list: with a rule for each, hypothesis leaves most of them out of most runs.
WORK = ("produce",) * 8 + ("step",) * 8 + ("time_passes",) * 8 + ("slow_handlers_return",) * 6
TROUBLES = (
    *("one_partition_moves",) * 3,
    *("an_eager_rebalance", "a_session_is_lost", "commits_are_refused", "letters_change") * 2,
    *("a_log_begins_anew", "drain_or_resume", "a_kill", "a_deploy", "a_switch"),
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
        for key, behaviour in draw(
            st.lists(st.tuples(st.integers(0, 2), st.sampled_from(BEHAVIOURS)), min_size=1, max_size=6)
        ):
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

    def _a_log_begins_anew(self, draw: Draw) -> None:
        self.world.remake(draw(partitions))

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
        assert self.world.broken == []

    def teardown(self) -> None:
        try:
            self.world.calm()
        finally:
            self.world.close()
        assert self.world.broken == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("steps", [STEPS, pytest.param(10_000, marks=pytest.mark.slow)])
def test_no_order_of_troubles_breaks_a_promise(caplog: pytest.LogCaptureFixture, steps: int) -> None:
    """Rebalances of both kinds, back-pressure, retries, delays, timeouts, letters too large or refused, cut logs, kills, switches."""
    caplog.set_level(logging.CRITICAL)  # the troubles are ours
    Machine.steps = 0
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=1 + steps * 13 // (10 * STEPS_EACH),  # a draw may end early
            stateful_step_count=STEPS_EACH,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
            **({"phases": (Phase.generate,)} if "MACHINE_STEPS" in os.environ else {}),
        ),
    )
    assert Machine.steps >= steps
