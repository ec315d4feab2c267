"""A fleet's measurements as a lag exporter would give them, of any size, with some sick groups among the well ones; no loop per row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from workbench.samples import NAMES_SCHEMA, SeriesTable
from workbench.sweep.fleet_store import FleetStore, StoreInfo, make_store

PARTITIONS, READERS = 8, 4  # partitions of a topic, and groups that read it
END = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SICK_EVERY = 50  # two of a hundred: of each 50 groups one has something
KINDS = ("stopped", "stuck", "late", "hot")


def land_fleet(
    root: Path | str, *, subscriptions: int, slot_seconds: int = 1440, step_seconds: int = 30, slots: int = 5
) -> FleetStore:
    """A store with so many subscriptions, `PARTITIONS` partitions each, ending at `END`.

    Lag and commits for each of a group's partitions, ends and starts of the logs, and members: 2.6 series for each partition.
    """
    store = make_store(root, StoreInfo(cluster="fleet", slot_seconds=slot_seconds, profiles=["kafka_exporter"]))
    for number in range(slots):
        end = END - timedelta(seconds=slot_seconds) * (slots - 1 - number)
        store.land(end, slot_series(subscriptions, end, slot_seconds, step_seconds))
    return store


def slot_series(subscriptions: int, end: datetime, slot_seconds: int, step_seconds: int) -> SeriesTable:
    """One slot's samples."""
    per = slot_seconds // step_seconds
    stamps = round(end.timestamp() * 1e6) - np.arange(per - 1, -1, -1, dtype=np.int64) * step_seconds * 1_000_000
    seconds = stamps / 1e6 - END.timestamp()  # ≤ 0
    topics = -(-subscriptions // READERS)
    group, topic, part = np.arange(subscriptions), np.arange(topics), np.arange(PARTITIONS)
    rate = 20.0 + (group // READERS)[:, None] % 40 + part[None, :]  # of the topic's partition, messages/s
    ends = np.floor(1e6 + rate[:, :, None] * (seconds + 86_400)[None, None, :])
    lag = _lags(group, rate, seconds)
    gone = (_kind(group) == "stopped")[:, None] & (seconds > -900)[None, :]
    members = np.where(gone, 0.0, 8.0).ravel()
    of_group = np.repeat(group, PARTITIONS), np.repeat(group // READERS, PARTITIONS), np.tile(part, subscriptions)
    of_log = np.full(topics * PARTITIONS, -1), np.repeat(topic, PARTITIONS), np.tile(part, topics)
    # signal, then (group, topic, partition) of each of its series, -1 for none, then the values.
    parts = [
        ("group_members", (group, np.full(subscriptions, -1), np.full(subscriptions, -1)), members),
        ("committed_offset", of_group, (ends - lag).ravel()),
        ("consumer_lag", of_group, lag.ravel()),
        ("log_end_offset", of_log, ends[::READERS].ravel()),
        ("log_start_offset", of_log, np.zeros(topics * PARTITIONS * per)),
    ]
    groups, named, numbers = (np.concatenate([of[at] for _, of, _ in parts]) for at in range(3))
    count = len(groups)
    columns = {
        "signal": np.repeat([signal for signal, _, _ in parts], [len(of[0]) for _, of, _ in parts]),
        "cluster": ["fleet"] * count,
        "group": _text(groups, [f"group-{at:06}" for at in range(subscriptions)]),
        "topic": _text(named, [f"topic-{at:06}" for at in range(topics)]),
        "partition": pa.array(numbers.astype(np.int32), mask=numbers < 0),
        "stat": ["value"] * count,
        "source": ["kafka_exporter"] * count,
    }
    names = pa.table(
        [columns[each.name] if each.name in columns else pa.nulls(count, each.type) for each in NAMES_SCHEMA],
        schema=NAMES_SCHEMA,
    )
    value = np.concatenate([values for _, _, values in parts])
    return SeriesTable(names, np.full(count, per), np.tile(stamps, count), value, np.full(len(value), -1, np.int8))


def _kind(group: np.ndarray) -> np.ndarray:
    sick = np.asarray(KINDS)[group // SICK_EVERY % len(KINDS)]
    return np.where(group % SICK_EVERY == 7, sick, "well")


def _lags(group: np.ndarray, rate: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """(group, partition, time): a few messages, a little more in between two commits; the sick ones from 15 min before the end on."""
    wave = np.round(3 + 3 * np.sin(seconds / 97.0))[None, None, :] + (group[:, None, None] % 5)
    lag = np.broadcast_to(wave, (len(group), PARTITIONS, len(seconds))).copy()
    since = np.maximum(0.0, seconds + 900)
    kind = _kind(group)
    # A commit that stands still does not even waver.
    still = (kind == "stopped")[:, None] | ((kind == "stuck")[:, None] & (np.arange(PARTITIONS) == 3)[None, :])
    lag = np.where(still[:, :, None] & (since > 0)[None, None, :], (3 + group % 5)[:, None, None], lag)
    lag[kind == "stopped"] += np.floor(rate[kind == "stopped"][:, :, None] * since)
    lag[kind == "late"] += np.floor(0.5 * rate[kind == "late"][:, :, None] * since)
    for name, factor in (("stuck", 1.0), ("hot", 0.6)):
        at = kind == name
        lag[at, 3] += np.floor(factor * rate[at, 3][:, None] * since)
    return lag


def _text(codes: np.ndarray, names: list[str]) -> pa.Array:
    return pa.array(names).take(pa.array(codes, mask=codes < 0))
