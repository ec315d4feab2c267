"""Decoder of Prometheus' XOR chunks by column: all chunks advance together, sample by sample.

A chunk is a bit stream of up to some hundred samples: a two-byte count, the first sample in full, then for each further sample the
change of the time step and the XOR of the value with the one before (source: tsdb/chunkenc/xor.go of Prometheus; the scheme is that of
Facebook's Gorilla paper). One chunk can only be read from front to back, but a day of 2,000 series has 50,000 of them, and numpy reads
the n-th sample of all at once: 0.4 s for 5.8 M samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int = npt.NDArray[np.int64]
Word = npt.NDArray[np.uint64]

_PADDING = b"\0" * 24  # so that 64 bits can be read at the very end
_MOST_SAMPLES = 8192  # of a chunk: it is cut at 1,024 bytes and mostly at 120 samples; each takes a step for all chunks
_ONE = np.uint64(1)
_WORD_BITS = np.uint64(64)

# The change of the time step follows a prefix: 0, 10, 110, 1110 or 1111. By the next four bits: length of the prefix, and of the
# number after it.
_PREFIX_BITS = np.array([1] * 8 + [2] * 4 + [3] * 2 + [4] * 2, dtype=np.int64)
_NUMBER_BITS = np.array([0] * 8 + [14] * 4 + [17] * 2 + [20] + [64], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class DecodedChunk:
    """Samples of all chunks, chunk after chunk.

    Attributes:
        lengths: samples of each of k chunks, (k,).
        ts_ms: ms since the epoch, (n,).
        values: values, identical to the stored ones bit by bit, (n,).
    """

    lengths: Int
    ts_ms: Int
    values: npt.NDArray[np.float64]


class _Bits:
    """Buffer with many read positions."""

    def __init__(self, data: bytes) -> None:
        self._bytes = np.frombuffer(data + _PADDING, dtype=np.uint8)
        # A big-endian word starts at every byte.
        self._words = np.ndarray((len(self._bytes) - 8,), dtype=">u8", buffer=self._bytes, strides=(1,))

    def window(self, at: Int) -> Word:
        """The 64 bits from each position on."""
        byte, shift = at >> 3, (at & 7).astype(np.uint64)
        high = self._words[byte].astype(np.uint64) << shift
        low: Word = self._bytes[byte + 8].astype(np.uint64) >> (np.uint64(8) - shift)
        return np.asarray(high | low, dtype=np.uint64)

    def uvarint(self, at: Int) -> tuple[Word, Int]:
        """Read an unsigned varint at each position (seven bits per byte, lowest first); return it with its end position."""
        number = np.zeros(len(at), np.uint64)
        more = np.ones(len(at), bool)
        for shift in range(0, 70, 7):
            byte = (self.window(at) >> np.uint64(56)).astype(np.uint64)
            number = np.where(more, number | ((byte & np.uint64(127)) << np.uint64(shift)), number)
            at = np.where(more, at + 8, at)
            more = more & (byte >= 128)
            if not more.any():
                return number, at
        raise ValueError("a number in a chunk has no end")


class TooManySamplesError(Exception):
    """The chunks have more samples than the caller has room for."""


def decode(data: bytes, offsets: Int, ends: Int | None = None, *, most_samples: int | None = None) -> DecodedChunk:
    """Decode the chunks that begin at these byte offsets.

    Args:
        ends: end positions of their data; default: the end of all data.
        most_samples: of all chunks together. A sample takes two bits at least, and 50 bytes while it is decoded.

    Raises:
        TooManySamplesError: if there are more; nothing has been decoded.
        ValueError: if the data are not valid chunks.
    """
    if not len(offsets):
        return DecodedChunk(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float64))
    bits = _Bits(data)
    lengths = (bits.window(offsets * 8) >> np.uint64(48)).astype(np.int64)
    if ends is None:
        ends = np.full(len(offsets), len(data))
    fits = (lengths > 0) & (lengths <= _MOST_SAMPLES) & (lengths * 2 <= (ends - offsets) * 8)  # a sample takes two bits
    if not fits.all():
        raise ValueError("the chunks do not fit their data")
    upto = np.cumsum(lengths)
    if most_samples is not None and upto[-1] > most_samples:
        raise TooManySamplesError
    ts, values = np.empty(int(upto[-1]), np.int64), np.empty(int(upto[-1]), np.uint64)
    # Longest first: those that have an n-th sample are then always the first k.
    order = np.argsort(-lengths, kind="stable")
    chunks = _Chunks(
        bits, lengths[order], at=offsets[order] * 8 + 16, ends=ends[order] * 8, out=(upto - lengths)[order]
    )
    try:
        for index in range(int(lengths.max())):
            chunks.advance(index)
            ts[chunks.out + index], values[chunks.out + index] = chunks.time, chunks.value
        chunks.drop_to(0)
    except IndexError:
        raise ValueError("a chunk runs over the end of its data") from None
    return DecodedChunk(lengths, ts, values.view(np.float64))


class _Chunks:
    """The state of all chunks that still have samples."""

    def __init__(self, bits: _Bits, lengths: Int, *, at: Int, ends: Int, out: Int) -> None:
        self._bits = bits
        self._ends = ends
        self._lengths = lengths
        self.out = out
        self._at = at
        self.time = np.zeros(len(at), np.int64)
        self.value = np.zeros(len(at), np.uint64)
        self._step = np.zeros(len(at), np.int64)
        self._leading = np.zeros(len(at), np.uint64)
        self._significant = np.zeros(len(at), np.uint64)

    def advance(self, index: int) -> None:
        """Read sample number `index` of every chunk that has one."""
        self.drop_to(int(np.searchsorted(-self._lengths, -index, side="left")))
        if index == 0:
            zigzag, self._at = self._bits.uvarint(self._at)
            half = (zigzag >> _ONE).astype(np.int64)
            self.time = np.where(zigzag & _ONE, ~half, half)
            self.value = self._bits.window(self._at)
            self._at = self._at + 64
            return
        if index == 1:
            step, self._at = self._bits.uvarint(self._at)
            self._step = step.astype(np.int64)
            window, used = self._bits.window(self._at), np.zeros(len(self._at), np.uint64)
        else:
            window, used = self._change_step()
        self.time = self.time + self._step
        self._change_value(window, used)

    def drop_to(self, left: int) -> None:
        """Keep only the first chunks; the others are complete.

        Raises:
            IndexError: if one of those has read beyond its data.
        """
        if left < len(self._at):
            if (self._at[left:] > self._ends[left:]).any():
                raise IndexError
            for name in ("out", "time", "value", "_lengths", "_at", "_ends", "_step", "_leading", "_significant"):
                setattr(self, name, getattr(self, name)[:left])

    def _change_step(self) -> tuple[Word, Word]:
        """Update the time step; return the 64 bits read ahead, and how many of them are used."""
        window = self._bits.window(self._at)
        prefix = (window >> np.uint64(60)).astype(np.int64)
        skip, size = _PREFIX_BITS[prefix], _NUMBER_BITS[prefix]
        taken = (skip + size).astype(np.uint64)
        self._at = self._at + skip + size
        if not size.any():
            return window << taken, taken
        width = np.where((size == 0) | (size == 64), 1, size)
        change = ((window << skip.astype(np.uint64)) >> (_WORD_BITS - width.astype(np.uint64))).astype(np.int64)
        change = np.where(change > (np.int64(1) << (width - 1)), change - (np.int64(1) << width), change)
        change[size == 0] = 0
        if (whole := size == 64).any():
            change[whole] = self._bits.window(self._at[whole] - 64).astype(np.int64)
        self._step = self._step + change
        return self._bits.window(self._at), np.zeros(len(taken), np.uint64)

    def _change_value(self, window: Word, used: Word) -> None:
        changed = (window >> np.uint64(63)).astype(bool)
        if not changed.any():
            self._at = self._at + 1
            return
        fresh = changed & ((window >> np.uint64(62)) & _ONE).astype(bool)  # with a new range of significant bits
        significant = (window >> np.uint64(51)) & np.uint64(63)
        significant[significant == 0] = _WORD_BITS  # 64 does not fit in six bits
        self._leading = np.where(fresh, (window >> np.uint64(57)) & np.uint64(31), self._leading)
        self._significant = np.where(fresh, significant, self._significant)
        frame = np.where(fresh, np.uint64(13), np.where(changed, np.uint64(2), _ONE))
        self._at = self._at + frame.astype(np.int64)
        width = np.where(changed, self._significant, _ONE)
        if (self._leading + self._significant > 64).any() or (width == 0).any():
            raise ValueError("a value in a chunk has an impossible frame")
        trailing = np.where(changed, _WORD_BITS - self._leading - self._significant, np.uint64(0))
        # Usually the bits are already in the 64 bits that were read for the step.
        ahead = window << frame if int((used + frame + width).max()) <= 64 else self._bits.window(self._at)
        difference = (ahead >> (_WORD_BITS - width)) << trailing
        self.value = np.where(changed, self.value ^ difference, self.value)
        self._at = self._at + np.where(changed, self._significant, np.uint64(0)).astype(np.int64)
