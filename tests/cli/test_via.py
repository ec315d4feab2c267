"""`workbench triage --via`: the bytes of the command itself, from a server that is warm; and every way in which that can go wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pexpect
import pytest
import requests

from tests.cli.running import PROGRAM, check, run, run_here
from tests.reference.valid import valid
from tests.serve.serving import HOSTILE, TOKEN, Office, running
from tests.servers import Script, scripted
from workbench import __version__
from workbench.cli import triage_via
from workbench.local_server_request import post_here
from workbench.serve.asked_triages import AskedTriages
from workbench.serve.judge_groups import SparkJudge
from workbench.terminal_tables import FittingTable

END = int(time.time()) // 60 * 60 - 600
SINCE, UNTIL = (datetime.fromtimestamp(at, UTC).isoformat() for at in (END - 900, END))
WINDOW = ["--since", SINCE, "--until", UNTIL]
GROUPS = ("payments", "billing", "pay\x1b[31m\u202e'ments", "a b; rm -rf ~")
ANSWER = {"schema": "workbench.asked_triage/1", "exit_code": 0, "triage": None, "stdout": "well\n", "stderr": ""}


def prometheus(_path: str, query: dict[str, list[str]]) -> bytes:
    """Two hours of some groups at 50 messages a second: the first falls behind, the third stops, the others are well."""

    def lag(number: int, at: int) -> int:
        return 5 + max(0, at - 420) * {0: 400, 2: 750}.get(number, 0)

    def end(at: int) -> int:
        return 750 * at + 100_000

    values: dict[str, Callable[[int, int], int]] = {
        "kafka_consumergroup_lag": lag,
        "kafka_consumergroup_current_offset": lambda number, at: end(at) - lag(number, at),
        "kafka_topic_partition_current_offset": lambda _number, at: end(at),
        "kafka_topic_partition_oldest_offset": lambda _number, _at: 0,
        "kafka_consumergroup_members": lambda number, at: 0 if number == 2 and at > 420 else 3,
    }
    found = []
    for name, value in values.items():
        if not re.search(rf"\b{name}\b", query.get("query", [""])[0]):
            continue
        for number, group in enumerate(GROUPS[:1] if "topic_partition" in name else GROUPS):
            labels = {"__name__": name}
            if "consumergroup" in name:
                labels["consumergroup"] = group
            if "members" not in name:
                labels |= {"topic": "orders", "partition": "0"}
            points = [[END - 7200 + 15 * at, str(value(number, at))] for at in range(481)]
            found.append({"metric": labels, "values": points})
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": found}}).encode()


@contextmanager
def served(folder: Path, url: str) -> Iterator[str]:
    """A server with a cluster `shop` in this Prometheus: its address. Its settings are in the folder."""
    config = folder / "workbench.toml"
    config.write_text(f'[clusters.shop]\nprometheus = "{url}"\nprofiles = ["kafka_exporter"]\ntimeout_seconds = 5\n')
    office = Office(folder)
    office.worker.ready.set()
    judge = SparkJudge(config=config)
    asked = AskedTriages(turns=judge.turns, metrics=office.worker.metrics, ready=office.worker.ready, config=config)
    with running(office, threads=False, asked=asked) as found:
        yield found.url


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_SERVE_TOKEN", TOKEN)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(FittingTable, "wide", False)  # what `-o wide` sets goes with the test


def without_times(text: str) -> str:
    """How long each step took is the clock's affair, and so is whether it was announced for it."""
    return re.sub(r"\d+\.\d s", "N s", re.sub(r"^….*\n", "", text, flags=re.M))


