"""What is done to the samples of a triage before they are condensed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from evaluation.stories import END, THRESHOLDS
from tests.bench.health import fleet
from workbench.features import condense_by_subscription
from workbench.features.condense import COLUMNS
from workbench.features.condense_by_subscription import condense_each, throttles_in_force
from workbench.samples import SERIES_ORDER, SampleBatch


def _values(told: list[float], signal: str = "throttle_time", member: str = "a") -> list[float | None]:
    """After a second each, beside another member that is never throttled."""
    batch = SampleBatch("test", "librdkafka")
    stamps = [round(END.timestamp() * 1e6) + at * 1_000_000 for at in range(len(told))]
    for name, values in ((member, told), ("b", [0.0] * len(told))):
        batch.add(signal, {"group": "g", "member": name, "broker": "1"}, stamps, values)
    order = [(name, "ascending") for name in (*SERIES_ORDER, "ts")]
    made: pa.Table = throttles_in_force(batch.to_arrow().select(list(COLUMNS)).sort_by(order))
    found = {name: [it["value"] for it in made.to_pylist() if it["member"] == name] for name in (member, "b")}
    assert found["b"] == [0.0] * len(told)
    return found[member]


def test_a_throttle_is_in_force_for_as_long_as_the_broker_has_said() -> None:
    """The client shows it in the second of the answer, and 0 while the broker keeps quiet."""
    assert _values([0, 3.2, 0, 0, 0, 0, 0.5, 0]) == [0, 3.2, 3.2, 3.2, 3.2, 0, 0.5, 0]
    assert _values([9.0, 2.0, 0, 0]) == [9.0] * 4
    assert _values([0, 1.0, 2.5, 0, 0]) == [0, 1.0, 2.5, 2.5, 2.5]


def test_a_gap_stays_a_gap_and_other_signals_are_left_alone() -> None:
    """Nothing is made up after the throttle has ended."""
    assert _values([1.5, 0, 0, np.nan]) == [1.5, 1.5, 0, None]
    assert _values([3.0, 0, 0], signal="broker_rtt") == [3.0, 0, 0]


def test_a_fleet_is_condensed_part_by_part_as_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part has all that its groups share; samples before the window's baseline count for nothing."""
    capture = fleet(12)
    window, order = capture.window, [(name, "ascending") for name in ("cluster", *SERIES_ORDER, "period", "slot_us")]
    whole = condense_each(capture.samples, window, lambda _group: THRESHOLDS)
    monkeypatch.setattr(condense_by_subscription, "_PIECE_ROWS", 3_000)
    assert capture.samples.num_rows > 6_000
    parts = condense_each(capture.samples, window, lambda _group: THRESHOLDS)
    assert parts.sort_by(order).equals(whole.sort_by(order))
    later = replace(window, baseline_start=window.baseline_start + (window.start - window.baseline_start) / 2)
    cut = capture.samples.filter(pc.greater_equal(capture.samples["ts"], pa.scalar(later.baseline_start)))
    found, wanted = (condense_each(it, later, lambda _group: THRESHOLDS) for it in (capture.samples, cut))
    assert found.num_rows and found.sort_by(order).equals(wanted.sort_by(order))
