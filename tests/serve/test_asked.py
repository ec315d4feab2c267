"""Triages that programs wait for: what is taken, how many, and that alerts keep their turn."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

import workbench.api.triages  # before one of its names is replaced  # noqa: F401
from tests.serve.serving import HOSTILE, TOKEN, Office, Running, running
from workbench import __version__
from workbench.errors import DeadlineError, NoSeriesError, SourceUnreachableError
from workbench.serve.asked_triages import AskedTriages
from workbench.serve.spark_turns import SparkTurns

BEARER = {"Authorization": f"Bearer {TOKEN}"}
SETTINGS = """
[clusters.prod]
prometheus = "http://user:a-password-of-it@127.0.0.1:9"
timeout_seconds = 2
[clusters.events]
system = "pulsar"
pulsar.admin_url = "http://127.0.0.1:9"
"""


@pytest.fixture
def office(tmp_path: Path) -> Office:
    """A worker that stands still, and is ready."""
    found = Office(tmp_path)
    found.worker.ready.set()
    return found


@pytest.fixture
def asked(tmp_path: Path, office: Office) -> AskedTriages:
    """What the server of these tests judges with."""
    (tmp_path / "workbench.toml").write_text(SETTINGS)
    return AskedTriages(
        turns=SparkTurns(),
        metrics=office.worker.metrics,
        ready=office.worker.ready,
        config=tmp_path / "workbench.toml",
        most=2,
        seconds=5,
    )


@pytest.fixture
def server(office: Office, asked: AskedTriages) -> Iterator[Running]:
    """The server."""
    with running(office, threads=False, asked=asked) as found:
        yield found


def ask(server: Running, body: Any = None, **fields: Any) -> requests.Response:
    """Ask for a triage."""
    sent = json.dumps(fields) if body is None else body
    return requests.post(f"{server.url}/api/triage", data=sent, headers=BEARER, timeout=30)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "the body"),
        (b"\xff\xfe", "the body"),
        (b"[]", "the body"),
        (b'{"cluster": 1}', "cluster"),
        (b'{"secret-of-somebody": 1}', "there is no such field"),
        (json.dumps({"groups": ["g"] * 101}), "groups"),
        (json.dumps({"groups": ["g" * 1001]}), "groups.0"),
        (json.dumps({"since": "x" * 201}), "since"),
        (json.dumps({"printing": {"columns": 10**9}}), "columns"),
        (json.dumps({"printing": {"environment": {"COLUMNS": "9" * 50}}}), "COLUMNS"),
        (json.dumps({"printing": {"environment": {"HOME": "/root"}}}), "HOME"),
        (json.dumps({"version": "0.0.1"}), f"The server is Workbench {__version__}, and who asks it is '0.0.1'."),
        ("[" * 50_000, "the body"),
    ],
)
def test_a_request_that_is_wrong_is_named(server: Running, body: Any, words: str) -> None:
    """By its field, with the command's exit code, before anything is read for it."""
    answer = ask(server, body)
    assert answer.status_code == 400, answer.text
    assert words in answer.json()["error"] and answer.json()["exit_code"] == 2
    assert "9999" not in answer.text and "/root" not in answer.text


def test_a_large_body_is_refused(server: Running) -> None:
    """A token lets alerts of 4 MiB in; a question has 64 KiB."""
    assert ask(server, " " * (64 << 10) + "{}").status_code == 413
    assert requests.post(f"{server.url}/api/triage", data="{}", timeout=10).status_code == 401


@pytest.mark.parametrize(
    ("fields", "status", "code", "words"),
    [
        ({"cluster": "prdo"}, 400, 2, "There is no cluster 'prdo'. Did you mean `prod`?"),
        ({"cluster": HOSTILE}, 400, 2, "There is no cluster"),
        ({}, 400, 2, "Missing option '--cluster'."),
        ({"cluster": "prod", "since": "yesterday"}, 400, 2, "'yesterday' is not a timestamp"),
        ({"cluster": "prod", "since": "30h ago"}, 400, 2, "24 h at most"),
        ({"cluster": "events"}, 400, 2, "needs no Spark"),
        ({"cluster": "prod", "groups": ["payments"]}, 422, 5, "connection refused"),
    ],
)
def test_mistakes_are_those_of_the_command(
    server: Running, fields: dict[str, Any], status: int, code: int, words: str
) -> None:
    """The words, the hint and the exit code; no traceback, no secret, nothing that steers a terminal."""
    answer = ask(server, **fields)
    assert (answer.status_code, answer.json()["exit_code"]) == (status, code), answer.text
    assert words in answer.json()["error"]
    assert "a-password-of-it" not in answer.text and "Traceback" not in answer.text
    assert not set(answer.json()["error"]) & {"\x1b", "\u202e"}


