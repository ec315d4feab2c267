"""What a peer may make the server hold: connections, bodies, answers, handshakes. Real sockets on loopback, few and short."""

from __future__ import annotations

import logging
import resource
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import requests

from tests.certificates import certificate
from tests.serve.serving import TOKEN, Office, Running, alert, running, webhook
from workbench.serve import connection_limits, limited_peer_warnings, request_limits
from workbench.serve.connection_limits import ACCEPTED_AT_ONCE, Connections, Stage, crowd_of, most_connections
from workbench.serve.pages import STATIC
from workbench.serve.server import Options

BEARER = {"Authorization": f"Bearer {TOKEN}"}
MOST = 8


@pytest.fixture
def office(tmp_path: Path) -> Office:
    """The worker behind the server."""
    return Office(tmp_path)


@pytest.fixture
def server(office: Office) -> Iterator[Running]:
    """A server with room for a few."""
    with running(office, threads=False, most=MOST) as found:
        yield found


def opened(server: Running, *, source: str = "127.0.0.1") -> socket.socket:
    """A connection that says nothing yet."""
    return socket.create_connection(("127.0.0.1", server.port), 10, (source, 0))


def is_closed(raw: socket.socket, seconds: float = 10.0) -> bool:
    """Whether the server ends a connection; what it still says is read."""
    raw.settimeout(seconds)
    try:
        while raw.recv(65_536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def takes_alerts(server: Running) -> bool:
    """Whether somebody with a token gets in."""
    answer = requests.post(f"{server.url}/alerts", webhook(alert()), headers=BEARER, timeout=10)
    return answer.status_code == 200


def head(path: str, *lines: str, method: str = "POST") -> bytes:
    """The headers of a request."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *lines, "", ""]).encode()


def test_a_body_is_not_read_before_its_sender_is_known(server: Running) -> None:
    """Without a token, 4 MiB that are announced are refused at once: nothing of them has to come."""
    with opened(server) as raw:
        raw.sendall(head("/alerts", "Content-Length: 4194304"))
        assert raw.recv(200).startswith(b"HTTP/1.1 401")
    with opened(server) as raw:
        raw.sendall(head("/alerts", "Transfer-Encoding: chunked"))
        assert raw.recv(200).startswith(b"HTTP/1.1 401")


def test_who_asks_before_the_body_comes_is_answered_at_once(server: Running) -> None:
    """Refused, the connection ends: nobody knows whether what comes next is the body. With a token, the body is asked for."""
    body = webhook(alert()).encode()
    lines = ["Expect: 100-continue", f"Content-Length: {len(body)}"]
    with opened(server) as raw:
        raw.sendall(head("/alerts", *lines))
        assert raw.recv(200).startswith(b"HTTP/1.1 401")
        assert is_closed(raw)
    with opened(server) as raw:
        raw.sendall(head("/alerts", f"Authorization: Bearer {TOKEN}", *lines))
        assert raw.recv(200).startswith(b"HTTP/1.1 100")
        raw.sendall(body)
        assert raw.recv(200).startswith(b"HTTP/1.1 200")


def test_anybody_may_send_a_small_form_only(server: Running) -> None:
    """The form for the token is the only body that is read of somebody unknown."""
    for lines in (["Content-Length: 65537"], ["Transfer-Encoding: chunked"]):
        with opened(server) as raw:
            raw.sendall(head("/sign-in", *lines))
            if "chunked" in lines[0]:
                for _ in range(3):
                    raw.sendall(b"8000\r\n" + b"x" * 0x8000 + b"\r\n")
            assert raw.recv(200).startswith(b"HTTP/1.1 413")


def test_an_endless_body_ends(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """In chunks and without a token: it is answered, and what comes of it is thrown away for a while."""
    monkeypatch.setattr(request_limits, "HEADER_SECONDS", 0.5)
    with opened(server) as raw:
        raw.sendall(head("/alerts", "Transfer-Encoding: chunked"))
        until = time.monotonic() + 10
        with pytest.raises(OSError):
            while time.monotonic() < until:
                raw.sendall(b"1000\r\n" + b"x" * 0x1000 + b"\r\n")
                time.sleep(0.02)
            pytest.fail("it is still read")


def test_a_trickle_ends_with_a_good_token_too(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then does not keep a connection."""
    monkeypatch.setattr(request_limits, "BODY_SECONDS", 0.5)
    with opened(server) as raw:
        raw.sendall(head("/alerts", f"Authorization: Bearer {TOKEN}", "Content-Length: 1000"))
        until = time.monotonic() + 10
        with suppress(OSError):
            while time.monotonic() < until and raw.send(b" "):
                time.sleep(0.1)
        assert time.monotonic() < until
    assert server.store.number("SELECT count(*) FROM alert") == 0


def test_a_body_that_breaks_off_is_no_message(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    """Half of a message that would be valid is not kept, and it is no fault of ours."""
    body = webhook(alert()).encode()
    with opened(server) as raw:
        raw.sendall(head("/alerts", f"Authorization: Bearer {TOKEN}", "Transfer-Encoding: chunked"))
        raw.sendall(f"{len(body):x}\r\n".encode() + body + b"\r\n")
    time.sleep(0.2)
    assert server.store.number("SELECT count(*) FROM alert") == 0
    assert "500" not in caplog.text and "Exception" not in caplog.text


@pytest.mark.parametrize("spread", [False, True])
def test_idle_connections_make_room(server: Running, spread: bool) -> None:
    """Of one address, or of many: the oldest go, and whoever has something to say is heard."""
    with ExitStack() as stack:
        idle = [
            stack.enter_context(opened(server, source=f"127.0.0.{2 + number if spread else 1}")) for number in range(40)
        ]
        assert takes_alerts(server)
        assert len(server.connections) <= MOST
        assert is_closed(idle[0], 5)
        assert not is_closed(idle[-1], 0.2)


def test_the_peer_with_the_most_connections_makes_room(server: Running) -> None:
    """One idle connection of somebody else is left alone."""
    with ExitStack() as stack:
        other = stack.enter_context(opened(server, source="127.0.0.9"))
        for _ in range(3 * MOST):
            stack.enter_context(opened(server))
        assert not is_closed(other, 0.2)
        other.sendall(head("/metrics", method="GET"))
        assert other.recv(50).startswith(b"HTTP/1.1 200")


def test_a_request_with_a_token_is_never_the_one_that_goes(server: Running) -> None:
    """It is under way while others knock; without a token it would go."""
    body = webhook(alert()).encode()
    with ExitStack() as stack:
        good = stack.enter_context(opened(server))
        good.sendall(head("/alerts", f"Authorization: Bearer {TOKEN}", f"Content-Length: {len(body)}") + body[:10])
        unknown = stack.enter_context(opened(server))
        unknown.sendall(head("/sign-in", "Content-Length: 100"))
        time.sleep(0.2)
        for _ in range(3 * MOST):
            it = stack.enter_context(opened(server))
            it.sendall(head("/sign-in", "Content-Length: 100"))
            time.sleep(0.01)
        assert is_closed(unknown, 5)
        good.sendall(body[10:])
        assert good.recv(50).startswith(b"HTTP/1.1 200")


def test_a_full_house_of_trusted_requests_refuses_the_next() -> None:
    """Nothing else is left to close."""
    house = Connections(2)
    for number in (5, 6):
        entered = house.enter(number, "10.0.0.1", cut=pytest.fail)
        assert entered is not None
        entered.stage = lambda: Stage.TRUSTED
    assert house.enter(7, "10.0.0.2", cut=pytest.fail) is None
    house.leave(entered)
    assert house.enter(7, "10.0.0.2", cut=pytest.fail) is not None


def test_those_that_were_cut_are_counted_until_they_are_closed() -> None:
    """Descriptors are bounded even while nothing is closed yet."""
    house = Connections(2)
    entered = [house.enter(number, "10.0.0.1", cut=lambda: None) for number in range(500)]
    assert sum(it is not None for it in entered) <= 2 + ACCEPTED_AT_ONCE


def test_who_does_not_read_is_cut_off(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests in a row, and no answer is read; others are served meanwhile."""
    monkeypatch.setattr(request_limits, "STALL_SECONDS", 0.5)
    request = head("/static/serve.css", method="GET") * ANSWERS
    with ExitStack() as stack:
        stuck = []
        for _ in range(MOST - 2):
            raw = stack.enter_context(socket.socket())
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            raw.settimeout(0.2)
            raw.connect(("127.0.0.1", server.port))
            with suppress(TimeoutError):
                raw.sendall(request)
            stuck.append(raw)
        assert takes_alerts(server)
        until = time.monotonic() + 20
        while len(server.connections) > 1 and time.monotonic() < until:
            time.sleep(0.1)
        assert len(server.connections) <= 1


ANSWERS = 800  # of 10 kB: more than the kernel buffers, and read slowly within the time for a whole answer


def test_who_reads_slowly_gets_the_whole_answer(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as something is taken; only the time for the whole answer ends it."""
    monkeypatch.setattr(request_limits, "STALL_SECONDS", 1.5)  # a busy machine may forget a process for a second

    def read() -> int:
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
            raw.connect(("127.0.0.1", server.port))
            raw.settimeout(10)
            # The same answer so often that it does not fit into the kernel's buffers.
            raw.sendall(
                head("/static/serve.css", method="GET") * ANSWERS + head("/healthz", "Connection: close", method="GET")
            )
            size, began = 0, time.monotonic()
            with suppress(OSError):
                while part := raw.recv(65_536):
                    size += len(part)
                    if time.monotonic() - began < 4.0:
                        time.sleep(0.002)
            return size

    whole = read()
    assert whole > ANSWERS * len(STATIC["serve.css"][1]())
    monkeypatch.setattr(request_limits, "ANSWER_SECONDS", 0.0)
    monkeypatch.setattr(request_limits, "STALL_SECONDS", 0.0)
    assert read() < whole


def test_a_flood_of_headers_is_refused(server: Running) -> None:
    """Before they fill the memory."""
    with opened(server) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\n")
        with suppress(OSError):
            for number in range(20_000):
                raw.sendall(f"X-{number}: {'y' * 50}\r\n".encode())
        assert is_closed(raw)
    assert takes_alerts(server)


def test_a_handshake_that_is_not_done_ends_and_makes_room(
    office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With TLS a connection says nothing to the application before its handshake; it counts all the same."""
    certificate(tmp_path, "server")
    pair = Options(certificate=tmp_path / "server.pem", key=tmp_path / "server.key")
    trusted = str(tmp_path / "server.pem")
    with running(office, threads=False, most=MOST, options=pair) as server, ExitStack() as stack:
        half = [stack.enter_context(opened(server)) for _ in range(3 * MOST)]
        for raw in half[::2]:
            with suppress(OSError):
                raw.sendall(b"\x16\x03\x01")  # the beginning of a handshake
        answer = requests.get(f"{server.url}/metrics", timeout=10, verify=trusted, headers={"Connection": "close"})
        assert answer.status_code == 200
        assert len(server.connections) <= MOST
        assert is_closed(half[0], 5)
        monkeypatch.setattr(connection_limits, "HANDSHAKE_SECONDS", 0.3)
        for _ in range(2):
            assert is_closed(stack.enter_context(opened(server)), 5)
        monkeypatch.setattr(request_limits, "STALL_SECONDS", 0.3)
        context = ssl.create_default_context(cafile=trusted)
        with context.wrap_socket(opened(server), server_hostname="127.0.0.1") as raw:
            raw.settimeout(0.5)
            with suppress(TimeoutError):
                raw.sendall(head("/static/serve.css", method="GET") * 2000)
            time.sleep(1.5)  # it reads nothing
            assert is_closed(raw)


def test_peers_are_told_apart() -> None:
    """By address; those of IPv6 by their network, of which a peer has all."""
    assert crowd_of("2001:db8::1") == crowd_of("2001:db8::ffff:2") != crowd_of("2001:db8:0:1::1")
    assert crowd_of("::ffff:10.0.0.1") == crowd_of("10.0.0.1") != crowd_of("10.0.0.2")
    assert crowd_of("fe80::1%eth0") == crowd_of("fe80::2%eth0")
    assert crowd_of("?") == "?"


@pytest.mark.parametrize(("soft", "most"), [(resource.RLIM_INFINITY, 200), (65_536, 200), (300, 36), (64, 8)])
def test_there_are_never_more_than_the_descriptors_allow(monkeypatch: pytest.MonkeyPatch, soft: int, most: int) -> None:
    """Files, the database and triages need some beside the connections."""
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (soft, soft))
    assert most_connections() == most


def test_warnings_about_peers_do_not_fill_the_disk(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some for each kind and minute, then their number."""
    now = [1000.0]
    monkeypatch.setattr(limited_peer_warnings.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(limited_peer_warnings, "_said", {})
    log = logging.getLogger("workbench.serve.test")
    for number in range(1000):
        limited_peer_warnings.warn(log, "seen %d", number)
    limited_peer_warnings.warn(log, "something else")
    assert len(caplog.records) == 31
    now[0] += 61
    limited_peer_warnings.warn(log, "seen %d", 1000)
    assert [it.getMessage() for it in caplog.records[31:]] == [
        "970 more like the next one are not in this log",
        "seen 1000",
    ]
