"""Dead letters of a real standalone, which Pulsar's own client has written: listed, shown, planned, and produced again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests

from tests.waiting import wait_for
from workbench.api.letter_redrives import apply_redrive, plan_redrive
from workbench.lab.pulsar import PulsarStandalone
from workbench.pulsar.admin import PulsarAdmin
from workbench.pulsar.connection import PulsarConnection
from workbench.pulsar.producer import PulsarProducer
from workbench.pulsar.redrive.pulsar_letter_queue import PulsarLetterQueue
from workbench.redrive.letter_headers import LETTER_HEADER, ROUND_HEADER, Letter
from workbench.redrive.planfile import read_redrive_plan
from workbench.redrive.redrive_ports import FencedError
from workbench.settings import load_settings

if TYPE_CHECKING:
    import pulsar

pytestmark = [pytest.mark.lab, pytest.mark.slow]

ORDERS, PARTITIONS = "public/default/orders", 3
LETTERS = f"{ORDERS}-billing-DLQ"


@pytest.fixture(scope="module")
def standalone(standalone: PulsarStandalone) -> PulsarStandalone:
    """With the topic of the orders."""
    url = f"{standalone.admin_url}/admin/v2/persistent/{ORDERS}/partitions"
    assert requests.put(url, json=PARTITIONS, timeout=30).status_code < 300
    return standalone


@pytest.fixture(scope="module")
def letters(client: pulsar.Client) -> dict[str, str]:
    """60 messages that a shared consumer has given up, of 120 in batches: place in the source to content."""
    import pulsar

    consumer = client.subscribe(
        f"persistent://{ORDERS}",
        "billing",
        consumer_type=pulsar.ConsumerType.Shared,
        initial_position=pulsar.InitialPosition.Earliest,
        negative_ack_redelivery_delay_ms=100,
        dead_letter_policy=pulsar.ConsumerDeadLetterPolicy(1, f"persistent://{LETTERS}", "kept"),
    )
    producer = client.create_producer(
        f"persistent://{ORDERS}", batching_max_messages=10, batching_max_publish_delay_ms=20
    )
    for number in range(120):
        producer.send_async(
            str(number).encode(),
            lambda *_: None,
            partition_key=f"k{number % 7}",
            properties={"tenant": f"t{number % 2}"},
        )
    producer.flush()
    given_up: dict[str, str] = {}
    ends = time.monotonic() + 90

    def take(milliseconds: int) -> None:
        with suppress(pulsar.Timeout):
            message = consumer.receive(milliseconds)
            if int(message.data()) % 2:
                given_up[str(int(message.data()))] = message.partition_key()
                consumer.negative_acknowledge(message)
            else:
                consumer.acknowledge(message)

    reader = client.create_reader(f"persistent://{LETTERS}", pulsar.MessageId.earliest)
    found = {}
    while len(found) < 60 and time.monotonic() < ends:
        take(200)
        while reader.has_message_available():
            letter = reader.read_next(1000)
            found[letter.data().decode()] = letter.partition_key()
    reader.close()
    consumer.close()
    assert found == given_up and len(found) == 60
    return found


@pytest.fixture
def folder(standalone: PulsarStandalone, tmp_path: Path) -> Path:
    """Where the settings are."""
    text = f'[clusters.mq]\nsystem = "pulsar"\npulsar.admin_url = "{standalone.admin_url}"\n'
    (tmp_path / "workbench.toml").write_text(
        text + f'pulsar.service_url = "{standalone.service_url}"\n', encoding="utf-8"
    )
    return tmp_path


def workbench(folder: Path, *words: str, code: int = 0) -> Any:
    """A command's JSON, or its text."""
    command = [sys.executable, "-c", "from workbench.cli import main; main()", *words]
    done = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout) if "--json" in words else done.stdout + done.stderr


def environment(folder: Path) -> dict[str, str]:
    """With a state of its own."""
    return {**os.environ, "XDG_STATE_HOME": str(folder / "state")}


