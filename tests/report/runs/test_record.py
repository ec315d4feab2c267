"""Rules of records: what is read of a folder of runs, which runs are kept, and what the numbers of a cluster say."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from workbench.errors import GuardError, UsageError
from workbench.files import exclusive_lock
from workbench.report.runs import run_record as module
from workbench.report.runs.run_metrics_file import export, metrics_name
from workbench.report.runs.run_record import (
    LOCK,
    RECORD,
    RESULT,
    RunRecord,
    RunState,
    latest_runs,
    read_record,
    run_named,
    runs_in,
    write_record,
)
from workbench.report.runs.run_retention import Keep, parse_keep, retain

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)


def recorded(out: Path, name: str, hours_ago: float, **values: Any) -> RunRecord:
    """A run that ended so many hours ago; its period ended when it began."""
    at = NOW - timedelta(hours=hours_ago)
    given = {
        "run_id": name, "report": "health", "cluster": "prod", "parameters": {"cluster": "prod", "until": at.isoformat()},
        "state": "done", "exit_code": 0, "started_at": at, "ended_at": at, "seconds": 1.0, "deadline_seconds": 60,
        "pid": 1, "process_started": 0.0, **values,
    }  # fmt: skip
    record = RunRecord.model_validate(given)
    (out / name).mkdir(parents=True)
    write_record(out / name, record)
    return record


def result(folder: Path, group: str) -> None:
    """A result with one subscription that lags."""
    line = {
        "group": group, "topic": "t", "state": "lagging", "verdict": "slow_processor", "headline": "h", "time_lag_seconds": 1.0
    }  # fmt: skip
    judged = {"start": NOW.isoformat(), "end": NOW.isoformat()}
    document = {
        "schema": "workbench.health/1", "run_id": folder.name, "cluster": "prod", "judged": judged, "exit_code": 3,
        "states": {}, "verdicts": {}, "over_budget": 0, "lines": [line],
    }  # fmt: skip
    (folder / RESULT).write_text(json.dumps(document))


@pytest.mark.parametrize("until", [None, "", "yesterday", "2026-11-21T03:00:00", "2026-11-21"])
def test_a_record_of_another_version_is_left_out(tmp_path: Path, until: str | None) -> None:
    """Without the end of its period, or with one that is no instant, it is no previous run, and stops no other."""
    from workbench.report.runs.parameters import HealthParameters
    from workbench.report.runs.runner import _previous

    parameters = {"cluster": "prod"} if until is None else {"cluster": "prod", "until": until}
    record = recorded(tmp_path, "health-prod-1", 1, parameters=parameters)
    assert record.period_end is None
    asked = HealthParameters(cluster="prod", since=(NOW - timedelta(hours=1)).isoformat(), until=NOW.isoformat())
    assert _previous(tmp_path, tmp_path / "other", asked) == ""
    recorded(tmp_path, "health-prod-2", 2)
    assert _previous(tmp_path, tmp_path / "other", asked) == str((tmp_path / "health-prod-2" / RESULT).resolve())
    export(tmp_path, record)
    assert (tmp_path / metrics_name("health", "prod")).exists()


def test_a_view_reads_no_more_than_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest of many, and one by its name; the cost does not grow with the years."""
    for number in range(50):
        recorded(tmp_path, f"health-prod-{number:02}", 50 - number)
    read: list[Path] = []
    whole = module.read_record
    monkeypatch.setattr(module, "read_record", lambda folder: read.append(folder) or whole(folder))
    assert [folder.name for folder, _ in latest_runs(tmp_path, 3)] == [f"health-prod-{it}" for it in (49, 48, 47)]
    assert len(read) == 3
    found = run_named(tmp_path, "health-prod-07")
    assert found is not None and found[1].run_id == "health-prod-07"
    assert len(read) == 4


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../runs", "/etc", "a/b", "a\0b", ".hidden", "nothing", "x" * 300, "\ud800"]
)
def test_a_name_of_a_run_is_no_path(tmp_path: Path, name: str) -> None:
    """Whatever it holds, it leads to a folder of a run or to nothing."""
    out = tmp_path / "runs"
    recorded(out, ".hidden", 1)
    recorded(tmp_path, "a", 1)
    assert run_named(out, name) is None


def test_a_folder_that_is_none_has_no_runs(tmp_path: Path) -> None:
    """As a file has none, and what is removed while it is read."""
    (tmp_path / "file").write_text("")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / RECORD).mkdir()
    for out in (tmp_path / "none", tmp_path / "file", tmp_path):
        assert runs_in(out) == [] and latest_runs(out, 10) == []


