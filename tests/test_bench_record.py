"""Rules of the recorded measurements: a loss is noticed, and docs/benchmarks.md shows what was recorded."""

from __future__ import annotations

import pytest

from tests.bench.harness import Result
from tests.bench.record import PAGE, fallen, recorded, surely, table, with_table


def result(ratio: float | None, name: str = "x") -> Result:
    """A measurement."""
    return Result(name=name, work="work", ours=1.0, unit="s", peer=ratio, peer_name="the peer", ratio=ratio)


def test_a_ratio_may_fall_by_a_tenth_and_no_further() -> None:
    """What has no peer has no floor; a peer that is gone is a loss."""
    before = {"x": {"ratio": 10.0}, "y": {"ratio": None}}
    assert fallen([result(9.01)], before) == []
    assert fallen([result(8.99)], before) == ["x: the ratio to the peer was 10.00 and is 8.99"]
    assert len(fallen([result(None)], before)) == 1
    assert fallen([result(0.1, "y"), result(0.1, "new")], before) == []


@pytest.mark.parametrize(
    ("ratios", "kept"), [((9.5,), 9.5), ((8.0, 9.9, 9.2), 9.2), ((8.0, 8.5, 9.9), 8.5), ((None, None, 9.9), None)]
)
def test_what_seems_a_loss_is_measured_again(ratios: tuple[float | None, ...], kept: float | None) -> None:
    """A single bad run is noise; two of three are a loss. What is no loss is measured once."""
    runs = iter(ratios)
    assert surely(lambda: result(next(runs)), {"x": {"ratio": 10.0}}).ratio == kept
    assert next(runs, "none left") == "none left"


def test_the_page_shows_what_was_recorded() -> None:
    """The table is made of the record, not by hand."""
    text = PAGE.read_text()
    assert with_table(text, recorded().values()) == text
    made = table(
        [
            {
                "name": "b_c",
                "work": "a",
                "ours": 1234.5,
                "unit": "records/s",
                "peer": 12.345,
                "peer_name": "p",
                "ratio": 100.0,
                "load": 1.4,
            }
        ]
    )
    assert made.splitlines()[2] == "| b c | a | 1,234 records/s | 12.3 records/s (p) | 100.0 × | 1.4 |"
