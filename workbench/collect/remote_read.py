"""Prometheus remote read: raw samples as stored chunks, with a twelfth of the bytes of JSON.

Source: prompb/remote.proto of Prometheus. Only the necessary parts are implemented, without a protobuf library. Any other answer (an
old server, a gateway that returns only samples, a histogram chunk) raises `NotOffered`, and the caller queries JSON: an answer is
never incomplete.
"""

from __future__ import annotations

import functools
import re
import struct
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import requests

from workbench.collect.matrix_parser import Matrix
from workbench.collect.selectors import LabelMatcher
from workbench.collect.xor_chunks import TooManySamplesError, decode
from workbench.http_client import AnswerTooLargeError, read_body

PATH = "/api/v1/read"
_STREAMED_XOR_CHUNKS = 1
_XOR = 1  # encoding of float chunks; others are histograms
_FRAME_HEAD_BYTES = 4  # CRC-32C after each frame's length; TCP has already checked the bytes
# What is built is limited, not what is received: a megabyte may hold four million samples. A slot of a sweep of 25,000 subscriptions
# has 25 million samples in all its answers.
MOST_SAMPLES = 30_000_000  # of one answer: 1.5 GB while they are decoded
_MOST_CHUNKS = 3_000_000  # with its series; 100 bytes each
_HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Read-Version": "0.1.0",
    "Accept-Encoding": "identity",
}
_ANSWER_TYPE = "application/x-streamed-protobuf"


class NotOffered(Exception):  # noqa: N818 - not an error: there is another way
    """The server does not offer its chunks, or not for these series; the text says why."""


def fetch(
    session: requests.Session,
    url: str,
    matchers: Sequence[LabelMatcher],
    *,
    start_ms: int,
    end_ms: int,
    timeout_seconds: float,
    headers: Mapping[str, str] | None = None,
) -> Matrix:
    """Read all raw samples of the matching series in [start, end], including staleness markers.

    Args:
        session: HTTP session.
        url: its base URL.
        matchers: of the series.
        start_ms, end_ms: ms since the epoch, both inclusive.
        timeout_seconds: for the complete answer.
        headers: for authentication, if the session has none.

    Raises:
        NotOffered: if the caller must query JSON.
        AnswerTooLargeError: if the answer has too many samples.
        requests.RequestException: if the server cannot be reached.
    """
    deadline = time.monotonic() + timeout_seconds
    response = session.post(
        url.rstrip("/") + PATH,
        data=pa.compress(read_request(matchers, start_ms=start_ms, end_ms=end_ms), codec="snappy", asbytes=True),
        headers={**(headers or {}), **_HEADERS},
        timeout=timeout_seconds,
        stream=True,
    )
    body = read_body(response, deadline=deadline)
    if response.status_code != 200:
        raise NotOffered(f"status {response.status_code}")
    if not response.headers.get("Content-Type", "").startswith(_ANSWER_TYPE):
        raise NotOffered("an answer of another type")
    return read_answer(body, start_ms=start_ms, end_ms=end_ms)


def read_answer(body: bytes, *, start_ms: int, end_ms: int) -> Matrix:
    """Parse an answer; every error becomes `NotOffered`, except for an answer that is too large: in JSON it would be larger.

    Raises:
        AnswerTooLargeError: if it has more samples or chunks than fit into memory.
    """
    try:
        return parse(body, start_ms=start_ms, end_ms=end_ms)
    except TooManySamplesError:
        raise AnswerTooLargeError(f"an answer of over {MOST_SAMPLES:,} samples") from None
    except (ValueError, IndexError, struct.error, UnicodeDecodeError) as error:
        raise NotOffered(f"an answer that cannot be read: {error}") from None


def read_request(matchers: Sequence[LabelMatcher], *, start_ms: int, end_ms: int) -> bytes:
    """Encode a ReadRequest with one query, for streamed chunks."""
    query = _number(1, start_ms) + _number(2, end_ms)
    for matcher in matchers:
        fields = _number(1, int(matcher.type)) + _text(2, matcher.name) + _text(3, matcher.value)
        query += _bytes(3, fields)
    return _bytes(1, query) + _number(2, _STREAMED_XOR_CHUNKS)


def parse(body: bytes, *, start_ms: int, end_ms: int) -> Matrix:
    """Parse the samples of a stream of ChunkedReadResponse.

    Raises:
        NotOffered: if a chunk has another encoding.
        TooManySamplesError: if there are more samples or chunks than fit into memory; no sample has been decoded.
        ValueError, IndexError: if the body is not such a stream, or is truncated.
    """
    labels: list[dict[str, str]] = []
    series: list[int] = []  # of each chunk
    offsets: list[int] = []
    ends: list[int] = []
    last = None
    for start, end in _frames(body):
        for field, at, upto in _fields(body, start, end):
            if field != 1:
                continue
            found, chunks, chunk_ends = _series(body, at, upto)
            if found != last:  # a long series continues in the next frame
                labels.append(dict(map(_label, found)))
                last = found
            series += [len(labels) - 1] * len(chunks)
            offsets += chunks
            ends += chunk_ends
            if len(labels) + len(offsets) > _MOST_CHUNKS:
                raise TooManySamplesError
    decoded = decode(body, np.array(offsets, dtype=np.int64), np.array(ends, dtype=np.int64), most_samples=MOST_SAMPLES)
    ts_ms, values = decoded.ts_ms, decoded.values
    of_sample = np.repeat(np.array(series, dtype=np.int64), decoded.lengths)
    inside = (ts_ms >= start_ms) & (ts_ms <= end_ms)  # some servers send complete chunks
    if not inside.all():
        of_sample, ts_ms, values = of_sample[inside], ts_ms[inside], values[inside]
    lengths = np.bincount(of_sample, minlength=len(labels)).astype(np.int64)
    ts_ms, values = _in_order(of_sample, ts_ms, values)
    return Matrix(labels, lengths, ts_ms * 1000, values)


