"""Messages that are to be sent: written in the transaction that makes them necessary, sent afterwards, each under its own key.

A message that was being sent when the process ended is sent again, with the same key: at most one is doubled for each target and kill.
Messages of one incident reach a target in their order: a later one waits while an earlier one is tried again. Others pass.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields

from workbench.masking import masked_document
from workbench.serve.server_database import Database, Store
from workbench.serve_settings import Target

# A chat that is down for a night still gets its messages.
_PAUSES_SECONDS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0)
_MOST_ATTEMPTS = 60
_OLD_SECONDS = 14 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What is told about an incident, before it gets the form of a target.

    Attributes:
        kind: `new`, `verdict` (it has changed), `grows`, `recovered`, `healthy` (alert without trouble), `ended` (closed without
            a recovery), `digest` (several causes) or `ends` (causes of a digest are over).
        members: group, topic and headline of the worst. total: how many there are.
        others: other causes of a digest, a sentence each; other_incidents: their ids.
        received: when the first alert came, if this is its first message. trend: lag of the worst as a line of text.
        left_out: alerts that Alertmanager left out of its message. origin: whose fault it is, of a cause on brokers.
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
    other_incidents: tuple[str, ...] = ()
    alerts: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    runbook: str | None = None
    owner: str | None = None
    like: str | None = None
    received: float | None = None
    trend: str | None = None
    left_out: int = 0
    origin: str | None = None

    @property
    def key(self) -> str:
        """Identifies the message; the same after a restart."""
        return f"{self.incident}-{self.revision}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A message on its way to one target, under the lead that sends it."""

    id: int
    target: str
    key: str
    attempts: int
    made: float
    message: Message = field(repr=False)
    lead: int | None = None


def put(db: Database, message: Message, targets: Sequence[Target], *, now: float) -> None:
    """Add a message for each of the targets. No secret is written."""
    text = json.dumps(masked_document(asdict(message)))
    for target in targets:
        db.execute(
            "INSERT INTO outbox (key, incident, target, message, state, due, made) VALUES (?, ?, ?, ?, 'waiting', ?, ?) "
            "ON CONFLICT (key) DO NOTHING",
            (f"{message.key}-{target.name}", message.incident, target.name, text, now, now),
        )


def resume(db: Database) -> int:
    """After a take-over: messages that the former leader was sending are sent again. Return their number."""
    return db.execute("UPDATE outbox SET state = 'waiting', due = 0 WHERE state = 'sending'").rowcount


def give_up_unnamed(db: Database, targets: Sequence[Target]) -> dict[str, list[str]]:
    """Give up what waits for targets that the settings do not name any more. Return the incidents of these messages, by target."""
    found: dict[str, list[str]] = {}
    for row in db.execute("SELECT target, incident FROM outbox WHERE state IN ('waiting', 'sending') ORDER BY id"):
        if row["target"] not in {it.name for it in targets}:
            found.setdefault(row["target"], []).append(row["incident"])
    for gone in found:
        db.execute(
            "UPDATE outbox SET state = 'failed', error = 'the settings name no such target' "
            "WHERE target = ? AND state IN ('waiting', 'sending')",
            (gone,),
        )
    return found


def give_up_old(db: Database, *, now: float) -> None:
    """Give up what nobody has taken for two weeks."""
    db.execute(
        "UPDATE outbox SET state = 'failed', error = coalesce(error, 'nobody has taken it') "
        "WHERE state IN ('waiting', 'sending') AND made < ? AND due < ?",
        (now - _OLD_SECONDS, now - _OLD_SECONDS),
    )


# Due; or later than any pause lasts, because the clock was set back; and no earlier one of its incident waits.
_DUE = (
    "state = 'waiting' AND target = ? AND (due <= ? OR due > ?) AND NOT EXISTS (SELECT 1 FROM outbox AS earlier WHERE "
    "earlier.incident = outbox.incident AND earlier.target = outbox.target AND earlier.id < outbox.id "
    "AND earlier.state IN ('waiting', 'sending'))"
)


def claim(store: Store, target: str, *, lead: int | None = None) -> Parcel | None:
    """Take the oldest due message of a target; it is marked before it is sent."""
    now = store.clock()
    values = (target, now, now + _PAUSES_SECONDS[-1])
    if store.row(f"SELECT 1 FROM outbox WHERE {_DUE} LIMIT 1", values) is None:  # noqa: S608 - our own words
        return None
    with store.writing(lead=lead) as db:
        row = db.execute(f"SELECT * FROM outbox WHERE {_DUE} ORDER BY id LIMIT 1", values).fetchone()  # noqa: S608 - our own words
        if row is None:
            return None
        db.execute("UPDATE outbox SET state = 'sending', attempts = attempts + 1 WHERE id = ?", (row["id"],))
    return Parcel(
        id=row["id"], target=target, key=row["key"], attempts=row["attempts"] + 1, made=row["made"],
        message=message_of(row["message"]), lead=lead,
    )  # fmt: skip


def message_of(text: str) -> Message:
    """Read a stored message; one of an earlier version lacks fields, and one of a later version has more."""
    known = {it.name for it in fields(Message)}
    values = {name: it for name, it in json.loads(text).items() if name in known}
    for name in ("others", "other_incidents", "alerts", "actions"):
        values[name] = tuple(values.get(name, ()))
    return Message(**{**values, "members": tuple(tuple(it) for it in values["members"])})


def sent(store: Store, parcel: Parcel, *, but: str | None = None) -> None:
    """Note that a target has accepted a message; `but`: not for everybody."""
    with store.writing(lead=parcel.lead) as db:
        db.execute(
            "UPDATE outbox SET state = 'sent', sent = ?, error = ? WHERE id = ?",
            (store.clock(), but[:500] if but else None, parcel.id),
        )


def refused(store: Store, parcel: Parcel, error: str, *, passing: bool) -> None:
    """Note that a target has not accepted a message; try again later if that may help."""
    again = passing and parcel.attempts < _MOST_ATTEMPTS
    pause = _PAUSES_SECONDS[min(parcel.attempts, len(_PAUSES_SECONDS)) - 1]
    with store.writing(lead=parcel.lead) as db:
        db.execute(
            "UPDATE outbox SET state = ?, due = ?, error = ? WHERE id = ?",
            ("waiting" if again else "failed", store.clock() + pause, error[:500], parcel.id),
        )
