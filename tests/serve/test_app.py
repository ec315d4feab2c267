"""The doors of the server: who may enter, what is refused, and that it survives all of it."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.reference.valid import valid
from tests.serve.serving import HOSTILE, TOKEN, Office, Running, alert, judged, running, webhook
from tests.waiting import wait_for
from workbench.serve import fleet_verdicts, request_limits
from workbench.serve.access import VISIT_SECONDS, Access
from workbench.serve.server_database import Database, StoreError
from workbench.serve.sqlite import FileStore

BEARER = {"Authorization": f"Bearer {TOKEN}"}
PAGES = (
    "/",
    "/incidents",
    "/incidents/x",
    "/group?cluster=prod&group=payments",
    "/audits",
    "/audit?audit=orders&stream=payments",
    "/reports",
    "/reports/x",
    "/runbooks/SlowProcessor.md",
)
PROGRAMS = ("/api/incidents", "/api/incidents/x", "/api/fleet")


@pytest.fixture
def office(tmp_path: Path) -> Office:
    """The worker behind the server."""
    return Office(tmp_path)


@pytest.fixture
def server(office: Office) -> Iterator[Running]:
    """A server whose worker stands still."""
    with running(office, threads=False) as found:
        yield found


def signed_in(server: Running) -> requests.Session:
    """A visit."""
    session = requests.Session()
    answer = session.post(f"{server.url}/sign-in", data={"token": TOKEN}, timeout=10, allow_redirects=False)
    assert answer.status_code == 303
    return session


def test_nothing_is_shown_or_taken_without_a_token(server: Running) -> None:
    """No token, a wrong one, one in the wrong place: programs get 401, people the form."""
    for headers in ({}, {"Authorization": "Bearer wrong-token-of-some-length"}, {"Authorization": f"Basic {TOKEN}"}):
        assert requests.post(f"{server.url}/alerts", webhook(alert()), headers=headers, timeout=10).status_code == 401
        for path in PROGRAMS:
            assert requests.get(server.url + path, headers=headers, timeout=10).status_code == 401
        for path in PAGES:
            answer = requests.get(server.url + path, headers=headers, timeout=10, allow_redirects=False)
            assert (answer.status_code, answer.headers["location"][:9]) == (303, "/sign-in?")
    assert requests.get(f"{server.url}/api/fleet?token={TOKEN}", timeout=10).status_code == 401
    assert server.store.number("SELECT count(*) FROM alert") == 0


def test_an_alert_is_on_the_disk_when_it_is_acknowledged(server: Running) -> None:
    """And counted."""
    answer = requests.post(f"{server.url}/alerts", webhook(alert(), alert("b")), headers=BEARER, timeout=10)
    assert (answer.status_code, answer.json()) == (200, {"accepted": {"new": 2, "known": 0, "resolved": 0}})
    assert server.store.number("SELECT count(*) FROM alert WHERE state = 'waiting'") == 2
    page = requests.get(f"{server.url}/metrics", timeout=10).text
    assert "workbench_serve_alerts_waiting 2.0" in page
    assert "payments" not in page


NO_WEBHOOKS = (b"", b"[]", b"{", b'{"alerts": []}', b"\xff\xfe", b"[" * 100_000, b'{"alerts": [{"startsAt": "never"}]}')


@pytest.mark.parametrize("body", NO_WEBHOOKS)
def test_what_is_no_webhook_is_refused(server: Running, body: bytes) -> None:
    """With a reason, and nothing kept."""
    answer = requests.post(f"{server.url}/alerts", body, headers=BEARER, timeout=10)
    assert answer.status_code == 400
    assert answer.json()["error"]
    assert server.store.number("SELECT count(*) FROM alert") == 0


def test_a_token_and_a_visit_end(server: Running, office: Office, tmp_path: Path) -> None:
    """A visit after 12 hours, and with its token; a token of the file at its time, without a restart."""
    path = tmp_path / "tokens"
    path.write_text("# ours\nanother-token-of-the-team 2027-01-01T00:00:00Z\n")
    access = Access(office.store, path, environment={})
    cookie = access.sign_in("another-token-of-the-team")
    assert access.visit(cookie) is not None
    office.clock.now += VISIT_SECONDS + 1
    assert access.visit(cookie) is None
    fresh = access.sign_in("another-token-of-the-team")
    assert access.visit(fresh) is not None
    path.write_text("the-next-token-of-the-team\n")
    assert access.visit(fresh) is None
    assert not access.is_token("another-token-of-the-team")
    assert access.is_token("the-next-token-of-the-team")
    path.write_text("the-next-token-of-the-team 2020-01-01T00:00:00Z\n# ended\n")
    assert not access.is_token("the-next-token-of-the-team")


def test_a_form_needs_the_visit_and_its_own_token(server: Running, office: Office) -> None:
    """A form of another page, without or with another visit's token, changes nothing."""
    requests.post(f"{server.url}/alerts", webhook(alert()), headers=BEARER, timeout=10)
    office.worker.judge_alerts()
    [row] = server.store.rows("SELECT id FROM incident")
    address = f"{server.url}/incidents/{row['id']}/notes"
    session = signed_in(server)
    page = session.get(f"{server.url}/incidents/{row['id']}", timeout=10).text
    csrf = re.search(r'name="csrf" value="([^"]+)"', page)
    assert csrf is not None
    good = {"csrf": csrf[1], "words": HOSTILE, "author": HOSTILE}

    def post(data: dict[str, str], who: Any = session, **more: Any) -> int:
        return int(who.post(address, data=data, timeout=10, allow_redirects=False, **more).status_code)

    assert post(good, who=requests) == 401
    assert post({**good, "csrf": ""}) == 403
    assert post({**good, "csrf": "wrong"}) == 403
    assert post(good, headers={"Sec-Fetch-Site": "cross-site"}) == 403
    assert post({**good, "words": " "}) == 400
    assert server.store.number("SELECT count(*) FROM note") == 0
    assert post(good) == 303
    assert server.store.number("SELECT count(*) FROM note") == 1
    assert "<img" not in session.get(f"{server.url}/incidents/{row['id']}", timeout=10).text
    assert (
        session.post(f"{server.url}/sign-out", data={"csrf": csrf[1]}, timeout=10, allow_redirects=False).status_code
        == 303
    )
    assert session.get(f"{server.url}/", timeout=10, allow_redirects=False).status_code == 303


