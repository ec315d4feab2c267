"""A downstream job begins only if everything is known to be there, by the grade of its stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.audit.pipeline import run
from tests.cli.running import run_here
from tests.reference.valid import valid
from workbench.audit.completeness_gate import Gate, LatencyLimit, Passage, judge
from workbench.audit_settings import Grade
from workbench.errors import UsageError
from workbench.layers.rows import AuditRow, parse_lines, signed

LAYERS = ("--layers", "gateway,collector", "--lateness", "2m")
ALL = ("--stream", "s", "--since", "1970-01-01T00:00:00Z", "--until", "1970-01-01T00:05:00Z")


def window(
    *, sent: int = 10_000, lost: int = 0, doubled: int = 0, arrival: str = "ok", state: str = "final", **more: Any
) -> Any:
    """A row of an edge."""
    return {
        "edge": "a → b", "state": state, "arrival": arrival, "from_low": sent, "lost_low": lost, "lost_high": lost,
        "doubled_low": doubled, "doubled_high": doubled, "same": True, **more,
    }  # fmt: skip


def gate(grade: Grade, *rows: Any) -> Gate:
    """Of these windows."""
    return judge(rows, grade)


def test_all_of_it_passes_by_every_grade() -> None:
    """Nothing to say."""
    for grade in Grade:
        found = gate(grade, window(), window())
        assert (found.passage, found.reasons, found.windows) == (Passage.GO, (), 2)


@pytest.mark.parametrize(
    ("lost", "least"), [(1, Grade.S1), (2, Grade.S2), (10, Grade.S2), (11, Grade.S3), (100, Grade.S3), (101, None)]
)
def test_a_grade_is_held_at_both_sides_of_its_bound(lost: int, least: Grade | None) -> None:
    """Of 10,000 records: 1 is 99.99 %, 10 are 99.9 %, 100 are 99 %."""
    passed = [grade for grade in Grade if gate(grade, window(lost=lost, arrival="loss")).passage is Passage.GO]
    assert passed == ([] if least is None else [it for it in Grade if it >= least])


def test_few_records_have_no_share() -> None:
    """One of nine hundred is a breach, whatever the grade allows of many."""
    assert gate(Grade.S3, window(sent=900, lost=1, arrival="loss")).passage is Passage.BREACH


@pytest.mark.parametrize(
    ("limit", "p99", "passage"),
    [
        (10_000, 10_000, Passage.GO),
        (9_999, 10_000, Passage.UNKNOWN),  # between 5 and 10 s
        (5_000, 10_000, Passage.BREACH),
        (300_000, None, Passage.BREACH),
        (300_001, None, Passage.UNKNOWN),
    ],
)
def test_latency_is_judged_by_the_bounds_of_its_bucket(limit: int, p99: int | None, passage: Passage) -> None:
    """What lies within the bucket cannot be told."""
    latency = LatencyLimit(limit_ms=limit, p99_ms=p99, records=100)
    assert judge([window()], Grade.S0, latency).passage is passage
    assert judge([window()], Grade.S0, LatencyLimit(limit_ms=1, p99_ms=None, records=0)).passage is Passage.UNKNOWN


def test_who_has_not_told_of_the_end_or_of_anything_lets_nobody_begin() -> None:
    """A layer that was dead from the start has no window that could be wrong."""
    assert judge([window()], Grade.S3, unfinished=["a → b"]).passage is Passage.WAIT
    assert judge([window()], Grade.S3, unheard=["b → c"]).passage is Passage.UNKNOWN
    assert judge([window(lost=900, arrival="loss")], Grade.S3, unheard=["b → c"]).passage is Passage.BREACH


def test_a_double_counts_like_a_loss_and_both_are_named() -> None:
    """Whoever sums up cares for both."""
    found = gate(Grade.S1, window(lost=3, arrival="loss"), window(doubled=4, arrival="dup"))
    assert (found.passage, found.lost, found.doubled) == (Passage.BREACH, 3, 4)
    assert found.reasons == ("a → b: 3 records lost and 4 records doubled of 20,000; S1 allows 0.01%.",)


def test_as_many_but_others_matter_to_the_highest_grade() -> None:
    """Counts say nothing of it."""
    assert gate(Grade.S0, window(arrival="loss+dup")).passage is Passage.BREACH
    assert gate(Grade.S1, window(arrival="loss+dup")).passage is Passage.UNKNOWN


def test_as_many_without_ids_are_not_the_same_to_the_highest_grade() -> None:
    """One record may be lost and another one doubled: who asks for the very records is not told that they are there."""
    assert gate(Grade.S0, window(same=None)).passage is Passage.UNKNOWN
    assert gate(Grade.S0, window(same=None, state="open")).passage is Passage.WAIT
    assert gate(Grade.S1, window(same=None)).passage is Passage.GO


def test_what_is_not_final_waits_and_what_is_not_known_is_not_passed() -> None:
    """A breach that is final counts at once; nothing at all is unknown."""
    assert gate(Grade.S1, window(), window(state="open", arrival="late", lost=9_000)).passage is Passage.WAIT
    assert gate(Grade.S1, window(arrival="unknown", lost_high=7)).passage is Passage.UNKNOWN
    assert gate(Grade.S1, window(lost=500, arrival="loss"), window(state="open")).passage is Passage.BREACH
    assert gate(Grade.S3).passage is Passage.UNKNOWN


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"stop": 3}, "stop 3 is before start 5"),
        ({"windows": [{"start_ms": 0, "count": 9}]}, "9 records do not fit into 5 positions"),
        ({"windows": [{"start_ms": 0, "count": 1}, {"start_ms": 0, "count": 1}]}, "a window occurs twice"),
        ({"point": "sideways"}, "point"),
        ({"incarnation": -1}, "incarnation"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_row_that_cannot_be_is_named(changed: dict[str, Any], problem: str) -> None:
    """By its line."""
    row = {
        "schema": "workbench.audit/1", "stream": "s", "layer": "l", "point": "in", "topic": "t", "partition": 0, "start": 5, "stop": 10,
        "incarnation": 1, "sequence": 1, "emitted_ms": 1,
    }  # fmt: skip
    [good] = parse_lines([json.dumps(row), ""])
    assert AuditRow.model_validate_json(good.line()) == good
    with pytest.raises(UsageError, match="Line 2 is no row of an audit") as caught:
        list(parse_lines([json.dumps(row), json.dumps({**row, **changed})]))
    assert problem in caught.value.message


def test_hashes_wrap_and_latencies_have_their_bucket() -> None:
    """As Spark adds them up: modulo 2^64, signed."""
    assert (signed((1 << 63) - 1), signed(1 << 63), signed((1 << 64) + 5)) == ((1 << 63) - 1, -(1 << 63), 5)


@pytest.mark.jvm
@pytest.mark.parametrize(("lost", "code", "word"), [(0, 0, "PASS"), (5, 3, "BREACH")])
def test_the_commands_in_front_of_a_job(tmp_path: Path, lost: int, code: int, word: str) -> None:
    """They block on loss, and name the windows; a window that no layer has told of waits or is unknown."""
    made = run(11, lost=lost)
    (tmp_path / "rows.jsonl").write_text("".join(f"{it.line()}\n" for it in made.rows), encoding="utf-8")
    shown = run_here("audit", "gate", "--rows", "rows.jsonl", *LAYERS, *ALL, "--grade", "S0", cwd=tmp_path)
    assert (shown.returncode, word in shown.stderr) == (code, True), shown.stderr
    if not lost:
        return
    told = run_here("audit", "gate", "--rows", "rows.jsonl", *LAYERS, *ALL, "--grade", "S0", "--json", cwd=tmp_path)
    assert valid("audit-gate", json.loads(told.stdout))["lost"] == lost
    within = ("--stream", "s", "--since", "1970-01-01T00:00:59Z", "--until", "1970-01-01T00:04:01Z")
    told = run_here("audit", "gate", "--rows", "rows.jsonl", *LAYERS, *within, "--grade", "S0", "--json", cwd=tmp_path)
    assert json.loads(told.stdout)["lost"] == lost  # also what the first and the last window have within the span
    shown = run_here("audit", "show", "--rows", "rows.jsonl", *LAYERS, "--json", cwd=tmp_path)
    ran = run_here("audit", "run", "--rows", "rows.jsonl", *LAYERS, "--output", "ledger", "--json", cwd=tmp_path)
    assert sum(valid("audit-run", json.loads(ran.stdout))["windows"].values()) > 0
    windows = valid("audit-windows", json.loads(shown.stdout))["windows"]
    assert (shown.returncode, sum(it["lost_low"] for it in windows)) == (code, lost)
    late = ("--stream", "s", "--since", "1971-01-01T00:00:00Z", "--until", "1971-01-01T00:05:00Z")
    assert run_here("audit", "gate", "--rows", "rows.jsonl", *LAYERS, *late, cwd=tmp_path).returncode == 4


@pytest.mark.jvm
def test_losses_of_one_stream_are_shown_whatever_others_lose(tmp_path: Path) -> None:
    """The limit is of the windows of this stream: no loss is cut off by a larger one elsewhere."""
    made = [
        *run(11, lost=1).rows,
        *(it.model_copy(update={"stream": "larger"}) for it in run(12, lost=40).rows),
    ]
    (tmp_path / "rows.jsonl").write_text("".join(f"{it.line()}\n" for it in made), encoding="utf-8")
    only = ("--stream", "s", "--limit", "1", "--json")
    shown = run_here("audit", "show", "--rows", "rows.jsonl", *LAYERS, *only, cwd=tmp_path)
    assert (shown.returncode, [it["stream"] for it in json.loads(shown.stdout)["windows"]]) == (3, ["s"])


def test_wrong_input_is_a_sentence(tmp_path: Path) -> None:
    """No trace, and exit code 2."""
    for words in (
        ("show", "--rows", "nothing.jsonl", "--layers", "a,b"),
        ("show", "--rows", ".", "--layers", "a"),
        (
            "gate",
            "--rows",
            ".",
            "--layers",
            "a,b",
            "--stream",
            "s",
            "--since",
            "2026-01-02T00:00Z",
            "--until",
            "2026-01-01T00:00Z",
        ),
    ):
        shown = run_here("audit", *words, cwd=tmp_path)
        assert (shown.returncode, "Traceback" in shown.stderr) == (2, False), shown.stderr


@pytest.mark.jvm
def test_a_large_audit_leaves_later_work_its_session(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own is for millions of rows: a triage in it would take many times as long."""
    monkeypatch.setattr("workbench.api.compare_and_trace_records._MUCH_ROWS", 0)
    from workbench.api.audits import audit
    from workbench.spark.session import for_little_data, session

    (tmp_path / "rows.jsonl").write_text("".join(f"{it.line()}\n" for it in run(12).rows), encoding="utf-8")
    before = session()
    with for_little_data(before):  # as it starts: commands of other tests in this process may have set it up for much
        ledger = audit(tmp_path / "rows.jsonl", layers=("gateway", "collector"))
        conf = ledger.source.sparkSession.conf
        assert (conf.get("spark.sql.shuffle.partitions"), conf.get("spark.sql.broadcastTimeout")) == ("64", "86400")
        assert ledger.rows() and ledger.latencies() is not None
        assert session() is before
        assert session().conf.get("spark.sql.shuffle.partitions") == "2"
