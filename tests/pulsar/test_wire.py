"""Pulsar's frames and entries: what is written is read again, in the form of other clients, and nothing else is believed."""

from __future__ import annotations

import struct
import zlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pulsar.broker import entry
from workbench.pulsar.entry_messages import ChunkPart, MessagePlace, PulsarMessage, identifier_fields, read_entry
from workbench.pulsar.producer import OutgoingMessage
from workbench.pulsar.pulsar_wire import (
    Command,
    CommandKind,
    Fields,
    PulsarWireError,
    crc32c,
    field,
    frame,
    pair,
    sealed,
    unsealed,
)
from workbench.pulsar.redrive.letter_producer import java_hash
from workbench.pulsar.runtime.places_as_offsets import offset_behind, offset_of
from workbench.queues.position import packed, unpacked

PLACE = Fields.parse(field(2, field(1, 7) + field(2, 3)))


def read(payload: bytes, *more: bytes) -> list[PulsarMessage]:
    """Messages of an entry at 7:3."""
    found, _ = read_entry(Fields.parse(field(2, field(1, 7) + field(2, 3)) + b"".join(more)), payload)
    assert isinstance(found, list)
    return found


def test_a_checksum_is_castagnolis() -> None:
    """As of RFC 3720, B.4; and Java's hash of a text as its documentation has it."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert [java_hash(it) for it in ("", "a", "hello", "polygenelubricants")] == [0, 97, 99162322, 0]


@given(st.dictionaries(st.integers(1, 5000), st.one_of(st.integers(0, 2**64 - 1), st.binary(max_size=50)), max_size=8))
def test_fields_are_read_as_they_were_written(fields: dict[int, int | bytes]) -> None:
    """Whatever their numbers; a negative number is one again."""
    found = Fields.parse(b"".join(field(number, value) for number, value in fields.items()))
    assert found.found == {number: [value] for number, value in fields.items()}
    assert Fields.parse(field(3, -7)).signed(3) == -7


@given(st.binary(max_size=80))
def test_anything_else_is_no_command(data: bytes) -> None:
    """It is read, or refused."""
    for parse in (Command.parse, Fields.parse, unsealed):
        try:
            parse(data)
        except PulsarWireError:
            continue
    read_entry(PLACE, data)


def test_an_entry_behind_the_brokers_own_metadata_is_read() -> None:
    """The broker may put its time and index before it."""
    plain = entry(("k", "v"))
    own = field(1, 5)
    [found] = read(b"\x0e\x02" + struct.pack(">I", len(own)) + own + plain)
    assert (found.key, found.value) == (b"k", b"v")
    assert [it.value for it in read(plain[6:])] == [b"v"]  # without a checksum


def test_the_time_and_the_order_that_a_producer_has_given_are_read() -> None:
    """Of a message alone and in a batch, and as ours is written; without them there is neither."""
    alone = OutgoingMessage(key=b"k", value=b"v", properties=(), event_ms=1_700_000_000_001, ordering_key=b"\xff")
    single = field(2, "k") + field(3, 1) + field(5, 1_700_000_000_001) + field(7, b"\xff")
    batch = sealed(
        field(1, "p") + field(2, 0) + field(3, 5) + field(11, 1), struct.pack(">I", len(single)) + single + b"v"
    )
    for payload in (sealed(alone.metadata("p", 0), b"v"), batch):
        [found] = read(payload)
        assert (found.key, found.value, found.event_ms, found.ordering_key) == (b"k", b"v", 1_700_000_000_001, b"\xff")
    [plain] = read(entry(("k", "v")))
    assert (plain.event_ms, plain.ordering_key) == (0, None)


@pytest.mark.parametrize("form", [0, 1, 2, 3, 4])
def test_every_compression_is_unpacked(form: int) -> None:
    """And what says a wrong size is not believed."""
    content = b"content " * 200
    codecs = {1: "lz4_raw", 3: "zstd", 4: "snappy"}
    if form == 2:
        packed_ = zlib.compress(content)
    else:
        packed_ = pa.Codec(codecs[form]).compress(content, asbytes=True) if form in codecs else content

    def stored(size: int, data: bytes) -> bytes:
        own = field(1, "p") + field(2, 0) + field(3, 5) + field(8, form) + field(9, size)
        return sealed(own, data)

    [found] = read(stored(len(content), packed_))
    assert (found.value, found.publish_ms) == (content, 5)
    if form:
        for damaged in (
            stored(len(content) + 1, packed_),
            stored(len(content) - 1, packed_),
            stored(len(content), packed_[:-9]),
            stored(1 << 40, packed_),
        ):
            [found] = read(damaged)
            assert (found.value, found.headers) == (None, None)


def test_an_encrypted_message_and_a_cut_batch_have_no_content() -> None:
    """One message stands for all of a batch, at its end: what is acknowledged is the entry."""
    common = field(1, "p") + field(2, 0) + field(3, 5)
    [secret] = read(sealed(common + field(13, field(1, "key")), b"x"))
    assert secret.headers is None
    cut = read(sealed(common + field(11, 3), b"\0\0\0\2xy"))
    assert [(it.place, it.headers) for it in cut] == [(MessagePlace(7, 3, 2, 3), None)]


def test_a_key_may_be_bytes_and_a_value_nothing() -> None:
    """As Java's client writes them."""
    common = field(1, "p") + field(2, 0) + field(3, 5)
    [found] = read(sealed(common + field(6, "/wA=") + field(17, 1) + field(25, 1) + pair(4, "n", "v"), b""))
    assert (found.key, found.value, found.headers) == (b"\xff\x00", None, (("n", b"v"),))
    [found] = read(sealed(common + field(6, "k") + field(30, 1), b""))
    assert (found.key, found.value) == (None, b"")