@pytest.mark.jvm
@pytest.mark.parametrize(
    ("names", "code"),
    [
        ([], 3),
        (["--group", GROUPS[0]], 4),
        (["--group", GROUPS[1]], 0),
        (["--group", GROUPS[2], "--topic", "orders"], 3),
    ],
)
def test_it_prints_what_the_command_prints(spark: object, tmp_path: Path, names: list[str], code: int) -> None:
    """To the last byte, in each form, with the exit code; hostile names too. A cluster that nobody named is said."""
    with scripted(Script(answer=prometheus)) as source, served(tmp_path, source.url) as url:
        (tmp_path / "elsewhere").mkdir()
        for form in ([], ["--json"], ["-o", "wide"], ["-o", "csv"], ["-o", "tsv"]):
            words = ["triage", *names, *WINDOW, *form]
            own = run_here(*words, "--config", str(tmp_path / "workbench.toml"), cwd=tmp_path)
            other = run_here(*words, "--via", url, cwd=tmp_path / "elsewhere")
            assert (other.stdout, other.returncode) == (own.stdout, own.returncode), form
            assert own.returncode == code and "orders" in own.stdout
            assert without_times(other.stderr) == without_times(own.stderr)
            assert without_times(other.stderr).startswith("Cluster: shop (the only one in ")
            assert not set(other.stdout) & {"\x1b", "\u202e"}
        told = run_here("triage", *names, *WINDOW, "--via", url, "--json", cwd=tmp_path)
        body = {"groups": names[1:2], "since": SINCE, "until": UNTIL}  # as a program asks
        answer = requests.post(f"{url}/api/triage", json=body, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)
        assert valid("asked-triage", answer.json())["exit_code"] == code
        assert valid("triage", answer.json()["triage"]) == json.loads(told.stdout)


def test_a_cluster_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's memory is that of the alerts, too."""
    monkeypatch.setattr("workbench.serve.asked_triages.AT_ONCE", 3)
    with scripted(Script(answer=prometheus)) as source, served(tmp_path, source.url) as url:
        shown = run_here("triage", *WINDOW, "--via", url, cwd=tmp_path)
    check_lines = [line for line in shown.stderr.splitlines() if line.startswith(("Error", "Hint"))]
    assert shown.returncode == 2 and check_lines == [
        "Error: 4 groups are too many for one triage of a server (at most 3).",
        "Hint:  Name some with --group. Or: run without --via.",
    ]


@pytest.mark.jvm
def test_a_terminal_shows_the_same(spark: object, tmp_path: Path) -> None:
    """Its width, its colours, and those that it does not have."""
    config = str(tmp_path / "workbench.toml")
    with scripted(Script(answer=prometheus)) as source, served(tmp_path, source.url) as url:
        for columns, extra in ((140, {"TERM": "xterm-256color"}), (70, {"TERM": "xterm", "NO_COLOR": "1"})):
            environment = {**os.environ, **extra}
            words = ["triage", "--cluster", "shop", *WINDOW]
            shown = []
            for last in (["--config", config], ["--via", url]):
                child = pexpect.spawn(
                    str(PROGRAM),
                    [*words, *last],
                    env=environment,
                    dimensions=(40, columns),
                    timeout=120,
                    encoding="utf-8",
                )
                text = child.read()
                child.close()
                assert child.exitstatus == 3, text
                # A spinner leaves nothing behind: what is left is what comes after it.
                shown.append(text[text.index("▶") :])
            assert shown[0] == shown[1]
            assert ("\x1b[1;31m" in shown[1]) == ("NO_COLOR" not in extra)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--cluster", "shpo"], 2),
        (["--cluster", HOSTILE], 2),
        (["--cluster", "shop", "--since", "yesterday"], 2),
        (["--cluster", "shop", "--since", UNTIL, "--until", SINCE], 2),
        (["--cluster", "shop", "--baseline", "x"], 2),
        (["--cluster", "shop", "--group", "paymnets"], 5),
    ],
)
def test_mistakes_are_told_as_by_the_command(tmp_path: Path, words: list[str], code: int) -> None:
    """The same words, hint and exit code; nothing listens at the server's source here."""
    with served(tmp_path, "http://127.0.0.1:9") as url:
        other = run_here("triage", *words, "--via", url, cwd=tmp_path)
        own = (run if code == 5 else run_here)(
            "triage", *words, "--config", str(tmp_path / "workbench.toml"), cwd=tmp_path
        )
    assert without_times(other.stderr) == without_times(own.stderr)
    check(other, code)
    assert own.returncode == code


