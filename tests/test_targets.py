"""Rules of the targets that run the tests: each test belongs to one of them, parts run side by side, and none outlives its target."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_for

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / ".ci" / "side-by-side"
PART = """#!/usr/bin/env bash
# In place of pytest: its last argument is what it does.
echo "$$" >"$ROOM/${!#}"
case "${!#}" in
  right) echo "all is well" ;;
  wrong) echo "something is wrong"; exit 1 ;;
  once|twice|many|module|died)
    for word in "$@"; do case "$word" in cache_dir=*) cache=${word#cache_dir=}/v/cache ;; esac; done
    if [[ " $* " = *" --last-failed "* ]]; then case "${!#}" in once|module) exit 0 ;; *) exit 1 ;; esac; fi
    [ -e "$cache" ] && exit 9
    mkdir -p "$cache"
    case "${!#}" in many) tests=$(printf '%s.py::1 ' {1..9}) ;; module) tests=$(printf 'a.py::%s ' {1..9}) ;; *) tests=a.py::1 ;; esac
    printf '  "%s": true,\\n' $tests >"$cache/lastfailed"
    [ "${!#}" = died ] && exit 2 || exit 1 ;;
  long) trap 'sleep 0.2; touch "$ROOM/put-away"; exit 2' INT; touch "$ROOM/hears"; while :; do sleep 0.05; done ;;
  stubborn) trap '' INT TERM; touch "$ROOM/hears"; while :; do sleep 0.05; done ;;
  meets*) for _ in {1..400}; do [ -e "$ROOM/meets-1" ] && [ -e "$ROOM/meets-2" ] && exit; sleep 0.05; done; exit 1 ;;
esac
"""


def markers_of_targets() -> dict[str, str]:
    """Name of a target, or of a part of `make test`, to its expression of markers."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    for name in ("PARTS", "ALONE"):  # the former has the latter in it
        [value] = re.findall(rf"^{name} := (.*)$", text, flags=re.M)
        text = text.replace(f"$({name})", value)
    found = {}
    for name, recipe in re.findall(r"^(test[a-z-]*):.*\n((?:\t.*\n)+)", text, flags=re.M):
        if expressions := re.findall(r'-m pytest (?:-s )?-m "?([^"\n]+?)"?(?= --|\n)', recipe):
            [found[name]] = expressions
        found |= {f"{name}: {part}": words for part, words in re.findall(r'(?<= )(\w+) "([^"]+)"', recipe)}
    return found


