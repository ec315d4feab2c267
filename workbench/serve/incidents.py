"""Incidents: opened by verdicts about alerts, followed until they are over, and what is told about each."""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from workbench.delivery import ServeSettings
from workbench.humanize import duration
from workbench.serve.grouping import Cause, causes, leading
from workbench.serve.journal import Waiting
from workbench.serve.judged import Judged, unknown, worse
from workbench.serve.outbox import Message, put
from workbench.serve.store import Database, Row, Store
from workbench.triage.verdict import State, Verdict

LATE = "late"
_JOINED_SECONDS = 1800.0  # a group that joins later has its own incident: its cause is hardly the same
_MESSAGES = 3  # of new incidents in a cluster within `quiet`; what comes beyond is one digest
_TOLD_MEMBERS = 10
_KEPT_SECONDS = 600.0  # the same verdict again is kept at this interval only
_ENDED_SECONDS = 3600.0  # an incident without a firing alert that does not recover is closed after this


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """An incident that is followed: its members as (group, topic)."""

    id: str
    cluster: str
    members: tuple[tuple[str, str], ...]


def conclude(store: Store, alerts: Sequence[Waiting], judged: Sequence[Judged], settings: ServeSettings) -> None:
    """Give the alerts of one cluster their verdicts: open or extend incidents, and write the messages; one transaction."""
    with store.writing() as db:
        book = _Book(db, settings, store.clock())
        for cause in causes(_as_now(db, alerts), judged):
            book.conclude(cause)
        book.fold()


def _as_now(db: Database, alerts: Sequence[Waiting]) -> list[Waiting]:
    """Alerts that still wait, for a triage takes its time: they may have been passed on meanwhile, or judged by another instance."""
    rows = db.execute("SELECT id, incident FROM alert WHERE state = 'waiting'")
    now = {row["id"]: row["incident"] for row in rows}
    return [replace(it, incident=now[it.id]) for it in alerts if it.id in now]


def pass_on_late(store: Store, alerts: Sequence[Waiting], settings: ServeSettings) -> None:
    """Open an incident without a verdict for alerts of one cluster that have waited for longer than the deadline."""
    reason = f"the triage has not ended within {duration(settings.deadline.total_seconds())}. It goes on."
    with store.writing() as db:
        book = _Book(db, settings, store.clock())
        without = [it for it in alerts if it.incident is None]
        if without:
            members = {(it.group, it.topic): unknown(it.group, it.topic, reason, cause=LATE) for it in without}
            cause = Cause(
                cluster=without[0].cluster, cause=LATE, members=tuple(members.values()), alerts=tuple(without)
            )
            book.conclude(cause, judged=False)
            book.fold()
        db.executemany("UPDATE alert SET late = 1 WHERE id = ?", [(it.id,) for it in alerts])


def due(store: Store, settings: ServeSettings) -> list[Open]:
    """Open incidents whose next triage is due, the longest wait first."""
    before = store.clock() - settings.look_again.total_seconds()
    rows = store.rows(
        "SELECT id, cluster FROM incident WHERE closed IS NULL AND looked < ? AND cause <> ? ORDER BY looked LIMIT 200",
        (before, LATE),
    )
    found = []
    for row in rows:
        members = store.rows("SELECT grp, topic FROM member WHERE incident = ?", (row["id"],))
        found.append(
            Open(id=row["id"], cluster=row["cluster"], members=tuple((it["grp"], it["topic"]) for it in members))
        )
    return found


def followed(store: Store, incident: Open, judged: Sequence[Judged] | None, settings: ServeSettings) -> None:
    """Apply a later triage to an open incident; None: it failed, so nothing is known."""
    with store.writing() as db:
        book = _Book(db, settings, store.clock())
        db.execute("UPDATE incident SET looked = ? WHERE id = ?", (book.now, incident.id))
        if judged is not None:
            book.follow(incident, judged)


