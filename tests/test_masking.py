"""Rules of masking: no secret comes out, in whatever text of whichever library it stood; and what is none stays readable."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from tests.servers import Script, scripted
from workbench.errors import UsageError, WorkbenchError
from workbench.masking import masked, masked_document, masked_ends, masked_start, remember, secrets_in_connection
from workbench.plans.journal import Journal
from workbench.replay.service_fleet import FleetFile
from workbench.safe_output import _LogFormatter, say, say_crash, tell, write_json
from workbench.settings import Cluster, checked_cluster

PROGRAM = Path(sys.executable).with_name("workbench")
SECRET = "s3cr3t/Pass?word-4711"
# What stands in URLs, headers and properties without quotes.
token = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~+/=!$%", min_size=12, max_size=40)


@given(token)
def test_what_has_the_shape_of_a_secret_is_masked(secret: str) -> None:
    """URLs, headers and properties in a library's message, which nobody has told us about."""
    secret = f"Zq9{secret}"  # no part of the texts around it
    for text in (
        f"HTTPConnectionPool: GET http://user:{secret}@host:9090/x failed",
        f"http://{quote(secret, safe='')}@host/x",
        f"sc://host:15002/;use_ssl=true;token={secret};user_id=me",
        f"https://host/x?access_token={secret}&y=1",
        f"{{'Authorization': 'Bearer {secret}'}}",
        f"Authorization: Basic {secret}",
        json.dumps({"sasl.password": secret}),
        json.dumps(json.dumps({"sasl.password": secret})),
        f"{{'ssl.key.password': '{secret}'}}",
        f'org.apache.kafka.LoginModule required username="u" password="{secret}";',
    ):
        shown = masked(text)
        assert secret not in shown, text
        assert "***" in shown


@given(st.text(min_size=4, max_size=40), st.text(max_size=10), st.text(max_size=10))
def test_what_is_known_is_masked_in_every_spelling(secret: str, before: str, after: str) -> None:
    """Plain, as JSON, as a repr, and as a part of a URL; between whatever."""
    assume(("*" not in secret and secret.strip() and not secret.isalnum()) or len(secret) >= 8)
    assume("*" not in secret)
    for spelled in (secret, json.dumps(secret), repr(secret), f"/{quote(secret, safe='')}/"):
        shown = masked(f"{before} {spelled} {after}", [secret])
        if len(secret) >= 8 and secret not in before + " " + after:
            assert secret not in shown


def test_a_short_secret_does_not_change_other_names() -> None:
    """With "kafka" as a password, a group named kafka-exporter keeps its name."""
    assert masked("kafka kafka-exporter my.kafka 'kafka' user:kafka@", ["kafka"]) == (
        "*** kafka-exporter my.kafka '***' user:***@"
    )


@pytest.mark.parametrize("secret", ['ab"c-4711', "ab'c-4711", "ab\\c-4711", 'ab\\"c-4711', "c-4711\\", '"c-4711'])
def test_a_quote_in_a_secret_does_not_end_it(secret: str) -> None:
    """In JSON, in JSON as a text of JSON, and as Python writes it; nothing behind it is hidden."""
    once = json.dumps({"password": secret, "host": "kafka-1"})
    for text in (once, json.dumps(once), json.dumps(json.dumps(once)), repr({"password": secret, "host": "kafka-1"})):
        shown = masked(f"Bad answer: {text}")
        assert "4711" not in shown and "kafka-1" in shown, shown
    assert masked('password="C:\\4711\\"') == 'password="***"'


HOSTILE = {
    "addresses without an end": "://:",
    "addresses with users": "://a:",
    "addresses in one word": "://:@",
    "quotes without an end": "password='\\\"",
    "many kinds of quotes": "".join("password=" + "\\" * n + '"' for n in range(60, 0, -1)),
    "backslashes": "password=" + "\\" * 4000 + '"' + "\\" * 4000,
    "spaces": "token" + " " * 50,
    "headers": "authorization: bearer ",
}


