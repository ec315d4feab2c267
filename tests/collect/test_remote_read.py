"""Rules of remote read: chunks decode bit for bit, a broken or foreign answer is never half taken, and a real Prometheus agrees."""

from __future__ import annotations

import math
import socket
import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import requests
import urllib3
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chunks import Sample, answer, bits_of, encode
from tests.servers import Script, scripted
from workbench.collect import remote_read
from workbench.collect.matrix_parser import EMPTY, parse_answer
from workbench.collect.remote_read import NotOffered, fetch, parse, read_request
from workbench.collect.selectors import LabelMatcher, MatcherType
from workbench.collect.xor_chunks import decode
from workbench.http_client import AnswerTooLargeError

values = st.one_of(
    st.integers(0, 100).map(float),
    st.floats(allow_nan=False),
    st.sampled_from([math.inf, -math.inf, -0.0, 5e-324]),
).map(bits_of) | st.just(0x7FF0000000000002)  # the staleness marker
steps = st.one_of(st.sampled_from([15_000, 15_001, 30_000]), st.integers(1, 10**9), st.just(2**40))
series = st.tuples(st.integers(-(10**6), 2 * 10**12), st.lists(st.tuples(steps, values), min_size=1, max_size=40)).map(
    lambda it: [(it[0] + sum(step for step, _ in it[1][: n + 1]), value) for n, (_, value) in enumerate(it[1])]
)


@settings(max_examples=150)
@given(st.lists(series, max_size=6), st.integers(0, 9))
def test_all_chunks_decode_bit_for_bit(chunks: list[list[Sample]], gap: int) -> None:
    """Whatever the values, the steps and what lies between the chunks."""
    data, offsets = b"", []
    for chunk in chunks:
        data += b"\xff" * gap
        offsets.append(len(data))
        data += encode(chunk)
    found = decode(data, np.array(offsets, dtype=np.int64))
    assert found.lengths.tolist() == [len(chunk) for chunk in chunks]
    assert found.ts_ms.tolist() == [ts for chunk in chunks for ts, _ in chunk]
    assert found.values.view(np.uint64).tolist() == [value for chunk in chunks for _, value in chunk]


A, B = {"__name__": "lag", "topic": 'o"\n'}, {"__name__": "lag", "topic": "é"}
ONE = encode([(1000, bits_of(1.0)), (2000, bits_of(2.0))])
TWO = encode([(3000, bits_of(3.0)), (4000, bits_of(math.nan))])
LONG = encode([(5000 + number, bits_of(math.pi * number)) for number in range(100)])  # its length takes two bytes
PARTS = (A, [ONE], 1), (A, [TWO], 1), (B, [ONE, TWO, LONG], 1)
GOOD = answer(*PARTS)
AS_SENT = answer(*PARTS, times=(1_795_212_000_000, 1_795_212_030_000))  # as Prometheus writes it


def test_a_series_goes_on_in_the_next_frame_and_only_the_window_counts() -> None:
    """Chunks come whole; labels may hold anything."""
    found = parse(GOOD, start_ms=2000, end_ms=3500)
    assert list(found.labels) == [A, B]
    assert found.lengths.tolist() == [2, 2]
    assert found.ts_us.tolist() == [2_000_000, 3_000_000] * 2
    assert found.values.tolist() == [2.0, 3.0] * 2
    assert len(parse(b"", start_ms=0, end_ms=1)) == 0


