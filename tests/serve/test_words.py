"""Messages in the form of each target: names in them call nobody, link nowhere, and add no header."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email import message_from_bytes
from typing import Any

import pytest
from pydantic import ValidationError

from tests.reference.valid import valid
from tests.serve.serving import HOSTILE
from tests.servers import Script, scripted
from workbench.lab.process import free_port
from workbench.serve import alert_messages
from workbench.serve.outbox import Message, Parcel
from workbench.serve.send_message import NotTakenError, send
from workbench.serve_settings import ServeSettings, Target

URL = "https://workbench.example"
LINK = "<https://evil.example|click> [click](https://evil.example) <@U123> <!here> @channel password=hunter22"


def parcel(**values: Any) -> Parcel:
    """A message about hostile names."""
    given: dict[str, Any] = {
        "kind": "new", "incident": "20261123-0123456789ab", "revision": 1, "cluster": HOSTILE, "verdict": "slow_processor",
        "state": "lagging", "headline": f"{HOSTILE} {LINK}", "total": 2, "members": ((HOSTILE, LINK, "x"), ("b", "c", "x")),
        "others": (LINK,), "alerts": (LINK,), "actions": (LINK,), "owner": LINK, "like": LINK, "runbook": "runbooks/SlowProcessor.md",
    }  # fmt: skip
    message = Message(**{**given, **values})
    return Parcel(id=1, target="oncall", key=message.key, attempts=1, made=0.0, message=message)


KINDS = ("new", "verdict", "grows", "recovered", "healthy", "digest")


@pytest.mark.parametrize("kind", KINDS)
def test_slack_reads_no_markup_in_names(kind: str) -> None:
    """Blocks are plain text; in the short text, which Slack parses, no bracket and no mention is left."""
    body = alert_messages.slack(parcel(kind=kind, before="hot_key"), URL)
    for block in body["blocks"]:
        if block["type"] in ("header", "section"):
            assert block["text"]["type"] == "plain_text" and block["text"]["emoji"] is False
            assert len(block["text"]["text"]) <= (150 if block["type"] == "header" else 3000)
    for text in (body["text"], json.dumps(body["blocks"], ensure_ascii=False).replace(f"{URL}/incidents", "")):
        assert "://" not in text and "@" not in text and "\x1b" not in text and "\u202e" not in text
        assert "hunter22" not in text
    assert "<" not in body["text"] and ">" not in body["text"]
    assert body["blocks"][-1]["elements"][0]["url"] == f"{URL}/incidents/20261123-0123456789ab"


@pytest.mark.parametrize("kind", KINDS)
def test_teams_reads_no_markdown_in_names(kind: str) -> None:
    """Neither links nor mentions."""
    body = alert_messages.teams(parcel(kind=kind, before="hot_key"), URL)
    [card] = [it["content"] for it in body["attachments"]]
    for block in card["body"]:
        assert "](" not in block["text"] and "://" not in block["text"] and "@" not in block["text"]
        assert "<at>" not in block["text"] and "hunter22" not in block["text"]
    assert card["actions"][0]["url"].startswith(URL)


MAIL = Target(
    name="mail",
    kind="mail",
    host="127.0.0.1",
    port=2525,
    security="none",
    sender="wb@example.com",
    to=["a@example.com"],
)


def test_a_name_adds_no_header_to_a_mail() -> None:
    """The recipients are those of the settings; a mail that is sent twice has one id."""
    letter = alert_messages.mail(parcel(), MAIL, URL, now=datetime.now(UTC))
    read = message_from_bytes(letter.as_bytes())
    assert read["To"] == "a@example.com" and read["Bcc"] is None
    assert len(read.get_all("Subject", [])) == 1
    assert letter["Message-ID"] == alert_messages.mail(parcel(), MAIL, URL, now=datetime.now(UTC))["Message-ID"]
    assert not read.is_multipart()


@contextmanager
def mailbox(port: int, taken: list[bytes], *, refuse: bool = False) -> Iterator[None]:
    """A mail server that keeps one mail."""

    def serve(listener: socket.socket) -> None:
        peer, _ = listener.accept()
        with peer, peer.makefile("rwb", buffering=0) as stream:
            stream.write(b"220 ready\r\n")
            while line := stream.readline():
                word = line[:4].upper()
                if word == b"RCPT" and refuse:
                    stream.write(b"550 no\r\n")
                elif word == b"DATA":
                    stream.write(b"354 go\r\n")
                    while not (line := stream.readline()).startswith(b".\r\n"):
                        taken.append(line)
                    stream.write(b"250 ok\r\n")
                elif word == b"QUIT":
                    stream.write(b"221 bye\r\n")
                    return
                else:
                    stream.write(b"250 ok\r\n")

    with socket.create_server(("127.0.0.1", port)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield
        thread.join(10)


def test_a_mail_arrives_or_the_refusal_is_told() -> None:
    """By SMTP, with the link."""
    taken: list[bytes] = []
    port = free_port()
    target = MAIL.model_copy(update={"port": port})
    with mailbox(port, taken):
        send(parcel(), target, URL)
    text = message_from_bytes(b"".join(taken)).get_payload(decode=True)
    assert isinstance(text, bytes) and f"{URL}/incidents/" in text.decode()
    with mailbox(port, [], refuse=True), pytest.raises(NotTakenError):
        send(parcel(), target, URL)
    with pytest.raises(NotTakenError) as refusal:
        send(parcel(), target, URL)
    assert refusal.value.passing


def test_a_webhook_gets_the_document_and_its_key() -> None:
    """With the token of the settings; a redirect is not followed, and passes, as 5xx does: nobody has refused it."""
    with scripted(Script()) as server:
        target = Target(name="ours", kind="webhook", url=server.url + "/in", token="a-token-for-the-webhook")
        send(parcel(), target, URL)
        [(path, _, headers)] = server.requests
        assert (path, headers["Authorization"]) == ("/in", "Bearer a-token-for-the-webhook")
        assert headers["Idempotency-Key"] == "20261123-0123456789ab-1"
        for status, passing in ((302, True), (400, False), (401, True), (404, True), (429, True), (503, True)):
            server.status, server.headers = status, {"Location": "http://169.254.169.254/"}
            with pytest.raises(NotTakenError) as refusal:
                send(parcel(), target, URL)
            assert refusal.value.passing is passing
        assert len(server.requests) == 7


@pytest.mark.parametrize("answer", [Script(body=b"x" * 3_000_000), Script(body=b"x" * 400, trickle_seconds=0.1)])
def test_what_was_taken_is_taken_whatever_page_follows(answer: Script) -> None:
    """The status decides: else a target with a long or slow page would get one message sixty times."""
    with scripted(answer) as server:
        started = time.monotonic()
        send(parcel(), Target(name="ours", kind="webhook", url=server.url), URL)
        assert len(server.requests) == 1
        assert time.monotonic() - started < 10


def test_a_trend_is_in_every_message() -> None:
    """A line of text, below the headline."""
    valid("incident", alert_messages.document(parcel(), URL))
    told = parcel(trend="Time lag, last 15 min: ▁▂▃▅▇█ at most 10 min")
    for body in (alert_messages.slack(told, URL), alert_messages.teams(told, URL), alert_messages.document(told, URL)):
        assert "▁▂▃▅▇█ at most 10 min" in json.dumps(body, ensure_ascii=False)
    assert "▁▂▃▅▇█" in alert_messages.mail(told, MAIL, URL, now=datetime.now(UTC)).get_content()


def test_an_alertmanager_gets_an_alert_that_ends_with_the_incident() -> None:
    """The labels are the same from the first message to the last, so it is one alert; its texts are on one line each."""
    now = datetime.now(UTC)
    [first] = alert_messages.alertmanager(parcel(), URL, now=now)
    [last] = alert_messages.alertmanager(parcel(kind="recovered", before="hot_key", revision=7), URL, now=now)
    assert first["labels"] == last["labels"]
    assert first["labels"]["alertname"] == "WorkbenchVerdict"
    assert datetime.fromisoformat(last["endsAt"]) == now < datetime.fromisoformat(first["endsAt"])
    assert datetime.fromisoformat(first["startsAt"]) < now
    for text in (*first["labels"].values(), *first["annotations"].values()):
        assert "hunter22" not in text and "\x1b" not in text and "\u202e" not in text
    with scripted(Script()) as server:
        send(parcel(), Target(name="am", kind="alertmanager", url=server.url), URL)
        assert server.requests[0][0] == "/api/v2/alerts"


def test_grafana_draws_names_as_text() -> None:
    """An annotation at the time of the verdict, with the token of the settings."""
    with scripted(Script()) as server:
        target = Target(name="g", kind="grafana", url=server.url, token="a-token-for-grafana")
        send(parcel(), target, URL)
        assert server.requests[0][0] == "/api/annotations"
    body = alert_messages.grafana(parcel(), URL)
    assert "<img" not in body["text"] and "<@" not in body["text"] and "hunter22" not in body["text"]
    assert body["tags"][0] == "workbench" and isinstance(body["time"], int)


def test_no_setting_of_a_target_is_quoted_in_an_error() -> None:
    """The address of a chat's webhook is a password; a database server is refused with words."""
    wrong: list[dict[str, Any]] = [
        {"targets": [{"name": "a", "kind": "slack", "url": "ftp://secret-path"}]},
        {"targets": [{"name": "a", "kind": "slack"}]},
        {"targets": [{"name": "a", "kind": "mail", "host": "h", "sender": "a@b\nBcc: c@d", "to": ["a@b"]}]},
        {"targets": [{"name": "a", "kind": "slack", "url": "http://h/x"}] * 2},
        {"store": "mysql://user:secret-path@host/db"},
        {"url": "javascript:alert(1)"},
    ]
    for values in wrong:
        with pytest.raises(ValidationError) as error:
            ServeSettings.model_validate(values)
        assert "secret-path" not in str(error.value)
    with pytest.raises(ValidationError, match="neither a file nor postgresql"):
        ServeSettings(store="mysql://h/d")
    assert ServeSettings(store="postgresql://me:secret-path@h/d").store


@pytest.mark.parametrize("name", ["payments.eu-west_1", "<@U123>`" * 30])
def test_the_largest_digest_fits_into_a_message_of_teams(name: str) -> None:
    """It takes 28 KB, and refuses a larger one for good; each cause is named all the same."""
    others = tuple(f"slow_processor: {at:02}-{name} ← {name} and 12 more: {name} is late" for at in range(99))
    members = tuple((name, name, name) for _ in range(10))
    told = parcel(kind="digest", others=others, members=members, total=400, headline=name * 20)
    text = json.dumps(alert_messages.teams(told, URL))
    assert len(text) < 25_000
    assert text.count("\\u2022 slow_processor: ") == 99
