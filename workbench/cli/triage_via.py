"""`workbench triage --via URL`: the triage of a server, on its warm Spark, printed as this command would print its own.

Nothing that takes long to import is needed here: no Spark, no Arrow, no settings (the server's say which clusters there are).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from concurrent.futures import TimeoutError as NotYetError
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from workbench import __version__
from workbench.background import in_background
from workbench.cli.hinted_commands import keep
from workbench.cli.options import shape_asked_for
from workbench.errors import (
    DeadlineError,
    EvidenceError,
    ExitCode,
    GuardError,
    SourceUnreachableError,
    UsageError,
    WorkbenchError,
)
from workbench.limited_reads import is_web_address
from workbench.local_server_request import is_here, post_here
from workbench.masking import remember
from workbench.safe_output import are_terminals, say, say_told, write_told

_REFUSED = {
    "folder": "--capture", "observe": "--observe", "save": "--save", "html": "--html", "watch": "--watch",
    "compare": "--compare", "alert": "--alert", "everything": "--all", "store": "--store", "parquet": "--parquet",
    "config": "--config",
}  # fmt: skip
_ERRORS: dict[int, type[WorkbenchError]] = {
    ExitCode.USAGE: UsageError,
    ExitCode.EVIDENCE: EvidenceError,
    ExitCode.SOURCE: SourceUnreachableError,
    ExitCode.GUARD: GuardError,
    ExitCode.DEADLINE: DeadlineError,
}
_VARIABLES = ("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
_SECONDS = 75.0  # the server gives up before
_FIRST_WORD_SECONDS = 1.0  # nothing is silent for longer
_MAX_BYTES = 256 << 20
_ELSEWHERE = "Run without --via."


def triage_via(given: Mapping[str, Any]) -> int:
    """Let the server judge, print what it says, and return its exit code.

    Raises:
        UsageError: for options that have no meaning there, and if there is no token. SourceUnreachableError: if the server does not
            answer, or is none of this version. WorkbenchError: as the triage itself.
    """
    if asked := [option for name, option in _REFUSED.items() if given[name]]:
        raise UsageError(
            f"{asked[0]} does not work with --via: the server judges by its own settings and sources.",
            hint="What works: --cluster, --group, --topic, --since, --until, --baseline and the formats of the output.",
        )
    url, token = _checked(given["via"]), _token(given["token_file"])
    cluster = given["cluster"]
    if cluster is None and (cluster := os.environ.get("WORKBENCH_CLUSTER") or None) is not None:
        keep(click.get_current_context(silent=True), "CLUSTER", cluster)
        say(f"Cluster: {cluster} (WORKBENCH_CLUSTER).")
    names = ("groups", "topics", "since", "until", "baseline")
    request = {
        "cluster": cluster, **{name: given[name] for name in names}, "version": __version__, "printing": _printing(),
    }  # fmt: skip
    status, answer = _asked(url, token, json.dumps(request).encode())
    found = _read(url, status, answer)
    if found.get("stderr"):
        say_told(str(found["stderr"]))
    if status != 200:
        if isinstance(name := found.get("cluster"), str):
            keep(click.get_current_context(silent=True), "CLUSTER", name)
        kind = _ERRORS.get(found["exit_code"], WorkbenchError)
        raise kind(str(found["error"]), hint=str(found["hint"]) if found.get("hint") else None)
    write_told(str(found["stdout"]))
    return int(found["exit_code"])


def _checked(url: str) -> str:
    url = url.rstrip("/")
    if not is_web_address(url) or "@" in urlsplit(url).netloc or urlsplit(url).query or urlsplit(url).fragment:
        raise UsageError(  # its value may be a secret
            "--via is not the http or https URL of a server, such as http://127.0.0.1:8480.",
            hint="The token is read from a file, and is not a part of it.",
        )
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_here(parts.hostname or ""):
        raise UsageError(
            f"{url} is on another computer, and the token would go over the network unencrypted.", hint="Use https."
        )
    return url


def _token(path: Path | None) -> str:
    """Of the file, else of the environment, else of the server of this user."""
    from workbench.token_file import TOKEN_VARIABLE, read_tokens

    if path is None and (given := os.environ.get(TOKEN_VARIABLE, "").strip()):
        remember(given)
        return given
    if path is None:
        from workbench.user_folders import state_dir

        path = state_dir() / "serve.token"
    hint = f"Give the file with the server's token: --token-file. Or set {TOKEN_VARIABLE}."
    try:
        found = read_tokens(path)
    except OSError as error:
        raise UsageError(
            f"The token of the server cannot be read from {path}: {error.strerror or type(error).__name__}.", hint=hint
        ) from None
    usable = [token for token, until in found.items() if until is None or until > time.time()]
    if not usable:
        raise UsageError(f"{path} has no token that has not ended.", hint=hint)
    return usable[0]


def _printing() -> dict[str, Any]:
    """How this process prints."""
    return {
        "form": shape_asked_for(),
        "terminals": are_terminals(),
        "columns": _columns(),
        "environment": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }


def _columns() -> int:
    for number in range(3):
        try:
            return min(os.get_terminal_size(number).columns, 10_000) or 80
        except OSError:  # not a terminal
            continue
    return 80


def _asked(url: str, token: str, body: bytes) -> tuple[int, bytes]:
    future = in_background(lambda: _posted(url, token, body), "asked")
    try:
        try:
            return future.result(_FIRST_WORD_SECONDS)
        except NotYetError:
            if future.done():
                raise
        from workbench.cli.progress import Steps

        with Steps() as steps, steps.waiting(f"Triage by {url}", at_most_seconds=_SECONDS):
            return future.result(_SECONDS)
    except (OSError, ValueError) as error:
        from workbench.http_client import cause, trust_hint

        words = str(error) if isinstance(error, ValueError) else cause(error)
        first = f"{trust}." if (trust := trust_hint(error)) is not None else "Is it running (workbench serve)?"
        raise SourceUnreachableError(
            f"The server {url} cannot be asked: {words}.",
            hint=f"{first} Or: {_ELSEWHERE.lower()}",
        ) from None


def _posted(url: str, token: str, body: bytes) -> tuple[int, bytes]:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    parts = urlsplit(url)
    if parts.scheme == "http":
        path = f"{parts.path}/api/triage"
        return post_here(
            parts.hostname or "", parts.port or 80, path, body, headers=headers, seconds=_SECONDS, max_bytes=_MAX_BYTES
        )
    from workbench.http_client import WebSession

    with WebSession(deadline_seconds=_SECONDS, max_bytes=_MAX_BYTES, headers=headers) as session:
        answer = session.post(f"{url}/api/triage", data=body)
        return answer.status_code, answer.content


def _read(url: str, status: int, answer: bytes) -> dict[str, Any]:
    """The answer as a document of ours.

    Raises:
        SourceUnreachableError: if it is none.
    """
    if status == 401:
        raise SourceUnreachableError(
            f"The server {url} refuses the token.", hint="Give the file with its token: --token-file."
        )
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        found = None
    ours = isinstance(found, dict) and (
        found.get("schema") == "workbench.asked_triage/1" and isinstance(found.get("stdout"), str)
        if status == 200
        else "error" in found and isinstance(found.get("exit_code"), int)
    )
    if not ours:
        said = f": {found['error']}" if isinstance(found, dict) and isinstance(found.get("error"), str) else ""
        raise SourceUnreachableError(
            f"The server {url} answers with status {status}{said}.".replace("..", "."),
            hint=f"{_of_a_proxy(status, found)}Is it a `workbench serve` of version {__version__}? Or: {_ELSEWHERE.lower()}",
        )
    return dict(found)


def _of_a_proxy(status: int, found: object) -> str:
    """What an answer that the server itself never gives tells of a proxy in front of it."""
    if status in (502, 503, 504):
        return f"A proxy in front of it may not reach it, or wait for less than {_SECONDS:g} s. "
    if 300 <= status < 400 or (status == 200 and not isinstance(found, dict)):
        return "A proxy in front of it may want a sign-in. "
    return ""
