"""Median and quantile: numpy's numbers, to the last bit."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from workbench.quantiles import median, quantile

VALUES = st.lists(st.floats(-1e12, 1e12) | st.just(float("nan")), min_size=1, max_size=60).map(np.array)
WHOLE = st.lists(st.integers(-(2**50), 2**50), min_size=1, max_size=60).map(lambda it: np.array(it, np.int64))


@given(VALUES | WHOLE, st.sampled_from([0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 1.0]) | st.floats(0, 1))
def test_numpy_says_the_same(values: np.ndarray, share: float) -> None:
    """Whatever the values are, and between any two of them."""
    for mine, theirs in ((median(values), np.median(values)), (quantile(values, share), np.quantile(values, share))):
        assert mine == theirs or (np.isnan(mine) and np.isnan(theirs))


def test_of_nothing_there_is_none() -> None:
    """As numpy says of a median, without its warning."""
    assert np.isnan(median(np.zeros(0)))
    assert np.isnan(quantile(np.zeros(0), 0.5))
