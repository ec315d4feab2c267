"""Reading of slots that another process replaces or removes meanwhile.

Two folders cannot be exchanged at once, so for a moment there is none, and what was listed is gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from workbench.errors import SlotReplacedError
from workbench.files import moved_aside, place_of, restored

# A second: a replacement takes milliseconds, and one that was killed is ended by whoever waits for it.
TRIES = 50
_PAUSE_SECONDS = 0.02

T = TypeVar("T")


def tries() -> Iterator[int]:
    """Numbers of attempts, with a pause between them."""
    for number in range(TRIES):
        if number:
            time.sleep(_PAUSE_SECONDS)
        yield number


def steadily(slot: Path, read: Callable[[], T], *, absent: T) -> T:
    """What is read from a slot's folder while it is not replaced; `absent` if there is none.

    Raises:
        SlotReplacedError: if it never stays.
    """
    for number in tries():
        before = _identity(slot)
        if before is None:
            if not moved_aside(slot) and _identity(slot) is None:  # else the new one has come between the two looks
                return absent
            if number == TRIES // 2:
                restored(slot.parent)
            continue
        try:
            found = read()
        except FileNotFoundError:
            continue
        if _identity(slot) == before:
            return found
    raise SlotReplacedError(slot)


def listed(samples: Path) -> list[Path]:
    """Folders of all slots, those that are just replaced included: one that is moved aside would look as if it had never landed.

    A day is looked at once, for slots and for those moved aside: between two looks, a replacement may begin and end.
    """
    found: list[Path] = []
    for number in tries():
        found, replaced = [], set[Path]()
        for day in samples.glob("day=*"):
            paths = _within(day)
            slots = {it for it in paths if it.name.startswith("slot=")}
            found += slots
            if {place_of(it) for it in paths if it.name.startswith(".slot=") and it.name.endswith(".old")} - slots:
                replaced.add(day)
        if not replaced:
            return found
        if number == TRIES // 2:  # somebody was killed in the middle of it
            for day in replaced:
                restored(day)
    return found


def _within(folder: Path) -> list[Path]:
    """What is in a folder; nothing if it is none, or has just been removed."""
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        state = folder.stat()
    except OSError:
        return None
    return state.st_ino, state.st_mtime_ns
