"""Carry out a finding's action on the lab's fleet, and check whether it works."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.errors import SourceUnreachableError
from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.lab.lab_broker import abort_transaction, add_partitions, set_retention
from workbench.lab.producer_and_consumers import LabFleet
from workbench.triage import capacity
from workbench.triage.finding import Action, Finding
from workbench.triage.outcome_checks import all_hold
from workbench.triage.subscription import SubscriptionFeatures
from workbench.triage.verdict_names import Answer

# Looks again, over the last seconds: with the whole run before them as the baseline, or without it. None while there is nothing to see.
Look = Callable[[float, bool], SubscriptionFeatures | None]

# The lag goes on growing until the action takes effect, so draining takes longer than it was sized for.
_PATIENCE_SECONDS = 240.0
_MOST_PATIENCE_SECONDS = 420.0  # while it drains as predicted
_ETA_SLACK = 1.5
_LOOK_SECONDS = 10.0  # the part of the time after the action that a check is held against
_LOOK_EVERY_SECONDS = 5.0
_TREND_SECONDS = 10.0
_STARTED_SHARE = (
    0.8  # of the highest lag: below it draining is under way (restarts come one by one, and so does the pace)
)
_USUAL_SECONDS = 1.5  # of arrivals: so much waits in health, between two commits


@dataclass(slots=True, kw_only=True)
class AdviceResult:
    """Outcome of the advice.

    Attributes:
        kind, title: of the action that was carried out; None if the lab can carry out none of them.
        verified: whether the action's own check held, and after how many seconds.
        lag_gone: whether no more waited than in health, and after how many seconds.
        eta_predicted, eta_actual: from the moment at which it began to drain, in seconds.
    """

    kind: str | None = None
    title: str | None = None
    verified: float | None = None
    lag_gone: float | None = None
    eta_predicted: float | None = None
    eta_actual: float | None = None
    lags: list[tuple[float, int]] = field(default_factory=list)

    @property
    def worked(self) -> bool:
        """Whether the check held and the lag went."""
        return self.verified is not None and self.lag_gone is not None

    def to_json(self) -> dict[str, Any]:
        """For the run's document."""
        numbers = {
            "verified_seconds": self.verified,
            "lag_gone_seconds": self.lag_gone,
            "eta_predicted_seconds": self.eta_predicted,
            "eta_actual_seconds": self.eta_actual,
        }
        rounded = {name: None if value is None else round(value, 1) for name, value in numbers.items()}
        return {"kind": self.kind, "title": self.title, "worked": self.worked if self.kind else None, **rounded}


def possible(fleet: LabFleet, finding: Finding) -> list[Action]:
    """What the lab carries out: the first action that it can, and what first of all keeps things as they are."""
    never = _RUNTIME_ONLY if fleet.spec.consumer != "runtime" else frozenset[str]()
    chosen: list[Action] = []
    for action in finding.actions:
        if action.kind in _ACTUATORS and action.kind not in never:
            chosen.append(action)
            if action.kind not in _KEEPING:
                break
    return chosen


def carry_out(fleet: LabFleet, action: Action) -> None:
    """Do it."""
    _ACTUATORS[action.kind or ""](fleet, action.parameters)


