"""Verdicts about brokers: what is wrong with one of them, or with replication, and which groups it hits. One finding with its victims.

A verdict without the signals that it needs is open: it is listed with their names, and never taken for a no.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np

from workbench.features.broker_features import FloatArray, Neighbourhood
from workbench.humanize import count, counted, duration, listed, numbered, percent, plural
from workbench.judgement_numbers import (
    ANSWER_SECONDS,
    FAR,
    FEW_SAMPLES,
    FLUSH_SECONDS,
    MOST,
    PART,
    RECENT,
    SEVERAL,
    TENTH,
)
from workbench.queues.tool_words import Tools
from workbench.thresholds import Thresholds
from workbench.triage.broker_findings import (
    BrokerFinding,
    BrokerLook,
    BrokerVerdict,
    brokers_of,
    finding_of,
    first_words,
    strain_of,
)
from workbench.triage.broker_strains import mean_of, strains_of
from workbench.triage.groups_slowed_by_broker import HeldUp, Span
from workbench.triage.who_holds_up_whom import Impact, Strain, named

# So many requests a second that they would keep a whole handler busy if each took as long as none does on a broker that is well.
_MANY_PER_SECOND = 1 / ANSWER_SECONDS
_KINDS = ("Produce", "FetchConsumer", "FetchFollower")


# Of each verdict, alternatives for each signal that it needs.
NEEDS: Mapping[BrokerVerdict, tuple[set[str], ...]] = {
    BrokerVerdict.LEADERLESS: ({"leader", "offline"},),
    BrokerVerdict.UNDER_REPLICATED: ({"missing_replicas", "under_replicated"},),
    BrokerVerdict.METADATA_STORM: ({"metadata_requests"}, {"request_handler_idle", "request_queue_time"}),
    BrokerVerdict.REQUEST_QUEUE_FULL: ({"request_handler_idle"}, {"request_queue_time"}),
    BrokerVerdict.FLUSH_SLOW: ({"log_flush_time", "segment_failovers"},),
    BrokerVerdict.REMOTE_STORAGE_FAILING: ({"remote_failures"},),
    BrokerVerdict.SLOW_BROKER: ({"consumer_lag"}, {"leader"}, {"request_local_time"}, {"response_send_time"}),
    BrokerVerdict.COORDINATOR_MOVING: ({"coordinator_partitions"},),
}


def judge_brokers(
    all_of: Neighbourhood, blamed: Impact, limits: Thresholds, tools: Tools, *, no_replicas: str | None = None
) -> BrokerLook:
    """Look at every broker.

    Args:
        blamed: who slows whom: where somebody is accused, a broker is not slow by itself.
        no_replicas: why these brokers have no replicas that could be out of sync; None if they have.
    """
    unsuited = {} if no_replicas is None else {BrokerVerdict.UNDER_REPLICATED: no_replicas}
    found = tuple(it for it in _Brokers(all_of, tools).findings(blamed, limits) if it.verdict not in unsuited)
    seen = {it.verdict for it in found} | unsuited.keys()
    lacking = {
        verdict: tuple(" or ".join(sorted(one)) for one in wanted if one <= all_of.absent)
        for verdict, wanted in NEEDS.items()
    }
    unknown = {verdict: names for verdict, names in lacking.items() if names and verdict not in seen}
    return BrokerLook(findings=found, unknown=unknown, unsuited=unsuited, silent=_silent(all_of))


def _silent(all_of: Neighbourhood) -> tuple[int, ...]:
    """Brokers whose page was there and is not at the end, while another one is: then it is not our own way to all of them."""
    known = {broker: ~np.isnan(np.vstack(list(own.values()))) for broker, own in all_of.servers.items() if own}
    tells = {broker for broker, lines in known.items() if lines[:, -int(FEW_SAMPLES) :].any()}
    return tuple(broker for broker, lines in known.items() if tells and broker not in tells and lines.any())


class _Brokers:
    """The brokers of a cluster, and what is wrong with them, a verdict each."""

    def __init__(self, all_of: Neighbourhood, tools: Tools) -> None:
        self._all, self._tools = all_of, tools
        self._ids = sorted(all_of.servers)
        # The last third of the window.
        self._span = Span(all_of.first, len(all_of.times), False)
        recent = max(1, round((len(all_of.times) - all_of.first) * RECENT))
        self._recent, self._before = slice(len(all_of.times) - recent, None), slice(all_of.first)

    def findings(self, blamed: Impact, limits: Thresholds) -> Iterator[BrokerFinding]:
        """Worst first."""
        yield from self._leaderless()
        yield from self._under_replicated()
        yield from self._storm(limits)
        yield from self._queue_full()
        yield from self._flush_slow()
        yield from self._remote_failing()
        yield from self._slow(blamed, limits)
        yield from self._moving()

    def _mean(self, part: slice, broker: int, signal: str, kind: str = "value") -> float | None:
        line = self._all.servers[broker].get((signal, kind))
        return None if line is None else mean_of(line[part])

    def _means(self, part: slice, signal: str) -> dict[int, float]:
        """Of the brokers that tell a signal in a part of the grid, its mean there."""
        return {it: mean for it in self._ids if (mean := self._mean(part, it, signal)) is not None}

    def _now(self, signal: str) -> dict[int, float]:
        """The same lately."""
        return self._means(self._recent, signal)

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
            yield finding_of(
                BrokerVerdict.LEADERLESS,
                f"{plural(number, 'partition')} without a leader{names}: nobody can read or write them.",
                [strain_of(broker, "offline", now, "partitions", 0) for broker, now in told.items() if now > 0],
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
        found = finding_of(
            BrokerVerdict.UNDER_REPLICATED,
            f"{plural(number, 'partition')} without all replicas in sync{names}.{refused}{risk if at_risk else ''}",
            [
                strain_of(broker, signal, now, "partitions", MOST, before=self._mean(self._before, broker, signal))
                for broker, now in leading.items()
            ],
            self._readers(short),
            "See which broker is missing among the replicas in sync: it is down, or too slow to follow",
            "no partition is listed",
            self._tools.list_short(),
        )
        leaders = {it for part in short if (it := self._all.leaders.get(part)) is not None}
        yield replace(found, at_risk=at_risk, brokers=found.brokers or tuple(sorted(leaders)))

    def _storm(self, limits: Thresholds) -> Iterator[BrokerFinding]:
        signal = "metadata_requests"
        now, before = self._now(signal), self._means(self._before, signal)
        limit = {it: FAR * usual for it, usual in before.items() if it in now}
        # Everywhere at once: who asks one broker alone asks for something that is there. Clients share their requests out unevenly, so
        # that all together are many.
        serving = {it for it in self._all.leaders.values() if it is not None} or set(self._ids)
        if len(limit) <= MOST * len(serving) or any(now[it] < least for it, least in limit.items()):
            return
        if sum(now[it] for it in limit) < _MANY_PER_SECOND * len(limit):
            return
        busier = [one for it in limit for one in self._busier(it)]
        if len(brokers_of(busier)) <= MOST * len(limit):
            return
        strains = [strain_of(it, signal, now[it], "per second", limit[it], before=before[it]) for it in limit]
        who, client = self._who_asks()
        least = min(limit, key=lambda it: now[it])
        waiting = {group for group, _ in HeldUp(self._all, limits).at(self._span)}
        yield finding_of(
            BrokerVerdict.METADATA_STORM,
            f"Clients ask every broker for metadata far more than usual ({count(now[least])}/s at least, before"
            f" {count(before[least])}/s), and their handlers get busier. {who}",
            [*strains, *busier],
            sorted(waiting),
            f"Look at {client}: made anew for each record, told of topics that do not exist, or all restarted at once? Reuse"
            " clients, restart them in steps, and raise retry.backoff.ms and metadata.max.age.ms where they are low",
            f"metadata_requests are below {_MANY_PER_SECOND:g}/s for each broker on average, or what they were before",
            self._tools.list_quotas(),
        )

    def _busier(self, broker: int) -> Iterator[Strain]:
        """What its request handlers show: less idle, or requests that wait for them."""
        idle, was = (self._mean(it, broker, "request_handler_idle") for it in (self._recent, self._before))
        if idle is not None and was is not None and was - idle >= TENTH:
            yield strain_of(broker, "request_handler_idle", idle, "of the time", was - TENTH, before=was)
        signal = "request_queue_time"
        for kind in _KINDS:
            waits, waited = (self._mean(it, broker, signal, kind) for it in (self._recent, self._before))
            limit = max(ANSWER_SECONDS, FAR * (waited or 0.0))
            if waits is not None and waited is not None and waits >= limit:
                yield strain_of(broker, signal, waits, "s", limit, kind, before=waited)

    def _who_asks(self) -> tuple[str, str]:
        """The client id whose requests take most of what brokers work more than before, in a sentence and as an object."""
        nobody = "the clients that ask so much (brokers log them at kafka.request.logger)"
        if not self._all.askers:
            return "Who asks cannot be told: brokers measure clients only where a request quota exists.", nobody
        means = {
            key: tuple(mean_of(line[part]) for part in (self._before, self._recent))
            for key, line in self._all.askers.items()
        }
        if not any(before for before, _ in means.values()):  # a quota that has just been set
            return "Who asks cannot be told: brokers did not measure clients before.", nobody
        rise: dict[str, float] = {}
        for (client, _), (before, now) in means.items():
            if before is not None and now is not None:
                rise[client] = rise.get(client, 0.0) + max(0.0, now - before)
        most, whole = max(rise, key=lambda it: rise[it], default=""), sum(rise.values())
        if whole <= 0 or rise[most] <= MOST * whole:
            return "No client id makes most of it.", nobody
        words, share = named("client", most), percent(rise[most] / whole)
        return (
            f"{words[:1].upper()}{words[1:]} accounts for {share} of the extra time that requests take of their threads.",
            words,
        )

    def _queue_full(self) -> Iterator[BrokerFinding]:
        for broker, idle in self._now("request_handler_idle").items():
            signal = "request_queue_time"
            waits = ((self._mean(self._recent, broker, signal, kind), kind) for kind in _KINDS)
            slow = [
                strain_of(broker, signal, it, "s", ANSWER_SECONDS, kind)
                for it, kind in waits
                if it is not None and it >= ANSWER_SECONDS
            ]
            if idle < PART and slow:
                strains = [strain_of(broker, "request_handler_idle", idle, "of the time", PART), *slow]
                yield finding_of(
                    BrokerVerdict.REQUEST_QUEUE_FULL,
                    f"Broker {broker} has more requests than its handlers can take: {first_words(strains)}.",
                    strains,
                    self._on((broker,)),
                    "Find who asks so much (many small fetches or batches), and let it ask for more at once; or move leaders"
                    " to other brokers",
                    f"request_handler_idle of broker {broker} is above {percent(PART)}",
                )

    def _flush_slow(self) -> Iterator[BrokerFinding]:
        signal, failovers = "log_flush_time", "segment_failovers"
        known = self._now(signal)
        before = {broker: self._mean(self._before, broker, signal) for broker in known}
        slow = [it for it, now in known.items() if now >= max(FLUSH_SECONDS, FAR * (before[it] or 0.0))]
        strains = [strain_of(it, signal, known[it], "s", FLUSH_SECONDS, before=before[it]) for it in slow]
        told = {it: lines for it in self._ids if (lines := self._times(it, failovers)) is not None}
        for broker, (usual, times) in told.items():
            if round(times) >= max(SEVERAL, FAR * usual):
                strains.append(strain_of(broker, failovers, times, "in the window", SEVERAL, before=usual))
        if strains:
            brokers, asked = brokers_of(strains), known.keys() | told.keys()
            own = "look at its disk" if slow else "look at the slow nodes of the store that it writes to"
            where = f"{numbered('broker', brokers)}: {own}"
            if len(asked) > 1 and len(brokers) > MOST * len(asked):
                where = "most brokers: look at the storage that they share"
            below = f"{signal} is below {duration(FLUSH_SECONDS)}" if slow else f"{failovers} no longer grows"
            yield finding_of(
                BrokerVerdict.FLUSH_SLOW,
                f"Flushes to disk are slow on {where} ({first_words(strains)}).",
                strains,
                self._on(brokers),
                "Look at the disk's latency and errors (iostat -x, dmesg); move its leaders away until it is well"
                if slow
                else "Look for slow nodes in the store that brokers write to; move no partitions: a new segment goes elsewhere",
                below,
            )

    def _times(self, broker: int, signal: str) -> tuple[float, float] | None:
        """How often a thing usually happens in as much time as the window has, and how often it did in it; None: not told."""
        line = self._all.servers[broker].get((signal, "value"))
        first = self._all.first
        if line is None or mean_of(line[first:]) is None:
            return None
        lasts = len(self._all.times) - first
        return (mean_of(line[:first]) or 0.0) * lasts * self._all.step, self._counted(line)

    def _counted(self, line: FloatArray) -> float:
        """How often a thing has happened in the window, by its rate."""
        return float(np.nansum(line[self._all.first :])) * self._all.step

    def _remote_failing(self) -> Iterator[BrokerFinding]:
        lines = [(broker, key, line) for broker in self._ids for key, line in sorted(self._all.servers[broker].items())]
        strains = [
            strain_of(broker, signal, times, "in the window", SEVERAL, kind)
            for broker, (signal, kind), line in lines
            if signal == "remote_failures" and round(times := self._counted(line)) >= SEVERAL
        ]
        if strains:
            brokers = brokers_of(strains)
            reads = any(it.kind.startswith("RemoteFetch") for it in strains)
            hit = "groups that read old records get no answer" if reads else "segments stay on the disk, which fills up"
            yield finding_of(
                BrokerVerdict.REMOTE_STORAGE_FAILING,
                f"Remote storage fails on {numbered('broker', brokers)}: {first_words(strains)}; {hit}.",
                strains,
                self._on(brokers) if reads else (),
                "Look at the brokers' logs for RemoteLogManager, and at the store's own errors, rights and limits",
                "remote_failures no longer grows",
            )

    def _slow(self, blamed: Impact, limits: Thresholds) -> Iterator[BrokerFinding]:
        accused = {broker for it in blamed.causes for broker in it.offender.brokers}
        span = self._span
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
                yield finding_of(
                    BrokerVerdict.SLOW_BROKER,
                    f"Broker {broker} is slow for everybody: {len(here)} of {plural(len(served), 'group')} on it wait,"
                    f" {len(there) or 'none'} of {len(elsewhere)} on the others ({first_words(strains)}).",
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
                strains.append(strain_of(broker, signal, float(np.nanmax(loading)), "partitions", 0, "loading"))
            # As it was when the window began: what moved long before says nothing of now.
            parts = [] if line is None else [line[: first + 1], line[first:]]
            before, now = [mean_of(it[~np.isnan(it)][-1:]) for it in parts] or (None, None)
            if before is not None and now is not None and round(now) != round(before):
                strains.append(strain_of(broker, signal, now, "partitions", before, "active", before=before))
        moved = {group: ids for group, ids in self._all.coordinators.items() if len(ids) > 1}
        if strains or len(moved) >= SEVERAL:
            left = sorted({ids[0] for ids in moved.values()}) or sorted(
                it.broker for it in strains if (it.evidence.value or 0) < (it.evidence.baseline or 0)
            )
            away = f" away from {numbered('broker', left)}" if left else ""
            found = finding_of(
                BrokerVerdict.COORDINATOR_MOVING,
                f"Coordinators of groups have moved{away}:"
                " all of their groups find a new one and may rebalance at once.",
                strains,
                sorted(moved),
                "See whether a broker was restarted or lost: it is one cause, whatever the number of groups",
                "no group has a new coordinator, and none rebalances",
            )
            yield replace(found, brokers=tuple(left) or found.brokers)


def _named(partitions: Collection[tuple[str, int]]) -> str:
    return listed([f"{topic}-{number}" for topic, number in sorted(partitions)], most=5)
