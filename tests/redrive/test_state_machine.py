"""Random histories of redrives against a model of Kafka: two machines, several plans, kills, refusals, quotas, time-outs, discards.

The oracle is naive: a letter is produced once, or named as left out, or it is still to be planned. Never twice, never in silence.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.redrive.fakes import KilledError
from tests.redrive.making import TOPIC, gateway_of, letter_of
from tests.redrive.model import Broker, Machine, NoJournal
from workbench.errors import GuardError, SourceUnreachableError
from workbench.redrive.abandon_plan import give_up
from workbench.redrive.apply import RedriveOutcome
from workbench.redrive.commit_marks import Place, PlanState, all_letters
from workbench.redrive.discard import discard
from workbench.redrive.plan import RedriveRequest
from workbench.redrive.planfile import RedrivePlan
from workbench.redrive.redrive_ports import FencedError
from workbench.redrive.selection import Selection

STEPS_EACH = 20
KILL = st.one_of(st.none(), st.integers(0, 60))
_SHM = Path("/dev/shm")


class History(RuleBasedStateMachine):
    """What people and Kafka do."""

    def __init__(self) -> None:
        super().__init__()
        self.state_home = os.environ.get("XDG_STATE_HOME")
        self.folder = Path(tempfile.mkdtemp(dir=_SHM if _SHM.is_dir() else None))
        self.broker = Broker()
        self.machines = [Machine(self.broker, self.folder / str(number)) for number in range(2)]
        self.plans: list[tuple[RedrivePlan, int]] = []
        self.discarded: set[Place] = set()
        self.given_up: dict[str, int] = {}  # plan to the number of its letters that it had produced
        self.ever_refused: set[Place] = set()
        self.following = [0, 0]
        self.more(6, False, True)
        for where in range(2):  # neither knows of the other
            self.plan(where, 30, None, False)

    def teardown(self) -> None:
        """What was begun is applied to its end; then nothing is missing."""
        try:
            self.broker.steps_left, self.broker.bytes_per_second = None, 1e9
            self.broker.stalls = self.broker.away = 0
            for number in range(len(self.plans)):
                self.apply(number, 0, None)
                self.exactly_once()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
            if self.state_home is not None:
                os.environ["XDG_STATE_HOME"] = self.state_home
            else:
                os.environ.pop("XDG_STATE_HOME", None)

    def dying(self, act: Callable[[], None], kill: int | None) -> None:
        """Do it, and perhaps be killed meanwhile."""
        self.broker.steps_left = kill
        try:
            with suppress(KilledError):
                act()
        finally:
            self.broker.steps_left = None

    @rule(number=st.integers(1, 12), is_bad=st.booleans(), is_large=st.booleans())
    def more(self, number: int, is_bad: bool, is_large: bool) -> None:
        """New letters; one that the target refuses, one that is large."""
        for at in range(number):
            part = at % 2
            offset, self.following[part] = self.following[part], self.following[part] + 1
            made = letter_of(part, offset, b"k%d" % (offset % 3), (part, 999 - offset if offset % 5 == 0 else offset))
            if is_large and at % 2 == 1:
                made = made._replace(value=b"x" * 80_000)
            if is_bad and at == 0:
                self.broker.refused.add((part, offset))
                self.ever_refused.add((part, offset))
            self.broker.letters = sorted([*self.broker.letters, made], key=lambda it: (it.partition, it.offset))

    @rule(
        where=st.integers(0, 1),
        first=st.integers(0, 30),
        cap=st.sampled_from([None, 1_000.0, 100_000.0]),
        knows=st.booleans(),
    )
    def plan(self, where: int, first: int, cap: float | None, knows: bool) -> None:
        """Plan what is left from some offset on, with or without the plan files of the other machine."""
        if knows:
            for plan, other in self.plans:
                if other != where:
                    self.machines[where].ledger.know(plan)
        offsets = [f"{part}:{first}-" for part in range(2)] if first < 25 else []
        request = RedriveRequest(
            cluster="mine", topic=TOPIC, selection=Selection(offsets=offsets), max_bytes_per_second=cap,
            reason=str(len(self.plans)),
        )  # fmt: skip
        with suppress(GuardError):
            self.plans.append((self.machines[where].plan(request), where))

    @rule(number=st.integers(0, 7), elsewhere=st.integers(0, 5), kill=KILL)
    def apply(self, number: int, elsewhere: int, kill: int | None) -> None:
        """Apply a plan, also from the other machine."""
        plan, where = self.plans[number % len(self.plans)]
        self.dying(lambda: self._apply(plan, self.machines[(where + (elsewhere == 5)) % 2]), kill)

    def _apply(self, plan: RedrivePlan, machine: Machine) -> None:
        try:
            receipt = machine.run(plan).run()
        except FencedError:
            raise AssertionError("nobody else runs, and it says that somebody has taken over") from None
        except (GuardError, SourceUnreachableError):
            return
        if receipt.outcome in (RedriveOutcome.DONE, RedriveOutcome.PARTIAL):
            named = {(int(part), int(at)) for part, at in (place.split(":") for place in receipt.refused)}
            planned = places_of(plan)
            assert named <= planned & self.ever_refused
            assert planned <= named | set(self.broker.records), "letters are missing in silence"
            assert (receipt.outcome is RedriveOutcome.PARTIAL) == bool(named)

    @rule(first=st.integers(0, 7), second=st.integers(0, 7), kill=KILL)
    def apply_two(self, first: int, second: int, kill: int | None) -> None:
        """Two plans at the same moment: the second one runs while the first one claims."""
        (one, here), (two, there) = self.plans[first % len(self.plans)], self.plans[second % len(self.plans)]
        if one is two:
            return
        self.broker.between = lambda: self._apply(two, self.machines[there])
        self.dying(lambda: self._apply(one, self.machines[here]), kill)
        self.broker.between = None

    @rule(number=st.integers(0, 7), kill=KILL)
    def discard(self, number: int, kill: int | None) -> None:
        """Discard the letters of a plan."""
        plan, where = self.plans[number % len(self.plans)]
        machine = self.machines[where]

        def act() -> None:
            with suppress(GuardError):
                discard(
                    plan, gateway_of(self.broker.letters), self.broker, NoJournal(), machine.ledger, reason="x",  # type: ignore[arg-type]
                    claim=lambda: machine.end(plan, PlanState.DISCARDED),
                )  # fmt: skip
                self.discarded |= places_of(plan)

        self.dying(act, kill)

    @rule(number=st.integers(0, 7), kill=KILL)
    def give_up(self, number: int, kill: int | None) -> None:
        """Give up the rest of a plan."""
        plan, where = self.plans[number % len(self.plans)]
        machine = self.machines[where]

        def act() -> None:
            with suppress(GuardError, SourceUnreachableError):
                end = lambda: machine.end(plan, PlanState.GIVEN_UP)  # noqa: E731
                produced = give_up(plan, NoJournal(), machine.ledger, end, reason="x")  # type: ignore[arg-type]
                # Once it is given up, other plans produce the rest; who gives it up again is told the same.
                there = len(places_of(plan) & set(self.broker.records))
                assert produced == self.given_up.setdefault(plan.hash, there)

        self.dying(act, kill)

    @rule(rate=st.sampled_from([1e9, 100_000.0, 5_000.0]), stalls=st.integers(0, 2), away=st.integers(0, 2))
    def slow(self, rate: float, stalls: int, away: int) -> None:
        """A quota; transactions that time out; a coordinator that is away."""
        self.broker.bytes_per_second, self.broker.stalls, self.broker.away = rate, stalls, away

    @rule(where=st.integers(0, 1), kill=st.integers(8, 60), knows=st.booleans())
    def begin_and_die(self, where: int, kill: int, knows: bool) -> None:
        """A plan is made, begun and killed; somebody plans the same letters."""
        self.more(8, False, False)
        before = len(self.plans)
        self.plan(where, 30, None, knows)
        if len(self.plans) > before:
            self.apply(before, 0, kill)
            self.plan(where, 30, None, knows)
            self.apply(len(self.plans) - 1, 0, None)

    @rule(place=st.integers(0, 20))
    def mend(self, place: int) -> None:
        """The target takes a letter that it has refused."""
        if place < len(self.broker.refused):
            self.broker.refused.discard(sorted(self.broker.refused)[place])

    @invariant()
    def exactly_once(self) -> None:
        """No letter twice, none that was discarded, none that the target refuses."""
        twice = [place for place, number in Counter(self.broker.records).items() if number > 1]
        assert not twice, twice
        assert not self.discarded & set(self.broker.records)


def places_of(plan: RedrivePlan) -> set[Place]:
    """All letters of a plan."""
    return {(number, offset) for number, picks in all_letters(plan).items() for offset in picks}


@pytest.mark.parametrize("steps", [2_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_every_letter_once_or_named(steps: int) -> None:
    """Whatever two machines, several plans, a quota, refusals and kills do to each other."""
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        History,
        settings=settings(
            max_examples=steps // STEPS_EACH,
            stateful_step_count=STEPS_EACH,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
