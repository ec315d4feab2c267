"""Kinds that are healthy, some in odd ways."""

from __future__ import annotations

from dataclasses import replace

from evaluation.foreign.circumstances import KEYS, Draw, behave
from evaluation.foreign.spec import INCIDENT_SECONDS, STEADY_SECONDS, Deed, Plan

_CALM = ("recovered", "producer_burst")


def _steady(draw: Draw) -> Plan:
    return draw.plan(draw.times(draw.random.uniform(0.1, 0.6)), (), "healthy", also=_CALM)


def _burst(draw: Draw) -> Plan:
    """Three times as much for some seconds; what waits is gone long before the end."""
    often = draw.traffic(rate_per_second=draw.rate * draw.random.uniform(2.7, 3.2))
    deeds = (Deed(at=0.0, what="traffic", value=often), Deed(at=15.0, what="traffic", value=draw.traffic()))
    return draw.plan(draw.times(draw.random.uniform(0.45, 0.55)), deeds, "healthy", also=_CALM)


def _quiet(draw: Draw) -> Plan:
    """A record every few seconds, and rare commits."""
    draw.rate, draw.commit_seconds = draw.random.uniform(0.2, 0.5), 10.0
    return draw.plan(dict.fromkeys(draw.types, 0.005), (), "healthy", also=_CALM)


def _deploy(draw: Draw) -> Plan:
    """A rolling restart, once."""
    deeds = []
    for number in range(draw.members):
        at = 5.0 + 9.0 * number
        deeds += [Deed(at=at, what="stop", value=[number]), Deed(at=at + 2.0, what="start", value=[number])]
    return draw.plan(draw.calm_times(), tuple(deeds), "healthy", also=_CALM)


def _uneven(draw: Draw) -> Plan:
    """One key has a large share, and there is room for it."""
    draw.members = 2
    times = draw.times(draw.random.uniform(0.1, 0.15))
    return draw.plan(
        times, (), "healthy", also=_CALM, hot_key=draw.random.randrange(KEYS), hot_share=draw.random.uniform(0.35, 0.5)
    )


def _slower(draw: Draw) -> Plan:
    """All handlers take twice as long, and there is room for it."""
    times = draw.times(draw.random.uniform(0.2, 0.25))
    return draw.plan(times, (behave({name: 2 * it for name, it in times.items()}),), "healthy", also=_CALM)


def _batches(draw: Draw) -> Plan:
    """A producer sends all that has gathered, every 20 s, for as long as the recording is; it is handled in a third of that."""
    times = draw.times(draw.random.uniform(0.15, 0.25))
    often, deeds, at = draw.traffic(rate_per_second=10 * draw.rate), list[Deed](), 10 - STEADY_SECONDS
    while at < INCIDENT_SECONDS + 20:
        deeds += [Deed(at=at, what="traffic", value=often)]
        deeds += [Deed(at=at + 2.0, what="traffic", value=draw.traffic(rate_per_second=0.0))]
        at += 20.0
    return draw.plan(times, tuple(deeds), "healthy", also=_CALM, rate_per_second=0.0)


def _few_keys(draw: Draw) -> Plan:
    """Three keys, so most partitions are idle; even one partition would have room for all."""
    times = draw.times(draw.random.uniform(0.2, 0.5) / draw.slots)
    return draw.plan(times, (), "healthy", also=_CALM, keys=3)


def _ends(draw: Draw) -> Plan:
    """The producer stops, and all that was sent is handled."""
    at = draw.random.uniform(0.0, 40.0)
    deeds = (Deed(at=at, what="traffic", value=draw.traffic(rate_per_second=0.0)),)
    return draw.plan(draw.calm_times(), deeds, "healthy", also=(*_CALM, "producer_silent"))


def _scaled_down(draw: Draw) -> Plan:
    """A member fewer, and there is room."""
    draw.members = 3
    times = draw.times(draw.random.uniform(0.15, 0.3))
    return draw.plan(times, (Deed(at=5.0, what="stop", value=[2]),), "healthy", also=_CALM)


def _killed_once(draw: Draw) -> Plan:
    """The kernel kills a member that takes too much memory, once; it comes back."""
    at, victim = draw.random.uniform(10.0, 30.0), draw.random.randrange(draw.members)
    deeds = (Deed(at=at, what="kill", value=[victim]), Deed(at=at + 2.0, what="start", value=[victim]))
    return draw.plan(draw.calm_times(), deeds, "healthy", also=_CALM)


def _frozen_once(draw: Draw) -> Plan:
    """A member's machine stands still for 20 s, longer than its session; then it comes back."""
    at, victim = draw.random.uniform(5.0, 15.0), draw.random.randrange(draw.members)
    deeds = (Deed(at=at, what="freeze", value=[victim]), Deed(at=at + 20.0, what="thaw", value=[victim]))
    return draw.plan(draw.calm_times(), deeds, "healthy", also=_CALM)


def _rare_commits(draw: Draw) -> Plan:
    """Commits every 12 s: what waits for them is handled already."""
    draw.commit_seconds = 12.0
    return draw.plan(draw.calm_times(), (), "healthy", also=_CALM)


def _delayed(draw: Draw) -> Plan:
    """No record is handled before it is some seconds old, on purpose: a lag that is always there, and always the same.

    Each partition waits by itself: a loop that waits for one partition's next record keeps those of others waiting for longer.
    """
    draw.style = "partition"
    plan = draw.plan(draw.calm_times(), (), "healthy", also=_CALM)
    late = plan.behaviour.model_copy(update={"delay_seconds": draw.random.uniform(4.0, 6.0)})
    return replace(plan, behaviour=late)


HEALTHY = {
    "steady": _steady, "burst": _burst, "quiet": _quiet, "deploy": _deploy, "uneven": _uneven, "slower": _slower,
    "batches": _batches, "few_keys": _few_keys, "ends": _ends, "scaled_down": _scaled_down, "killed_once": _killed_once,
    "frozen_once": _frozen_once, "rare_commits": _rare_commits, "delayed": _delayed,
}  # fmt: skip