def test_permits_are_counted_as_the_broker_does() -> None:
    """Of a batch, those that are not acknowledged."""
    three = entry(*[("k", "v")] * 3)
    for words, left in (((), 3), ((0b101,), 2), ((0b010,), 1)):
        own = field(2, field(1, 7) + field(2, 3)) + b"".join(field(4, word) for word in words)
        found, permits = read_entry(Fields.parse(own), three)
        assert isinstance(found, list)
        assert len(found) == permits == left
    chunk = field(1, "p") + field(2, 0) + field(3, 5) + field(26, "u") + field(27, 2) + field(29, 1)
    found, permits = read_entry(PLACE, sealed(chunk, b"x"))
    assert isinstance(found, ChunkPart)
    assert (found.number, found.of, found.name, permits) == (1, 2, "u", 1)


def test_a_batch_that_is_too_large_has_the_permits_that_the_broker_counts() -> None:
    """Otherwise nothing more would be asked for."""
    payload = sealed(field(1, "p") + field(3, 5) + field(11, 200_000), b"x")
    [found], permits = read_entry(PLACE, payload)
    assert isinstance(found, PulsarMessage) and found.headers is None
    assert permits == 200_000


def test_a_damaged_batch_is_seen_whatever_of_it_is_acknowledged() -> None:
    """Its last message may be."""
    [found] = read(sealed(field(1, "p") + field(3, 5) + field(11, 3), b"x"), field(4, 0b011))
    assert (found.headers, found.place) == (None, MessagePlace(7, 3, 1, 2))


@given(st.integers(1, 200), st.data())
def test_bits_say_what_of_a_batch_is_left(size: int, data: st.DataObject) -> None:
    """Exactly the messages behind the acknowledged one; none at the end of a batch."""
    within = data.draw(st.integers(0, size - 1))
    words = Fields.parse(identifier_fields(MessagePlace(1, 2, within, size))).numbers(5)
    left = {at * 64 + bit for at, word in enumerate(words) for bit in range(64) if word >> bit & 1}
    assert left == set(range(within + 1, size))


_PLACES = st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**20 - 1), st.integers(0, 1023))


@given(_PLACES, _PLACES)
def test_numbers_are_in_the_order_of_places(one: tuple[int, int, int], other: tuple[int, int, int]) -> None:
    """And the places can be told from them."""
    a, b = packed(one), packed(other)
    assert a is not None and b is not None
    assert (a < b) == (one < other) and unpacked(a) == one and a < 1 << 62
    assert (offset_of(MessagePlace(*one)) < offset_of(MessagePlace(*other))) == (one < other)
    assert offset_behind(*one[:2]) > offset_of(MessagePlace(*one)) >= offset_behind(one[0], one[1] - 1)


def test_a_place_that_is_too_large_has_no_number() -> None:
    """It would be another one."""
    assert packed((2**32, 0, 0)) is packed((0, 2**20, 0)) is packed((0, 0, 1024)) is packed((0, -1, 0)) is None


def test_a_frame_is_what_the_protocol_says() -> None:
    """Sizes first, of all and of the command."""
    data = frame(CommandKind.PING, payload=b"")
    assert data == b"\x00\x00\x00\x09\x00\x00\x00\x05\x08\x12\x92\x01\x00"
    found = Command.parse(frame(CommandKind.MESSAGE, field(1, 3), payload=b"tail")[4:])
    assert (found.kind, found.body.number(1), found.payload) == (CommandKind.MESSAGE, 3, b"tail")
    assert Command.parse(frame(CommandKind.MESSAGE, field(1, 3))[4:].replace(b"\x08\x09", b"\x08\x7f")).kind is None
