"""What an audit says of a period, for pages and alert rules: worst first, bounded, and old files are not taken for new ones."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.audit.pipeline import run
from tests.audit.states import edge, state, stream
from tests.cli.running import run_here
from tests.reference.valid import valid
from workbench import api
from workbench.audit.completeness_gate import breach_of
from workbench.audit_settings import Grade
from workbench.errors import EvidenceError
from workbench.layers.rows import AuditRow
from workbench.report.audit_state import AuditState, numbers, write_state
from workbench.serve.audits import Shelf

END = "1970-01-01T00:20:00Z"
LAYERS = ("gateway", "collector")


def named(rows: list[AuditRow], name: str) -> list[AuditRow]:
    """The same of another stream."""
    return [it.model_copy(update={"stream": name}) for it in rows]


def made(folder: Path, rows: list[AuditRow], *, until: str = END, since: str = "1970-01-01T00:00:00Z") -> AuditState:
    """The state of an audit of these rows."""
    (folder / "rows.jsonl").write_text("".join(f"{it.line()}\n" for it in rows), encoding="utf-8")
    return api.audit_state(rows=folder / "rows.jsonl", layers=LAYERS, lateness="2m", since=since, until=until)


@pytest.mark.jvm
def test_streams_and_edges_are_summed_up_worst_first(tmp_path: Path) -> None:
    """Numbers are those of the pipeline; who lags, is silent or is told of by nobody is not complete."""
    lossy, whole = run(11, lost=3, doubled=2).rows, run(12).rows
    slow = [it for it in whole if it.layer != "collector" or it.emitted_ms < 5_000]
    lonely = [it for it in whole if it.layer == "gateway"]
    found = made(tmp_path, [*named(whole, "a"), *named(lossy, "b"), *named(slow, "c"), *named(lonely, "d")])
    by_name = {it.stream: it for it in found.streams}
    assert [it.stream for it in found.streams] == ["b", "c", "d", "a"]
    valid("audit-state", found.model_dump(mode="json", by_alias=True))
    assert (by_name["b"].lost, by_name["b"].doubled, by_name["b"].is_breach) == (3, 2, True)
    assert {it.edge: (it.sent, it.completeness) for it in by_name["b"].edges} == {
        "gateway → collector": (600, "100 %"),
        "collector": (600, "99.5 %"),
    }
    [waiting] = [it for it in by_name["c"].edges if it.edge == "collector"]
    assert (waiting.final, waiting.open, waiting.late) == (0, 5, 0)
    # The first window ends after one minute, and is final two minutes later: 17 minutes ago.
    assert (waiting.overdue_seconds, waiting.completeness) == (17 * 60.0, "unknown")
    assert [it.layer for it in by_name["c"].silent] == ["collector"]
    assert (by_name["d"].unheard, by_name["d"].is_open) == (("gateway → collector",), True)
    assert not (by_name["a"].is_open or by_name["a"].is_breach)
    assert {it.stream for it in found.windows} >= {"b"}
    assert found.windows[0].state == "final"


@pytest.mark.jvm
def test_who_has_told_nothing_for_longer_than_records_may_be_late_is_silent(tmp_path: Path) -> None:
    """As of the end of the period, and nothing at all is no answer."""
    rows = run(12).rows  # the last rows are of minute 20
    assert not made(tmp_path, rows, until="1970-01-01T00:22:00Z").streams[0].silent
    found = made(tmp_path, rows, until="1970-01-01T00:22:01Z").streams[0]
    assert [(it.layer, it.seconds) for it in found.silent] == [("collector", 121.0), ("gateway", 121.0)]
    assert found.is_open
    with pytest.raises(EvidenceError, match="No layer has told"):
        made(tmp_path, [], until=END)


@pytest.mark.jvm
def test_a_stream_of_the_settings_that_has_been_silent_for_longer_than_the_period_is_named(tmp_path: Path) -> None:
    """Its rows are older than what is read, so there are none: it is silent in every layer, and never left out."""
    (tmp_path / "rows.jsonl").write_text("".join(f"{it.line()}\n" for it in run(12).rows), encoding="utf-8")
    (tmp_path / "none.jsonl").write_text("", encoding="utf-8")
    settings = tmp_path / "workbench.toml"
    named = 'lateness = "2m"\nstreams = ["s", "gone"]\ngrades = { paid = "S0" }'
    for rows, well in (("rows", {"s"}), ("none", set())):
        settings.write_text(
            f'[audits.orders]\nrows = "{tmp_path}/{rows}.jsonl"\nlayers = ["gateway", "collector"]\n{named}\n'
        )
        found = {
            it.stream: it
            for it in api.audit_state("orders", since="1970-01-01T00:00:00Z", until=END, config=settings).streams
        }
        assert found.keys() == {"s", "gone", "paid"}
        assert {name for name, it in found.items() if it.is_complete} == well
        assert {it.layer: (it.told, it.seconds) for it in found["gone"].silent} == {
            "gateway": (None, 1200.0),
            "collector": (None, 1200.0),
        }
        assert found["paid"].grade == "S0"
        assert (found["gone"].is_open, found["gone"].is_breach) == (True, False)
    ledger = api.audit(name="orders", config=settings)
    assert ledger.unheard() == [(name, "gateway → collector") for name in ("gone", "paid", "s")]
    assert api.audit(name="orders", stream="gone", config=settings).unheard() == [("gone", "gateway → collector")]
    assert api.audit(name="orders", stream="mistyped", config=settings).unheard() == []
    shown = run_here("audit", "show", "orders", "--config", str(settings), cwd=tmp_path)
    assert (shown.returncode, "gone  gateway → collector  unknown: no row tells of it" in shown.stdout) == (4, True)


@pytest.mark.jvm
def test_the_command_writes_both_files_and_leaves_them_when_it_fails(tmp_path: Path) -> None:
    """3: a grade is broken. Without rows the files of before stay, to become stale."""
    (tmp_path / "rows.jsonl").write_text("".join(f"{it.line()}\n" for it in run(11, lost=5).rows), encoding="utf-8")
    words = ("--rows", "rows.jsonl", "--layers", "gateway,collector", "--lateness", "2m", "--output", "out")
    shown = run_here("audit", "publish", *words, "--since", "1970-01-01T00:00Z", "--until", END, cwd=tmp_path)
    assert shown.returncode == 3, shown.stderr
    before = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert before.keys() == {"rows.workbench_audit.json", "rows.workbench_audit.prom"}
    assert (
        'workbench_audit_lost_records{audit="rows",stream="s",edge="collector"} 5'
        in before["rows.workbench_audit.prom"]
    )
    published = json.loads(before["rows.workbench_audit.json"])
    assert published["named"] == [
        "--rows", str(tmp_path / "rows.jsonl"), "--lateness", "2m", "--layers", "gateway,collector",
    ]  # fmt: skip
    (tmp_path / "rows.jsonl").write_text("", encoding="utf-8")
    again = run_here("audit", "publish", *words, cwd=tmp_path)
    assert (again.returncode, "No layer has told" in again.stderr) == (4, True)
    assert {path.name: path.read_text() for path in (tmp_path / "out").iterdir()} == before


@pytest.mark.jvm
def test_a_time_that_is_not_known_is_not_within_its_limit(tmp_path: Path) -> None:
    """As at the gate: these rows tell no times, and the settings limit them."""
    (tmp_path / "rows.jsonl").write_text("".join(f"{it.line()}\n" for it in run(12).rows), encoding="utf-8")
    settings = tmp_path / "workbench.toml"
    for limit, is_complete in (("", True), ('latency_p99 = "30s"', False)):
        rows = f'rows = "{tmp_path}/rows.jsonl"\nlayers = ["gateway", "collector"]\nlateness = "2m"'
        settings.write_text(f"[audits.orders]\n{rows}\n{limit}\n")
        [it] = api.audit_state("orders", since="1970-01-01T00:00:00Z", until=END, config=settings).streams
        assert (it.is_complete, it.is_open, it.slow) == (is_complete, not is_complete, None)
    assert it.words == "No row tells how long records took to the last layer"


def test_a_share_is_cut_off_and_not_rounded() -> None:
    """One lost of a million is not 100 %, and nothing final is not known."""
    assert edge(sent=1_000_000, lost=1).completeness == "99.9999 %"
    assert edge(sent=100_000_000, lost=1).completeness == "99.9999 %"
    assert edge(sent=200, lost=1).completeness == "99.5 %"
    assert edge(sent=0, final=0, open=3).completeness == "unknown"
    assert edge(final=2, unknown=2).completeness == "unknown"


def test_what_a_grade_allows_is_no_breach() -> None:
    """As the gate judges it."""
    assert breach_of(Grade.S1, sent=10_000, lost=1, doubled=0, others=0) is None
    assert breach_of(Grade.S1, sent=10_000, lost=2, doubled=0, others=0) is not None
    assert breach_of(Grade.S0, sent=10_000, lost=0, doubled=0, others=1) is not None


def test_the_numbers_are_a_page_that_prometheus_reads() -> None:
    """Names are escaped; what is well has no series."""
    hostile = 'a"b\\c\nd'
    found = state(stream(hostile, edge(lost=4, breach="too many")), stream("well"))
    samples = [it for family in text_string_to_metric_families(numbers(found)) for it in family.samples]
    lost = [it for it in samples if it.name == "workbench_audit_lost_records"]
    assert [(it.labels["stream"], it.value) for it in lost] == [(hostile, 4.0)]
    assert "well" not in {it.labels.get("stream") for it in samples}
    assert {it.name: it.value for it in samples if it.name.endswith("streams")} == {"workbench_audit_streams": 2.0}


def test_files_are_read_back_and_a_broken_one_is_named(tmp_path: Path) -> None:
    """The others are there all the same."""
    it = state(stream("s", edge(lost=4)))
    write_state(tmp_path, it)
    (tmp_path / "bad.workbench_audit.json").write_text(json.dumps({"schema": "workbench.audit-state/1"}))
    found = Shelf(tmp_path, ["orders", "never"]).listed()
    assert (found.states, found.missing) == ([it], ["never"])
    [problem] = found.problems
    assert problem.startswith("bad.workbench_audit.json is no answer of an audit")
    assert Shelf(tmp_path / "nothing").listed().states == []
    assert not it.is_stale(it.made_at + timedelta(minutes=45))
    assert it.is_stale(it.made_at + timedelta(minutes=45, seconds=1))


def test_a_file_is_read_again_when_it_is_another_one(tmp_path: Path) -> None:
    """The page shows what was published last."""
    shelf = Shelf(tmp_path)
    for lost in (4, 0):
        write_state(tmp_path, state(stream("s", edge(lost=lost))))
        assert [it.streams[0].lost for it in shelf.listed().states] == [lost]
