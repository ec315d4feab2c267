"""Selection of dead letters: by error, time, offset, key, source topic and header expression."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import translate

from pydantic import Field, field_validator

from workbench.plans.strict_document import StrictDocument
from workbench.redrive.letter_headers import Headers, Letter, Origin

_EXPRESSION = re.compile(r"(?P<not>!?)(?P<name>[^=~!\s][^=~!]*)(?:(?P<op>!=|!~|=|~)(?P<value>.*))?", re.DOTALL)
_MAX_MATCHED = 4096  # bytes of a header that a pattern sees
Test = Callable[[Letter, Origin], bool]


class Selection(StrictDocument):
    """Which letters a plan takes; an empty list or None selects all. All conditions must hold.

    Attributes:
        errors, sources: patterns such as `*Timeout*` of error classes and of source topics.
        since_ms, until_ms: of the letter's timestamp, ms since the epoch, the end exclusive.
        offsets: ranges `partition:first-last`, the last included.
        keys: exact keys, as UTF-8 text.
        headers: `name`, `!name`, `name=value`, `name!=value`, `name~pattern`, `name!~pattern`.
        most: no more than this number of letters, the oldest positions first.
    """

    errors: list[str] = Field(default_factory=list)
    sources: list[str] = Field(default_factory=list)
    since_ms: int | None = None
    until_ms: int | None = None
    offsets: list[str] = Field(default_factory=list)
    keys: list[str] = Field(default_factory=list)
    headers: list[str] = Field(default_factory=list)
    most: int | None = Field(default=None, ge=1)

    @field_validator("headers")
    @classmethod
    def _expressions(cls, value: list[str]) -> list[str]:
        for text in value:
            header_test(text)
        return value

    @field_validator("offsets")
    @classmethod
    def _ranges(cls, value: list[str]) -> list[str]:
        for text in value:
            offset_range(text)
        return value

    def test(self) -> Test:
        """Make the test of one letter."""
        tests: list[Test] = []
        if self.errors:
            errors = _any_of(self.errors)
            tests.append(lambda _letter, origin: errors(origin.error) is not None)
        if self.sources:
            sources = _any_of(self.sources)
            tests.append(lambda _letter, origin: origin.topic is not None and sources(origin.topic) is not None)
        if self.since_ms is not None:
            since = self.since_ms
            tests.append(lambda letter, _origin: letter.timestamp_ms >= since)
        if self.until_ms is not None:
            until = self.until_ms
            tests.append(lambda letter, _origin: letter.timestamp_ms < until)
        if self.offsets:
            ranges: dict[int, list[tuple[int, int]]] = {}
            for text in self.offsets:
                number, first, last = offset_range(text)
                ranges.setdefault(number, []).append((first, last))
            tests.append(lambda it, _origin: any(a <= it.offset <= b for a, b in ranges.get(it.partition, ())))
        if self.keys:
            keys = frozenset(key.encode() for key in self.keys)
            tests.append(lambda letter, _origin: letter.key in keys)
        for text in self.headers:
            by_header = header_test(text)
            tests.append(lambda letter, _origin, by_header=by_header: by_header(letter.headers))  # type: ignore[misc]
        return lambda letter, origin: all(test(letter, origin) for test in tests)


def _any_of(patterns: Sequence[str]) -> Callable[[str], object]:
    return re.compile("|".join(translate(pattern) for pattern in patterns)).match


def offset_range(text: str) -> tuple[int, int, int]:
    """Partition, first and last offset of `3:100-200`, `3:100-` or `3:100`.

    Raises:
        ValueError: if it is none.
    """
    match = re.fullmatch(r"(\d{1,9}):(\d{1,18})(-(\d{0,18}))?", text, flags=re.ASCII)
    if match is None:
        raise ValueError(f"{text[:60]!r} is not partition:first-last")
    first = int(match[2])
    last = first if match[3] is None else int(match[4]) if match[4] else (1 << 62)
    if last < first:
        raise ValueError(f"{text[:60]!r} ends before it begins")
    return int(match[1]), first, last


def header_test(text: str) -> Callable[[Headers], bool]:
    """Make the test of a header expression; the last header of the name counts.

    Raises:
        ValueError: if it is not one, or its pattern is not valid.
    """
    match = _EXPRESSION.fullmatch(text)
    if match is None or (match["not"] and match["op"]):
        raise ValueError(f"{text[:80]!r} is not a header expression such as name=value, name~pattern, name or !name")
    name, op, value = match["name"], match["op"], match["value"]
    if op is None:
        wanted = not match["not"]
        return lambda headers: any(it == name for it, _ in headers) is wanted
    if "~" in op:
        try:
            pattern = re.compile(value)
        except (re.error, RecursionError) as error:
            raise ValueError(f"{text[:80]!r}: the pattern is not valid: {error}") from None

    def test(headers: Headers) -> bool:
        found = next((content for it, content in reversed(headers) if it == name), None)
        if found is None:
            return op.startswith("!")
        words = found[:_MAX_MATCHED].decode(errors="replace")
        same = words == value if "=" in op else pattern.search(words) is not None
        return same is not op.startswith("!")

    return test