def produced(client: pulsar.Client, topic: str) -> list[tuple[str, str, int, dict[str, str]]]:
    """Content, key, partition and properties of what was redriven into a topic."""
    import pulsar

    found = []
    for part in client.get_topic_partitions(f"persistent://{topic}"):
        reader = client.create_reader(part, pulsar.MessageId.earliest)
        while reader.has_message_available():
            message = reader.read_next(5000)
            if LETTER_HEADER in message.properties():
                number = int(part.rpartition("-partition-")[2]) if "-partition-" in part else -1
                found.append((message.data().decode(), message.partition_key(), number, message.properties()))
        reader.close()
    return found


def test_letters_are_listed_and_shown(folder: Path, letters: dict[str, str]) -> None:
    """With their number, their sources and the place in it; a value only on request."""
    [topic] = workbench(folder, "dlq", "list", "--cluster", "mq", "--json")["topics"]
    assert (topic["topic"], topic["letters"], topic["frameworks"]) == (LETTERS, 60, {"pulsar": 60})
    assert topic["sources"] == {ORDERS: 60}
    assert topic["per_hour"] == 60
    assert topic["oldest_seconds"] < 600
    shown = workbench(folder, "dlq", "show", LETTERS, "--cluster", "mq", "--limit", "100", "--payload", "--json")[
        "letters"
    ]
    assert {it["value"]["value"]: it["key"] for it in shown} == letters
    assert {it["origin"]["topic"] for it in shown} == {ORDERS}
    assert {it["origin"]["partition"] for it in shown} == set(range(PARTITIONS))
    counts = workbench(folder, "dlq", "show", LETTERS, "--cluster", "mq", "--by", "source", "--json")
    assert counts["source"] == [{"name": ORDERS, "letters": 60}]


