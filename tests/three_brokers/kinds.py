"""Kinds of live incidents on three brokers: each is set up in a furnished lab, with its truth decided before it begins."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from confluent_kafka import Consumer, TopicPartition

from tests.lab.sharing import Sharing, reader_settings
from tests.three_brokers.tiered import BROKERS, TIERED_TOPIC, TieredLab
from workbench.errors import WorkbenchError
from workbench.lab.lab_broker import set_quota
from workbench.queues.systems import system_of

SLOW_STORE = 150_000  # bytes/s that a broker reads from remote storage: less than arrives
_REST_SECONDS = 120.0  # at most, until everybody has caught up
PER_SECOND, _RECORD = 150, 4000  # 0.6 MB/s for each shop on each broker
_ROOM = 1.5  # × what all readers of a narrow broker need; beside six more connections each gets half to three quarters of it
_SHOPS = ("orders", "payments", "returns", "invoices", "parcels")
_GROUPS = (2, 3, 5)  # of which a lab has so many shops
_PARTITIONS = 900  # of a topic in a wide lab: metadata of a small cluster cost brokers nothing, whoever asks for them
_STORMING = 4  # clients for each broker: as many as it has handlers


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What is so, decided before anything is measured.

    Attributes:
        offenders: who slows others, each with its brokers; empty: nobody does.
        victims: groups that wait because of each offender; without one, because of the brokers.
        verdicts: of brokers by themselves that must be found.
        cold: the one group that reads from remote storage, which a triage must say; None: no triage is asked.
    """

    offenders: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    victims: tuple[str, ...] = ()
    verdicts: tuple[str, ...] = ()
    cold: str | None = None


