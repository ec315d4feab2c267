"""Live incidents on three brokers: draws a kind and a seed, writes the truth down before, and judges what `workbench impact` says.

`python -m tests.three_brokers.incidents --seeds 1 2 --out incidents.jsonl` starts a lab for each seed, with the network card of one
broker narrow, and plays every kind in a drawn order. A line for each incident: truth, culprit right, victims' recall, innocents
accused.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.lab.sharing import Sharing
from tests.three_brokers.tiered import BROKERS, TieredLab, start_tiered
from workbench import api
from workbench.api.impacts import ImpactResult
from workbench.collect.recorder import Recorder
from workbench.errors import WorkbenchError
from workbench.lab.kafka import set_quota
from workbench.lab.process import ending_on_signals
from workbench.queues.systems import system_of
from workbench.screen import say

_CARD = 5e6  # bytes/s that the narrow broker can send
_BASE_SECONDS, _AFTER_SECONDS = 30.0, 40.0
_REST_SECONDS = 120.0  # at most, until everybody has caught up
_PER_SECOND, _RECORD = (
    150,
    4000,
)  # 0.6 MB/s for each shop on each broker: more than its share of a card beside six more readers
_SHOPS = ("orders", "payments", "returns", "invoices")


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What is so, decided before anything is measured.

    Attributes:
        offender: who slows others; None: nobody does.
        verdicts: of brokers by themselves that must be found.
        victims: groups that wait because of it. brokers: where.
    """

    offender: str | None = None
    verdicts: tuple[str, ...] = ()
    victims: tuple[str, ...] = ()
    brokers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """How one incident was judged."""

    kind: str
    seed: int
    truth: Truth
    right: bool
    recall: float | None
    innocents: tuple[str, ...]
    said: str

    def line(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)