def apply_advice(fleet: LabFleet, finding: Finding, look: Look) -> AdviceResult:
    """Carry out the possible actions, then wait until their checks hold and the lag is gone."""
    actions = possible(fleet, finding)
    if not actions:
        return AdviceResult()
    outcome = AdviceResult(kind=actions[-1].kind, title=actions[-1].title)
    for action in actions:
        carry_out(fleet, action)
    checks = [check for action in actions for check in action.checks]
    # What was lost before stays lost.
    anew = any(action.kind in _KEEPING for action in actions)
    began = time.monotonic()
    # An event that is put off holds up the commits behind it: as long as it is put off, so much waits in health.
    held = max(fleet.behaviour.delay_seconds.values(), default=0.0)
    usual = max(5.0, (_USUAL_SECONDS + held) * fleet.traffic.rate_per_second)
    kafka = KafkaCluster(fleet.lab.bootstrap)
    drains_since: float | None = None
    next_look = began + _LOOK_SECONDS
    # A look takes a second, and much longer on a busy machine: the lag is followed meanwhile.
    looking: Future[SubscriptionFeatures | None] | None = None
    eyes = ThreadPoolExecutor(1, thread_name_prefix="look")
    patience = _PATIENCE_SECONDS
    while (now := time.monotonic()) < began + patience and not outcome.worked:
        lag = _lag(kafka, fleet)
        if lag is not None:
            outcome.lags.append((now - began, lag))
            if outcome.lag_gone is None and lag <= usual:
                outcome.lag_gone = now - began
                if drains_since is not None:
                    outcome.eta_actual = outcome.lag_gone - drains_since
            elif lag > 2 * usual and outcome.lag_gone is not None and drains_since is None:
                outcome.lag_gone = None  # it was low by chance when the action began
            elif outcome.lag_gone is None and drains_since is None and (eta := _eta(outcome.lags, usual)) is not None:
                drains_since, outcome.eta_predicted = now - began, eta
                patience = min(_MOST_PATIENCE_SECONDS, max(patience, drains_since + _ETA_SLACK * eta))
        if looking is None and outcome.verified is None and now >= next_look:
            looking = eyes.submit(look, _LOOK_SECONDS, anew)
        elif looking is not None and looking.done():
            row, looking, next_look = looking.result(), None, now + _LOOK_EVERY_SECONDS
            if row is not None and all_hold(checks, row) is Answer.YES:
                outcome.verified = now - began
        time.sleep(max(0.0, 1.0 - (time.monotonic() - now)))
    eyes.shutdown()
    return outcome


def _lag(kafka: KafkaCluster, fleet: LabFleet) -> int | None:
    try:
        snapshot = kafka.snapshot(groups=[fleet.spec.group])
    except SourceUnreachableError:
        return None
    known = [snapshot.lag(*key) for key in snapshot.commits]
    return sum(lag for lag in known if lag is not None)


def _eta(lags: Sequence[tuple[float, int]], usual: float) -> float | None:
    """The product's own estimate, once the trend has been down for long enough to be one."""
    recent = [(at, lag) for at, lag in lags if at >= lags[-1][0] - _TREND_SECONDS]
    if recent[-1][0] - recent[0][0] < _TREND_SECONDS * 0.8 or recent[-1][1] > _STARTED_SHARE * max(
        lag for _, lag in lags
    ):
        return None
    slope = float(np.polyfit([at for at, _ in recent], [lag for _, lag in recent], 1)[0])
    return capacity.drain_seconds(recent[-1][1] - usual, slope)


# How each kind of action is done here.


def _restart_consumers(fleet: LabFleet, parameters: Mapping[str, Any]) -> None:
    dead = [name for name, child in fleet.instances.items() if not child.alive]
    hanging = sorted(_instances(fleet, parameters["members"]) - set(dead))
    fleet.set_behaviour(stall_members=[])
    for name in [*dead, *hanging]:
        if name in hanging:
            fleet.kill([name])
        fleet.relaunch(name)
    fleet.restart(sorted(_owners(fleet, parameters.get("partitions", ())) - {*dead, *hanging}))


def _owners(fleet: LabFleet, partitions: Sequence[int]) -> set[str]:
    """Instances that own partitions now."""
    views = KafkaCluster(fleet.lab.bootstrap).snapshot(groups=[fleet.spec.group]).groups if partitions else ()
    members = [member for view in views for member in view.members]
    owning = [it.client_id for it in members if any(number in partitions for _, number in it.partitions)]
    return _instances(fleet, owning)


def _instances(fleet: LabFleet, members: Sequence[str]) -> set[str]:
    """Instances of members, which are named by their client ids."""
    return {name for name in fleet.instances if set(fleet.client_ids(name)) & set(members)}


