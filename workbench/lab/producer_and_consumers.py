"""Traffic and consumers on the lab's broker: a producer and some instances of the reference runtime, each a process."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from pydantic import BaseModel

from workbench.errors import SetupError
from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.lab import process
from workbench.lab.client_spec import Behaviour, Traffic, Transaction, write
from workbench.lab.lab import PROFILES, Lab, read_address, wait_for_addresses
from workbench.lab.lab_broker import create_topic, set_quota
from workbench.runtime import ProcessorConfig, RuntimeConfig

_STABLE_SECONDS = 90.0  # of a busy machine

# A lab compresses time: a crash is noticed within seconds, and small polls keep every loop short.
LAB_KAFKA: dict[str, str | int | float | bool] = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}


RUNTIME = "runtime"


class ConsumerShape(Protocol):
    """Another kind of consumers than the runtime: how an instance is started, and what it shows."""

    def profiles(self, spec: FleetSpec) -> list[str]:
        """What its instances and the lab's exporter show."""

    def client_id(self, name: str) -> str:
        """Client id of an instance's consumer."""

    def command(self, fleet: LabFleet, name: str) -> list[str | Path]:
        """What starts an instance; its files are written by `LabFleet.files`."""

    def more_pages(self, fleet: LabFleet, name: str) -> list[str]:
        """host:port of further metrics pages of an instance."""


SHAPES: dict[str, ConsumerShape] = {}  # by name; another kind is added where it is written


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSpec:
    """What a fleet is made of."""

    topic: str
    group: str
    partitions: int
    traffic: Traffic
    behaviour: Behaviour
    instances: int
    consumers: int  # threads in each instance
    processors: dict[str, ProcessorConfig]
    max_uncommitted_per_partition: int = 10_000
    proxied: bool = False  # whether the instances reach the broker through the proxy
    settings: Mapping[str, Any] = field(default_factory=dict)  # further fields of RuntimeConfig
    kafka: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    topic_settings: Mapping[str, str] = field(default_factory=dict)
    consumer: str = RUNTIME  # or one of `SHAPES`
    threads: int = 1  # of each instance that is no runtime
    measured: Any = None  # what a shape wants to know besides
    by_type: bool = True  # whether its histogram tells event types apart

    @property
    def profiles(self) -> list[str]:
        """What its instances and the lab's exporter show."""
        return PROFILES if self.consumer == RUNTIME else SHAPES[self.consumer].profiles(self)


