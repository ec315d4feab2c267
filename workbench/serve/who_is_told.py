"""Who is told what: the one place that decides about messages.

For each incident and target there is one row. What is true of the incident is compared with what the target was told, so it does not
matter which step has changed it: no event can be missed, and nothing is told twice.

    owed ──▸ told ──▸ over      told in a message of its own; later verdicts, more subscriptions and the end follow
      ◂────▸ named ─▸ over      named in the digest of another incident (its lane); the end follows, with others of the lane.
                                If it grows, it is owed again, for what has joined was not named

Only members that are not muted count: after the end of a mute the incident differs from what was told. Nothing here asks a source.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from workbench.humanize import plural
from workbench.serve.broker_causes import origin_of
from workbench.serve.incident_grouping import leading
from workbench.serve.kept_verdict import Judged, worse
from workbench.serve.message_step import LATE, Phase, Told, Truth, decide, is_recent
from workbench.serve.outbox import Message, put
from workbench.serve.server_database import Database, Row, Store, StoreError
from workbench.serve.similar_incidents import words_of_similar
from workbench.serve_settings import ServeSettings, Target
from workbench.triage.verdict_names import State, Verdict

_log = logging.getLogger(__name__)
MOST_FIRST = 4  # first messages about a cluster to a target within `quiet`; the last of them names all that wait
MOST_NAMED = 100  # in one digest, so that it fits into a chat's message; the others wait for the next one
REPOST_SECONDS = 900.0  # an Alertmanager forgets what is not repeated
_TOLD_MEMBERS = 10
_LEAST_QUIET_SECONDS = 60.0
_GATHER_SECONDS = 30.0
_ENDINGS = {
    "ended": "Closed: none of its alerts fires any more. Last seen: ",
    "closed": "Closed by hand. Last seen: ",
    "moved": "Closed: its alerts have their verdicts in other incidents. ",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    id: int
    incident: str
    lane: str | None
    told: Told


class Telling:
    """Messages of one transaction."""

    def __init__(self, db: Database, settings: ServeSettings, now: float) -> None:
        self.db, self.settings, self.now = db, settings, now
        self._quiet = settings.quiet.total_seconds()
        self._revisions: dict[tuple[str, str], int] = {}

    def add(self, incident: str, cluster: str) -> None:
        """Owe a new incident to everybody who wants its cluster."""
        for target in self.settings.targets:
            if wants(target, cluster):
                self.db.execute(
                    "INSERT INTO telling (incident, target, state) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                    (incident, target.name, Phase.OWED),
                )

    def tell(self, incidents: Iterable[str], *, ends: bool = False) -> None:
        """Write what follows for these incidents, and for all that is still owed about their clusters.

        Args:
            ends: also of what a digest named; otherwise those wait a little, so that ends which come together are one message.
        """
        names = list(dict.fromkeys(incidents))
        clusters: dict[str, None] = {}
        for name in names:
            row = self.db.execute("SELECT cluster FROM incident WHERE id = ?", (name,)).fetchone()
            if row is not None:
                clusters[row["cluster"]] = None
        for target in self.settings.targets:
            for name in names:
                with self._alone(name):
                    for row in self._rows(
                        "telling.incident = ? AND target = ? AND telling.state IN ('told', 'named')",
                        (name, target.name),
                    ):
                        self._follow(row, target)
            for cluster in clusters:
                if wants(target, cluster):
                    self._owed(cluster, target)
                    if ends:
                        self._ended(cluster, target)
        if not ends:
            self.db.execute(
                "UPDATE telling SET due = ? WHERE state = 'named' AND due IS NULL AND incident IN "
                "(SELECT id FROM incident WHERE closed IS NOT NULL)",
                (self.now + _GATHER_SECONDS,),
            )

    @contextmanager
    def _alone(self, incident: str) -> Iterator[None]:
        """One incident that cannot be told leaves the others untouched; its turn comes again."""
        self.db.execute("SAVEPOINT one")
        try:
            yield
        except StoreError:
            raise
        except Exception:
            _log.exception("the incident %s could not be told; the others are", incident)
            self.db.execute("ROLLBACK TO SAVEPOINT one")
            later = self.now + _LEAST_QUIET_SECONDS
            self.db.execute("UPDATE telling SET due = ? WHERE incident = ? AND state <> 'over'", (later, incident))
        self.db.execute("RELEASE SAVEPOINT one")

    # One message about one incident

    def _follow(self, row: _Row, target: Target) -> None:
        truth = self._truth(row.incident)
        step = decide(truth, row.told, now=self.now, quiet=self._quiet)
        if row.told.phase is Phase.NAMED:
            if truth.ending is None:  # ends are told together
                self._keep(row, Phase.OWED if step.kind == "first" else Phase.NAMED, due=step.due)
        elif step.kind is not None:
            self._send(row, target, step.kind, over=step.over)
        else:
            self._keep(row, Phase.OVER if step.over else row.told.phase, due=step.due)

    def _keep(self, row: _Row, phase: Phase, *, due: float | None) -> None:
        self.db.execute("UPDATE telling SET state = ?, due = ? WHERE id = ?", (phase, due, row.id))

    def _send(self, row: _Row, target: Target, kind: str, *, over: bool, others: Sequence[_Row] = ()) -> None:
        first = row.told.phase is Phase.OWED
        message, truth = self._message(row, kind, others)
        put(self.db, message, [target], now=self.now)
        self.db.execute(
            "UPDATE telling SET state = ?, lane = ?, verdict = ?, well = ?, revision = ?, last_at = ?, due = NULL,"
            " first_at = coalesce(?, first_at) WHERE id = ?",
            (
                Phase.OVER if over else Phase.TOLD, row.incident, truth.verdict, int(truth.well), message.revision, self.now,
                self.now if first else None, row.id,
            ),
        )  # fmt: skip
        self.db.execute(
            "UPDATE incident SET told_verdict = ?, told_members = ?, told_at = ? WHERE id = ?",
            (message.verdict, message.total, self.now, row.incident),
        )

    # First messages: a storm of causes is a few messages

    def _owed(self, cluster: str, target: Target) -> None:
        owed: list[_Row] = []
        for row in self._rows("cluster = ? AND target = ? AND telling.state = 'owed'", (cluster, target.name)):
            with self._alone(row.incident):
                self._line(row.incident)  # can it be told?
                truth = self._truth(row.incident)
                step = decide(truth, row.told, now=self.now, quiet=self._quiet)
                if (
                    row.lane is not None and truth.ending is not None
                ):  # a digest has named it: its end is told with others
                    self._keep(row, Phase.NAMED, due=self.now)
                elif step.kind is not None and self._is_on_its_way(row, target):
                    self._keep(row, Phase.OWED, due=self.now + _LEAST_QUIET_SECONDS)
                elif step.kind is not None:
                    owed.append(row)
                else:
                    self._keep(row, Phase.OVER if step.over else Phase.OWED, due=None)
        quiet = max(_LEAST_QUIET_SECONDS, self._quiet)
        free = MOST_FIRST - self._first_of_late(cluster, target, quiet)
        if target.kind == "alertmanager":  # it groups by itself, and each of its alerts ends with its incident
            free = len(owed) + 1
        while owed and free > 0:
            if free == 1 and target.kind != "alertmanager":
                carrier, *others = owed[:MOST_NAMED]
                with self._alone(carrier.incident):
                    self._first(carrier, target, "digest", others)
                owed = owed[MOST_NAMED:]
            else:
                row = owed.pop(0)
                with self._alone(row.incident):
                    self._first(row, target, "new" if row.lane is None else "grows")
            free -= 1
        for row in owed:
            self._keep(row, Phase.OWED, due=self.now + _LEAST_QUIET_SECONDS)

    def _is_on_its_way(self, row: _Row, target: Target) -> bool:
        """Whether the digest that names an incident has not arrived: what has joined since is told after it."""
        waits = "SELECT 1 FROM outbox WHERE incident = ? AND target = ? AND state IN ('waiting', 'sending') LIMIT 1"
        return row.lane is not None and self.db.execute(waits, (row.lane, target.name)).fetchone() is not None

    def _first_of_late(self, cluster: str, target: Target, seconds: float) -> int:
        found: int = self.db.execute(
            "SELECT count(*) FROM telling JOIN incident ON incident.id = telling.incident WHERE target = ? AND cluster = ? "
            "AND first_at > ? AND first_at <= ? AND lane = telling.incident",
            (target.name, cluster, self.now - seconds, self.now),
        ).fetchone()[0]
        return found

    def _first(self, row: _Row, target: Target, kind: str, others: Sequence[_Row] = ()) -> None:
        ending = self._truth(row.incident).ending
        if ending is not None and kind == "new":
            kind = "healthy" if ending in ("healthy", "recovered") else "ended"
        self._send(row, target, kind, over=ending is not None, others=others)
        for other in others:
            truth = self._truth(other.incident)
            self.db.execute(
                "UPDATE telling SET state = ?, lane = ?, verdict = ?, revision = ?, first_at = ?, last_at = ?, due = NULL WHERE id = ?",
                (
                    Phase.NAMED if truth.ending is None else Phase.OVER, row.incident, truth.verdict,
                    self._incident(other.incident)["revision"], self.now, self.now, other.id,
                ),
            )  # fmt: skip
            self.db.execute(
                "UPDATE incident SET folded = coalesce(folded, ?) WHERE id = ?", (row.incident, other.incident)
            )

    # Ends of what was named in a digest: in the digest's own lane, so they cannot arrive before it

    def _ended(self, cluster: str, target: Target) -> None:
        lanes: dict[str, list[_Row]] = {}
        named = "cluster = ? AND target = ? AND telling.state = 'named' AND closed IS NOT NULL"
        for row in self._rows(named, (cluster, target.name)):
            step = decide(self._truth(row.incident), row.told, now=self.now, quiet=self._quiet)
            if step.kind is not None and row.lane is not None:
                lanes.setdefault(row.lane, []).append(row)
            else:
                self._keep(row, Phase.NAMED, due=step.due)
        for lane, rows in lanes.items():
            with self._alone(lane):
                self._end_of(lane, rows, target)

    def _end_of(self, lane: str, rows: Sequence[_Row], target: Target) -> None:
        carrier = _Row(id=0, incident=lane, lane=lane, told=rows[0].told)
        message, _ = self._message(carrier, "ends", rows)
        put(self.db, message, [target], now=self.now)
        self.db.execute(
            "UPDATE telling SET last_at = ? WHERE target = ? AND lane = ? AND state = 'named'",
            (self.now, target.name, lane),
        )
        for row in rows:
            self._keep(row, Phase.OVER, due=None)

    # What is true, and its words

    def _rows(self, where: str, values: Sequence[object]) -> list[_Row]:
        query = f"SELECT telling.* FROM telling JOIN incident ON incident.id = telling.incident WHERE {where} ORDER BY telling.id"  # noqa: S608 - our own words
        return [
            _Row(
                id=it["id"], incident=it["incident"], lane=it["lane"],
                told=Told(
                    phase=Phase(it["state"]), verdict=it["verdict"], well=bool(it["well"]), revision=it["revision"],
                    at=it["last_at"],
                ),
            )
            for it in self.db.execute(query, values)
        ]  # fmt: skip

    def _truth(self, incident: str) -> Truth:
        row, members = self._incident(incident), members_of(self.db, incident)
        hushed = row["quiet_until"] is not None and row["quiet_until"] > self.now  # by a person, on the incident's page
        loud = [] if hushed else [it for it, _ in members if it.muted is None]
        chosen = leading(loud) if loud else None
        # Whom a cause on brokers hits was said with it.
        named = chosen.origin.concerned if chosen is not None and chosen.origin is not None else frozenset[str]()
        return Truth(
            verdict=LATE if row["cause"] == LATE else chosen.verdict if chosen is not None else row["verdict"],
            concerned=chosen is not None,
            well=chosen is not None and chosen.state == State.HEALTHY,
            joined=max((joined for it, joined in members if it.muted is None and it.group not in named), default=0),
            ending=None if row["closed"] is None else row["ending"] or "recovered",
        )

    def _incident(self, incident: str) -> Row:
        found: Row = self.db.execute("SELECT * FROM incident WHERE id = ?", (incident,)).fetchone()
        return found

    def _message(self, row: _Row, kind: str, others: Sequence[_Row]) -> tuple[Message, Truth]:
        it, truth = self._incident(row.incident), self._truth(row.incident)
        everybody = [judged for judged, _ in members_of(self.db, row.incident)]
        loud = sorted([one for one in everybody if one.muted is None] or everybody, key=worse)
        chosen = leading(loud) if loud else None
        members = [one for one in loud if one.origin is None]
        origin = next((one.origin for one in loud if one.origin is not None), None)
        names = self.db.execute(
            "SELECT DISTINCT name FROM alert WHERE incident = ? ORDER BY name LIMIT 5", (row.incident,)
        )
        alerts = self.db.execute(
            "SELECT min(received), max(truncated) FROM alert WHERE incident = ?", (row.incident,)
        ).fetchone()
        begins = row.told.phase is Phase.OWED and row.lane is None
        like = it["similar"] if kind in ("new", "verdict", "digest") else None
        headline = chosen.headline if chosen is not None else it["headline"]
        if kind == "ends":
            headline = f"Of the causes that were told together, {plural(len(others), 'is', 'are')} over."
        message = Message(
            kind=kind, incident=row.incident, revision=self._next(row.incident, kind), cluster=it["cluster"],
            verdict=chosen.verdict if chosen is not None else it["verdict"],
            state=str(State.HEALTHY) if kind == "ends" else chosen.state if chosen is not None else it["state"],
            headline=(_ENDINGS.get(it["ending"] or "", "") if kind == "ended" else "") + headline,
            before=None if begins else str(Verdict.CANNOT_TELL) if row.told.verdict == LATE else row.told.verdict,
            total=len(members) if origin is None else origin.number,
            members=() if kind == "ends" else tuple((one.group, one.topic, one.headline) for one in members[:_TOLD_MEMBERS]),
            others=tuple(self._line(one.incident) for one in others),
            other_incidents=tuple(one.incident for one in others),
            alerts=tuple(one["name"] for one in names),
            actions=chosen.actions if chosen is not None else (), runbook=chosen.runbook if chosen is not None else None,
            owner=chosen.owner if chosen is not None else None, trend=chosen.trend if chosen is not None else None,
            like=words_of_similar(self.db, like) if like else None,
            origin=origin.name if origin is not None else None,
            received=alerts[0] if begins else None, left_out=(alerts[1] or 0) if begins else 0,
        )  # fmt: skip
        return message, truth

    def _next(self, incident: str, kind: str) -> int:
        """A revision that no message has had: one for all targets of this transaction.

        Of each kind: an incident's own verdict, and the ends of what its digest has named, may be due at once.
        """
        if (incident, kind) not in self._revisions:
            self.db.execute("UPDATE incident SET revision = revision + 1 WHERE id = ?", (incident,))
            self._revisions[incident, kind] = self._incident(incident)["revision"]
        return self._revisions[incident, kind]

    def _line(self, incident: str) -> str:
        row = self._incident(incident)
        members = [judged for judged, _ in members_of(self.db, incident)]
        loud = sorted([it for it in members if it.muted is None] or members, key=worse)
        chosen = leading(loud) if loud else None
        if chosen is None:
            return f"{row['verdict']}: {row['headline']}"
        over = "over: " if row["closed"] is not None else ""
        if chosen.origin is not None:
            return f"{over}{chosen.verdict}: {chosen.headline}"
        more = f" and {len(loud) - 1:,} more" if len(loud) > 1 else ""
        return f"{over}{chosen.verdict}: {chosen.group} ← {chosen.topic}{more}: {chosen.headline}"


def wants(target: Target, cluster: str) -> bool:
    """Whether a target is told of a cluster."""
    return not target.clusters or cluster in target.clusters


def members_of(db: Database, incident: str) -> list[tuple[Judged, int]]:
    """Members of an incident as they were last judged, and the revision at which each began to concern people."""
    found = []
    for row in db.execute("SELECT * FROM member WHERE incident = ?", (incident,)):
        advice = json.loads(row["advice"] or "{}")
        judged = Judged(
            group=row["grp"], topic=row["topic"], verdict=row["verdict"], state=row["state"], cause="",
            headline=row["headline"], time_lag_seconds=row["time_lag"], lag_messages=row["lag"], muted=row["muted"],
            time_lag_words=row["time_lag_words"],
            actions=tuple(advice.get("actions", ())), runbook=advice.get("runbook"), owner=advice.get("owner"),
            trend=advice.get("trend"), origin=origin_of(row["origin"]),
        )  # fmt: skip
        found.append((judged, row["joined"]))
    return found


def does_not_know(db: Database, target: str, incidents: Sequence[str]) -> None:
    """A target has not got a message about these incidents, and about those that it named: it knows nothing of them.

    If the settings name it again, `resume` owes it those that are open.
    """
    for incident in dict.fromkeys(incidents):
        db.execute("DELETE FROM telling WHERE target = ? AND ? IN (incident, lane)", (target, incident))


def resume(db: Database, settings: ServeSettings) -> None:
    """After a take-over: targets that are new in the settings are owed what is open."""
    for target in settings.targets:
        rows = db.execute(
            "SELECT id, cluster FROM incident WHERE closed IS NULL AND NOT EXISTS "
            "(SELECT 1 FROM telling WHERE telling.incident = incident.id AND target = ?) ORDER BY opened, id",
            (target.name,),
        ).fetchall()
        for row in rows:
            if wants(target, row["cluster"]):
                db.execute(
                    "INSERT INTO telling (incident, target, state, due) VALUES (?, ?, ?, 0)",
                    (row["id"], target.name, Phase.OWED),
                )


def tell_due(store: Store, settings: ServeSettings, *, lead: int | None = None) -> bool:
    """Tell what had to wait for the quiet time, and repeat to an Alertmanager what still holds; return whether there was anything."""
    now = store.clock()
    waits = "due <= ? OR due > ?"
    # Nothing waits longer than the quiet time: what is due later was written before the clock was set back.
    limits = (now, now + max(settings.quiet.total_seconds(), _LEAST_QUIET_SECONDS))
    again = [it.name for it in settings.targets if it.kind == "alertmanager"]
    with store.reading() as db:
        waiting = db.execute(f"SELECT 1 FROM telling WHERE {waits} LIMIT 1", limits).fetchone()  # noqa: S608 - our own words
        if waiting is None and not any(_to_repeat(db, it, now) for it in again):
            return False
    with store.writing(lead=lead) as db:
        rows = db.execute(f"SELECT incident FROM telling WHERE {waits} ORDER BY id", limits).fetchall()  # noqa: S608 - our own words
        db.execute(f"UPDATE telling SET due = NULL WHERE {waits}", limits)  # noqa: S608 - our own words
        Telling(db, settings, now).tell((row["incident"] for row in rows), ends=True)
        for name in again:
            for number in _to_repeat(db, name, now):
                db.execute("UPDATE outbox SET state = 'waiting', due = ?, attempts = 0 WHERE id = ?", (now, number))
    return True


def _to_repeat(db: Database, target: str, now: float) -> list[int]:
    """Last messages about what still holds, if they were sent, or refused for good, some time ago, and nothing else waits."""
    rows = db.execute(
        "SELECT max(outbox.id) AS id, max(coalesce(outbox.sent, outbox.made)) AS at, max(outbox.due) AS due FROM outbox "
        "JOIN telling ON telling.incident = outbox.incident AND telling.target = outbox.target "
        "WHERE telling.target = ? AND telling.state = 'told' AND telling.well = 0 GROUP BY outbox.incident "
        "HAVING sum(CASE WHEN outbox.state IN ('waiting', 'sending') THEN 1 ELSE 0 END) = 0",
        (target,),
    ).fetchall()
    # Of one that was refused, `due` is later than that by a pause of at most as long.
    return [
        row["id"]
        for row in rows
        if not is_recent(row["at"], now, REPOST_SECONDS) and abs(now - row["due"]) >= REPOST_SECONDS
    ]
