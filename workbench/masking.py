"""Masking of secrets in all output: known secrets, and foreign text that looks like a secret.

Errors, logs, journals, reports and JSON all go through `masked`. A secret is known as soon as a setting contains it (`remember`).
Secrets in a library's messages, such as a URL or a header, are recognised by their form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

MASK = "***"
_SHORTEST = 4  # shorter "secrets" would mask ordinary words
_UNMISTAKABLE = 8  # shorter ones are masked as whole words only: "kafka" as a password must not change "kafka-exporter"

# Properties of librdkafka and of Java clients with secret values; `ssl.key.location` and `sasl.oauthbearer.method` are not secret.
_SECRET_NAME = re.compile(
    r"password|passphrase|secret|jaas|key\.pem|private\.key$|oauthbearer\.config|token$", re.IGNORECASE
)
_NAMED = r"(?:password|passphrase|passwd|secret|token|api[_-]?key|credential)s?"
_CREDENTIAL = re.compile(rf"authori[sz]ation|cookie|signature|{_NAMED}|[_-]key$", re.IGNORECASE)
# Each takes linear time: what one start has read, no other start reads again. What needs a search for an end is in `_urls_masked` and
# `_quotes_masked`.
_SHAPES = (
    (re.compile(r"(?i)(\bauthorization\\*[\"']?\s*[:=]\s*\\*[\"']?)(?:(?:bearer|basic|token|apikey)\s+)?[^\s\"'\\,}]+"), rf"\1{MASK}"),
    (re.compile(r"(\b[Bb]earer\s+)(?!(?:tokens?|authentication|authorization)(?![\w.~+/=-]))[\w.~+/=-]{8,}"), rf"\1{MASK}"),
    # name=value, as in the parameters of a URL: ;token=… of Spark Connect, ?access_token=… of others
    (re.compile(rf"(?i)({_NAMED}=)(?![\"'\\]|\$\{{)[^\s;,&\"'\\<>}}\)]+"), rf"\1{MASK}"),
)  # fmt: skip
_QUOTED = re.compile(rf"(?i){_NAMED}\\*[\"']?\s*[=:]\s*(\\*)([\"'])(?!\$\{{)")  # up to the value's opening quote
_MOST_BACKSLASHES = 15  # before a quote: JSON in JSON, four times
_USER_END = re.compile(r"[\s/?#@]")
_PASSWORD_END = re.compile(r"[\s\"'<>]")
_MARGIN = 16 << 10  # a secret is shorter
_CONTEXT = 2 * _MARGIN  # masks are shorter than what they hide, so more is read than shown
_known: dict[str, tuple[str, ...]] = {}


def remember(*secrets: str | None) -> None:
    """Mask these values from now on, in all output of this process."""
    for secret in secrets:
        if secret and len(secret) >= _SHORTEST and secret != MASK:
            _known.setdefault(secret, _spellings(secret))


def secret_values(properties: Mapping[str, object]) -> list[str]:
    """Secret values among a Kafka client's properties."""
    return [str(value) for name, value in properties.items() if _SECRET_NAME.search(name)]


def is_secret_name(name: str) -> bool:
    """Whether a Kafka client's property of this name has a secret value."""
    return _SECRET_NAME.search(name) is not None


def names_credential(header: str) -> bool:
    """Whether an HTTP header of this name says who asks: its value is renewed, and chooses nothing."""
    return _CREDENTIAL.search(header) is not None


def secrets_in_header(value: str) -> list[str]:
    """Secrets of a header: its value, and the token of "Bearer …"."""
    return [value, *value.split()[1:]]


def secrets_in_url(url: str) -> list[str]:
    """Password of a URL, or a user without a password; as written, and decoded."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return []
    found = parts.password or ("" if parts.password is not None else parts.username or "")
    return [found, unquote(found)]


def secrets_in_connection(url: str) -> list[str]:
    """Token of Spark Connect's `sc://host:port/;token=…;…`, and other secret parameters."""
    pairs = [part.partition("=") for part in url.split(";")[1:]]
    return [*(value for name, _, value in pairs if _SECRET_NAME.search(name)), *secrets_in_url(url)]


