"""Cases: simulated incidents with the truth of the intervention, as the exporters of each tier show them.

A case counts only if the objective was really broken (sick) or kept (well); what was drawn, kept and dropped is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evaluation.stories import END
from evaluation.stories.book import draw
from evaluation.stories.life import Life
from evaluation.stories.truth import WINDOW, Plan, Story, Truth
from workbench.samples import concat
from workbench.settings_of_groups import GroupSettings
from workbench.thresholds import Thresholds
from workbench.window import Window

Tier = Literal["lag", "lag + statistics", "lag + statistics + process time", "runtime"]
TIERS: tuple[Tier, ...] = ("lag", "lag + statistics", "lag + statistics + process time", "runtime")
OBJECTIVE_SECONDS = Thresholds().time_lag_objective_seconds
_LAG_SOURCES = ("kafka_exporter", "group_state")


@dataclass(frozen=True, slots=True, kw_only=True)
class Injected:
    """What the simulation did, as numbers: None where nothing was done or it cannot be told.

    Attributes:
        onset_seconds: before the look; lag_messages: at the end; arrival_per_second: over the last 5 min.
        throttle_seconds, rtt_seconds: at the end. process_seconds: of the busiest handler, at the end, by name.
        members: that are there at the end. stopped: partitions that are not read at the end.
    """

    onset_seconds: float | None
    lag_messages: float
    arrival_per_second: float
    throttle_seconds: float
    rtt_seconds: float
    process_seconds: Mapping[str, float]
    members: int
    stopped: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One subscription at one look.

    Attributes:
        name: unique; the group's name in the samples.
        fault: the kind of story. author: who wrote it ("book", or "evaluation" for those of this package).
        truth: acceptable verdicts, and what must never be said. also: the second of two faults.
        injected: the intervention in numbers; worst_age_seconds: of the oldest waiting message at the look.
    """

    name: str
    topic: str
    tier: Tier
    fault: str
    author: str
    truth: Truth
    injected: Injected
    worst_age_seconds: float
    scrape_seconds: float
    samples: pa.Table = field(repr=False, compare=False)
    settings: GroupSettings | None = None
    also: frozenset[str] = frozenset()

    @property
    def broken(self) -> bool:
        """Whether the objective is broken, or a record lost: only then is it an incident."""
        return self.worst_age_seconds > OBJECTIVE_SECONDS or bool(self.truth.verdicts & _WITHOUT_AGE)

    @property
    def valid(self) -> bool:
        """Whether the case is what it says: an incident, or none."""
        return self.broken if self.truth.sick else not self.truth.quiet

    def to_json(self) -> dict[str, Any]:
        """The truth, without the samples."""
        it = self.injected
        return {
            "case": self.name,
            "topic": self.topic,
            "tier": self.tier,
            "fault": self.fault,
            "author": self.author,
            "sick": self.truth.sick,
            "accepted": sorted(self.truth.verdicts),
            "also": sorted(self.also),
            "never": sorted(self.truth.never),
            "onset_seconds": it.onset_seconds,
            "scrape_seconds": self.scrape_seconds,
            "valid": self.valid,
            "injected": {
                "lag_messages": it.lag_messages,
                "arrival_per_second": round(it.arrival_per_second, 3),
                "throttle_seconds": round(it.throttle_seconds, 6),
                "rtt_seconds": round(it.rtt_seconds, 6),
                "process_seconds": {name: round(value, 6) for name, value in it.process_seconds.items()},
                "members": it.members,
                "stopped": list(it.stopped),
            },
        }


# What is wrong without a late message.
_WITHOUT_AGE = frozenset({"records_lost", "offsets_reset", "failing_records", "rebalance_storm", "recovered"})


def injected(life: Life, onset: float | None) -> tuple[Injected, float]:
    """What was done to a life, and the age of its oldest message at the end."""
    found = life.offsets
    recent = slice(-301, None)
    work = {it.name: float(it.seconds * it.slow[-1]) for it in life.processors}
    there = sum(span.start <= 0 < span.end for span in life.spans)
    told = Injected(
        onset_seconds=onset,
        lag_messages=float((found.end[:, -1] - found.committed[:, -1]).sum()),
        arrival_per_second=float((found.end[:, -1] - found.end[:, recent][:, 0]).sum() / 300),
        throttle_seconds=float(life.throttle[-1]),
        rtt_seconds=float(life.round_trip[-1]),
        process_seconds=work,
        members=there,
        stopped=tuple(int(it) for it in np.flatnonzero(life.speed[:, -1] == 0)),
    )
    return told, float(life.ages()[:, -1].max())


def of_book(seed: int, tier: Tier, *, kinds: Iterable[str] | None = None) -> list[Case]:
    """The story book of a seed in one tier; the three tiers of other people's consumers show the same lives."""
    wanted = None if kinds is None else set(kinds)
    stories = draw(seed, clients=tier != "runtime")
    found = []
    for story in stories:
        if (wanted is not None and story.cast.kind not in wanted) or (tier == "runtime" and story.cast.tier != "R"):
            continue
        found += cases_of(story, tier, story.plan())
    return found


