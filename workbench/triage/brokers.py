"""Verdicts about brokers: what is wrong with one of them, or with replication, and which groups it hits. One finding with its victims.

A verdict without the signals that it needs is open: it is listed with their names, and never taken for a no.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from workbench.features.servers import Neighbourhood
from workbench.humanize import counted, duration, listed, numbered, percent, plural, quantity
from workbench.numbers import ANSWER_SECONDS, FAR, FLUSH_SECONDS, MOST, PART, RECENT, SEVERAL, TENTH
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


# Of each verdict, alternatives for each signal that it needs.
_NEEDS = {
    BrokerVerdict.LEADERLESS: ({"leader", "offline"},),
    BrokerVerdict.UNDER_REPLICATED: ({"missing_replicas", "under_replicated"},),
    BrokerVerdict.REQUEST_QUEUE_FULL: ({"request_handler_idle"}, {"request_queue_time"}),
    BrokerVerdict.FLUSH_SLOW: ({"log_flush_time"},),
    BrokerVerdict.REMOTE_STORAGE_FAILING: ({"remote_failures"},),
    BrokerVerdict.SLOW_BROKER: ({"consumer_lag"}, {"leader"}, {"request_local_time"}, {"response_send_time"}),
    BrokerVerdict.COORDINATOR_MOVING: ({"coordinator_partitions"},),
}


def judge_brokers(all_of: Neighbourhood, blamed: Impact, limits: Thresholds, tools: Tools) -> BrokerLook:
    """Look at every broker.

    Args:
        all_of: brokers and everybody that they serve.
        blamed: who slows whom: where somebody is accused, a broker is not slow by itself.
        limits: what counts as late.
        tools: commands.
    """
    found = tuple(_Brokers(all_of, tools).findings(blamed, limits))
    seen = {it.verdict for it in found}
    unknown = {
        verdict: tuple(" or ".join(sorted(one)) for one in wanted if one <= all_of.absent)
        for verdict, wanted in _NEEDS.items()
        if verdict not in seen
    }
    return BrokerLook(findings=found, unknown={verdict: names for verdict, names in unknown.items() if names})


class _Brokers:
    """The brokers of a cluster, and what is wrong with them, a verdict each."""

    def __init__(self, all_of: Neighbourhood, tools: Tools) -> None:
        self._all, self._tools = all_of, tools
        self._ids = sorted(all_of.servers)
        # The last third of the window.
        recent = max(1, round((len(all_of.times) - all_of.first) * RECENT))
        self._recent, self._before = slice(len(all_of.times) - recent, None), slice(all_of.first)

    def findings(self, blamed: Impact, limits: Thresholds) -> Iterator[BrokerFinding]:
        """Worst first."""
        yield from self._leaderless()
        yield from self._under_replicated()
        yield from self._queue_full()
        yield from self._flush_slow()
        yield from self._remote_failing()
        yield from self._slow(blamed, limits)
        yield from self._moving()

    def _mean(self, part: slice, broker: int, signal: str, kind: str = "value") -> float | None:
        line = self._all.servers[broker].get((signal, kind))
        return None if line is None else mean_of(line[part])

    def _now(self, signal: str, kind: str = "value") -> dict[int, float]:
        """Of the brokers that tell a signal, its mean lately."""
        found = {broker: self._mean(self._recent, broker, signal, kind) for broker in self._ids}
        return {broker: now for broker, now in found.items() if now is not None}

    def _readers(self, partitions: Collection[tuple[str, int]]) -> tuple[str, ...]:
        return tuple(sorted({group for part in partitions for group in self._all.readers.get(part, ())}))

    def _on(self, brokers: Collection[int]) -> tuple[str, ...]:
        return tuple(sorted({group for group, broker in self._all.groups if broker in brokers}))

    def _leaderless(self) -> Iterator[BrokerFinding]:
        lost = {part for part, leader in self._all.leaders.items() if leader is None}
        told = self._now("offline")
        number = max(len(lost), round(max(told.values(), default=0.0)))
        if number:
            names = f" ({_named(lost)})" if lost else ""
            yield _finding(
                BrokerVerdict.LEADERLESS,
                f"{plural(number, 'partition')} without a leader{names}: nobody can read or write them.",
                [_strain(broker, "offline", now, "partitions", 0) for broker, now in told.items() if now > 0],
                self._readers(lost),
                "See which replicas they have, and start those brokers again: a replica in sync takes over without loss",
                "no partition is listed",
                self._tools.list_leaderless(),
            )

    def _under_replicated(self) -> Iterator[BrokerFinding]:
        # Short for most of the recent time: a restart of one broker takes less.
        told = self._now("under_replicated")
        leading = {broker: now for broker, now in told.items() if now > MOST}
        # Of those whose leader says nothing of it, what Kafka's metadata say counts.
        short = {part: it for part, it in self._all.short.items() if leading or self._all.leaders.get(part) not in told}
        if not leading and not short:
            return
        number = max(len(short), round(sum(leading.values())))
        at_risk: dict[str, int] = {}
        for (group, topic, partition), waits in self._all.unread.items():
            if (topic, partition) in short and waits > 0:
                at_risk[group] = at_risk.get(group, 0) + round(waits)
        min_isr = sum(now for broker, now in self._now("under_min_isr").items() if broker in leading)
        names = f" ({_named(short)})" if short else ""
        refused = (
            f" Writes with acks=all to {plural(round(min_isr), 'partition')} are refused." if min_isr > MOST else ""
        )
        unread = f"{counted(sum(at_risk.values()), 'message')} there"
        risk = f" {plural(len(at_risk), 'group')} may lose what {'it has' if len(at_risk) == 1 else 'they have'} not read: {unread}."
        signal = "under_replicated"
        found = _finding(
            BrokerVerdict.UNDER_REPLICATED,
            f"{plural(number, 'partition')} without all replicas in sync{names}.{refused}{risk if at_risk else ''}",
            [
                _strain(broker, signal, now, "partitions", MOST, before=self._mean(self._before, broker, signal))
                for broker, now in leading.items()
            ],
            self._readers(short),
            "See which broker is missing among the replicas in sync: it is down, or too slow to follow",
            "no partition is listed",
            self._tools.list_short(),
        )
        leaders = {it for part in short if (it := self._all.leaders.get(part)) is not None}
        yield replace(found, at_risk=at_risk, brokers=found.brokers or tuple(sorted(leaders)))

    def _queue_full(self) -> Iterator[BrokerFinding]:
        for broker, idle in self._now("request_handler_idle").items():
            waits = {kind: self._mean(self._recent, broker, "request_queue_time", kind) for kind in _KINDS}
            slow = {kind: it for kind, it in waits.items() if it is not None and it >= ANSWER_SECONDS}
            if idle < PART and slow:
                strains = [
                    _strain(broker, "request_handler_idle", idle, "of the time", PART),
                    *(
                        _strain(broker, "request_queue_time", it, "s", ANSWER_SECONDS, kind)
                        for kind, it in slow.items()
                    ),
                ]
                yield _finding(
                    BrokerVerdict.REQUEST_QUEUE_FULL,
                    f"Broker {broker} has more requests than its handlers can take: {_first(strains)}.",
                    strains,
                    self._on((broker,)),
                    "Find who asks so much (many small fetches or batches), and let it ask for more at once; or move leaders"
                    " to other brokers",
                    f"request_handler_idle of broker {broker} is above {percent(PART)}",
                )

    def _flush_slow(self) -> Iterator[BrokerFinding]:
        signal = "log_flush_time"
        known = self._now(signal)
        before = {broker: self._mean(self._before, broker, signal) for broker in known}
        slow = [it for it, now in known.items() if now >= max(FLUSH_SECONDS, FAR * (before[it] or 0.0))]
        if slow:
            strains = [_strain(it, signal, known[it], "s", FLUSH_SECONDS, before=before[it]) for it in slow]
            everywhere = len(known) > 1 and len(slow) > MOST * len(known)
            most = "most brokers: look at the storage that they share"
            where = most if everywhere else f"{numbered('broker', slow)}: look at its disk"
            yield _finding(
                BrokerVerdict.FLUSH_SLOW,
                f"Flushes to disk are slow on {where} ({_first(strains)}).",
                strains,
                self._on(slow),
                "Look at the disk's latency and errors (iostat -x, dmesg); move its leaders away until it is well",
                f"log_flush_time is below {duration(FLUSH_SECONDS)}",
            )

    def _remote_failing(self) -> Iterator[BrokerFinding]:
        strains: list[Strain] = []
        first = self._all.first
        for broker in self._ids:
            for (signal, kind), line in sorted(self._all.servers[broker].items()):
                times = float(np.nansum(line[first:])) * self._all.step if signal == "remote_failures" else 0.0
                if round(times) >= SEVERAL:
                    strains.append(_strain(broker, signal, times, "in the window", SEVERAL, kind))
        if strains:
            brokers = _of(strains)
            reads = any(it.kind.startswith("RemoteFetch") for it in strains)
            hit = "groups that read old records get no answer" if reads else "segments stay on the disk, which fills up"
            yield _finding(
                BrokerVerdict.REMOTE_STORAGE_FAILING,
                f"Remote storage fails on {numbered('broker', brokers)}: {_first(strains)}; {hit}.",
                strains,
                self._on(brokers) if reads else (),
                "Look at the brokers' logs for RemoteLogManager, and at the store's own errors, rights and limits",
                "remote_failures no longer grows",
            )

    def _slow(self, blamed: Impact, limits: Thresholds) -> Iterator[BrokerFinding]:
        accused = {broker for it in blamed.causes for broker in it.offender.brokers}
        span = Span(self._all.first, len(self._all.times), False)
        held = HeldUp(self._all, limits).at(span)
        for broker in (it for it in self._ids if it not in accused):
            others = [it for it in self._all.brokers if it != broker]
            here, there = ({group for group, on in held if (on == broker) is same} for same in (True, False))
            here -= there  # these are slow by themselves
            served, elsewhere = self._on((broker,)), self._on(others)
            signals = strains_of(self._all, broker, span.begin, span.end, peers=others)
            strains = [it for it in signals if it.evidence.unit == "s"]
            # Most on this broker, and few elsewhere: a slow network would hold groups up on every broker.
            is_here = len(served) > 1 and len(here) > MOST * len(served)
            if strains and elsewhere and is_here and len(there) / len(elsewhere) <= TENTH * len(here) / len(served):
                yield _finding(
                    BrokerVerdict.SLOW_BROKER,
                    f"Broker {broker} is slow for everybody: {len(here)} of {plural(len(served), 'group')} on it wait,"
                    f" {len(there) or 'none'} of {len(elsewhere)} on the others ({_first(strains)}).",
                    strains,
                    sorted(here),
                    f"Look at disk, processor, memory and network of broker {broker}; move its leaders away until it is well",
                    "its request times are those of its peers, and the groups catch up",
                )

    def _moving(self) -> Iterator[BrokerFinding]:
        signal, first = "coordinator_partitions", self._all.first
        strains: list[Strain] = []
        for broker in self._ids:
            line, loading = (self._all.servers[broker].get((signal, kind)) for kind in ("active", "loading"))
            if loading is not None and np.nansum(loading[first:]) > 0:
                strains.append(_strain(broker, signal, float(np.nanmax(loading)), "partitions", 0, "loading"))
            # As it was when the window began: what moved long before says nothing of now.
            known = [None if line is None else line[part] for part in (slice(first + 1), slice(first, None))]
            before, now = (None if it is None else mean_of(it[~np.isnan(it)][-1:]) for it in known)
            if before is not None and now is not None and round(now) != round(before):
                strains.append(_strain(broker, signal, now, "partitions", before, "active", before=before))
        moved = {group: ids for group, ids in self._all.coordinators.items() if len(ids) > 1}
        if strains or len(moved) >= SEVERAL:
            left = sorted({ids[0] for ids in moved.values()}) or sorted(
                it.broker for it in strains if (it.evidence.value or 0) < (it.evidence.baseline or 0)
            )
            away = f" away from {numbered('broker', left)}" if left else ""
            found = _finding(
                BrokerVerdict.COORDINATOR_MOVING,
                f"Coordinators of groups have moved{away}:"
                " all of their groups find a new one and may rebalance at once.",
                strains,
                sorted(moved),
                "See whether a broker was restarted or lost: it is one cause, whatever the number of groups",
                "no group has a new coordinator, and none rebalances",
            )
            yield replace(found, brokers=tuple(left) or found.brokers)


def _finding(
    verdict: BrokerVerdict,
    headline: str,
    strains: Sequence[Strain],
    groups: Iterable[str],
    title: str,
    verify: str,
    command: str | None = None,
) -> BrokerFinding:
    """A finding about the brokers that are strained, with the one action that comes first."""
    return BrokerFinding(
        verdict=verdict,
        headline=headline,
        brokers=_of(strains),
        groups=tuple(groups),
        strains=tuple(strains),
        actions=(Action(title=title, command=command, verify=verify),),
    )


def _of(strains: Iterable[Strain]) -> tuple[int, ...]:
    """Brokers that are strained, each once."""
    return tuple(dict.fromkeys(it.broker for it in strains))


def _strain(
    broker: int, signal: str, value: float, unit: str, limit: float, kind: str = "", *, before: float | None = None
) -> Strain:
    evidence = Evidence(signal=signal, value=value, unit=unit, threshold=limit, baseline=before)
    return Strain(broker=broker, kind=kind, evidence=evidence)


def _named(partitions: Collection[tuple[str, int]]) -> str:
    return listed([f"{topic}-{number}" for topic, number in sorted(partitions)], most=5)


def _first(strains: Sequence[Strain]) -> str:
    one = strains[0].evidence
    return f"{one.signal} {quantity(one.value, one.unit)}"
