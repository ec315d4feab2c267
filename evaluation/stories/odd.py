"""Exporters with habits, and what stories about them need."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evaluation.stories.exporters import CLUSTER, Inside, View
from evaluation.stories.life import Array, Life, Scraping, Span
from evaluation.stories.truth import Cast
from workbench.samples import SampleBatch


class Odd(View):
    """An exporter with habits.

    Attributes:
        polls: seconds between its own polls; in between it shows what it had (0: it asks at each scrape).
        stale: from, to (seconds before the end): it repeats what it had before.
        endless: partition -> since when its leader is gone: no end and no lag, the commit stays.
        born: partition -> since when it exists.
        uncommitted: partition -> until when there is no commit: -1, or no row (`rowless`).
        silent: from, to: rows of the group are missing (its commits, its lag), the count of members stays.
        rowless: no row instead of -1.
        slot_slow: slot -> factor on its process times by tick.
    """

    def __init__(self, life: Life, scraping: Scraping, group: str, topic: str, rng: np.random.Generator) -> None:
        super().__init__(life, scraping, group, topic, rng)
        self.polls = 0.0
        self.stale: tuple[float, float] | None = None
        self.endless: dict[int, float] = {}
        self.born: dict[int, float] = {}
        self.uncommitted: dict[int, float] = {}
        self.silent: tuple[float, float] | None = None
        self.rowless = False
        self.slot_slow: dict[int, Array] = {}
        self.only_lag = False
        self.by_member = False  # no lag exporter: clients show the offsets of their own partitions
        self.gone_rows: dict[int, float] = {}  # partition -> since when it is not shown at all

    def lag_exporter(self, *, state: bool = False) -> None:
        life, found = self.life, self.life.offsets
        if self.by_member:
            self._own_clients()
            return
        instants = self.scraping.instants(life, self.rng, "exporter")
        stamps = self._stamps(instants)
        asked = instants.copy()
        if self.polls:
            asked = np.floor((instants + 7.0) / self.polls) * self.polls - 7.0
        if self.stale is not None:
            first, last = self.stale
            held = (asked > -first) & (asked <= -last)
            asked = np.where(held, -first, asked)
        at = self._at(asked)
        for number in range(life.partitions):
            log = {"topic": self.topic, "partition": number}
            place = {"group": self.group, **log}
            end, start, committed = found.end[number, at], found.start[number, at], found.committed[number, at]
            there = asked >= -self.born.get(number, 1e9)
            led = there & (asked < -self.endless[number] if number in self.endless else True)
            group = there & (asked < -self.gone_rows[number] if number in self.gone_rows else True)
            if self.silent is not None:
                group &= ~((asked > -self.silent[0]) & (asked <= -self.silent[1]))
            none = asked < -self.uncommitted[number] if number in self.uncommitted else np.zeros(len(at), bool)
            if not self.only_lag:
                self.lags.add("log_end_offset", log, stamps[led], end[led])
                self.lags.add("log_start_offset", log, stamps[led], start[led])
            own = group & ~none
            shown = group if not self.rowless else own
            values = np.where(none, -1.0, committed)
            lag = np.where(none, -1.0, end - committed)
            if shown.any() and not self.only_lag:
                self.lags.add("committed_offset", place, stamps[shown], values[shown])
            both = shown & led
            if both.any():
                self.lags.add("consumer_lag", place, stamps[both], lag[both])
        members = self._counted()[at]
        if self.hidden_members:
            members = np.zeros(len(at))
        if not self.no_members and self.first:
            self.lags.add("group_members", {"group": self.group}, stamps, members)
        if state and not self.no_members:
            self.states.add("group_state", {"group": self.group}, stamps, life.state[at])

    def _own_clients(self) -> None:
        life, found = self.life, self.life.offsets
        batch = SampleBatch(CLUSTER, "librdkafka")
        for span in life.spans:
            instants = self.scraping.instants(life, self.rng, f"member {span.slot}")
            instants = instants[(instants >= span.start) & (instants <= span.end)]
            at, stamps = self._at(instants), self._stamps(instants)
            member = f"{self.group}-{span.name}"
            batch.add("rebalances", {"group": self.group, "member": member}, stamps, np.full(len(at), 3.0))
            for number in range(life.partitions):
                mine = life.owner[number, at] == span.slot
                if mine.any():
                    place = {"group": self.group, "member": member, "topic": self.topic, "partition": number}
                    end, done = found.end[number, at][mine], found.committed[number, at][mine]
                    batch.add("log_end_offset", {"topic": self.topic, "partition": number}, stamps[mine], end)
                    batch.add("committed_offset", place, stamps[mine], done)
                    batch.add("consumer_lag", place, stamps[mine], end - done)
        self.lags = batch

    def _slowly(self, span: Span, act: Callable[[], None]) -> None:
        factor = self.slot_slow.get(span.slot)
        usual = [it.slow for it in self.life.processors]
        if factor is not None:
            for it in self.life.processors:
                it.slow = it.slow * factor
        act()
        for it, slow in zip(self.life.processors, usual, strict=True):
            it.slow = slow

    def _member(self, span: Span, instants: Array, inside: Inside) -> None:
        self._slowly(span, lambda: View._member(self, span, instants, Inside(self.life) if self.slot_slow else inside))

    def _client(self, span: Span, instants: Array, inside: Inside) -> None:
        self._slowly(span, lambda: View._client(self, span, instants, Inside(self.life) if self.slot_slow else inside))


def odd_view(cast: Cast, life: Life, *, topic: str = "events", scraping: Scraping | None = None) -> Odd:
    """The exporter of a story, with whom its clients tell."""
    view = Odd(life, scraping or cast.scraping(), cast.group, f"{cast.group}.{topic}", cast.rng)
    if cast.others:
        view.statistics = cast.tier == "C"
    return view


def age_of(life: Life, number: int, ago: float = 0.0) -> float:
    """How old what waits really is, so many seconds before the end."""
    return float(life.ages()[number, life.tick(ago)])


def latest_of(life: Life) -> float:
    """The oldest of all."""
    return float(life.ages()[:, -1].max())
