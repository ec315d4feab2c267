"""Every mistake of a user: one line that names the thing, a hint, the right exit code, and nothing half-written."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evaluation.stories import THRESHOLDS, WINDOW, Story, lagging
from tests.cli.running import PROGRAM, check, refused, run, run_here
from tests.servers import Script, scripted
from workbench.collect.capture import Capture, new_info, write_capture


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A cluster that nobody answers for."""
    path = tmp_path / "w.toml"
    path.write_text(
        '[clusters.prod]\nbootstrap = "127.0.0.1:9"\nprometheus = "http://127.0.0.1:9"\ntimeout_seconds = 1\n'
    )
    return path


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (["triage", "--cluster", "prod", "--capture", "x"], 2, ["either"]),
        (["triage", "--cluster", "staging"], 2, ["staging", "prod"]),
        (["triage", "--cluster", "prod", "--since", "2026-11-21T03:00:00"], 2, ["2026-11-21T03:00:00", "zone"]),
        (["triage", "--cluster", "prod", "--since", "now", "--until", "1h ago"], 2, ["not before its end"]),
        (["triage", "--cluster", "prod", "--since", "soon"], 2, ["soon"]),
        (["triage", "--cluster", "prod", "--since", "0001-01-01T00:00:00Z"], 2, ["0001", "calendar"]),
        (["triage", "--cluster", "prod", "--until", "0001-01-01T00:30:00Z"], 2, ["0001", "calendar"]),
        (["triage", "--cluster", "prod", "--until", "9999-12-31T23:59:00Z"], 2, ["9999", "calendar"]),
        (["triage", "--cluster", "prod", "--since", "999999d ago"], 2, ["999999d"]),
        (["triage", "--cluster", "prod", "--baseline", "999999d"], 2, ["999999d", "hundred years"]),
        (["capture", "--cluster", "prod", "--out", "c", "--until", "0001-01-01T00:00:00Z"], 2, ["0001"]),
        (["watch", "--cluster", "prod", "--out", "c", "--for", "9999999d"], 2, ["9999999d"]),
        (["report", "run", "health", "--cluster", "prod", "--until", "0001-01-01T00:00:00Z"], 2, ["0001"]),
        (["triage", "--cluster", "prod", "--baseline", "-3h"], 2, ["-3h"]),
        (["triage", "--cluster", "prod", "--observe", "30s", "--since", "1h ago"], 2, ["--observe"]),
        (["triage", "--capture", "nowhere"], 2, ["nowhere"]),
        (["triage", "--capture", "."], 2, ["capture.json"]),
        (["triage", "--capture", "x", "--html", "no/such/folder/r.html"], 2, ["no/such/folder"]),
        (["triage", "--cluster", "prod"], 5, ["127.0.0.1:9"]),
        (["snapshot", "--cluster", "prod"], 5, ["127.0.0.1:9"]),
        (["watch", "--cluster", "prod", "--out", "rec", "--for", "1s"], 5, ["prod"]),
        (["capture", "--cluster", "prod", "--out", "cap"], 5, ["127.0.0.1:9"]),
        (["report", "run", "health", "--cluster", "staging"], 2, ["staging", "prod"]),
        (["report", "run", "health", "--cluster", "prod", "--capture", "x"], 2, ["either"]),
        (["report", "run", "health", "--cluster", "prod", "--since", "yesterday"], 2, ["yesterday"]),
        (["report", "run", "health", "--cluster", "prod", "--until", "2026-11-21T03:00:00"], 2, ["zone"]),
        (["report", "run", "health", "--cluster", "prod", "--deadline", "soon"], 2, ["soon"]),
        (["report", "run", "health", "--capture", "nowhere"], 2, ["nowhere"]),
        (["triag"], 2, ["triag", "triage"]),
        (["triage", "--nope"], 2, ["--nope"]),
        (["lab", "run", "nope"], 2, ["nope", "workbench lab list"]),
    ],
)
def test_a_mistake_is_told_in_one_line(
    tmp_path: Path, config: Path, words: list[str], code: int, named: list[str]
) -> None:
    """Usage errors are 2, unreachable sources 5; no file or folder appears, not even the record of a report's run."""
    takes_config = words[0] in ("triage", "snapshot", "watch", "capture", "report") and "--nope" not in words
    before = sorted(tmp_path.rglob("*"))
    refused([*words, *(["--config", str(config)] if takes_config else [])], code, *named, cwd=tmp_path)
    assert [path for path in sorted(tmp_path.rglob("*")) if "state" not in path.parts] == before


