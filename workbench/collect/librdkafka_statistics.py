"""Samples from librdkafka's statistics JSON (`statistics.interval.ms`), which clients in other languages can write to a log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from workbench.collect.processes_of_one_name import ProcessNames
from workbench.collect.source_join import with_derived_lag
from workbench.collect.whole_from_parts_or_rates import Wholes
from workbench.errors import SourceUnreachableError
from workbench.profiles import load_profile
from workbench.samples import SampleBatch
from workbench.signals import SIGNALS

PROFILE = "librdkafka"
_MICROSECONDS_FROM = 1_000_000  # `time` is in seconds
_KEYS = ("brokers", "topics")  # what no other line of an application's log has, in JSON or not


def statistics_samples(lines: Iterable[str], *, cluster: str, group: str | None = None) -> pa.Table:
    """Parse statistics: JSON objects on a line each or indented, also behind a log's prefix.

    A log's other lines are left out, in JSON or not, and so is a last one that is cut.

    Args:
        cluster: its name in the samples.
        group: the consumer group of the client; its statistics do not name it.

    Consumers of one process are told apart by their handles' names: by default, all have the client id `rdkafka`.

    Samples get the object's `time`: the callback runs inside poll(), so several objects may arrive at once after a stall.

    Raises:
        SourceUnreachableError: if an object is not librdkafka statistics, or if there is none.
    """
    profile = load_profile(PROFILE)
    batch, consumers = SampleBatch(cluster, profile.name), ProcessNames()
    read, refusal = 0, None
    for number, text in _candidates(lines):
        if refusal is not None:
            raise refusal
        try:
            document = json.loads(text)
            ts_us = np.array([int(document["time"]) * _MICROSECONDS_FROM], np.int64)
            numbers = list(_numbers(document))
            handle = {"instance": str(document.get("name", ""))}
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            refusal = SourceUnreachableError(
                f"Line {number} is not librdkafka statistics ({type(error).__name__}).",
                hint="It must be a JSON object with time, name, topics and brokers, on one line or indented.",
            )
            if read and isinstance(error, json.JSONDecodeError):
                continue  # the last one of a log that is being written or was cut, unless another one follows
            raise refusal from None
        read += 1
        for metric, labels, value in numbers:
            meaning = profile.meaning(metric, labels)
            if meaning is not None:
                told = consumers.told_apart(meaning, profile, handle)
                labels = {**told, **_group_label(meaning.signal, group)}
                batch.add(meaning.signal, labels, ts_us, [value], stat=meaning.stat, scale=meaning.scale)
    if not read:
        raise SourceUnreachableError(
            "No librdkafka statistics were found.",
            hint="A client writes them with statistics.interval.ms set; a file has JSON objects, also behind a log's prefix.",
        )
    return with_derived_lag(Wholes(profile).of(batch.to_series())).to_samples()


def _candidates(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """The objects that may be statistics; if there is none, the first other one, so that it can be named."""
    other, is_found = None, False
    for number, text in _objects(lines):
        if all(f'"{key}"' in text for key in _KEYS):
            is_found = True
            yield number, text
        elif other is None:
            other = number, text
    if not is_found and other is not None:
        yield other


def _objects(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the number of each object's last line, and its text."""
    indented: list[str] = []
    indent = 0
    for number, line in enumerate(lines, 1):
        if indented:
            indented.append(line)
            if line.rstrip() == " " * indent + "}":
                yield number, "".join(indented)
                indented = []
        elif line.strip() == "{":
            indent, indented = len(line) - len(line.lstrip()), [line]
        elif line.lstrip().startswith("{"):
            yield number, line
        elif (start := line.find('{ "') if '{ "' in line else line.find('{"')) > 0 and '"topics"' in line:
            yield number, line[start:]
    if indented:
        yield number, "".join(indented)


def _group_label(signal: str, group: str | None) -> dict[str, str]:
    """Group label, for signals that have one."""
    return {"group": group} if group is not None and "group" in SIGNALS[signal].labels else {}


def _numbers(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield (path with underscores, labels, number) of the fields below topics, brokers and cgrp."""
    # Before 1.0, librdkafka gave its clients a name only.
    client = {"client_id": str(document.get("client_id") or document["name"])}
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
