"""Rules of a scheduled run: every end has its exit code and a record that is true. Real kernels, small notebooks in place of Spark."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tests.servers import Script, scripted
from workbench.errors import ExitCode, GuardError, OutputError
from workbench.report.runs.parameters import HealthParameters, health_parameters
from workbench.report.runs.run_metrics_file import export, metrics_name
from workbench.report.runs.run_record import (
    EXECUTED,
    RECORD,
    REPORT,
    RESULT,
    RunState,
    read_record,
    runs_in,
    write_record,
)
from workbench.report.runs.run_retention import Keep
from workbench.report.runs.runner import Ended, _signals, _Stop, _TerminatedError, run_health

ROOT = Path(__file__).parent.parent.parent.parent
CAPTURE = ROOT / "notebooks" / "captures" / "incident-1"
GOOD = """
import json, pathlib
pathlib.Path(out, "report.html").write_text("report")
judged = {"start": "2026-11-21T02:45:00+00:00", "end": "2026-11-21T03:00:00+00:00"}
result = {"schema": "workbench.health/1", "run_id": run_id, "exit_code": %d, "lines": [], "cluster": "c", "judged": judged}
result |= {"states": {}, "verdicts": {}, "over_budget": 0}
pathlib.Path(out, "result.json").write_text(json.dumps(result))
"""


def notebook(path: Path, *cells: str) -> Path:
    """A notebook with the parameters of the health report and these cells."""
    names = "\n".join(f'{name}: str = ""' for name in HealthParameters.model_fields)
    first = new_code_cell(names, metadata={"tags": ["parameters"], "title": "Parameters"})
    rest = [new_code_cell(text, metadata={"title": f"Cell {number}"}) for number, text in enumerate(cells)]
    book = new_notebook(
        cells=[first, *rest],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
    )
    nbformat.write(book, path)
    return path


def run(tmp_path: Path, *cells: str, **options: object) -> Ended:
    """A run of such a notebook on a capture."""
    source = notebook(tmp_path / "source.ipynb", *cells)
    parameters = health_parameters(capture=CAPTURE)
    return run_health(parameters, tmp_path / "runs", source=source, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("code", [0, 3, 4])
def test_a_run_that_is_done_ends_as_its_result_says(tmp_path: Path, code: int) -> None:
    """Findings and incomplete evidence are results: state done, and the exit code of the verdict."""
    ended = run(tmp_path, GOOD % code)
    assert ended.record.state is RunState.DONE
    assert ended.record.exit_code == code
    assert set(ended.record.outputs) == {RESULT, REPORT, EXECUTED}
    assert [step.state for step in ended.record.steps] == ["done", "done", "done"]
    assert not list((tmp_path / "runs").glob("*.prom"))  # of a recording


def test_the_same_period_is_not_done_twice_unless_asked(tmp_path: Path) -> None:
    """Same name, same folder; a run whose files were changed is done again."""
    first = run(tmp_path, GOOD % 3)
    second = run(tmp_path, "raise AssertionError('it ran')")
    assert (second.repeated, second.folder, second.record) == (False, first.folder, first.record)
    (first.folder / REPORT).write_text("changed")
    assert run(tmp_path, GOOD % 0).record.exit_code == 0


def test_a_notebook_without_a_result_has_not_done_its_work(tmp_path: Path) -> None:
    """Even if no cell raised; and an old result does not stand in for a new one."""
    run(tmp_path, GOOD % 3)
    ended = run(tmp_path, "print('nothing')", again=True)
    assert ended.record.state is RunState.FAILED
    assert ended.record.exit_code != 0
    assert not (ended.folder / RESULT).exists()


def test_an_error_of_ours_keeps_its_exit_code(tmp_path: Path) -> None:
    """Its name comes out of the kernel, and so does its message; the notebook is kept up to there."""
    ended = run(tmp_path, "from workbench.errors import NoSeriesError\nraise NoSeriesError('nothing there')", "x = 1")
    assert (ended.record.state, ended.record.exit_code) == (RunState.FAILED, ExitCode.EVIDENCE)
    assert ended.record.message == "nothing there"
    assert [step.state for step in ended.record.steps] == ["done", "done", "failed", "pending"]
    assert "nothing there" in (ended.folder / EXECUTED).read_text()


def test_any_other_error_is_internal(tmp_path: Path) -> None:
    """An exit from inside of the notebook is no success either."""
    assert run(tmp_path, "1 / 0").record.exit_code == ExitCode.INTERNAL
    ended = run(tmp_path, "import sys; sys.exit(0)")
    assert (ended.record.state, ended.record.exit_code) == (RunState.FAILED, ExitCode.INTERNAL)


def test_the_deadline_is_that_of_the_whole_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cells that each take less than it, together more; the kernel does not survive."""
    pid = tmp_path / "pid"

    def monotonic() -> float:  # the first cell takes ten minutes
        return time.monotonic() + (599.0 if pid.exists() else 0.0)

    monkeypatch.setattr("workbench.report.runs.papermill_engine.time", SimpleNamespace(monotonic=monotonic))
    ended = run(
        tmp_path,
        f"import os, time, pathlib; pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))",
        "time.sleep(300)",
        deadline_seconds=600.0,
    )
    assert ended.record.steps[-2].state == "done"
    assert ended.record.steps[-2].seconds > 598
    assert (ended.record.state, ended.record.exit_code) == (RunState.DEADLINE, ExitCode.DEADLINE)
    assert "Cell 1" in str(ended.record.message)
    assert ended.record.steps[-1].state == "failed"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_killed_kernel_is_told_as_such(tmp_path: Path) -> None:
    """Not as done, which is what the notebook's own metadata would say."""
    ended = run(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "x = 1")
    assert (ended.record.state, ended.record.exit_code) == (RunState.KERNEL_DIED, ExitCode.KERNEL)
    assert [step.state for step in ended.record.steps] == ["done", "done", "failed", "pending"]
    kept = nbformat.read(ended.folder / EXECUTED, as_version=4)
    assert kept.metadata.papermill.exception is True


