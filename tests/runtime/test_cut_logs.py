"""What a group does when its log is cut below its commit or its topic is made anew: on a broker whose files the test cuts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.runtime.helpers import PROTOCOLS
from tests.waiting import wait_for
from workbench.errors import SetupError
from workbench.lab.lab_broker import Broker, create_topic, start_broker
from workbench.runtime import Event, Runtime, RuntimeConfig, running

pytestmark = pytest.mark.lab

OLD = 100


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of its own: it is stopped, and its files are cut."""
    made = start_broker(tmp_path_factory.mktemp("cut") / "broker")
    yield made
    made.stop()


class Group:
    """A group on a topic of one partition; what it has handled."""

    def __init__(self, broker: Broker, name: str, protocol: str) -> None:
        self.name, self.protocol, self._broker = f"{name}-{protocol}", protocol, broker
        self.handled: list[str] = []
        create_topic(broker.bootstrap, self.name, 1)
        self.produce(OLD, "old")

    def produce(self, count: int, mark: str) -> None:
        producer = Producer({"bootstrap.servers": self._broker.bootstrap, "linger.ms": 2, "log_level": 0})
        for number in range(count):
            producer.produce(self.name, f"{mark}{number}".encode(), str(number).encode(), partition=0)
        assert producer.flush(30) == 0

    def runtime(self) -> Runtime:
        return Runtime(
            RuntimeConfig.parse(
                {
                    "bootstrap": self._broker.bootstrap,
                    "group": self.name,
                    "topics": [self.name],
                    "client_id": "one",
                    "commit_interval_seconds": 0.1,
                    "kafka": {
                        **PROTOCOLS[self.protocol],
                        "topic.metadata.refresh.interval.ms": 500,
                        "log_level": 0,
                    },
                }
            ),
            {"*": self._handle},
        )

    def _handle(self, event: Event) -> None:
        self.handled.append(event.payload.decode())

    def wait_until_old_is_done(self) -> None:
        wait_for(lambda: len(self.handled) == OLD and self.committed() == OLD)

    def wait_until_new_is_done(self, count: int) -> None:
        wanted = {f"new{number}" for number in range(count)}
        wait_for(lambda: wanted <= set(self.handled) and self.committed() == count, 60)
        assert set(self.handled) == {*wanted, *(f"old{number}" for number in range(OLD))}

    def committed(self) -> int:
        asker = Consumer({"bootstrap.servers": self._broker.bootstrap, "group.id": self.name, "log_level": 0})
        [answer] = asker.committed([TopicPartition(self.name, 0)], timeout=30)
        asker.close()
        return answer.offset

    def cut(self) -> None:
        """Take all of the log from a stopped broker's disk, as an unclean election of a replica that has nothing would."""
        for file in self._broker.folder.rglob(f"{self.name}-0/*"):
            if file.name != "partition.metadata":
                Path(file).unlink()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_topic_that_is_made_anew_is_read_from_its_beginning(broker: Broker, protocol: str) -> None:
    """While the group runs, and although the new log soon reaches beyond the old commit."""
    group = Group(broker, "anew", protocol)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    runtime = group.runtime()
    with running(runtime):
        group.wait_until_old_is_done()
        wait_for(
            lambda: runtime.task.log_ends.ids
        )  # within a tenth of a second; a topic that lives no longer is not watched
        admin.delete_topics([group.name])[group.name].result(30)

        def is_made() -> bool:  # the broker deletes in its own time
            try:
                create_topic(broker.bootstrap, group.name, 1)
            except SetupError:
                return False
            return True

        wait_for(is_made)
        group.produce(2 * OLD, "new")
        group.wait_until_new_is_done(2 * OLD)  # some twice, perhaps: those that the client had gone on to


def test_what_comes_after_a_cut_is_read_whether_the_group_ran_or_not(broker: Broker) -> None:
    """The log begins anew while groups run and while they do not, and ends below the commit or beyond it: nothing new is skipped."""
    ran = [Group(broker, f"ran-{count}", protocol) for protocol in PROTOCOLS for count in (OLD // 5, 2 * OLD)]
    stood = [Group(broker, f"stood-{count}", protocol) for protocol in PROTOCOLS for count in (OLD // 5, 2 * OLD)]
    runtimes = {group.name: group.runtime() for group in (*ran, *stood)}
    try:
        for runtime in runtimes.values():
            runtime.start()
        for group in (*ran, *stood):
            group.wait_until_old_is_done()
        for group in stood:
            runtimes.pop(group.name).stop()
        broker.stop()
        for group in (*ran, *stood):
            group.cut()
        broker.restart()
        for group in (*ran, *stood):
            group.produce(int(group.name.split("-")[1]), "new")
        for group in stood:
            runtimes[group.name] = group.runtime()
            runtimes[group.name].start()
        for group in (*ran, *stood):
            group.wait_until_new_is_done(int(group.name.split("-")[1]))
            restarts = runtimes[group.name].task.metrics.registry.get_sample_value(
                "wb_log_restarts_total", {"group": group.name, "topic": group.name}
            )
            # A member that the broker fenced before its first commit finds the old commit, and so the restart, once more.
            assert restarts is not None and 1 <= restarts <= 2
    finally:
        for runtime in runtimes.values():
            runtime.stop()
