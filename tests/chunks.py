"""Prometheus' stored chunks and its stream of them, written the plainest way: the oracle of what reads them."""

from __future__ import annotations

import struct

from workbench.collect import remote_read

Sample = tuple[int, int]  # (ms, bits of the value)


class Writer:
    """A bit stream, as Prometheus' appender writes it: the plainest way, as the oracle."""

    def __init__(self) -> None:
        self.bits: list[str] = []

    def put(self, number: int, width: int) -> None:
        """So many bits of a number."""
        self.bits.append(format(number & ((1 << width) - 1), f"0{width}b"))

    def uvarint(self, number: int) -> None:
        """Seven bits in a byte."""
        for byte in remote_read._varint(number):
            self.put(byte, 8)

    def chunk(self) -> bytes:
        """The bytes."""
        text = "".join(self.bits)
        text += "0" * (-len(text) % 8)
        return int(text, 2).to_bytes(len(text) // 8, "big")


def encode(samples: list[Sample]) -> bytes:
    """One chunk."""
    out = Writer()
    out.put(len(samples), 16)
    leading = significant = -1
    step = 0
    for index, (ts, value) in enumerate(samples):
        if index == 0:
            out.uvarint((ts << 1) ^ (ts >> 63))
            out.put(value, 64)
            continue
        before_ts, before = samples[index - 1]
        if index == 1:
            step = ts - before_ts
            out.uvarint(step)
        else:
            change, step = ts - before_ts - step, ts - before_ts
            for prefix, bits, width in (("0", 1, 0), ("10", 2, 14), ("110", 3, 17), ("1110", 4, 20), ("1111", 4, 64)):
                low, high = (0, 0) if not width else (-(1 << (width - 1)) + 1, 1 << (width - 1))
                if low <= change <= high or width == 64:
                    out.put(int(prefix, 2), bits)
                    if width:
                        out.put(change, width)
                    break
        difference = value ^ before
        if difference == 0:
            out.put(0, 1)
            continue
        out.put(1, 1)
        zeros = min(31, 64 - difference.bit_length())
        trailing = (difference & -difference).bit_length() - 1
        if leading >= 0 and zeros >= leading and trailing >= 64 - leading - significant:
            out.put(0, 1)
        else:
            leading, significant = zeros, 64 - zeros - trailing
            out.put(1, 1)
            out.put(leading, 5)
            out.put(significant & 63, 6)
        out.put(difference >> (64 - leading - significant), significant)
    return out.chunk()


def bits_of(value: float) -> int:
    """A float's bits."""
    return int(struct.unpack(">Q", struct.pack(">d", value))[0])


def answer(*parts: tuple[dict[str, str], list[bytes], int], times: tuple[int, ...] = ()) -> bytes:
    """A stream with one frame for each (labels, chunks, encoding); `times`: the earliest and latest that each chunk is said to hold."""
    return b"".join(
        frame(encoded(labels), chunks, encoding=encoding, times=times) for labels, chunks, encoding in parts
    )


def encoded(labels: dict[str, str]) -> bytes:
    """The labels of a series, as a frame begins with them."""
    return b"".join(
        remote_read._bytes(1, remote_read._text(1, name) + remote_read._text(2, value))
        for name, value in labels.items()
    )


def frame(labels: bytes, chunks: list[bytes], *, encoding: int = 1, times: tuple[int, ...] = ()) -> bytes:
    """One frame of a stream: a series."""
    said = b"".join(remote_read._number(field, at) for field, at in enumerate(times, 1))
    message = labels + b"".join(
        remote_read._bytes(2, said + remote_read._number(3, encoding) + remote_read._bytes(4, chunk))
        for chunk in chunks
    )
    whole = remote_read._bytes(1, message)
    return remote_read._varint(len(whole)) + b"crc!" + whole
