"""Series of offsets: what one sample alone says."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.history.partition_series import Track

AT = np.arange(-150.0, 1.0, 30.0)


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ([100, 110, 5, 120, 130, 140], [100, 110, 120, 130, 140]),  # there and back within two scrapes
        ([100, 110, 9_999_999, 120, 130, 140], [100, 110, 120, 130, 140]),
        ([100, 110, 5, 6, 130, 140], [100, 110, 5, 6, 130, 140]),  # twice is no accident
        ([100, 110, 120, 130, 140, 5], [100, 110, 120, 130, 140, 5]),  # the last may be true
        ([100, 90, 101, 91, 102, 103], [100, 101, 102, 103]),  # two sources in turns, one of them late
        ([100, 100, 100, 110, 110, 120], [100, 100, 100, 110, 110, 120]),
    ],
)
def test_an_offset_that_goes_there_and_back_at_once_is_the_exporters(values: list[float], kept: list[float]) -> None:
    """A single impossible sample is left out."""
    found = Track(AT, np.array(values, float)).without_outliers()
    assert found.value.tolist() == kept
    assert len(found.at) == len(kept)
