"""Secrets kept out of every text: those that this process was given, and what looks like one in a text of somebody else.

Errors, logs, journals, reports and JSON all go through `masked`. A secret is known from the moment at which a setting brings it in
(`remember`); a library that puts a URL or a header into its message is caught by its shape.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

MASK = "***"
_SHORTEST = 4  # shorter "secrets" would mask ordinary words
_UNMISTAKABLE = 8  # shorter ones are masked as whole words only: "kafka" as a password must not change "kafka-exporter"

# Properties of librdkafka and of Java clients whose values are secrets; `ssl.key.location` and `sasl.oauthbearer.method` are none.
_SECRET_NAME = re.compile(
    r"password|passphrase|secret|jaas|key\.pem|private\.key$|oauthbearer\.config|token$", re.IGNORECASE
)
_SHAPES = (
    # The user and password of a URL. A password may hold "/" or "?" that nobody has quoted.
    (re.compile(r"(?<=://)(?:[^\s/?#@]*|[^\s/?#@:]*:[^\s\"'<>]*)@"), f"{MASK}@"),
    (re.compile(r"(?i)(\bauthorization\\*[\"']?\s*[:=]\s*\\*[\"']?)(?:(?:bearer|basic|token|apikey)\s+)?[^\s\"'\\,}]+"), rf"\1{MASK}"),
    (re.compile(r"(\b[Bb]earer\s+)(?!(?:tokens?|authentication|authorization)(?![\w.~+/=-]))[\w.~+/=-]{8,}"), rf"\1{MASK}"),
    # name="value", as in JAAS, in JSON and in the repr of a dict
    (
        re.compile(
            r"(?i)((?:password|passphrase|passwd|secret|token|api[_-]?key|credential)s?\\*[\"']?\s*[=:]\s*)"
            r"(\\*[\"'])(?!\$\{)(?:(?!\2).)+\2"
        ),
        rf"\1\2{MASK}\2",
    ),
    # name=value, as in the parameters of a URL: ;token=… of Spark Connect, ?access_token=… of others
    (
        re.compile(
            r"(?i)((?:password|passphrase|passwd|secret|token|api[_-]?key|credential)s?=)(?![\"'\\]|\$\{)[^\s;,&\"'\\<>}\)]+"
        ),
        rf"\1{MASK}",
    ),
)  # fmt: skip
_known: dict[str, tuple[str, ...]] = {}


def remember(*secrets: str | None) -> None:
    """Mask these from now on, wherever this process writes."""
    for secret in secrets:
        if secret and len(secret) >= _SHORTEST and secret != MASK:
            _known.setdefault(secret, _spellings(secret))


def secret_values(properties: Mapping[str, object]) -> list[str]:
    """The values of a Kafka client's properties that are secrets."""
    return [str(value) for name, value in properties.items() if _SECRET_NAME.search(name)]


def secrets_in_header(value: str) -> list[str]:
    """A header's value, and the token alone of "Bearer …"."""
    return [value, *value.split()[1:]]


def secrets_in_url(url: str) -> list[str]:
    """The password of a URL, or its user where that stands alone, as it is written and as it is meant."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return []
    found = parts.password or ("" if parts.password is not None else parts.username or "")
    return [found, unquote(found)]


def secrets_in_connection(url: str) -> list[str]:
    """The token of Spark Connect's `sc://host:port/;token=…;…`, and whatever else its parameters call a secret."""
    pairs = [part.partition("=") for part in url.split(";")[1:]]
    return [*(value for name, _, value in pairs if _SECRET_NAME.search(name)), *secrets_in_url(url)]


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without secrets: those known to the process, those given, and what has the shape of one."""
    spelled = {**_known, **{it: _spellings(it) for it in secrets if len(it) >= _SHORTEST and it not in _known}}
    for secret in sorted(spelled, key=len, reverse=True):
        for spelling in spelled[secret]:
            if spelling not in text:
                continue
            if len(secret) >= _UNMISTAKABLE:
                text = text.replace(spelling, MASK)
            else:
                text = re.sub(rf"(?<![\w.-]){re.escape(spelling)}(?![\w.-])", MASK, text)
    for shape, instead in _SHAPES:
        text = shape.sub(instead, text)
    return text


def masked_document(value: Any) -> Any:
    """A JSON document with every text in it masked, keys too."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, Mapping):
        return {masked(key) if isinstance(key, str) else key: masked_document(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked_document(item) for item in value]
    return value


def _spellings(secret: str) -> tuple[str, ...]:
    """A secret as texts hold it: plain, in JSON, in a repr, in a URL; the longest first."""
    found = {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        quote(secret, safe="", errors="replace"),
        quote(secret, errors="replace"),
        quote_plus(secret, errors="replace"),
    }
    return tuple(sorted(found, key=len, reverse=True))