def test_a_redrive_produces_each_letter_once_where_it_was(
    folder: Path, client: pulsar.Client, standalone: PulsarStandalone, letters: dict[str, str]
) -> None:
    """Into its partition, with its own properties; killed at random and repeated; a second plan has nothing left."""
    plan = folder / "plan.json"
    workbench(folder, "dlq", "plan", LETTERS, "--cluster", "mq", "-o", str(plan))
    document = json.loads(plan.read_text(encoding="utf-8"))
    assert any("up to 100 letters" in it for it in document["warnings"])
    assert sum(it["letters"] for it in document["partitions"]) == 60
    assert "Nothing was written" in workbench(folder, "dlq", "apply", str(plan), "--dry-run")
    words = [sys.executable, "-c", "from workbench.cli import main; main()", "dlq", "apply", str(plan)]
    words += ["--confirm", f"{LETTERS} 60"]
    for seconds in (0.9, 1.3, 1.5, 1.7, 1.9, 2.2):
        child = subprocess.Popen(
            words, cwd=folder, env=environment(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(seconds)
        child.kill()
        child.wait(10)
    receipt = workbench(folder, "dlq", "apply", str(plan), "--confirm", f"{LETTERS} 60", "--json")
    assert receipt["outcome"] == "done"
    found = produced(client, ORDERS)
    assert Counter(it[0] for it in found) == Counter(dict.fromkeys(letters, 1))
    assert {it[0]: it[1] for it in found} == letters
    origins = original_partitions(client)
    for content, _, number, properties in found:
        assert number == origins[content]
        assert properties["tenant"] == f"t{int(content) % 2}"
        assert properties[ROUND_HEADER] == "1" and "REAL_TOPIC" not in properties
    checked = workbench(folder, "dlq", "verify", str(plan), "--json")
    assert checked["verdict"] == "verified", checked
    again = workbench(folder, "dlq", "plan", LETTERS, "--cluster", "mq", code=6)
    assert "60 already redriven" in again
    assert "Redriven" not in again


def original_partitions(client: pulsar.Client) -> dict[str, int]:
    """Where each message was first."""
    import pulsar

    found = {}
    for part in client.get_topic_partitions(f"persistent://{ORDERS}"):
        reader = client.create_reader(part, pulsar.MessageId.earliest)
        while reader.has_message_available():
            message = reader.read_next(5000)
            if LETTER_HEADER not in message.properties():
                found[message.data().decode()] = int(part.rpartition("-partition-")[2])
        reader.close()
    return found


def test_a_run_that_is_cut_off_at_any_message_repeats_none(
    folder: Path, client: pulsar.Client, standalone: PulsarStandalone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """300 letters of our own runtime's form; cut off before the n-th message, or the note of the position."""
    import pulsar

    source, dead = "public/default/cut", "public/default/cut-billing-DLQ"
    client.create_producer(f"persistent://{source}").close()
    producer = client.create_producer(f"persistent://{dead}", batching_enabled=False, block_if_queue_full=True)
    for number in range(300):
        named = {"REAL_TOPIC": f"persistent://{source}", "ORIGIN_MESSAGE_ID": f"7:{number}:-1", "wb_code": "600"}
        producer.send_async(str(number).encode(), lambda *_: None, partition_key=f"k{number % 5}", properties=named)
    producer.flush()
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    settings = folder / "workbench.toml"
    plan = plan_redrive(cluster="mq", topic=dead, config=settings)
    file = plan.write(folder / "cut.json")
    assert plan.plan.errors == {"600": 300}
    cuts = iter([3, 50, 101, 180, 333])
    left = [next(cuts)]

    def cut(of: type, name: str) -> None:
        whole = getattr(of, name)

        def counted(self: Any, *args: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                for connection in opened:
                    connection._socket.shutdown(2)
                raise Cut
            return whole(self, *args, **options)

        monkeypatch.setattr(of, name, counted)

    opened: list[PulsarConnection] = []
    begin = PulsarConnection._greet
    monkeypatch.setattr(PulsarConnection, "_greet", lambda self, broker: (opened.append(self), begin(self, broker))[1])
    cut(PulsarProducer, "send")
    cut(PulsarAdmin, "set_properties")
    runs = 0
    while True:
        runs += 1
        opened.clear()
        try:
            receipt = apply_redrive(file, confirm=plan.plan.hash, config=settings)
            break
        except Cut:
            left[0] = next(cuts, 10**9)
    assert runs >= 4 and receipt.outcome == "done"
    found = [it[0] for it in produced(client, source)]
    assert Counter(found) == Counter(map(str, range(300)))
    reader = client.create_reader(f"persistent://{source}", pulsar.MessageId.earliest)
    seen: dict[str, list[int]] = {}
    while reader.has_message_available():
        message = reader.read_next(1000)
        seen.setdefault(message.partition_key(), []).append(int(message.data()))
    assert all(numbers == sorted(numbers) for numbers in seen.values())


@pytest.fixture
def few(folder: Path, client: pulsar.Client, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str, str]:
    """A plan of 20 letters, its hash, and the topic they go to."""
    name = f"public/default/few-{time.monotonic_ns()}"
    client.create_producer(f"persistent://{name}").close()
    producer = client.create_producer(f"persistent://{name}-billing-DLQ")
    for number in range(20):
        named = {"REAL_TOPIC": f"persistent://{name}", "ORIGIN_MESSAGE_ID": f"7:{number}:-1", "wb_code": "600"}
        producer.send(str(number).encode(), properties=named)
    producer.close()
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    plan = plan_redrive(cluster="mq", topic=f"{name}-billing-DLQ", config=folder / "workbench.toml")
    return plan.write(folder / "few.json"), plan.plan.hash, name


def test_a_plan_whose_progress_has_expired_repeats_nothing(
    few: tuple[Path, str, str], folder: Path, client: pulsar.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A namespace may let subscriptions without consumers expire; and another machine knows nothing of the first run."""
    file, confirm, name = few
    settings = folder / "workbench.toml"
    assert apply_redrive(file, confirm=confirm, config=settings).outcome == "done"
    [cluster] = load_settings(settings).clusters.values()
    admin = PulsarAdmin(cluster)
    topic = f"persistent/{name}-billing-DLQ"
    [kept] = [it for it in admin.get(f"{topic}/stats")["subscriptions"] if it.startswith("workbench")]
    url = f"{cluster.pulsar.admin_url}/admin/v2/{topic}/subscription/{kept}"
    assert requests.delete(url, timeout=30).status_code < 300
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "elsewhere"))
    assert apply_redrive(file, confirm=confirm, config=settings).outcome == "done"
    assert Counter(it[0] for it in produced(client, name)) == Counter(map(str, range(20)))


def test_a_run_that_no_longer_keeps_others_out_sends_nothing(few: tuple[Path, str, str], folder: Path) -> None:
    """What it knows of the targets may be old: another run may have been let in."""
    file, _, name = few
    [cluster] = load_settings(folder / "workbench.toml").clusters.values()
    plan = read_redrive_plan(file)
    sink = PulsarLetterQueue(cluster).sink(plan)
    sink.begin()
    sink.claim({0: 0}, None, {0: ""}, lambda: None)
    sink.send(name, 0, Letter(0, 1, 1, None, b"x", ()), (), None)
    url = f"{cluster.pulsar.admin_url}/admin/v2/persistent/{name}-billing-DLQ/unload"
    assert requests.put(url, timeout=30).status_code < 300
    wait_for(lambda: sink._claimed is not None and not sink._claimed.is_open)
    with pytest.raises(FencedError, match="keeps other runs out"):
        sink.commit({0: 1}, None)
    sink.close()


def test_a_letter_comes_back_with_its_time_and_its_order(
    few: tuple[Path, str, str], folder: Path, client: pulsar.Client
) -> None:
    """As another client has written them, alone and in a batch."""
    import pulsar

    _, _, name = few
    dead, settings = f"{name}-billing-DLQ", folder / "workbench.toml"
    named = {"REAL_TOPIC": f"persistent://{name}", "wb_code": "600"}
    for batching in (False, True):
        producer = client.create_producer(f"persistent://{dead}", batching_enabled=batching)
        said = {**named, "ORIGIN_MESSAGE_ID": f"8:{int(batching)}:-1"}
        producer.send(
            b"dated", properties=said, partition_key="k", ordering_key="lane", event_timestamp=1_700_000_000_001
        )
        producer.close()
    plan = plan_redrive(cluster="mq", topic=dead, config=settings)
    assert apply_redrive(plan.write(folder / "dated.json"), confirm=plan.plan.hash, config=settings).outcome == "done"
    reader = client.create_reader(f"persistent://{name}", pulsar.MessageId.earliest)
    found = []
    while reader.has_message_available():
        message = reader.read_next(5000)
        found.append((message.data(), message.event_timestamp(), message.ordering_key()))
    reader.close()
    assert [it[1:] for it in found if it[0] == b"dated"] == [(1_700_000_000_001, "lane")] * 2
    assert {it[1:] for it in found if it[0] != b"dated"} == {(0, "")}


class Cut(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("end", ["done", "discarded"])
def test_following_says_what_became_of_a_plan(
    few: tuple[Path, str, str], folder: Path, client: pulsar.Client, end: str
) -> None:
    """By the plan alone, from any machine; what came since is counted in letters, which lie far apart as numbers."""
    file, confirm, name = few
    follow = ("dlq", "follow", str(file), "--once", "--json")
    before = workbench(folder, *follow, code=7)
    assert (before["begun"], before["produced"], before["new_letters"]) == (False, 0, 0)
    if end == "done":
        assert apply_redrive(file, confirm=confirm, config=folder / "workbench.toml").outcome == "done"
    else:
        workbench(folder, "dlq", "discard", str(file), "--reason", "test data", "--confirm", confirm)
    producer = client.create_producer(f"persistent://{name}-billing-DLQ", batching_enabled=False)
    for number in range(3):
        producer.send(str(number).encode())
    producer.close()
    after = workbench(folder, *follow, code=0 if end == "done" else 6)
    assert (after["state"], after["produced"], after["new_letters"]) == (end, 20 if end == "done" else 0, 3)
