"""Dead letters as six frameworks write them, for the tests."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from workbench.redrive.letter_headers import Headers, Letter

KINDS = ("runtime", "spring", "connect", "kafbat", "parallel_consumer", "decaton")
ERRORS = ("java.net.SocketTimeoutException", "org.acme.BadOrder", "http_503")


def text(value: object) -> bytes:
    """A header's value as decimal or plain text."""
    return str(value).encode()


def headers_of(kind: str, topic: str, partition: int, offset: int, error: str) -> Headers:
    """Headers that a framework adds to a record that failed."""
    if kind == "runtime":
        found = {"wb_topic": text(topic), "wb_partition": text(partition), "wb_offset": text(offset)}
        return [*found.items(), ("wb_timestamp_ms", b"1700000000000"), ("wb_attempts", b"5"), ("wb_code", text(error))]
    if kind == "spring":
        return [
            ("kafka_dlt-exception-fqcn", b"org.springframework.kafka.listener.ListenerExecutionFailedException"),
            ("kafka_dlt-exception-cause-fqcn", text(error)),
            ("kafka_dlt-exception-message", b"Listener failed"),
            ("kafka_dlt-original-topic", text(topic)),
            ("kafka_dlt-original-partition", struct.pack(">i", partition)),
            ("kafka_dlt-original-offset", struct.pack(">q", offset)),
            ("kafka_dlt-original-timestamp", struct.pack(">q", 1_700_000_000_000)),
            ("kafka_dlt-original-timestamp-type", b"CreateTime"),
        ]
    if kind == "connect":
        found = {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "connector.name": "sink",
            "stage": "VALUE_CONVERTER",
        }
        found |= {"exception.class.name": error, "exception.message": "bad"}
        return [(f"__connect.errors.{name}", text(value)) for name, value in found.items()]
    if kind == "kafbat":
        found = {"topic": topic, "partition": partition, "offset": offset}
        return [
            *((f"x-original-{name}", text(value)) for name, value in found.items()),
            ("x-exception-fqcn", text(error)),
        ]
    if kind == "parallel_consumer":
        found = {"failure-count": 4, "last-failure-at": "2026-11-21T03:00:00Z", "last-failure-cause": error}
        return [(f"pc-{name}", text(it)) for name, it in {**found, "partition": partition, "offset": offset}.items()]
    # TaskMetadataProto: timestamp_millis = 1700000000000, source_application_id = "app", retry_count = 3
    return [("dt_meta", b"\x08\x80\xd0\x95\xff\xbc\x31\x12\x03app\x20\x03")]


def letters(count: int, topic: str, partitions: int = 3, *, keys: int = 97, size: int = 40) -> Iterator[Letter]:
    """Letters of all kinds in turn, with an own header of the record, in the order of their origins."""
    following = [0] * partitions
    for number in range(count):
        key = number % keys
        at = key % partitions
        own = [("event_type", b"order"), ("trace", text(number))]
        headers = [*own, *headers_of(KINDS[key % len(KINDS)], topic, at, following[at], ERRORS[number % len(ERRORS)])]
        yield Letter(
            at, following[at], 1_700_000_000_000 + number, b"k%d" % key, b"v%d" % number + b"." * size, headers
        )
        following[at] += 1
