"""Rules of the runtime on real clients and librdkafka's mock cluster: what a fake source cannot be trusted with."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.runtime.mock import PARTITIONS, MockCluster, mock_cluster
from tests.waiting import wait_for
from workbench.errors import SourceUnreachableError
from workbench.runtime import Event, ProcessorConfig, Runtime, RuntimeConfig, RuntimeState, running


@pytest.fixture(scope="module")
def cluster() -> Iterator[MockCluster]:
    """One mock for the module; each test has a topic and a group of its own."""
    with mock_cluster() as made:
        yield made


def config(cluster: MockCluster, name: str, **changes: Any) -> RuntimeConfig:
    """Settings of a group `name` on a topic `name`, with quick times."""
    kafka = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500, "log_level": 0, **changes.pop("kafka", {})}
    values: dict[str, Any] = {
        "bootstrap": cluster.bootstrap,
        "group": name,
        "topics": [name],
        "client_id": "A",
        "commit_interval_seconds": 0.1,
        "rebalance_drain_seconds": 0.2,
        "shutdown_seconds": 3,
        "kafka": kafka,
    }
    return RuntimeConfig.parse({**values, **changes})


def test_a_partition_that_was_paused_is_read_again_after_it_has_come_back(cluster: MockCluster) -> None:
    """Back-pressure pauses all partitions, another member comes and goes: every partition is read to its end afterwards."""
    strategies = ("range", "cooperative-sticky")
    with ThreadPoolExecutor(len(strategies)) as pool:
        list(pool.map(lambda strategy: _pause_and_rebalance(cluster, strategy), strategies))


def _pause_and_rebalance(cluster: MockCluster, strategy: str) -> None:
    name = f"pause-{strategy}"
    cluster.produce(50, topic=name)
    release, done = threading.Event(), set()

    def handle(event: Event) -> None:
        release.wait(60)
        done.add((event.record.partition, event.record.offset))

    runtime = Runtime(
        config(
            cluster,
            name,
            max_poll_records=10,
            carry_over_per_partition=0,
            default_processor=ProcessorConfig(threads=1, queue_capacity=5),
            kafka={"partition.assignment.strategy": strategy},
        ),
        {"*": handle},
        probe_log_ends=False,
    )
    with running(runtime):
        [consumer] = runtime.task.consumers

        def has_all(*, paused: bool) -> bool:
            states = list(consumer.partitions.values())
            return len(states) == PARTITIONS and (not paused or all(state.paused for state in states))

        wait_for(lambda: has_all(paused=True))
        other = cluster.consumer(name, **{"partition.assignment.strategy": strategy})
        other.subscribe([name])
        deadline = time.monotonic() + 30
        while not other.assignment() and time.monotonic() < deadline:
            other.poll(0.1)
        moved = {part.partition for part in other.assignment()}
        other.close()
        assert moved, "nothing moved, so nothing was tried"
        wait_for(lambda: has_all(paused=False))
        release.set()
        wait_for(lambda: len(done) == PARTITIONS * 50)


@pytest.mark.parametrize(
    ("name", "kafka", "named"),
    [
        ("no-position", {"auto.offset.reset": "error"}, "_AUTO_OFFSET_RESET"),
    ],
)
def test_what_no_poll_will_change_ends_the_runtime(
    cluster: MockCluster, name: str, kafka: dict[str, Any], named: str
) -> None:
    """With its reason; a warning would leave a process that does nothing."""
    cluster.produce(1, topic=name)
    runtime = Runtime(config(cluster, name, kafka=kafka), {"*": lambda _e: None}, probe_log_ends=False)
    with running(runtime):
        wait_for(lambda: runtime.failure is not None)
        assert runtime.state is RuntimeState.FAILED
        with pytest.raises(SourceUnreachableError, match=named):
            runtime.wait()


def test_consumers_of_one_process_do_not_fence_each_other_off(cluster: MockCluster) -> None:
    """One group.instance.id in the settings is one for each consumer thread."""
    cluster.produce(5, topic="static")
    done: set[tuple[int, int]] = set()
    settings = config(cluster, "static", consumers=2, kafka={"group.instance.id": "i"})
    runtime = Runtime(settings, {"*": lambda e: done.add((e.record.partition, e.record.offset))}, probe_log_ends=False)
    with running(runtime):
        wait_for(lambda: len(done) == PARTITIONS * 5)
        wait_for(lambda: all(consumer.partitions for consumer in runtime.task.consumers))
        assert runtime.failure is None


def test_a_group_that_begins_at_the_end_begins_there_once(cluster: MockCluster) -> None:
    """`auto.offset.reset = latest`: what arrives between two assignments is read, also if nothing was handled in the first."""
    name = "latest"
    cluster.produce(5, topic=name)
    done: set[tuple[int, int]] = set()

    def runtime() -> Runtime:
        settings = config(cluster, name, kafka={"auto.offset.reset": "latest"})
        return Runtime(settings, {"*": lambda e: done.add((e.record.partition, e.record.offset))}, probe_log_ends=False)

    with running(runtime()) as first:
        wait_for(lambda: len(first.task.consumers[0].partitions) == PARTITIONS)
    cluster.produce(3, topic=name)
    with running(runtime()):
        wait_for(lambda: len(done) == PARTITIONS * 3)
    assert min(offset for _, offset in done) == 5
