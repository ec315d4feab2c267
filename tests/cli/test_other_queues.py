"""Every command on a cluster that is no Kafka: it works, or says in one sentence that it does not, with the right code.

No command may treat such a cluster as a Kafka, and none may end in a traceback.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.cli.running import check, run, run_here
from tests.pulsar.pages import FakeAdmin, consumer, subscription, topic
from tests.servers import Script, scripted
from workbench.cli import root

TOPICS = {"public/default/orders": topic(billing=subscription(consumers=[consumer()]), dead=subscription())}
# Words of each command that takes --cluster; OUT and PLAN are in the test's folder.
WORDS = {
    "audit gate": "--stream s --topic rows --layers a,b --since 2026-11-26T00:00:00Z --until 2026-11-26T01:00:00Z",
    "audit missing": "--stream s --topic rows --layers a,b --layer b",
    "audit publish": "--topic rows --layers a,b --out OUT",
    "audit restarts": "",
    "audit upstream": "",
    "audit run": "--topic rows --layers a,b --output OUT",
    "audit show": "--topic rows --layers a,b",
    "audit trace": "order-17 --topic rows",
    "capture": "--out OUT",
    "dlq apply": "PLAN",
    "dlq discard": "PLAN --reason tried",
    "dlq follow": "PLAN",
    "dlq give-up": "PLAN --reason tried",
    "dlq list": "",
    "dlq plan": "orders-dlq",
    "dlq show": "orders-dlq",
    "dlq verify": "PLAN",
    "doctor": "--json",
    "events add": "--service payments",
    "events import": "--help",
    "events list": "",
    "export grafana": "--out OUT",
    "export login": "",
    "export rules": "--runbook-base https://wiki/books --out OUT",
    "impact": "",
    "notebook": "--help",
    "partitions exclude": "--group billing --topic public/default/orders",
    "profiles check": "",
    "profiles new": "--output OUT.yaml",
    "pulsar config-check": "",
    "pulsar split-plan": "--namespace public/default --bundle 0x00000000_0x40000000",
    "pulsar subscriptions": "",
    "replay apply": "PLAN",
    "replay cutover": "PLAN --fleet OUT",
    "replay follow": "PLAN",
    "replay inspect": "PLAN",
    "replay plan": "--from-group billing --new-group again --topic public/default/orders --since 3h",
    "replay retire": "PLAN",
    "replay rollback": "PLAN",
    "replay verify": "PLAN",
    "report run health": "--output OUT --since 1h",
    "snapshot": "",
    "triage": "--html OUT.html",
    "watch": "--output OUT",
}
REFUSED = "does not work on a"
# What a Pulsar and a RocketMQ say, where they do not refuse the command: a part of the message, or "" if it works.
PULSAR = {
    **dict.fromkeys(
        ("doctor", "events add", "events import", "events list", "notebook", "snapshot", "pulsar subscriptions"), ""
    ),
    **dict.fromkeys(
        ("audit gate", "audit missing", "audit publish", "audit run", "audit show", "audit trace"),
        "has no topic 'rows'",
    ),
    **dict.fromkeys(("dlq list", "dlq plan", "dlq show"), "has no pulsar.service_url"),
    "pulsar config-check": "does not tell brokers/configuration",
    "pulsar split-plan": "does not tell",
    "replay plan": "does not tell persistent/public/default/orders",
    "report run health": "is judged as it is now",
}
# Of a RocketMQ, what reads its metrics reaches for the Prometheus, and ends with 5 here.
ROCKETMQ = {
    **dict.fromkeys(("events add", "events import", "events list", "notebook", "export grafana", "export rules"), ""),
    **dict.fromkeys(
        ("audit restarts", "audit upstream", "capture", "impact", "profiles check", "profiles new", "triage"),
        "Prometheus at 127.0.0.1:1 cannot be reached",
    ),
    **dict.fromkeys(("pulsar config-check", "pulsar split-plan", "pulsar subscriptions"), "is no Pulsar"),
    "watch": "has no source to record",
}
WAITS = ("pulsar", "capture")  # it looks twice, ten seconds apart; tests/pulsar/test_capture.py has it
APART = {"doctor", "report run health"}  # told about elsewhere: they go on after what they cannot read


def commands() -> Iterator[str]:
    """Every command that takes --cluster."""

    def below(command: click.Command, name: str, context: click.Context) -> Iterator[str]:
        if isinstance(command, click.Group):
            for word in command.list_commands(context):
                inner = command.get_command(context, word)
                assert inner is not None
                yield from below(inner, f"{name} {word}".strip(), context)
        elif any("--cluster" in it.opts for it in command.params):
            yield name

    with click.Context(root) as context:
        yield from below(root, "", context)


def test_every_command_is_tried() -> None:
    """A new one needs an answer for other queues, too."""
    assert set(commands()) == WORDS.keys()


def _done(
    name: str, system: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[subprocess.CompletedProcess[str], str]:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    (folder / "plan.json").write_text("{}")
    with scripted(Script(answer=FakeAdmin(TOPICS))) as server:
        own = f'pulsar.admin_url = "{server.url}"' if system == "pulsar" else 'prometheus = "http://127.0.0.1:1"'
        (folder / "workbench.toml").write_text(f'[clusters.mq]\nsystem = "{system}"\ntimeout_seconds = 5\n{own}\n')
        words = WORDS[name].replace("OUT", str(folder / "out")).replace("PLAN", str(folder / "plan.json")).split()
        starts_spark = system == "rocketmq" and name in ("capture", "impact", "triage")
        done = (run if starts_spark else run_here)(*name.split(), *words, "--cluster", "mq", cwd=folder)
    return done, f"{done.stdout}{done.stderr}"


@pytest.mark.parametrize(
    ("system", "name"),
    [(it, name) for it in ("pulsar", "rocketmq") for name in sorted(WORDS.keys() - APART) if (it, name) != WAITS],
)
def test_a_command_works_or_says_that_it_does_not(
    name: str, system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one sentence, with code 2, and without a word about Kafka's brokers or their client."""
    done, said = _done(name, system, tmp_path, monkeypatch)
    expected = {"pulsar": PULSAR, "rocketmq": ROCKETMQ}[system].get(name, REFUSED)
    assert not re.search(r"Traceback|librdkafka|bootstrap|KafkaError", said), said
    if "PLAN" in WORDS[name]:
        check(done, 2, "plan.json is not a ")  # a plan says itself which queue it is of
    elif expected == "":
        assert done.returncode == 0, said
    else:
        check(done, 5 if "reached" in expected or "tell" in expected else 2, expected)
