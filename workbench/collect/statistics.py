"""Samples from librdkafka's statistics JSON (`statistics.interval.ms`), which clients in other languages can write to a log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from workbench.collect.join import with_derived_lag
from workbench.errors import SourceUnreachableError
from workbench.profiles import load_profile
from workbench.samples import SampleBatch
from workbench.signals import SIGNALS

PROFILE = "librdkafka"
_MICROSECONDS_FROM = 1_000_000  # `time` is in seconds


def statistics_samples(lines: Iterable[str], *, cluster: str, group: str | None = None) -> pa.Table:
    """Parse statistics, one JSON object per line.

    Args:
        cluster: its name in the samples.
        group: the consumer group of the client; its statistics do not name it.

    Samples get the object's `time`: the callback runs inside poll(), so several objects may arrive at once after a stall.

    Raises:
        SourceUnreachableError: if a line is not librdkafka statistics.
    """
    profile = load_profile(PROFILE)
    batch = SampleBatch(cluster, profile.name)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
            ts_us = np.array([int(document["time"]) * _MICROSECONDS_FROM], np.int64)
            numbers = list(_numbers(document))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise SourceUnreachableError(
                f"Line {number} is not librdkafka statistics ({type(error).__name__}).",
                hint="Each line must be a JSON object with time, client_id, topics and brokers.",
            ) from None
        for metric, labels, value in numbers:
            meaning = profile.meaning(metric, labels)
            if meaning is not None:
                labels = {**meaning.labels, **_group_label(meaning.signal, group)}
                batch.add(meaning.signal, labels, ts_us, [value], stat=meaning.stat, scale=meaning.scale)
    return with_derived_lag(batch.to_series()).to_samples()


def _group_label(signal: str, group: str | None) -> dict[str, str]:
    """Group label, for signals that have one."""
    return {"group": group} if group is not None and "group" in SIGNALS[signal].labels else {}


def _numbers(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield (path with underscores, labels, number) of the fields below topics, brokers and cgrp."""
    client = {"client_id": str(document["client_id"])}
    for topic in document.get("topics", {}).values():
        for number, partition in topic.get("partitions", {}).items():
            if int(number) < 0 or not partition.get("desired"):
                continue  # -1 is internal, for messages without a partition; others are not assigned
            labels = {**client, "topic": str(topic["topic"]), "partition": str(number)}
            yield from ((f"topics_partitions_{name}", labels, value) for name, value in _plain(partition))
    for broker in document.get("brokers", {}).values():
        if broker.get("nodeid", -1) < 0:
            continue
        labels = {**client, "broker": str(broker["nodeid"])}
        for window in ("rtt", "throttle"):
            if broker.get(window, {}).get("cnt") or window == "throttle":
                yield f"brokers_{window}_avg", labels, float(broker.get(window, {}).get("avg", 0))
    yield from ((f"cgrp_{name}", client, value) for name, value in _plain(document.get("cgrp", {})))


def _plain(values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    return (
        (name, float(value))
        for name, value in values.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    )
