"""What the pages and programs read from the database."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workbench.serve.broker_causes import kept_origin
from workbench.serve.server_database import Row, Store
from workbench.serve.similar_incidents import words_of_similar

_BADNESS = "CASE state WHEN 'lagging' THEN 0 WHEN 'cannot_tell' THEN 1 WHEN 'draining' THEN 2 ELSE 3 END"
# As `triage.verdict_names.waits`: longest of all where messages wait and nobody knows since when.
_WAITS = "coalesce(time_lag, CASE WHEN lag > 0 THEN 1e12 ELSE 0 END)"
_WORST_FIRST = f"{_BADNESS}, {_WAITS} DESC"
SORTS = {
    "worst": f"{_WORST_FIRST}, grp, topic",
    "time_lag": f"{_WAITS} DESC, grp, topic",
    "lag": "lag DESC NULLS LAST, grp, topic",
    "group": "grp, topic",
    "changed": "since DESC, grp, topic",
}
_FLEET = "cluster, grp, topic, rank, verdict, state, headline, time_lag, lag, at, since, cause"
_OF_GROUP = "id, cluster, verdict, state, headline, opened, changed, closed, ending"
_NAMED = 2  # groups in the title of an incident


@dataclass(frozen=True, slots=True, kw_only=True)
class Whom:
    """Whom an incident concerns: its first groups, how many more there are, and their owners as far as they are known.

    `origin` says whose fault it is, of a cause on brokers.
    """

    groups: tuple[str, ...]
    more: int
    owners: tuple[str, ...]
    origin: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One incident with all that its page shows."""

    row: Row
    members: list[Row]
    total: int
    history: list[Row]
    notes: list[Row]
    messages: list[dict[str, Any]]
    alerts: list[Row]
    folded: list[Row]
    similar: str | None
    picture: str | None
    shown: Row | None
    whom: Whom
    origin: dict[str, Any] | None = None
    origin_at: float | None = None  # when it was found last