@pytest.mark.parametrize(
    ("keep", "left"),
    [
        (Keep(number=2), {"new", "now"}),
        (Keep(number=1), {"new", "now"}),  # `new` is the last that was done: the next report needs it
        (Keep(number=9), {"old", "mid", "new", "now"}),
        (Keep(age=timedelta(hours=25)), {"mid", "new", "now"}),
        (Keep(age=timedelta(seconds=1)), {"new", "now"}),
    ],
)
def test_older_runs_of_the_same_cluster_are_removed(tmp_path: Path, keep: Keep, left: set[str]) -> None:
    """By number or by age; another cluster's stay, and so do a run in progress and what is no run."""
    for name, hours in (("old", 30), ("mid", 20), ("new", 10)):
        recorded(tmp_path, name, hours)
    failed = recorded(tmp_path, "now", 0, state="failed")
    recorded(tmp_path, "other", 99, cluster="eu")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("not of ours")
    (tmp_path / ".old.0123456789abcdef.gone").mkdir()
    gone = retain(tmp_path, failed, keep, now=NOW)
    assert {it.name for it in tmp_path.iterdir()} == left | {"other", "mine"}
    assert set(gone) == {"old", "mid", "new", "now"} - left


def test_a_run_that_is_locked_stays(tmp_path: Path) -> None:
    """It is being repeated just now."""
    recorded(tmp_path, "old", 30)
    last = recorded(tmp_path, "new", 1)
    with exclusive_lock(tmp_path / "old" / LOCK, GuardError("x")):
        assert retain(tmp_path, last, Keep(number=1)) == []
    assert read_record(tmp_path / "old") is not None
    assert retain(tmp_path, last, Keep(number=1)) == ["old"]


def test_the_run_of_the_latest_period_stays(tmp_path: Path) -> None:
    """Its verdicts are exported; reports of older periods that are made afterwards do not push it out."""
    recorded(tmp_path, "latest", 5)
    for name, hours in (("one", 4), ("two", 3)):
        until = (NOW - timedelta(days=hours)).isoformat()
        last = recorded(tmp_path, name, hours, parameters={"cluster": "prod", "until": until})
    assert retain(tmp_path, last, Keep(number=1)) == ["one"]


@pytest.mark.parametrize("text", ["0", "-1", "", "all", "90", "90d", " 12h ", "1" * 30, "٣"])
def test_what_to_keep_is_a_number_or_an_age(text: str) -> None:
    """Anything else is refused: a wrong word removes nothing."""
    good = {"90": Keep(number=90), "90d": Keep(age=timedelta(days=90)), " 12h ": Keep(age=timedelta(hours=12))}
    if text in good:
        assert parse_keep(text) == good[text]
    else:
        with pytest.raises(UsageError, match="neither a number of runs nor an age"):
            parse_keep(text)


def test_the_numbers_are_those_of_the_latest_period(tmp_path: Path) -> None:
    """A run of an older period that ends later changes no verdict; how the last run ended is told all the same."""
    new = recorded(tmp_path, "health-prod-new", 1)
    result(tmp_path / "health-prod-new", "new")
    export(tmp_path, new)
    old = recorded(tmp_path, "health-prod-old", 2, ended_at=NOW, exit_code=3)
    result(tmp_path / "health-prod-old", "old")
    export(tmp_path, old)
    text = (tmp_path / metrics_name("health", "prod")).read_text()
    assert 'group="new"' in text and 'group="old"' not in text
    assert 'workbench_report_last_exit_code{report="health",cluster="prod"} 3' in text
    assert f"{NOW.timestamp():.3f}" in text
    failed = recorded(tmp_path, "health-prod-failed", 0.5, state="failed", exit_code=5)
    export(tmp_path, failed)
    assert "workbench_verdict{" not in (tmp_path / metrics_name("health", "prod")).read_text()


def test_a_result_that_is_gone_leaves_no_verdicts(tmp_path: Path) -> None:
    """The other numbers are written."""
    record = recorded(tmp_path, "health-prod-new", 1)
    assert record.state is RunState.DONE
    export(tmp_path, record)
    text = (tmp_path / metrics_name("health", "prod")).read_text()
    assert "workbench_report_last_exit_code" in text and "workbench_verdict{" not in text


def test_a_report_on_a_recording_is_none_of_a_cluster(tmp_path: Path) -> None:
    """Its verdicts are of then: no alert may fire for them, nor for the next report that nobody makes; and it pushes out no run of a
    cluster, though its folder may have the cluster's name."""
    now = recorded(tmp_path, "health-prod-now", 1)
    result(tmp_path / "health-prod-now", "now")
    until = (NOW - timedelta(days=30)).isoformat()
    then = recorded(tmp_path, "health-prod-then", 0, parameters={"capture": "/recordings/prod", "until": until})
    result(tmp_path / "health-prod-then", "then")
    export(tmp_path, then)
    assert not list(tmp_path.glob("*.prom"))
    export(tmp_path, now)
    text = (tmp_path / metrics_name("health", "prod")).read_text()
    assert f"{NOW.timestamp():.3f}" not in text and 'group="now"' in text
    recorded(tmp_path, "health-prod-new", 0.5)
    assert retain(tmp_path, then, Keep(number=1)) == []
