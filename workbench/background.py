"""Calls in threads that do not keep the process alive: one that nobody waits for any more may hang for as long as it likes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def in_background(call: Callable[[], T], name: str = "background") -> Future[T]:
    """Run a call in a thread of its own; its error is raised where its result is asked for.

    Args:
        call: without arguments.
        name: of the thread.
    """
    future: Future[T] = Future()

    def run() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(call())
        except BaseException as error:  # the caller that waits for the future gets it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True, name=name).start()
    return future
