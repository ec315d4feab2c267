"""What Kafka Streams restores: lags of its restoring clients on changelogs, as one number of the group."""

from __future__ import annotations

import numpy as np

from workbench.collect.source_join import with_groups
from workbench.profiles import load_profile
from workbench.samples import SampleBatch

MEMBERS = {"app-0-StreamThread-1-consumer": "app", "app-1-StreamThread-1-consumer": "app", "plain": "other"}
TIMES = np.arange(0, 10) * 15_000_000


def batch_of(*series: tuple[str, str, int, float]) -> SampleBatch:
    """Lags by client, topic and partition."""
    batch = SampleBatch("c", "jmx_exporter_plain")
    for member, topic, partition, lag in series:
        batch.add(
            "consumer_lag", {"member": member, "topic": topic, "partition": partition}, TIMES, lag - np.arange(10)
        )
    return batch


def test_lags_of_restoring_clients_are_one_number_of_the_group() -> None:
    """Whichever thread restores; what belongs to no group known here is left out, and no changelog becomes a subscription."""
    batch = batch_of(
        ("app-0-StreamThread-1-consumer", "visits", 0, 50),
        ("app-0-StateUpdater-1-restore-consumer", "store-changelog", 0, 1000),
        ("app-0-StateUpdater-1-restore-consumer", "store-changelog", 1, 500),
        ("app-1-StreamThread-1-restore-consumer", "store-changelog", 2, 100),
        ("unknown-1-StateUpdater-1-restore-consumer", "x-changelog", 0, 7),
        ("plain", "t", 0, 9),
    )
    batch.add("poll_idle", {"member": "app-0-StateUpdater-1-restore-consumer"}, TIMES, np.full(10, 0.05))
    rows = with_groups(batch.to_series(), load_profile("jmx_exporter_plain"), MEMBERS).to_samples().to_pylist()
    restoring = [row["value"] for row in rows if row["signal"] == "restoring"]
    assert restoring == [1600 - 3 * at for at in range(10)]
    assert {(row["group"], row["topic"]) for row in rows} == {("app", "visits"), ("app", None), ("other", "t")}
    assert not any(row["signal"] == "poll_idle" for row in rows)


def test_a_store_that_is_restored_counts_no_more() -> None:
    """Its series ends, and the sum goes on without it."""
    batch = batch_of(("app-0-StateUpdater-1-restore-consumer", "store-changelog", 0, 1000))
    short = {"member": "app-0-StateUpdater-1-restore-consumer", "topic": "store-changelog", "partition": 1}
    batch.add("consumer_lag", short, TIMES[:4], np.full(4, 70.0))
    rows = with_groups(batch.to_series(), load_profile("jmx_exporter_plain"), MEMBERS).to_samples().to_pylist()
    last = max((row for row in rows if row["signal"] == "restoring"), key=lambda row: row["ts"])
    assert last["value"] == 1000 - 9
