"""A broker with listeners and rights of a test's own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from workbench.lab import process
from workbench.lab.kafka_jars import BROKER
from workbench.lab.lab_broker import new_cluster_id
from workbench.spark.java import find_java


@contextmanager
def own_broker(
    folder: Path,
    properties: str,
    names: Sequence[str],
    *,
    more: Sequence[str] = (),
    values: Mapping[str, str] | None = None,
) -> Iterator[tuple[AdminClient, dict[str, str]]]:
    """A client of the listener `inside`, which may do everything, and the address of each listener.

    Args:
        properties: of the broker, with `{folder}`, a place for the port of each listener, and those of `values`.
        names: of the listeners.
        more: words for the format of its storage.
    """
    ports = dict(zip(names, process.free_ports(len(names)), strict=True))
    file = folder / "server.properties"
    file.write_text(properties.format(folder=folder, **ports, **(values or {})))
    java = [find_java().program, "-Xmx384m", "-XX:TieredStopAtLevel=1", "-cp", BROKER.classpath]
    format_it = ["kafka.tools.StorageTool", "format", "-t", new_cluster_id(), "-c", file, *more]
    subprocess.run([*java, *format_it], check=True, capture_output=True, timeout=120)
    child = process.start("kafka", [*java, "kafka.Kafka", file], folder=folder)
    try:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{ports['inside']}", "log_level": 0})

        def up() -> bool:
            try:
                return bool(admin.list_topics(timeout=1).brokers)
            except KafkaException:
                return False

        process.wait_until(up, child=child, seconds=60, what="Kafka")
        yield admin, {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    finally:
        child.stop()
