"""Rules of asking HTTP servers, against servers that misbehave: no token leaves for another host, no answer is without a bound."""

from __future__ import annotations

import gzip
import io
import json
import socket
import ssl
import threading
import time
import tracemalloc
import zlib
from contextlib import suppress
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st
from urllib3.response import HTTPResponse

from evaluation.stories import WINDOW
from tests.servers import Script, scripted
from workbench.collect.one_prometheus import AskedPrometheus
from workbench.collect.samples_from_prometheus import PrometheusSource
from workbench.collect.scrape import fetch
from workbench.errors import SourceUnreachableError
from workbench.http_client import AnswerTooLargeError, RedirectRefusedError, WebSession, cause, read_body
from workbench.profiles import load_profile
from workbench.prometheus_settings import PrometheusAddress
from workbench.replay.service_fleet import FleetFile
from workbench.replay.service_fleet_kinds import make_fleet
from workbench.report.send_report import send

TOKEN = "not-for-others-4711"
HEADERS = {"X-Api-Key": TOKEN, "Authorization": f"Bearer {TOKEN}", "Cookie": TOKEN}


def session(**options: Any) -> WebSession:
    """A session with tokens in headers of several names."""
    return WebSession(**{"deadline_seconds": 5.0, "headers": HEADERS, **options})


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a test sets."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_no_redirect_leaves_the_origin(status: int, method: str) -> None:
    """The other server is never asked, whatever the header of the token is called."""
    with scripted(Script()) as other, scripted(Script(status=status, headers={"Location": other.url})) as server:
        if method == "GET" or status in (307, 308):
            with pytest.raises(RedirectRefusedError):
                session().request(method, server.url)
        else:
            assert session().request(method, server.url).status_code == status
    assert other.requests == []


def test_no_request_follows_a_redirect_to_another_origin(tmp_path: Path) -> None:
    """Prometheus (by both ways), a metrics page, the chat's webhook, a fleet: each stays with the server it was given."""
    with scripted(Script()) as other, scripted(Script(status=307, headers={"Location": other.url})) as server:
        source = PrometheusSource(
            addresses=[PrometheusAddress(url=server.url, headers=HEADERS)],
            cluster="c",
            profiles=[load_profile("runtime")],
        )
        with pytest.raises(SourceUnreachableError):
            source.collect(WINDOW)
        assert fetch(server.url, timeout_seconds=5).error is not None
        with pytest.raises(SourceUnreachableError):
            send(server.url, {}, what="webhook", token=TOKEN, sleep=lambda _seconds: None)
        fleet = make_fleet(FleetFile(kind="http", instances=[server.url], token=TOKEN))
        with pytest.raises(SourceUnreachableError):
            fleet.status(server.url)
    assert server.requests
    assert other.requests == []


def test_a_redirect_within_the_origin_is_followed() -> None:
    """A server may move its pages about; for ever it may not."""
    with (
        scripted(Script(status=302, headers={"Location": "/elsewhere"})) as server,
        pytest.raises(requests.TooManyRedirects),
    ):
        session().get(server.url + "/here", params={"q": "1"})
    assert [path for path, _, _ in server.requests][:2] == ["/here", "/elsewhere"]


@pytest.mark.parametrize("given_by", ["header", "session", "nobody"])
def test_netrc_overrides_nothing(given_by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the settings say is sent, and what they do not say is not."""
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n", encoding="utf-8")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with scripted(Script()) as server:
        if given_by == "header":
            WebSession(deadline_seconds=5.0).get(server.url, headers={"authorization": "Bearer mine"})
        else:
            own = {"Authorization": "Bearer mine"} if given_by == "session" else {}
            WebSession(deadline_seconds=5.0, headers=own).get(server.url)
    [(_, _, headers)] = server.requests
    sent = {name.lower(): value for name, value in headers.items()}
    assert sent.get("authorization") == (None if given_by == "nobody" else "Bearer mine")


def test_a_password_in_the_url_is_sent_unless_a_header_is_configured() -> None:
    """The one is the settings' as well as the other; the header is the more explicit."""
    with scripted(Script()) as server:
        url = server.url.replace("http://", "http://user:pass@")
        WebSession(deadline_seconds=5.0).get(url)
        session().get(url)
    assert [headers["Authorization"] for _, _, headers in server.requests] == ["Basic dXNlcjpwYXNz", f"Bearer {TOKEN}"]


def test_the_environments_proxy_is_asked_but_for_whom_it_excepts(monkeypatch: pytest.MonkeyPatch) -> None:
    """`NO_PROXY` holds, this computer is never asked by proxy, and a fleet's token goes by none."""
    with scripted(Script(body=b"from the proxy")) as proxy, scripted(Script(body=b"direct")) as server:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert session().get("http://prometheus.example:9090/x").content == b"from the proxy"
        assert session().get(server.url).content == b"direct"
        asked = len(proxy.requests)
        monkeypatch.setenv("no_proxy", "prometheus.example")
        with pytest.raises(requests.ConnectionError):
            session().get("http://prometheus.example:9090/x")
        with pytest.raises(requests.ConnectionError):
            session(by_proxy=False).get("http://other.example:9090/x")
        assert len(proxy.requests) == asked


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_small_answer_that_grows_is_refused_while_it_streams(encoding: str) -> None:
    """900 kB that become 200 MB: neither a page nor a Prometheus makes us hold them."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31 if encoding == "gzip" else 15)
    bomb = b"".join(packer.compress(b" " * (1 << 20)) for _ in range(200)) + packer.flush()
    assert len(bomb) < 1_000_000
    with scripted(Script(body=bomb, headers={"Content-Encoding": encoding})) as server:
        tracemalloc.start()
        try:
            with pytest.raises(AnswerTooLargeError):
                session().get(server.url)
            assert fetch(server.url, timeout_seconds=20).error is not None
            source = PrometheusSource(
                addresses=[PrometheusAddress(url=server.url)], cluster="c", profiles=[load_profile("runtime")]
            )
            with pytest.raises(SourceUnreachableError):
                source.collect(WINDOW)
            assert tracemalloc.get_traced_memory()[1] < 100 << 20
        finally:
            tracemalloc.stop()


def test_an_answer_over_its_bound_is_refused() -> None:
    """Counted in bytes after decompression, also where nothing is compressed."""
    with scripted(Script(body=b"x" * 2000)) as server:
        assert len(session(max_bytes=2000).get(server.url).content) == 2000
        with pytest.raises(AnswerTooLargeError):
            session(max_bytes=1999).get(server.url)


def test_a_trickle_has_a_deadline() -> None:
    """Also within a compressed answer, of which single bytes come in time."""
    body = gzip.compress(json.dumps(list(range(500))).encode())
    with scripted(Script(body=body, trickle_seconds=0.05, headers={"Content-Encoding": "gzip"})) as server:
        began = time.monotonic()
        with pytest.raises(requests.Timeout):
            session(deadline_seconds=0.5).get(server.url)
        assert time.monotonic() - began < 10


def test_headers_that_trickle_have_a_deadline() -> None:
    """A server that sends a byte of a header now and then would hold us for ever; a slow page is not told as broken."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                taken, _ = listening.accept()
                with taken:
                    taken.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                    while True:
                        taken.sendall(b"x")
                        time.sleep(0.05)

        threading.Thread(target=serve, daemon=True).start()
        began = time.monotonic()
        with pytest.raises(requests.Timeout):
            session(deadline_seconds=0.5).get(f"http://127.0.0.1:{listening.getsockname()[1]}/")
        assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("br", b"x"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"x"))),
        ("gzip", b"no gzip"),
        ("gzip", gzip.compress(b"x" * 99)[:-9]),
    ],
)
def test_a_damaged_or_unknown_compression_is_an_error(encoding: str, body: bytes) -> None:
    """Never half an answer, never one that is read as text."""
    with (
        scripted(Script(body=body, headers={"Content-Encoding": encoding})) as server,
        pytest.raises(requests.RequestException),
    ):
        session().get(server.url)


