"""Pulsar's binary protocol: the commands that are sent and read here, and their frames.

A command is a message of Protocol Buffers. What a broker sends is untrusted: every length is checked against what was received, what is
built of it against a budget, and anything else than the expected form is a `PulsarWireError`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

# Fields that may be built of one command: its properties are the most, and a broker takes 10 kB of those for a subscription.
_MOST_FIELDS = 100_000
_MAGIC, _ENTRY_MAGIC = b"\x0e\x01", b"\x0e\x02"
_UNSIGNED = (1 << 64) - 1
_CRC32C = 0x82F63B78  # Castagnoli's polynomial, reversed


class PulsarWireError(ValueError):
    """What was received does not have the expected form."""


class CommandKind(IntEnum):
    """Commands by their number, which is also that of their field."""

    CONNECT = 2
    CONNECTED = 3
    SUBSCRIBE = 4
    PRODUCER = 5
    SEND = 6
    SEND_RECEIPT = 7
    SEND_ERROR = 8
    MESSAGE = 9
    ACK = 10
    FLOW = 11
    SUCCESS = 13
    ERROR = 14
    CLOSE_PRODUCER = 15
    CLOSE_CONSUMER = 16
    PRODUCER_SUCCESS = 17
    PING = 18
    PONG = 19
    PARTITIONED_METADATA = 21
    PARTITIONED_METADATA_RESPONSE = 22
    LOOKUP = 23
    LOOKUP_RESPONSE = 24
    GET_LAST_MESSAGE_ID = 29
    GET_LAST_MESSAGE_ID_RESPONSE = 30
    ACTIVE_CONSUMER_CHANGE = 31
    AUTH_CHALLENGE = 36
    AUTH_RESPONSE = 37
    ACK_RESPONSE = 38


# Field of the request's id in what answers a request.
REQUEST_ID = {
    CommandKind.SUCCESS: 1,
    CommandKind.ERROR: 1,
    CommandKind.PRODUCER_SUCCESS: 1,
    CommandKind.PARTITIONED_METADATA_RESPONSE: 2,
    CommandKind.LOOKUP_RESPONSE: 4,
    CommandKind.GET_LAST_MESSAGE_ID_RESPONSE: 2,
    CommandKind.ACK_RESPONSE: 6,
}
# Field of the consumer's id in what a broker tells a consumer of its own accord.
CONSUMER_ID = {CommandKind.MESSAGE: 1, CommandKind.ACTIVE_CONSUMER_CHANGE: 1, CommandKind.CLOSE_CONSUMER: 1}
PRODUCER_ID = {CommandKind.SEND_RECEIPT: 1, CommandKind.SEND_ERROR: 1, CommandKind.CLOSE_PRODUCER: 1}


class ServerRefusal(IntEnum):
    """Codes of a broker's errors that mean something here."""

    AUTHENTICATION = 3
    AUTHORIZATION = 4
    CONSUMER_BUSY = 5
    UNSUPPORTED_VERSION = 10
    TOPIC_NOT_FOUND = 11
    TOPIC_TERMINATED = 15
    PRODUCER_BUSY = 16
    INVALID_TOPIC_NAME = 17
    CONSUMER_ASSIGN = 19
    NOT_ALLOWED = 22
    PRODUCER_FENCED = 25


