"""Records of offset ranges for people: the first ones decoded, and counts by the type of the value's schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from workbench.humanize import iso_instant
from workbench.payloads.decode import Decoder
from workbench.queues.snapshot_views import Partition
from workbench.redrive.letter_headers import UNREADABLE, Letter
from workbench.redrive.redrive_ports import LetterReader
from workbench.redrive.show_letters import text_of_key, type_of
from workbench.settings import Cluster

Spans = Mapping[Partition, Sequence[tuple[int, int]]]


def types_of_records(
    spans: Spans, reader: Callable[[str], LetterReader], cluster: Cluster, *, most: int
) -> list[dict[str, Any]]:
    """Count records and bytes by type, largest first: the header `event_type`, else the schema of the value.

    Raises:
        EvidenceError: if records of the ranges are deleted. SourceUnreachableError: if Kafka does not answer.
    """
    decoder, records, sizes = Decoder(cluster.records), Counter[str](), Counter[str]()
    for topic, record in _records(spans, reader):
        name = type_of(record, decoder, topic)
        records[name] += 1
        sizes[name] += len(record.value or b"")
    return [{"name": name, "records": number, "bytes": sizes[name]} for name, number in records.most_common(most)]


def first_records(
    spans: Spans, reader: Callable[[str], LetterReader], cluster: Cluster, *, most: int
) -> list[dict[str, Any]]:
    """The first records of the ranges, decoded; hidden fields are replaced.

    Raises:
        EvidenceError, SourceUnreachableError: as `types_of_records`.
    """
    decoder, found = Decoder(cluster.records), list[dict[str, Any]]()
    for topic, record in _records(spans, reader, most=most):
        value = decoder.decode(topic, record.value)
        headers = [] if record.headers is UNREADABLE else [name for name, _ in record.headers]
        found.append(
            {
                "topic": topic,
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": iso_instant(record.timestamp_ms),
                "type": type_of(record, decoder, topic),
                "key": text_of_key(record.key),
                "headers": headers,
                "value": value.value,
                "problem": value.problem,
            }
        )
        if len(found) == most:
            break
    return found


def _records(
    spans: Spans, reader: Callable[[str], LetterReader], *, most: int | None = None
) -> Iterator[tuple[str, Letter]]:
    for topic in dict.fromkeys(key[0] for key in spans):
        mine = {key[1]: list(some) for key, some in spans.items() if key[0] == topic}
        for turn in range(max(map(len, mine.values()), default=0)):
            start = {number: some[turn][0] for number, some in mine.items() if turn < len(some)}
            stop = {
                number: some[turn][1] if most is None else min(some[turn][1], some[turn][0] + most)
                for number, some in mine.items()
                if turn < len(some)
            }
            for batch, _ in reader(topic).read(start, stop):
                for record in batch:
                    yield topic, record