def test_every_test_has_one_target() -> None:
    """Whatever its markers are: none is left out, and none runs twice. Who fetches a browser or starts a cluster is asked for it."""
    targets = markers_of_targets()
    assert set(targets) == {
        "test: unit",
        "test: doors",
        "test: judged",
        "test: spark",
        "test: kafka",
        "test: journeys",
        "test-slow: slow",
        "test-pages",
        "test-cluster",
        "test-secured",
    }
    names = ("door", "judged", "journey", "jvm", "lab", "slow", "apt", "cluster", "secured")
    for count in range(len(names)):
        for markers in itertools.combinations(names, count):
            if len({"apt", "cluster", "secured"} & set(markers)) > 1:
                continue
            has = {name: name in markers for name in names}
            taken = [name for name, words in targets.items() if eval(words, {}, has)]
            assert len(taken) == 1, (markers, taken)


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """A copy of the script, whose logs are its own, and a program in place of pytest."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / SCRIPT.name).write_bytes(SCRIPT.read_bytes())
    (tmp_path / "part").write_text(PART)
    for path in (tmp_path / "part", tmp_path / ".ci" / SCRIPT.name):
        path.chmod(0o755)
    return tmp_path


Begin = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def side_by_side(room: Path) -> Iterator[Begin]:
    """Begin the script with these parts; none outlives its test."""
    begun: list[subprocess.Popen[str]] = []

    def begin(
        *parts: str, beside: str = "", first: str = "", is_deaf: bool = False, **seconds: float
    ) -> subprocess.Popen[str]:
        words = [word for part in parts for word in ((part,) if part == "then" else (f"part-{part}", part))]
        env = {
            **os.environ,
            "ROOM": str(room),
            "PYTEST": str(room / "part"),
            "BESIDE": beside,
            "FIRST": first,
            **{name.upper(): str(value) for name, value in seconds.items()},
        }
        command = [room / ".ci" / SCRIPT.name, "--durations=5", "--", *words]
        before = signal.signal(signal.SIGINT, signal.SIG_IGN if is_deaf else signal.SIG_DFL)
        try:
            begun.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
        finally:
            signal.signal(signal.SIGINT, before)
        return begun[-1]

    yield begin
    for run in begun:
        if run.poll() is None:
            family = psutil.Process(run.pid).children(recursive=True)
            for it in [psutil.Process(run.pid), *family]:
                it.kill()
            run.wait(30)


def test_parts_run_at_the_same_time(side_by_side: Begin) -> None:
    """Two that wait for each other both end."""
    assert side_by_side("meets-1", "meets-2").wait(60) == 0


@pytest.mark.parametrize("parts", [("wrong", "right"), ("right", "wrong")])
def test_one_part_that_fails_fails_all_and_everything_is_shown(
    room: Path, side_by_side: Begin, parts: tuple[str, str]
) -> None:
    """Whichever it is; the logs stay in build."""
    shown, _ = (run := side_by_side(*parts)).communicate(timeout=60)
    assert run.returncode == 1
    assert "all is well" in shown and "something is wrong" in shown
    assert (room / "build" / "part-wrong.log").read_text() == "something is wrong\n"


@pytest.mark.parametrize(("part", "code"), [("once", 0), ("module", 0), ("twice", 1), ("many", 1), ("died", 1)])
def test_what_fails_once_is_run_again_alone_and_named(room: Path, side_by_side: Begin, part: str, code: int) -> None:
    """In few files (a fixture that fails takes all tests of one along), and only where nothing worse happened.

    What a former run left is not taken for this one's.
    """
    left = room / "build" / f"cache-part-{part}" / "v" / "cache"
    left.mkdir(parents=True)
    (left / "lastfailed").write_text('{"old.py::test": true}')
    shown, _ = (run := side_by_side("right", part)).communicate(timeout=60)
    assert run.returncode == code
    assert ("passed alone" in shown) == (part in ("once", "module"))
    assert ("once more, alone" in shown) == (part in ("once", "module", "twice"))
    assert ('"a.py::1": true' in shown) == (part in ("once", "module"))


@pytest.mark.parametrize(("beside", "code"), [("right", 0), ("wrong", 1)])
def test_what_runs_beside_the_parts_counts_and_is_shown(
    room: Path, side_by_side: Begin, beside: str, code: int
) -> None:
    """It is no part of the tests: it is not run again."""
    shown, _ = (run := side_by_side("right", beside=f"{room / 'part'} {beside}")).communicate(timeout=60)
    assert run.returncode == code
    assert ("something is wrong" in shown) == (code == 1) and "once more" not in shown


def test_some_parts_wait_for_what_is_fetched_and_others_do_not(room: Path, side_by_side: Begin) -> None:
    """What is fetched comes when the first parts have begun, before those that need it."""
    first = f"{room / 'part'} meets-2"
    shown, _ = (run := side_by_side("meets-1", "then", "right", first=first)).communicate(timeout=60)
    assert run.returncode == 0 and "all is well" in shown


def test_without_what_is_fetched_nothing_that_needs_it_begins(room: Path, side_by_side: Begin) -> None:
    """The run has failed; the others are shown."""
    shown, _ = (run := side_by_side("right", "then", "once", first=f"{room / 'part'} wrong")).communicate(timeout=60)
    assert run.returncode == 1 and "something is wrong" in shown and "all is well" in shown
    assert not (room / "once").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_every_part_and_waits_for_it(room: Path, side_by_side: Begin, number: signal.Signals) -> None:
    """Each part hears it as Ctrl-C, so that it can end what it has started."""
    run = side_by_side("long", "right")
    wait_for((room / "hears").exists)
    run.send_signal(number)
    run.communicate(timeout=60)
    assert run.returncode == 130
    assert (room / "put-away").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int((room / "long").read_text()), 0)


def test_parts_that_do_not_hear_ctrl_c_are_ended_too(room: Path, side_by_side: Begin) -> None:
    """A script's background job is begun deaf to it, and can hand down nothing else."""
    run = side_by_side("long", is_deaf=True, patience_seconds=0.3)
    wait_for((room / "hears").exists)
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=60)
    assert run.returncode == 130
    wait_for(lambda: not psutil.pid_exists(int((room / "long").read_text())))


def test_parts_that_hear_neither_are_ended_by_force(room: Path, side_by_side: Begin) -> None:
    """The run is over when they are, not when the shell that began them is: else they would go on without it."""
    run = side_by_side("stubborn", patience_seconds=0.3)
    wait_for((room / "hears").exists)
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=60)
    assert run.returncode == 130
    assert not psutil.pid_exists(int((room / "stubborn").read_text()))


def test_a_part_that_hangs_is_ended_and_everything_is_shown(room: Path, side_by_side: Begin) -> None:
    """Else whoever runs the tests would end all of it, and see nothing; the part can put away what it has started."""
    shown, _ = (run := side_by_side("long", "right", most_seconds=2, patience_seconds=60)).communicate(timeout=60)
    assert run.returncode == 1
    assert "all is well" in shown and "part-long (after" in shown
    assert (room / "put-away").exists()
