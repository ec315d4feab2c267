"""One of three brokers is lost, or hangs: what the others say comes soon, and what is missing is named."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.secured.conftest import Filled, coordinators_of, filled, fresh, leader_of, source, took
from tests.three_brokers.access import PREFIX
from tests.three_brokers.node import SecuredBroker
from tests.three_brokers.secured import SecuredLab
from workbench.errors import SourceUnreachableError
from workbench.kafka.brokers_that_answer import look_at_brokers
from workbench.kafka.cluster_snapshot import KafkaCluster
from workbench.kafka.unread_ages import ages
from workbench.queues.snapshot_views import Snapshot

pytestmark = [pytest.mark.lab, pytest.mark.slow]
EXTRA_SECONDS = 5.0  # the answer may come so much later than from three brokers


@pytest.fixture(scope="module")
def spread(secured: SecuredLab) -> Filled:
    """Groups with coordinators on all brokers, and a topic with leaders on all of them."""
    secured.heal()
    secured.move_leaders()
    made = filled(secured, *(fresh(f"{PREFIX}spread") for _ in range(30)))
    assert set(coordinators_of(secured, made.commits).values()) == {1, 2, 3}
    return made


@contextmanager
def lost(broker: SecuredBroker, how: str) -> Iterator[None]:
    """A broker that has just been killed, or hangs since a moment."""
    if how == "killed":
        broker.kill()
    else:
        broker.suspend()
    try:
        yield
    finally:
        broker.resume()


def check(found: Snapshot, secured: SecuredLab, spread: Filled, broker: SecuredBroker, owners: dict[str, int]) -> None:
    """What the living brokers know is there and right; the rest is named, or has been taken over by them meanwhile."""
    text = "\n".join(found.incomplete)
    assert f"broker {broker.number} ({broker.address})" in text
    shown = {view.group: view for view in found.groups}
    for group, offsets in spread.commits.items():
        if owners[group] == broker.number:
            assert group not in shown or shown[group].state != "unknown" or repr(group) in text
            continue
        assert group in shown and shown[group].state == "empty", text
        for part, at in offsets.items():
            assert found.commits[group, spread.topic, part] == at
            if (spread.topic, part) in found.ends:
                assert found.lag(group, spread.topic, part) == spread.records - at
            else:
                assert f"latest offset and earliest offset of {spread.topic}-{part}" in text
    assert "members" not in text


def recovers(recorder: KafkaCluster) -> None:
    """Within the time in which the controller misses a broker, and some more."""
    deadline = time.monotonic() + 40
    while holes := recorder.snapshot().incomplete:
        assert time.monotonic() < deadline, holes


@pytest.mark.parametrize(
    ("number", "how"),
    [
        (1, "hanging"),  # the first address of the settings
        pytest.param(2, "hanging", marks=pytest.mark.secured),
        pytest.param(3, "hanging", marks=pytest.mark.secured),
        pytest.param(1, "killed", marks=pytest.mark.secured),
        (2, "killed"),
        pytest.param(3, "killed", marks=pytest.mark.secured),
    ],
)
def test_a_snapshot_without_one_broker(whole: SecuredLab, spread: Filled, how: str, number: int) -> None:
    """From a new client, as a command has it; and from one that was connected before, as a recorder has it."""
    whole.move_leaders()
    broker = whole.brokers[number - 1]
    owners = coordinators_of(whole, spread.commits)
    recorder = source(whole)
    _, normal = took(recorder.snapshot)
    with lost(broker, how):
        found, seconds = took(source(whole).snapshot)
        check(found, whole, spread, broker, owners)
        assert seconds < normal + EXTRA_SECONDS
    whole.heal()
    whole.move_leaders()
    recorder.snapshot()
    with lost(broker, how):
        found, seconds = took(recorder.snapshot)
        check(found, whole, spread, broker, owners)
        assert seconds < normal + EXTRA_SECONDS
        recovers(recorder)  # the others have taken over
    whole.heal()
    assert recorder.snapshot().incomplete == ()


@pytest.mark.parametrize("how", ["killed", "hanging"])
def test_one_group_whose_coordinator_is_lost(whole: SecuredLab, spread: Filled, how: str) -> None:
    """It is named with its broker; one with another coordinator is not affected."""
    whole.move_leaders()
    owners = coordinators_of(whole, spread.commits)
    broker = whole.brokers[1]
    theirs = next(group for group, owner in owners.items() if owner == 2)
    other = next(group for group, owner in owners.items() if owner != 2)
    _, normal = took(lambda: source(whole).snapshot(groups=[theirs]))
    with lost(broker, how):
        found, seconds = took(lambda: source(whole).snapshot(groups=[theirs]))
        assert seconds < normal + EXTRA_SECONDS
        text = "\n".join(found.incomplete)
        assert f"broker 2 ({broker.address})" in text
        assert f"group {theirs!r}" in text
        assert found.groups[0].member_count is None
        views, seconds = took(lambda: source(whole).members(groups=[other]))
        assert views.incomplete == ()
        assert seconds < normal + EXTRA_SECONDS


@pytest.mark.secured
@pytest.mark.parametrize("how", ["killed", "hanging"])
def test_a_broker_is_lost_in_the_middle_of_a_snapshot(
    whole: SecuredLab, spread: Filled, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two steps of it."""
    for step in ("_groups", "_describe", "_commits", "_ends_and_starts"):
        whole.heal()
        whole.move_leaders()
        owners = coordinators_of(whole, spread.commits)
        broker = whole.brokers[2]
        _, normal = took(source(whole).snapshot)
        cluster = source(whole)
        cluster.snapshot()
        before: Callable[..., object] = getattr(KafkaCluster, step)

        def first(*args: object, before: Callable[..., object] = before, broker: SecuredBroker = broker) -> object:
            if broker.alive and not broker.suspended:
                broker.kill() if how == "killed" else broker.suspend()
            return before(*args)

        with monkeypatch.context() as patch:
            patch.setattr(KafkaCluster, step, first)
            found, seconds = took(cluster.snapshot)
        check(found, whole, spread, broker, owners)
        broker.resume()
        whole.heal()
        _, afterwards = took(source(whole).snapshot)
        # It begins twice, and other work on the machine may come and go meanwhile.
        assert seconds < 2 * max(normal, afterwards) + EXTRA_SECONDS, step


