"""Rules of joining several Prometheus: each series once, whatever its servers missed, and no sample that nobody has measured."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.collect.join_answers_of_servers import joined
from workbench.collect.matrix_parser import EMPTY, Matrix

Samples = list[tuple[float, float]]  # seconds and values
LAG, EVENTS = {"__name__": "lag", "group": "g"}, {"__name__": "events_total", "group": "g"}


def matrix(*series: tuple[dict[str, str], Samples]) -> Matrix:
    """An answer of a server."""
    pairs = [pair for _, samples in series for pair in samples]
    return Matrix(
        [labels for labels, _ in series],
        np.array([len(samples) for _, samples in series], np.int64),
        np.array([round(at * 1e6) for at, _ in pairs], np.int64),
        np.array([value for _, value in pairs], np.float64),
    )


def of(*answers: Matrix) -> dict[frozenset[tuple[str, str]], Samples]:
    """Series of the joined answers, by their labels, each once."""
    whole = joined(answers, rises=lambda labels: labels["__name__"] == "events_total").matrix
    found = {
        frozenset(labels.items()): list(zip((times / 1e6).tolist(), values.tolist(), strict=True))
        for labels, times, values in whole.series()
    }
    assert len(found) == len(whole)
    return found


def one(*answers: Matrix) -> Samples:
    """Samples of the only series."""
    [samples] = of(*answers).values()
    return samples


def scraped(first: float, last: float, *, every: float = 15.0, per_second: float = 10.0, late: float = 0.0) -> Samples:
    """A counter that grows; with a clock that is late by some seconds, an older value has the same time."""
    return [(at, (at + late) * per_second) for at in np.arange(first, last, every).tolist()]


def falls(samples: Samples) -> int:
    """How often a series would be taken to begin anew."""
    return int((np.diff([value for _, value in samples]) < 0).sum())


def test_series_that_one_server_has_are_all_there() -> None:
    """Shards: nothing is shared, and nothing is changed."""
    found = joined([matrix((LAG, [(1, 1)])), matrix((EVENTS, [(1, 2), (2, 3)]))], rises=lambda _labels: True)
    assert found.shared == frozenset()
    assert list(found.matrix.labels) == [LAG, EVENTS]
    assert found.matrix.values.tolist() == [1, 2, 3]
    assert joined([], rises=lambda _labels: True).matrix is EMPTY
    assert len(joined([EMPTY, EMPTY], rises=lambda _labels: True).matrix) == 0


def test_of_a_pair_one_is_used() -> None:
    """Interleaved, the same events would be there twice as often; whichever is named first."""
    pair = matrix((EVENTS, scraped(0, 600))), matrix((EVENTS, scraped(7, 600)))
    for answers in (pair, pair[::-1]):
        assert one(*answers) in (scraped(0, 600), scraped(7, 600))
    assert joined(pair, rises=lambda _labels: True).shared == {0, 1}


@pytest.mark.parametrize("labels", [LAG, EVENTS])
def test_gaps_at_different_times_are_filled(labels: dict[str, str]) -> None:
    """Nobody has measured twice, nobody is missing, and no sample stands close to one of the other."""
    pair = (
        matrix((labels, scraped(0, 200) + scraped(300, 600))),
        matrix((labels, scraped(7, 400) + scraped(517, 600))),
    )
    for answers in (pair, pair[::-1]):
        times = [at for at, _ in one(*answers)]
        assert max(np.diff(times)) <= 2 * 15
        assert min(np.diff(times)) >= 7
        assert (times[0], times[-1]) == (0.0, 592.0 if times[-1] == 592.0 else 585.0)
        assert len(times) <= 42
        assert falls(one(*answers)) == 0


def test_one_that_began_late_or_ended_early_is_filled_at_its_ends() -> None:
    """A Prometheus that was started within the window, and one that has forgotten what is older than its retention."""
    assert [at for at, _ in one(matrix((LAG, scraped(300, 600))), matrix((LAG, scraped(0, 300))))] == [
        at for at, _ in scraped(0, 600)
    ]


@pytest.mark.parametrize("late", [-20.0, 20.0])
def test_a_late_clock_makes_no_new_beginning(late: float) -> None:
    """Of a counter, what a wrong clock would let fall is left out: its samples are older, or younger, than they say."""
    good, wrong = scraped(0, 200) + scraped(300, 900), scraped(7, 600, late=late)
    found = one(matrix((EVENTS, good)), matrix((EVENTS, wrong)))
    assert falls(found) == 0
    assert len(found) > len(good)
    # A lag goes up and down, so nothing says that its clock is wrong.
    assert len(one(matrix((LAG, good)), matrix((LAG, wrong)))) >= len(found)


def test_a_true_new_beginning_in_a_gap_is_there() -> None:
    """The process was restarted while only the other one watched, and once more after the first had gone for good."""
    watching = scraped(7, 250) + [(at, value - 2500) for at, value in scraped(255, 900)]
    first = scraped(0, 200) + [(at, value - 2500) for at, value in scraped(330, 900)]
    assert falls(one(matrix((EVENTS, first)), matrix((EVENTS, watching)))) == 1
    gone = scraped(0, 700)
    more = scraped(7, 690) + [(at, value - 7200) for at, value in scraped(720, 900)]
    found = one(matrix((EVENTS, gone)), matrix((EVENTS, more)))
    assert falls(found) == 1
    assert found[-1] == more[-1]
    begun_there = [(at, value - 7200) for at, value in scraped(720, 1400)]  # it has nothing before the restart
    assert falls(one(matrix((EVENTS, gone)), matrix((EVENTS, begun_there)))) == 1


def test_the_one_with_a_few_samples_does_not_decide() -> None:
    """Two samples ten minutes apart are no interval of ten minutes that nothing can fill."""
    rich = matrix((LAG, scraped(0, 600)), (EVENTS, scraped(0, 90)))
    poor = matrix((LAG, [(0, 0.0), (599, 5990.0)]), (EVENTS, scraped(7, 600)))
    found = of(poor, rich)
    assert len(found[frozenset(LAG.items())]) == 40
    assert len(found[frozenset(EVENTS.items())]) >= 39


def test_equal_samples_of_two_servers_count_once() -> None:
    """By step, all servers evaluate at the same times; and a copy may be the very same."""
    for labels in (LAG, EVENTS):
        for samples in (scraped(0, 600), [(5.0, 1.0)], scraped(0, 100) + scraped(400, 600)):
            assert one(matrix((labels, samples)), matrix((labels, samples)), matrix((labels, samples))) == samples


def test_series_without_samples_and_values_that_are_none() -> None:
    """An answer may name a series of which everything lay outside of the window, and hold NaN, which is larger than nothing."""
    nan = float("nan")
    assert one(matrix((LAG, []), (EVENTS, [])), matrix((LAG, [(1, 2)]))) == [(1, 2)]
    found = one(matrix((EVENTS, [(0, nan), (15, nan), (30, nan)])), matrix((EVENTS, [(100, 1), (115, nan), (130, 3)])))
    assert [at for at, _ in found] == [0, 15, 30, 100, 115, 130]


def test_names_are_compared_as_they_are() -> None:
    """No separator of ours that a label could contain; order does not matter, an empty value is another one than none."""
    odd = [{"a": 'x",b="y'}, {"a": "x", "b": "y"}, {"a": "x,b=y"}, {"a": "x", "b": ""}, {"a": "x"}, {"a\x00": "\ud83d"}]
    whole = joined(
        [matrix(*((it, [(1, 1)]) for it in odd)), matrix(({"b": "y", "a": "x"}, [(1, 1)]))], rises=lambda _labels: False
    )
    assert len(whole.matrix) == len(odd)


_samples = st.lists(st.integers(1, 120), max_size=25).map(np.cumsum)


@given(st.lists(st.lists(_samples, min_size=2, max_size=2), min_size=1, max_size=4))
def test_whatever_they_missed_each_time_is_measured_and_in_order(answers: list[list[np.ndarray]]) -> None:
    """Every sample is one of a server, at its time, with its value; none is there twice; the used ones are all there."""
    given_to = [
        matrix(*((labels, [(at, at * 3.0) for at in times]) for labels, times in zip((LAG, EVENTS), it, strict=True)))
        for it in answers
    ]
    found = of(*given_to)
    for number, labels in enumerate((LAG, EVENTS)):
        every = {float(at) for it in answers for at in it[number]}
        samples = found.get(frozenset(labels.items()), [])
        times = [at for at, _ in samples]
        assert bool(every) == bool(samples)
        assert times == sorted(set(times))
        assert all(at in every and value == at * 3.0 for at, value in samples)
        assert len(times) >= 0.9 * max((len(it[number]) for it in answers), default=0)
