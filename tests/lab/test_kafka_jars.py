"""Rules of fetching jars: a limit that limits, a lock that is let go, and jars that are what they were when they are started."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.lab.test_process import gone
from tests.waiting import wait_for
from workbench.errors import SetupError
from workbench.lab import kafka_jars, process
from workbench.lab.kafka_jars import JarSet, ensure
from workbench.spark.java import Java

CONTENT = b"PK"


class FakeSet(JarSet):
    """One jar."""

    @property
    def checksums(self) -> dict[str, str]:
        return {"a-1.jar": hashlib.sha256(CONTENT).hexdigest()}


ONE = FakeSet("one", "a")
# What Ivy is told names the folder; this one says where it is in the arguments.
RETRIEVE = 'for word; do case $word in */\\[artifact*) target=${word%/*} ;; esac; done; echo "run" >>"$HOME/runs"\n'
DELIVER = RETRIEVE + 'printf PK >"$target/a-1.jar"; echo "[SUCCESSFUL ] a!a.jar"\n'


@pytest.fixture
def ivy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java whose Ivy does what this script says; nothing is in the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\n" + DELIVER)
    program.chmod(0o755)
    monkeypatch.setattr(kafka_jars, "find_java", lambda: Java(program=program, version=17, found_in="test"))
    monkeypatch.setattr(kafka_jars, "trust_options", list)
    return program


def runs(tmp_path: Path) -> int:
    """How often Ivy ran."""
    return len((tmp_path / "runs").read_text().splitlines())


def test_jars_are_fetched_once(ivy: Path, tmp_path: Path) -> None:
    """And nothing but them lies in their folder."""
    told: list[tuple[int, int]] = []
    folder = ensure(ONE, progress=lambda done, total: told.append((done, total)))
    assert [path.name for path in folder.iterdir()] == ["a-1.jar"]
    assert [path.name for path in folder.parent.iterdir()] == ["one"]
    assert told == [(0, 1), (1, 1), (1, 1)]
    assert ensure(ONE) == folder
    assert runs(tmp_path) == 1


@pytest.mark.parametrize("change", ["content", "same size and time", "gone", "one too many"])
def test_a_jar_that_was_changed_after_it_came_is_not_started(ivy: Path, tmp_path: Path, change: str) -> None:
    """The set is fetched anew; if that brings the same, it is refused by name."""
    folder = ensure(ONE)
    jar = folder / "a-1.jar"
    if change == "gone":
        jar.unlink()
    elif change == "one too many":
        (folder / "evil.jar").write_bytes(b"PK")
    else:
        before = jar.stat()
        jar.write_bytes(b"XX" if change == "same size and time" else b"longer")
        os.utime(jar, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not ONE.ready
    assert ensure(ONE) == folder
    assert [path.read_bytes() for path in folder.iterdir()] == [CONTENT]
    assert runs(tmp_path) == 2
    ivy.write_text("#!/bin/sh\n" + DELIVER.replace("PK", "XX"))
    jar.write_bytes(b"YY")
    with pytest.raises(SetupError, match=r"a-1\.jar is not the expected file"):
        ensure(ONE)
    assert [path.name for path in folder.parent.iterdir()] == ["one"], "nothing is left over"


@pytest.mark.parametrize("stall", ["sleep 300", "sleep 300 & wait", "sleep 300 & exit 0", "exec >&-; sleep 300"])
def test_a_download_that_stalls_is_ended_in_time_with_all_that_it_started(
    ivy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stall: str
) -> None:
    """Whoever holds the output open, and whether or not anybody does; the next one has the lock at once."""
    ivy.write_text(f"#!/bin/sh\necho $$ >{shlex.quote(str(tmp_path))}/leader\necho downloading a.jar\n{stall}\n")
    monkeypatch.setattr(kafka_jars, "_TIMEOUT_SECONDS", 1.0)
    began = time.monotonic()
    with pytest.raises(SetupError, match="within 1 s: downloading" if "exit" not in stall else "."):
        ensure(ONE)
    assert time.monotonic() - began < 30
    leader = int((tmp_path / "leader").read_text())
    assert gone(leader)
    wait_for(lambda: not _alive_in(leader), 10)  # they are killed, and die in their own time
    ivy.write_text("#!/bin/sh\n" + DELIVER)
    assert ensure(ONE).is_dir()


def _alive_in(leader: int) -> list[int]:
    """Processes of a group that are no zombies."""
    found = []
    for it in psutil.process_iter():
        with suppress(psutil.NoSuchProcess):
            if _group_of(it.pid) == leader and it.status() != psutil.STATUS_ZOMBIE:
                found.append(it.pid)
    return found


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def test_who_waits_for_a_fetch_waits_so_long_and_is_told_for_whom(
    ivy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A holder that is stopped in its tracks would hold the lock for ever; one that ends has fetched for both."""
    hold = (
        "import fcntl, os, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); "
        "f.write(str(os.getpid())); f.flush(); print(1, flush=True); time.sleep(60)"
    )
    (tmp_path / "cache" / "lag-workbench").mkdir(parents=True)
    lock = tmp_path / "cache" / "lag-workbench" / "kafka.lock"
    holder = subprocess.Popen([sys.executable, "-c", hold, lock], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        monkeypatch.setattr(kafka_jars, "_WAIT_SECONDS", 0.3)
        with pytest.raises(SetupError, match="has been downloading") as caught:
            ensure(ONE)
        assert f"Process {holder.pid}" in (caught.value.hint or "")
        monkeypatch.setattr(kafka_jars, "_WAIT_SECONDS", 60)
        threading.Timer(0.3, holder.kill).start()
        assert ensure(ONE).is_dir()
    finally:
        holder.kill()
        holder.wait()


def test_what_a_program_says_and_how_it_ends_comes_through(tmp_path: Path) -> None:
    """Bytes that are no text included; and an error of who reads ends the program."""
    said: list[str] = []
    status = process.run_within(
        30, ["sh", "-c", r"printf 'a\n\377b\n'; pwd; exit 3"], cwd=tmp_path, on_line=said.append
    )
    assert status == 3
    assert said == ["a\n", "\ufffdb\n", f"{tmp_path}\n"]

    def stop(_line: str) -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        process.run_within(300, ["sh", "-c", "echo; sleep 300"], on_line=stop)
    assert time.monotonic() - began < 30