@pytest.mark.parametrize("to", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)"])
def test_signing_in_leads_nowhere_else(server: Running, to: str) -> None:
    """The address after the form is a path of this server."""
    answer = requests.post(
        f"{server.url}/sign-in", data={"token": TOKEN}, params={"to": to}, timeout=10, allow_redirects=False
    )
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=lax" in cookie


def test_no_path_leads_to_a_file(server: Running) -> None:
    """Files are chosen from what is listed, never by a path."""
    session = signed_in(server)
    paths = [
        "/static/..%2f..%2fsettings.py",
        "/reports/..%2f..%2fetc",
        "/runbooks/..%2fLICENSE",
        "/reports/%2fetc%2fpasswd",
    ]
    for path in paths:
        answer = session.get(server.url + path, timeout=10)
        assert answer.status_code == 404, path
    with socket.create_connection(("127.0.0.1", server.port), 10) as raw:
        raw.sendall(b"GET /static/../../../../etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert raw.recv(64).startswith(b"HTTP/1.1 404")


def test_a_body_of_10_mb_is_refused_and_the_server_goes_on(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    """Announced or not; the refusal is logged."""

    def pieces() -> Iterator[bytes]:
        for _ in range(160):
            yield b"x" * 65_536

    for body in (b"x" * (10 << 20), pieces()):
        try:
            status = requests.post(f"{server.url}/alerts", body, headers=BEARER, timeout=20).status_code
        except requests.ConnectionError:
            status = 413  # the server has closed the connection before the client was done
        assert status == 413
    assert requests.get(f"{server.url}/healthz", timeout=10).status_code in (200, 503)
    assert "refused with 413" in caplog.text


class FullStore(FileStore):
    """A database whose disk is full at times."""

    is_full = False

    @contextmanager
    def _transaction(self) -> Iterator[Database]:
        with super()._transaction() as db:
            yield db
            if self.is_full:
                raise StoreError("database or disk is full")


def test_a_full_disk_is_told_until_there_is_room_again(tmp_path: Path) -> None:
    """Alerts are refused meanwhile, so the server is not healthy; the first that is taken ends it. Smaller writes may still succeed."""
    office = Office(tmp_path)
    store = office.store = office.worker.store = FullStore(tmp_path / "full.sqlite", clock=office.clock)
    with running(office) as server:

        def health(path: str = "healthz") -> int:
            return requests.get(f"{server.url}/{path}", timeout=10).status_code

        def take() -> int:
            return requests.post(f"{server.url}/alerts", webhook(alert()), headers=BEARER, timeout=20).status_code

        wait_for(lambda: health() == 200)
        store.is_full = True
        assert take() == 503
        assert health() == 503
        assert health("livez") == 200  # a new start would not help
        store.is_full = False
        assert take() == 200
        assert health() == 200


def test_slow_clients_are_cut_off(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that never ends its headers, and others beside it are served; one that never ends its body."""
    monkeypatch.setattr(request_limits, "HEADER_SECONDS", 0.5)
    slow = [socket.create_connection(("127.0.0.1", server.port), 20) for _ in range(50)]
    for each in slow:
        each.sendall(b"GET / HTTP/1.1\r\nX-a: ")
    assert requests.get(f"{server.url}/healthz", timeout=5).json()["state"]
    started = time.monotonic()
    for each in slow:
        while time.monotonic() < started + 10:
            try:
                each.sendall(b"b")
            except OSError:
                break
            time.sleep(0.05)
        else:
            pytest.fail("a slow client was kept")
        each.close()


def test_a_body_that_does_not_come_is_given_up(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its time; the connection is closed."""
    monkeypatch.setattr(request_limits, "BODY_SECONDS", 0.3)
    with running(office, threads=False) as server, socket.create_connection(("127.0.0.1", server.port), 10) as raw:
        raw.sendall(
            f"POST /alerts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n\r\nabc".encode()
        )
        assert raw.recv(200).startswith(b"HTTP/1.1 408")


def test_every_page_escapes_and_has_its_policy(server: Running, office: Office) -> None:
    """Hostile names of groups, topics, clusters and alerts are text; scripts and styles come from files only."""
    office.oracle.says = lambda _q: [judged(HOSTILE, HOSTILE, headline=HOSTILE), judged("b", HOSTILE, headline=HOSTILE)]
    body = webhook(alert(HOSTILE, HOSTILE, alertname=HOSTILE, cluster=HOSTILE))
    requests.post(f"{server.url}/alerts", body, headers=BEARER, timeout=10)
    office.worker.judge_alerts()
    fleet_verdicts.record(office.store, HOSTILE, office.oracle.says(office.oracle.questions[0]), every_seconds=60)
    [row] = server.store.rows("SELECT id FROM incident")
    session = signed_in(server)
    asked: list[tuple[str, dict[str, str]]] = [("/", {}), ("/incidents", {}), (f"/incidents/{row['id']}", {})]
    asked += [("/group", {"cluster": HOSTILE, "group": HOSTILE}), ("/", {"text": "<script>alert(1)</script>"})]
    for path, values in asked:
        answer = session.get(server.url + path, params=values, timeout=10)
        assert answer.status_code == 200, path
        assert "<img" not in answer.text and "alert(1)</script>" not in answer.text
        assert "\x1b" not in answer.text and "\u202e" not in answer.text
        assert "unsafe-inline" not in answer.headers["content-security-policy"]
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert not re.search(r"<script(?! src=\"/static/)|\son\w+=\"|style=\"", answer.text)
        assert len(answer.content) < 300_000
    programs = {"incidents": "/api/incidents", "fleet": "/api/fleet", "incident-state": f"/api/incidents/{row['id']}"}
    for name, path in programs.items():
        answer = requests.get(server.url + path, headers=BEARER, timeout=10)
        assert answer.status_code == 200
        valid(name, answer.json())


def test_no_secret_is_in_the_memory_or_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the token, nor a visit's cookie, nor the path of a chat's webhook."""
    office = Office(tmp_path)
    with running(office) as server:
        session = signed_in(server)
        requests.post(f"{server.url}/alerts", webhook(alert(alertname="password=hunter22")), headers=BEARER, timeout=10)
        deadline = time.monotonic() + 20
        while not office.postman.parcels:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        cookie = session.cookies["workbench_visit"]
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("serve.sqlite*"))
    for secret in (TOKEN, cookie, "a-secret-path", "hunter22"):
        assert secret.encode() not in kept
        assert secret not in caplog.text
    assert (tmp_path / "serve.sqlite").stat().st_mode & 0o077 == 0
