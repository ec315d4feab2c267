"""The lab's consumers without the runtime, on a client that is made up: what they commit, retry and show."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from prometheus_client import CollectorRegistry

from evaluation.others import loop as module
from evaluation.others.loop import Loop, LoopWork, Statistics
from evaluation.others.spec import LoopConfig
from tests.waiting import wait_for
from workbench.lab.client_spec import POISON_HEADER, Behaviour, Watched, write
from workbench.runtime.event import EVENT_TYPE_HEADER


class Record:
    """As confluent_kafka has it."""

    def __init__(self, partition: int, offset: int, *, poison: bool = False) -> None:
        self._at, self._poison = (partition, offset), poison

    def partition(self) -> int:
        return self._at[0]

    def offset(self) -> int:
        return self._at[1]

    def error(self) -> None:
        return None

    def headers(self) -> list[tuple[str, bytes]]:
        return [(EVENT_TYPE_HEADER, b"order"), *([(POISON_HEADER, b"1")] if self._poison else [])]


class Client:
    """Two partitions in turn; it remembers what is committed, paused and sought."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.poison: tuple[int, int] | None = None
        self.position, self.end = {0: 0, 1: 0}, 40
        self.committed: dict[int, int] = {}
        self.sought: list[tuple[int, int]] = []
        self.paused: set[int] = set()

    def subscribe(self, topics: list[str], **_callbacks: Any) -> None:
        assert topics == ["events"]

    def poll(self, _seconds: float) -> Record | None:
        for partition, offset in sorted(self.position.items(), key=lambda it: it[1]):
            if partition not in self.paused and offset < self.end:
                self.position[partition] += 1
                return Record(partition, offset, poison=(partition, offset) == self.poison)
        return None

    def pause(self, places: list[TopicPartition]) -> None:
        self.paused |= {place.partition for place in places}

    def resume(self, places: list[TopicPartition]) -> None:
        self.paused -= {place.partition for place in places}

    def seek(self, place: TopicPartition) -> None:
        self.sought.append((place.partition, place.offset))
        self.position[place.partition] = place.offset

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> None:
        self.committed |= {place.partition: place.offset for place in offsets}

    def close(self) -> None:
        return


@pytest.mark.parametrize("threads", [0, 3], ids=["loop", "pool"])
def test_a_poison_record_holds_its_own_partition_only(
    threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is sought again and again; its commit stays before it, and the other partition's moves to the end."""
    monkeypatch.setattr(module, "Consumer", Client)
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.02)
    monkeypatch.setattr(module, "_POLL_SECONDS", 0.01)
    path = tmp_path / "behaviour.json"
    write(path, Behaviour(process_seconds={"order": 0.0005}))
    over, registry = threading.Event(), CollectorRegistry()
    config = LoopConfig(
        bootstrap="b", group="g", topic="events", client_id="g-0", threads=threads, in_flight=max(1, 2 * threads),
        commit_seconds=0.02, metrics_port=1,
    )  # fmt: skip
    loop = Loop(config, LoopWork(Watched(path, Behaviour), name="g-0", over=over), over, registry=registry)
    client: Any = loop._consumer
    client.poison = (1, 7)
    runs = threading.Thread(target=loop.run)
    runs.start()
    try:
        wait_for(lambda: client.committed.get(0) == 40 and len(client.sought) >= 3)
    finally:
        over.set()
        runs.join(10)
    assert client.committed == {0: 40, 1: 7}
    assert set(client.sought) == {(1, 7)}
    attempts = registry.get_sample_value("handler_duration_seconds_count", {"event_type": "order"})
    assert attempts is not None
    assert attempts >= 40 + 7 + 3


def test_statistics_are_shown_under_their_paths() -> None:
    """The names are those of the profile `librdkafka`."""
    from workbench.profiles import load_profile

    registry = CollectorRegistry()
    Statistics("c", registry).show(
        json.dumps(
            {
                "topics": {"events": {"partitions": {"-1": {"fetchq_cnt": 0}, "3": {"fetchq_cnt": 17}}}},
                "brokers": {"h:1/1": {"rtt": {"avg": 4200}, "throttle": {"avg": 30}}},
                "cgrp": {"rebalance_cnt": 2},
            }
        )
    )
    shown = {
        meaning.signal: (sample.value * meaning.scale, meaning.labels)
        for metric in registry.collect()
        for sample in metric.samples
        if (meaning := load_profile("librdkafka").meaning(sample.name, sample.labels)) is not None
    }
    assert shown == {
        "fetch_queue_length": (17, {"topic": "events", "partition": 3, "member": "c"}),
        "broker_rtt": (pytest.approx(0.0042), {"member": "c", "broker": "h:1/1"}),
        "throttle_time": (pytest.approx(0.03), {"member": "c", "broker": "h:1/1"}),
        "rebalances": (2, {"member": "c"}),
    }