def test_an_error_of_a_library_stays_here(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words may be anything; who asked is told its kind."""
    monkeypatch.setattr("workbench.api.load_measurements.measure", lambda *_a, **_o: {}["a-secret-key"])
    answer = ask(server, cluster="prod")
    assert answer.status_code == 500
    assert answer.json()["error"] == "Internal error of the server: KeyError." and answer.json()["exit_code"] == 1
    counted = requests.get(f"{server.url}/metrics", timeout=10).text
    assert 'workbench_serve_triages_total{purpose="asked",result="failed"} 1.0' in counted


def test_a_server_that_starts_says_so(server: Running, asked: AskedTriages) -> None:
    """The command without it is as fast then."""
    asked.ready.clear()
    answer = ask(server, cluster="prod")
    assert answer.status_code == 503 and answer.headers["Retry-After"] == "5"
    assert answer.json()["exit_code"] == 7 and answer.json()["hint"] == "Run without --via."


def test_a_busy_server_says_so_at_once(server: Running, asked: AskedTriages, monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many as may be under way; those that nobody waits for any more count until they end."""
    go, begun = threading.Event(), threading.Semaphore(0)

    def measure(*_arguments: Any, **_options: Any) -> Any:
        begun.release()
        go.wait(20)
        raise NoSeriesError("There is nothing.")

    monkeypatch.setattr("workbench.api.load_measurements.measure", measure)
    asked.seconds = 0.5
    waiting = [threading.Thread(target=ask, args=(server,), kwargs={"cluster": "prod"}) for _ in range(2)]
    for it in waiting:
        it.start()
        assert begun.acquire(timeout=10)
    for it in waiting:
        it.join()  # they have been told that it takes too long
    started = time.monotonic()
    answer = ask(server, cluster="prod")
    assert answer.status_code == 503 and "busy with 2 other triages" in answer.json()["error"]
    assert time.monotonic() - started < 5
    go.set()
    deadline = time.monotonic() + 10
    while (answer := ask(server, cluster="prod")).status_code == 503:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert answer.status_code == 422 and answer.json()["exit_code"] == 4


def test_an_answer_that_takes_too_long_is_given_up(
    server: Running, asked: AskedTriages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server says after which time, and what to do."""

    def measure(*_arguments: Any, **_options: Any) -> Any:
        time.sleep(1)
        raise SourceUnreachableError("It does not answer.")

    monkeypatch.setattr("workbench.api.load_measurements.measure", measure)
    asked.seconds = 0.2
    answer = ask(server, cluster="prod")
    assert answer.status_code == 503 and answer.json()["error"] == "No answer within 0.2 s."


def test_turns_come_in_order() -> None:
    """An alert waits for those that were there before it, and for nobody else; who waits too long leaves the line."""
    turns, order = SparkTurns(), list[str]()
    first = turns.turn()
    first.__enter__()

    def take(name: str) -> None:
        with turns.turn():
            order.append(name)

    threads = []
    for name in ("asked", "alert", "asked again"):
        threads.append(threading.Thread(target=take, args=(name,)))
        threads[-1].start()
        deadline = time.monotonic() + 5
        while len(turns._line) < len(threads) + 1:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    with pytest.raises(DeadlineError, match=r"for 0\.05 s"), turns.turn(seconds=0.05):
        pass
    assert order == []
    first.__exit__(None, None, None)
    for it in threads:
        it.join(5)
    assert order == ["asked", "alert", "asked again"]
    with pytest.raises(ZeroDivisionError), turns.turn():
        raise ZeroDivisionError
    with turns.turn(seconds=0.1):
        pass
