"""Messages that are to be sent: written in the transaction that makes them necessary, sent afterwards, each under its own key.

A message that was being sent when the process ended is sent again, with the same key: at most one is doubled for each target and kill.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from workbench.delivery import Target
from workbench.masking import masked_document
from workbench.serve.store import Database, Store

# A chat that is down for a night still gets its messages.
_PAUSES_SECONDS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0)
_MOST_ATTEMPTS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What is told about an incident, before it gets the form of a target.

    Attributes:
        kind: `new`, `verdict` (it has changed), `grows`, `recovered`, `healthy` (alert without trouble) or `digest` (several causes).
        members: group, topic and headline of the worst. total: how many there are.
        others: other causes of a digest, a sentence each. received: when the first alert came, if this is its first message.
        trend: lag of the worst as a line of text.
    """

    kind: str
    incident: str
    revision: int
    cluster: str
    verdict: str
    state: str
    headline: str
    before: str | None = None
    total: int = 1
    members: tuple[tuple[str, str, str], ...] = ()
    others: tuple[str, ...] = ()
    alerts: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    runbook: str | None = None
    owner: str | None = None
    like: str | None = None
    received: float | None = None
    trend: str | None = None

    @property
    def key(self) -> str:
        """Identifies the message; the same after a restart."""
        return f"{self.incident}-{self.revision}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A message on its way to one target."""

    id: int
    target: str
    key: str
    attempts: int
    made: float
    message: Message = field(repr=False)


def put(db: Database, message: Message, targets: Sequence[Target], *, now: float) -> int:
    """Add a message for each target that wants the cluster; return their number. No secret is written."""
    text = json.dumps(masked_document(asdict(message)))
    chosen = [it for it in targets if not it.clusters or message.cluster in it.clusters]
    for target in chosen:
        db.execute(
            "INSERT INTO outbox (key, incident, target, message, state, due, made) VALUES (?, ?, ?, ?, 'waiting', ?, ?) "
            "ON CONFLICT (key) DO NOTHING",
            (f"{message.key}-{target.name}", message.incident, target.name, text, now, now),
        )
    return len(chosen)


def resume(store: Store) -> int:
    """After a start: messages that were being sent when the former process ended are sent again. Return their number."""
    with store.writing() as db:
        return db.execute("UPDATE outbox SET state = 'waiting', due = 0 WHERE state = 'sending'").rowcount


def claim(store: Store, target: str) -> Parcel | None:
    """Take the oldest due message of a target; it is marked before it is sent."""
    now = store.clock()
    if store.row("SELECT 1 FROM outbox WHERE state = 'waiting' AND target = ? AND due <= ?", (target, now)) is None:
        return None
    with store.writing() as db:
        row = db.execute(
            "SELECT * FROM outbox WHERE state = 'waiting' AND target = ? AND due <= ? ORDER BY id LIMIT 1",
            (target, now),
        ).fetchone()
        if row is None:
            return None
        db.execute("UPDATE outbox SET state = 'sending', attempts = attempts + 1 WHERE id = ?", (row["id"],))
    return Parcel(
        id=row["id"], target=target, key=row["key"], attempts=row["attempts"] + 1, made=row["made"],
        message=message_of(row["message"]),
    )  # fmt: skip


def message_of(text: str) -> Message:
    """Read a stored message."""
    values = json.loads(text)
    for name in ("others", "alerts", "actions"):
        values[name] = tuple(values[name])
    return Message(**{**values, "members": tuple(tuple(it) for it in values["members"])})


def sent(store: Store, parcel: Parcel) -> None:
    """Note that a target has accepted a message."""
    with store.writing() as db:
        db.execute("UPDATE outbox SET state = 'sent', sent = ?, error = NULL WHERE id = ?", (store.clock(), parcel.id))


def refused(store: Store, parcel: Parcel, error: str, *, passing: bool) -> None:
    """Note that a target has not accepted a message; try again later if that may help."""
    again = passing and parcel.attempts < _MOST_ATTEMPTS
    pause = _PAUSES_SECONDS[min(parcel.attempts, len(_PAUSES_SECONDS)) - 1]
    with store.writing() as db:
        db.execute(
            "UPDATE outbox SET state = ?, due = ?, error = ? WHERE id = ?",
            ("waiting" if again else "failed", store.clock() + pause, error[:500], parcel.id),
        )
