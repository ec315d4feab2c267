"""Commits that go to and fro between two positions: those of two readers or two clusters under one name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from workbench.history.offset_jumps import has_swung, times_to_and_fro
from workbench.history.partition_histories import read
from workbench.history.partition_series import Bounds, Track
from workbench.judgement_numbers import SEVERAL
from workbench.samples import SERIES_ORDER, SampleBatch
from workbench.thresholds import Thresholds
from workbench.window import Window

LIMITS = Bounds(objective=120.0, commit_every=0.0, window_start=-900.0)
AT = np.arange(-4500.0, 0.1, 30.0) - 7
RATE, APART = 50.0, 200_000.0
END = Track(AT, np.floor(1e6 + RATE * (AT + 5000)))
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def times(shown: np.ndarray) -> int:
    """Of commits as an exporter shows them."""
    return times_to_and_fro(Track(AT, shown), END, 30.0, LIMITS)


@pytest.mark.parametrize("every", [1, 2, 3, 4])
def test_each_turn_between_two_positions_counts(every: int) -> None:
    """However often the one or the other is seen, and wherever the second one is."""
    other = np.arange(len(AT)) // every % 2 == 0
    for second in (END.value - APART, np.full(len(AT), 700_000.0)):
        assert times(np.where(other, second, END.value - 5)) >= SEVERAL


def test_what_happens_once_or_before_the_window_is_nothing_of_the_kind() -> None:
    """A reset, an exporter that starts, a job that reads all of it again and again, and hand-overs that do some seconds twice."""
    assert times(np.where(AT > -400, END.value - APART + 3 * RATE * (AT + 400), END.value)) == 0
    assert times(np.where((AT > -400) & (AT < -300), END.value - APART, END.value)) == 1
    assert times(np.where((AT < -1000) & (np.arange(len(AT)) % 2 == 0), END.value - APART, END.value)) == 0
    assert times(END.value - APART * (1 - np.mod(AT, 280.0) / 280.0)) == 0
    assert times(np.where(np.arange(len(AT)) % 4 == 0, END.value - 60 * RATE, END.value)) == 0


def swung(shown: np.ndarray) -> bool:
    """Of commits as an exporter shows them."""
    return has_swung(Track(AT, shown), END, 30.0, LIMITS)


OTHER = 700_000.0 + 20 * (AT + 5000)


@pytest.mark.parametrize(
    "lower", [[(600, 360)], [(600, 360), (180, 0)], [(720, 540), (360, 180)], [(2400, 1800), (300, 0)]]
)
def test_one_turn_is_enough_if_it_moved_on_at_the_lower_place(lower: list[tuple[int, int]]) -> None:
    """Who is at a lower place moves on there at its own pace, and leaps back in one step: nobody read what lies between."""
    inside = np.any([(-begin < AT) & (-until >= AT) for begin, until in lower], axis=0)
    assert swung(np.where(inside, OTHER, END.value - 5))


@pytest.mark.parametrize(
    "shown",
    [
        # Set back, and read again: at once within a sample; in some minutes, evenly; and not yet.
        np.where((AT > -400) & (AT < -360), END.value - APART, END.value),
        np.minimum(END.value, np.where(AT > -600, END.value - APART + 1000 * (AT + 600), END.value)),
        np.where(AT > -600, OTHER, END.value),
        # What an exporter had stored; a hand-over that does some seconds twice; a turn before the window, and nothing since.
        np.where((AT > -600) & (AT < -300), 700_000.0, END.value),
        np.where((AT > -600) & (AT < -300), END.value - 60 * RATE, END.value),
        np.where((AT > -2400) & (AT < -1800), OTHER, END.value),
    ],
)
def test_what_is_read_again_or_stands_is_no_other_position(shown: np.ndarray) -> None:
    """It reads as fast as it can from there on, or does not move at all."""
    assert not swung(shown)


def test_samples_that_are_left_out_as_odd_are_counted() -> None:
    """A second position that is seen in single samples is none, as long as there are only a few of them."""
    batch = SampleBatch("c", "kafka_exporter")
    stamps = np.round((NOON.timestamp() + AT) * 1e6).astype(np.int64)
    log = {"topic": "t", "partition": 0}
    batch.add("log_end_offset", log, stamps, END.value)
    shown = np.where(np.arange(len(AT)) % 2 == 0, END.value - APART, END.value)
    batch.add("committed_offset", {"group": "g", **log}, stamps, shown)
    rows = batch.to_arrow().sort_by([(name, "ascending") for name in (*SERIES_ORDER, "ts")])
    window = Window.ending(NOON, length=timedelta(minutes=15), baseline=timedelta(hours=1))
    story = read(rows, window, lambda _group: Thresholds()).stories["c", "g", "t"][0]
    assert story.to_and_fro >= SEVERAL
