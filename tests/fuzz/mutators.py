"""Make bad inputs of good ones: bytes, JSON and TOML by their structure, and folders of files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from random import Random
from typing import Any

Mutate = Callable[[Random, bytes], bytes]

# What parsers stumble over, as it stands in a text.
TOKENS: tuple[bytes, ...] = (
    *(
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"+Inf",
        b"nan",
        b"1e999",
        b"-1e999",
        b"1e-999",
        b"-0",
        b"-1",
        b"0",
        b"00",
        b"0x1",
    ),
    *(b"9007199254740993", b"2147483648", b"9223372036854775807", b"9223372036854775808", b"18446744073709551616"),
    *(b"9" * 400, b"9" * 5000, b"1e308", b"0." + b"0" * 400 + b"1", b"1_000", b"1.5.5"),
    *(
        b'"\\ud800"',
        b'"\\u0000"',
        b"\\ud83d",
        "²".encode(),
        "١".encode(),
        "é".encode(),
        "\u202e".encode(),
        "\u2028".encode(),
    ),
    *(
        b"\x00",
        b"\xef\xbb\xbf",
        b"\xff\xfe",
        b"\x1b[31m",
        b"\x1b]0;t\x07",
        b"\xc3\x28",
        b"\xed\xa0\x80",
        b"\xf5\x80\x80\x80",
    ),
    *(b"\r", b"\n", b"\r\n", b"\t", b" ", b"\x85", b"\x0b", b"\xe2\x80\xa8"),
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b"'",
        b",",
        b":",
        b"=",
        b"\\",
        b"#",
        b"#" * 3,
        b'"""',
        b"{}",
        b"[]",
        b"null",
        b"true",
        b'""',
    ),
    *(
        b"0001-01-01T00:00:00Z",
        b"9999-12-31T23:59:59.999999Z",
        b"9999-12-31T23:59:59-23:59",
        b"0001-01-01T00:00:00+23:59",
    ),
    *(
        b"2026-02-30T00:00:00Z",
        b"2026-11-21",
        b"24:00",
        b"99999999999999d",
        b"-5m",
        b"P1D",
        b"P9999999999D",
        b"now",
        b"1e9d",
    ),
    *(
        b"${HOME}",
        b"${NOT_SET}",
        b"${",
        b"%s%n",
        b"{0}",
        b"{instance}",
        b"$(id)",
        b"../../etc/passwd",
        b"/dev/zero",
        b"file:///",
    ),
    *(
        b"A" * 10_000,
        b"http://[",
        b"http://user:word@host:99999999/",
        b"&a",
        b"*a",
        b"!!python/object/apply:os.system [id]",
        b"<<: *a",
    ),
)

# The same as values of a document.
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        1.5,
        -0.0,
        math.nan,
        math.inf,
        -math.inf,
        1e308,
        5e-324,
        2**31,
        2**53 + 1,
        2**63,
        2**64,
        -(2**63) - 1,
    ),
    *(
        "",
        " ",
        "0",
        "-1",
        "NaN",
        "1e999",
        "²",
        "\ud800",
        "\x00",
        "\x1b[31m",
        "\u202e",
        "a" * 5000,
        "2026-11-21T03:00:00Z",
        "P9999999999D",
    ),
    *(
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "99999999999999d",
        "http://[",
        "^(a+)+$",
        "(",
        "\n",
        "${NOT_SET}",
    ),
    *([], {}, [[]], [None], {"": None}, {"\x1b": 1}, {"a": {"a": {}}}, [1, "a", None, {}], 10**400),
)

DEEP = (10, 900, 1100, 5000, 100_000)
_MOST_BYTES = 1 << 20  # a mutation of a mutation must not grow for ever


def of_bytes(random: Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """One to four changes of bytes."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        data = random.choice(_BYTE_CHANGES)(random, data, others)[:_MOST_BYTES]
    return data


def _at(random: Random, data: bytes) -> int:
    return random.randrange(len(data) + 1)


def _flip(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    if not data:
        return b"\x00"
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _set(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    at = _at(random, data)
    return data[:at] + random.choice((b"\x00", b"\xff", b"\x7f", b"\x80", random.randbytes(4))) + data[at + 1 :]


def _truncate(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    return data[: _at(random, data)]


def _drop(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start = _at(random, data)
    return data[:start] + data[start + random.choice((1, 2, 8, 64, 512)) :]


def _duplicate(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start, length = _at(random, data), random.choice((1, 4, 16, 128, 1024))
    return data[: start + length] + data[start : start + length] * random.choice((1, 1, 2, 50)) + data[start + length :]


def _splice(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    other = random.choice(others) if others else data
    return data[: _at(random, data)] + other[_at(random, other) :]


def _insert(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    at = _at(random, data)
    return data[:at] + random.choice(TOKENS) + data[at + random.choice((0, 0, 1, 4)) :]


def _run(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A long run of one character, which finds what takes the square of its length."""
    at = _at(random, data)
    one = random.choice((data[at : at + 1] or b" ", *(bytes([it]) for it in b'<({["\\ 90a.-,=\n\t')))
    return data[:at] + one * random.choice((1000, 30_000, 300_000)) + data[at:]


def _nest(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    at, depth = _at(random, data), random.choice(DEEP)
    opening, closing = random.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"{a=", b"}"), (b"(", b")"), (b"- ", b"")))
    return data[:at] + opening * depth + random.choice((b"", b"1", closing * depth)) + data[at:]