def test_two_of_the_same_run_do_not_go_on_at_once(tmp_path: Path) -> None:
    """The second is refused and leaves the first alone."""
    import fcntl

    ended = run(tmp_path, GOOD % 0)
    with (ended.folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(GuardError, match="already running"):
            run(tmp_path, GOOD % 0, again=True)
    assert read_record(ended.folder) == ended.record


def command(tmp_path: Path, source: Path, *, limit: str = "") -> subprocess.Popen[str]:
    """A run in a process of its own, so that it can be killed or limited."""
    code = (
        "import sys; from pathlib import Path as P; from workbench.report.runs.parameters import health_parameters as p;"
        "from workbench.report.runs.runner import run_health as r;"
        f"ended = r(p(capture=P({str(CAPTURE)!r})), P({str(tmp_path / 'runs')!r}), source=P({str(source)!r}));"
        "sys.exit(ended.record.exit_code)"
    )
    words = ["sh", "-c", f'{limit}exec "$0" -c "$1"', sys.executable, code]
    return subprocess.Popen(words, text=True, stderr=subprocess.PIPE, cwd=ROOT)


def started(tmp_path: Path, mark: Path) -> Path:
    """Wait for a notebook's mark; the folder of its run."""
    deadline = time.monotonic() + 120
    while not mark.exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return next(it for it in (tmp_path / "runs").iterdir() if it.is_dir())


def test_a_terminated_run_says_so_and_a_killed_one_is_lost(tmp_path: Path) -> None:
    """SIGTERM leaves a record of its own; after SIGKILL the record's "running" is not believed."""
    mark = tmp_path / "mark"
    source = notebook(tmp_path / "s.ipynb", f"import time; open({str(mark)!r}, 'w').close(); time.sleep(600)")
    child = command(tmp_path, source)
    folder = started(tmp_path, mark)
    child.send_signal(signal.SIGTERM)
    assert child.wait(60) == 143
    record = read_record(folder)
    assert record is not None
    assert (record.state, record.exit_code) == (RunState.TERMINATED, 143)
    mark.unlink()
    child = command(tmp_path, source)
    started(tmp_path, mark)
    child.kill()
    child.wait(60)
    [(_, lost)] = runs_in(tmp_path / "runs")
    assert (lost.state, lost.exit_code) == (RunState.LOST, None)


def test_a_signal_in_the_middle_of_a_callback_ends_the_notebook() -> None:
    """Messages of the kernel are handled in callbacks of an event loop, which keeps errors of those to itself."""
    loop = asyncio.new_event_loop()
    loop.call_soon(os.kill, os.getpid(), signal.SIGTERM)
    loop.call_later(5, loop.stop)
    try:
        with _signals() as stop, pytest.raises(KeyboardInterrupt), stop.breaks_off():
            loop.run_forever()
    finally:
        loop.close()
    assert stop.number == signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_impatience_does_not_cost_the_record(tmp_path: Path, number: signal.Signals) -> None:
    """However often the signal comes while the kernel and the record are ended, the record tells how it was."""
    mark = tmp_path / "mark"
    source = notebook(tmp_path / "s.ipynb", f"import time; open({str(mark)!r}, 'w').close(); time.sleep(600)")
    before = signal.signal(number, signal.SIG_DFL)  # under nohup it would be ignored, here and by what is started here
    try:
        child = command(tmp_path, source)
    finally:
        signal.signal(number, before)
    folder = started(tmp_path, mark)
    for _ in range(1000):  # a slow machine would do nothing but take signals if they never ended
        if child.poll() is not None:
            break
        child.send_signal(number)
        record = json.loads((folder / RECORD).read_bytes())
        if record["state"] != "running":
            break
        time.sleep(0.002)
    assert child.wait(120) in (128 + number, -number)  # a last one may come when the record is on the disk
    record = read_record(folder)
    assert record is not None
    assert (record.state, record.exit_code) == (RunState.TERMINATED, 128 + number)


def test_a_signal_breaks_off_the_notebook_and_nothing_else() -> None:
    """One that came before the notebook ends it at its start; one that comes after it changes nothing any more."""
    stop = _Stop()
    with stop.breaks_off():
        pass
    stop.heard(15, None)
    stop.heard(2, None)
    with pytest.raises(_TerminatedError) as ended, stop.breaks_off():
        pytest.fail("begun in spite of the signal")
    assert ended.value.number == 15
    other = _Stop()
    with pytest.raises(_TerminatedError), other.breaks_off():
        try:
            other.heard(15, None)
        finally:
            other.heard(15, None)  # the second one does not end what the first has begun


def test_no_two_clusters_share_a_file_of_numbers() -> None:
    """Names that differ in what a file's name cannot hold, in capitals or behind their 40th character."""
    names = ["prod eu", "prod-eu", "Prod-EU", "prod/eu", "prod_eu", "p" * 41, "p" * 42, "", "cluster", "生产", "测试"]
    assert len({metrics_name("health", name) for name in names}) == len(names)
    assert metrics_name("health", "prod-eu") == "health-prod-eu.workbench_report.prom"


def test_numbers_under_an_earlier_name_go_when_they_are_ours(tmp_path: Path) -> None:
    """The same series in two files would make the collector refuse both; another cluster's file stays."""
    ours = {"cluster": "prod eu", "parameters": {"cluster": "prod eu"}}
    record = run(tmp_path, GOOD % 0).record.model_copy(update=ours)
    shared = tmp_path / "runs" / "health-prod-eu.workbench_report.prom"
    shared.write_text('workbench_report_last_exit_code{report="health",cluster="prod-eu"} 0\n')
    export(tmp_path / "runs", record)
    assert shared.exists()
    shared.write_text('workbench_report_last_exit_code{report="health",cluster="prod eu"} 0\n')
    export(tmp_path / "runs", record)
    assert not shared.exists()
    assert 'cluster="prod eu"' in (tmp_path / "runs" / metrics_name("health", "prod eu")).read_text()


def test_a_full_disk_is_told_even_though_the_disk_is_full(tmp_path: Path) -> None:
    """The outputs do not fit (a limit of the file size stands for the disk's); the record has its room."""
    big = "from pathlib import Path\nfrom workbench.report.runs.run_record import write_durably\n"
    big += "write_durably(Path(out, 'report.html'), 'x' * 3_000_000)"
    child = command(tmp_path, notebook(tmp_path / "s.ipynb", big, GOOD % 0), limit="ulimit -f 2000; ")
    assert child.wait(120) == ExitCode.INTERNAL, child.stderr.read() if child.stderr else ""
    [(folder, record)] = runs_in(tmp_path / "runs")
    assert record.state is RunState.FAILED
    assert "disk is full" in str(record.message)
    assert sorted(it.name for it in folder.iterdir()) == [".lock", EXECUTED, RECORD]


def test_source_down_and_no_data_through_the_notebook_that_ships(tmp_path: Path) -> None:
    """Exit codes 5 and 4, one line, no report; and no secret in anything that was left."""
    secret = "tok3n-Z7q"
    settings = tmp_path / "workbench.toml"
    empty = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": []}}).encode()
    with scripted(Script(body=empty)) as server:
        for address, code in (("http://127.0.0.1:1", ExitCode.SOURCE), (server.url, ExitCode.EVIDENCE)):
            lines = [
                "[clusters.prod]",
                f'prometheus = "{address}"',
                "timeout_seconds = 10",
                "[clusters.prod.prometheus_headers]",
            ]
            settings.write_text("\n".join([*lines, f'Authorization = "Bearer {secret}"']))
            parameters = health_parameters(cluster="prod", since="1h", config=settings)
            ended = run_health(parameters, tmp_path / f"runs-{code}")
            assert (ended.record.state, ended.record.exit_code) == (RunState.FAILED, code), ended.record.message
            assert not (ended.folder / REPORT).exists()
            for path in ended.folder.rglob("*"):
                assert secret not in path.read_text(), path


def test_secrets_that_a_cell_prints_are_masked(tmp_path: Path) -> None:
    """The executed notebook and the record's message pass the same sieve."""
    settings = tmp_path / "workbench.toml"
    settings.write_text(
        '[clusters.prod]\nprometheus = "http://127.0.0.1:1"\n[clusters.prod.kafka]\n"sasl.password" = "hunter-22x"\n'
    )
    source = notebook(tmp_path / "s.ipynb", "print('hunter-22x')\nraise ValueError('no hunter-22x here')")
    ended = run_health(health_parameters(cluster="prod", config=settings), tmp_path / "runs", source=source)
    assert ended.record.message is not None
    assert "***" in ended.record.message
    for path in ended.folder.iterdir():
        assert "hunter-22x" not in path.read_text(), path


def test_a_good_report_stays_until_it_is_replaced(tmp_path: Path) -> None:
    """Repeated: it is there while the run goes on, and after a kill; a failed repetition leaves it in a folder of its own."""
    first = run(tmp_path, GOOD % 3)
    mark = tmp_path / "mark"
    source = notebook(tmp_path / "s.ipynb", f"import time; open({str(mark)!r}, 'w').close(); time.sleep(600)")
    code = (
        "from pathlib import Path as P; from workbench.report.runs.parameters import health_parameters as p;"
        "from workbench.report.runs.runner import run_health as r;"
        f"r(p(capture=P({str(CAPTURE)!r})), P({str(tmp_path / 'runs')!r}), source=P({str(source)!r}), again=True)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    started(tmp_path, mark)
    assert (first.folder / REPORT).read_text() == "report"
    child.kill()
    child.wait(60)
    assert (first.folder / REPORT).read_text() == "report"
    failed = run(tmp_path, "import pathlib; pathlib.Path(out, 'report.html').write_text('half')\n1 / 0", again=True)
    assert failed.record.state is RunState.FAILED
    assert (first.folder / "earlier" / REPORT).read_text() == "report"
    assert (first.folder / "earlier" / RESULT).exists() and not (first.folder / RESULT).exists()
    assert "earlier" in str(failed.record.hint)
    run(tmp_path, "1 / 0", again=True)
    assert (first.folder / "earlier" / REPORT).read_text() == "report"  # a second failure does not cost it
    good = run(tmp_path, GOOD % 0, again=True)
    assert sorted(it.name for it in good.folder.iterdir()) == sorted([".lock", EXECUTED, RECORD, REPORT, RESULT])
    assert good.record.outputs.keys() == {EXECUTED, REPORT, RESULT}


def test_a_repetition_on_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    """It is refused before anything is removed (a limit of the file size stands for the disk's)."""
    first = run(tmp_path, GOOD % 3)
    before = {it.name: it.read_bytes() for it in first.folder.iterdir() if it.name != ".lock"}
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, limit[1]))
    try:
        with pytest.raises(OutputError, match="disk is full"):
            run(tmp_path, GOOD % 0, again=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert {it.name: it.read_bytes() for it in first.folder.iterdir() if it.name != ".lock"} == before


@pytest.mark.parametrize("anew", [False, True])
def test_a_folder_that_is_removed_while_it_runs_is_told(tmp_path: Path, anew: bool) -> None:
    """And what another run makes there in the meantime is left alone."""
    words = "import pathlib, shutil; folder = pathlib.Path(out).parent; shutil.rmtree(folder)\n"
    if anew:
        words += "folder.mkdir(); (folder / '.lock').touch(); (folder / 'run.json').write_text('of another run')\n"
    with pytest.raises(OutputError, match="was removed while the report ran"):
        run(tmp_path, words, "x = 1")
    left = [it.name for it in (tmp_path / "runs").rglob("*")]
    assert sorted(left) == ([".lock", left[0], "run.json"] if anew else [])
    if anew:
        assert next((tmp_path / "runs").rglob(RECORD)).read_text() == "of another run"


def test_runs_are_removed_after_the_run(tmp_path: Path) -> None:
    """Only if asked; the new one stays."""
    old = tmp_path / "runs" / "health-old"
    ended = run(tmp_path, GOOD % 0)
    old.mkdir()
    write_record(
        old,
        ended.record.model_copy(
            update={"run_id": "health-old", "started_at": ended.record.started_at.replace(year=2020)}
        ),
    )
    run(tmp_path, GOOD % 0, again=True)
    assert old.exists()
    said: list[str] = []
    run(tmp_path, GOOD % 0, keep=Keep(number=1), say=said.append)  # done already: it removes all the same
    assert not old.exists() and ended.folder.exists()
    assert said[-1] == "Removed health-old: --keep."