class Room:
    """One lab with its shops, and what is drawn for it.

    Attributes:
        narrow, second: brokers with a narrow card, unless the lab is wide. other: the one that has room.
        card: bytes/s that a narrow one can send.
        lab, sharing: from `enter` on.
    """

    lab: TieredLab
    sharing: Sharing

    def __init__(self, draw: random.Random, narrow: int) -> None:
        self.draw, self.narrow = draw, narrow
        self.shops = _SHOPS[: draw.choice(_GROUPS)]
        self.other = draw.choice([it for it in range(1, BROKERS + 1) if it != narrow])
        [self.second] = {*range(1, BROKERS + 1)} - {self.narrow, self.other}
        self.card = _ROOM * len(self.readers) * PER_SECOND * _RECORD
        self._number = 0
        self._groups: list[str] = []

    def enter(self, lab: TieredLab, sharing: Sharing, *, is_wide: bool) -> None:
        """Topics, their readers, and a busy group that is innocent all the time; old records to read, local or remote."""
        self.lab, self.sharing = lab, sharing
        for shop in self.shops:
            self.sharing.topic(shop, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        self.sharing.topic("alone", [[self.other]])
        set_quota(self.lab.bootstrap, "metering", 1_000_000_000)  # so that brokers measure every client
        if is_wide:
            self.sharing.topic("archive", [[1, 2], [2, 3], [3, 1]], **TIERED_TOPIC)
            self.sharing.topic("catalogue", [[1 + number % BROKERS] for number in range(_PARTITIONS)])
            self.sharing.fill("archive", 3, 60_000, 1000)
            # What was filled leaves the disks before anybody could read it.
            self._read("tail", "archive", begin="latest")
            self.sharing.write(["archive"], 3, 200, 1000)
        else:
            for topic, broker in (("history", self.narrow), ("ledgers", self.second), ("elsewhere", self.other)):
                self.sharing.topic(topic, [[broker]] * 6)
                self.sharing.fill(topic, 6, 4000, 50_000)
        self.sharing.write(self.shops, 3, PER_SECOND, _RECORD)
        self.sharing.write(["alone"], 1, 50, 1000)
        for shop in self.shops:
            self._read(shop, shop)
        self._read("stranded", "alone")
        self._read("reporting", self.shops[0])  # the innocent: reads what a shop reads, all the time

    def _read(self, group: str, topic: str, *, begin: str = "earliest") -> None:
        self._groups.append(group)
        self.sharing.read(group, topic, begin=begin)

    @property
    def readers(self) -> tuple[str, ...]:
        """Groups that read from every broker."""
        return (*self.shops, "reporting")

    def new(self, name: str) -> str:
        """A name that no earlier incident had."""
        self._number += 1
        return f"{name}-{self._number}"

    def guest(self, end: ExitStack) -> Sharing:
        """Somebody who comes and goes with the incident."""
        return end.enter_context(Sharing(self.lab.bootstrap))

    def cap(self, name: str, bytes_per_second: int, end: ExitStack) -> None:
        """A quota of a guest, while the incident lasts."""
        set_quota(self.lab.bootstrap, f"{name}-0", bytes_per_second)
        end.callback(set_quota, self.lab.bootstrap, f"{name}-0", None)

    def rest(self) -> None:
        """Until all have caught up; who does not within the time is late by itself."""
        until = time.monotonic() + _REST_SECONDS
        while time.monotonic() < until:
            try:
                seen = system_of(self.lab.cluster()).observer(self.lab.cluster()).snapshot(groups=self._groups)
            except WorkbenchError:  # a group that has not yet committed, or a broker that is coming back
                time.sleep(2)
                continue
            if seen.commits and all((seen.lag(*part) or 0) < PER_SECOND for part in seen.commits):
                return
            time.sleep(2)


Kind = Callable[[Room, ExitStack], tuple[Truth, Callable[[], None]]]


def _started(
    run: Callable[..., None], each: list[tuple[object, ...]], stop: threading.Event, end: ExitStack
) -> Callable[[], None]:
    """What starts a thread for each of these; the end of the incident stops them."""
    threads = [threading.Thread(target=run, args=given, daemon=True) for given in each]
    end.callback(lambda: [it.join(20) for it in threads if it.is_alive()])
    end.callback(stop.set)

    def begin() -> None:
        for it in threads:
            it.start()

    return begin


def hog_group(room: Room, end: ExitStack) -> tuple[Truth, Callable[[], None]]:
    """A group reads a topic of the narrow broker from its beginning."""
    name, guest = room.new("backfill"), room.guest(end)
    truth = Truth(offenders={name: (room.narrow,)}, victims=room.readers)
    return truth, lambda: guest.read(name, "history", members=6)


def hog_client(room: Room, end: ExitStack) -> tuple[Truth, Callable[[], None]]:
    """The same by a client that is in no group and commits nothing."""
    name, stop = room.new("export"), threading.Event()

    def run(partition: int) -> None:
        consumer = Consumer({**reader_settings(room.lab.bootstrap, "unused", name), "enable.auto.commit": False})
        consumer.assign([TopicPartition("history", partition, 0)])
        while not stop.is_set():
            consumer.consume(100, 0.5)
        consumer.close()

    truth = Truth(offenders={name: (room.narrow,)}, victims=room.readers)
    return truth, _started(run, [(it,) for it in range(6)], stop, end)


def two_at_once(room: Room, end: ExitStack) -> tuple[Truth, Callable[[], None]]:
    """Two groups begin together, each on a narrow broker of its own: both slow everybody there, and neither clears the other."""
    names, guest = (room.new("backfill"), room.new("rebuild")), room.guest(end)
    truth = Truth(offenders={names[0]: (room.narrow,), names[1]: (room.second,)}, victims=room.readers)

    def begin() -> None:
        for name, topic in zip(names, ("history", "ledgers"), strict=True):
            guest.read(name, topic, members=6)

    return truth, begin


def hog_with_quota(room: Room, end: ExitStack) -> tuple[Truth, Callable[[], None]]:
    """The same under a quota that leaves the others what they need: nobody waits, and nobody is to be accused."""
    name, guest = room.new("capped"), room.guest(end)
    room.cap(name, 400_000, end)
    return Truth(), lambda: guest.read(name, "history", members=2)


def busy_elsewhere(room: Room, end: ExitStack) -> tuple[Truth, Callable[[], None]]:
    """A group reads as much from a broker that has room for it: nobody waits, and nobody is to be accused."""
    name, guest = room.new("audit"), room.guest(end)
    # More than the narrow card would stand; the machine is not what is tested.
    room.cap(name, 4_000_000, end)
    return Truth(), lambda: guest.read(name, "elsewhere", members=2)


def slow_reader(room: Room, end: ExitStack) -> tuple[Truth, Callable[[], None]]:
    """The handlers of a group become slow when another one gets busy on a broker that it shares: nobody is to be accused."""
    name, busy, guest = room.new("packing"), room.new("audit"), room.guest(end)
    room.cap(busy, 4_000_000, end)
    slow = threading.Event()
    # Then 100 records a second at most, of the 450 that arrive.
    guest.read(name, room.shops[0], begin="latest", pause_seconds=lambda: 1.0 if slow.is_set() else 0.0)
    time.sleep(10)  # it is on the tail before anybody looks

    def begin() -> None:
        slow.set()
        guest.read(busy, "elsewhere", members=2)

    return Truth(), begin


def cold_hog(room: Room, end: ExitStack) -> tuple[Truth, Callable[[], None]]:
    """A group reads what is in a slow remote store alone: a cold read of its own, and no neighbour is hurt or accused."""
    name, guest = room.new("restore"), room.guest(end)
    return Truth(cold=name), lambda: guest.read(name, "archive")


def remote_failing(room: Room, end: ExitStack) -> tuple[Truth, Callable[[], None]]:
    """Remote storage is away: brokers cannot copy what is full, and nobody reads from there."""
    store = room.lab.remote
    away = store.with_name("away")

    def back() -> None:
        store.unlink()
        away.rename(store)

    def begin() -> None:
        store.rename(away)
        store.touch()  # else it would be made anew
        end.callback(back)

    return Truth(verdicts=("remote_storage_failing",)), begin


def metadata_storm(room: Room, end: ExitStack) -> tuple[Truth, Callable[[], None]]:
    """Clients ask every broker for the metadata of all topics, again and again."""
    stop = threading.Event()
    # Version 8 of the request, without flexible fields: all topics, none to be made, no rights told. No client unpacks the answers,
    # so that it is brokers that work.
    client = b"storm"
    body = struct.pack(f">hhih{len(client)}siBBB", 3, 8, 0, len(client), client, -1, 0, 0, 0)
    asked = struct.pack(">i", len(body)) + body

    def run(address: str) -> None:
        host, port = address.split(":")
        with socket.create_connection((host, int(port)), timeout=30) as link, link.makefile("rb") as answers:
            while not stop.is_set():
                link.sendall(asked)
                [size] = struct.unpack(">i", answers.read(4))
                answers.read(size)

    each: list[tuple[object, ...]] = [(it.address,) for _ in range(_STORMING) for it in room.lab.brokers]
    return Truth(verdicts=("metadata_storm",)), _started(run, each, stop, end)


def hanging_broker(room: Room, end: ExitStack) -> tuple[Truth, Callable[[], None]]:
    """A broker that hangs: followers fall out, what it alone has is without a leader, and its groups get new coordinators."""
    end.callback(room.lab.resume, room.other)
    verdicts = ("leaderless", "under_replicated", "coordinator_moving")
    return Truth(verdicts=verdicts, victims=("stranded",)), lambda: room.lab.suspend(room.other)


# In a lab with narrow cards, and in one without: a card would be full of the answers of a storm, which would not come to that broker.
NARROW: Mapping[str, Kind] = {
    it.__name__: it
    for it in (hog_group, hog_client, two_at_once, hog_with_quota, busy_elsewhere, slow_reader, hanging_broker)
}
WIDE: Mapping[str, Kind] = {it.__name__: it for it in (metadata_storm, cold_hog, remote_failing)}
# How long each is recorded once it has begun. Some brokers tell of their handlers a mean of a minute alone.
SECONDS: Mapping[str, float] = {"metadata_storm": 90.0}
LAST = ("hanging_broker", "remote_failing")  # for what they leave behind