def field(number: int, value: int | str | bytes | None) -> bytes:
    """A field; None is none."""
    if value is None:
        return b""
    if isinstance(value, int):
        return varint(number << 3) + varint(value & _UNSIGNED)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(number: int) -> bytes:
    """A number of variable length."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def pair(number: int, name: str, value: str) -> bytes:
    """A field that is a name and its value."""
    return field(number, field(1, name) + field(2, value))


def frame(kind: CommandKind, *parts: bytes, payload: bytes = b"") -> bytes:
    """A command with its fields, as it is sent; behind it what it carries."""
    command = field(1, int(kind)) + field(kind, b"".join(parts))
    return struct.pack(">II", 4 + len(command) + len(payload), len(command)) + command + payload


@dataclass(frozen=True, slots=True)
class Fields:
    """Fields of a message by their numbers, each as often as it came."""

    found: dict[int, list[int | bytes]]

    @classmethod
    def parse(cls, data: bytes) -> Fields:
        """Read a message.

        Raises:
            PulsarWireError: if it is none.
        """
        found: dict[int, list[int | bytes]] = {}
        at, end, count = 0, len(data), 0
        while at < end:
            tag, at = read_varint(data, at)
            value: int | bytes
            form = tag & 7
            if form == 0:
                value, at = read_varint(data, at)
            elif form in (1, 2, 5):
                size = 8 if form == 1 else 4
                if form == 2:
                    size, at = read_varint(data, at)
                if size > end - at:
                    raise PulsarWireError("a field is longer than its message")
                value, at = data[at : at + size], at + size
            else:
                raise PulsarWireError(f"a field has the form {form}")
            if (count := count + 1) > _MOST_FIELDS:
                raise PulsarWireError(f"a message has more than {_MOST_FIELDS:,} fields")
            found.setdefault(tag >> 3, []).append(value)
        return cls(found)

    def number(self, field_number: int, default: int = 0) -> int:
        """The last number of a field."""
        some = self.found.get(field_number)
        if not some:
            return default
        if not isinstance(some[-1], int):
            raise PulsarWireError(f"the field {field_number} is no number")
        return some[-1]

    def signed(self, field_number: int, default: int = 0) -> int:
        """The same of a field that may be negative."""
        found = self.number(field_number, default)
        return found - (1 << 64) if found >> 63 else found

    def raw(self, field_number: int) -> bytes | None:
        """The last bytes of a field; None if it is not there."""
        return next(reversed(self.many(field_number)), None)

    def text(self, field_number: int) -> str:
        """The last text of a field; what is not UTF-8 is replaced."""
        return (self.raw(field_number) or b"").decode(errors="replace")

    def many(self, field_number: int) -> list[bytes]:
        """All of a field that is bytes."""
        some = self.found.get(field_number, ())
        found = [it for it in some if isinstance(it, bytes)]
        if len(found) != len(some):
            raise PulsarWireError(f"the field {field_number} is a number")
        return found

    def numbers(self, field_number: int) -> list[int]:
        """All of a field that is a number, packed or not."""
        found: list[int] = []
        for value in self.found.get(field_number, ()):
            if isinstance(value, int):
                found.append(value)
                continue
            at = 0
            while at < len(value):
                number, at = read_varint(value, at)
                found.append(number)
        return found

    def message(self, field_number: int) -> Fields:
        """The last message of a field; without fields if it is not there."""
        return Fields.parse(self.raw(field_number) or b"")


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number at a place, and the place behind it.

    Raises:
        PulsarWireError: if it is cut off, or larger than 64 bits.
    """
    number = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & _UNSIGNED, at
        shift += 7
    raise PulsarWireError("a number is cut off")


@dataclass(frozen=True, slots=True)
class Command:
    """What a broker has sent: `payload` is what comes behind the command. `kind` None: nothing that is read here."""

    kind: CommandKind | None
    body: Fields
    payload: bytes = b""

    @classmethod
    def parse(cls, data: bytes) -> Command:
        """Read a frame without its size.

        Raises:
            PulsarWireError: if it is none.
        """
        if len(data) < 4 or (size := struct.unpack_from(">I", data)[0]) > len(data) - 4:
            raise PulsarWireError("a command is longer than its frame")
        base = Fields.parse(data[4 : 4 + size])
        number = base.number(1)
        if number not in CommandKind.__members__.values():
            return cls(None, Fields({}))
        return cls(CommandKind(number), base.message(number), data[4 + size :])


@cache
def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_CRC32C if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


def crc32c(data: bytes) -> int:
    """Checksum of what is produced; brokers refuse another one."""
    table, value = _crc_table(), 0xFFFFFFFF
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


def sealed(metadata: bytes, value: bytes) -> bytes:
    """What a SEND carries: checksum, metadata, value."""
    rest = struct.pack(">I", len(metadata)) + metadata + value
    return _MAGIC + struct.pack(">I", crc32c(rest)) + rest


def unsealed(payload: bytes) -> tuple[Fields, bytes]:
    """Metadata and value of what a MESSAGE carries. The checksum is left to TCP and the bookies: brokers have checked it when it came.

    Raises:
        PulsarWireError: if it is none.
    """
    at = 0
    try:
        if payload[:2] == _ENTRY_MAGIC:
            at = 6 + struct.unpack_from(">I", payload, 2)[0]
        if payload[at : at + 2] == _MAGIC:
            at += 6
        size = struct.unpack_from(">I", payload, at)[0]
    except struct.error:
        raise PulsarWireError("an entry is cut off") from None
    if size > len(payload) - at - 4:
        raise PulsarWireError("an entry's metadata are longer than the entry")
    return Fields.parse(payload[at + 4 : at + 4 + size]), payload[at + 4 + size :]
