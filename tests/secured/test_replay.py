"""A replay on a secured cluster, from plan to rollback; and with a broker killed, or leaders moved, at any moment of it."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests.secured.conftest import commit, committed, coordinator_of, document, fill, fresh, run, settings_for, took
from tests.three_brokers.access import ONCALL, READER, SERVICE
from tests.three_brokers.secured import SecuredLab
from workbench.errors import GuardError, SourceUnreachableError, WorkbenchError
from workbench.kafka.kafka_gateway import KafkaGateway
from workbench.plans.journal import Journal
from workbench.plans.strict_document import write_file
from workbench.queues.replay_port import ABSENT
from workbench.replay.apply import ApplyOptions, apply_plan
from workbench.replay.guard import ReplayLimits
from workbench.replay.plan import make_plan, survey
from workbench.replay.planfile import AfterEnd, Plan
from workbench.replay.receipt import ReplayOutcome, read_rollback, rollback_path
from workbench.replay.replay_request import PlanRequest
from workbench.replay.rollback_of_apply import roll_back
from workbench.window import parse_instant

pytestmark = pytest.mark.lab
PARTITIONS, RECORDS = 12, 100


def gateway_for(secured: SecuredLab, user: str = ONCALL) -> KafkaGateway:
    """A connection as the commands have it."""
    return KafkaGateway(secured.bootstrap, secured.properties(user))


def topic_and_group(secured: SecuredLab) -> tuple[str, str]:
    """A topic with a record per second, and a group that has committed 0 everywhere."""
    topic, group = fresh("team-replay"), fresh("team-old")
    now = int(time.time() * 1000)
    fill(secured, topic, PARTITIONS, RECORDS, times=lambda number: now - 1000 * (RECORDS - number))
    commit(secured, group, topic, dict.fromkeys(range(PARTITIONS), 0))
    return topic, group


def plan_for(gateway: KafkaGateway, topic: str, old: str, new: str) -> Plan:
    """A plan from the middle of the records on."""
    request = PlanRequest(
        cluster="mine", from_group=old, new_group=new, topics=[topic], since=parse_instant("50s ago"),
        requested_since="50s ago", after_end=AfterEnd.END,
    )  # fmt: skip
    return make_plan(request, *survey(gateway, request))


def kept(folder: Path, plan: Plan) -> Path:
    """The plan as a file."""
    path = folder / f"{plan.new_group}.json"
    write_file(path, plan.document())
    return path


def applied(secured: SecuredLab, plan: Plan, folder: Path) -> Path:
    """The plan as a file, carried out."""
    path = kept(folder, plan)
    receipt = apply_plan(plan, path, gateway_for(secured), Journal(path=folder / "j"), ApplyOptions(quiet_seconds=0.0))
    assert receipt.outcome is ReplayOutcome.DONE
    return path


def consume(secured: SecuredLab, group: str, topic: str, until: Callable[[], bool]) -> None:
    """A consumer of the application in a group, until something holds; it commits what it reads."""
    consumer = Consumer(
        {
            **secured.properties(SERVICE), "bootstrap.servers": secured.bootstrap, "group.id": group,
            "enable.auto.commit": True, "auto.commit.interval.ms": 200, "session.timeout.ms": 6000,
        }
    )  # fmt: skip
    consumer.subscribe([topic])
    try:
        while not until():
            consumer.poll(0.2)
    finally:
        consumer.close()


def test_the_commands_from_plan_to_rollback(secured: SecuredLab, tmp_path: Path) -> None:
    """As `oncall`, whose rights are those of the table in docs/lab.md."""
    topic, old = topic_and_group(secured)
    new, path, settings = fresh("team-new"), tmp_path / "plan.json", settings_for(secured, tmp_path)
    words = ["--cluster", "mine", "--from-group", old, "--new-group", new, "--topic", topic, "--since", "50s ago"]
    shown = run(secured, settings, "replay", "plan", *words, "-o", str(path))
    assert shown.returncode == 0, shown.stderr
    confirm = ["--confirm", json.loads(path.read_text())["hash"]]
    shown = run(secured, settings, "replay", "apply", str(path), *confirm, "--json")
    assert shown.returncode == 0, shown.stderr
    assert document(shown)["outcome"] == "done"
    targets = {
        (part["topic"], part["partition"]): part["target"] for part in json.loads(path.read_text())["partitions"]
    }
    assert committed(secured, new) == targets
    once = run(secured, settings, "replay", "follow", str(path), "--once")
    assert once.returncode == 7, once.stderr
    back = json.loads(rollback_path(path).read_text())["hash"]
    shown = run(secured, settings, "replay", "rollback", str(rollback_path(path)), "--confirm", back, "--json")
    assert shown.returncode == 0, shown.stderr
    # These brokers may hide topics from `oncall`: its commits are taken away, and the group only with the last of all of them.
    assert committed(secured, new) == {}
    assert document(shown)["deleted"] is (gateway_for(secured).group(new).state in (ABSENT, "dead"))


def test_follow_until_the_window_is_complete(secured: SecuredLab, tmp_path: Path) -> None:
    """While a consumer of the application works it off."""
    topic, old = topic_and_group(secured)
    plan = plan_for(gateway_for(secured), topic, old, fresh("team-new"))
    path, settings = applied(secured, plan, tmp_path), settings_for(secured, tmp_path)
    done = threading.Event()
    consumer = threading.Thread(target=consume, args=(secured, plan.new_group, topic, done.is_set))
    consumer.start()
    try:
        shown = run(secured, settings, "replay", "follow", str(path), "--timeout", "90s", "--json")
    finally:
        done.set()
        consumer.join()
    assert shown.returncode == 0, shown.stderr


def test_what_the_principal_lacks_is_named_before_anything_changes(secured: SecuredLab, tmp_path: Path) -> None:
    """`reader` may describe, and so plan; a commit takes READ on group and topic."""
    topic, old = topic_and_group(secured)
    new = fresh("team-new")
    gateway = gateway_for(secured, READER)
    plan = plan_for(gateway, topic, old, new)
    path = kept(tmp_path, plan)
    receipt = apply_plan(plan, path, gateway, Journal(path=tmp_path / "j"), ApplyOptions(quiet_seconds=0.0))
    assert receipt.outcome is not ReplayOutcome.DONE
    assert committed(secured, new) == {}
    text = " ".join([*receipt.reasons, *(part.error or "" for part in receipt.partitions)])
    assert f"'reader' lacks READ on group '{new}'" in text
    hidden = fresh("elsewhere")
    with pytest.raises(WorkbenchError, match=f"'reader' lacks DESCRIBE on group '{hidden}'"):
        gateway.group(hidden)


@pytest.mark.secured
@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "hanging"])
def test_a_plan_while_a_broker_is_lost(whole: SecuredLab, how: str) -> None:
    """It is made of the same offsets, as soon as the others have taken over; or it is refused with the broker's name."""
    topic, old = topic_and_group(whole)
    expected = plan_for(gateway_for(whole), topic, old, fresh("team-new"))
    for number in (1, 2, 3):
        whole.heal()
        whole.move_leaders()
        broker, gateway = whole.brokers[number - 1], gateway_for(whole)
        timer = threading.Timer(0.02 * number, broker.kill if how == "killed" else broker.suspend)
        timer.start()
        began = time.monotonic()
        try:
            plan = plan_for(gateway, topic, old, fresh("team-new"))
        except (GuardError, SourceUnreachableError) as error:
            assert topic in error.message or "127.0.0.1" in error.message
            timer.join()
            whole.heal()
            plan = plan_for(gateway, topic, old, fresh("team-new"))
        seconds = time.monotonic() - began
        timer.join()
        late = {key for key, at in plan.targets.items() if at < expected.targets[key]}
        assert not late
        assert set(plan.targets) == set(expected.targets)
        assert seconds < 90
        broker.resume()


