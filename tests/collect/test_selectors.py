"""Rules of selectors: what is written is read back, and no name breaks out of its quotes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.collect.selectors import LabelMatcher, MatcherType, one_of, parse_selector, quoted, to_promql


@pytest.mark.parametrize(
    ("text", "matchers"),
    [
        ("lag", [("__name__", "=", "lag")]),
        ('lag{a="b"}', [("__name__", "=", "lag"), ("a", "=", "b")]),
        ('{a=~"b|c", d!="e",f!~"g.*"}', [("a", "=~", "b|c"), ("d", "!=", "e"), ("f", "!~", "g.*")]),
        (r'{a="q\"u\\o\nte}"}', [("a", "=", 'q"u\\o\nte}')]),
        ('{a="é"}', [("a", "=", "é")]),
        ("job:lag:sum { }", [("__name__", "=", "job:lag:sum")]),
    ],
)
def test_selectors_are_read_as_promql_writes_them(text: str, matchers: list[tuple[str, str, str]]) -> None:
    """And written back so that they are read the same."""
    kinds = {"=": MatcherType.EQUAL, "!=": MatcherType.NOT_EQUAL, "=~": MatcherType.REGEX, "!~": MatcherType.NOT_REGEX}
    wanted = [LabelMatcher(kinds[operator], name, value) for name, operator, value in matchers]
    assert parse_selector(text) == wanted
    assert parse_selector(to_promql(wanted)) == wanted


@pytest.mark.parametrize("name", ['it"s', "back\\slash", "new\nline", "plain", "üñï", "a|b.*"])
def test_names_are_escaped_into_matchers(name: str) -> None:
    """A group's name can close no string and start no expression."""
    single = to_promql([one_of("group", [name])])
    assert single.startswith('{group="')
    assert single.endswith('"}')
    inside = single[len('{group="') : -2]
    assert '"' not in inside.replace("\\\\", "").replace('\\"', "")
    assert "\n" not in inside
    several = to_promql([one_of("group", [name, "other"])])
    assert several.startswith('{group=~"')
    assert "\n" not in several


@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_quoting_can_be_undone(text: str) -> None:
    """Nothing is lost: the escapes are those of Go's strings."""
    shown = quoted(text).replace("\\\\", "\0").replace('\\"', '"').replace("\\n", "\n").replace("\0", "\\")
    if "\0" not in text:
        assert shown == text
