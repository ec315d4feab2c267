"""What people do about an incident: notes, acknowledging, muting and closing; each leaves a line with its author."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

from workbench.masking import masked
from workbench.serve.incidents import close_by_hand
from workbench.serve.server_database import Store
from workbench.serve_settings import ServeSettings

MUTES = (1, 4, 24)  # hours that can be chosen


class Handling(StrEnum):
    """What can be done about an open incident."""

    ACKNOWLEDGE = "acknowledge"
    MUTE = "mute"
    UNMUTE = "unmute"
    CLOSE = "close"


def add_note(store: Store, incident: str, *, author: str, kind: str, words: str) -> bool:
    """Add a note to an incident; False if there is none. Secrets in it are masked."""
    with store.writing() as db:
        if db.execute("SELECT 1 FROM incident WHERE id = ?", (incident,)).fetchone() is None:
            return False
        db.execute(
            "INSERT INTO note (incident, at, author, kind, words) VALUES (?, ?, ?, ?, ?)",
            (incident, store.clock(), masked(author) or "somebody", kind, masked(words)),
        )
    return True


def handle(store: Store, incident: str, what: Handling, *, author: str, hours: int, settings: ServeSettings) -> bool:
    """Do it, and note who did; False if there is no such open incident.

    A muted incident sends nothing until the mute is over, or another incident moves into it; what has changed by then is told. Its end
    is told at any time.

    Args:
        hours: of a mute, one of `MUTES`.
    """
    if store.row("SELECT 1 FROM incident WHERE id = ? AND closed IS NULL", (incident,)) is None:
        return False
    if what is Handling.CLOSE:
        if not close_by_hand(store, incident, settings):
            return False
        return add_note(store, incident, author=author, kind="closed", words="Closed.")
    if what is Handling.ACKNOWLEDGE:
        return add_note(store, incident, author=author, kind="acknowledged", words="Acknowledged.")
    until = store.clock() + hours * 3600.0 if what is Handling.MUTE else None
    with store.writing() as db:
        db.execute("UPDATE incident SET quiet_until = ? WHERE id = ?", (until, incident))
    end = f"{datetime.fromtimestamp(until, UTC):%Y-%m-%d %H:%M} UTC" if until is not None else ""
    words = f"Muted for {hours} h, until {end}." if until is not None else "Not muted any more."
    return add_note(store, incident, author=author, kind="muted", words=words)
