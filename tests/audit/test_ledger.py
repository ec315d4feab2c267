"""The ledger is the truth, whatever was delivered twice, read again, lost, doubled or late."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.audit.pipeline import WINDOW_MS, Outcome, hash_of, run
from tests.audit.together import Judged, Together, apart
from workbench.audit.audit_frames import frame_of_rows
from workbench.audit.audit_ledger import counts, lines
from workbench.audit.window_verdicts import Arrival, StreamShape, WindowState, edges
from workbench.layers.rows import AuditRow, WindowCount, signed

pytestmark = pytest.mark.jvm

SHAPE = StreamShape(layers=("gateway", "collector"), window_ms=WINDOW_MS, lateness_ms=2 * WINDOW_MS)
OUTER, INNER = "gateway → collector", "collector"
SIDES = (("gateway", "out"), ("collector", "in"), ("collector", "out"))


TOGETHER = Together(SHAPE)


def counted_apart(
    spark: Any, made: dict[str, Outcome]
) -> dict[str, dict[tuple[str, str], dict[int, tuple[int, int, int | None]]]]:
    """Bounds and sums by stream, point and window."""
    found: dict[str, dict[tuple[str, str], dict[int, tuple[int, int, int | None]]]] = {name: {} for name in made}
    for row in counts(frame_of_rows(spark, apart({name: it.rows for name, it in made.items()}))).collect():
        of_point = found[row["stream"]].setdefault((row["layer"], row["point"]), {})
        of_point[row["window_ms"]] = (row["low"], row["high"], row["sum"])
    return found


@pytest.fixture(scope="module")
def judged(spark: Any) -> Judged:
    """The runs of each case."""
    return TOGETHER.judged(spark)


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


def test_what_is_looked_at_row_by_row_is_read_where_something_is_odd(spark: Any) -> None:
    """Rows that lie end to end, once each and in time, are read in one place of the plan; those that were read again in two."""
    sent, taken = _row("out", [1, 2, 3]), _row("in", [1, 2, 3], layer="collector")
    again = taken.model_copy(update={"incarnation": taken.incarnation + 1})
    for rows, places in (([sent, taken], 1), ([sent, taken, again], 2)):
        plan = edges(frame_of_rows(spark, rows), SHAPE)._jdf.queryExecution().analyzed()
        assert plan.collectLeaves().mkString().count("windows#") == places


SEEDS = range(4)


@TOGETHER.case
def lossy() -> dict[str, list[AuditRow]]:
    """A run of each seed."""
    return {str(seed): run(100 + seed, lost=6, doubled=0, crashes=2).rows for seed in SEEDS}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_loss_and_a_double_are_told_apart_and_counted(judged: Judged, seed: int) -> None:
    """The gateway's records arrive; what the collector loses or doubles shows between its two sides, in its windows only."""
    rows = judged["lossy"][str(seed)]
    assert {row["arrival"] for (edge, _), row in rows.items() if edge == OUTER} == {Arrival.OK}
    inner = [row for (edge, _), row in rows.items() if edge == INNER]
    assert sum(row["lost_low"] for row in inner) == sum(row["lost_high"] for row in inner) == 6
    assert {row["arrival"] for row in inner if row["lost_low"]} == {Arrival.LOSS}
    assert {row["arrival"] for row in inner if not row["lost_low"]} <= {Arrival.OK}
    assert {row["state"] for row in rows.values()} == {WindowState.FINAL}


@TOGETHER.case
def others() -> dict[str, list[AuditRow]]:
    """One record was lost, and another one doubled."""
    sent, taken = _row("out", [1, 2, 3]), _row("in", [1, 2, 3], layer="collector")
    return {"s": [sent, taken, _row("out", [1, 2, 2], layer="collector"), *_told()]}


def test_as_many_but_others_are_a_loss_and_a_double(judged: Judged) -> None:
    """Counts alone would call it complete."""
    found = judged["others"]["s"]
    assert found[INNER, 0]["arrival"] == Arrival.LOSS_DUP
    assert found[OUTER, 0]["arrival"] == Arrival.OK


def straddling() -> dict[str, Outcome]:
    """Runs whose rows end elsewhere than commits."""
    return {f"s{seed}": run(200 + seed, lost=0, crashes=3, unaligned=True) for seed in range(6)}


