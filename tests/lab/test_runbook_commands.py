"""Every command that a runbook asks for is run, word for word, against a real broker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.lab.conftest import commit, produce
from tests.redrive.redriving import write_letters
from tests.redrive.six_kinds import headers_of
from workbench.lab.jars import BROKER, TOOLS, ensure
from workbench.lab.kafka import create_topic
from workbench.lab.lab import Lab, start_lab
from workbench.redrive.letters import Letter
from workbench.spark.java import find_java

pytestmark = pytest.mark.lab

# What may come out: a verdict is a result (0, 3), and so is "cannot tell" (4) for a group that nobody is a member of.
_JUDGED = (0, 3, 4)
COMMANDS = {
    'workbench triage --cluster "$CLUSTER" --group "$GROUP"': _JUDGED,
    'workbench snapshot --cluster "$CLUSTER" --group "$GROUP"': (0,),
    'workbench doctor --cluster "$CLUSTER" --group "$GROUP"': (0,),
    'workbench capture --cluster "$CLUSTER" --group "$GROUP" --output incident': (0,),
    'kafka-consumer-groups --bootstrap-server "$BOOTSTRAP" --describe --group "$GROUP"': (0,),
    'kafka-consumer-groups --bootstrap-server "$BOOTSTRAP" --describe --group "$GROUP" --members': (0,),
    'kafka-configs --bootstrap-server "$BOOTSTRAP" --describe --entity-type clients': (0,),
    'kafka-transactions --bootstrap-server "$BOOTSTRAP" describe-producers --topic "$TOPIC" --partition "$PARTITION"': (
        0,
    ),
    'kafka-transactions --bootstrap-server "$BOOTSTRAP" list --duration-filter 60000': (0,),
    'kafka-transactions --bootstrap-server "$BOOTSTRAP" find-hanging --topic "$TOPIC"': (0,),
    "workbench report list --output reports": (0,),
    'workbench impact --cluster "$CLUSTER" --since 30m': _JUDGED,
    'workbench triage --cluster "$CLUSTER" --all': _JUDGED,
    'workbench snapshot --cluster "$CLUSTER" --limit 20': (0,),
    'workbench snapshot --cluster "$CLUSTER" --limit 20 --sort time_lag': (0,),
    'workbench events list --cluster "$CLUSTER" --since 1h': (0,),
    'kafka-topics --bootstrap-server "$BOOTSTRAP" --describe --under-replicated-partitions': (0,),
    'kafka-topics --bootstrap-server "$BOOTSTRAP" --describe --unavailable-partitions': (0,),
    'workbench dlq list --cluster "$CLUSTER"': (0,),
    'workbench dlq show "$TOPIC" --cluster "$CLUSTER" --by error --by source --by minute': (0,),
    'workbench dlq show "$TOPIC" --cluster "$CLUSTER" --limit 5': (0,),
    'workbench dlq plan "$TOPIC" --cluster "$CLUSTER" --max-records-per-second 500 -o redrive.json': (0,),
    "workbench dlq apply redrive.json --dry-run": (0,),  # only its checks
    "workbench dlq verify redrive.json": (3,),  # nothing is produced yet
}
_KAFKA = {
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A Kafka of its own: commands for a whole cluster also tell of the odd topics that other tests leave behind."""
    with start_lab(tmp_path_factory.mktemp("runbooks") / "lab") as running:
        yield running


@pytest.fixture(scope="module")
def admin(lab: Lab) -> AdminClient:
    """An admin client of that Kafka."""
    return AdminClient({"bootstrap.servers": lab.bootstrap})


def test_every_command_runs(lab: Lab, admin: AdminClient, settings_file: Path, tmp_path: Path) -> None:
    """In a shell, with the variables set; Kafka's own tools are those of the lab's Kafka."""
    admin.create_topics([NewTopic("runbook-topic", num_partitions=1, replication_factor=1)])["runbook-topic"].result(30)
    produce(lab, "runbook-topic", {0: 50})
    create_topic(lab.bootstrap, "runbook-source", 1)
    write_letters(
        lab.bootstrap,
        "runbook-topic",
        [Letter(0, 0, 0, b"k", b"v", headers_of("runtime", "runbook-source", 0, 0, "bad"))],
    )
    commit(admin, "runbook-group", "runbook-topic", {0: 10})
    ensure(TOOLS)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "workbench").symlink_to(Path(sys.executable).with_name("workbench"))
    for name, main in _KAFKA.items():
        jars = f"{TOOLS.classpath}:{BROKER.classpath}"
        script = f'#!/bin/sh\nexec "{find_java().program}" -cp "{jars}" -Dlog4j2.level=ERROR {main} "$@"\n'
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "CLUSTER": "mine",
        "GROUP": "runbook-group",
        "TOPIC": "runbook-topic",
        "PARTITION": "0",
        "BOOTSTRAP": lab.bootstrap,
        "WORKBENCH_CONFIG": str(settings_file),
    }
    import time

    time.sleep(12)  # the exporter and Prometheus see the group only after some scrapes
    for command, codes in COMMANDS.items():
        shown = subprocess.run(
            ["sh", "-c", command],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert shown.returncode in codes, (command, shown.returncode, shown.stderr[-500:])
        assert "Traceback" not in shown.stderr
    assert (tmp_path / "incident" / "capture.json").is_file()
