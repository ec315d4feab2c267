"""Series selectors: label matchers, parsed from PromQL and formatted as PromQL, with any characters in the values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from workbench.profiles.labels_in_metric_names import pattern, places


class MatcherType(IntEnum):
    """Comparison of a label's value."""

    EQUAL = 0
    NOT_EQUAL = 1
    REGEX = 2
    NOT_REGEX = 3


@dataclass(frozen=True, slots=True)
class LabelMatcher:
    """One condition on a label."""

    type: MatcherType
    name: str
    value: str


_OPERATORS = {
    "=": MatcherType.EQUAL,
    "!=": MatcherType.NOT_EQUAL,
    "=~": MatcherType.REGEX,
    "!~": MatcherType.NOT_REGEX,
}
_SELECTOR = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)?\s*(?:\{(.*)\})?\s*", re.DOTALL)
_MATCHER = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"\s*(,|$)', re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def parse_selector(text: str) -> list[LabelMatcher]:
    """Parse the matchers of a PromQL vector selector.

    Raises:
        ValueError: if it is something else (a function, an operator).
    """
    whole = _SELECTOR.fullmatch(text)
    if whole is None or not (whole[1] or whole[2]):
        raise ValueError(f'prometheus: {text!r} is not a plain selector such as metric{{label="value"}}')
    found = [LabelMatcher(MatcherType.EQUAL, "__name__", whole[1])] if whole[1] else []
    at, inside = 0, whole[2] or ""
    while at < len(inside) and inside[at:].strip():
        match = _MATCHER.match(inside, at)
        if match is None:
            raise ValueError(f"prometheus: {text!r} has a matcher that cannot be read: {inside[at:][:40]!r}")
        value = re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), match[3])
        found.append(LabelMatcher(_OPERATORS[match[2]], match[1], value))
        at = match.end()
    return found


def matchers_of(match: Mapping[str, str]) -> tuple[LabelMatcher, ...]:
    """Matchers of the settings: label to a value, or to an operator and a pattern ("=~prod-.*", "!=test", "!~test-.*")."""
    found = []
    for name, value in match.items():
        operator = next((text for text in ("=~", "!~", "!=") if value.startswith(text)), "")
        found.append(LabelMatcher(_OPERATORS[operator or "="], name, value.removeprefix(operator)))
    return tuple(found)


def to_promql(matchers: Iterable[LabelMatcher]) -> str:
    """Format matchers as PromQL."""
    operators = {kind: text for text, kind in _OPERATORS.items()}
    return "{" + ",".join(f'{item.name}{operators[item.type]}"{quoted(item.value)}"' for item in matchers) + "}"


def one_of(name: str, values: Sequence[str]) -> LabelMatcher:
    """Make the matcher for one or several exact values of a label."""
    if len(values) == 1:
        return LabelMatcher(MatcherType.EQUAL, name, values[0])
    return LabelMatcher(MatcherType.REGEX, name, "|".join(re.escape(value) for value in values))


def named(metrics: Sequence[str]) -> LabelMatcher:
    """Make the matcher for metrics by the names of a profile, which may have places for labels."""
    if not any(map(places, metrics)):
        return one_of("__name__", metrics)
    return LabelMatcher(MatcherType.REGEX, "__name__", "|".join(map(pattern, metrics)))


def quoted(text: str) -> str:
    """Quote a text as a PromQL string in double quotes."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
