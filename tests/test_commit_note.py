"""Rules of the metadata of commits: what was written is read, and what others have written says nothing false."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.commit_note import MOST_RANGES, CommitNote, format_note, merged, parse_note

_OFFSETS = st.integers(0, 2**63 - 2)
_RANGES = st.lists(st.tuples(_OFFSETS, _OFFSETS).map(lambda it: (min(it), max(it) + 1)), max_size=80)


@pytest.mark.parametrize(
    ("note", "text"),
    [
        (CommitNote(), ""),
        (CommitNote(topic_id="c:one"), "topic-id=c:one"),
        (CommitNote(skipped=((50, 800),)), "skipped=50-799"),
        (CommitNote(topic_id="c:one", skipped=((50, 800), (900, 901))), "skipped=50-799,900-900 topic-id=c:one"),
        (CommitNote(topic_id="c:one", is_readable=False), "skipped=? topic-id=c:one"),
        (CommitNote(topic_id="c:one", partitions=4, audit=7), "audit=7 partitions=4 topic-id=c:one"),
        (CommitNote(topic_id="c:one", partitions=4, ranges="0c1d2e3f"), "ranges=0c1d2e3f partitions=4 topic-id=c:one"),
    ],
)
def test_a_note_has_one_text(note: CommitNote, text: str) -> None:
    """The id alone is the text of earlier versions; with ranges it does not begin with it, so those take it for no note."""
    assert format_note(note) == text
    assert parse_note(text) == note


@pytest.mark.parametrize(
    "text", [None, "", "committed by ops", "topic-id=", "topic-id=AAAAAAAAAAAAAAAAAAAAAA", "later=7"]
)
def test_metadata_of_others_say_nothing(text: str | None) -> None:
    """Any client may put anything there."""
    assert parse_note(text) == CommitNote()


@pytest.mark.parametrize(
    "said", ["", "x", "5", "9-3", "1-2,", "-1-4", "1-99999999999999999999", "１-２", "0-9223372036854775808"]
)
def test_a_range_that_cannot_be_read_is_not_nothing(said: str) -> None:
    """Something was skipped: a proof of what was read is no longer possible, and the next commit says so, too."""
    note = parse_note(f"skipped={said} topic-id=c:one")
    assert (note.is_readable, note.proves_reading, note.topic_id) == (False, False, "c:one")
    assert not parse_note(format_note(note)).is_readable


@given(_RANGES)
def test_ranges_come_back_and_cover_what_was_skipped(ranges: list[tuple[int, int]]) -> None:
    """Joined where there are too many: more may be told than was skipped, never less; the text fits into a commit."""
    text = format_note(CommitNote(topic_id="c" * 22 + ":" + "t" * 22, skipped=tuple(ranges)))
    found = parse_note(text).skipped
    assert found == merged(ranges)
    assert len(found) <= MOST_RANGES
    assert len(text) < 2048
    assert all(any(first <= start and end <= last for first, last in found) for start, end in ranges)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(found))


def test_what_was_skipped_of_a_window() -> None:
    """Offsets of the window only."""
    note = CommitNote(skipped=((50, 800), (900, 901)))
    assert [note.skipped_within(*it) for it in ((0, 50), (0, 51), (100, 1000), (801, 900), (900, 901))] == [
        0,
        1,
        701,
        0,
        1,
    ]


def test_more_ranges_than_a_commit_has_are_not_joined() -> None:
    """Anybody may store them, and joining takes a time that grows with their square."""
    ranges = [f"{2 * at}-{2 * at}" for at in range(100_000)]
    assert len(parse_note("skipped=" + ",".join(ranges[:MOST_RANGES])).skipped) == MOST_RANGES
    for number in (MOST_RANGES + 1, 100_000):
        note = parse_note("skipped=" + ",".join(ranges[:number]))
        assert (note.is_readable, note.skipped) == (False, ())