@pytest.mark.parametrize("size", [100, 119, 120, 127, 128, 300, 20_000])
def test_a_label_may_be_of_any_length(size: int) -> None:
    """The length of a label takes one byte, or two or three."""
    labels = {"__name__": "lag", "a": "é" * (size // 2), "b": "x" * size, "": "", "c": "1"}
    found = parse(answer((labels, [ONE], 1), (A, [TWO], 1)), start_ms=0, end_ms=10_000)
    assert list(found.labels) == [labels, A]
    assert found.lengths.tolist() == [2, 2]


def test_chunks_out_of_order_are_put_in_order() -> None:
    """The head of the database may overlap what is on disk."""
    found = parse(answer((A, [TWO, ONE], 1)), start_ms=0, end_ms=10_000)
    assert found.ts_us.tolist() == [1_000_000, 2_000_000, 3_000_000, 4_000_000]


def test_a_histogram_is_not_offered() -> None:
    """Chunks of another encoding would be read as nonsense."""
    with pytest.raises(NotOffered, match="encoding 2"):
        parse(answer((A, [ONE], 2)), start_ms=0, end_ms=1)


@pytest.mark.parametrize("times", [(), (0, 0), (1_795_212_000_000, 1_795_212_030_000), (-(2**63), 2**63 - 1)])
def test_however_a_chunk_is_written_its_samples_are_the_same(times: tuple[int, ...]) -> None:
    """Fields may be left out or be long; what Prometheus sends is read at one go, the rest field by field."""
    found, plain = (parse(body, start_ms=0, end_ms=10_000) for body in (answer(*PARTS, times=times), GOOD))
    assert len(found.values) == 108
    assert found.ts_us.tolist() == plain.ts_us.tolist()
    assert found.values.view(np.uint64).tolist() == plain.values.view(np.uint64).tolist()
    assert list(found.labels) == list(plain.labels)


def test_a_histogram_as_prometheus_sends_it_is_not_offered_either() -> None:
    """Nor is a chunk whose data and size do not agree read."""
    with pytest.raises(NotOffered, match="encoding 2"):
        parse(answer((A, [LONG], 2), times=(1, 2)), start_ms=0, end_ms=1)
    body = answer((A, [LONG], 1), times=(1, 2))
    length = remote_read._varint(len(LONG))
    assert body.count(b"\x22" + length) == 1
    for lie in (len(LONG) + 1, len(LONG) * 2):
        with pytest.raises((ValueError, IndexError)):
            parse(body.replace(b"\x22" + length, b"\x22" + remote_read._varint(lie)), start_ms=0, end_ms=10_000)


@pytest.mark.parametrize("body", [GOOD, AS_SENT], ids=["plain", "as_sent"])
def test_a_stream_that_ends_early_is_never_half_taken(body: bytes) -> None:
    """Any cut inside of a frame is noticed; between two frames the server would have to lie about the length of its answer."""
    ends = [end for _, end in remote_read._frames(body)]
    assert ends[-1] == len(body)
    for cut in range(1, len(body)):
        if cut in ends:
            assert len(parse(body[:cut], start_ms=0, end_ms=10_000).ts_us) < 108
            continue
        with pytest.raises((ValueError, IndexError)):
            parse(body[:cut], start_ms=0, end_ms=10_000)


def test_a_server_that_dies_between_two_frames_is_an_error() -> None:
    """A stream has no length; the last piece of HTTP's own framing is what is missing then."""
    frame = answer((A, [ONE], 1))
    head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-streamed-protobuf\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(head.encode() + f"{len(frame):x}\r\n".encode() + frame + b"\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises((NotOffered, requests.RequestException, urllib3.exceptions.HTTPError)):
            fetch(requests.Session(), url, [], start_ms=0, end_ms=10_000, timeout_seconds=10)
        thread.join(10)


flipped = st.tuples(st.integers(0, len(AS_SENT) - 1), st.integers(1, 255)).map(
    lambda it: AS_SENT[: it[0]] + bytes([AS_SENT[it[0]] ^ it[1]]) + AS_SENT[it[0] + 1 :]
)


@settings(max_examples=400)
@given(st.binary(max_size=200) | flipped)
def test_hostile_bytes_are_refused_or_read_and_never_crash(body: bytes) -> None:
    """Every kind of trouble turns into the other way; what is read adds up."""
    try:
        found = remote_read.read_answer(body, start_ms=0, end_ms=10_000)
    except NotOffered:
        return
    assert int(found.lengths.sum()) == len(found.ts_us) == len(found.values)


@pytest.mark.parametrize(
    ("status", "kind"), [(404, "text/plain"), (400, "text/plain"), (200, "application/x-protobuf"), (200, "text/html")]
)
def test_what_does_not_offer_chunks_is_left(status: int, kind: str) -> None:
    """A managed service, an old server, a login page."""
    with (
        scripted(Script(status=status, body=GOOD, headers={"Content-Type": kind})) as server,
        pytest.raises(NotOffered),
    ):
        fetch(requests.Session(), server.url, [], start_ms=0, end_ms=1, timeout_seconds=5)


@pytest.mark.lab
def test_a_real_prometheus_gives_the_same_by_both_ways(prometheus_url: str) -> None:
    """Every series of a minute, bit for bit, but for the staleness markers that only chunks carry."""
    session = requests.Session()
    matchers = [LabelMatcher(MatcherType.REGEX, "__name__", ".+")]
    plain = EMPTY
    deadline = time.monotonic() + 30
    while len(plain) < 5 and time.monotonic() < deadline:  # Prometheus itself makes as many for each target
        time.sleep(2)
        end_ms = (int(time.time()) - 3) * 1000  # what is scraped now is added later, with the time of now
        query: dict[str, Any] = {"query": '{__name__=~".+"}[60s]', "time": end_ms / 1000}
        body = session.get(f"{prometheus_url}/api/v1/query", params=query, timeout=30).content
        plain = parse_answer(body).matrix
    chunks = fetch(session, prometheus_url, matchers, start_ms=end_ms - 59_999, end_ms=end_ms, timeout_seconds=30)
    theirs = {tuple(sorted(labels.items())): (ts, value) for labels, ts, value in plain.series()}
    ours = {tuple(sorted(labels.items())): (ts, value) for labels, ts, value in chunks.series() if len(ts)}
    assert set(theirs) <= set(ours)
    assert len(theirs) >= 5
    for labels, (ts, value) in theirs.items():
        true = ours[labels][1].view(np.uint64) != 0x7FF0000000000002
        assert ours[labels][0][true].tolist() == ts.tolist()
        assert ours[labels][1][true].view(np.uint64).tolist() == value.view(np.uint64).tolist()


def test_the_request_is_what_prometheus_expects() -> None:
    """Field by field; negative instants take ten bytes, and snappy gives it back."""
    request = read_request([LabelMatcher(MatcherType.REGEX, "a", "b|c")], start_ms=-1, end_ms=5)
    assert request == bytes.fromhex(
        "0a 19 08ffffffffffffffffff01 10 05 1a 0a 08 02 12 01 61 1a 03 62 7c 63 10 01".replace(" ", "")
    )
    packed = pa.compress(request, codec="snappy", asbytes=True)
    assert pa.decompress(packed, decompressed_size=len(request), codec="snappy", asbytes=True) == request


def test_too_many_samples_are_refused_before_they_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample takes two bits in a chunk; no other way is tried, as JSON would be larger."""
    body = answer(({"__name__": "m"}, [encode([(1000 * n, 5) for n in range(120)])] * 3, 1))
    monkeypatch.setattr(remote_read, "MOST_SAMPLES", 359)
    monkeypatch.setattr("workbench.collect.xor_chunks._Chunks", None)
    with pytest.raises(AnswerTooLargeError, match="over 359 samples"):
        remote_read.read_answer(body, start_ms=0, end_ms=1 << 40)
    monkeypatch.undo()
    monkeypatch.setattr(remote_read, "_MOST_CHUNKS", 3)
    with pytest.raises(AnswerTooLargeError):
        remote_read.read_answer(body, start_ms=0, end_ms=1 << 40)