@pytest.mark.parametrize(
    "words",
    [
        ["--capture", "x"], ["--save", "x"], ["--html", "x.html"], ["--watch"], ["--all"], ["--store", "x"], ["--parquet", "x"],
        ["--observe", "60s"], ["--alert", "x.json"], ["--compare", "a", "b"], ["--config", "w.toml"],
    ],
)  # fmt: skip
def test_what_has_no_meaning_there_is_refused(tmp_path: Path, words: list[str]) -> None:
    """By its name, before anybody is asked."""
    check(
        run_here("triage", "--via", "http://127.0.0.1:9", *words, cwd=tmp_path), 2, words[0], "does not work with --via"
    )


def test_a_token_file_is_for_the_server(tmp_path: Path) -> None:
    """Without one it would be read for nothing."""
    check(run_here("triage", "--cluster", "x", "--token-file", "x", cwd=tmp_path), 2, "--token-file needs --via")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("127.0.0.1:8480", "not the http or https URL"),
        ("http://ops:a-secret-word@127.0.0.1:8480", "not the http or https URL"),
        ("http://127.0.0.1:8480/?token=a-secret-word", "not the http or https URL"),
        ("http://workbench.example:8480", "unencrypted"),
        ("ftp://127.0.0.1", "not the http or https URL"),
    ],
)
def test_an_address_that_would_give_the_token_away_is_refused(tmp_path: Path, url: str, words: str) -> None:
    """In the clear over a network, or typed into it; what was typed is not repeated."""
    shown = run_here("triage", "--via", url, cwd=tmp_path)
    check(shown, 2, words)
    assert "a-secret-word" not in shown.stderr and TOKEN not in shown.stderr


def test_the_token_comes_from_where_the_server_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is named, the variable, or the file of this user's own server; the first that has not ended."""
    state = Path(os.environ["XDG_STATE_HOME"]) / "lag-workbench"
    with scripted(Script(body=json.dumps(ANSWER).encode())) as server:

        def sent(*words: str) -> str:
            check_well(run_here("triage", "--via", server.url, *words, cwd=tmp_path))
            return server.requests[-1][2]["Authorization"]

        assert sent() == f"Bearer {TOKEN}"
        file = tmp_path / "tokens"
        file.write_text(f"# of the office\n{'o' * 20} 2020-01-01T00:00:00Z\n{'n' * 20} 2999-01-01T00:00:00Z\n")
        assert sent("--token-file", str(file)) == f"Bearer {'n' * 20}"
        monkeypatch.delenv("WORKBENCH_SERVE_TOKEN")
        check(run_here("triage", "--via", server.url, cwd=tmp_path), 2, "serve.token", "--token-file")
        state.mkdir(parents=True, exist_ok=True)
        (state / "serve.token").write_text("s" * 20)
        assert sent() == f"Bearer {'s' * 20}"
        file.write_text(f"{'o' * 20} 2020-01-01T00:00:00Z\n")
        shown = run_here("triage", "--via", server.url, "--token-file", str(file), cwd=tmp_path)
        check(shown, 2, "has no token that has not ended")
        assert "oooo" not in shown.stderr


def check_well(shown: subprocess.CompletedProcess[str]) -> None:
    """The answer of `ANSWER`."""
    assert (shown.returncode, shown.stdout) == (0, "well\n"), shown.stderr


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (Script(status=401, body=b'{"error": "A bearer token is required."}'), ("refuses the token", "--token-file")),
        (Script(status=404, body=b'{"error": "Not Found"}'), ("status 404: Not Found.", f"of version {__version__}")),
        (Script(body=b"<html>"), ("status 200.", "workbench serve")),
        (Script(body=b'{"schema": "another/1"}'), ("status 200.",)),
        (Script(status=302, headers={"Location": "http://127.0.0.1:9/"}), ("status 302.",)),
        (Script(status=500, body=b'{"error": "\\u001b[31m", "exit_code": "x"}'), ("status 500",)),
        (Script(status=502, body=b"<html>"), ("status 502.", "may not reach it, or wait for less than 75 s")),
        (Script(status=303, headers={"Location": "/login"}), ("status 303.", "may want a sign-in")),
        (Script(body=b"<html>Sign in"), ("status 200.", "may want a sign-in")),
        (Script(body=b"[" * 200_000), ("status 200.",)),
        (Script(body=b"{}", headers={"Content-Length": "999"}), ("cannot be asked: the answer was cut off",)),
    ],
)
def test_a_server_that_is_none_of_ours_is_told(tmp_path: Path, script: Script, words: tuple[str, ...]) -> None:
    """With what it said, and what to do; the token is not sent on, and not shown."""
    with scripted(script) as server:
        shown = run_here("triage", "--via", server.url, cwd=tmp_path)
    check(shown, 5, *words)
    assert TOKEN not in shown.stderr and "\x1b" not in shown.stderr