class Room:
    """One lab with its shops, and what is drawn for it."""

    def __init__(self, lab: TieredLab, sharing: Sharing, draw: random.Random, narrow: int) -> None:
        self.lab, self.sharing, self.draw, self.narrow = lab, sharing, draw, narrow
        self.shops = _SHOPS[: draw.randint(2, len(_SHOPS))]
        self.other = draw.choice([it for it in range(1, BROKERS + 1) if it != narrow])
        self._number = 0

    def furnish(self) -> None:
        """Topics, their readers, and a busy group that is innocent all the time."""
        for shop in self.shops:
            self.sharing.topic(shop, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        self.sharing.topic("history", [[self.narrow]] * 6)
        self.sharing.topic("elsewhere", [[self.other]] * 6)
        self.sharing.topic("alone", [[self.other]])
        set_quota(self.lab.bootstrap, "metering", 1_000_000_000)  # so that brokers measure every client
        for topic, partitions in (("history", 6), ("elsewhere", 6)):
            self.sharing.fill(topic, partitions, 4000, 50_000)
        self.sharing.write(self.shops, 3, _PER_SECOND, _RECORD)
        self.sharing.write(["alone"], 1, 50, 1000)
        for shop in self.shops:
            self.sharing.read(shop, shop)
        self.sharing.read("stranded", "alone")
        self.sharing.read("reporting", self.shops[0])  # the innocent: reads what a shop reads, all the time

    def new(self, name: str) -> str:
        """A name that no earlier incident had."""
        self._number += 1
        return f"{name}-{self._number}"

    def rest(self) -> None:
        """Until all have caught up; who does not within the time is late by itself."""
        groups = [*self.shops, "reporting", "stranded"]
        until = time.monotonic() + _REST_SECONDS
        while time.monotonic() < until:
            try:
                seen = system_of(self.lab.cluster()).observer(self.lab.cluster()).snapshot(groups=groups)
            except WorkbenchError:  # a group that has not yet committed, or a broker that is coming back
                time.sleep(2)
                continue
            if seen.commits and all((seen.lag(*part) or 0) < _PER_SECOND for part in seen.commits):
                return
            time.sleep(2)

    def recorded(self, folder: Path, inject: Callable[[], None]) -> ImpactResult:
        """Record before and after, and ask who slows whom."""
        cluster, done = self.lab.cluster(timeout_seconds=4.0), threading.Event()
        recorder = Recorder(cluster, folder, interval_seconds=2.0, thresholds=cluster.thresholds)
        recording = threading.Thread(target=recorder.run, args=(done,))
        recording.start()
        time.sleep(_BASE_SECONDS)
        inject()
        time.sleep(_AFTER_SECONDS)
        done.set()
        recording.join()
        return api.impact(capture=folder, since=f"{_AFTER_SECONDS + 4:.0f}s ago", baseline=f"{_BASE_SECONDS - 4:.0f}s")


Kind = Callable[[Room, ExitStack], tuple[Truth, Callable[[], None]]]


def hog_group(room: Room, end: ExitStack) -> tuple[Truth, Callable[[], None]]:
    """A group reads a topic of the narrow broker from its beginning."""
    name = room.new("backfill")
    extra = Sharing(room.lab.bootstrap)
    end.callback(extra.__exit__, None, None, None)
    truth = Truth(offender=name, victims=(*room.shops, "reporting"), brokers=(room.narrow,))
    return truth, lambda: extra.read(name, "history", members=6)


def hog_client(room: Room, end: ExitStack) -> tuple[Truth, Callable[[], None]]:
    """The same by a client that is in no group and commits nothing."""
    name = room.new("export")
    stop = threading.Event()
    threads: list[threading.Thread] = []

    def run(partition: int) -> None:
        settings = {
            "bootstrap.servers": room.lab.bootstrap, "group.id": "unused", "client.id": name, "enable.auto.commit": False,
            "fetch.message.max.bytes": 200_000, "queued.max.messages.kbytes": 2000,
        }  # fmt: skip
        consumer = Consumer(settings)
        consumer.assign([TopicPartition("history", partition, 0)])
        while not stop.is_set():
            consumer.consume(100, 0.5)
        consumer.close()

    def begin() -> None:
        for partition in range(6):
            threads.append(threading.Thread(target=run, args=(partition,), daemon=True))
            threads[-1].start()

    end.callback(lambda: [it.join(20) for it in threads])
    end.callback(stop.set)
    return Truth(offender=name, victims=(*room.shops, "reporting"), brokers=(room.narrow,)), begin


def hog_with_quota(room: Room, end: ExitStack) -> tuple[Truth, Callable[[], None]]:
    """The same under a quota that leaves the others what they need: nobody waits, and nobody is to be accused."""
    name = room.new("capped")
    set_quota(room.lab.bootstrap, f"{name}-0", 400_000)
    end.callback(set_quota, room.lab.bootstrap, f"{name}-0", None)
    extra = Sharing(room.lab.bootstrap)
    end.callback(extra.__exit__, None, None, None)
    return Truth(), lambda: extra.read(name, "history", members=2)


def busy_elsewhere(room: Room, end: ExitStack) -> tuple[Truth, Callable[[], None]]:
    """A group reads as much from a broker that has room for it: nobody waits, and nobody is to be accused."""
    name = room.new("audit")
    set_quota(
        room.lab.bootstrap, f"{name}-0", 4_000_000
    )  # more than the narrow card would stand; the machine is not what is tested
    end.callback(set_quota, room.lab.bootstrap, f"{name}-0", None)
    extra = Sharing(room.lab.bootstrap)
    end.callback(extra.__exit__, None, None, None)
    return Truth(), lambda: extra.read(name, "elsewhere", members=2)


def metadata_storm(room: Room, end: ExitStack) -> tuple[Truth, Callable[[], None]]:
    """Clients ask every broker for metadata again and again."""
    stop = threading.Event()
    threads: list[threading.Thread] = []

    def run(address: str) -> None:
        client = AdminClient({"bootstrap.servers": address, "client.id": "storm", "log_level": 0})
        while not stop.is_set():
            client.list_topics(timeout=10)

    def begin() -> None:
        for _ in range(2):
            for it in room.lab.brokers:
                threads.append(threading.Thread(target=run, args=(it.address,), daemon=True))
                threads[-1].start()

    end.callback(lambda: [it.join(20) for it in threads])
    end.callback(stop.set)
    return Truth(verdicts=("metadata_storm",), brokers=(1, 2, 3)), begin


def hanging_broker(room: Room, end: ExitStack) -> tuple[Truth, Callable[[], None]]:
    """A broker that hangs: followers fall out, what it alone has is without a leader, and its groups get new coordinators."""
    end.callback(time.sleep, 20)
    end.callback(room.lab.resume, room.other)
    verdicts = ("leaderless", "under_replicated", "coordinator_moving")
    return Truth(verdicts=verdicts, victims=("stranded",), brokers=(room.other,)), lambda: room.lab.suspend(room.other)


KINDS: dict[str, Kind] = {
    it.__name__: it for it in (hog_group, hog_client, hog_with_quota, busy_elsewhere, metadata_storm, hanging_broker)
}

_WIDE = ("metadata_storm",)  # a narrow card would be full of the answers, and the storm would not come to that broker


def judged(kind: str, seed: int, truth: Truth, found: ImpactResult) -> Played:
    """Compare with the truth. A culprit is right with its brokers; an innocent is anybody else who is accused."""
    accused = [it.offender for it in found.found.causes]
    innocents = tuple(it.name for it in accused if it.name != truth.offender)
    verdicts = {str(it.verdict): it for it in found.brokers.findings}
    named = [it for it in accused if it.name == truth.offender and it.brokers == truth.brokers]
    right = bool(named) == (truth.offender is not None) and set(truth.verdicts) <= verdicts.keys()
    hit = {one.group for cause in found.found.causes for one in cause.victims}
    hit |= {group for it in found.brokers.findings for group in it.groups}
    said = "; ".join([found.found.sentence, *(f"{it.verdict}: {it.headline}" for it in found.brokers.findings)])
    recall = len(hit & set(truth.victims)) / len(truth.victims) if truth.victims else None
    return Played(kind=kind, seed=seed, truth=truth, right=right, recall=recall, innocents=innocents, said=said)


@contextmanager
def opened(folder: Path, seed: int, *, is_wide: bool) -> Iterator[Room]:
    """A lab whose narrow broker and shops are drawn from the seed; a wide one has no narrow broker."""
    draw = random.Random(seed)
    narrow = draw.randint(1, BROKERS)
    with start_tiered(folder, narrow={} if is_wide else {narrow: _CARD}) as lab, Sharing(lab.bootstrap) as sharing:
        room = Room(lab, sharing, draw, narrow)
        room.furnish()
        yield room


def played(seed: int, kinds: list[str], folder: Path) -> Iterator[Played]:
    """Every kind once, in a drawn order; a hanging broker last, for what it leaves behind."""
    for is_wide in (False, True):
        mine = [it for it in kinds if (it in _WIDE) is is_wide]
        if not mine:
            continue
        with opened(folder / f"lab-{is_wide}", seed, is_wide=is_wide) as room:
            order = sorted(mine, key=lambda it: (it == "hanging_broker", room.draw.random()))
            for kind in order:
                room.rest()
                with ExitStack() as end:
                    truth, inject = KINDS[kind](room, end)
                    found = room.recorded(folder / kind, inject)
                yield judged(kind, seed, truth, found)


def main() -> None:
    """Play and write a line for each incident."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--keep", type=Path, help="Keep the recordings in this folder.")
    given = parser.parse_args()
    with ending_on_signals():
        for seed in given.seeds:
            with tempfile.TemporaryDirectory() as room:
                folder = given.keep / str(seed) if given.keep is not None else Path(room)
                folder.mkdir(parents=True, exist_ok=True)
                for it in played(seed, given.kinds, folder):
                    how = "right" if it.right else "WRONG"
                    say(f"{it.kind} {it.seed}: {how}, recall {it.recall}, innocents {it.innocents}: {it.said}")
                    with given.out.open("a", encoding="utf-8") as out:
                        out.write(it.line() + "\n")


if __name__ == "__main__":
    main()
