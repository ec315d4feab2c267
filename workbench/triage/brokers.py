"""Verdicts about brokers: what is wrong with one of them, or with replication, and which groups it hits. One finding with its victims.

A verdict without the signals that it needs is open: it is listed with their names, and never taken for a no.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from workbench.features.servers import FloatArray, Neighbourhood
from workbench.humanize import counted, duration, listed, percent, plural, quantity
from workbench.numbers import (
    ANSWER_SECONDS,
    FAR,
    FLUSH_SECONDS,
    MOST,
    PART,
    RECENT,
    SEVERAL,
)
from workbench.queues.tools import Tools
from workbench.thresholds import Thresholds
from workbench.triage.blamed import Impact, Strain, action_json, strain_json
from workbench.triage.finding import Action, Evidence
from workbench.triage.held_up import HeldUp, Span
from workbench.triage.strains import mean_of, strains_of

_KINDS = ("Produce", "FetchConsumer", "FetchFollower")


class BrokerVerdict(StrEnum):
    """What is wrong with a broker."""

    LEADERLESS = "leaderless"
    UNDER_REPLICATED = "under_replicated"
    REQUEST_QUEUE_FULL = "request_queue_full"
    FLUSH_SLOW = "flush_slow"
    REMOTE_STORAGE_FAILING = "remote_storage_failing"
    SLOW_BROKER = "slow_broker"
    COORDINATOR_MOVING = "coordinator_moving"

    @property
    def runbook(self) -> str:
        """Its file."""
        return f"runbooks/{self.value.title().replace('_', '')}.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFinding:
    """One verdict, on which brokers, with what was compared.

    Attributes:
        brokers: concerned.
        groups: its victims: those that read what it is about.
        at_risk: groups to messages on partitions short of replicas that they have not read: lost if one more broker is.
        strains: what was compared, by broker.
    """

    verdict: BrokerVerdict
    headline: str
    brokers: tuple[int, ...]
    groups: tuple[str, ...] = ()
    at_risk: Mapping[str, int] = field(default_factory=dict)
    strains: tuple[Strain, ...] = ()
    actions: tuple[Action, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For `workbench.impact/1`."""
        return {
            "verdict": self.verdict,
            "headline": self.headline,
            "brokers": list(self.brokers),
            "groups": list(self.groups),
            "at_risk": dict(self.at_risk),
            "strains": [strain_json(it) for it in self.strains],
            "runbook": self.verdict.runbook,
            "actions": [action_json(it) for it in self.actions],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLook:
    """All findings about brokers, worst first, and the verdicts that cannot be told, with the signals that they lack."""

    findings: tuple[BrokerFinding, ...]
    unknown: Mapping[BrokerVerdict, tuple[str, ...]]


def judge_brokers(all_of: Neighbourhood, blamed: Impact, limits: Thresholds, tools: Tools) -> BrokerLook:
    """Look at every broker.

    Args:
        all_of: brokers and everybody that they serve.
        blamed: who slows whom: where somebody is accused, a broker is not slow by itself.
        limits: what counts as late.
        tools: commands.
    """
    needs = {
        BrokerVerdict.LEADERLESS: ({"leader", "offline"},),
        BrokerVerdict.UNDER_REPLICATED: ({"missing_replicas", "under_replicated"},),
        BrokerVerdict.REQUEST_QUEUE_FULL: ({"request_handler_idle"}, {"request_queue_time"}),
        BrokerVerdict.FLUSH_SLOW: ({"log_flush_time"},),
        BrokerVerdict.REMOTE_STORAGE_FAILING: ({"remote_failures"},),
        BrokerVerdict.SLOW_BROKER: ({"consumer_lag"}, {"leader"}, {"request_local_time"}, {"response_send_time"}),
        BrokerVerdict.COORDINATOR_MOVING: ({"coordinator_partitions"},),
    }
    found = (
        *_leaderless(all_of, tools),
        *_under_replicated(all_of, tools),
        *_queue_full(all_of),
        *_flush_slow(all_of),
        *_remote_failing(all_of),
        *_slow(all_of, blamed, limits),
        *_moving(all_of),
    )
    seen = {it.verdict for it in found}
    unknown = {
        verdict: tuple(" or ".join(sorted(one)) for one in wanted if one <= all_of.absent)
        for verdict, wanted in needs.items()
        if verdict not in seen
    }
    return BrokerLook(findings=found, unknown={verdict: names for verdict, names in unknown.items() if names})


def _recent(all_of: Neighbourhood) -> slice:
    """The last third of the window."""
    length = max(1, round((len(all_of.times) - all_of.first) * RECENT))
    return slice(len(all_of.times) - length, len(all_of.times))


def _now(all_of: Neighbourhood, broker: int, signal: str, kind: str = "value") -> float | None:
    line = all_of.servers.get(broker, {}).get((signal, kind))
    return None if line is None else mean_of(line[_recent(all_of)])


def _before(all_of: Neighbourhood, broker: int, signal: str, kind: str = "value") -> float | None:
    line = all_of.servers.get(broker, {}).get((signal, kind))
    return None if line is None else mean_of(line[: all_of.first])


def _readers(all_of: Neighbourhood, partitions: Collection[tuple[str, int]]) -> tuple[str, ...]:
    return tuple(sorted({group for part in partitions for group in all_of.readers.get(part, ())}))


def _on(all_of: Neighbourhood, brokers: Collection[int]) -> tuple[str, ...]:
    return tuple(sorted({group for group, broker in all_of.groups if broker in brokers}))


def _named(partitions: Collection[tuple[str, int]]) -> str:
    return listed([f"{topic}-{number}" for topic, number in sorted(partitions)], most=5)


def _brokers(ids: Sequence[int]) -> str:
    return f"{'broker' if len(ids) == 1 else 'brokers'} {listed(ids)}"


def _strain(
    broker: int, signal: str, value: float, unit: str, limit: float, *, kind: str = "", before: float | None = None
) -> Strain:
    return Strain(
        broker=broker,
        kind=kind,
        evidence=Evidence(signal=signal, value=value, unit=unit, threshold=limit, baseline=before),
    )


def _leaderless(all_of: Neighbourhood, tools: Tools) -> Iterator[BrokerFinding]:
    lost = {part for part, leader in all_of.leaders.items() if leader is None}
    told = {broker: now for broker in all_of.servers if (now := _now(all_of, broker, "offline")) is not None}
    number = max(len(lost), round(max(told.values(), default=0.0)))
    if not number:
        return
    names = f" ({_named(lost)})" if lost else ""
    yield BrokerFinding(
        verdict=BrokerVerdict.LEADERLESS,
        headline=f"{plural(number, 'partition')} without a leader{names}: nobody can read or write them.",
        brokers=tuple(broker for broker, now in told.items() if now > 0),
        groups=_readers(all_of, lost),
        strains=tuple(_strain(broker, "offline", now, "partitions", 0) for broker, now in told.items() if now > 0),
        actions=(
            Action(
                title="See which replicas they have, and start those brokers again: a replica in sync takes over without loss",
                command=tools.list_leaderless(),
                verify="no partition is listed",
            ),
        ),
    )


def _under_replicated(all_of: Neighbourhood, tools: Tools) -> Iterator[BrokerFinding]:
    told = {broker: now for broker in all_of.servers if (now := _now(all_of, broker, "under_replicated")) is not None}
    # Short for most of the recent time: a restart of one broker takes less.
    leading = {broker: now for broker, now in told.items() if now > MOST}
    if not leading and not (all_of.short and "under_replicated" in all_of.absent):
        return
    short = all_of.short
    number = max(len(short), round(sum(leading.values())))
    at_risk: dict[str, int] = {}
    for (group, topic, partition), waits in all_of.unread.items():
        if (topic, partition) in short and waits > 0:
            at_risk[group] = at_risk.get(group, 0) + round(waits)
    min_isr = sum(_now(all_of, broker, "under_min_isr") or 0.0 for broker in leading)
    names = f" ({_named(short)})" if short else ""
    refused = f" Writes with acks=all to {plural(round(min_isr), 'partition')} are refused." if min_isr > MOST else ""
    unread = f"{counted(sum(at_risk.values()), 'message')} there"
    risk = f" {plural(len(at_risk), 'group')} may lose what {'it has' if len(at_risk) == 1 else 'they have'} not read: {unread}."
    yield BrokerFinding(
        verdict=BrokerVerdict.UNDER_REPLICATED,
        headline=f"{plural(number, 'partition')} without all replicas in sync{names}.{refused}{risk if at_risk else ''}",
        brokers=tuple(leading) or tuple(sorted({it for part in short if (it := all_of.leaders.get(part)) is not None})),
        groups=_readers(all_of, short),
        at_risk=at_risk,
        strains=tuple(
            _strain(
                broker, "under_replicated", now, "partitions", MOST, before=_before(all_of, broker, "under_replicated")
            )
            for broker, now in leading.items()
        ),
        actions=(
            Action(
                title="See which broker is missing among the replicas in sync: it is down, or too slow to follow",
                command=tools.list_short(),
                verify="no partition is listed",
            ),
        ),
    )


def _queue_full(all_of: Neighbourhood) -> Iterator[BrokerFinding]:
    for broker in sorted(all_of.servers):
        idle = _now(all_of, broker, "request_handler_idle")
        waits = {kind: it for kind in _KINDS if (it := _now(all_of, broker, "request_queue_time", kind)) is not None}
        strains: list[Strain] = []
        slow = {kind: it for kind, it in waits.items() if it >= ANSWER_SECONDS}
        if idle is not None and idle < PART and slow:
            strains.append(_strain(broker, "request_handler_idle", idle, "of the time", PART))
            strains += [
                _strain(broker, "request_queue_time", it, "s", ANSWER_SECONDS, kind=kind) for kind, it in slow.items()
            ]
        if strains:
            yield BrokerFinding(
                verdict=BrokerVerdict.REQUEST_QUEUE_FULL,
                headline=f"Broker {broker} has more requests than its handlers can take: {_first(strains)}.",
                brokers=(broker,),
                groups=_on(all_of, (broker,)),
                strains=tuple(strains),
                actions=(
                    Action(
                        title="Find who asks so much (many small fetches or batches), and let it ask for more at once; or move leaders"
                        " to other brokers",
                        verify=f"request_handler_idle of broker {broker} is above {percent(PART)}",
                    ),
                ),
            )


def _flush_slow(all_of: Neighbourhood) -> Iterator[BrokerFinding]:
    slow: dict[int, Strain] = {}
    known = 0
    for broker in sorted(all_of.servers):
        now, before = (read(all_of, broker, "log_flush_time") for read in (_now, _before))
        known += now is not None
        if now is not None and now >= max(FLUSH_SECONDS, FAR * (before or 0.0)):
            slow[broker] = _strain(broker, "log_flush_time", now, "s", FLUSH_SECONDS, before=before)
    if slow:
        everywhere = known > 1 and len(slow) > MOST * known
        whose = (
            "most brokers: look at the storage that they share"
            if everywhere
            else f"{_brokers(list(slow))}: look at its disk"
        )
        yield BrokerFinding(
            verdict=BrokerVerdict.FLUSH_SLOW,
            headline=f"Flushes to disk are slow on {whose} ({_first(list(slow.values()))}).",
            brokers=tuple(slow),
            groups=_on(all_of, slow),
            strains=tuple(slow.values()),
            actions=(
                Action(
                    title="Look at the disk's latency and errors (iostat -x, dmesg); move its leaders away until it is well",
                    verify=f"log_flush_time is below {duration(FLUSH_SECONDS)}",
                ),
            ),
        )


def _remote_failing(all_of: Neighbourhood) -> Iterator[BrokerFinding]:
    strains: list[Strain] = []
    seconds = (len(all_of.times) - all_of.first) * all_of.step
    for broker in sorted(all_of.servers):
        for (signal, kind), line in sorted(all_of.servers[broker].items()):
            rate = mean_of(line[all_of.first :]) if signal == "remote_failures" else None
            if rate is not None and round(rate * seconds) >= SEVERAL:
                strains.append(_strain(broker, signal, rate * seconds, "in the window", SEVERAL, kind=kind))
    if strains:
        brokers = tuple(dict.fromkeys(it.broker for it in strains))
        reads = any(it.kind.startswith("RemoteFetch") for it in strains)
        hit = "groups that read old records get no answer" if reads else "segments stay on the disk, which fills up"
        yield BrokerFinding(
            verdict=BrokerVerdict.REMOTE_STORAGE_FAILING,
            headline=f"Remote storage fails on {_brokers(brokers)}: {_first(strains)}; {hit}.",
            brokers=brokers,
            groups=_on(all_of, brokers) if reads else (),
            strains=tuple(strains),
            actions=(
                Action(
                    title="Look at the brokers' logs for RemoteLogManager, and at the store's own errors, rights and limits",
                    verify="remote_failures no longer grows",
                ),
            ),
        )


def _slow(all_of: Neighbourhood, blamed: Impact, limits: Thresholds) -> Iterator[BrokerFinding]:
    accused = {broker for it in blamed.causes for broker in it.offender.brokers}
    span = Span(all_of.first, len(all_of.times), False)
    held = HeldUp(all_of, limits).at(span)
    for broker in sorted(set(all_of.servers) - accused):
        others = [it for it in all_of.brokers if it != broker]
        here, there = {group for group, on in held if on == broker}, {group for group, on in held if on != broker}
        served = _on(all_of, (broker,))
        strains = tuple(
            it for it in strains_of(all_of, broker, span.begin, span.end, peers=others) if it.evidence.unit == "s"
        )
        # Everybody on this broker and nobody elsewhere: one group's network would hold up that group, on every broker.
        if strains and others and len(served) > 1 and len(here) > MOST * len(served) and not there:
            yield BrokerFinding(
                verdict=BrokerVerdict.SLOW_BROKER,
                headline=f"Broker {broker} is slow for everybody: {len(here)} of {plural(len(served), 'group')} on it wait, none on the"
                f" others ({_first(strains)}).",
                brokers=(broker,),
                groups=tuple(sorted(here)),
                strains=strains,
                actions=(
                    Action(
                        title=f"Look at disk, processor, memory and network of broker {broker}; move its leaders away until it is well",
                        verify="its request times are those of its peers, and the groups catch up",
                    ),
                ),
            )


def _moving(all_of: Neighbourhood) -> Iterator[BrokerFinding]:
    strains: list[Strain] = []
    for broker in sorted(all_of.servers):
        line: FloatArray | None = all_of.servers[broker].get(("coordinator_partitions", "active"))
        loading = all_of.servers[broker].get(("coordinator_partitions", "loading"))
        if loading is not None and np.nansum(loading[all_of.first :]) > 0:
            strains.append(
                _strain(broker, "coordinator_partitions", float(np.nanmax(loading)), "partitions", 0, kind="loading")
            )
        before = mean_of(line[: all_of.first]) if line is not None else None
        if (
            line is not None
            and before is not None
            and (now := mean_of(line[-1:])) is not None
            and round(now) != round(before)
        ):
            strains.append(
                _strain(broker, "coordinator_partitions", now, "partitions", before, kind="active", before=before)
            )
    moved = {group: ids for group, ids in all_of.coordinators.items() if len(ids) > 1}
    if strains or len(moved) >= SEVERAL:
        left = sorted({ids[0] for ids in moved.values()}) or sorted(
            it.broker for it in strains if (it.evidence.value or 0) < (it.evidence.baseline or 0)
        )
        yield BrokerFinding(
            verdict=BrokerVerdict.COORDINATOR_MOVING,
            headline=f"Coordinators of groups have moved{f' away from {_brokers(left)}' if left else ''}:"
            " all of their groups find a new one and may rebalance at once.",
            brokers=tuple(left or dict.fromkeys(it.broker for it in strains)),
            groups=tuple(sorted(moved)),
            strains=tuple(strains),
            actions=(
                Action(
                    title="See whether a broker was restarted or lost: it is one cause, whatever the number of groups",
                    verify="no group has a new coordinator, and none rebalances",
                ),
            ),
        )


def _first(strains: Sequence[Strain]) -> str:
    one = strains[0].evidence
    return f"{one.signal} {quantity(one.value, one.unit)}"