@contextmanager
def black_hole() -> Iterator[int]:
    """A port that accepts and never answers, as a hanging broker does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    taken.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        for connection in taken:
            connection.close()


@pytest.mark.parametrize("command", ["snapshot", "triage"])
def test_a_hanging_server_is_left_in_time(tmp_path: Path, command: str) -> None:
    """Kafka or Prometheus that accepts and is silent: exit code 5 within the timeout of the settings."""
    with black_hole() as port:
        config = tmp_path / "w.toml"
        where = (
            f'bootstrap = "127.0.0.1:{port}"' if command == "snapshot" else f'prometheus = "http://127.0.0.1:{port}"'
        )
        config.write_text(f"[clusters.prod]\n{where}\ntimeout_seconds = 1\n")
        check(run(command, "--cluster", "prod", "--config", str(config), cwd=tmp_path), 5, str(port))


def test_a_prometheus_without_our_series_is_no_verdict(tmp_path: Path) -> None:
    """It answers, with nothing: exit code 4, the group, the window and the profiles named."""
    empty = b'{"status":"success","data":{"resultType":"matrix","result":[]}}'
    with scripted(Script(body=empty)) as server:
        config = tmp_path / "w.toml"
        config.write_text(f'[clusters.prod]\nprometheus = "{server.url}"\n')
        shown = run("triage", "--cluster", "prod", "--group", "pay'ments", "--config", str(config), cwd=tmp_path)
    check(shown, 4, "pay'ments", "kafka_exporter")


@pytest.mark.parametrize(
    "words",
    [["triage"], ["triag"], ["lab", "run", "nope"], ["replay", "log", "--nope"], ["runtime", "check", "c.toml"]],
)
def test_in_this_process_it_is_as_in_its_own(tmp_path: Path, words: list[str]) -> None:
    """The same code and the same words, so what the tests call in their own process holds for the installed command."""
    here, there = (call(*words, cwd=tmp_path) for call in (run_here, run))
    assert (here.returncode, here.stdout) == (there.returncode, there.stdout)
    assert here.stderr.splitlines()[0] == there.stderr.splitlines()[0]


def test_a_full_target_folder_is_left_alone(tmp_path: Path, config: Path) -> None:
    """Somebody's files: refused before any work."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("keep")
    for words in (["watch", "--out", "full"], ["capture", "--out", "full"], ["triage", "--save", "full"]):
        refused([words[0], "--cluster", "prod", *words[1:], "--config", str(config)], 2, "full", cwd=tmp_path)
    check(run_here("demo", "--out", "full", cwd=tmp_path), 2, "full")
    assert (tmp_path / "full" / "notes.txt").read_text() == "keep"


def saved(folder: Path, story: Story, **info: object) -> Path:
    """A story as a capture on disk."""
    head = new_info(cluster="c", source="test", profiles=["runtime"], window=WINDOW, thresholds=THRESHOLDS, **info)  # type: ignore[arg-type]
    write_capture(folder, Capture(info=head, samples=story.samples()))
    return folder


