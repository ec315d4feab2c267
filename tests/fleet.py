"""A fleet's measurements as a lag exporter would give them, of any size, with some sick groups among the well ones; no loop per row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from workbench.collect.store import Store, StoreInfo, make_store
from workbench.samples import SAMPLES_SCHEMA

PARTITIONS, READERS = 8, 4  # partitions of a topic, and groups that read it
END = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
SICK_EVERY = 50  # two of a hundred: of each 50 groups one has something
KINDS = ("stopped", "stuck", "late", "hot")


def land_fleet(
    root: Path, *, subscriptions: int, slot_seconds: int = 1440, step_seconds: int = 30, slots: int = 5
) -> Store:
    """A store with so many subscriptions, `PARTITIONS` partitions each, ending at `END`.

    Lag and commits for each of a group's partitions, ends and starts of the logs, and members: 2.6 series for each partition.
    """
    store = make_store(root, StoreInfo(cluster="fleet", slot_seconds=slot_seconds, profiles=["kafka_exporter"]))
    for number in range(slots):
        end = END - timedelta(seconds=slot_seconds) * (slots - 1 - number)
        store.land_sorted(end, slot_samples(subscriptions, end, slot_seconds, step_seconds))
    return store


def slot_samples(subscriptions: int, end: datetime, slot_seconds: int, step_seconds: int) -> pa.Table:
    """One slot's samples in the store's order; text as dictionaries."""
    per = slot_seconds // step_seconds
    stamps = round(end.timestamp() * 1e6) - np.arange(per - 1, -1, -1, dtype=np.int64) * step_seconds * 1_000_000
    seconds = stamps / 1e6 - END.timestamp()  # ≤ 0
    topics = -(-subscriptions // READERS)
    group = np.arange(subscriptions)
    part = np.arange(PARTITIONS)
    rate = 20.0 + (group // READERS)[:, None] % 40 + part[None, :]  # of the topic's partition, messages/s
    ends = np.floor(1e6 + rate[:, :, None] * (seconds + 86_400)[None, None, :])
    lag = _lags(group, rate, seconds)
    # In the order of the store: of each group members (no topic), then committed_offset, consumer_lag; of logs ends, then starts.
    rows = []
    names = np.arange(subscriptions)
    members = np.where(_kind(names) == "stopped", 0.0, 8.0)
    for signal, values in (("committed_offset", ends - lag), ("consumer_lag", lag)):
        rows.append((signal, values))
    per_group = per * (1 + 2 * PARTITIONS)
    value = np.empty((subscriptions, per_group))
    value[:, :per] = members[:, None]
    value[:, per : per + PARTITIONS * per] = rows[0][1].reshape(subscriptions, -1)
    value[:, per + PARTITIONS * per :] = rows[1][1].reshape(subscriptions, -1)
    signal = np.repeat([0] + [1] * PARTITIONS + [2] * PARTITIONS, per)
    partition = np.repeat([-1, *part, *part], per)
    log_value = np.stack([ends[::READERS], np.zeros_like(ends[::READERS])], axis=1).reshape(topics, -1)
    log_signal, log_partition = np.repeat([3] * PARTITIONS + [4] * PARTITIONS, per), np.repeat([*part, *part], per)
    signals = ["group_members", "committed_offset", "consumer_lag", "log_end_offset", "log_start_offset"]
    count, logs = subscriptions * per_group, topics * 2 * PARTITIONS * per
    group_code = np.concatenate([np.repeat(group, per_group), np.full(logs, -1)])
    topic_code = np.concatenate(
        [
            np.where(np.tile(signal == 0, subscriptions), -1, np.repeat(group // READERS, per_group)),
            np.repeat(np.arange(topics), 2 * PARTITIONS * per),
        ]
    )
    number = np.concatenate([np.tile(partition, subscriptions), np.tile(log_partition, topics)]).astype(np.int32)
    columns = {
        "ts": pa.array(np.tile(stamps, (count + logs) // per)).cast(pa.timestamp("us", tz="UTC")),
        "signal": _text(np.concatenate([np.tile(signal, subscriptions), np.tile(log_signal, topics)]), signals),
        "cluster": _text(np.zeros(count + logs, dtype=np.int32), ["fleet"]),
        "group": _text(group_code, [f"group-{at:06}" for at in range(subscriptions)]),
        "topic": _text(topic_code, [f"topic-{at:06}" for at in range(topics)]),
        "partition": pa.array(number, mask=number < 0),
        "stat": _text(np.zeros(count + logs, dtype=np.int32), ["value"]),
        "value": pa.array(np.concatenate([value.ravel(), log_value.ravel()])),
        "source": _text(np.zeros(count + logs, dtype=np.int32), ["kafka_exporter"]),
    }
    for name in SAMPLES_SCHEMA.names:
        if name not in columns:
            columns[name] = pa.nulls(count + logs, SAMPLES_SCHEMA.field(name).type)
    return pa.table({name: columns[name] for name in SAMPLES_SCHEMA.names})


def _kind(group: np.ndarray) -> np.ndarray:
    sick = np.asarray(KINDS)[group // SICK_EVERY % len(KINDS)]
    return np.where(group % SICK_EVERY == 7, sick, "well")


def _lags(group: np.ndarray, rate: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """(group, partition, time): a few messages, a little more in between two commits; the sick ones from 15 min before the end on."""
    wave = np.round(3 + 3 * np.sin(seconds / 97.0))[None, None, :] + (group[:, None, None] % 5)
    lag = np.broadcast_to(wave, (len(group), PARTITIONS, len(seconds))).copy()
    since = np.maximum(0.0, seconds + 900)
    kind = _kind(group)
    lag[kind == "stopped"] += np.floor(rate[kind == "stopped"][:, :, None] * since)
    lag[kind == "late"] += np.floor(0.5 * rate[kind == "late"][:, :, None] * since)
    for name, factor in (("stuck", 1.0), ("hot", 0.6)):
        at = kind == name
        lag[at, 3] += np.floor(factor * rate[at, 3][:, None] * since)
    return lag


def _text(codes: np.ndarray, names: list[str]) -> pa.DictionaryArray:
    codes = codes.astype(np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array(names))
