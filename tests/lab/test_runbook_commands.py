"""Every command that a runbook asks for is run, word for word, against a real broker."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cli.running import run_here
from tests.lab.conftest import commit, produce
from tests.lab.kafka_programs import write_program, write_programs
from tests.redrive.redriving import write_letters
from tests.redrive.six_kinds import headers_of
from workbench.lab.lab import Lab, start_lab
from workbench.lab.lab_broker import create_topic
from workbench.layers.meter import Meter
from workbench.redrive.letter_headers import Letter

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
    'workbench audit show "$AUDIT" --stream "$STREAM"': (3,),  # a record is lost
    'workbench audit show "$AUDIT" --stream "$STREAM" --latency': (3,),
    'workbench audit missing "$AUDIT" --stream "$STREAM" --layer "$LAYER" --output missing.json': (3,),
    'workbench replay plan --from-audit missing.json --cluster "$CLUSTER" --from-group "$GROUP" --new-group "$GROUP-repair" '
    "--output plan.json": (0,),
    'workbench replay apply plan.json --cluster "$CLUSTER" --dry-run': (0,),
    'workbench audit gate "$AUDIT" --stream "$STREAM" --since "$SINCE" --until "$UNTIL"': (3,),
    'workbench audit publish "$AUDIT" --output audits': (4,),  # nobody has told anything of the last hours
    'workbench audit upstream --cluster "$CLUSTER"': (4,),  # no gateway tells anything
    'workbench audit upstream --cluster "$CLUSTER" --since 1h': (4,),
    'workbench capture --cluster "$CLUSTER" --output before-kafka': (0,),
    'workbench triage --cluster "$CLUSTER" --all': _JUDGED,  # last, as it sets Spark up for much data
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


def write_audit(lab: Lab, topic: str, settings: Path) -> None:
    """A layer that took in 20 records of a topic, and gave out one less; and an audit of it in the settings."""
    rows: list[str] = []
    gateway, collector = (
        Meter("orders", layer, topic=topic, partition=0, start=0, write=rows.extend)
        for layer in ("gateway", "collector")
    )
    producer = Producer({"bootstrap.servers": lab.bootstrap})
    for number in range(20):
        name = b"id-%d" % number
        producer.produce(topic, b"v", partition=0, headers=[("wb-id", name)])
        for meter, point in ((gateway, "out"), (collector, "in"), (collector, "out")):
            if (point, number) != ("out", 7) or meter is gateway:
                meter.count(point, number, name, created_ms=number)
    assert producer.flush(30) == 0
    for meter in (gateway, collector):
        meter.flush(20)
        meter.flush(20)  # nothing more has come: the window is final
    (settings.parent / "rows.jsonl").write_text("".join(f"{line}\n" for line in rows))
    with settings.open("a") as file:
        file.write(
            f'\n[audits.orders]\ncluster = "mine"\nrows = "{settings.parent}/rows.jsonl"\nlayers = ["gateway", "collector"]\n'
        )


def test_every_command_runs(
    lab: Lab, admin: AdminClient, spark: Any, settings_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a shell, with the variables set; ours then in this process, as seven of them would start a Spark of their own.

    Kafka's own tools are those of the lab's Kafka.
    """
    admin.create_topics([NewTopic("runbook-topic", num_partitions=1, replication_factor=1)])["runbook-topic"].result(30)
    produce(lab, "runbook-topic", {0: 50})
    create_topic(lab.bootstrap, "runbook-source", 1)
    write_letters(
        lab.bootstrap,
        "runbook-topic",
        [Letter(0, 0, 0, b"k", b"v", headers_of("runtime", "runbook-source", 0, 0, "bad"))],
    )
    commit(admin, "runbook-group", "runbook-topic", {0: 10})
    create_topic(lab.bootstrap, "runbook-stream", 1)
    write_audit(lab, "runbook-stream", settings_file)
    commit(admin, "runbook-group", "runbook-stream", {0: 20})
    programs = write_programs(tmp_path / "bin")
    write_program(programs / "workbench", 'printf \'%s\\0\' "$@" >"$ARGUMENTS"')
    arguments = tmp_path / "arguments"
    monkeypatch.setenv("WORKBENCH_CONFIG", str(settings_file))
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "CLUSTER": "mine",
        "GROUP": "runbook-group",
        "TOPIC": "runbook-topic",
        "PARTITION": "0",
        "AUDIT": "orders",
        "STREAM": "orders",
        "LAYER": "collector",
        "SINCE": "1970-01-01T00:00:00Z",
        "UNTIL": "1970-01-01T00:01:00Z",
        "BOOTSTRAP": lab.bootstrap,
        "ARGUMENTS": str(arguments),
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
        if command.startswith("workbench "):
            shown = run_here(*arguments.read_text().split("\0")[:-1], cwd=tmp_path)
            arguments.unlink()
        assert shown.returncode in codes, (command, shown.returncode, shown.stderr[-500:])
        assert "Traceback" not in shown.stderr
    assert (tmp_path / "incident" / "capture.json").is_file()
