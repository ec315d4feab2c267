"""Parsers that break a promise each, at their second input: what the runner must find."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path

from tests.fuzz.target import SECRET, Case, Target
from workbench.errors import WorkbenchError

VARIABLE = "FUZZ_BREAKING"  # set: these are among the targets


def breaking() -> list[Target]:
    """One for each promise."""

    def target(name: str, action: Callable[[], object]) -> Target:
        calls = count()

        def call(_case: Case, _folder: Path) -> object:
            return action() if next(calls) == 1 else None

        return Target(name=name, make=lambda _random: b"", call=call, most_per_byte=100 if name == "growth" else 0)

    def refuse(words: str) -> object:
        raise WorkbenchError(words)

    def hang() -> None:
        while True:
            pass

    return [
        target("traceback", lambda: {}["x"]),
        target("unclear", lambda: refuse(" ")),
        target("secret", lambda: refuse(f"It is {SECRET}.")),
        target("memory", lambda: bytes(600 << 20)),
        target("growth", lambda: bytes(20 << 20)),
        target("hang", hang),
        target("death", lambda: os.kill(os.getpid(), signal.SIGKILL)),
    ]
