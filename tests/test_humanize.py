"""Rules of numbers and names in words."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.humanize import (
    clock,
    count,
    duration,
    first_line,
    listed,
    one_line,
    percent,
    printable,
    quantity,
    shell_word,
    times,
    unit_words,
)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "unknown"),
        (float("nan"), "unknown"),
        (0, "0 s"),
        (0.0004, "0.4 ms"),
        (0.412, "412 ms"),
        (0.9999, "1.0 s"),
        (8.24, "8.2 s"),
        (59.7, "1 min"),
        (1120, "18 min 40 s"),
        (18_600, "5 h 10 min"),
        (200_000, "2 d 7 h"),
        (-3, "-3.0 s"),
    ],
)
def test_durations(seconds: float | None, shown: str) -> None:
    """Two units at the most; a missing value is "unknown", never 0."""
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [(None, "unknown"), (0, "0"), (950, "950"), (12_345, "12.3 k"), (1_240_000, "1.24 M"), (0.5, "0.5")],
)
def test_counts(number: float | None, shown: str) -> None:
    """Three digits at the most."""
    assert count(number) == shown


def test_small_words() -> None:
    """Shares, factors and lists."""
    assert percent(0.964) == "96 %"
    assert (times(31.2), times(1.52)) == ("31 ×", "1.5 ×")
    assert listed([1, 4, 7]) == "1, 4 and 7"
    assert listed(range(20), most=3) == "0, 1, 2 and 17 more"
    assert listed([]) == ""


HOSTILE = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=40)


@given(HOSTILE)
def test_printable_text_cannot_steer_a_terminal(text: str) -> None:
    """No control character, no line break and no change of direction comes through."""
    for shown in (printable(text), one_line(text)):
        assert all(character.isprintable() or character == " " or ord(character) > 0x9F for character in shown)
        assert not set(shown) & set("\x1b\n\r\u202e\u2028")


@given(HOSTILE)
@settings(max_examples=60)
def test_a_shell_word_is_one_word_on_one_line(text: str) -> None:
    """Whatever a broker calls its groups, a copied command means that name and nothing else."""
    word = shell_word(text)
    assert "\n" not in word
    answer = subprocess.run(["bash", "-c", f"printf '%s.' {word}"], capture_output=True, check=True)
    assert answer.stdout == (text + ".").encode()


def test_an_error_is_told_by_its_first_line() -> None:
    """Or by its kind, if it says nothing."""
    assert first_line(RuntimeError("refused\n\tat org.apache...")) == "refused"
    assert first_line(ValueError()) == "ValueError"


@pytest.mark.parametrize(
    ("value", "unit", "shown", "words"),
    [
        (0.231, "s", "231 ms", ""),
        (0.000222, "s", "0.222 ms", ""),
        (12.0, "s since the last sample", "12 s", "since the last sample"),
        (0.94, "of capacity", "94 %", "of capacity"),
        (56.0, "× its baseline", "56 ×", "its baseline"),
        (3615.0, "messages", "3,615", "messages"),
        (None, "s", "unknown", ""),
    ],
)
def test_a_quantity_has_its_unit_once(value: float | None, unit: str, shown: str, words: str) -> None:
    """In the value or beside it, and a small one is not 0."""
    assert (quantity(value, unit), unit_words(unit)) == (shown, words)


def test_a_time_has_its_date_unless_it_is_of_today() -> None:
    """An incident of four days ago did not begin this afternoon."""
    at = datetime(2026, 11, 21, 13, 17, 50, tzinfo=UTC)
    assert clock(at, now=at + timedelta(hours=2)) == "13:17:50 UTC"
    assert clock(at, now=at + timedelta(days=4)) == "2026-11-21 13:17:50 UTC"
    assert clock(at) == "2026-11-21 13:17:50 UTC"
