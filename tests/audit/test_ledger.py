"""The ledger is the truth, whatever was delivered twice, read again, lost, doubled or late."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.audit.pipeline import WINDOW_MS, Outcome, hash_of, run
from workbench.audit.edges import Arrival, StreamShape, WindowState, edges
from workbench.audit.frames import frame_of_rows
from workbench.audit.ledger import counts, lines
from workbench.layers.rows import AuditRow, WindowCount, signed

pytestmark = pytest.mark.jvm

SHAPE = StreamShape(layers=("gateway", "collector"), window_ms=WINDOW_MS, lateness_ms=2 * WINDOW_MS)
OUTER, INNER = "gateway → collector", "collector"


def apart(made: dict[str, Outcome]) -> list[AuditRow]:
    """Rows of several runs in one ledger: each is a stream of its own."""
    return [row.model_copy(update={"stream": name}) for name, one in made.items() for row in one.rows]


def counted_apart(
    spark: Any, made: dict[str, Outcome]
) -> dict[str, dict[tuple[str, str], dict[int, tuple[int, int, int | None]]]]:
    """Bounds and sums by stream, point and window."""
    found: dict[str, dict[tuple[str, str], dict[int, tuple[int, int, int | None]]]] = {name: {} for name in made}
    for row in counts(frame_of_rows(spark, apart(made))).collect():
        of_point = found[row["stream"]].setdefault((row["layer"], row["point"]), {})
        of_point[row["window_ms"]] = (row["low"], row["high"], row["sum"])
    return found


def judged(spark: Any, made: Outcome) -> dict[tuple[str, int], Any]:
    """Rows by edge and window."""
    return {(row["edge"], row["window_ms"]): row for row in edges(frame_of_rows(spark, made.rows), SHAPE).collect()}


def test_counts_are_the_truth_after_crashes_and_double_delivery(spark: Any) -> None:
    """Of twelve pipelines, to the record, at every point, in every window; a sum of all rows would count more."""
    runs = {f"s{seed}": run(seed, lost=seed % 5 * 8, doubled=seed % 3 * 5, crashes=1 + seed % 4) for seed in range(12)}
    for stream, found in counted_apart(spark, runs).items():
        made, naive = runs[stream], Counter[tuple[str, str]]()
        for point, windows in made.truth.items():
            assert {at: low for at, (low, _, _) in found[point].items() if low} == dict(windows), stream
            assert all(low == high for low, high, _ in found[point].values()), stream
        for row in made.rows:
            naive[row.layer, row.point] += sum(it.count for it in row.windows)
        assert any(naive[point] > sum(windows.values()) for point, windows in made.truth.items()), stream


@pytest.mark.parametrize("seed", range(4))
def test_a_loss_and_a_double_are_told_apart_and_counted(spark: Any, seed: int) -> None:
    """The gateway's records arrive; what the collector loses or doubles shows between its two sides, in its windows only."""
    made = run(100 + seed, lost=6, doubled=0, crashes=2)
    rows = judged(spark, made)
    assert {row["arrival"] for (edge, _), row in rows.items() if edge == OUTER} == {Arrival.OK}
    inner = [row for (edge, _), row in rows.items() if edge == INNER]
    assert sum(row["lost_low"] for row in inner) == sum(row["lost_high"] for row in inner) == 6
    assert {row["arrival"] for row in inner if row["lost_low"]} == {Arrival.LOSS}
    assert {row["arrival"] for row in inner if not row["lost_low"]} <= {Arrival.OK}
    assert {row["state"] for row in rows.values()} == {WindowState.FINAL}


def test_as_many_but_others_are_a_loss_and_a_double(spark: Any) -> None:
    """Counts alone would call it complete."""
    made = Outcome(
        [_row("out", [1, 2, 3]), _row("in", [1, 2, 3], layer="collector"), _row("out", [1, 2, 2], layer="collector")],
        {},
    )
    made.rows += _told()
    assert judged(spark, made)[INNER, 0]["arrival"] == Arrival.LOSS_DUP
    assert judged(spark, made)[OUTER, 0]["arrival"] == Arrival.OK


def test_what_straddles_a_restart_is_bounded_and_never_guessed(spark: Any) -> None:
    """Rows that end elsewhere than commits: the truth lies within the bounds, and no window is called lost that may be whole."""
    runs = {f"s{seed}": run(200 + seed, lost=0, crashes=3, unaligned=True) for seed in range(6)}
    found = counted_apart(spark, runs)
    for stream, made in runs.items():
        for point, windows in made.truth.items():
            for at, true in windows.items():
                low, high, _ = found[stream][point][at]
                assert low <= true <= high, (stream, point, at)
    arrivals = {row["arrival"] for row in edges(frame_of_rows(spark, apart(runs)), SHAPE).select("arrival").collect()}
    assert Arrival.LOSS not in arrivals


def test_a_missing_row_is_unknown_and_no_loss(spark: Any) -> None:
    """Positions that no row covers, between rows that do."""
    made = run(7, crashes=0)
    victim = next(
        it for it in made.rows if it.layer == "collector" and it.point == "in" and it.start > 50 and it.windows
    )
    made.rows[:] = [
        it for it in made.rows if (it.layer, it.partition, it.start) != ("collector", victim.partition, victim.start)
    ]
    rows = judged(spark, made)
    assert {row["arrival"] for (edge, _), row in rows.items() if edge == OUTER and row["lost_low"]} == {Arrival.UNKNOWN}
    gaps = sum(row["gap"] for row in lines(frame_of_rows(spark, made.rows)).collect())
    assert gaps == 2 * (victim.stop - victim.start)


