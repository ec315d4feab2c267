"""Alerts: written down before they are acknowledged, each firing once."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.alerts import OWN_ALERT, Alert
from workbench.errors import WorkbenchError
from workbench.humanize import plural
from workbench.masking import masked_start
from workbench.serve.server_database import Database, Row, Store, fit_text

_log = logging.getLogger(__name__)

_MOST_TEXT = 1000  # characters of a name


class FullError(WorkbenchError):
    """Too many alerts wait for their triage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """How many alerts of a message were new, known, or the end of a known one; `truncated`: that Alertmanager left out."""

    new: int = 0
    known: int = 0
    resolved: int = 0
    truncated: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One alert that waits for its verdict.

    Attributes:
        started: when it began to fire, ISO 8601, or empty. received: seconds since 1970.
        incident: of a former verdict, or of a message that said that there is none yet. late: it was passed on without one.
    """

    id: int
    name: str
    cluster: str
    group: str
    topic: str
    started: str
    received: float
    incident: str | None
    late: bool = False


def fingerprint_of(alert: Alert) -> str:
    """Alertmanager's fingerprint of the labels, or one of those that a triage uses."""
    if alert.fingerprint:
        return fit_text(alert.fingerprint)[:200]
    labels = "\0".join((alert.name, alert.cluster, alert.group, alert.topic))
    return hashlib.sha256(labels.encode(errors="surrogatepass")).hexdigest()[:32]


def accept(store: Store, alerts: Sequence[Alert], *, cluster: str | None, most_waiting: int) -> Accepted:
    """Write the alerts of one message; they are on the disk when this returns.

    Args:
        cluster: of alerts without a cluster label.
        most_waiting: limit of the queue.

    Raises:
        FullError: if the queue is full; nothing of the message was kept.
    """
    now, new, known, resolved = store.clock(), 0, 0, 0
    with store.writing() as db:
        waiting = db.execute("SELECT count(*) FROM alert WHERE state = 'waiting'").fetchone()[0]
        if waiting + sum(it.firing for it in alerts) > most_waiting:
            raise FullError(f"{plural(waiting, 'alert waits', 'alerts wait')} for triage.", hint="Send it again later.")
        for alert in alerts:
            if alert.name == OWN_ALERT:
                known += 1
                continue
            started = alert.starts_at.isoformat() if alert.starts_at is not None else ""
            key = (fingerprint_of(alert), started)
            row = db.execute(
                "SELECT alert.id, alert.firing, alert.state, incident.closed FROM alert "
                "LEFT JOIN incident ON incident.id = alert.incident WHERE fingerprint = ? AND started = ?", key
            ).fetchone()  # fmt: skip
            # Messages may overtake each other: what has begun again since has ended, though this one says that it fires.
            is_over = bool(alert.fingerprint) and (
                db.execute("SELECT 1 FROM alert WHERE fingerprint = ? AND started > ? LIMIT 1", key).fetchone()
                is not None
            )
            if row is None:
                if not alert.firing:
                    continue  # it began and ended before this server knew of it
                new += 1
                # Of one alert: what it fired for before has ended, whether anybody said so or not.
                if alert.fingerprint:
                    former = "SELECT id, firing FROM alert WHERE fingerprint = ? AND started < ? AND firing = 1"
                    for earlier in db.execute(former, key).fetchall():
                        _end(db, earlier, now)
                db.execute(
                    "INSERT INTO alert (fingerprint, started, received, truncated, name, cluster, grp, topic, state, firing, "
                    "ended) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'waiting', ?, ?)",
                    (
                        *key,
                        now,
                        alert.truncated,
                        *map(
                            _text,
                            (
                                masked_start(alert.name, _MOST_TEXT),
                                alert.cluster or cluster or "",
                                alert.group,
                                alert.topic,
                            ),
                        ),
                        int(not is_over),
                        now if is_over else None,
                    ),
                )
            elif not alert.firing:
                resolved += _end(db, row, now)
            else:
                known += 1
                if not is_over:
                    _again(db, row, now)
    left_out = max((it.truncated for it in alerts), default=0)
    if left_out:
        _log.warning("Alertmanager left out %d alerts of a message (max_alerts): they are not judged", left_out)
    return Accepted(new=new, known=known, resolved=resolved, truncated=left_out)


def _end(db: Database, row: Row, now: float) -> int:
    if not row["firing"]:
        return 0
    db.execute("UPDATE alert SET firing = 0, ended = ? WHERE id = ?", (now, row["id"]))
    # Look at the incident now: it is probably over.
    db.execute("UPDATE incident SET looked = 0 WHERE id = (SELECT incident FROM alert WHERE id = ?)", (row["id"],))
    return 1


def _again(db: Database, row: Row, now: float) -> None:
    """An alert fires, perhaps again; judge it anew if its incident was closed."""
    if not row["firing"]:  # a message about its end came before this one
        db.execute("UPDATE alert SET firing = 1 WHERE id = ?", (row["id"],))
    if row["state"] == "judged" and row["closed"] is not None:
        db.execute(
            "UPDATE alert SET state = 'waiting', firing = 1, late = 0, received = ? WHERE id = ?", (now, row["id"])
        )


def _text(text: str) -> str:
    """Text that the database can hold, so that a verdict about it is found again."""
    return fit_text(text)[:_MOST_TEXT]


def waiting(store: Store, *, most: int = 2000) -> list[Waiting]:
    """Alerts without a verdict, oldest first."""
    rows = store.rows("SELECT * FROM alert WHERE state = 'waiting' ORDER BY received, id LIMIT ?", (most,))
    return [_waiting(row) for row in rows]


def late(store: Store, *, seconds: float) -> list[Waiting]:
    """Alerts that wait for longer than the deadline, and were not passed on yet."""
    now = store.clock()
    query = "SELECT * FROM alert WHERE state = 'waiting' AND late = 0 AND (received < ? OR received > ?)"
    rows = store.rows(query, (now - seconds, now + seconds))  # later than now: the clock was set back
    return [_waiting(row) for row in rows]


def _waiting(row: Row) -> Waiting:
    return Waiting(
        id=row["id"], name=row["name"], cluster=row["cluster"], group=row["grp"], topic=row["topic"],
        started=row["started"], received=row["received"], incident=row["incident"],
        late=bool(row["late"]),
    )  # fmt: skip
