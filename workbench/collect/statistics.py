"""Samples from librdkafka's statistics JSON (`statistics.interval.ms`), as clients in other languages write them to a log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from workbench.errors import SourceUnreachableError
from workbench.profiles import load_profile
from workbench.samples import SampleBatch
from workbench.signals import SIGNALS

PROFILE = "librdkafka"
_MICROSECONDS_FROM = 1_000_000  # `time` is in seconds


def statistics_samples(lines: Iterable[str], *, cluster: str, group: str | None = None) -> pa.Table:
    """Samples of statistics, one JSON object a line.

    Args:
        cluster: its name in the samples.
        group: the consumer group of the client; its statistics do not name it.

    Their own `time` counts, not the time of reading: the callback runs inside of poll(), so after a stall several come at once.

    Raises:
        SourceUnreachableError: if a line is not what librdkafka writes.
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
    return batch.to_arrow()


def _group_label(signal: str, group: str | None) -> dict[str, str]:
    """The label with the group, for signals that have one."""
    return {"group": group} if group is not None and "group" in SIGNALS[signal].labels else {}


def _numbers(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str], float]]:
    """(path with underscores, labels, number) of what lies below topics, brokers and cgrp."""
    client = {"client_id": str(document["client_id"])}
    for topic in document.get("topics", {}).values():
        for number, partition in topic.get("partitions", {}).items():
            if int(number) < 0 or not partition.get("desired"):
                continue  # -1 is the client's own, for messages without a partition; others are not assigned
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
