"""Breakers of gateways, replayed from counters: what each sent to a normal and to a failover cluster, and how much of it failed.

Measured, over blocks of at least the breaker's window and one scrape: the share that goes to failover, and the share that fails.
Inferred: a breaker is open while clearly more than stray records go to failover. That it is half open, counters do not show; where a
gauge tells the state, that counts. A change that lasts for two blocks is surely seen, and one that is seen did happen: numbers of
changes are at least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, groupby, pairwise, takewhile

import numpy as np

from workbench.breaker_settings import BreakerSettings
from workbench.history.gateway_counts import Process
from workbench.history.partition_series import stretches
from workbench.humanize import clock, listed, plural
from workbench.judgement_numbers import LESS, MISSED, NOISE, SEVERAL
from workbench.window import Window

_OPEN = ("open", "half_open", "forced_open")


class BreakerState(StrEnum):
    """State of the normal destination's breaker; FAILING: it should be open, and nothing is diverted."""

    CLOSED = "closed"
    OPEN = "open"
    FAILING = "failing"
    UNKNOWN = "unknown"


Told = tuple[float, BreakerState]  # seconds before the window's end, and the state then


class BreakerFault(StrEnum):
    """What is wrong with a breaker."""

    OPEN = "open"
    FLAPPING = "flapping"
    BOTH_OPEN = "both open"
    NOT_DIVERTED = "not diverted"
    PINNED = "pinned"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerBlock:
    """A piece of time; seconds before the window's end.

    Attributes:
        sends: records that ended at either destination.
        failover_share: of them, sent to failover; None: it is not known whether there is one.
        failed, failover_failed: share of failures at each; None: not told, or too few sends.
    """

    since: float
    until: float
    sends: float
    failover_share: float | None
    failed: float | None
    failover_failed: float | None
    state: BreakerState


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerFinding:
    """One fault.

    Attributes:
        since, until: seconds since the epoch; of until, the last sample that shows it.
        is_told: by a gauge of the state; else inferred or measured from counters.
        failover_share, failed, failover_failed: as of `BreakerBlock`, over that time; of pinned, the highest share over `pinned_for`.
        changes: between closed and open, at least; of flapping.
    """

    fault: BreakerFault
    since: float
    until: float
    is_told: bool = False
    failover_share: float | None = None
    failed: float | None = None
    failover_failed: float | None = None
    changes: int | None = None

    @property
    def words(self) -> str:
        """The fault, when, and how much went where, for people."""
        shares = (
            ("of records went to failover", self.failover_share),
            ("of sends to the normal cluster failed", self.failed),
            ("of those to failover", self.failover_failed),
        )
        told = [f"{value:.1%} {words}" for words, value in shares if value is not None]
        if self.changes is not None:
            told.append(f"{plural(self.changes, 'change')} of state, or more")
        how = " (by its gauge)" if self.is_told else ""
        return f"{self.fault}{how}: {clock(self.since)} to {clock(self.until)}{': ' if told else ''}{listed(told)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """The breaker of one gateway.

    Attributes:
        state: at the last block, or by the last sample of a gauge.
        until: of that, seconds since the epoch.
        is_told: whether a gauge tells the state.
        changes: between closed and open, in the window, at least.
        failover_share: of the window's records, sent to failover; None: not known.
        resolution_seconds: what lasts for twice as long is surely seen; None: nothing is.
        missing: what it does not tell.
    """

    gateway: str
    state: BreakerState
    until: float | None
    is_told: bool
    changes: int
    failover_share: float | None
    resolution_seconds: float | None
    findings: tuple[BreakerFinding, ...] = ()
    missing: tuple[str, ...] = ()


def breakers(
    found: Mapping[str, Process], window: Window, settings: BreakerSettings, *, stale_seconds: float
) -> list[Breaker]:
    """The breaker of each process that sends to the normal destination or tells its breaker's state; others have none.

    Of a process that has told nothing for longer than `stale_seconds`, the state is unknown.
    """
    has_failover = not settings.failover or any(_sends(it, settings.failover) for it in found.values())
    return [
        _breaker(name, it, window, settings, has_failover=has_failover, stale_seconds=stale_seconds)
        for name, it in found.items()
        if _sends(it, settings.normal) or _told(it, settings.normal)
    ]


def _sends(process: Process, destination: str) -> bool:
    return any(of == destination for of, _ in process.sends.counted)


def _breaker(
    name: str,
    process: Process,
    window: Window,
    settings: BreakerSettings,
    *,
    has_failover: bool,
    stale_seconds: float,
) -> Breaker:
    blocks = list(_blocks(process, settings, has_failover=has_failover))
    told = _told(process, settings.normal)
    states = told or [(it.until, it.state) for it in blocks]
    fresh_seconds = max(stale_seconds, MISSED * _longest(blocks))
    is_fresh = bool(states) and -states[-1][0] <= fresh_seconds and -process.last_at <= stale_seconds
    state = states[-1][1] if is_fresh else BreakerState.UNKNOWN
    changes = _changes(states)
    here = [it for it in blocks if it.until > -window.seconds]
    faults = [
        *_open_now(blocks, states if is_fresh else [], is_told=bool(told)),
        *_flapping(changes, settings, is_told=bool(told)),
        *_both_open(told, _told(process, settings.failover), blocks, settings),
        *_not_diverted(blocks),
        *_pinned(process, settings),
    ]
    end = window.end.timestamp()
    return Breaker(
        gateway=name,
        state=state,
        until=end + states[-1][0] if states else None,
        is_told=bool(told),
        changes=sum(at > -window.seconds for at in changes),
        failover_share=_mean(here, "failover_share"),
        resolution_seconds=_longest(here) or None,
        findings=tuple(
            replace(it, since=end + it.since, until=end + it.until)
            for it in sorted(faults, key=lambda it: it.since)
            if it.until > -window.seconds
        ),
        missing=tuple(_missing(process, blocks, settings, is_told=bool(told))),
    )


def _longest(blocks: Sequence[BreakerBlock]) -> float:
    return max((it.until - it.since for it in blocks), default=0.0)


def _blocks(process: Process, settings: BreakerSettings, *, has_failover: bool) -> Iterator[BreakerBlock]:
    to_normal, to_failover = process.attempts(settings.normal), process.attempts(settings.failover)
    if to_normal is None:
        return
    counts_failover = to_failover is not None or has_failover  # others tell of it: this one has sent nothing there
    diverted = np.zeros(len(to_normal)) if to_failover is None else to_failover
    failed = process.sends.total([(settings.normal, "failed")])
    failover_failed = process.sends.total([(settings.failover, "failed")])
    at, least, total = process.sends.at, settings.least_sends, to_normal + diverted
    for first, last in process.sends.blocks(total, seconds=settings.window.total_seconds(), least=least):
        part = slice(first + 1, last + 1)
        sends = float(total[part].sum())
        block = BreakerBlock(
            since=float(at[first]),
            until=float(at[last]),
            sends=sends,
            failover_share=float(diverted[part].sum()) / sends if counts_failover else None,
            failed=_ratio(failed, to_normal, part, least),
            failover_failed=_ratio(failover_failed, to_failover, part, least),
            state=BreakerState.UNKNOWN,
        )
        yield replace(block, state=_state(block, settings))


def _ratio(failed: np.ndarray | None, of: np.ndarray | None, part: slice, least: int) -> float | None:
    if failed is None or of is None or (sends := float(of[part].sum())) < least * (1 - NOISE):
        return None
    return float(failed[part].sum()) / sends


def _state(block: BreakerBlock, settings: BreakerSettings) -> BreakerState:
    if block.failover_share is not None and block.failover_share > NOISE:
        return BreakerState.OPEN
    if block.failed is None:
        return BreakerState.UNKNOWN
    return BreakerState.CLOSED if block.failed < settings.opens_at else BreakerState.FAILING


def _told(process: Process, destination: str) -> list[Told]:
    """What a gauge says of a destination's breaker at each scrape, also one that only says whether it is open; or nothing."""
    lines = process.gauges.get("breaker_state", {})
    mine = [(name, line) for (of, name), line in lines.items() if of == destination and name in (*_OPEN, "closed")]
    found = {at: BreakerState.CLOSED for _, line in mine for at in line.at.tolist()}
    is_open = (line.at[line.value > 0].tolist() for name, line in mine if name in _OPEN)
    return sorted((found | dict.fromkeys(chain.from_iterable(is_open), BreakerState.OPEN)).items())


