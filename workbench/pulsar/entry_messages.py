"""Entries of a topic: the messages of one, whether it is a batch or not. Pure.

What cannot be read (another compression, encryption, damage) is a message without content, so that it can be a dead letter and holds
nobody up.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from workbench.pulsar.pulsar_wire import Fields, PulsarWireError, field, read_varint, unsealed

_MOST_BYTES = 128 << 20  # of an entry that is unpacked; brokers take 5 MB (maxMessageSize), packed
MOST_IN_BATCH = 1 << 17  # a message takes six bytes, and some hundred here; producers put 1,000 into one by default
_CODECS = {1: "lz4_raw", 3: "zstd", 4: "snappy"}
_ZLIB = 2


class MessagePlace(NamedTuple):
    """Where a message is: number `within` its entry, of so many. An entry that is no batch has number 0 of 1."""

    ledger: int
    entry: int
    within: int = 0
    of: int = 1

    def identifier(self, partition: int) -> str:
        """As Pulsar's Java client writes it."""
        batched = f":{self.within}" if self.of > 1 else ""
        return f"{self.ledger}:{self.entry}:{partition}{batched}"


class PulsarMessage(NamedTuple):
    """One message.

    Attributes:
        headers: its properties; None if the message cannot be read.
        publish_ms: since the epoch, by its producer's clock; of a batch as a whole.
        event_ms: the time that its producer has given it; 0 if none.
        ordering_key: by which Key_Shared consumers get it, instead of the key.
    """

    place: MessagePlace
    key: bytes | None
    value: bytes | None
    publish_ms: int
    headers: tuple[tuple[str, bytes], ...] | None
    event_ms: int = 0
    ordering_key: bytes | None = None


@dataclass(frozen=True, slots=True)
class ChunkPart:
    """One of the pieces of a message that was too large for an entry."""

    place: MessagePlace
    name: str
    number: int
    of: int
    metadata: Fields
    value: bytes


def read_entry(message: Fields, payload: bytes) -> tuple[list[PulsarMessage] | ChunkPart, int]:
    """Messages of a MESSAGE that are not acknowledged yet, and how many permits the broker counts for it.

    Raises:
        PulsarWireError: if the command itself is not what it should be; where it is cannot be known then.
    """
    where = message.message(2)
    ledger, entry = where.number(1), where.number(2)
    if not _is_place(ledger, entry):
        raise PulsarWireError("a message has no place")
    words, count = message.numbers(4), 1
    try:
        metadata, data = unsealed(payload)
        count = max(1, metadata.number(11, 1))
        if count > MOST_IN_BATCH:
            raise PulsarWireError("a batch is too large")
        left = _not_acknowledged(words) & (1 << count) - 1
        if 11 not in metadata.found and (chunks := metadata.signed(27)) > 1:
            place = MessagePlace(ledger, entry)
            return ChunkPart(place, metadata.text(26), metadata.signed(29), chunks, metadata, data), 1
        found = [it for it in _messages(ledger, entry, metadata, data, count, left) if left >> it.place.within & 1]
        return found, left.bit_count()
    except PulsarWireError:
        permits = sum(word.bit_count() for word in words) if words else count  # as the broker counts it
        return [PulsarMessage(MessagePlace(ledger, entry), None, None, -1, None)], min(permits, (1 << 31) - 1)


def _messages(ledger: int, entry: int, metadata: Fields, data: bytes, count: int, left: int) -> Iterator[PulsarMessage]:
    published = metadata.number(3)
    found: list[PulsarMessage] = []
    if 11 not in metadata.found:
        yield whole_message(MessagePlace(ledger, entry), metadata, data)
        return
    try:
        content = _unpacked(metadata, data)
        at = 0
        for index in range(count):
            size = int.from_bytes(content[at : at + 4], "big")
            single = Fields.parse(_part(content, at + 4, size))
            at += 4 + size
            length = single.number(3)
            value = _part(content, at, length)
            at += length
            if single.number(4):  # compacted away: there is nothing in it, and it counts as handled
                continue
            key = None if single.number(10) else _key(single, 2, 6)
            content_or_null = None if single.number(9) else value
            place = MessagePlace(ledger, entry, index, count)
            own = (single.number(5), single.raw(7))
            found.append(PulsarMessage(place, key, content_or_null, published, _properties(single, 1), *own))
    except PulsarWireError:
        # None of them: which are whole cannot be told. One stands for all, at the last that is not acknowledged.
        last = max(0, left.bit_length() - 1)
        found = [PulsarMessage(MessagePlace(ledger, entry, last, last + 1), None, None, published, None)]
    yield from found


