"""Rules of the recorded measurements: a loss is noticed, and docs/benchmarks.md shows what was recorded."""

from __future__ import annotations

from tests.bench.harness import Result
from tests.bench.record import PAGE, fallen, recorded, table, with_table


def result(ratio: float | None, name: str = "x") -> Result:
    """A measurement."""
    return Result(name=name, work="work", ours=1.0, unit="s", peer=ratio, peer_name="the peer", ratio=ratio)


def test_a_ratio_may_fall_by_a_fifth_and_no_further() -> None:
    """What has no peer has no floor; a peer that is gone is a loss."""
    before = {"x": {"ratio": 10.0}, "y": {"ratio": None}}
    assert fallen([result(8.01)], before) == []
    assert fallen([result(7.99)], before) == ["x: the ratio to the peer was 10.00 and is 7.99"]
    assert len(fallen([result(None)], before)) == 1
    assert fallen([result(0.1, "y"), result(0.1, "new")], before) == []


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
            }
        ]
    )
    assert made.splitlines()[2] == "| b c | a | 1,234 records/s | 12.3 records/s (p) | 100.0 × |"
