"""The lab: one broker, an exporter, and a Prometheus if there is one; in a separate folder."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from workbench.errors import SetupError
from workbench.files import write_text
from workbench.lab import process
from workbench.lab.client_spec import ExporterFault, StartWay, write
from workbench.lab.lab_broker import Broker, start_broker
from workbench.lab.prometheus import PrometheusServer, ensure_prometheus, start_prometheus
from workbench.settings import LAB_CLUSTER, Cluster, Windows
from workbench.thresholds import Thresholds
from workbench.user_folders import state_dir
from workbench.window import parse_duration

LAG_PROFILES = ["kafka_exporter", "group_state"]
PROFILES = [*LAG_PROFILES, "runtime"]
# Of consumers without the runtime: their client's statistics, and the page that their team made.
_READY_SECONDS = 90.0  # of a busy machine; a process that dies is reported at once

# The lab compresses time: seconds stand for minutes, and the thresholds that are lengths of time shrink with them.
LAB_THRESHOLDS = Thresholds(time_lag_objective_seconds=4.0, stale_after_seconds=5.0, poll_age_seconds=3.0)
LAB_WINDOWS = Windows(length=parse_duration("18s"), baseline=parse_duration("30s"))

Say = Callable[[str], None]


def _silent(_text: str) -> None:
    return


def lab_dir() -> Path:
    """Where labs live."""
    folder = state_dir() / "lab"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@dataclass(slots=True)
class Lab:
    """A running lab: this process's own, or one that `workbench lab up` keeps."""

    folder: Path
    bootstrap: str
    prometheus_url: str | None
    temporary: bool = False  # whether the folder goes with it
    _broker: Broker | None = None
    _prometheus: PrometheusServer | None = None
    _children: list[process.Child] = field(default_factory=list)

    @property
    def targets(self) -> Path:
        """Folder of Prometheus' target files."""
        return self.folder / "prometheus" / "targets"

    @property
    def cluster_id(self) -> str | None:
        """Id of the cluster; None for a lab of another process."""
        return self._broker.cluster_id if self._broker is not None else None

    def cluster(self, *, metrics: Sequence[str] = (), profiles: Sequence[str] = PROFILES) -> Cluster:
        """The lab as a cluster of the settings."""
        return Cluster(
            name=LAB_CLUSTER,
            bootstrap=self.bootstrap,
            prometheus=self.prometheus_url,
            profiles=list(profiles),
            metrics=list(metrics),
            thresholds=LAB_THRESHOLDS,
            windows=LAB_WINDOWS,
        )

    def pids(self) -> dict[str, int]:
        """Process ids of what this process runs."""
        found = {child.name: child.pid for child in self._children}
        if self._broker is not None:
            found["kafka"] = self._broker.child.pid
        if self._prometheus is not None:
            found["prometheus"] = self._prometheus.child.pid
        return found

    def watch(self, name: str, addresses: Sequence[str], *, pods: Sequence[str] = ()) -> None:
        """Have Prometheus scrape `host:port` addresses from now on, as one named set that replaces itself.

        `pods` are names for the addresses, which become a label of the targets.
        """
        if self.prometheus_url is not None:
            targets = [{"targets": list(addresses), "labels": {"cluster": LAB_CLUSTER}}]
            if pods:
                each = zip(addresses, pods, strict=True)
                targets = [{"targets": [at], "labels": {"cluster": LAB_CLUSTER, "pod": pod}} for at, pod in each]
            write_text(self.targets / f"{name}.json", json.dumps(targets))

    def watch_exporter(self) -> None:
        """Have Prometheus scrape the exporter, until `forget("exporter")`."""
        self.watch("exporter", [read_address(self.folder / "exporter" / "address.json")])

    def forget(self, name: str) -> None:
        """Have Prometheus stop scraping a set."""
        (self.targets / f"{name}.json").unlink(missing_ok=True)

    @property
    def proxied(self) -> str:
        """host:port that leads to the broker through the proxy."""
        return str(json.loads((self.folder / "proxy" / "address.json").read_text(encoding="utf-8"))["bootstrap"])

    def slow_down(self, name: str, delay_seconds: dict[str, float]) -> None:
        """Add latency to clients (by the beginning of their id) that come through the proxy; `name` replaces its own."""
        write(self.folder / "proxy" / "ways" / f"{name}.json", StartWay(delay_seconds=delay_seconds))

    def hold_fetches(self, name: str, clients: Sequence[str]) -> None:
        """Give clients (by the beginning of their id) that come through the proxy no more records on the connections that they have."""
        write(
            self.folder / "proxy" / "ways" / f"{name}.json", StartWay(hold_fetches=dict.fromkeys(clients, time.time()))
        )

    def break_exporter(self, fault: ExporterFault) -> None:
        """Have the exporter go wrong for one group."""
        write(self.folder / "exporter" / "faults" / f"{fault.group}.json", fault)

    def repair(self, name: str) -> None:
        """Undo `slow_down`, `hold_fetches` and `break_exporter` of one group."""
        (self.folder / "proxy" / "ways" / f"{name}.json").unlink(missing_ok=True)
        (self.folder / "exporter" / "faults" / f"{name}.json").unlink(missing_ok=True)

    def failed(self) -> str | None:
        """Which of the processes has died, if any."""
        dead = [child.name for child in self._all() if not child.alive]
        return dead[0] if dead else None

    def _all(self) -> list[process.Child]:
        servers = [server.child for server in (self._prometheus, self._broker) if server is not None]
        return [*self._children, *servers]

    def stop(self) -> None:
        """End everything that this process runs, the broker last."""
        for child in self._children:
            child.stop()
        if self._prometheus is not None:
            self._prometheus.stop()
        if self._broker is not None:
            self._broker.stop()
        self._children, self._prometheus, self._broker = [], None, None
        if self.temporary:
            remove_folder(self.folder)

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start_lab(folder: Path, *, with_prometheus: bool = True, temporary: bool = False, say: Say = _silent) -> Lab:
    """Start a lab in an empty folder.

    Without a Prometheus on this machine (and without a way to download one) the lab runs without it, and says so.

    Raises:
        SetupError: if Kafka cannot be downloaded or does not start.
    """
    process.claimed(folder)
    try:
        broker = start_broker(folder / "kafka")
    except BaseException:
        if temporary:
            remove_folder(folder)
        raise
    lab = Lab(folder, broker.bootstrap, None, temporary=temporary, _broker=broker)
    try:
        if with_prometheus and ensure_prometheus() is not None:
            lab._prometheus = start_prometheus(folder / "prometheus")
            lab.prometheus_url = lab._prometheus.url
        elif with_prometheus:
            say(
                "Prometheus is not installed and cannot be downloaded without root. The lab scrapes the metrics itself."
            )
        lab._children += [_start_exporter(lab), _start_proxy(lab, broker)]
    except BaseException:
        lab.stop()
        raise
    return lab