@pytest.mark.jvm
def test_the_exit_code_says_how_bad_it_is(spark: object, tmp_path: Path) -> None:
    """0 healthy, 3 lagging, 4 not to be told; --json alone on stdout, whatever a JVM of the command's own may say."""
    folders = {
        0: saved(tmp_path / "healthy", Story().all_partitions().calm()),
        3: saved(tmp_path / "sick", lagging().calm()),
        4: saved(tmp_path / "unknown", Story().all_partitions(lag=float("nan"), time_lag=None).calm()),
    }
    for code, folder in folders.items():
        shown = (run if code == 3 else run_here)("triage", "--capture", str(folder), "--json", cwd=tmp_path)
        assert shown.returncode == code, shown.stderr
        document = json.loads(shown.stdout)
        assert document["schema"] == "workbench.triage/1"
        # What is waited for, on a slow machine; and nothing else.
        assert all(line.startswith("… ") for line in shown.stderr.splitlines())


@pytest.mark.jvm
def test_unusable_values_are_never_a_number(spark: object, tmp_path: Path) -> None:
    """NaN, +Inf and -1 give `unusable_data`, a null lag and no time lag, whatever else is in the capture."""
    for value in (float("nan"), float("inf"), -1.0):
        folder = saved(tmp_path / f"v{value}", Story().all_partitions(lag=value, time_lag=None).calm())
        shown = run_here("triage", "--capture", str(folder), "--json", cwd=tmp_path)
        [finding] = json.loads(shown.stdout)["findings"]
        assert (shown.returncode, finding["verdict"], finding["lag_messages"]) == (4, "unusable_data", None)


@pytest.mark.jvm
def test_a_group_that_is_not_in_the_capture(spark: object, tmp_path: Path) -> None:
    """Exit code 2 with its name, as for a cluster."""
    folder = saved(tmp_path / "healthy", Story().all_partitions().calm())
    check(run_here("triage", "--capture", str(folder), "--group", "nobody", cwd=tmp_path), 2, "nobody")


def test_a_damaged_capture_is_refused(tmp_path: Path) -> None:
    """Exit code 4, with the file's name; no JVM is started for it."""
    folder = saved(tmp_path / "healthy", Story().all_partitions().calm())
    data = bytearray((folder / "samples.parquet").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "samples.parquet").write_bytes(data)
    check(run("triage", "--capture", str(folder), cwd=tmp_path), 4, "samples.parquet")


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    """`workbench … | head` ends quietly."""
    shown = subprocess.run(
        ["bash", "-c", f"{PROGRAM} profiles list | head -1"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert "Traceback" not in shown.stderr


def test_a_reader_that_has_gone_is_no_all_clear(tmp_path: Path) -> None:
    """What could not be written ends as of any program, and never with the exit code of a healthy group."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as gone:
        shown = subprocess.run([PROGRAM, "settings"], stdout=gone, stderr=subprocess.PIPE, text=True, check=False)
    assert (shown.returncode, shown.stderr) == (141, "")


@pytest.mark.parametrize("words", ["settings", "profiles list --json"])
def test_output_that_cannot_be_written_is_named(words: str, tmp_path: Path) -> None:
    """A full disk: one line, whether the output is long, or written at the end only."""
    line = f"{PROGRAM} {words} >/dev/full"
    shown = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert shown.returncode == 1
    assert shown.stderr.splitlines()[0] == "Error: The output cannot be written: No space left on device."
    assert "Traceback" not in shown.stderr and "Internal" not in shown.stderr


def test_a_closed_output_is_none(tmp_path: Path) -> None:
    """As where a service manager has closed it."""
    shown = subprocess.run(
        ["bash", "-c", f"{PROGRAM} profiles list >&-"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (shown.returncode, shown.stderr) == (0, "")


def test_a_stop_is_a_stop_whatever_a_library_makes_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python itself turns a Ctrl-C within the import of a class into a RuntimeError: that is no error of ours to be reported."""

    def interrupted(*_given: object) -> None:
        raise RuntimeError("Error calling __set_name__ on 'cached_property'") from KeyboardInterrupt()

    monkeypatch.setattr("workbench.reference.settings_page.as_text", interrupted)
    shown = run_here("settings", cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (130, "Stopped.\n")