@TOGETHER.case
def unaligned() -> dict[str, list[AuditRow]]:
    """The same."""
    return {name: it.rows for name, it in straddling().items()}


def test_what_straddles_a_restart_is_bounded_and_never_guessed(spark: Any, judged: Judged) -> None:
    """The truth lies within the bounds, and no window is called lost that may be whole."""
    runs = straddling()
    found = counted_apart(spark, runs)
    for stream, made in runs.items():
        for point, windows in made.truth.items():
            for at, true in windows.items():
                low, high, _ = found[stream][point][at]
                assert low <= true <= high, (stream, point, at)
    arrivals = {row["arrival"] for rows in judged["unaligned"].values() for row in rows.values()}
    assert arrivals
    assert Arrival.LOSS not in arrivals


def without_a_row() -> tuple[Outcome, AuditRow]:
    """A run of which both rows of some positions are missing, and one of these."""
    made = run(7, crashes=0)
    victim = next(
        it for it in made.rows if it.layer == "collector" and it.point == "in" and it.start > 50 and it.windows
    )
    made.rows[:] = [
        it for it in made.rows if (it.layer, it.partition, it.start) != ("collector", victim.partition, victim.start)
    ]
    return made, victim


@TOGETHER.case
def missing_row() -> dict[str, list[AuditRow]]:
    """Positions that no row covers."""
    return {"s": without_a_row()[0].rows}


def test_a_missing_row_is_unknown_and_no_loss(spark: Any, judged: Judged) -> None:
    """Positions that no row covers, between rows that do."""
    rows = judged["missing_row"]["s"]
    assert {row["arrival"] for (edge, _), row in rows.items() if edge == OUTER and row["lost_low"]} == {Arrival.UNKNOWN}
    made, victim = without_a_row()
    gaps = sum(row["gap"] for row in lines(frame_of_rows(spark, made.rows)).collect())
    assert gaps == 2 * (victim.stop - victim.start)


TOLD_UP_TO = {30_000: WindowState.OPEN, WINDOW_MS: WindowState.PROVISIONAL, 3 * WINDOW_MS: WindowState.FINAL}


@TOGETHER.case
def states() -> dict[str, list[AuditRow]]:
    """What the layers have told up to some times; then more of the first window."""
    made = {
        str(told): [
            _row("out", [1, 2]),
            _row("in", [1], layer="collector", stop=2),
            _row("out", [1], layer="collector", stop=2),
            *_told(told, stop=2),
        ]
        for told in TOLD_UP_TO
    }
    more = _row("in", [2], layer="collector", at=4 * WINDOW_MS, start=2, incarnation=9)
    made["amended"] = [*made[str(3 * WINDOW_MS)], more]
    return made


def test_a_window_is_open_then_provisional_then_final_then_amended(judged: Judged) -> None:
    """By what the layers have told, not by a clock; before it is final, what is missing is late."""
    found = judged["states"]
    for told, state in TOLD_UP_TO.items():
        row = found[str(told)][OUTER, 0]
        arrival = Arrival.LOSS if state is WindowState.FINAL else Arrival.LATE
        assert (row["state"], row["arrival"]) == (state, arrival), told
    row = found["amended"][OUTER, 0]
    assert (row["state"], row["arrival"]) == (WindowState.AMENDED, Arrival.OK)


@TOGETHER.case
def untold() -> dict[str, list[AuditRow]]:
    """The gateway alone."""
    return {"s": [_row("out", [1, 2]), *[it for it in _told() if it.layer == "gateway"]]}


def test_a_layer_that_never_told_is_not_judged(judged: Judged) -> None:
    """No row of an edge's other side: nothing is known, so there is no verdict."""
    assert judged["untold"] == {"s": {}}


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
        for layer, point in SIDES
    ]


@TOGETHER.case
def missing_rows() -> dict[str, list[AuditRow]]:
    """Without the rows of a block, upstream or everywhere."""
    made = {}
    for missing in (("gateway",), ("gateway", "collector")):
        rows = []
        for layer, point in SIDES:
            for block in range(6):
                if block != 2 or layer not in missing:
                    rows.append(_block(layer, point, block))
        made[" ".join(missing)] = [*rows, *_told(stop=60)]
    return made