def whole_message(place: MessagePlace, metadata: Fields, data: bytes) -> PulsarMessage:
    """An entry that is one message, or chunks put together."""
    published = metadata.number(3)
    try:
        value = None if metadata.number(25) else _unpacked(metadata, data)
        key = None if metadata.number(30) else _key(metadata, 6, 17)
        own = (metadata.number(12), metadata.raw(18))
        return PulsarMessage(place, key, value, published, _properties(metadata, 4), *own)
    except PulsarWireError:
        return PulsarMessage(place, None, None, published, None)


def _is_place(ledger: int, entry: int) -> bool:
    return ledger < 1 << 63 and entry < 1 << 32


def _part(data: bytes, at: int, size: int) -> bytes:
    if size > len(data) - at:
        raise PulsarWireError("a message is longer than its batch")
    return data[at : at + size]


def _key(fields: Fields, number: int, flag: int) -> bytes | None:
    found = fields.raw(number)
    if found is None or not fields.number(flag):
        return found
    try:
        return base64.b64decode(found, validate=True)
    except binascii.Error:
        return found


def _properties(fields: Fields, number: int) -> tuple[tuple[str, bytes], ...]:
    some = [Fields.parse(it) for it in fields.many(number)]
    return tuple((it.text(1), it.raw(2) or b"") for it in some)


def _unpacked(metadata: Fields, data: bytes) -> bytes:
    """The content of an entry.

    Raises:
        PulsarWireError: if it is encrypted, or cannot be unpacked.
    """
    if metadata.many(13):
        raise PulsarWireError("it is encrypted")
    form, size = metadata.number(8), metadata.number(9)
    if form == 0:
        return data
    if size > _MOST_BYTES:
        raise PulsarWireError("it is too large")
    try:
        if form == _ZLIB:
            found = zlib.decompressobj().decompress(data, size + 1)
        elif form in _CODECS:
            import pyarrow as pa

            # It would fill what is missing with whatever is in memory.
            if form in _SIZES and _SIZES[form](data) != size:
                raise PulsarWireError("it has another size than it says")
            found = pa.Codec(_CODECS[form]).decompress(data, decompressed_size=size, asbytes=True) if size else b""
        else:
            raise PulsarWireError("its compression is not known")
    except (zlib.error, OSError, ValueError) as error:
        raise PulsarWireError("it cannot be unpacked") from error
    if len(found) != size:
        raise PulsarWireError("it has another size than it says")
    return found


def _lz4_size(data: bytes) -> int:
    """Size of the content of an LZ4 block, which does not say it: that of its literals and copies; -1 if it is none."""
    size, at, end = 0, 0, len(data)
    try:
        while True:
            token = data[at]
            at += 1
            literals = token >> 4
            if literals == 15:
                while (more := data[at]) == 255:
                    literals, at = literals + 255, at + 1
                literals, at = literals + more, at + 1
            size, at = size + literals, at + literals
            if at >= end:
                return size if at == end else -1
            at += 2
            copied = token & 15
            if copied == 15:
                while (more := data[at]) == 255:
                    copied, at = copied + 255, at + 1
                copied, at = copied + more, at + 1
            size += copied + 4
    except IndexError:
        return -1


# What says, or shows, the size of its content, and is not checked when it is unpacked.
_SIZES: dict[int, Callable[[bytes], int]] = {1: _lz4_size, 4: lambda data: read_varint(data, 0)[0]}


def _not_acknowledged(words: Sequence[int]) -> int:
    """Bits of a batch: those of messages that are not acknowledged are on. No words: all of them."""
    return sum(word << 64 * at for at, word in enumerate(words[: MOST_IN_BATCH // 64])) if words else -1


def identifier_fields(place: MessagePlace) -> bytes:
    """A message id as it is sent to acknowledge everything up to this message.

    In the middle of a batch, the bits say which of it are not acknowledged. Brokers that do not keep those acknowledge what is before
    the batch, and send all of it again (`acknowledgmentAtBatchIndexLevelEnabled` is off by default).
    """
    rest = b""
    if place.within + 1 < place.of:
        bits = (1 << place.of) - (1 << (place.within + 1))
        rest = b"".join(field(5, bits >> shift & (1 << 64) - 1) for shift in range(0, place.of, 64))
        rest += field(6, place.of)
    return field(1, place.ledger) + field(2, place.entry) + rest