def _open_now(blocks: Sequence[BreakerBlock], states: Sequence[Told], *, is_told: bool) -> Iterator[BreakerFinding]:
    """It is still open: since the last time that it was not."""
    if not states or states[-1][1] is not BreakerState.OPEN:
        return
    since = [at for at, _ in takewhile(lambda it: it[1] is BreakerState.OPEN, reversed(states))][-1]
    if not is_told:  # the records of its first block count, too
        since = next(it.since for it in blocks if it.until == since)
    yield _over(BreakerFault.OPEN, blocks, since, states[-1][0], is_told=is_told)


def _changes(states: Sequence[Told]) -> list[float]:
    """When it was first seen to have opened or closed."""
    known = [(at, it) for at, it in states if it in (BreakerState.OPEN, BreakerState.CLOSED)]
    return [at for (_, one), (at, other) in pairwise(known) if one is not other]


def _flapping(changes: Sequence[float], settings: BreakerSettings, *, is_told: bool) -> Iterator[BreakerFinding]:
    near = int(SEVERAL)
    dense = np.zeros(len(changes), bool)
    for first in range(len(changes) - near + 1):
        if changes[first + near - 1] - changes[first] <= settings.flapping_within.total_seconds():
            dense[first : first + near] = True
    for first, stop in zip(*stretches(dense), strict=True):
        yield BreakerFinding(
            fault=BreakerFault.FLAPPING,
            since=changes[first],
            until=changes[stop - 1],
            is_told=is_told,
            changes=int(stop - first),
        )