@pytest.mark.secured
@pytest.mark.slow
def test_a_plan_while_leaders_move(whole: SecuredLab) -> None:
    """Again and again; the offsets are those of a quiet cluster."""
    topic, old = topic_and_group(whole)
    expected = plan_for(gateway_for(whole), topic, old, fresh("team-new"))
    instant = parse_instant("1m ago")
    truth = gateway_for(whole).logs(sorted(expected.targets), instants_ms=[int(instant.timestamp() * 1000)])
    for broker in whole.brokers:
        broker.restart()  # its leaders have gone to the others
        gateway = gateway_for(whole)
        gateway.cluster([topic])
        mover = threading.Thread(target=whole.move_leaders, args=(topic,))
        mover.start()
        for _ in range(5):
            found = gateway.logs(sorted(expected.targets), instants_ms=[int(instant.timestamp() * 1000)])
            assert found.errors == {}
            assert found == truth
        mover.join()
        plan = plan_for(gateway, topic, old, fresh("team-new"))
        assert set(plan.targets) == set(expected.targets)
        whole.heal()


@pytest.mark.slow
def test_follow_while_a_broker_is_killed(whole: SecuredLab, tmp_path: Path) -> None:
    """It goes on: the others have taken over within its time limit for a request."""
    topic, old = topic_and_group(whole)
    plan = plan_for(gateway_for(whole), topic, old, fresh("team-new"))
    path, settings = applied(whole, plan, tmp_path), settings_for(whole, tmp_path)
    done = threading.Event()

    def later() -> None:
        time.sleep(3)
        whole.brokers[coordinator_of(whole, plan.new_group) - 1].kill()
        consume(whole, plan.new_group, topic, done.is_set)

    worker = threading.Thread(target=later)
    worker.start()
    try:
        shown = run(whole, settings, "replay", "follow", str(path), "--timeout", "120s", "--json")
    finally:
        done.set()
        worker.join()
    assert shown.returncode == 0, shown.stderr