def _dead_letter(fleet: LabFleet, parameters: Mapping[str, Any]) -> None:
    if fleet.spec.consumer != "runtime":  # their handlers put it aside
        fleet.set_behaviour(poison_fails=False)
        return
    attempts = {"max_attempts": parameters["max_attempts"]}
    pools = {name: pool.model_copy(update=attempts) for name, pool in fleet.spec.processors.items()}
    fleet.change(processors=pools)
    fleet.restart()


def _scale_processors(fleet: LabFleet, parameters: Mapping[str, Any]) -> None:
    names = parameters["processors"]
    threads = math.ceil(parameters["threads"] / len(names) / len(fleet.instances))
    pools = dict(fleet.spec.processors)
    for name in names:
        pool = pools[name]
        # One queue for all threads: of several, the one with the most keys would be the limit, however many threads there are.
        room = pool.queue_capacity * (pool.queues or pool.threads)
        more = {"threads": max(pool.threads, threads), "queues": 1, "queue_capacity": room}
        pools[name] = pool.model_copy(update=more)
    fleet.change(processors=pools)
    fleet.restart()


def _spread_keys(fleet: LabFleet, _parameters: Mapping[str, Any]) -> None:
    fleet.set_traffic(hot_share=0.0, hot_key=None, hot_partition=None)


def _raise_delay_capacity(fleet: LabFleet, parameters: Mapping[str, Any]) -> None:
    fleet.change(settings={**fleet.spec.settings, "delay_capacity": parameters["capacity"]})
    fleet.restart()


def _raise_quota(fleet: LabFleet, _parameters: Mapping[str, Any]) -> None:
    fleet.limit(None)


def _move_members(fleet: LabFleet, parameters: Mapping[str, Any]) -> None:
    fleet.change(proxied=False)
    fleet.restart(sorted(_instances(fleet, parameters["members"])))


def _add_consumers(fleet: LabFleet, parameters: Mapping[str, Any]) -> None:
    running = sum(child.alive for child in fleet.instances.values())
    more = math.ceil(parameters["members"] / fleet.spec.consumers) - running
    fleet.add(max(1, more))


def _add_partitions(fleet: LabFleet, parameters: Mapping[str, Any]) -> None:
    total = parameters["partitions"]
    add_partitions(fleet.lab.bootstrap, fleet.spec.topic, total)
    fleet.set_traffic(partitions=total)
    _add_consumers(fleet, parameters)


def _replace_members(fleet: LabFleet, parameters: Mapping[str, Any]) -> None:
    fleet.quieten()
    names = sorted(_instances(fleet, parameters["members"]))
    fleet.shut_down(names)
    fleet.add(len(names))


def _resume_partitions(fleet: LabFleet, _parameters: Mapping[str, Any]) -> None:
    fleet.set_behaviour(held_members=[])


def _abort_transaction(fleet: LabFleet, parameters: Mapping[str, Any]) -> None:
    for partition, start in parameters["starts"].items():
        abort_transaction(fleet.lab.bootstrap, fleet.spec.topic, int(partition), start)


def _quieten(fleet: LabFleet, _parameters: Mapping[str, Any]) -> None:
    fleet.quieten()


def _raise_retention(fleet: LabFleet, parameters: Mapping[str, Any]) -> None:
    set_retention(fleet.lab.bootstrap, fleet.spec.topic, parameters["retention_ms"])


_KEEPING = frozenset({"raise_retention"})
_RUNTIME_ONLY = frozenset({"scale_processors", "raise_delay_capacity"})  # others have no such setting in the lab
_ACTUATORS: dict[str, Callable[[LabFleet, Mapping[str, Any]], None]] = {
    "restart_consumers": _restart_consumers,
    "dead_letter": _dead_letter,
    "scale_processors": _scale_processors,
    "spread_keys": _spread_keys,
    "raise_delay_capacity": _raise_delay_capacity,
    "raise_quota": _raise_quota,
    "move_members": _move_members,
    "add_consumers": _add_consumers,
    "add_partitions": _add_partitions,
    "replace_members": _replace_members,
    "raise_retention": _raise_retention,
    "resume_partitions": _resume_partitions,
    "abort_transaction": _abort_transaction,
    "stop_deploy": _quieten,
    "stop_changes": _quieten,
}