def _both_open(
    normal: Sequence[Told], failover: Sequence[Told], blocks: Sequence[BreakerBlock], settings: BreakerSettings
) -> Iterator[BreakerFinding]:
    """Gauges say that both are open; or both fail so much that the breaker of each must be."""

    def is_so(it: BreakerBlock) -> bool:
        shares = (it.failed, it.failover_failed)
        return all(share is not None and share >= settings.opens_at for share in shares)

    other = dict(failover)
    both = [(at, it is other[at] is BreakerState.OPEN) for at, it in normal if at in other]
    for is_open, some in groupby(both, key=lambda it: it[1]):
        if is_open:
            times = [at for at, _ in some]
            yield _over(BreakerFault.BOTH_OPEN, blocks, times[0], times[-1], is_told=True)
    for run in _runs(blocks, is_so) if not both else ():
        yield _over(BreakerFault.BOTH_OPEN, run, run[0].since, run[-1].until)


def _not_diverted(blocks: Sequence[BreakerBlock]) -> Iterator[BreakerFinding]:
    """The normal one fails for more than the time in which a breaker opens, and nothing goes elsewhere."""
    for run in _runs(blocks, lambda it: it.state is BreakerState.FAILING):
        if len(run) > 1:
            yield _over(BreakerFault.NOT_DIVERTED, run, run[0].since, run[-1].until)


def _pinned(process: Process, settings: BreakerSettings) -> Iterator[BreakerFinding]:
    """Over so long a time, the share was not clearly below its upper bound: it cannot have been above, so it was near it all along."""
    to_normal, to_failover = process.attempts(settings.normal), process.attempts(settings.failover)
    if settings.largest_share is None or to_normal is None or to_failover is None:
        return
    at, is_gap, long = process.sends.at, process.sends.is_gap, settings.pinned_for.total_seconds()
    diverted, total = np.cumsum(to_failover), np.cumsum(to_normal + to_failover)
    spans: list[tuple[int, int, float]] = []
    for last in range(len(at)):
        first = int(np.searchsorted(at, at[last] - long, side="right")) - 1
        if first < 0 or is_gap[first + 1 : last + 1].any() or total[last] - total[first] < settings.least_sends:
            continue
        share = float((diverted[last] - diverted[first]) / (total[last] - total[first]))
        if share >= LESS * settings.largest_share:
            goes_on = bool(spans) and first <= spans[-1][1]
            start, _, highest = spans.pop() if goes_on else (first, last, share)
            spans.append((start, last, max(share, highest)))
    for first, last, share in spans:
        yield BreakerFinding(
            fault=BreakerFault.PINNED, since=float(at[first]), until=float(at[last]), failover_share=share
        )


def _runs(blocks: Sequence[BreakerBlock], is_so: Callable[[BreakerBlock], bool]) -> Iterator[list[BreakerBlock]]:
    """Blocks of which it is so, one after the other without a gap."""
    kept = [it for it in blocks if is_so(it)]
    # One that is not so lies between, or a gap.
    breaks = [at for at, (one, other) in enumerate(pairwise(kept), 1) if other.since > one.until]
    for first, stop in pairwise([0, *breaks, len(kept)] if kept else []):
        yield kept[first:stop]


def _over(
    fault: BreakerFault, blocks: Sequence[BreakerBlock], since: float, until: float, *, is_told: bool = False
) -> BreakerFinding:
    inside = [it for it in blocks if it.until > since and it.since < until]
    return BreakerFinding(
        fault=fault,
        since=since,
        until=until,
        is_told=is_told,
        failover_share=_mean(inside, "failover_share"),
        failed=_mean(inside, "failed"),
        failover_failed=_mean(inside, "failover_failed"),
    )


def _mean(blocks: Sequence[BreakerBlock], name: str) -> float | None:
    """Of the blocks in which it is known, by their sends."""
    known = [(value, it.sends) for it in blocks if (value := getattr(it, name)) is not None]
    return sum(value * sends for value, sends in known) / sum(sends for _, sends in known) if known else None


def _missing(
    process: Process, blocks: Sequence[BreakerBlock], settings: BreakerSettings, *, is_told: bool
) -> Iterator[str]:
    if process.attempts(settings.normal) is None:
        yield f"sends to {settings.normal} by ok and failed"
    elif process.sends.total([(settings.normal, "failed")]) is None:
        yield f"failed sends to {settings.normal}"
    elif not blocks:
        yield f"{settings.least_sends} sends without a gap in the scrapes"
    elif all(it.failover_share is None for it in blocks) and not is_told:
        yield f"sends to {settings.failover}"
