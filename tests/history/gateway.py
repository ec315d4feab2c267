"""A gateway with the breaker of the seed's kind, second by second, and what a scrape sees of it: the truth, and its counters."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa

from workbench.breaker_settings import BreakerSettings
from workbench.history.gateway_breakers import Breaker, breakers
from workbench.history.gateway_counts import processes
from workbench.samples import SampleBatch
from workbench.window import Window

END = 1_795_600_000
Failing = Callable[[int], float]  # second to the share of sends that fail


def never(_second: int) -> float:
    """A destination that is well."""
    return 0.0


def during(*spans: tuple[int, int], share: float = 1.0) -> Failing:
    """A destination that fails in these spans of seconds."""
    return lambda second: share if any(start <= second < stop for start, stop in spans) else 0.0


@dataclass
class Gateway:
    """Ten buckets of a second for each destination; open at a ratio, a bounded share to failover, half open after a sleep.

    If the breaker of failover opens too, everything goes back to the normal one.

    Attributes:
        states: by second, whether the normal destination's breaker is not closed.
        both: seconds in which both are not closed.
    """

    normal: Failing = never
    failover: Failing | None = never
    rate: int = 100
    seconds: int = 900
    cap: float = 0.8
    sleep: int = 5
    least: int = 20
    opens_at: float = 0.5
    restarts: Sequence[int] = ()
    seed: int = 1
    is_lazy: bool = True  # a counter appears with its first event
    states: list[bool] = field(default_factory=list)
    both: list[int] = field(default_factory=list)
    diverted: int = 0
    counts: list[dict[tuple[str, str], int]] = field(default_factory=list)

    def run(self) -> Gateway:
        """Live through all seconds."""
        chance = random.Random(self.seed)
        counts: dict[tuple[str, str], int] = {}
        own = {"normal": _Breaker(self), "failover": _Breaker(self)}
        for second in range(self.seconds):
            if second in self.restarts:
                counts, own = {}, {"normal": _Breaker(self), "failover": _Breaker(self)}
            share = own["normal"].share(second) if self.failover and not own["failover"].is_open(second) else 0.0
            self.states.append(own["normal"].is_open(second))
            if all(it.is_open(second) for it in own.values()):
                self.both.append(second)
            seen = {name: [0, 0] for name in own}
            arrived = self.rate // 2 + chance.randrange(self.rate + 1) if self.rate > 1 else chance.randrange(2)
            failing = {"normal": self.normal(second), "failover": (self.failover or never)(second)}
            for _ in range(arrived):
                to = "failover" if chance.random() < share else "normal"
                seen[to][chance.random() < failing[to]] += 1
            self.diverted += sum(seen["failover"])
            for to, sent in seen.items():
                for outcome, number in zip(("ok", "failed"), sent, strict=True):
                    if number:
                        counts[to, outcome] = counts.get((to, outcome), 0) + number
            for name, (ok, failed) in seen.items():
                own[name].count(second, ok, failed)
            self.counts.append(dict(counts))
        return self

    def scraped(self, every: int, *, name: str = "gw-1", jitter: float = 0.0, leave_out: str = "") -> pa.Table:
        """Samples of its counters, as a scrape each so many seconds sees them."""
        chance = random.Random(self.seed)
        batch = SampleBatch("prod", "page")
        lines: dict[tuple[str, str], list[tuple[float, int]]] = {}
        every_key = {key for it in self.counts for key in it} | {
            (to, it) for to in ("normal", "failover") for it in ("ok", "failed")
        }
        for second in range(every - 1, self.seconds, every):
            at = END - self.seconds + second + 1 + chance.uniform(-jitter, jitter)
            here = self.counts[second] if self.is_lazy else {it: self.counts[second].get(it, 0) for it in every_key}
            for key, value in here.items():
                if leave_out not in key:
                    lines.setdefault(key, []).append((at, value))
        for (to, outcome), points in lines.items():
            times, values = [round(at * 1e6) for at, _ in points], [float(it) for _, it in points]
            batch.add("gateway_sends", {"member": name, "queue": to}, times, values, stat=outcome)
        return batch.to_arrow()

    @property
    def changes(self) -> list[int]:
        """Seconds at which it opened or closed."""
        return [at for at in range(1, len(self.states)) if self.states[at] != self.states[at - 1]]


class _Breaker:
    """One destination's, over ten buckets of a second."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway, self.buckets = gateway, deque[tuple[int, int]](maxlen=10)
        self.opened: int | None = None

    @property
    def ratio(self) -> float:
        total = sum(ok + failed for ok, failed in self.buckets)
        return sum(failed for _, failed in self.buckets) / total if total else 0.0

    def is_open(self, _second: int) -> bool:
        return self.opened is not None

    def share(self, second: int) -> float:
        if self.opened is None:
            return 0.0
        share = min(self.gateway.cap, max(self.ratio, self.gateway.opens_at))
        return share / 2 if second - self.opened >= self.gateway.sleep else share  # half open

    def count(self, second: int, ok: int, failed: int) -> None:
        self.buckets.append((ok, failed))
        if self.opened is None:
            total = sum(sum(it) for it in self.buckets)
            if total >= self.gateway.least and self.ratio >= self.gateway.opens_at:
                self.opened = second + 1
        elif second - self.opened >= self.gateway.sleep:  # a second half open decides
            if ok + failed and failed / (ok + failed) < self.gateway.opens_at:
                self.opened = None
                self.buckets.clear()
            else:
                self.opened = second + 1


def window_of(seconds: int, baseline: int = 0) -> Window:
    """The last seconds before END, after a baseline."""
    start = END - seconds
    at = [datetime.fromtimestamp(it, UTC) for it in (start - baseline, start, END)]
    return Window(baseline_start=at[0], start=at[1], end=at[2])


def replayed(
    tables: Mapping[str, pa.Table] | pa.Table, seconds: int = 900, settings: BreakerSettings | None = None
) -> dict[str, Breaker]:
    """The breakers by gateway."""
    table = tables if isinstance(tables, pa.Table) else pa.concat_tables(tables.values())
    chosen = settings or BreakerSettings(largest_share=0.8)
    found = breakers(processes(table, window_of(seconds)), window_of(seconds), chosen, stale_seconds=90.0)
    return {it.gateway: it for it in found}