def test_a_window_is_open_then_provisional_then_final_then_amended(spark: Any) -> None:
    """By what the layers have told, not by a clock; before it is final, what is missing is late."""
    for told, state, arrival in (
        (30_000, WindowState.OPEN, Arrival.LATE),
        (WINDOW_MS, WindowState.PROVISIONAL, Arrival.LATE),
        (3 * WINDOW_MS, WindowState.FINAL, Arrival.LOSS),
    ):
        made = Outcome(
            [
                _row("out", [1, 2]),
                _row("in", [1], layer="collector", stop=2),
                _row("out", [1], layer="collector", stop=2),
                *_told(told, stop=2),
            ],
            {},
        )
        row = judged(spark, made)[OUTER, 0]
        assert (row["state"], row["arrival"]) == (state, arrival), told
    made.rows += [_row("in", [2], layer="collector", at=4 * WINDOW_MS, start=2, incarnation=9)]
    row = judged(spark, made)[OUTER, 0]
    assert (row["state"], row["arrival"]) == (WindowState.AMENDED, Arrival.OK)


def test_a_layer_that_never_told_is_not_judged(spark: Any) -> None:
    """No row of an edge's other side: nothing is known, so there is no verdict."""
    made = Outcome([_row("out", [1, 2]), *[it for it in _told() if it.layer == "gateway"]], {})
    assert judged(spark, made) == {}


def _row(
    point: str,
    numbers: list[int],
    *,
    layer: str = "gateway",
    at: int = 1_000,
    start: int = 0,
    stop: int | None = None,
    incarnation: int = 1,
) -> AuditRow:
    window = WindowCount(start_ms=0, count=len(numbers), sum=signed(sum(map(hash_of, numbers))))
    return AuditRow(
        stream="s", layer=layer, point=point, topic="t", partition=0, start=start, stop=start + len(numbers) if stop is None else stop,
        incarnation=incarnation,
        sequence=1 + start, emitted_ms=at, windows=[window],
    )  # fmt: skip


def _told(at: int = 60 * WINDOW_MS, *, stop: int = 3) -> list[AuditRow]:
    return [
        AuditRow(
            stream="s",
            layer=layer,
            point=point,
            topic="t",
            partition=0,
            start=stop,
            stop=stop,
            incarnation=9,
            sequence=1,
            emitted_ms=at,
        )
        for layer, point in (("gateway", "out"), ("collector", "in"), ("collector", "out"))
    ]


def test_missing_rows_are_unknown_on_either_side_and_in_their_time_only(spark: Any) -> None:
    """A row that is missing upstream is no double, one that is missing in all layers is no all-clear; others are judged as before."""
    for missing in (("gateway",), ("gateway", "collector")):
        rows = []
        for layer, point in (("gateway", "out"), ("collector", "in"), ("collector", "out")):
            for block in range(6):
                if block != 2 or layer not in missing:
                    rows.append(_block(layer, point, block))
        made = Outcome([*rows, *_told(stop=60)], {})
        found = {at: row["arrival"] for (edge, at), row in judged(spark, made).items() if edge == OUTER}
        around = {at: arrival for at, arrival in found.items() if WINDOW_MS <= at <= 3 * WINDOW_MS}
        assert set(around.values()) == {Arrival.UNKNOWN}, missing
        assert {found[at] for at in (0, 5 * WINDOW_MS)} == {Arrival.OK}


def _block(layer: str, point: str, block: int) -> AuditRow:
    window = WindowCount(start_ms=block * WINDOW_MS, count=10, sum=block)
    return AuditRow(
        stream="s", layer=layer, point=point, topic="t", partition=0, start=block * 10, stop=block * 10 + 10,
        incarnation=1, sequence=block, emitted_ms=1, windows=[window],
    )  # fmt: skip


def test_what_begins_and_ends_without_rows_is_unknown(spark: Any) -> None:
    """The first rows of a line were lost, or the last ones: where it began and what it has reached are told."""
    for kept in (range(1, 6), range(5)):
        rows = [_block("gateway", "out", block) for block in range(6)]
        for point in ("in", "out"):
            rows += [_block("collector", point, block) for block in kept]
            rows.append(
                _block("collector", point, 0).model_copy(
                    update={"stop": 0, "windows": [], "emitted_ms": 0, "sequence": 99}
                )
            )
        found = judged(spark, Outcome([*rows, *_told(stop=60)], {}))
        lost = [row for (edge, _), row in found.items() if edge == OUTER and row["lost_high"]]
        assert [row["arrival"] for row in lost] == [Arrival.UNKNOWN]


def test_more_than_was_sent_is_no_double_before_a_window_is_final(spark: Any) -> None:
    """The other side has perhaps not told yet."""
    made = Outcome([_row("out", [1]), _row("in", [1, 2], layer="collector"), *_told(1_000, stop=2)], {})
    assert judged(spark, made)[OUTER, 0]["arrival"] == Arrival.LATE