def test_missing_rows_are_unknown_on_either_side_and_in_their_time_only(judged: Judged) -> None:
    """A row that is missing upstream is no double, one that is missing in all layers is no all-clear; others are judged as before."""
    for name, each in judged["missing_rows"].items():
        found = {at: row["arrival"] for (edge, at), row in each.items() if edge == OUTER}
        around = {at: arrival for at, arrival in found.items() if WINDOW_MS <= at <= 3 * WINDOW_MS}
        assert set(around.values()) == {Arrival.UNKNOWN}, name
        assert {found[at] for at in (0, 5 * WINDOW_MS)} == {Arrival.OK}


def _block(layer: str, point: str, block: int) -> AuditRow:
    window = WindowCount(start_ms=block * WINDOW_MS, count=10, sum=block)
    return AuditRow(
        stream="s", layer=layer, point=point, topic="t", partition=0, start=block * 10, stop=block * 10 + 10,
        incarnation=1, sequence=block, emitted_ms=1, windows=[window],
    )  # fmt: skip


@TOGETHER.case
def cut_off() -> dict[str, list[AuditRow]]:
    """Without the first or the last rows of the collector."""
    made = {}
    for kept in (range(1, 6), range(5)):
        rows = [_block("gateway", "out", block) for block in range(6)]
        for point in ("in", "out"):
            rows += [_block("collector", point, block) for block in kept]
            rows.append(
                _block("collector", point, 0).model_copy(
                    update={"stop": 0, "windows": [], "emitted_ms": 0, "sequence": 99}
                )
            )
        made[str(kept)] = [*rows, *_told(stop=60)]
    return made


def test_what_begins_and_ends_without_rows_is_unknown(judged: Judged) -> None:
    """The first rows of a line were lost, or the last ones: where it began and what it has reached are told."""
    for found in judged["cut_off"].values():
        lost = [row for (edge, _), row in found.items() if edge == OUTER and row["lost_high"]]
        assert [row["arrival"] for row in lost] == [Arrival.UNKNOWN]


@TOGETHER.case
def too_many() -> dict[str, list[AuditRow]]:
    """The collector has two records, of the gateway only one is known yet."""
    return {"s": [_row("out", [1]), _row("in", [1, 2], layer="collector"), *_told(1_000, stop=2)]}


def test_more_than_was_sent_is_no_double_before_a_window_is_final(judged: Judged) -> None:
    """The other side has perhaps not told yet."""
    assert judged["too_many"]["s"][OUTER, 0]["arrival"] == Arrival.LATE


@TOGETHER.case
def headless() -> dict[str, list[AuditRow]]:
    """Two minutes later than the other layer, one tells: its rows of before have expired, or nobody counted. Or records come late."""
    runs = {}
    for name in ("collector", "gateway", "late"):
        rows = []
        for (layer, point), end in zip(SIDES, _told(stop=60), strict=True):
            told = [_block(layer, point, block) for block in range(6) if layer != name or block >= 2]
            if name == "late":  # the first two minutes behind all others
                told = [
                    it.model_copy(update={"windows": _block(layer, point, (it.sequence + 2) % 6).windows})
                    for it in told
                ]
            # Who numbers its records itself begins at 0 whenever it begins.
            back = 20 if layer == name == "gateway" else 0
            moved = ({"start": it.start - back, "stop": it.stop - back} for it in (*told, end))
            rows += [it.model_copy(update=by) for it, by in zip((*told, end), moved, strict=True)]
        runs[name] = [it.model_copy(update={"emitted_ms": max(it.emitted_ms, 10 * WINDOW_MS)}) for it in rows]
    return runs


@pytest.mark.parametrize("name", ["collector", "gateway", "late"])
def test_what_nobody_counted_yet_is_unknown_and_what_came_after_is_judged(judged: Judged, name: str) -> None:
    """A layer that tells since a while, or whose first rows have expired, has neither lost nor doubled what came before."""
    found = {at // WINDOW_MS: row["arrival"] for (edge, at), row in judged["headless"][name].items() if edge == OUTER}
    assert {found[minute] for minute in (0, 1)} == {Arrival.OK if name == "late" else Arrival.UNKNOWN}
    assert {found[minute] for minute in (3, 4, 5)} == {Arrival.OK}