@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE)
def test_masking_reads_a_text_once(unit: str) -> None:
    """Four times the text take about four times the processor time, whatever somebody has written: sixteen would be quadratic."""

    def cost(size: int) -> float:
        text = (unit * (size // len(unit) + 1))[:size]
        spent = []
        for _ in range(3):
            begun = time.process_time()
            masked(text)
            spent.append(time.process_time() - begun)
        return min(spent)

    assert cost(256_000) < 9 * max(cost(64_000), 0.002)


@given(st.integers(0, 80_000), st.integers(0, 80_000))
def test_a_cut_shows_no_part_of_a_secret(before: int, after: int) -> None:
    """What is cut is masked first, as a half secret has no form: at the end of a beginning, and at the beginning of an end."""
    text = "x" * before + f' http://me:{SECRET}@host password="{SECRET}" ' + "y" * after
    for shown in (masked_start(text, 1000), masked_ends(text, 1000)):
        assert "s3cr3t" not in shown
        assert "4711" not in shown
    assert masked(text).startswith(masked_start(text, 1000))
    assert masked_ends("y" * 10 + text, 10).startswith("y" * 10)


def test_an_error_masks_only_what_it_shows() -> None:
    """A server may have sent megabytes; the message has the beginning and the end."""
    error = WorkbenchError("It says: " + "://:" * 500_000 + f" http://u:{SECRET}@h the end")
    assert len(error.message) < 2000
    assert error.message.startswith("It says: ")
    assert error.message.endswith("http://***@h the end")


@pytest.mark.parametrize(
    "text",
    [
        'Set it in fleet.toml: token = "${NAME}".',
        "The instance http://host:8080/x refuses the token.",
        "admin API off (set admin_token).",
        "group pay@night of http://host:9090 and mail@example.org",
        "clusters.prod.kafka.sasl_password: it is missing.",
        "Bearer tokens are taken from the environment.",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """Our own words, and URLs without a password."""
    assert masked(text) == text


def test_nothing_that_writes_lets_a_known_secret_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Errors, lines, JSON, crashes, logs and the journal."""
    import logging

    remember(SECRET)
    error = WorkbenchError(f"It said {SECRET}.", hint=f"Try {SECRET}.")
    assert SECRET not in f"{error} {error!r} {error.message} {error.hint}"
    say(SECRET)
    tell(SECRET)
    write_json({"a": [SECRET], SECRET: {"b": SECRET}})
    try:
        raise RuntimeError(SECRET)
    except RuntimeError as crash:
        say_crash(crash)
        record = logging.LogRecord("x", 30, "", 1, "%s", (SECRET,), (RuntimeError, crash, crash.__traceback__))
    Journal(path=tmp_path / "j").append(
        plan="p", cluster_id="c", group="g", action="switch", phase="begin", target=f"http://u:{SECRET}@h", detail=SECRET
    )  # fmt: skip
    shown = capsys.readouterr()
    for text in (
        shown.out,
        shown.err,
        _LogFormatter("%(message)s").format(record),
        (tmp_path / "j").read_text("utf-8"),
    ):
        assert "***" in text
        assert SECRET not in text
        assert "4711" not in text


def test_settings_bring_in_what_must_not_be_seen() -> None:
    """Passwords of Kafka, headers whole and without their scheme, passwords of URLs; not names, files and methods."""
    cluster = Cluster(
        name="prod",
        prometheus="http://user:url%2Fpass@127.0.0.1:9",
        prometheus_headers={"Authorization": "Bearer tok3n-abc"},
        kafka={
            "sasl.username": "oncall", "sasl.password": "hunter22", "sasl.oauthbearer.method": "default",
            "ssl.key.location": "/etc/key", "sasl.oauthbearer.client.secret": "oidc-4711",
        },
    )  # fmt: skip
    assert cluster.secrets() == {"Bearer tok3n-abc", "tok3n-abc", "hunter22", "url%2Fpass", "url/pass", "oidc-4711"}
    assert masked("tok3n-abc hunter22 url/pass oidc-4711 default oncall") == "*** *** *** *** default oncall"
    assert "pass" not in repr(cluster)
    FleetFile(kind="http", instances=["http://u:in-stance-pw@h"], token="fl33t-token")
    assert masked("fl33t-token in-stance-pw") == "*** ***"
    assert secrets_in_connection("sc://h:1/;use_ssl=true;token=c0nnect") == ["c0nnect", "", ""]


def models() -> list[type[BaseModel]]:
    """Every model of the package."""
    import importlib

    root = Path(__file__).parent.parent / "workbench"
    for path in sorted(root.rglob("*.py")):
        if "BaseModel" in path.read_text(encoding="utf-8"):
            importlib.import_module(
                ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
            )

    def below(kind: type[BaseModel]) -> list[type[BaseModel]]:
        return [it for sub in kind.__subclasses__() for it in (sub, *below(sub))]

    return [it for it in below(BaseModel) if it.__module__.startswith("workbench.")]


def test_no_validation_error_quotes_what_it_was_given() -> None:
    """A traceback of one would show a whole table of settings, tokens among them."""
    found = models()
    assert len(found) > 20
    assert [it.__name__ for it in found if not it.model_config.get("hide_input_in_errors")] == []
    with pytest.raises(ValidationError) as caught:
        Cluster.model_validate({"name": "x", "kafka": {"sasl.password": [SECRET]}, "prometheus": f"ftp://u:{SECRET}@h"})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("url", [f"ftp://u:{SECRET}@h", f"u:{SECRET}@h:9090", f"{SECRET}"])
def test_a_wrong_url_is_told_without_its_password(url: str) -> None:
    """Naming the field is enough; a missing scheme hides what is the password."""
    with pytest.raises(UsageError, match="http") as caught:
        checked_cluster({"name": "x", "prometheus": url})
    assert SECRET not in str(caught.value)


def test_no_command_shows_the_password_of_a_url(tmp_path: Path) -> None:
    """Neither in an error nor in JSON: a wrong URL, a refused one, one of a page."""

    def run(*words: str, code: int) -> str:
        shown = subprocess.run(
            [PROGRAM, *words], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120
        )
        assert shown.returncode == code, shown.stderr
        assert "Traceback" not in shown.stderr
        return shown.stdout + shown.stderr

    config = tmp_path / "w.toml"
    config.write_text('[clusters.prod]\nbootstrap = "127.0.0.1:9"\n', encoding="utf-8")
    texts = [
        run("profiles", "check", "--url", f"ftp://u:{SECRET}@h", code=2),
        run("watch", "--cluster", "prod", "--out", "r", "--metrics", f"u:{SECRET}@h", "--config", str(config), code=2),
        run("profiles", "check", "--url", "http://u:hunter-22x@127.0.0.1:9", code=5),
    ]
    with scripted(Script(body=b'{"status":"success","data":[]}')) as server:
        url = server.url.replace("://", "://u:hunter-22x@")
        texts.append(run("profiles", "check", "--json", "--url", url, code=4))
    assert all(SECRET not in text and "hunter-22x" not in text for text in texts)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda it: st.lists(it) | st.dictionaries(st.text(), it)
    )
)
def test_a_document_keeps_its_shape(document: Any) -> None:
    """Only texts change, and only where there is something to mask."""
    shown = masked_document(document)
    json.dumps(shown)
    assert type(shown) is type(document)
    if "***" not in json.dumps(shown):
        assert shown == document


def sentences() -> Iterator[tuple[str, str]]:
    """Every sentence that the package's code says as a whole, with its place; those of printed pages (`reference`) are not masked."""
    root = Path(__file__).parent.parent / "workbench"
    for path in sorted(set(root.rglob("*.py")) - set((root / "reference").rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                for said in (*node.args, *(it.value for it in node.keywords)):
                    if isinstance(said, ast.Constant) and isinstance(said.value, str) and " " in said.value:
                        yield f"{path.relative_to(root)}:{said.lineno}", said.value
            elif isinstance(node, ast.Return | ast.Assign):
                for it in ast.walk(node):
                    if isinstance(it, ast.Constant) and isinstance(it.value, str) and " " in it.value:
                        yield f"{path.relative_to(root)}:{it.lineno}", it.value


def test_our_own_words_are_not_taken_for_secrets() -> None:
    """A hint that says where a token belongs must not lose that place."""
    found = list(sentences())
    assert len(found) > 2000
    assert [(place, text) for place, text in found if masked(text) != text] == []