def _in_order(of_sample: np.ndarray, ts_ms: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort the samples: chunks of the head may overlap those on disk; usually everything is already sorted."""
    ahead = (of_sample[1:] > of_sample[:-1]) | ((of_sample[1:] == of_sample[:-1]) & (ts_ms[1:] > ts_ms[:-1]))
    if ahead.all():
        return ts_ms, values
    order = np.lexsort((ts_ms, of_sample))
    return ts_ms[order], values[order]


def _frames(body: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(body):
        size, at = _uvarint(body, at)
        start, at = at + _FRAME_HEAD_BYTES, at + _FRAME_HEAD_BYTES + size
        if at > len(body):
            raise ValueError("the stream ends in the middle of a frame")
        yield start, at


def _series(body: bytes, start: int, end: int) -> tuple[tuple[bytes, ...], list[int], list[int]]:
    """Parse a series: (its encoded labels; start and end positions of its chunks' data)."""
    labels: list[bytes] = []
    chunks: list[int] = []
    ends: list[int] = []
    at = start
    while at < end - 1 and body[at] == _LABEL and body[at + 1] < 128 and at + 2 + body[at + 1] <= end:
        upto = at + 2 + body[at + 1]
        labels.append(body[at + 2 : upto])
        at = upto
    while at < end:
        if head := _XOR_CHUNK.match(body, at, end):
            upto, data = head.end("size") + _short(head["size"]), head.end()
            if data < upto == data + _short(head["length"]) <= end:
                chunks.append(data)
                ends.append(upto)
                at = upto
                continue
        field, first, at = next(_fields(body, at, end))
        if field == 1:
            labels.append(body[first:at])
        elif field == 2:
            data, upto = _chunk(body, first, at)
            chunks.append(data)
            ends.append(upto)
    return tuple(labels), chunks, ends


_LABEL = 0x0A  # head of field 1; labels come first, and few are longer than 127 bytes
# A chunk in Prometheus' format: size, earliest and latest time, encoding 1, length of its data. Nearly all fields of an answer belong
# to chunks; reading them one by one took a third of the time. Chunks in another format are still read field by field.
_XOR_CHUNK = re.compile(
    rb"\x12(?P<size>[\x80-\xff]?[\x00-\x7f])\x08[\x80-\xff]{0,9}[\x00-\x7f]\x10[\x80-\xff]{0,9}[\x00-\x7f]"
    rb"\x18\x01\x22(?P<length>[\x80-\xff]?[\x00-\x7f])",
    re.DOTALL,
)


def _short(varint: bytes) -> int:
    """Pattern of a varint of one or two bytes."""
    return varint[0] if len(varint) == 1 else varint[0] & 127 | varint[1] << 7


def _chunk(body: bytes, start: int, end: int) -> tuple[int, int]:
    """Start and end positions of a chunk's data."""
    encoding, data, upto = 0, -1, -1
    for number, first, last in _fields(body, start, end):
        if number == 3:
            encoding, _ = _uvarint(body, first)
        elif number == 4 and last > first:
            data, upto = first, last
    if encoding != _XOR or data < 0:
        raise NotOffered(f"a chunk of encoding {encoding}")
    return data, upto


@functools.lru_cache(maxsize=50_000)  # every range of a window has the same series
def _label(message: bytes) -> tuple[str, str]:
    pair = {number: message[first:last].decode() for number, first, last in _fields(message, 0, len(message))}
    return pair.get(1, ""), pair.get(2, "")


def _fields(body: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield (number, start, end) of each field of a message: the bytes of a string or message, or the varint of a number."""
    while at < end:
        key = body[at]
        at += 1
        if key > 127:
            key, at = _uvarint(body, at - 1)
        kind = key & 7
        if kind == 2:
            size = body[at]
            at += 1
            if size > 127:
                size, at = _uvarint(body, at - 1)
            upto = at + size
        elif kind == 0:
            upto = at + 1
            while body[upto - 1] > 127:
                upto += 1
                if upto > at + 10:
                    raise ValueError("a number has no end")
        else:
            raise ValueError(f"a field of kind {kind}")
        if upto > end:
            raise ValueError("a field runs over the end of its message")
        yield key >> 3, at, upto
        at = upto


def _uvarint(body: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = body[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
        if shift > 63:
            raise ValueError("a number has no end")


def _varint(number: int) -> bytes:
    out = bytearray()
    number &= (1 << 64) - 1
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode())