RUNS = int(os.environ.get("SECURED_RUNS", "3"))
SEED = int(os.environ.get("SECURED_SEED", "1"))


@pytest.mark.secured
def test_applies_with_a_broker_lost_at_a_random_moment(whole: SecuredLab, tmp_path: Path) -> None:
    """Never a silent partial: done means all, and whatever else it says, the same command finishes it later; a rollback undoes it."""
    draw = random.Random(SEED)
    topic, old = topic_and_group(whole)
    outcomes: list[str] = []
    options = ApplyOptions(quiet_seconds=0.2, limits=ReplayLimits(allow_under_replicated=True))
    first = plan_for(gateway_for(whole), topic, old, fresh("team-new"))
    path = kept(tmp_path, first)
    quiet, normal = took(lambda: apply_plan(first, path, gateway_for(whole), Journal(path=tmp_path / "j"), options))
    assert quiet.outcome is ReplayOutcome.DONE
    for number in range(RUNS):
        whole.heal()
        whole.move_leaders()
        plan = plan_for(gateway_for(whole), topic, old, fresh("team-new"))
        path, journal = kept(tmp_path, plan), Journal(path=tmp_path / f"journal-{number}")
        broker = draw.choice(whole.brokers)
        moment, how = draw.uniform(0.0, 1.1 * normal), draw.choice(["killed", "hanging"])
        timer = threading.Timer(moment, broker.kill if how == "killed" else broker.suspend)
        timer.start()
        began = time.monotonic()
        try:
            receipt = apply_plan(plan, path, gateway_for(whole), journal, options)
            outcome = receipt.outcome.value
        except SourceUnreachableError as error:
            assert error.message
            outcome = "unreachable"
        seconds = time.monotonic() - began
        timer.join()
        outcomes.append(outcome)
        # With -s: which moment led to what.
        print(
            f"run {number}: broker {broker.number} {how} at {moment:.2f} s: {outcome} after {seconds:.1f} s", flush=True
        )
        broker.resume()
        whole.heal()
        found = committed(whole, plan.new_group)
        if outcome == "done":
            assert found == plan.targets
        elif outcome in ("partial", "failed"):
            failed = {(part.topic, part.partition) for part in receipt.partitions if part.status.value == "failed"}
            assert failed >= {key for key, at in plan.targets.items() if found.get(key) != at}
        lines, _ = journal.read()
        if found:
            assert any(line.phase == "begin" for line in lines), "a write without a line in the journal"
        # The same again, as a person would do it.
        receipt = apply_plan(plan, path, gateway_for(whole), journal, options)
        assert receipt.outcome is ReplayOutcome.DONE, (number, receipt.reasons)
        assert committed(whole, plan.new_group) == plan.targets
        undone = roll_back(read_rollback(rollback_path(path)), gateway_for(whole), journal)
        assert not undone.failed
        assert committed(whole, plan.new_group) == {}
        assert committed(whole, old) == dict.fromkeys(plan.targets, 0)
    print(f"{RUNS} runs, seed {SEED}, {normal:.2f} s without a loss: {dict(Counter(outcomes))}")
