"""Kafka's own tools as programs of a shell: those of the lab's Kafka."""

from __future__ import annotations

from pathlib import Path

from workbench.lab.kafka_jars import BROKER, TOOLS, ensure
from workbench.spark.java import find_java

_MAIN = {
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}


def write_programs(folder: Path) -> Path:
    """Write a program for each tool into a new folder, for PATH."""
    ensure(TOOLS)
    folder.mkdir()
    java = f'"{find_java().program}" -XX:TieredStopAtLevel=1 -cp "{TOOLS.classpath}:{BROKER.classpath}" -Dlog4j2.level=ERROR'
    for name, main in _MAIN.items():
        write_program(folder / name, f'exec {java} {main} "$@"')
    return folder


def write_program(path: Path, script: str) -> None:
    """Write a program of a shell."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