def secrets_in_database(url: str) -> list[str]:
    """Password of a database's URL and its other secret parameters; as written, and decoded. A user alone is none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return []
    found = [parts.password or "", *(value for name, value in parse_qsl(parts.query) if _SECRET_NAME.search(name))]
    return [form for it in found for form in (it, unquote(it))]


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """Mask secrets in a text: known ones, given ones, and text that looks like one."""
    spelled = {**_known, **{it: _spellings(it) for it in secrets if len(it) >= _SHORTEST and it not in _known}}
    for secret in sorted(spelled, key=len, reverse=True):
        for spelling in spelled[secret]:
            if spelling not in text:
                continue
            if len(secret) >= _UNMISTAKABLE:
                text = text.replace(spelling, MASK)
            else:
                text = re.sub(rf"(?<![\w.-]){re.escape(spelling)}(?![\w.-])", MASK, text)
    text = _urls_masked(text)
    for shape, instead in _SHAPES[:2]:
        text = shape.sub(instead, text)
    text = _quotes_masked(text)
    for shape, instead in _SHAPES[2:]:
        text = shape.sub(instead, text)
    return text


def masked_start(text: str, most: int) -> str:
    """Mask the beginning of a text of any length, and cut it to `most` characters.

    A secret that the cut halves has no end any more and is not recognised, so more is masked, and a margin at the cut is left out.
    """
    if len(text) <= most + _CONTEXT:
        return masked(text)[:most]
    return masked(text[: most + _CONTEXT])[:-_MARGIN][:most]


def masked_ends(text: str, most: int) -> str:
    """Mask a text of any length; of a long one only the first and the last `most` characters are left, with "…" between."""
    if len(text) <= 2 * (most + _CONTEXT):
        return masked(text)
    return f"{masked_start(text, most)} … {masked(text[-most - _CONTEXT :])[_MARGIN:][-most:]}"


def _urls_masked(text: str) -> str:
    """Mask user and password of each URL. A password may contain unquoted "/" or "?", and ends at the last "@" of its word.

    Linear: a user ends before the next "://" begins, and the end of a word and its last "@" are looked up once for each word.
    """
    parts: list[str] = []
    done = at = word_end = 0
    last = -1
    while (at := text.find("://", at)) >= 0:
        at += 3
        stop = _USER_END.search(text, at)
        if stop is None or stop[0] != "@":
            colon = text.find(":", at, stop.start() if stop is not None else len(text))
            if colon < 0:
                continue
            if colon >= word_end:
                end = _PASSWORD_END.search(text, colon)
                word_end = end.start() if end is not None else len(text)
                last = text.rfind("@", colon, word_end)
            if last <= colon:
                continue
            stop_at = last
        else:
            stop_at = stop.start()
        parts += [text[done:at], MASK]
        done = at = stop_at
    return "".join([*parts, text[done:]]) if parts else text


def _quotes_masked(text: str) -> str:
    """Mask name="value", as in JAAS, JSON and the repr of a dict; the value ends at the same quote, on the same line.

    Linear: the next closing quote of each kind is looked up again only behind the one found before.
    """
    parts: list[str] = []
    done = at = 0
    known: dict[tuple[Callable[[str, str, int], int], str], int] = {}

    def end_of(find: Callable[[str, str, int], int], mark: str, at: int) -> int:
        if known.get((find, mark), -1) < at:
            found = find(text, mark, at)
            known[find, mark] = found if found >= 0 else len(text)
        return known[find, mark]

    while (head := _QUOTED.search(text, at)) is not None:
        at = head.end()
        quote_mark = head[1][-_MOST_BACKSLASHES:] + head[2]
        line_end = end_of(str.find, "\n", at)
        end = end_of(_closing, quote_mark, at)
        if end >= line_end:  # a backslash may be the last character of a value
            end = end_of(str.find, quote_mark, at)
        if at < end < line_end:
            parts += [text[done:at], MASK]
            done, at = end, end + len(quote_mark)
    return "".join([*parts, text[done:]]) if parts else text


def _closing(text: str, mark: str, at: int) -> int:
    """Where the next mark is that no further backslash escapes; -1 if there is none.

    A quote within a value has one backslash more than the value's own quotes have, doubled for each of theirs.
    """
    unit = len(mark)  # its backslashes, and one
    while (found := text.find(mark, at)) >= 0:
        more = found
        while more > at and text[more - 1] == "\\":
            more -= 1
        if (found - more) // unit % 2 == 0:
            return found
        at = found + len(mark)
    return -1


def masked_document(value: Any) -> Any:
    """Mask all texts of a JSON document, including keys."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, Mapping):
        return {masked(key) if isinstance(key, str) else key: masked_document(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked_document(item) for item in value]
    return value


def _spellings(secret: str) -> tuple[str, ...]:
    """Spellings of a secret in texts: plain, in JSON, in a repr, in a URL; longest first."""
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
