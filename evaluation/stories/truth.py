"""A story of the book: measurements of one group, and what a person who knows what happened expects to be told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

import numpy as np
import pyarrow as pa

from evaluation.stories import END
from evaluation.stories.exporters import View
from evaluation.stories.life import Life, Scraping
from workbench.samples import concat
from workbench.settings_of_groups import GroupSettings
from workbench.window import Window

WINDOW = Window.ending(END, length=timedelta(minutes=15), baseline=timedelta(hours=1))
# A lag exporter alone; the runtime; somebody else's client with process times, and without any statistics of the client.
Tier = Literal["L", "R", "C", "H"]

# Advice that costs time or data if the cause is another one.
CAPACITY = frozenset({"add_consumers", "add_partitions", "scale_processors", "too_few_consumers", "partition_ceiling"})
HARMFUL = frozenset({"add_consumers", "add_partitions", "dead_letter", "restart_consumers"})
NOT_CAPACITY = CAPACITY | {"hot_partition", "saturated_processors"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What is expected for one topic of the group.

    Attributes:
        sick: whether somebody has to do something.
        verdicts: names that are acceptable. A well one that gets any other calm verdict alarms nobody, and is fine too.
        causes: acceptable `scope.cause`, if the verdict is `stuck_partition`; None: any.
        never: verdicts and kinds of action that must not be there.
        onset: seconds before the end at which it began; None if it has no beginning, or none is asked for.
        calm_is_fine: a sick one that may still be called calm: its lag is too young.
        quiet: somebody should be told, but it is the state of a healthy group: no other verdict, and no alarm.
        mentions: what headline, contributing words or actions have to say (a regular expression).
    """

    topic: str
    sick: bool
    verdicts: frozenset[str]
    causes: frozenset[str | None] | None = None
    never: frozenset[str] = frozenset()
    onset: float | None = None
    calm_is_fine: bool = False
    quiet: bool = False
    mentions: str | None = None


@dataclass(slots=True, kw_only=True)
class Plan:
    """What a kind of story makes: views of its topics, and the truth about each."""

    views: list[View]
    truths: list[Truth]
    settings: GroupSettings | None = None


