"""Serve's messages under whatever may happen, in any order: every alert told once, in order, and its end to those who were told."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.serve.office_world import GROUPS, VERDICTS, World
from tests.serve.serving import Clock
from workbench.serve.server_database import Store
from workbench.serve.sqlite import FileStore

STEPS = int(os.environ.get("TELLING_STEPS", "2000"))
STEPS_EACH = 50
WORK = ("alert",) * 8 + ("judge",) * 8 + ("send",) * 6 + ("watch",) * 3 + ("time_passes",) * 6 + ("health",) * 6
TROUBLES = (
    *("mute", "target", "poison", "resolve", "resolve", "alert_of_all") * 2,
    *("late", "away", "frozen") * 2,
    *("the_deadline_passes", "take_over", "clock_back", "settle"),
)
Draw = Callable[[Any], Any]
groups, numbers = st.sampled_from(GROUPS), st.integers(0, 2)


def files(clock: Clock) -> tuple[Store, Store]:
    """Two instances with one file."""
    path = Path(tempfile.mkdtemp(prefix="telling-")) / "serve.sqlite"
    stores = FileStore(path, clock=clock), FileStore(path, clock=clock)
    for store in stores:
        store._writer.execute("PRAGMA synchronous = OFF")  # thousands of transactions, and no kill among them
    return stores


class Machine(RuleBasedStateMachine):
    """Steps are what alerts, groups, targets, people, clocks and instances may do."""

    make = staticmethod(files)

    def __init__(self) -> None:
        super().__init__()
        self.world = World(self.make)

    @rule(what=st.sampled_from(WORK + TROUBLES), data=st.data())
    def happens(self, what: str, data: st.DataObject) -> None:
        getattr(self, f"_{what}")(data.draw)
        self.world.check_order()

    def _alert(self, draw: Draw) -> None:
        for group in draw(st.lists(groups, min_size=1, max_size=6, unique=True)):
            self.world.alert(group, draw(numbers), "firing")

    def _alert_of_all(self, draw: Draw) -> None:
        self.world.alert("", draw(numbers), "firing")

    def _resolve(self, draw: Draw) -> None:
        self.world.alert(draw(st.sampled_from([*GROUPS, ""])), draw(numbers), "resolved")

    def _judge(self, draw: Draw) -> None:
        self.world.judge()

    def _send(self, draw: Draw) -> None:
        self.world.send()

    def _watch(self, draw: Draw) -> None:
        self.world.watch()

    def _time_passes(self, draw: Draw) -> None:
        self.world.clock.now += draw(st.sampled_from([1, 20, 61, 301, 1000, 3700, 90_000]))

    def _clock_back(self, draw: Draw) -> None:
        self.world.clock.now -= draw(st.sampled_from([5, 600, 7200]))

    def _the_deadline_passes(self, draw: Draw) -> None:
        self.world.clock.now += 61
        self.world.watch()

    def _health(self, draw: Draw) -> None:
        it = self.world.health[draw(groups)]
        it.verdict, it.own_cause = draw(st.sampled_from(VERDICTS)), draw(st.booleans())

    def _mute(self, draw: Draw) -> None:
        it = self.world.health[draw(groups)]
        it.muted = not it.muted

    def _poison(self, draw: Draw) -> None:
        self.world.health[draw(groups)].poisoned = True

    def _target(self, draw: Draw) -> None:
        box = self.world.boxes[draw(st.sampled_from(sorted(self.world.boxes)))]
        box.up = not box.up

    def _late(self, draw: Draw) -> None:
        self._alert(draw)
        self._the_deadline_passes(draw)
        for _ in range(draw(st.integers(0, 3))):
            self._health(draw)
        self.world.judge()

    def _away(self, draw: Draw) -> None:
        box = self.world.boxes[draw(st.sampled_from(sorted(self.world.boxes)))]
        box.up = False
        for _ in range(draw(st.integers(1, 6))):
            self.world.send()
            self.world.clock.now += 61
            self._health(draw)
            self.world.judge()
        box.up = True
        self.world.send()

    def _take_over(self, draw: Draw) -> None:
        self.world.take_over()

    def _frozen(self, draw: Draw) -> None:
        self.world.take_over_in_a_triage()

    def _settle(self, draw: Draw) -> None:
        self.world.settle()

    def teardown(self) -> None:
        """Whatever has happened, everybody knows in the end what is true."""
        try:
            self.world.settle()
        finally:
            self.world.close()
            for store in self.world.stores:
                if isinstance(store, FileStore):
                    shutil.rmtree(store.path.parent, ignore_errors=True)


def run(machine: type[Machine], steps: int) -> None:
    """Run a machine for about so many steps."""
    logging.disable(logging.CRITICAL)
    try:
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=max(1, steps // STEPS_EACH), stateful_step_count=STEPS_EACH, deadline=None,
                suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink],
            ),
        )  # fmt: skip
    finally:
        logging.disable(logging.NOTSET)


def test_everybody_is_told_once_and_in_order() -> None:
    """2,000 steps."""
    run(Machine, STEPS)


@pytest.mark.slow
def test_everybody_is_told_once_and_in_order_for_long() -> None:
    """20,000 steps."""
    run(Machine, 10 * STEPS)


@pytest.mark.parametrize("back", [600, 7200, 90_000])
def test_an_end_that_waits_is_told_also_when_the_clock_is_set_back(back: int) -> None:
    """No wait is longer than the quiet time, so a later moment is one of another clock."""
    world = World(files)
    try:
        for group in GROUPS[:6]:
            world.alert(group, 0, "firing")
        world.judge()
        world.send()
        assert any(it.message.kind == "digest" for it in world.boxes["chat"].messages)
        for it in world.health.values():
            it.verdict = "healthy"
        world.clock.now += 61
        world.judge()
        world.clock.now -= back
        world.settle()
    finally:
        world.close()


def test_an_own_verdict_and_the_ends_of_its_digest_are_two_messages() -> None:
    """Both are due when the quiet time is over: with one key, the second one was taken for a copy of the first, and lost."""
    world = World(files)
    try:
        for group in GROUPS[:5]:
            world.alert(group, 0, "firing")
        world.judge()
        world.boxes["chat"].up = False
        for group, verdict in (("g0", "healthy"), ("g4", "healthy"), ("g3", "cannot_tell")):
            world.send()
            world.clock.now += 61
            world.health[group].verdict, world.health[group].own_cause = verdict, False
            world.judge()
        world.boxes["chat"].up = True
        world.send()
        world.settle()
    finally:
        world.close()


def test_what_was_named_in_a_digest_grows_after_the_digest_has_arrived() -> None:
    """A chat that was away gets the digest first, though its next try is later than the quiet time of what it names."""
    world = World(files)
    try:
        for group in ("g4", "g5"):
            world.health[group].own_cause = False
        world.boxes["chat"].up = False
        for group in ("g0", "g1", "g2", "g3", "g4"):
            world.alert(group, 0, "firing")
        world.judge()
        for passed in (1, 5, 15, 60, 19):  # its tries; the next one is due 300 s after the last
            world.send()
            world.clock.now += passed
        world.alert("g5", 0, "firing")
        world.judge()
        world.boxes["chat"].up = True
        for _ in range(20):
            world.send()
            world.check_order()
            world.clock.now += 61
            world.judge()
            world.watch()
        kinds = [it.message.kind for it in world.boxes["chat"].messages]
        assert kinds.index("digest") < kinds.index("grows")
        world.settle()
    finally:
        world.close()
