"""Jobs with checkpoints whose sink tells what was really read: they are killed with all that they have started, and started again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

from confluent_kafka import Producer

from tests.waiting import wait_for
from workbench.api.checkpoint_restarts import RestartsResult, job_restarts
from workbench.humanize import iso_instant
from workbench.lab import process
from workbench.lab.lab import Lab


class Read(NamedTuple):
    """A line of a sink; `at` in seconds since the epoch."""

    run: int
    partition: int
    offset: int
    at: float


@dataclass
class Feed:
    """What produces into a topic all the while, but when it is `held`; `sent` counts the records."""

    held: Event = field(default_factory=Event)
    rate: float = 50.0  # records a second
    sent: int = 0


@contextmanager
def fed(lab: Lab, topic: str, partitions: int = 2) -> Iterator[Feed]:
    """Produce while the block runs, once it is not held any more."""
    feed, over = Feed(), Event()
    feed.held.set()
    producer = Producer({"bootstrap.servers": lab.bootstrap, "linger.ms": 5})

    def produce() -> None:
        while not over.wait(1 / feed.rate):
            if not feed.held.is_set():
                producer.produce(topic, b"x", partition=feed.sent % partitions)
                feed.sent += 1
            producer.poll(0)

    thread = Thread(target=produce, name="feed")
    thread.start()
    try:
        yield feed
    finally:
        over.set()
        thread.join()
        assert producer.flush(30) == 0


@dataclass
class KilledJob:
    """One job; `command` makes that of a run."""

    folder: Path
    command: Callable[[int], list[str | Path]]
    env: dict[str, str] = field(default_factory=dict)
    run: int = -1
    _child: process.Child | None = None

    @property
    def sink(self) -> list[Read]:
        """All whole lines."""
        path = self.folder / "sink.txt"
        lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
        found = [it.split() for it in lines if it.endswith("\n")]
        return [Read(int(run), int(partition), int(offset), float(at)) for run, partition, offset, at in found]

    def start(self) -> None:
        """Begin the next run."""
        self.run += 1
        self._child = process.start(f"run-{self.run}", self.command(self.run), folder=self.folder, env=self.env)

    def reads(self) -> None:
        """Wait until this run has read a record."""
        wait_for(self._has_read, 120)

    def _has_read(self) -> bool:
        assert self._child is not None
        assert self._child.alive, self._child.tail(30)
        return any(it.run == self.run for it in self.sink)

    def has_read_all(self, count: int) -> bool:
        """Whether so many records have come into the sink, each counted once."""
        return len({(it.partition, it.offset) for it in self.sink}) >= count

    def kill(self) -> float:
        """End it and its children at once; when."""
        assert self._child is not None
        os.killpg(self._child.pid, signal.SIGKILL)
        at = time.time()
        self._child.kill()
        return at

    def __enter__(self) -> KilledJob:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._child is not None and self._child.alive:
            self.kill()

    def kill_while_reading(self) -> float:
        """Right after a record of this run has come into the sink; when."""
        before = len(self.sink)
        wait_for(lambda: len(self.sink) > before, 60, pause_seconds=0.001)
        return self.kill()

    def read_again(self, fell: float, until: float = float("inf")) -> int:
        """Records read between two instants that had been read before the first of them."""
        read = self.sink
        known = {(it.partition, it.offset) for it in read if it.at < fell}
        return len(known & {(it.partition, it.offset) for it in read if fell <= it.at < until})

    def stood(self, fell: float) -> tuple[float, float]:
        """When it read its last record before it fell, and the first one after."""
        read = self.sink
        return max(it.at for it in read if it.at < fell), min(it.at for it in read if it.at >= fell)


def restarts(lab: Lab, folder: Path, since: float, *, profiles: list[str], members: dict[str, str]) -> RestartsResult:
    """What the command finds in the lab's Prometheus."""
    named = ", ".join(f'"{it}"' for it in profiles)
    groups = ", ".join(f'"{member}" = "{group}"' for member, group in members.items())
    config = folder / "workbench.toml"
    config.write_text(
        f'[clusters.lab]\nbootstrap = "{lab.bootstrap}"\nprometheus = "{lab.prometheus_url}"\n'
        f"profiles = [{named}]\nmembers = {{{groups}}}\n",
        encoding="utf-8",
    )
    return job_restarts(cluster="lab", since=iso_instant(1000 * since), config=config)
