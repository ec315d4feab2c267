"""What a server says instead of data, and what to do: Prometheus itself, a proxy or a login in front of it, or something else.

Sources: Prometheus' HTTP API (`querying/api.md`), Mimir's `about-runbooks` and its "no org id" for a request without a tenant, the
paths of Mimir (`/prometheus`) and of VictoriaMetrics' cluster version (`/select/0/prometheus`).
"""

from __future__ import annotations

import json
import re
from urllib.parse import urlsplit

import requests

from workbench.errors import SourceUnreachableError

_FEWER = "A shorter window (--since) or a single group (--group) needs fewer samples."
_LOGIN = "Is there a login page in front of it? Name an address without one, or send a token: prometheus_headers in workbench.toml."
_BASE = (
    "The URL must be the base of its API, without /api/v1: Mimir's ends in /prometheus, that of a VictoriaMetrics cluster in "
    "/select/0/prometheus."
)
_TENANT = 'Name the tenant in workbench.toml: prometheus_headers = { "X-Scope-OrgID" = "TENANT" }'
_TOO_MUCH = re.compile(r"limit|exceed|too (?:many|long|large|much)|timed? ?out|timeout|max(?:imum)?\b", re.IGNORECASE)
_SMALL_BYTES = 64 << 10  # an error is small; a matrix need not be read twice
_LONGEST = 200


def refusal(response: requests.Response, host: str) -> SourceUnreachableError | None:
    """What an answer says if it has no data; None if it may have some.

    Args:
        response: with its whole body.
        host: of the server, without a password.
    """
    status, body = response.status_code, response.content
    own = _own_words(body)
    if status == 200:
        if _is_page(response):
            return SourceUnreachableError(
                f"The server at {host} is not a Prometheus: it answers with a web page.", hint=_LOGIN
            )
        if own is not None:
            return SourceUnreachableError(
                f"Prometheus at {host} answers with an error: {own}.",
                hint=_FEWER if _TOO_MUCH.search(own) else "Its log, or that of the proxy in front of it, says more.",
            )
        return None
    words = own if own is not None else _text(body, response)
    said = f": {words}" if words else ""
    message, hint = _by_status(status, words, is_its_own=own is not None)
    return SourceUnreachableError(f"Prometheus at {host} {message}{said}.", hint=hint)


def redirected(response: requests.Response | None, host: str) -> SourceUnreachableError:
    """The error of a redirect to another address, which is not followed: a token would go with it. Its query is not told."""
    place = urlsplit(response.headers.get("Location", "")) if response is not None else None
    to = f" ({place.scheme}://{place.hostname})" if place is not None and place.hostname else ""
    return SourceUnreachableError(
        f"Prometheus at {host} cannot be read: it redirects to another address{to}.", hint=_LOGIN
    )


def _by_status(status: int, words: str, *, is_its_own: bool) -> tuple[str, str]:
    """What a status means, and what to do about it."""
    if status in (401, 403) and re.search(r"org ?id|tenant", words, re.IGNORECASE):
        return f"wants a tenant (status {status})", _TENANT
    if status == 401:
        return (
            "wants a login (status 401)",
            "Is the token under prometheus_headers in workbench.toml valid? Its header is Authorization, its value 'Bearer ${TOKEN}'.",
        )
    if status == 403:
        return (
            "forbids this (status 403)",
            "May the user or token in prometheus_headers read this, and from this network?",
        )
    if status == 407:
        return "is behind a proxy that wants a login (status 407)", "Set HTTPS_PROXY with its user, or NO_PROXY."
    if status in (404, 405, 410):
        return f"has no API at this address (status {status})", _BASE
    if status == 429:
        return (
            "has too many requests (status 429)",
            f"Try again later, or ask for a higher limit of this tenant. {_FEWER}",
        )
    if status in (502, 504) or (status == 503 and not is_its_own):
        return (
            f"cannot be reached by the proxy in front of it (status {status})",
            "Is Prometheus running, and does the proxy know where? It may be starting or overloaded.",
        )
    if status in (400, 413, 414, 422, 503):
        return f"refuses the query (status {status})", _FEWER if not is_its_own or _TOO_MUCH.search(words) else _QUERY
    if 300 <= status < 400:
        return f"redirects (status {status})", _LOGIN
    return f"fails (status {status})", "Its log, or that of the proxy in front of it, says more."


_QUERY = "Are the names under `match` in workbench.toml, and those of the profile, correct?"


def _own_words(body: bytes) -> str | None:
    """The message of an error in the form of Prometheus' API; None if it has another one, or is none."""
    if len(body) > _SMALL_BYTES or b'"error' not in body:
        return None
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or document.get("status") == "success":
        return None
    said = document.get("error")
    return _line(said) if isinstance(said, str) and said else None


def _is_page(response: requests.Response) -> bool:
    kind = response.headers.get("Content-Type", "").lower()
    return "html" in kind or response.content[:200].lstrip()[:1] == b"<"


def _text(body: bytes, response: requests.Response) -> str:
    """Text of an answer in no form; a page's title says as much as all of it."""
    shown = body[:_SMALL_BYTES].decode(errors="replace")
    if _is_page(response):
        title = re.search(r"<title[^<>]{0,200}>([^<]{1,200})", shown, re.IGNORECASE)
        return _line(title[1]) if title is not None else "a web page"
    return _line(shown[: 4 * _LONGEST])


def _line(text: str) -> str:
    """A server's text on one line, without markup or control characters."""
    plain = re.sub(r"<[^<>]{0,500}>", " ", text[: 4 * _LONGEST])
    return re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", plain).strip().rstrip(".")[:_LONGEST]