@pytest.mark.secured
def test_a_recorder_goes_on_while_brokers_come_and_go(whole: SecuredLab, spread: Filled) -> None:
    """Round after round; each says what it lacks, and none takes long."""
    recorder, stop = source(whole), threading.Event()

    def restarts() -> None:
        for broker in whole.brokers:
            broker.kill()
            time.sleep(2)
            broker.restart()
        stop.set()

    thread = threading.Thread(target=restarts)
    thread.start()
    rounds = 0
    while not stop.is_set():
        found, seconds = took(recorder.snapshot)
        rounds += 1
        assert seconds < 12
        seen = {group for group, _, _ in found.commits}
        assert set(spread.commits) <= seen or found.incomplete
        time.sleep(0.5)
    thread.join()
    assert rounds > 3
    recovers(recorder)


@pytest.mark.secured
def test_ages_are_bounded_without_a_broker(whole: SecuredLab, spread: Filled) -> None:
    """Partitions of the lost broker are named; the others have their age."""
    whole.move_leaders()
    broker = whole.brokers[0]
    cluster = source(whole)
    snapshot = cluster.snapshot()
    theirs = {part for part in range(6) if leader_of(whole, spread.topic, part) == 1}
    assert theirs
    with lost(broker, "hanging"):
        holes: list[str] = []
        found, seconds = took(lambda: ages(cluster, snapshot, holes))
    assert seconds < 12
    assert any(f"broker 1 ({broker.address})" in text for text in holes)
    known = {part for _, topic, part in found if topic == spread.topic}
    assert known >= set(range(6)) - theirs


@pytest.mark.secured
def test_no_broker_at_all_is_an_error_within_the_time_limit(whole: SecuredLab) -> None:
    """All hang; the settings' timeout is kept."""
    for broker in whole.brokers:
        broker.suspend()
    try:
        began = time.monotonic()
        with pytest.raises(SourceUnreachableError):
            source(whole, seconds=6.0).snapshot()
        assert time.monotonic() - began < 9
    finally:
        for broker in whole.brokers:
            broker.resume()


@pytest.mark.secured
def test_each_broker_is_asked_by_itself(whole: SecuredLab) -> None:
    """Which live, which are dead and which hang."""
    whole.brokers[0].kill()
    whole.brokers[1].suspend()
    found, seconds = took(lambda: look_at_brokers(whole.bootstrap, whole.properties(), "'oncall'"))
    assert seconds < 3
    if found.answering:  # the quorum is lost with two of three, and yet the last one answers
        assert set(found.answering) == {3}
        assert set(found.silent) == {1, 2}
        assert whole.brokers[0].address in found.silent[1]