def _start_exporter(lab: Lab) -> process.Child:
    folder = lab.folder / "exporter"
    (folder / "faults").mkdir(parents=True)
    address = folder / "address.json"
    child = process.start(
        "exporter", [sys.executable, "-m", "workbench.lab.exporter", lab.bootstrap, address], folder=folder
    )
    wait_for_addresses([(child, address)])
    lab.watch_exporter()
    return child


def _start_proxy(lab: Lab, broker: Broker) -> process.Child:
    folder = lab.folder / "proxy"
    (folder / "ways").mkdir(parents=True)
    address = folder / "address.json"
    ports = [str(broker.proxy_port), str(broker.behind_port)]
    child = process.start(
        "proxy", [sys.executable, "-m", "workbench.lab.proxy", *ports, folder / "ways", address], folder=folder
    )
    wait_for_addresses([(child, address)])
    return child


def read_address(path: Path) -> str:
    """host:port of a metrics page that a process of the lab has announced."""
    return str(json.loads(path.read_text(encoding="utf-8"))["metrics"])


def wait_for_addresses(waiting: Sequence[tuple[process.Child, Path]]) -> None:
    """Wait until every process has announced its metrics page.

    Raises:
        SetupError: if one of them ends or takes too long.
    """
    for child, path in waiting:
        process.wait_until(path.exists, child=child, seconds=_READY_SECONDS, what=child.name)


def remove_folder(folder: Path) -> None:
    """Remove a lab's folder; what is still being written by a dying process is tried again once."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        time.sleep(0.5)
        shutil.rmtree(folder, ignore_errors=True)


def check_alive(lab: Lab, others: Mapping[str, process.Child] | None = None) -> None:
    """Raise if a process that should run has died.

    Raises:
        SetupError: naming it, with the end of its log.
    """
    name = lab.failed()
    if name is not None:
        raise SetupError(f"The lab's {name} has died.", hint=f"Logs: {lab.folder}")
    for child in (others or {}).values():
        if not child.alive:
            raise SetupError(f"{child.name} has died: {child.tail(3)}", hint=f"Its log: {child.log}")