@given(parts=st.lists(st.binary(max_size=300), max_size=4), encoding=st.sampled_from(["gzip", "deflate", "identity"]))
@settings(deadline=None)
def test_what_is_read_is_what_was_sent(parts: list[bytes], encoding: str) -> None:
    """Byte for byte, also of several gzip members in one answer."""
    plain = b"".join(parts)
    sent = {"gzip": b"".join(map(gzip.compress, parts)), "deflate": zlib.compress(plain), "identity": plain}[encoding]
    response = requests.Response()
    response.headers["Content-Encoding"] = encoding
    response.raw = HTTPResponse(io.BytesIO(sent), headers={}, preload_content=False)
    assert read_body(response, deadline=time.monotonic() + 60) == plain


BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def test_tls_is_checked_against_the_environments_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A company's authority is where requests looks, or Python itself; else it is refused, with what to do."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(7)
    made = made.not_valid_before(datetime(2020, 1, 1, tzinfo=UTC)).not_valid_after(datetime(2090, 1, 1, tzinfo=UTC))
    made = made.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
    certificate = made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    pem, bundle = tmp_path / "server.pem", tmp_path / "bundle.pem"
    pem.write_bytes(certificate + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    bundle.write_bytes(certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    plain, _ = listening.accept()
                    with suppress(OSError), context.wrap_socket(plain, server_side=True) as taken:
                        taken.recv(4096)
                        taken.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nsafe")

        threading.Thread(target=serve, daemon=True).start()
        url = f"https://127.0.0.1:{listening.getsockname()[1]}/"
        for variable in (*BUNDLES, "SSL_CERT_FILE"):
            monkeypatch.delenv(variable, raising=False)
        with pytest.raises(requests.exceptions.SSLError):
            session().get(url)
        with pytest.raises(SourceUnreachableError) as untrusted:
            AskedPrometheus(url=url, name="p").names()
        assert "SSL_CERT_FILE" in (untrusted.value.hint or "")
        for variable in (*BUNDLES, "SSL_CERT_FILE"):
            with monkeypatch.context() as environment:
                environment.setenv(variable, str(bundle))
                assert session().get(url).content == b"safe", variable


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            requests.ConnectionError("HTTPConnectionPool(host='h'): [Errno 111] Connection refused"),
            "connection refused",
        ),
        (requests.ConnectionError("[Errno -2] Name or service not known"), "name or service not known"),
        (requests.exceptions.SSLError("[SSL: WRONG_VERSION_NUMBER]"), "no TLS there (http instead of https?)"),
        (requests.exceptions.ReadTimeout("http://user:secret@h/"), "no answer in time"),
        (requests.exceptions.ChunkedEncodingError("http://user:secret@h/"), "chunked encoding"),
        (requests.ConnectionError("the answer breaks off (IncompleteRead)"), "the answer breaks off"),
    ],
)
def test_the_cause_of_a_failure_is_in_words(error: Exception, said: str) -> None:
    """No name of a class, no URL, which may hold a password."""
    assert cause(error) == said
    answer = requests.Response()
    answer.status_code = 404
    assert cause(requests.HTTPError("404 for http://user:secret@h/", response=answer)) == "it answers with status 404"
