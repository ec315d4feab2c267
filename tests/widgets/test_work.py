"""Rules of long work in a notebook: it can be cancelled at any moment, and a cancelled one shows nothing any more."""

from __future__ import annotations

import threading
import time

from workbench.widgets.panel_work import PanelWork, PanelWorker


def nothing(*_args: object) -> None:
    """A callback that is not looked at."""


def test_cancel_takes_effect_while_the_work_hangs() -> None:
    """It does not wait for the call that the work is in, and nothing is shown or ended afterwards."""
    inside, release = threading.Event(), threading.Event()
    shown: list[str] = []
    ended: list[BaseException | None] = []

    def run(work: PanelWork) -> None:
        inside.set()
        release.wait(30)
        work.show(lambda: shown.append("late"))

    worker = PanelWorker()
    worker.start(run, tell=nothing, ended=ended.append)
    assert inside.wait(10)
    began = time.monotonic()
    assert worker.cancel()
    assert not worker.busy
    assert time.monotonic() - began < 5
    release.set()
    worker.wait(10)
    assert (shown, ended) == ([], [])


def test_an_error_reaches_whoever_started_it() -> None:
    """A thread has nobody else to tell."""
    ended: list[BaseException | None] = []

    def run(_work: PanelWork) -> None:
        raise ValueError("broken")

    worker = PanelWorker()
    worker.start(run, tell=nothing, ended=ended.append)
    worker.wait(10)
    assert [str(error) for error in ended] == ["broken"]
    assert not worker.busy


def test_progress_comes_in_order_and_a_new_start_replaces_the_old() -> None:
    """The first work's steps stop when the second begins."""
    told: list[tuple[int, str]] = []
    go = threading.Event()

    def slow(work: PanelWork) -> None:
        work.step("slow")
        go.wait(10)
        work.step("never")

    def quick(work: PanelWork) -> None:
        work.step("one")
        work.step("two")

    worker = PanelWorker()
    worker.start(slow, tell=lambda done, title: told.append((done, title)), ended=nothing)
    while not told:
        time.sleep(0.01)
    worker.start(quick, tell=lambda done, title: told.append((done, title)), ended=nothing)
    worker.wait(10)
    go.set()
    time.sleep(0.1)
    assert told == [(0, "slow"), (0, "one"), (1, "two")]
