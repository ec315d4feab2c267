"""The circumstances of a recording, drawn by its seed.

The arithmetic is the lab's: use = arrivals × mean handler time / slots. A slot handles one record at a time: a poll loop has one for
each member, kafkajs as many as partitions it may consume concurrently, and goroutines or queues for partitions as many as there are
partitions.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from evaluation.foreign.spec import SESSION_SECONDS, Behaviour, Client, Deed, Library, Plan
from workbench.lab.client_spec import Traffic
from workbench.lab.scenario_circumstances import TYPES

KEYS = 2000
# How consumers on a library are written; sarama itself runs a goroutine for each claim, kafka-go's Reader is one loop.
STYLES: dict[Library, tuple[str, ...]] = {
    "franz_go": ("loop", "partition"),
    "kafkajs": ("message", "batch"),
    "sarama": ("partition",),
    "kafka_go": ("loop",),
    "platformatic": ("loop", "partition"),
}
EVERY_RECORD: tuple[Library, ...] = ("kafkajs", "kafka_go", "platformatic")  # may commit each record, or each batch


class Draw:
    """The circumstances of one recording."""

    def __init__(self, seed: int, number: int, kind: str, library: Library) -> None:
        self.random = random.Random(f"{seed}/{number}/{kind}/{library}")
        self.seed, self.number, self.kind, self.library = seed, number, kind, library
        chance = self.random
        self.partitions = chance.choice((6, 8))
        self.members = chance.choice((2, 3))
        self.rate = chance.uniform(25, 60)
        self.types = {name: chance.uniform(1.0, 2.0) for name in chance.sample(TYPES, chance.choice((3, 4)))}
        self.style: Any = chance.choice(STYLES[library])
        self.max_poll = chance.choice((0, 50))
        self.concurrency = chance.choice((1, 1, 3)) if library == "kafkajs" else 1
        self.auto_commit = True
        self.commit_seconds = chance.choice((0.0, 1.0, 5.0) if library in EVERY_RECORD else (1.0, 2.0, 5.0))
        self.by_type = chance.random() < 0.75
        self.record_bytes = 200
        self.session_seconds = SESSION_SECONDS

    @property
    def group(self) -> str:
        """Nothing that a verdict could be read from."""
        return f"svc-{self.seed}-{self.number:02d}"

    @property
    def name(self) -> str:
        """Of the recording's folder."""
        return f"{self.number:02d}-{self.library}-{self.kind}"

    @property
    def slots(self) -> int:
        """Records that the group handles at the same time."""
        if self.style == "partition":
            return self.partitions
        return min(self.partitions, self.members * self.concurrency)

    def loops(self) -> None:
        """Let each member handle one record at a time, where the library allows it."""
        self.concurrency = 1
        if self.style == "partition" and "loop" in STYLES[self.library]:
            self.style = "loop"

    def member(self, number: int) -> str:
        """Its client id."""
        return f"{self.group}-{number}"

    def share(self, name: str) -> float:
        """Of the traffic."""
        return self.types[name] / sum(self.types.values())

    def times(self, use: float) -> dict[str, float]:
        """Handler times that use this share of the slots."""
        weights = {name: self.random.uniform(0.7, 1.4) for name in self.types}
        mean = sum(self.share(name) * weight for name, weight in weights.items())
        return {name: use * self.slots / self.rate * weight / mean for name, weight in weights.items()}

    def traffic(self, **changes: Any) -> Traffic:
        """What arrives; the broker's address follows when there is one."""
        usual: dict[str, Any] = {
            "partitions": self.partitions, "rate_per_second": self.rate, "event_types": self.types, "keys": KEYS,
            "seed": self.seed + self.number, "record_bytes": self.record_bytes,
        }  # fmt: skip
        return Traffic(bootstrap="", topic=f"events-{self.group}", **{**usual, **changes})

    def plan(
        self,
        times: Mapping[str, float],
        deeds: tuple[Deed, ...],
        verdict: str,
        *,
        scope: dict[str, Any] | None = None,
        also: tuple[str, ...] = (),
        **traffic: Any,
    ) -> Plan:
        """Put it together; further options are those of the traffic before the fault."""
        return Plan(
            name=self.name,
            seed=self.seed,
            kind=self.kind,
            library=self.library,
            group=self.group,
            topic=f"events-{self.group}",
            partitions=self.partitions,
            members=self.members,
            client=Client(
                library=self.library,
                style=self.style,
                max_poll=self.max_poll,
                auto_commit=self.auto_commit,
                commit_seconds=self.commit_seconds,
                concurrency=self.concurrency,
                session_seconds=self.session_seconds,
                by_type=self.by_type,
            ),
            behaviour=Behaviour(process_seconds=dict(times)),
            traffic=self.traffic(**traffic),
            deeds=deeds,
            verdict=verdict,
            scope=scope or {},
            also=also,
        )

    def calm_times(self) -> dict[str, float]:
        """Of a group with much room."""
        return self.times(self.random.uniform(0.15, 0.35))


def behave(times: Mapping[str, float], **changes: Any) -> Deed:
    """How the handlers behave from the fault on."""
    return Deed(at=0.0, what="behave", value=Behaviour(process_seconds=dict(times), **changes))