def cases_of(story: Story, tier: Tier, plan: Plan, *, fault: str | None = None, author: str = "book") -> list[Case]:
    """A case for each topic of a story."""
    tables = []
    for number, view in enumerate(plan.views):
        view.tell(inside=tier == "runtime", first=number == 0, client=tier != "runtime")
        tables.append(view.samples())
    samples = seen(concat(tables), tier)
    found = []
    for view, truth in zip(plan.views, plan.truths, strict=False):
        if tier == "lag" and truth.causes is not None:  # nobody has asked Kafka, and none of the causes can be seen
            truth = replace(truth, causes=truth.causes | {None})
        numbers, age = injected(view.life, truth.onset)
        found.append(
            Case(
                name=story.group,
                topic=truth.topic,
                tier=tier,
                fault=fault or story.cast.kind,
                author=author,
                truth=truth,
                injected=numbers,
                worst_age_seconds=age,
                scrape_seconds=story.cast.scrape,
                samples=samples,
                settings=plan.settings,
            )
        )
    return found


def seen(samples: pa.Table, tier: Tier) -> pa.Table:
    """What is left of the measurements in a tier."""
    if tier == "lag":
        return samples.filter(pc.is_in(samples["source"], pa.array(_LAG_SOURCES)))
    if tier == "lag + statistics":
        return samples.filter(pc.not_equal(samples["signal"], "process_time"))
    return samples


def renamed(case: Case, number: int) -> Case:
    """The same case under a group's name of its own, so that many can lie in one capture."""
    name = f"case-{number:04d}"
    samples = _with(case.samples, "group", lambda it: pc.if_else(pc.is_valid(it), name, it))
    samples = _with(samples, "topic", lambda it: pc.replace_substring(it, f"{case.name}.", f"{name}."))
    topic = case.topic.replace(f"{case.name}.", f"{name}.")
    return changed(case, name=name, topic=topic, samples=samples)


def changed(case: Case, **values: Any) -> Case:
    """A copy with other values."""
    return replace(case, **values)


def _with(table: pa.Table, column: str, change: Callable[[pa.ChunkedArray], pa.ChunkedArray]) -> pa.Table:
    at = table.schema.get_field_index(column)
    return table.set_column(at, table.schema.field(at), change(table[column]).cast(table.schema.field(at).type))


# Perturbations: each makes other cases of cases.


def looked_earlier(case: Case, seconds: float) -> Case | None:
    """As it looked some time before; None if the fault had not begun for long enough. Its numbers are no longer those of the look."""
    onset = case.truth.onset
    if case.truth.sick and (onset is None or onset - seconds < 2 * case.scrape_seconds + 60):
        return None
    cut = pa.scalar(END.timestamp() * 1e6 - seconds * 1e6, pa.float64())
    samples = case.samples
    at = pc.cast(pc.cast(samples["ts"], pa.int64()), pa.float64())
    samples = samples.filter(pc.less_equal(at, cut))
    later = pc.add(pc.cast(samples["ts"], pa.int64()), pa.scalar(round(seconds * 1e6)))
    samples = _with(samples, "ts", lambda _it: later)
    truth = replace(case.truth, onset=None if onset is None else onset - seconds)
    return changed(case, truth=truth, samples=samples)


def thinned(case: Case, factor: int) -> Case:
    """Every second, third, … sample of each source: a longer scrape interval."""
    every = case.scrape_seconds * factor
    seconds = pc.divide(pc.cast(pc.cast(case.samples["ts"], pa.int64()), pa.float64()), case.scrape_seconds * 1e6)
    turn = pc.floor(seconds)
    kept = pc.equal(pc.subtract(turn, pc.multiply(pc.floor(pc.divide(turn, float(factor))), float(factor))), 0.0)
    return changed(case, samples=case.samples.filter(kept), scrape_seconds=every)


def without(case: Case, signal: str) -> Case:
    """Without one signal."""
    return changed(case, samples=case.samples.filter(pc.not_equal(case.samples["signal"], signal)))


def skewed(case: Case, seconds: float) -> Case:
    """The clock of whoever measures the consumers is fast, or slow, by so much against the lag exporter's."""
    ours = pc.equal(case.samples["source"], "runtime")
    moved = pc.add(pc.cast(case.samples["ts"], pa.int64()), pa.scalar(round(seconds * 1e6)))
    late = pc.greater(moved, pa.scalar(round(END.timestamp() * 1e6)))
    at = pc.if_else(ours, moved, pc.cast(case.samples["ts"], pa.int64()))
    samples = _with(case.samples, "ts", lambda _it: at)
    return changed(case, samples=samples.filter(pc.invert(pc.and_(ours, late))))


def windows(seconds: Sequence[float]) -> list[Window]:
    """Windows of these lengths that end at the look; what is left of the data is the baseline."""
    from datetime import timedelta

    whole = WINDOW.seconds + WINDOW.baseline_seconds
    return [Window.ending(END, length=timedelta(seconds=it), baseline=timedelta(seconds=whole - it)) for it in seconds]