@dataclass(slots=True)
class LabFleet:
    """Running producer and instances."""

    lab: Lab
    spec: FleetSpec
    folder: Path
    traffic: Traffic
    behaviour: Behaviour
    producer: process.Child | None = None
    instances: dict[str, process.Child] = field(default_factory=dict)
    _others: list[process.Child] = field(default_factory=list)
    _ports: dict[str, int] = field(default_factory=dict)
    _trouble: list[threading.Thread] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def start(cls, lab: Lab, spec: FleetSpec, folder: Path) -> LabFleet:
        """Create the topic and start everything; returns when the group is stable.

        Raises:
            SetupError: if something does not come up.
        """
        folder.mkdir(parents=True)
        create_topic(lab.bootstrap, spec.topic, spec.partitions, settings=spec.topic_settings)
        if letters := spec.settings.get("dead_letter_topic"):
            create_topic(lab.bootstrap, letters, 1)
        fleet = cls(lab, spec, folder, spec.traffic, spec.behaviour)
        try:
            fleet.set_traffic()
            fleet.set_behaviour()
            fleet.add(spec.instances)
            fleet._wait_until_stable()
            fleet.producer = process.start(
                "producer", [sys.executable, "-m", "workbench.lab.producer", folder / "traffic.json"], folder=folder
            )
        except BaseException:
            fleet.stop()
            raise
        return fleet

    def add(self, count: int) -> list[str]:
        """Start further instances; returns their names when their metrics pages are up."""
        names = [f"{self.spec.group}-{len(self.instances) + number}" for number in range(count)]
        for name in names:
            self._launch(name)
        self._announce()
        return names

    def relaunch(self, name: str, *, announce: bool = True) -> None:
        """Start an instance again that was ended, with the settings as they are now."""
        self._launch(name)
        if announce:
            wait_for_addresses([(self.instances[name], self._address(name))])

    def restart(self, names: Sequence[str] | None = None) -> None:
        """End instances in an orderly way and start them again, one after the other: a deploy."""
        for name in list(names if names is not None else self.instances):
            if self.instances[name].alive:
                self.shut_down([name])
            self.relaunch(name)

    def change(self, **changes: Any) -> None:
        """Change what instances are started with from now on; running ones are restarted by `restart`."""
        self.spec = replace(self.spec, **changes)

    def keep_doing(self, what: Callable[[threading.Event], None]) -> None:
        """Run something beside the rest until the fleet stops or `quieten` is called; it is given the event to watch."""
        thread = threading.Thread(target=what, args=(self._over,), name="trouble", daemon=True)
        self._trouble.append(thread)
        thread.start()

    def quieten(self) -> None:
        """End what `keep_doing` began."""
        self._over.set()
        for thread in self._trouble:
            thread.join(30)
        self._trouble, self._over = [], threading.Event()

    def limit(self, bytes_per_second: int | None) -> None:
        """Set or lift the fetch quota of every member."""
        for name in self.instances:
            for client_id in self.client_ids(name):
                set_quota(self.lab.bootstrap, client_id, bytes_per_second)

    def client_ids(self, name: str) -> list[str]:
        """Client ids of an instance's consumers."""
        if self.spec.consumer == RUNTIME:
            return [f"{name}-{number}" for number in range(self.spec.consumers)]
        return [SHAPES[self.spec.consumer].client_id(name)]

    def open_transaction(self, partitions: Sequence[int], *, producer_dies: bool) -> None:
        """Have a producer write into these partitions, and leave its transaction open.

        Raises:
            SetupError: if it does not come so far.
        """
        told = Transaction(
            bootstrap=self.lab.bootstrap,
            topic=self.spec.topic,
            partitions=list(partitions),
            transactional_id=f"{self.spec.group}-writer",
            event_type=next(iter(self.traffic.event_types)),
        )
        path, announce = self.folder / "transaction.json", self.folder / "transaction.open"
        write(path, told)
        child = process.start(
            "transaction",
            [sys.executable, "-m", "workbench.lab.hanging_transaction", path, announce],
            folder=self.folder,
        )
        self._others.append(child)
        process.wait_until(announce.exists, child=child, seconds=_STABLE_SECONDS, what="The transactional producer")
        if producer_dies:
            child.kill()

    def _launch(self, name: str) -> None:
        if self.spec.consumer == RUNTIME:
            self._start(name, "workbench.lab.consumer_instance", self._runtime(name))
        else:
            command = SHAPES[self.spec.consumer].command(self, name)
            self.instances[name] = process.start(name, command, folder=self.folder)

    def port(self, name: str) -> int:
        """Of a page: the same after a restart, as a pod or a service would have."""
        return self._ports.setdefault(name, process.free_port())

    def place(self, name: str) -> dict[str, Any]:
        """What every instance that is no runtime is told: where it reads, as whom, and where its page is."""
        return {
            "bootstrap": self._bootstrap,
            "group": self.spec.group,
            "topic": self.spec.topic,
            "client_id": name,
            "metrics_port": self.port(name),
        }

    @property
    def _bootstrap(self) -> str:
        return self.lab.proxied if self.spec.proxied else self.lab.bootstrap

    def _runtime(self, name: str) -> RuntimeConfig:
        spec = self.spec
        return RuntimeConfig(
            bootstrap=self._bootstrap,
            group=spec.group,
            topics=[spec.topic],
            client_id=name,
            consumers=spec.consumers,
            processors=spec.processors,
            max_poll_records=100,
            max_uncommitted_per_partition=spec.max_uncommitted_per_partition,
            carry_over_per_partition=0,  # back-pressure shows within seconds here, not after a thousand records
            shutdown_seconds=2.0,
            rebalance_drain_seconds=1.0,
            metrics_port=self.port(name),
            kafka={**LAB_KAFKA, **spec.kafka},
        ).model_copy(update=dict(spec.settings))

    def _start(self, name: str, module: str, config: BaseModel) -> None:
        files = self.files(name, config)
        self.instances[name] = process.start(name, [sys.executable, "-m", module, *files], folder=self.folder)

    def files(self, name: str, config: BaseModel) -> list[Path]:
        """Write an instance's settings; return what its process is given: these, the behaviour, and where it writes its address."""
        write(self.folder / f"{name}.config.json", config)
        self._address(name).unlink(missing_ok=True)
        return [self.folder / f"{name}.config.json", self.folder / "behaviour.json", self._address(name)]

    def _address(self, name: str) -> Path:
        return self.folder / f"{name}.address.json"

    def _announce(self) -> None:
        wait_for_addresses([(child, self._address(name)) for name, child in self.instances.items()])
        pages, pods = self.pages(), () if self.spec.consumer == RUNTIME else tuple(self.instances)
        self.lab.watch(self.spec.group, pages, pods=pods * 2 if len(pages) > len(self.instances) else pods)

    def pages(self) -> list[str]:
        """host:port of all metrics pages of the instances: their own, then those of agents in them."""
        shape = None if self.spec.consumer == RUNTIME else SHAPES[self.spec.consumer]
        more = [page for name in self.instances for page in (shape.more_pages(self, name) if shape is not None else ())]
        return [*self.addresses(), *more]

    def addresses(self) -> list[str]:
        """host:port of the metrics pages of the instances that were started, dead or alive."""
        return [read_address(self._address(name)) for name in self.instances]

    def _wait_until_stable(self) -> None:
        """Wait until all members are there and all partitions assigned: only then is the baseline what it says."""
        kafka = KafkaCluster(self.lab.bootstrap)
        deadline = time.monotonic() + _STABLE_SECONDS
        wanted = self.spec.instances * self.spec.consumers
        while time.monotonic() < deadline:
            views = kafka.snapshot(groups=None).groups
            mine = next((view for view in views if view.group == self.spec.group), None)
            if mine is not None and mine.state == "stable" and len(mine.members) == wanted:
                every = {part for member in mine.members for part in member.partitions}
                owned = {part for part in every if part[0] == self.spec.topic}  # retry topics are in the same group
                if len(owned) == self.spec.partitions:
                    return
            time.sleep(0.3)
        raise SetupError(
            f"The group {self.spec.group!r} was not stable after {_STABLE_SECONDS:.0f} s.", hint=f"Logs: {self.folder}"
        )

    def set_traffic(self, **changes: Any) -> None:
        """Change what the producer sends, from now on."""
        self.traffic = self.traffic.model_copy(update=changes)
        write(self.folder / "traffic.json", self.traffic)

    def set_behaviour(self, **changes: Any) -> None:
        """Change how the handlers behave, from now on."""
        self.behaviour = self.behaviour.model_copy(update=changes)
        write(self.folder / "behaviour.json", self.behaviour)

    def kill(self, names: Sequence[str]) -> None:
        """End instances at once, as a crash would. Their metrics pages stay targets, as they would in production."""
        for name in names:
            self.instances[name].kill()

    def shut_down(self, names: Sequence[str]) -> None:
        """End instances in an orderly way, all at the same time."""
        for name in names:
            self.instances[name].popen.terminate()
        for name in names:
            self.instances[name].stop()

    def stop(self) -> None:
        """End everything, and take back what was done to the lab."""
        self.quieten()
        self.lab.repair(self.spec.group)
        if self.producer is not None:
            self.producer.stop()
        for child in [*self.instances.values(), *self._others]:
            if child.alive:
                child.popen.terminate()
        for child in [*self.instances.values(), *self._others]:
            child.stop()
        self.lab.forget(self.spec.group)

    def __enter__(self) -> LabFleet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
