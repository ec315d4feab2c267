"""Thirteen situations of real groups on one broker: what arrives, what is taken, and when commits move."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

PARTITIONS = 3
RATE = 20.0  # records per second and partition, where nothing else is said
LOOK = 330.0  # seconds after the begin at which both tools are asked
_STEP_SECONDS = 0.2

# Records per second of each partition, at a time.
Pace = Callable[[float], Sequence[float]]


def _as(*paces: float) -> Pace:
    values = paces * PARTITIONS if len(paces) == 1 else paces
    return lambda _t: values


def _between(start: float, end: float, within: Sequence[float], outside: Sequence[float]) -> Pace:
    return lambda t: within if start <= t < end else outside


FAST, STILL = (100.0,) * PARTITIONS, (0.0,) * PARTITIONS


@dataclass(frozen=True, slots=True)
class Situation:
    """One group with a topic of its own.

    Attributes:
        name: of the group and its topic.
        arrives, takes: how fast records come, and how fast they can be worked off.
        closes: when the only member leaves for good.
        rewinds: when the positions go back, and by how many records.
        commit_seconds: between two commits; None: never.
        again: a position that has not moved is committed all the same.
    """

    name: str
    takes: Pace
    arrives: Pace = field(default=_as(RATE))
    closes: float | None = None
    rewinds: tuple[float, int] | None = None
    commit_seconds: float | None = 2.0
    again: bool = False


SITUATIONS = (
    Situation("healthy", _as(100)),
    Situation("stopped", _as(100), closes=150),
    Situation("partition-stalls", _between(150, 999, (0, 100, 100), FAST)),
    Situation("partition-repeats", _between(150, 999, (0, 100, 100), FAST), again=True),
    Situation("falls-behind", _between(150, 999, (10, 10, 10), FAST)),
    Situation("goes-back", _between(280, 999, (60, 60, 60), FAST), rewinds=(280, 3600)),
    Situation("drains", lambda t: STILL if 150 <= t < 270 else (50, 50, 50) if t >= 270 else FAST),
    Situation("commits-rarely", _as(100), commit_seconds=20),
    Situation("quiet", _as(100), arrives=_between(150, 999, STILL, (RATE,) * PARTITIONS)),
    Situation("recovered", _between(190, 240, STILL, FAST)),
    Situation("always-late", lambda t: STILL if t < 60 else (RATE,) * PARTITIONS),
    Situation("never-commits", _as(100), commit_seconds=None),
    Situation("hot-partition", _as(40), arrives=_between(150, 999, (80, 10, 10), (RATE,) * PARTITIONS)),
)


def produce(bootstrap: str, situations: Sequence[Situation], over: threading.Event) -> None:
    """Let records arrive until it is over."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0})
    began, owed = time.monotonic(), {(it.name, number): 0.0 for it in situations for number in range(PARTITIONS)}
    last = 0.0
    while not over.wait(_STEP_SECONDS):
        now = time.monotonic() - began
        for it in situations:
            for number, rate in enumerate(it.arrives(now)):
                owed[it.name, number] += rate * (now - last)
                for _ in range(int(owed[it.name, number])):
                    producer.produce(it.name, b"x", partition=number)
                owed[it.name, number] %= 1
        producer.poll(0)
        last = now
    producer.flush(10)


def consume(bootstrap: str, situation: Situation, over: threading.Event) -> None:
    """The group's one member, until it is over or the member leaves.

    It reads all that there is at once and works it off at its pace, like a client with a queue: what counts outside is its commits.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": situation.name,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe([situation.name])
    ends, done, sent = [0.0] * PARTITIONS, [0.0] * PARTITIONS, [-1] * PARTITIONS
    began, last, committed, back = time.monotonic(), 0.0, 0.0, situation.rewinds
    while not over.is_set():
        for message in consumer.consume(1000, timeout=_STEP_SECONDS):
            if message.error() is None:
                ends[message.partition()] = message.offset() + 1.0
        now = time.monotonic() - began
        if back is not None and now >= back[0]:
            done, back = [max(0.0, it - back[1]) for it in done], None
        paces = situation.takes(now)
        done = [min(end, it + pace * (now - last)) for end, it, pace in zip(ends, done, paces, strict=True)]
        last = now
        every = situation.commit_seconds
        if every is not None and now - committed >= every:
            offsets = [int(it) for it in done]
            moved = [n for n in range(PARTITIONS) if situation.again or offsets[n] != sent[n]]
            if moved and len(consumer.assignment()) == PARTITIONS:
                with suppress(KafkaException):
                    parts = [TopicPartition(situation.name, n, offsets[n]) for n in moved]
                    consumer.commit(offsets=parts, asynchronous=False)
                    sent, committed = offsets, now
        if situation.closes is not None and now >= situation.closes:
            break
    consumer.close()
