"""The advice of a live incident, carried out while it goes on: the printed cap is set, victims must recover, and it is taken away."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tests.three_brokers.kinds import PER_SECOND, Room, Truth
from workbench import api
from workbench.lab.lab import LAB_THRESHOLDS
from workbench.lab.lab_broker import set_quota
from workbench.queues.systems import system_of
from workbench.triage.finding import Action

_RECOVER_SECONDS = 120.0
_OBJECTIVE_SECONDS = LAB_THRESHOLDS.time_lag_objective_seconds
LIMIT = re.compile(r"--entity-name (\S+) --alter --add-config consumer_byte_rate=(\d+)")
_LIFT = re.compile(r"--entity-name (\S+) --alter --delete-config consumer_byte_rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capped:
    """What caps did.

    Attributes:
        caps: bytes/s by client id, as printed.
        before, after: seconds of arrivals that the worst victim was behind on the culprits' brokers, without and with them.
        took_seconds: until all victims were back within their objective; None: they were not, in 120 s.
        lifted: the client ids whose cap the printed way back takes away: all of them, or the advice is wrong.
    """

    caps: dict[str, int]
    before: float
    after: float
    took_seconds: float | None
    lifted: tuple[str, ...]

    @property
    def right(self) -> bool:
        """Whether the victims were outside their objective and came back, and each cap had its way back."""
        return (
            bool(self.caps)
            and self.before > _OBJECTIVE_SECONDS
            and self.took_seconds is not None
            and set(self.lifted) == set(self.caps)
        )

    @property
    def words(self) -> str:
        """For the screen."""
        how = "RIGHT" if self.right else "WRONG"
        took = f"{self.took_seconds:.0f} s" if self.took_seconds is not None else "not in time"
        return f"cap {how}: {self.caps}, worst victim {self.before:.1f} s behind, then {self.after:.1f} s; {took}"


def carried_out(room: Room, truth: Truth, found: api.ImpactResult) -> Capped:
    """Set every cap that is printed, wait for the victims of the truth, and take the caps away."""
    commands = [it.command or "" for it in _printed(found)]
    caps = {name: int(rate) for command in commands for name, rate in LIMIT.findall(command)}
    lifted = tuple(name for command in commands for name in _LIFT.findall(command))
    brokers = {it for each in truth.offenders.values() for it in each}
    before = after = _behind(room, truth, brokers)
    took = None
    try:
        for name, rate in caps.items():
            set_quota(room.lab.bootstrap, name, rate)
        began = time.monotonic()
        while took is None and caps and time.monotonic() - began < _RECOVER_SECONDS:
            time.sleep(2)
            after = _behind(room, truth, brokers)
            if after <= _OBJECTIVE_SECONDS:
                took = time.monotonic() - began
    finally:
        for name in caps:
            set_quota(room.lab.bootstrap, name, None)
    return Capped(caps=caps, before=before, after=after, took_seconds=took, lifted=lifted)


def _printed(found: api.ImpactResult) -> Iterator[Action]:
    for of_cause in found.actions:
        yield from of_cause


def _behind(room: Room, truth: Truth, brokers: set[int]) -> float:
    """Of the worst victim on the worst partition that one of these brokers leads."""
    gateway = system_of(room.lab.cluster()).gateway(room.lab.cluster())
    leaders = {name: view.leaders for name, view in gateway.cluster(list(room.shops)).topics.items()}
    seen = system_of(room.lab.cluster()).observer(room.lab.cluster()).snapshot(groups=list(truth.victims))
    waits = [
        seen.lag(*part) or 0 for part in seen.commits if part[1] in leaders and leaders[part[1]][part[2]] in brokers
    ]
    return max(waits) / PER_SECOND
