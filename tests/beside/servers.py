"""One cluster that Burrow can read: a broker of Kafka 3.9 with a ZooKeeper, and Burrow and our exporter beside each other."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from workbench.errors import SetupError
from workbench.lab import process
from workbench.lab.kafka_jars import OLD_BROKER, ensure
from workbench.lab.lab_broker import Broker, start_broker
from workbench.lab.prometheus import PrometheusServer, ensure_burrow, start_prometheus
from workbench.spark.java import find_java

_START_SECONDS = 60.0
_BURROW = """\
[general]
pidfile="{folder}/burrow.pid"
[logging]
filename="{folder}/own.log"
level="info"
[zookeeper]
servers=["127.0.0.1:{zookeeper}"]
timeout=6
root-path="/burrow"
[client-profile.lab]
client-id="burrow"
kafka-version="2.0.0"
[cluster.lab]
class-name="kafka"
servers=["{bootstrap}"]
client-profile="lab"
topic-refresh=10
offset-refresh=2
[consumer.lab]
class-name="kafka"
cluster="lab"
servers=["{bootstrap}"]
client-profile="lab"
[httpserver.default]
address="127.0.0.1:{port}"
[storage.default]
class-name="inmemory"
workers=4
intervals=15
expire-group=604800
min-distance=1
"""


@dataclass(frozen=True, slots=True)
class Burrow:
    """A running Burrow."""

    url: str

    def status(self, group: str) -> dict[str, Any] | None:
        """What it says of a group, with all partitions; None for one that it does not know."""
        answer = requests.get(f"{self.url}/v3/kafka/lab/consumer/{group}/lag", timeout=10)
        if answer.status_code == 404:
            return None
        answer.raise_for_status()
        return dict(answer.json()["status"])


@dataclass(frozen=True, slots=True)
class Beside:
    """The servers of one comparison."""

    broker: Broker
    prometheus: PrometheusServer
    start_burrow: Callable[[], Burrow]


@contextmanager
def servers(room: Path) -> Iterator[Beside]:
    """Start them; Burrow is started by the caller, once there are commits: without their topic it has nothing to read."""
    program = ensure_burrow()
    if program is None:
        raise SetupError("There is no Burrow on PATH, and none was to be had.", hint="apt-get install burrow")
    with ExitStack() as stack:
        broker = start_broker(room / "kafka", jars=OLD_BROKER)
        stack.callback(broker.stop)
        prometheus = start_prometheus(room / "prometheus")
        stack.callback(prometheus.stop)
        folder = room / "exporter"
        folder.mkdir()
        address = folder / "address.json"
        exporter = process.start(
            "exporter", [sys.executable, "-m", "workbench.lab.exporter", broker.bootstrap, address], folder=folder
        )
        stack.callback(exporter.kill)
        process.wait_until(address.exists, child=exporter, seconds=_START_SECONDS, what="the exporter")
        (prometheus.targets / "exporter.json").write_text(
            json.dumps([{"targets": [json.loads(address.read_text())["metrics"]], "labels": {}}])
        )
        yield Beside(broker, prometheus, lambda: _start_burrow(room / "burrow", program, broker, stack))


def _start_burrow(folder: Path, program: Path, broker: Broker, stack: ExitStack) -> Burrow:
    folder.mkdir()
    zookeeper, port = process.free_ports(2)
    java: list[str | Path] = [find_java().program, "-Xmx128m", "-XX:TieredStopAtLevel=1"]
    java += ["-Dzookeeper.admin.enableServer=false", "-cp", f"{ensure(OLD_BROKER)}/*"]
    keeper = process.start(
        "zookeeper",
        [*java, "org.apache.zookeeper.server.ZooKeeperServerMain", str(zookeeper), folder / "data"],
        folder=folder,
    )
    stack.callback(keeper.kill)
    process.wait_until(lambda: _serves(zookeeper), child=keeper, seconds=_START_SECONDS, what="ZooKeeper")
    (folder / "burrow.toml").write_text(
        _BURROW.format(folder=folder, zookeeper=zookeeper, bootstrap=broker.bootstrap, port=port)
    )
    child = process.start("burrow", [program, "-config-dir", folder], folder=folder)
    stack.callback(child.kill)
    burrow = Burrow(f"http://127.0.0.1:{port}")
    process.wait_until(lambda: _is_up(burrow), child=child, seconds=_START_SECONDS, what="Burrow")
    return burrow


def _serves(port: int) -> bool:
    """It listens before it serves, and hangs up on whoever comes in between."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as link:
            link.sendall(b"srvr")
            return b"Mode:" in link.recv(4096)
    except OSError:
        return False


def _is_up(burrow: Burrow) -> bool:
    try:
        answer = requests.get(f"{burrow.url}/v3/kafka/lab/consumer", timeout=2)
        return answer.status_code == 200 and bool(answer.json()["consumers"])
    except (requests.RequestException, KeyError):
        return False
