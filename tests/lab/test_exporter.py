"""The lab's exporter looks at its cluster only while somebody looks at it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from tests.waiting import wait_for
from workbench.errors import WorkbenchError
from workbench.lab import exporter
from workbench.queues.snapshot_views import Snapshot

END = ("t", 0)


class Counted:
    """A cluster whose log grows by one record with each look, and which counts them."""

    def __init__(self) -> None:
        self.looks = 0
        self.is_down = False

    def snapshot(self, *, every_kind: bool) -> Snapshot:
        """The next one."""
        assert not every_kind
        self.looks += 1
        if self.is_down:
            raise WorkbenchError("the broker is down")
        return Snapshot(taken_at=time.time(), groups=(), commits={}, ends={END: self.looks}, starts={})


def ends(of: exporter.KafkaExporter) -> list[float]:
    """The log end on a page of its metrics; nothing if that has none."""
    found = {metric.name: metric for metric in of.collect()}
    family = found.get("kafka_topic_partition_current_offset")
    return [] if family is None else [sample.value for sample in family.samples]


def test_it_rests_and_the_first_look_after_a_rest_has_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody sees an empty page or an old value because nobody had looked before; a broker that is down costs one try."""
    monkeypatch.setattr(exporter, "_REST_AFTER_SECONDS", 0.4)
    monkeypatch.setattr(exporter, "_PERIOD_SECONDS", 0.05)
    counted = Counted()
    of = exporter.KafkaExporter("127.0.0.1:1", tmp_path, {})
    monkeypatch.setattr(of, "_cluster", counted)
    threading.Thread(target=of.run, daemon=True).start()
    time.sleep(0.2)
    assert counted.looks == 0
    assert ends(of) == [1]
    wait_for(lambda: counted.looks >= 4, 10)
    time.sleep(1)
    rested = counted.looks
    time.sleep(0.4)
    assert counted.looks == rested
    assert ends(of) == [rested + 1]
    time.sleep(1)
    counted.is_down = True
    monkeypatch.setattr(exporter, "_STALE_SECONDS", 0.2)
    began = time.monotonic()
    assert ends(of) == []
    assert time.monotonic() - began < 3