class _Book:
    """The changes of one transaction."""

    def __init__(self, db: Database, settings: ServeSettings, now: float) -> None:
        self.db, self.settings, self.now = db, settings, now
        self.unsaid: list[tuple[str, Cause]] = []

    def conclude(self, cause: Cause, *, judged: bool = True) -> None:
        """Open or extend the incident of a cause."""
        if cause.worst.state == State.HEALTHY and all(it.incident is not None for it in cause.alerts):
            self._settle(cause, None)  # the alert goes on after its incident was closed: nothing new
            return
        held = self._late_incident(cause) if judged else None
        if held is not None:
            self._replace(held, cause)
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
        found: Row | None = self.db.execute(
            "SELECT * FROM incident WHERE closed IS NULL AND cluster = ? AND cause = ? AND changed > ? ORDER BY opened DESC",
            (cause.cluster, cause.cause, self.now - _JOINED_SECONDS),
        ).fetchone()
        return found

    def _row(self, incident: str) -> Row | None:
        found: Row | None = self.db.execute("SELECT * FROM incident WHERE id = ?", (incident,)).fetchone()
        return found

    def _open(self, cause: Cause, *, judged: bool) -> None:
        worst, name = cause.worst, _name(self.now)
        healthy = worst.state == State.HEALTHY
        self.db.execute(
            "INSERT INTO incident (id, cluster, cause, verdict, state, headline, opened, changed, closed, looked, revision,"
            ' told_verdict, told_members, told_at, "similar") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?)',
            (
                name, cause.cluster, cause.cause, worst.verdict, worst.state, worst.headline, self.now, self.now,
                self.now if healthy else None, self.now, worst.verdict, len(cause.members), self.now,
                similar(self.db, cause.cluster, worst, before=self.now),
            ),
        )  # fmt: skip
        self._write(name, cause.cluster, cause.members)
        self._settle(cause, name, judged=judged)
        if healthy:
            self._tell(name, "healthy", worst, cause=cause)
        elif self._told_lately(cause.cluster) + len(self.unsaid) < _MESSAGES and not self.unsaid:
            self._tell(name, "new", worst, cause=cause)
        else:
            self.unsaid.append((name, cause))

    def _told_lately(self, cluster: str) -> int:
        after = self.now - max(60.0, self.settings.quiet.total_seconds())
        found: int = self.db.execute(
            "SELECT count(*) FROM incident WHERE cluster = ? AND opened > ? AND folded IS NULL AND "
            "id IN (SELECT incident FROM outbox WHERE made > ?)",
            (cluster, after, after),
        ).fetchone()[0]
        return found

    def fold(self) -> None:
        """Tell all causes beyond the limit in one message; those of the next minutes are added to it in the pages only."""
        if not self.unsaid:
            return
        (name, cause), *rest = self.unsaid
        after = self.now - max(60.0, self.settings.quiet.total_seconds())
        digest = self.db.execute(
            "SELECT folded FROM incident WHERE cluster = ? AND opened > ? AND folded IS NOT NULL LIMIT 1",
            (cause.cluster, after),
        ).fetchone()
        for each, _ in self.unsaid:
            self.db.execute("UPDATE incident SET folded = ? WHERE id = ?", (digest["folded"] if digest else name, each))
        if digest is None:
            others = tuple(f"{it.worst.verdict}: {it.worst.headline}" for _, it in rest)
            self._tell(name, "digest", cause.worst, cause=cause, others=others)

    def _replace(self, row: Row, cause: Cause) -> None:
        """The verdict of alerts that were passed on without one."""
        worst = cause.worst
        self.db.execute("DELETE FROM member WHERE incident = ?", (row["id"],))
        self._write(row["id"], cause.cluster, cause.members)
        self._settle(cause, row["id"])
        self._change(row, worst, cause=cause.cause, closed=worst.state == State.HEALTHY)
        self._tell(row["id"], "verdict", worst, before=row["told_verdict"])

    def _extend(self, row: Row, cause: Cause, *, judged: bool) -> None:
        self._write(row["id"], cause.cluster, cause.members)
        self._settle(cause, row["id"], judged=judged)
        self.db.execute("UPDATE incident SET changed = ? WHERE id = ?", (self.now, row["id"]))
        self._perhaps_grown(row["id"])

    def _perhaps_grown(self, name: str) -> None:
        row = self._row(name)
        number = self.db.execute("SELECT count(*) FROM member WHERE incident = ?", (name,)).fetchone()[0]
        if (
            row is None
            or number <= row["told_members"]
            or self.now - row["told_at"] < self.settings.quiet.total_seconds()
        ):
            return
        self.db.execute("UPDATE incident SET revision = revision + 1 WHERE id = ?", (name,))
        self._tell(name, "grows", leading(self._members(name)))

    def _settle(self, cause: Cause, incident: str | None, *, judged: bool = True) -> None:
        """Note the incident of each alert; `judged`: the alert has its verdict."""
        for alert in cause.alerts:
            self.db.execute(
                "UPDATE alert SET state = CASE WHEN ? THEN 'judged' ELSE state END, incident = coalesce(?, incident) WHERE id = ?",
                (judged, incident, alert.id),
            )

    def _write(self, incident: str, cluster: str, members: Sequence[Judged]) -> None:
        for it in members:
            values = (it.verdict, it.state, it.headline, it.time_lag_seconds, it.lag_messages)
            self.db.execute(
                "INSERT INTO member (incident, grp, topic, verdict, state, headline, time_lag, lag, at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (incident, grp, topic) DO UPDATE SET verdict = excluded.verdict, "
                "state = excluded.state, headline = excluded.headline, time_lag = excluded.time_lag, lag = excluded.lag, "
                "at = excluded.at",
                (incident, it.group, it.topic, *values, self.now),
            )
            last = self.db.execute(
                "SELECT verdict, at FROM finding WHERE incident = ? AND grp = ? AND topic = ? ORDER BY at DESC LIMIT 1",
                (incident, it.group, it.topic),
            ).fetchone()
            if last is not None and last["verdict"] == it.verdict and self.now - last["at"] < _KEPT_SECONDS:
                continue
            picture = zlib.compress(it.picture.encode(errors="backslashreplace")) if it.picture else None
            self.db.execute(
                "INSERT INTO finding (incident, cluster, grp, topic, at, verdict, state, headline, time_lag, lag, picture) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (incident, cluster, it.group, it.topic, self.now, *values, picture),
            )

    def _members(self, incident: str) -> list[Judged]:
        rows = self.db.execute("SELECT * FROM member WHERE incident = ?", (incident,)).fetchall()
        return [
            Judged(
                group=row["grp"], topic=row["topic"], verdict=row["verdict"], state=row["state"], cause="",
                headline=row["headline"], time_lag_seconds=row["time_lag"], lag_messages=row["lag"],
            )
            for row in rows
        ]  # fmt: skip

    def follow(self, incident: Open, judged: Sequence[Judged]) -> None:
        """Apply a later triage."""
        row = self._row(incident.id)
        if row is None or row["closed"] is not None:
            return
        known = {(it.group, it.topic): it for it in judged}
        mine = [known[it] for it in incident.members if it in known]
        for group, topic in incident.members:
            if not topic:  # there were no data of the group before
                mine += [it for it in judged if it.group == group]
        firing = self.db.execute("SELECT 1 FROM alert WHERE incident = ? AND firing = 1", (incident.id,)).fetchone()
        if firing is None and self.now - row["changed"] > _ENDED_SECONDS:
            self.db.execute("UPDATE incident SET closed = ? WHERE id = ?", (self.now, incident.id))
            return
        if not mine:
            return
        if any(it.topic for it in mine):
            self.db.executemany(
                "DELETE FROM member WHERE incident = ? AND grp = ? AND topic = ''",
                [(incident.id, it.group) for it in mine if it.topic],
            )
        self._write(incident.id, incident.cluster, mine)
        members = self._members(incident.id)
        chosen = leading(members)
        fresh = {(it.group, it.topic): it for it in mine}
        chosen = fresh.get((chosen.group, chosen.topic), chosen)
        if all(it.state == State.HEALTHY for it in members):
            self._change(row, chosen, cause=row["cause"], closed=True)
            self._tell(incident.id, "recovered", chosen, before=row["told_verdict"])
        elif chosen.verdict != row["told_verdict"] and self._worth_telling(row, chosen):
            self._change(row, chosen, cause=chosen.cause or row["cause"], closed=False)
            self._tell(incident.id, "verdict", chosen, before=row["told_verdict"])
        else:
            self.db.execute(
                "UPDATE incident SET headline = ?, state = ? WHERE id = ?", (chosen.headline, chosen.state, incident.id)
            )
            self._perhaps_grown(incident.id)

    def _worth_telling(self, row: Row, chosen: Judged) -> bool:
        """A verdict that gets lost for a short time, for instance while data are missing, is no news."""
        calm = self.now - row["told_at"] > self.settings.quiet.total_seconds()
        return calm or chosen.verdict != Verdict.CANNOT_TELL

    def _change(self, row: Row, chosen: Judged, *, cause: str, closed: bool) -> None:
        self.db.execute(
            "UPDATE incident SET verdict = ?, state = ?, headline = ?, cause = ?, changed = ?, closed = ?, looked = ?,"
            ' revision = revision + 1, "similar" = coalesce(?, "similar") WHERE id = ?',
            (
                chosen.verdict, chosen.state, chosen.headline, cause, self.now, self.now if closed else None, self.now,
                similar(self.db, row["cluster"], chosen, before=row["opened"]), row["id"],
            ),
        )  # fmt: skip

    def _tell(
        self, name: str, kind: str, chosen: Judged, *, cause: Cause | None = None, before: str | None = None,
        others: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        row = self._row(name)
        if row is None or (row["folded"] is not None and row["folded"] != name):
            return
        members = sorted(self._members(name), key=worse)
        names = self.db.execute("SELECT DISTINCT name FROM alert WHERE incident = ? ORDER BY name LIMIT 5", (name,))
        like = row["similar"] if kind in ("new", "verdict", "digest") else None
        first = min((it.received for it in cause.alerts), default=None) if cause is not None else None
        message = Message(
            kind=kind, incident=name, revision=row["revision"], cluster=row["cluster"], verdict=chosen.verdict,
            state=chosen.state, headline=chosen.headline, before=before, total=len(members),
            members=tuple((it.group, it.topic, it.headline) for it in members[:_TOLD_MEMBERS]),
            others=others, alerts=tuple(it["name"] for it in names), actions=chosen.actions, runbook=chosen.runbook,
            owner=chosen.owner, like=words_of_similar(self.db, like) if like else None, received=first,
            trend=chosen.trend,
        )  # fmt: skip
        if not all(it.muted for it in (cause.members if cause is not None else [chosen])):
            put(self.db, message, self.settings.targets, now=self.now)
        self.db.execute(
            "UPDATE incident SET told_verdict = ?, told_members = ?, told_at = ? WHERE id = ?",
            (chosen.verdict, len(members), self.now, name),
        )


def similar(db: Database, cluster: str, judged: Judged, *, before: float) -> str | None:
    """The latest earlier incident with the same verdict: of the same subscription, else of the group, else of the cluster.

    One with notes comes before one without.
    """
    if judged.verdict in (Verdict.CANNOT_TELL, Verdict.HEALTHY, Verdict.RECOVERED):
        return None
    row = db.execute(
        "SELECT incident.id FROM finding JOIN incident ON incident.id = finding.incident "
        "WHERE finding.cluster = ? AND finding.verdict = ? AND incident.opened < ? "
        "ORDER BY (finding.grp = ? AND finding.topic = ?) DESC, (finding.grp = ?) DESC,"
        " EXISTS (SELECT 1 FROM note WHERE note.incident = incident.id) DESC, incident.opened DESC LIMIT 1",
        (cluster, judged.verdict, before, judged.group, judged.topic, judged.group),
    ).fetchone()
    return row["id"] if row is not None else None


def words_of_similar(db: Database, incident: str) -> str | None:
    """ "3 November 2026, 03:12 UTC: slow processor, payments ← orders; what was done: …"."""
    row = db.execute(
        "SELECT finding.*, incident.opened FROM finding JOIN incident ON incident.id = finding.incident "
        "WHERE incident = ? AND finding.state <> 'healthy' ORDER BY at LIMIT 1",
        (incident,),
    ).fetchone()
    if row is None:
        return None
    note = db.execute(
        "SELECT words FROM note WHERE incident = ? ORDER BY kind = 'resolution' DESC, at DESC LIMIT 1", (incident,)
    ).fetchone()
    at = datetime.fromtimestamp(row["opened"], UTC)
    done = f"; what was done: {note['words'][:300]}" if note is not None else ""
    verdict = row["verdict"].replace("_", " ")
    return f"{at.day} {at:%B %Y, %H:%M} UTC: {verdict}, {row['grp']} ← {row['topic']}{done}"


def _name(now: float) -> str:
    """The id of an incident: its day, and letters that nobody can guess."""
    return f"{datetime.fromtimestamp(now, UTC):%Y%m%d}-{secrets.token_hex(6)}"
