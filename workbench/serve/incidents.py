"""Incidents: opened by verdicts about alerts, followed until they are over. What is told about them is decided in `who_is_told`."""

from __future__ import annotations

import json
import secrets
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from workbench.humanize import duration
from workbench.serve.alert_journal import Waiting
from workbench.serve.incident_grouping import Cause, causes, leading, named_by
from workbench.serve.kept_verdict import Judged, fitted, over, unknown
from workbench.serve.message_step import LATE, is_recent
from workbench.serve.one_bad_item import each_alone
from workbench.serve.server_database import Database, Row, Store
from workbench.serve.similar_incidents import remember, similar
from workbench.serve.who_is_told import Telling, members_of
from workbench.serve_settings import ServeSettings
from workbench.triage.verdict_names import State, Verdict

__all__ = ["LATE", "Open", "conclude", "due", "expire", "followed", "pass_on_late", "similar"]

_JOINED_SECONDS = 1800.0  # a group that joins later has its own incident: its cause is hardly the same
_KEPT_SECONDS = 600.0  # the same verdict again is kept at this interval only
_ENDED_SECONDS = 3600.0  # an incident that does not recover is closed so long after its last alert has ended
_Likes = Mapping[tuple[str, str, str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """An incident that is followed: its subscriptions as (group, topic).

    Attributes:
        origin: key and verdict of the cause on brokers that it is about.
    """

    id: str
    cluster: str
    members: tuple[tuple[str, str], ...]
    origin: tuple[str, str] | None = None


def conclude(
    store: Store,
    alerts: Sequence[Waiting],
    judged: Sequence[Judged],
    settings: ServeSettings,
    *,
    lead: int | None = None,
    skipped: Callable[[], object] = lambda: None,
) -> None:
    """Give the alerts of one cluster their verdicts: open or extend incidents, and write the messages; one transaction.

    An alert whose verdict cannot be kept is told as one without, and the others are concluded all the same.

    Args:
        lead: see `Store.writing`. skipped: called for an alert that even so could not be concluded: it goes on waiting.

    Raises:
        StoreError: if the database does not answer, or the lead is lost.
    """
    found = [fitted(it) for it in judged]

    def alone(alert: Waiting, error: Exception) -> None:
        reason = f"internal error ({type(error).__name__})."
        instead = [unknown(alert.group, alert.topic, reason, cause="error:internal")]
        each_alone(
            [alert], lambda part: _conclude(store, part, instead, settings, lead=lead), lambda _one, _error: skipped()
        )

    each_alone(alerts, lambda part: _conclude(store, part, found, settings, lead=lead), alone)


def _conclude(
    store: Store, alerts: Sequence[Waiting], judged: Sequence[Judged], settings: ServeSettings, *, lead: int | None
) -> None:
    now = store.clock()
    with store.reading() as db:
        likes = _likes(db, alerts[0].cluster, [it.worst for it in causes(alerts, judged)], before=now)
    with store.writing(lead=lead) as db:
        book = _Book(db, settings, now, likes)
        still = _as_now(db, alerts)
        if still:
            for cause in causes(still, judged):
                book.conclude(cause)
            book.close_late(still[0].cluster)
            book.tell()


def _likes(db: Database, cluster: str, judged: Sequence[Judged], *, before: float) -> _Likes:
    """Earlier incidents, looked up before the transaction."""
    return {(it.verdict, it.group, it.topic): similar(db, cluster, it, before=before) for it in judged}


def _as_now(db: Database, alerts: Sequence[Waiting]) -> list[Waiting]:
    """Alerts that still wait, for a triage takes its time: they may have been passed on meanwhile, or judged by another instance."""
    rows = db.execute("SELECT id, incident, late FROM alert WHERE state = 'waiting'")
    now = {row["id"]: row for row in rows}
    return [
        replace(it, incident=now[it.id]["incident"], late=bool(now[it.id]["late"])) for it in alerts if it.id in now
    ]


def pass_on_late(store: Store, alerts: Sequence[Waiting], settings: ServeSettings, *, lead: int | None = None) -> None:
    """Open an incident without a verdict for alerts of one cluster that have waited for longer than the deadline."""
    reason = f"the triage has not ended within {duration(settings.deadline.total_seconds())}. It goes on."
    with store.writing(lead=lead) as db:
        book = _Book(db, settings, store.clock(), {})
        open_ones = {row["id"] for row in db.execute("SELECT id FROM incident WHERE closed IS NULL")}
        without = [it for it in _as_now(db, alerts) if it.incident not in open_ones]
        if without:
            members = {(it.group, it.topic): unknown(it.group, it.topic, reason, cause=LATE) for it in without}
            cause = Cause(
                cluster=without[0].cluster, cause=LATE, members=tuple(members.values()), alerts=tuple(without)
            )
            book.conclude(cause, judged=False)
            book.tell()
        db.executemany("UPDATE alert SET late = 1 WHERE id = ?", [(it.id,) for it in alerts])


def due(store: Store, settings: ServeSettings) -> list[Open]:
    """Open incidents whose next triage is due, the longest wait first."""
    now = store.clock()
    rows = store.rows(  # looked at later than now: the clock was set back
        "SELECT id, cluster FROM incident WHERE closed IS NULL AND (looked < ? OR looked > ?) AND cause <> ? "
        "ORDER BY looked LIMIT 200",
        (now - settings.look_again.total_seconds(), now, LATE),
    )
    found = []
    for row in rows:
        members = store.rows("SELECT grp, topic, verdict, origin FROM member WHERE incident = ?", (row["id"],))
        found.append(
            Open(
                id=row["id"],
                cluster=row["cluster"],
                members=tuple((it["grp"], it["topic"]) for it in members if it["origin"] is None),
                origin=next(((it["topic"], it["verdict"]) for it in members if it["origin"] is not None), None),
            )
        )
    return found


# Nothing has changed for some time, and as long ago have all alerts ceased: those whose verdict it is, and those about one of its
# members whose verdict is another incident (an alert without a group has many causes, and one incident).
_ENDED = (
    "closed IS NULL AND NOT (changed > ? AND changed <= ?) AND NOT EXISTS "
    "(SELECT 1 FROM alert WHERE alert.incident = incident.id "
    "AND (firing = 1 OR alert.state = 'waiting' OR (ended > ? AND ended <= ?))) AND NOT EXISTS "
    "(SELECT 1 FROM alert JOIN member ON (alert.grp = '' OR alert.grp = member.grp) "
    "AND (alert.topic = '' OR alert.topic = member.topic) WHERE member.incident = incident.id "
    "AND alert.cluster = incident.cluster AND (firing = 1 OR (ended > ? AND ended <= ?)))"
)


def expire(store: Store, settings: ServeSettings, *, lead: int | None = None) -> bool:
    """Close incidents that no alert has been about for an hour, and that have not changed in it; this needs no triage."""
    now = store.clock()
    values = (now - _ENDED_SECONDS, now + _ENDED_SECONDS) * 3
    if store.row(f"SELECT 1 FROM incident WHERE {_ENDED} LIMIT 1", values) is None:  # noqa: S608 - our own words
        return False
    with store.writing(lead=lead) as db:
        book = _Book(db, settings, now, {})
        for row in db.execute(f"SELECT id FROM incident WHERE {_ENDED}", values).fetchall():  # noqa: S608 - our own words
            book.close(row["id"], "ended")
        book.tell()
    return True


def close_by_hand(store: Store, incident: str, settings: ServeSettings) -> bool:
    """Close an open incident; those who were told of it are told. A firing alert opens a new one when it is repeated."""
    with store.writing() as db:
        if db.execute("SELECT 1 FROM incident WHERE id = ? AND closed IS NULL", (incident,)).fetchone() is None:
            return False
        book = _Book(db, settings, store.clock(), {})
        book.close(incident, "closed")
        book.tell()
    return True


def followed(
    store: Store, incident: Open, judged: Sequence[Judged] | None, settings: ServeSettings, *, lead: int | None = None
) -> None:
    """Apply a later triage to an open incident; None: it failed, so nothing is known.

    If that fails for a reason of this incident, its turn comes again after the others.

    Raises:
        StoreError: if the database does not answer, or the lead is lost.
    """
    now = store.clock()
    with store.writing(lead=lead) as db:
        db.execute("UPDATE incident SET looked = ? WHERE id = ?", (now, incident.id))
    if judged is None:
        return
    found = [fitted(it) for it in judged]
    with store.reading() as db:
        row = db.execute("SELECT opened FROM incident WHERE id = ?", (incident.id,)).fetchone()
        mine, stood = _mine(incident, found)
        if row is None or not mine:
            return
        likes = _likes(db, incident.cluster, [leading(mine)], before=row["opened"])
    with store.writing(lead=lead) as db:
        book = _Book(db, settings, now, likes)
        book.follow(incident, mine, stood)
        book.tell()


def _mine(incident: Open, judged: Sequence[Judged]) -> tuple[list[Judged], list[tuple[str, str]]]:
    """What a triage says of its members, and which of them are replaced by that: an alert's own names stood for what was not known."""
    known = {(it.group, it.topic): it for it in judged}
    mine = {it: known[it] for it in incident.members if it in known}
    stood = []
    for group, topic in incident.members:
        if group and topic:
            continue
        found = [it for it in judged if it.group == group] if group else named_by(group, topic, judged)
        if any(it.group and it.topic for it in found):
            stood.append((group, topic))
        mine |= {(it.group, it.topic): it for it in found}
    found = list(mine.values())
    keys = {incident.origin[0]} if incident.origin is not None else {leading(found).cause} if found else set()
    return found + [it for it in judged if not it.group and it.topic in keys], stood


class _Book:
    """The changes of one transaction."""

    def __init__(self, db: Database, settings: ServeSettings, now: float, likes: _Likes) -> None:
        self.db, self.settings, self.now, self._likes = db, settings, now, likes
        self._telling = Telling(db, settings, now)
        self._touched: list[str] = []

    def tell(self) -> None:
        """Write the messages that follow from the changes."""
        self._telling.tell(self._touched)

    def conclude(self, cause: Cause, *, judged: bool = True) -> None:
        """Open or extend the incident of a cause."""
        held = self._late_incident(cause) if judged else None
        if held is not None:
            self._replace(held, cause)
        elif cause.worst.state == State.HEALTHY and all(it.incident is not None and not it.late for it in cause.alerts):
            self._settle(cause, None)  # the alert goes on after its incident was closed: nothing new
        elif (row := self._joinable(cause)) is not None:
            self._extend(row, cause, judged=judged)
        else:
            self._open(cause, judged=judged)

    def _late_incident(self, cause: Cause) -> Row | None:
        for alert in cause.alerts:
            row = self._row(alert.incident) if alert.incident else None
            if row is not None and row["closed"] is None and row["cause"] == LATE:
                return row
        return None

    def _joinable(self, cause: Cause) -> Row | None:
        """The open incident of a subscription with this cause, however old; else a recent one with the same cause."""
        rows: list[Row] = self.db.execute(
            "SELECT * FROM incident WHERE closed IS NULL AND cluster = ? AND cause = ? ORDER BY opened DESC",
            (cause.cluster, cause.cause),
        ).fetchall()
        mine = {(it.group, it.topic) for it in cause.members}
        for row in rows:
            members = self.db.execute("SELECT grp, topic FROM member WHERE incident = ?", (row["id"],))
            if any((it["grp"], it["topic"]) in mine for it in members.fetchall()):
                return row
        return next((row for row in rows if row["changed"] > self.now - _JOINED_SECONDS), None)

    def _row(self, incident: str) -> Row | None:
        found: Row | None = self.db.execute("SELECT * FROM incident WHERE id = ?", (incident,)).fetchone()
        return found

    def _open(self, cause: Cause, *, judged: bool) -> None:
        worst, name = cause.worst, _name(self.now)
        healthy = worst.state == State.HEALTHY
        self.db.execute(
            "INSERT INTO incident (id, cluster, cause, verdict, state, headline, opened, changed, closed, ending, looked, revision,"
            ' told_verdict, told_members, told_at, "similar") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, 0, ?, ?)',
            (
                name, cause.cluster, cause.cause, worst.verdict, worst.state, worst.headline, self.now, self.now,
                self.now if healthy else None, "healthy" if healthy else None, self.now, worst.verdict, self.now,
                self._like(worst),
            ),
        )  # fmt: skip
        self._write(name, cause.cluster, cause.members)
        self._settle(cause, name, judged=judged)
        self._telling.add(name, cause.cluster)

    def _like(self, judged: Judged) -> str | None:
        return self._likes.get((judged.verdict, judged.group, judged.topic))

    def _replace(self, row: Row, cause: Cause) -> None:
        """The verdict of alerts that were passed on without one."""
        self.db.execute("DELETE FROM member WHERE incident = ?", (row["id"],))
        self._write(row["id"], cause.cluster, cause.members)
        self._settle(cause, row["id"])
        self._change(row["id"], cause.worst, cause=cause.cause)
        if cause.worst.state == State.HEALTHY:
            self.close(row["id"], "healthy")

    def _extend(self, row: Row, cause: Cause, *, judged: bool) -> None:
        self._write(row["id"], cause.cluster, cause.members)
        self._settle(cause, row["id"], judged=judged)
        self.db.execute("UPDATE incident SET changed = ? WHERE id = ?", (self.now, row["id"]))

    def close(self, incident: str, ending: str) -> None:
        """Close an incident: `recovered`, `healthy`, `ended` (no alert fires), or `moved` (its alerts are in others)."""
        self._touched.append(incident)
        self.db.execute("UPDATE incident SET closed = ?, ending = ? WHERE id = ?", (self.now, ending, incident))

    def close_late(self, cluster: str) -> None:
        """Close incidents without a verdict whose alerts have all got theirs, in other incidents."""
        rows = self.db.execute(
            "SELECT id FROM incident WHERE closed IS NULL AND cluster = ? AND cause = ? AND NOT EXISTS "
            "(SELECT 1 FROM alert WHERE alert.incident = incident.id AND state = 'waiting')",
            (cluster, LATE),
        ).fetchall()
        for row in rows:
            self.close(row["id"], "moved")

    def _settle(self, cause: Cause, incident: str | None, *, judged: bool = True) -> None:
        """Note the incident of each alert; `judged`: the alert has its verdict."""
        for alert in cause.alerts:
            self.db.execute(
                "UPDATE alert SET state = CASE WHEN ? THEN 'judged' ELSE state END, incident = coalesce(?, incident) WHERE id = ?",
                (judged, incident, alert.id),
            )

    def _write(self, incident: str, cluster: str, members: Sequence[Judged]) -> None:
        self._touched.append(incident)
        row = self._row(incident)
        revision, opened = (row["revision"] + 1, row["opened"]) if row is not None else (1, self.now)
        known = {(it.group, it.topic): (it, joined) for it, joined in members_of(self.db, incident)}
        joins = False
        for it in members:
            before, joined = known.get((it.group, it.topic), (None, revision))
            # A healthy finding has no mute; and a mute that ends while it lags makes a member one that people are called for.
            muted = before.muted if before is not None and it.state == State.HEALTHY else it.muted
            if before is not None and before.muted is not None and muted is None:
                joined = revision
            joins |= joined == revision
            values = (it.verdict, it.state, it.headline, it.time_lag_seconds, it.time_lag_words, it.lag_messages)
            origin = None if it.origin is None else it.origin.to_json()
            advice = {"actions": it.actions, "runbook": it.runbook, "owner": it.owner, "trend": it.trend}
            self.db.execute(
                "INSERT INTO member (incident, grp, topic, verdict, state, headline, time_lag, time_lag_words, lag, "
                "at, muted, joined, advice, origin) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (incident, grp, topic) DO UPDATE SET "
                "verdict = excluded.verdict, state = excluded.state, headline = excluded.headline, time_lag = excluded.time_lag, "
                "time_lag_words = excluded.time_lag_words, lag = excluded.lag, at = excluded.at, muted = excluded.muted, "
                "joined = excluded.joined, advice = excluded.advice, origin = excluded.origin",
                (incident, it.group, it.topic, *values, self.now, muted, joined, json.dumps(advice), origin),
            )
            last = self.db.execute(
                "SELECT verdict, at FROM finding WHERE incident = ? AND grp = ? AND topic = ? ORDER BY at DESC LIMIT 1",
                (incident, it.group, it.topic),
            ).fetchone()
            if last is not None and last["verdict"] == it.verdict and is_recent(last["at"], self.now, _KEPT_SECONDS):
                continue
            remember(self.db, incident, cluster, opened, it)
            picture = zlib.compress(it.picture.encode(errors="backslashreplace")) if it.picture else None
            self.db.execute(
                "INSERT INTO finding (incident, cluster, grp, topic, at, verdict, state, headline, time_lag, "
                "time_lag_words, lag, picture) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (incident, cluster, it.group, it.topic, self.now, *values, picture),
            )
        if joins:
            self.db.execute("UPDATE incident SET revision = ? WHERE id = ?", (revision, incident))

    def follow(self, incident: Open, mine: Sequence[Judged], stood: Sequence[tuple[str, str]]) -> None:
        """Apply a later triage; `stood`: members that it replaces."""
        row = self._row(incident.id)
        if row is None or row["closed"] is not None:
            return
        self.db.executemany(
            "DELETE FROM member WHERE incident = ? AND grp = ? AND topic = ?", [(incident.id, *it) for it in stood]
        )
        if (same := self._with_its_cause(incident, mine)) is not None:
            self._move(incident, same, mine)
            return
        self._write(incident.id, incident.cluster, [it for it in mine if it.group or it.origin is not None])
        members = self._with_what_is_over(incident, mine)
        chosen = leading(members)
        fresh = {(it.group, it.topic): it for it in mine}
        cause = fresh.get((chosen.group, chosen.topic), chosen).cause or row["cause"]
        if all(it.state == State.HEALTHY for it in members):
            self._change(incident.id, chosen, cause=row["cause"])
            self.close(incident.id, "recovered")
        elif chosen.verdict != row["verdict"] and self._is_known(row, chosen):
            self._change(incident.id, chosen, cause=cause)
        else:
            self.db.execute(
                "UPDATE incident SET headline = ?, state = ? WHERE id = ?", (chosen.headline, chosen.state, incident.id)
            )

    def _with_its_cause(self, incident: Open, mine: Sequence[Judged]) -> str | None:
        """Another open incident about the cause on brokers that a later look has found for this one; the older of the two."""
        found = next((it.cause for it in mine if it.origin is not None), None)
        if found is None or incident.origin is not None:
            return None
        row = self.db.execute(
            "SELECT id FROM incident WHERE closed IS NULL AND cluster = ? AND cause = ? AND id <> ? ORDER BY opened LIMIT 1",
            (incident.cluster, found, incident.id),
        ).fetchone()
        return None if row is None else str(row["id"])

    def _move(self, incident: Open, to: str, mine: Sequence[Judged]) -> None:
        """One cause is one incident: its subscriptions and alerts go to the other. Whoever muted that one did not know of this one."""
        self._write(to, incident.cluster, mine)
        self.db.execute("UPDATE alert SET incident = ? WHERE incident = ?", (to, incident.id))
        self.db.execute("UPDATE incident SET changed = ?, quiet_until = NULL WHERE id = ?", (self.now, to))
        self.close(incident.id, "moved")

    def _with_what_is_over(self, incident: Open, mine: Sequence[Judged]) -> list[Judged]:
        """Its members, with a cause on brokers that is over: the groups that it hit are well, or it hit none and is no longer found.

        While they are not, it stands: a comparison with the hour before does not see what has lasted for longer.
        """
        members = [it for it, _ in members_of(self.db, incident.id)]
        origin = next((it.origin for it in members if it.origin is not None), None)
        others = [it for it in members if it.origin is None]
        told = others or [it for it in mine if not it.group]
        if origin is None or not told or any(it.state != State.HEALTHY for it in told):
            return members
        ended = over(origin)
        self._write(incident.id, incident.cluster, [ended])
        return [*others, ended]

    def _is_known(self, row: Row, chosen: Judged) -> bool:
        """A verdict that gets lost for a short time, for instance while data are missing, does not change the incident."""
        lately = is_recent(row["told_at"], self.now, self.settings.quiet.total_seconds())
        return chosen.verdict != Verdict.CANNOT_TELL or not lately

    def _change(self, incident: str, chosen: Judged, *, cause: str) -> None:
        self.db.execute(
            "UPDATE incident SET verdict = ?, state = ?, headline = ?, cause = ?, changed = ?, looked = ?,"
            ' revision = revision + 1, "similar" = coalesce(?, "similar") WHERE id = ?',
            (
                chosen.verdict, chosen.state, chosen.headline, cause, self.now, self.now, self._like(chosen), incident,
            ),
        )  # fmt: skip


def _name(now: float) -> str:
    """The id of an incident: its day, and letters that nobody can guess."""
    return f"{datetime.fromtimestamp(now, UTC):%Y%m%d}-{secrets.token_hex(6)}"