@dataclass(slots=True, kw_only=True)
class Cast:
    """The draw of one story; a kind makes a `Plan` of it."""

    kind: str
    number: int
    tier: Tier
    scrape: float
    seed: int
    turn: int  # which instance of its kind
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([self.seed, self.number])

    @property
    def group(self) -> str:
        """A name that tells nothing."""
        return f"team-{self.number:03d}"

    @property
    def runtime(self) -> bool:
        """Whether the processes are measured too."""
        return self.tier == "R"

    @property
    def others(self) -> bool:
        """Whether somebody else wrote the consumer."""
        return self.tier in ("C", "H")

    def one_of(self, *choices: float) -> float:
        """One of these."""
        return float(self.rng.choice(choices))

    def between(self, low: float, high: float) -> float:
        """A number between two, drawn on a logarithmic scale if both are positive."""
        if low > 0:
            return float(np.exp(self.rng.uniform(np.log(low), np.log(high))))
        return float(self.rng.uniform(low, high))

    def any_of(self, number: int) -> int:
        """A position below a number."""
        return int(self.rng.integers(number))

    def partitions(self, least: int = 1, most: int = 24) -> int:
        """How many, often 6 to 12."""
        most = min(most, 12) if self.runtime else most
        usual = [it for it in (1, 2, 3, 4, 6, 6, 6, 8, 8, 10, 12, 12, 16, 24) if least <= it <= most]
        return int(self.rng.choice(usual or [least]))

    def life(self, *, least: int = 1, most: int = 24, **given: float) -> Life:
        """A group; what is not given is drawn."""
        life = self._life(least, most, given)
        if self.others:
            life.without_queues(loop=bool(self.rng.uniform() < 0.6))
        return life

    def _life(self, least: int, most: int, given: dict[str, float]) -> Life:
        known = {
            "partitions": self.partitions(least, most),
            "rate": self.between(3, 120),
            "members": int(self.rng.integers(2, 5)),
            "commit": self.one_of(1, 5, 5, 5, 10),
            **given,
        }
        return Life(self.rng, **known)  # type: ignore[arg-type]

    def scraping(self) -> Scraping:
        """How it is measured."""
        return Scraping(
            every=self.scrape,
            jitter=self.one_of(0.02, 0.5, 2.0),
            lost=self.one_of(0, 0, 0, 0.004),
            late_end=int(self.one_of(0, 0, 0, 0, 0, 1)),
        )

    def view(self, life: Life, *, topic: str = "events", scraping: Scraping | None = None) -> View:
        """It as the exporters show it; they are asked when samples are needed."""
        view = View(life, scraping or self.scraping(), self.group, f"{self.group}.{topic}", self.rng)
        view.shows_state = bool(self.rng.uniform() < 0.2)
        if self.others:
            view.statistics = self.tier == "C"
            view.one_handler, view.shows_start = bool(self.rng.uniform() < 0.4), bool(self.rng.uniform() < 0.5)
        return view

    def well(self, life: Life, *also: str, settings: GroupSettings | None = None, view: View | None = None) -> Plan:
        """A healthy group; verdicts besides `healthy` that are fine."""
        never = frozenset({"add_consumers", "add_partitions", "dead_letter"})
        truth = Truth(topic=f"{self.group}.events", sick=False, verdicts=frozenset({"healthy", *also}), never=never)
        return Plan(views=[view or self.view(life)], truths=[truth], settings=settings)

    def sick(
        self,
        life: Life,
        verdicts: Iterable[str],
        *,
        lag_alone: Iterable[str] = (),
        causes: Iterable[str | None] | None = None,
        never: Iterable[str] = (),
        onset: float | None = None,
        calm_is_fine: bool = False,
        quiet: bool = False,
        mentions: str | None = None,
        settings: GroupSettings | None = None,
        view: View | None = None,
    ) -> Plan:
        """A group in trouble: its verdicts with all signals; with a lag exporter alone also `lag_alone`, of no certain cause."""
        accepted = {*verdicts, *lag_alone} if self.tier == "L" else {*verdicts}
        view = view or self.view(life)
        if self.tier == "H":  # which reason on the broker's side it is, only the client's statistics tell
            accepted |= {"cannot_tell"}
        if self.others:
            accepted |= _of_a_client(accepted)
            if accepted & _SLOW and view.one_handler:  # one and all are the same then
                accepted |= _SLOW
        if causes is not None and not self.runtime:  # lag alone does not show it, except that it may guess at a record
            seen = {"poison_record", "commit_fails"} if self.others else {"poison_record"}
            # Kafka tells an open transaction.
            causes = {*causes} if "open_transaction" in causes else {None} | ({*causes} & seen)
        truth = Truth(
            topic=f"{self.group}.events",
            sick=True,
            verdicts=frozenset(accepted),
            causes=frozenset(causes) if causes is not None else None,
            never=frozenset(never),
            onset=onset,
            calm_is_fine=calm_is_fine,
            quiet=quiet,
            mentions=mentions,
        )
        return Plan(views=[view], truths=[truth], settings=settings)

    def earliest(self, life: Life) -> float:
        """The shortest standstill that somebody who looks at the scrapes can see: two intervals without a move, in seconds."""
        return max(150.0, 3 * self.scrape + 2 * life.commit_every)

    def since(self, life: Life, low: float, high: float) -> float:
        """An onset in seconds before the end, between minutes, and visible at all."""
        least = max(low * 60, self.earliest(life))
        return self.between(least, max(high * 60, least * 1.05))


_SLOW = {"slow_processor", "slow_downstream"}


def _of_a_client(verdicts: set[str]) -> set[str]:
    """What the same trouble is called where no queue can be seen: a want of threads is one of consumers or of partitions."""
    found = {"too_few_consumers", "partition_ceiling"} if "saturated_processors" in verdicts else set()
    return found | ({"hot_partition"} if "hot_key" in verdicts else set())


Make = Callable[[Cast], Plan]


@dataclass(slots=True, kw_only=True)
class Story:
    """One story; `samples` simulates it anew each time."""

    cast: Cast
    make: Make
    truths: tuple[Truth, ...]
    settings: GroupSettings | None

    @property
    def name(self) -> str:
        """Kind, tier, scrape interval and number."""
        return f"{self.cast.kind} [{self.cast.tier}, {self.cast.scrape:g} s] #{self.cast.number}"

    @property
    def group(self) -> str:
        """The consumer group."""
        return self.cast.group

    @property
    def window(self) -> Window:
        """All stories end at the same instant."""
        return WINDOW

    def plan(self) -> Plan:
        """It once more, with the lives behind it."""
        cast = Cast(
            kind=self.cast.kind,
            number=self.cast.number,
            tier=self.cast.tier,
            scrape=self.cast.scrape,
            seed=self.cast.seed,
            turn=self.cast.turn,
        )
        return self.make(cast)

    def samples(self) -> pa.Table:
        """What the exporters of its tier show."""
        tables = []
        for number, view in enumerate(self.plan().views):
            view.tell(inside=self.cast.runtime, first=number == 0, client=self.cast.others)
            tables.append(view.samples())
        return concat(tables)