def _replace_word(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """A number or word gives way to a token, which finds places that an insertion would break."""
    at = _at(random, data)
    words = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-"
    start = next((n for n in range(at, len(data)) if data[n] in words), len(data))
    end = next((n for n in range(start, len(data)) if data[n] not in words), len(data))
    return data[:start] + random.choice(TOKENS) + data[end:]


_BYTE_CHANGES = (
    *(
        _flip,
        _set,
        _truncate,
        _drop,
        _duplicate,
        _splice,
        _insert,
        _insert,
        _replace_word,
        _replace_word,
        _replace_word,
        _nest,
        _run,
    ),
)


def of_document(random: Random, document: Any) -> Any:
    """The document with one to three places changed: a key less, twice, renamed, or a value of another type or size."""
    document = _copy(document)
    for _ in range(random.choice((1, 1, 2, 3))):
        places = list(_places(document))
        if not places:
            return random.choice(VALUES)
        holder, key = random.choice(places)
        how = random.randrange(10)
        if how < 5:
            alike = [it for it in VALUES if isinstance(it, (int, float)) == isinstance(holder[key], (int, float))]
            holder[key] = _copy(random.choice(VALUES if how < 2 else alike))
        elif how == 5:
            del holder[key]
        elif how == 6 and isinstance(holder, dict):
            holder[random.choice(("", "x", "\x1b[0m", "é", "a" * 3000, "__class__", "\ud800"))] = holder.pop(key)
        elif how == 7 and isinstance(holder, list):
            holder.extend([holder[key]] * random.choice((1, 3, 100)))
        elif how == 8:
            holder[key] = random.choice(([holder[key]], {"a": holder[key]}, str(holder[key])))
        else:
            other, name = random.choice(places)
            if name in other if isinstance(other, dict) else name < len(other):
                holder[key] = _copy(other[name])
    return document


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, (list, tuple)) else value


def _places(value: Any) -> Any:
    """(holder, key) of everything inside."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(items):
        yield value, key
        yield from _places(item)


def json_text(document: Any, *, compact: bool = True) -> bytes:
    """As a server writes it; half surrogates as escapes, NaN as it may come."""
    return json.dumps(document, separators=(",", ":") if compact else None).encode()


def of_json(random: Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """By structure, by bytes, or by both."""
    if random.random() < 0.6:
        data = json_text(of_document(random, json.loads(data)), compact=random.random() < 0.7)
        if random.random() < 0.7:
            return data
    return of_bytes(random, data, others)


def toml_text(document: Mapping[str, Any]) -> bytes:
    """TOML with every table inline: enough to carry a document's values."""
    return b"\n".join(
        f"{_key(name)} = {_toml(value)}".encode(errors="surrogatepass") for name, value in document.items()
    )


def _key(name: str) -> str:
    return json.dumps(name, ensure_ascii=True)


def _toml(value: Any) -> str:
    if value is None:
        return '""'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, (int, datetime, date)):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(name)} = {_toml(item)}" for name, item in value.items()) + "}"
    return json.dumps(str(value))


def of_toml(random: Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """By structure, by bytes, or by both."""
    import tomllib

    if random.random() < 0.6:
        found = of_document(random, tomllib.loads(data.decode()))
        data = toml_text(found if isinstance(found, dict) else {"x": found})
        if random.random() < 0.7:
            return data
    return of_bytes(random, data, others)


def of_lines(random: Random, data: bytes, others: Sequence[bytes] = ()) -> bytes:
    """JSON lines: one changed by structure, or lines exchanged, or bytes."""
    lines = data.splitlines()
    how = random.random()
    if how < 0.5 and lines:
        at = random.randrange(len(lines))
        lines[at] = of_json(random, lines[at])
    elif how < 0.7:
        random.shuffle(lines)
        lines = lines * random.choice((1, 2, 30))
    else:
        return of_bytes(random, data, others)
    return b"\n".join(lines) + random.choice((b"\n", b""))


def typed_time(random: Random) -> bytes:
    """A time as a person types it, or what becomes of it by a slip."""
    text = _a_time(random)
    return (of_text(random, text) if random.random() < 0.4 else text).encode(errors="surrogateescape")


def _a_time(random: Random) -> str:
    """A span or an instant as a person types it, with the right marks and any numbers."""
    number = random.choice(
        ("0", "1", "15", "1.5", "90", "00", "1e3", "99999", "999999999999", "-3", "²", "0." + "0" * 30 + "1")
    )
    how = random.randrange(4)
    if how < 2:
        spans = "".join(
            number + random.choice(("ms", "s", "m", "h", "d", "w", "M", "y", ""))
            for _ in range(random.choice((1, 1, 2, 5)))
        )
        return spans + random.choice(("", " ago", "ago", " AGO "))
    if how == 2:
        return random.choice(("now", " NOW ", "now ", "now ago", "ago", "1h  ago"))
    year = random.choice((1, 1969, 1970, 2026, 2026, 2026, 2999, 9999, 10_000))
    day = f"{year:04}-{random.randint(0, 13):02}-{random.randint(0, 32):02}"
    zone = random.choice(("Z", "+00:00", "+23:59", "-23:59", "+24:00", "+08", "", "+00:00:00.000001", " Z"))
    clock = f"{random.randint(0, 24):02}:{random.randint(0, 60):02}:00{random.choice(('', '.123456789'))}"
    return f"{day}{random.choice('T t')}{clock}{zone}"


def of_text(random: Random, text: str) -> str:
    """A short text typed by a person."""
    return of_bytes(random, text.encode()).decode(errors=random.choice(("replace", "surrogateescape")))