class Reading:
    """Queries of one database."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def fleet(
        self,
        *,
        text: str = "",
        state: str = "",
        cluster: str = "",
        cause: str = "",
        sort: str = "worst",
        most: int = 100,
        skip: int = 0,
    ) -> tuple[int, list[Row]]:
        """Number of the rows that match, and some of them.

        A cause on brokers is one row, and stands for those that it holds up; these are rows where a name or their cause is asked for.

        Args:
            text: part of a group's or topic's name. cause: key of a cause on brokers.
        """
        where, values = ["1 = 1"], []
        if not text and not cause:
            where.append("(cause IS NULL OR origin IS NOT NULL)")
        else:
            where.append("origin IS NULL")
        if cause:
            where.append("cause = ?")
            values.append(cause)
        if text:
            where.append("(lower(grp) LIKE lower(?) ESCAPE '!' OR lower(topic) LIKE lower(?) ESCAPE '!')")
            values += [_containing(text)] * 2
        for name, value in (("state", state), ("cluster", cluster)):
            if value:
                where.append(f"{name} = ?")
                values.append(value)
        clause, order = " AND ".join(where), SORTS.get(sort, SORTS["worst"])
        number = int(self.store.number(f"SELECT count(*) FROM fleet WHERE {clause}", values))  # noqa: S608 - our own words
        rows = self.store.rows(
            f"SELECT {_FLEET}, time_lag_words, origin FROM fleet WHERE {clause} ORDER BY {order} LIMIT ? OFFSET ?",  # noqa: S608 - our own words
            (*values, most, skip),
        )
        return number, rows

    def subscriptions(self, *, most: int) -> list[Row]:
        """Every subscription, worst first, with the key of the cause on brokers that holds it up."""
        return [
            dict(it)
            for it in self.store.rows(
                f"SELECT {_FLEET} FROM fleet WHERE origin IS NULL ORDER BY {SORTS['worst']} LIMIT ?",  # noqa: S608 - our own words
                (most,),
            )
        ]

    def causes(self) -> list[dict[str, Any]]:
        """Causes on brokers of now."""
        rows = self.store.rows(
            "SELECT cluster, at, since, origin FROM fleet WHERE origin IS NOT NULL ORDER BY cluster, rank"
        )
        return [
            {"cluster": it["cluster"], "at": it["at"], "since": it["since"], "origin": kept_origin(it["origin"])}
            for it in rows
        ]

    def about_cause(self, cluster: str, key: str) -> dict[str, Any] | None:
        """A cause on brokers of now: `origin`, the id of its open `incident` or None, and the `number` of what it holds up."""
        row = self.store.row(
            "SELECT origin FROM fleet WHERE cluster = ? AND topic = ? AND origin IS NOT NULL", (cluster, key)
        )
        if row is None:
            return None
        incident = self.store.row(
            "SELECT id FROM incident WHERE cluster = ? AND cause = ? AND closed IS NULL ORDER BY opened LIMIT 1",
            (cluster, key),
        )
        number = self.store.number(
            "SELECT count(*) FROM fleet WHERE cluster = ? AND cause = ? AND origin IS NULL", (cluster, key)
        )
        return {
            "origin": kept_origin(row["origin"]),
            "incident": incident["id"] if incident is not None else None,
            "number": int(number),
        }

    def counts(self) -> dict[str, int]:
        """Number of subscriptions in each state."""
        return {
            row[0]: row[1]
            for row in self.store.rows("SELECT state, count(*) FROM fleet WHERE origin IS NULL GROUP BY state")
        }

    def clusters(self) -> list[str]:
        """Clusters with subscriptions."""
        return [row[0] for row in self.store.rows("SELECT DISTINCT cluster FROM fleet ORDER BY cluster")]

    def waiting(self) -> int:
        """Number of alerts without a verdict."""
        return int(self.store.number("SELECT count(*) FROM alert WHERE state = 'waiting'"))

    def latest(self) -> dict[str, float]:
        """When each cluster was judged last, in seconds since 1970."""
        return {row[0]: row[1] for row in self.store.rows("SELECT cluster, max(at) FROM fleet GROUP BY cluster")}

    def incidents(self, *, state: str = "", most: int = 100, skip: int = 0) -> list[Row]:
        """Incidents, open ones first and the worst of them, then the latest; `state` is "open", "closed" or empty."""
        where = {"open": "closed IS NULL", "closed": "closed IS NOT NULL"}.get(state, "1 = 1")
        listed = "id, cluster, verdict, state, headline, opened, changed, closed, told_verdict"
        number = "(SELECT count(*) FROM member WHERE incident = incident.id AND origin IS NULL) AS subscriptions"
        worst = f"CASE WHEN closed IS NULL THEN {_BADNESS} ELSE 0 END"
        # Of a storm, in which all were opened in one turn, whoever waits longest is first.
        waits = f"(SELECT max({_WAITS}) FROM member WHERE incident = incident.id)"  # noqa: S608 - our own words
        order = f"ORDER BY closed IS NOT NULL, {worst}, opened DESC, {waits} DESC, id LIMIT ? OFFSET ?"
        query = f"SELECT {listed}, {number} FROM incident WHERE {where} {order}"  # noqa: S608 - our own words
        return self.store.rows(query, (most, skip))

    def whom(self, incidents: Sequence[str]) -> dict[str, Whom]:
        """Whom each of some incidents concerns, the worst first."""
        if not incidents:
            return {}
        marks = ", ".join("?" * len(incidents))
        place = f"row_number() OVER (PARTITION BY incident ORDER BY min({_BADNESS}), max({_WAITS}) DESC, grp) AS place"
        number = "count(*) OVER (PARTITION BY incident) AS number"
        named = f"SELECT incident, grp, max(advice) AS advice, {number}, {place} FROM member"  # noqa: S608 - our own words
        query = f"{named} WHERE incident IN ({marks}) AND origin IS NULL GROUP BY incident, grp"
        rows = self.store.rows(
            f"SELECT * FROM ({query}) AS named WHERE place <= ? ORDER BY incident, place",  # noqa: S608 - our own words
            (*incidents, _NAMED),
        )
        origins = {
            it["incident"]: kept_origin(it["origin"])
            for it in self.store.rows(
                f"SELECT incident, origin FROM member WHERE incident IN ({marks}) AND origin IS NOT NULL",  # noqa: S608 - our own words
                tuple(incidents),
            )
        }
        found: dict[str, Whom] = {}
        for name in incidents:
            origin = origins.get(name)
            mine = [it for it in rows if it["incident"] == name]
            owners = [json.loads(it["advice"]).get("owner") for it in mine if it["advice"]]
            found[name] = Whom(
                groups=tuple(it["grp"] for it in mine if it["grp"]),
                more=mine[0]["number"] - len(mine) if mine else 0,
                owners=tuple(dict.fromkeys(it for it in owners if it)),
                origin=None if origin is None else origin["name"],
            )
        return found

    def incident(self, name: str, *, group: str = "", topic: str = "", most: int = 100) -> Found | None:
        """One incident; group and topic choose whose finding is drawn: else the worst."""
        row = self.store.row("SELECT * FROM incident WHERE id = ?", (name,))
        if row is None:
            return None
        rows = self.store.rows
        order = f"ORDER BY {_WORST_FIRST}, grp, topic LIMIT ?"
        origin = self.store.row("SELECT at, origin FROM member WHERE incident = ? AND origin IS NOT NULL", (name,))
        members = rows(f"SELECT * FROM member WHERE incident = ? AND origin IS NULL {order}", (name, most))  # noqa: S608 - our own words
        picture, shown = self._picture(name, members, group, topic)
        return Found(
            row=row,
            members=members,
            total=int(self.store.number("SELECT count(*) FROM member WHERE incident = ? AND origin IS NULL", (name,))),
            history=rows(
                "SELECT grp, topic, at, verdict, state, headline FROM finding WHERE incident = ? ORDER BY at DESC LIMIT 50",
                (name,),
            ),
            notes=rows("SELECT * FROM note WHERE incident = ? ORDER BY at", (name,)),
            messages=_with_kinds(
                rows(
                    "SELECT target, state, attempts, made, sent, error, message FROM outbox "
                    "WHERE incident = ? ORDER BY id DESC LIMIT 50",
                    (name,),
                )
            ),
            alerts=rows(
                "SELECT name, min(started) AS started, count(*) AS number, CAST(sum(firing) AS INTEGER) AS firing "
                "FROM alert WHERE incident = ? GROUP BY name ORDER BY name LIMIT 50",
                (name,),
            ),
            folded=rows(
                "SELECT id, verdict, headline FROM incident WHERE folded = ? AND id <> ? LIMIT 50", (name, name)
            ),
            similar=self._similar(row["similar"]),
            picture=picture,
            shown=shown or next(iter(members), None),
            whom=self.whom([name])[name],
            origin=kept_origin(origin["origin"]) if origin is not None else None,
            origin_at=origin["at"] if origin is not None else None,
        )

    def _similar(self, name: str | None) -> str | None:
        if name is None:
            return None
        with self.store.reading() as db:
            return words_of_similar(db, name)

    def _picture(self, name: str, members: list[Row], group: str, topic: str) -> tuple[str | None, Row | None]:
        asked = [(group, topic)] if group else [(it["grp"], it["topic"]) for it in members[:3]]
        for one in asked:
            row = self.store.row(
                "SELECT grp, topic, at, picture FROM finding WHERE incident = ? AND grp = ? AND topic = ? AND picture IS NOT NULL "
                "ORDER BY at DESC LIMIT 1",
                (name, *one),
            )
            if row is not None:
                return zlib.decompress(row["picture"]).decode(), row
        return None, None

    def document(self, name: str) -> dict[str, Any] | None:
        """The document `workbench.incident_state/1`."""
        found = self.incident(name)
        if found is None:
            return None
        keys = ("id", "cluster", "verdict", "state", "headline", "opened", "changed", "closed")
        return {
            "schema": "workbench.incident_state/1",
            **{key: found.row[key] for key in keys},
            "origin": found.origin,
            "subscriptions": [_member(it) for it in found.members],
            "subscription_count": found.total,
            "alerts": [dict(it) for it in found.alerts],
            "notes": [{key: it[key] for key in ("at", "author", "kind", "words")} for it in found.notes],
            "messages": [
                {key: it[key] for key in ("target", "kind", "state", "made", "sent")} for it in found.messages
            ],
            "similar": found.similar,
        }

    def present(self, cluster: str, group: str) -> list[Row]:
        """The verdicts of now, with `detail` as it is kept."""
        query = f"SELECT {_FLEET}, time_lag_words, detail FROM fleet WHERE cluster = ? AND grp = ? ORDER BY {_WORST_FIRST}, topic"  # noqa: S608 - our own words
        return self.store.rows(query, (cluster, group))

    def history(self, cluster: str, group: str, *, start: float, end: float) -> dict[str, list[Row]]:
        """Findings of a group by topic, oldest first, between two instants; with the one that held at the start."""
        rows = self.store.rows(
            "SELECT topic, at, verdict, state, headline, time_lag, time_lag_words, lag FROM finding AS it WHERE cluster = ? "
            "AND grp = ? AND at <= ? AND at >= coalesce((SELECT max(at) FROM finding AS last WHERE last.cluster = it.cluster "
            "AND last.grp = it.grp AND last.topic = it.topic AND last.at <= ?), 0) ORDER BY topic, at, id LIMIT 20000",
            (cluster, group, end, start),
        )
        found: dict[str, list[Row]] = {}
        for row in rows:
            found.setdefault(row["topic"], []).append(row)
        return found

    def about_group(self, cluster: str, group: str) -> tuple[list[Row], list[Row]]:
        """The latest incidents of a group, and its alerts that fire or have ended in the last day."""
        incidents = self.store.rows(
            f"SELECT {_OF_GROUP} FROM incident WHERE cluster = ? "  # noqa: S608 - our own words
            "AND id IN (SELECT incident FROM member WHERE grp = ?) ORDER BY closed IS NOT NULL, opened DESC LIMIT 50",
            (cluster, group),
        )
        alerts = self.store.rows(
            "SELECT name, topic, started, received, firing, ended, incident FROM alert WHERE cluster = ? AND grp = ? "
            "AND (firing = 1 OR ended > ?) ORDER BY firing DESC, received DESC LIMIT 20",
            (cluster, group, self.store.clock() - 86_400.0),
        )
        return incidents, alerts


def _with_kinds(rows: list[Row]) -> list[dict[str, Any]]:
    """Messages with what kind each is of."""
    return [{**dict(row), "kind": json.loads(row["message"])["kind"]} for row in rows]


def _containing(text: str) -> str:
    """A pattern of LIKE for names that contain the text as it is."""
    for special in "!%_":
        text = text.replace(special, f"!{special}")
    return f"%{text}%"


def _member(row: Row) -> dict[str, Any]:
    return {
        "group": row["grp"], "topic": row["topic"], "verdict": row["verdict"], "state": row["state"],
        "headline": row["headline"], "time_lag_seconds": row["time_lag"], "lag_messages": row["lag"],
    }  # fmt: skip