def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    """With the way without it."""
    check(run_here("triage", "--via", "http://127.0.0.1:9", cwd=tmp_path), 5, "connection refused", "without --via")


def test_a_certificate_that_is_not_trusted_is_told_with_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server runs; it is this computer that does not know its authority."""

    def refused(*_args: object) -> None:
        raise requests.exceptions.SSLError(
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:1006)"
        )

    monkeypatch.setattr(triage_via, "_posted", refused)
    shown = run_here("triage", "--via", "https://serve.example", cwd=tmp_path)
    check(shown, 5, "certificate verify failed", "SSL_CERT_FILE=/path/ca.pem", "without --via")
    assert "Is it running" not in shown.stderr


def test_a_server_steers_no_terminal(tmp_path: Path) -> None:
    """Colours pass; titles, cursors and bells are shown as what they are."""
    told = {**ANSWER, "stdout": "\x1b[1;31mred\x1b[0m \x1b]0;title\x07 \x1b[2J\n", "stderr": "\x1b[2J\n"}
    with scripted(Script(body=json.dumps(told).encode())) as server:
        shown = run_here("triage", "--via", server.url, cwd=tmp_path)
    assert shown.stdout == "\x1b[1;31mred\x1b[0m \\x1b]0;title\\x07 \\x1b[2J\n"
    assert shown.stderr == "\\x1b[2J\n"


def test_a_cluster_of_the_environment_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has another environment."""
    monkeypatch.setenv("WORKBENCH_CLUSTER", "shop")
    with served(tmp_path, "http://127.0.0.1:9") as url:
        shown = run_here("triage", "--via", url, "--since", "yesterday", cwd=tmp_path)
    assert shown.stderr.startswith("Cluster: shop (WORKBENCH_CLUSTER).\nError: ")


def test_a_slow_server_is_waited_for_in_words(tmp_path: Path) -> None:
    """Nothing is silent for longer than a second."""
    with scripted(Script(body=json.dumps(ANSWER).encode(), delay_seconds=2.5)) as server:
        shown = run_here("triage", "--via", server.url, cwd=tmp_path)
    check_well(shown)
    assert shown.stderr == f"… Triage by {server.url}, at most 1 min 15 s\n"


def test_the_short_way_is_for_this_computer_only() -> None:
    """It has neither proxies nor TLS; and no more is read than was agreed."""
    with pytest.raises(ValueError, match="not this computer"):
        post_here("workbench.example", 80, "/", b"", headers={}, seconds=1, max_bytes=1)
    with scripted(Script(body=b"12345")) as server, pytest.raises(ValueError, match="too large"):
        post_here("127.0.0.1", int(server.url.rpartition(":")[2]), "/", b"", headers={}, seconds=5, max_bytes=4)


def test_what_takes_long_to_import_stays_out(tmp_path: Path) -> None:
    """Of the half a second that a person waits, most is the server's."""
    probe = (
        "import sys, atexit\n"
        "heavy = {'pyspark', 'pandas', 'numpy', 'pyarrow', 'requests', 'pydantic', 'rich', 'confluent_kafka', 'starlette', 'yaml'}\n"
        "atexit.register(lambda: print(sorted(heavy & set(sys.modules)), file=sys.stderr))\n"
        "from workbench.cli import main; main()"
    )
    with scripted(Script(body=json.dumps(ANSWER).encode())) as server:
        words: list[Any] = [sys.executable, "-c", probe, "triage", "--via", server.url, "--cluster", "shop"]
        shown = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60)
    check_well(shown)
    assert shown.stderr == "[]\n"
