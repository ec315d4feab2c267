"""Messages of topics as a Spark frame, for audits: read once, by the reader of dead letters, into memory.

Columns are those of `kafka_records`. An offset is a packed position (`queues.position.packed`), a timestamp the publish time, which is
that of a batch as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from workbench.errors import EvidenceError, SourceUnreachableError, UsageError
from workbench.humanize import size
from workbench.pulsar.redrive.letter_reader import PulsarLetters
from workbench.pulsar.redrive.topics_and_progress import PulsarLetterGateway
from workbench.pulsar.topic_brokers import PulsarBrokers
from workbench.queues.replay_port import Ranges, spans_of
from workbench.queues.snapshot_views import Partition
from workbench.read_kafka_headers import UNREADABLE
from workbench.redrive.letter_headers import Letter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_BYTES = 1 << 30  # Spark copies them once more
_BATCH = 5_000
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_TYPES = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": _HEADERS,
}


def read_frame(
    spark: SparkSession,
    gateway: PulsarLetterGateway,
    brokers: PulsarBrokers,
    ranges: Ranges,
    columns: Sequence[str],
    *,
    seconds: float,
) -> DataFrame:
    """Read ranges of packed positions; leaves no subscription behind.

    Args:
        seconds: the longest wait for the next message.

    Raises:
        SourceUnreachableError: if a broker does not answer. EvidenceError: if messages of the ranges are deleted.
        UsageError: if they are too many for memory.
    """
    schema = pa.schema([(name, _TYPES[name]) for name in columns])
    batches, held = [pa.RecordBatch.from_pylist([], schema=schema)], 0
    for part, letters in _read(gateway, brokers, ranges, seconds):
        batch = pa.RecordBatch.from_pydict(
            {name: [_value(name, part, it) for it in letters] for name in columns}, schema=schema
        )
        batches.append(batch)
        held += batch.nbytes
        if held > _MOST_BYTES:
            raise UsageError(
                f"The messages of {part[0]} are too many: more than {size(_MOST_BYTES)}.",
                hint="Of a Pulsar they are read into memory. Give a shorter time: --since and --until.",
            )
    return spark.createDataFrame(pa.Table.from_batches(batches, schema))


def _read(
    gateway: PulsarLetterGateway, brokers: PulsarBrokers, ranges: Ranges, seconds: float
) -> Iterator[tuple[Partition, list[Letter]]]:
    spans = {part: [it for it in spans_of(some) if it[0] < it[1]] for part, some in ranges.items()}
    wanted = [part for part, some in spans.items() if some]
    ends = _kept(gateway, wanted, spans)
    for part in wanted:
        topic, number = part
        reader = PulsarLetters(brokers, topic, gateway.place, seconds=seconds, batch=_BATCH)
        for start, stop in spans[part]:
            for letters, _ in reader.read({number: start}, {number: min(stop, ends[part])}):
                if letters:
                    yield part, letters
        _kept(gateway, [part], spans)  # a reader keeps no ledger: it goes on with the next one that is there


def _kept(
    gateway: PulsarLetterGateway, wanted: Sequence[Partition], spans: Mapping[Partition, Sequence[tuple[int, int]]]
) -> Mapping[Partition, int]:
    """Ends of these partitions, which have all that is to be read."""
    logs = gateway.logs(wanted)
    for part in wanted:
        topic, number = part
        if part in logs.errors:
            raise SourceUnreachableError(f"{topic}-{number} cannot be read: {logs.errors[part]}.")
        if min(start for start, _ in spans[part]) < logs.starts[part]:
            raise EvidenceError(
                f"Some messages of {topic}-{number} can no longer be read: they are deleted.",
                hint="What every subscription has acknowledged goes, unless there is a retention.",
            )
    return logs.ends


def _value(name: str, part: Partition, it: Letter) -> Any:
    if name == "headers":
        return None if it.headers is UNREADABLE else [{"key": key, "value": value} for key, value in it.headers]
    if name == "value" and it.headers is UNREADABLE:
        raise EvidenceError(
            f"A message of {part[0]}-{part[1]} cannot be read: it is encrypted or damaged.",
            hint="What is in it is not known, so it is equal to nothing.",
        )
    values: Mapping[str, Any] = {
        "topic": part[0],
        "partition": part[1],
        "offset": it.offset,
        "timestamp": None if it.timestamp_ms < 0 else it.timestamp_ms * 1000,
        "key": it.key,
        "value": it.value,
    }
    return values[name]
