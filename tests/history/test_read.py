"""By what time a subscription is judged."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from workbench.features.condense import COLUMNS
from workbench.history.partition_histories import read
from workbench.samples import SERIES_ORDER, SampleBatch
from workbench.thresholds import Thresholds
from workbench.window import Window

END = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = Window(baseline_start=END - timedelta(minutes=75), start=END - timedelta(minutes=15), end=END)
KEY = ("c", "g", "t")


@pytest.mark.parametrize(("stops", "from_the_start"), [((-250.0,), False), ((-800.0, -520.0, -250.0), True)])
def test_what_comes_and_goes_did_not_begin_with_its_last_time(stops: tuple[float, ...], from_the_start: bool) -> None:
    """Stands still for 200 s, catches up in one step, and stands still again: what happens at each stop is counted in all of them."""
    at = np.arange(-4500.0, 0.1, 10.0)
    ends = np.floor(1e6 + 50 * (at + 5000))
    read_up_to = at - 3
    for stop in stops:
        until = 0.1 if stop == stops[-1] else stop + 200
        read_up_to = np.where((at >= stop) & (at < until), stop - 3, read_up_to)
    batch = SampleBatch("c", "exporter")
    micros = [round((END.timestamp() + float(it)) * 1e6) for it in at]
    of_log = {"topic": "t", "partition": 0}
    batch.add("log_end_offset", of_log, micros, list(map(float, ends)))
    committed = np.floor(1e6 + 50 * (read_up_to + 5000))
    batch.add("committed_offset", {"group": "g", **of_log}, micros, list(map(float, committed)))
    order = [(name, "ascending") for name in (*SERIES_ORDER, "ts")]
    samples = batch.to_arrow().select(list(COLUMNS)).sort_by(order)
    judged = read(samples, WINDOW, lambda _group: Thresholds()).judged[KEY]
    assert judged.onset == pytest.approx(-250, abs=40)
    start = judged.start_us / 1e6 - END.timestamp()
    assert start == pytest.approx(-900 if from_the_start else -255, abs=40)
    assert judged.good_until_us is not None
    assert judged.good_until_us <= judged.start_us
