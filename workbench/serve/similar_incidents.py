"""Earlier incidents like a present one: look-ups by index in a table of what each had, so they stay as fast after a year."""

from __future__ import annotations

from datetime import UTC, datetime

from workbench.serve.kept_verdict import Judged
from workbench.serve.server_database import Database
from workbench.triage.verdict_names import Verdict

_UNLIKE = (Verdict.CANNOT_TELL, Verdict.HEALTHY, Verdict.RECOVERED)
_LATEST = 200  # with notes or without; older ones are not looked through for notes


def remember(db: Database, incident: str, cluster: str, opened: float, judged: Judged) -> None:
    """Note what an incident had: by subscription, by group, and in the cluster."""
    if judged.verdict in _UNLIKE:
        return
    for group, topic in ((judged.group, judged.topic), (judged.group, ""), ("", "")):
        db.execute(
            "INSERT INTO had (incident, cluster, verdict, grp, topic, opened) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (incident, cluster, judged.verdict, group, topic, opened),
        )


def similar(db: Database, cluster: str, judged: Judged, *, before: float) -> str | None:
    """The latest earlier incident with the same verdict: of the same subscription, else of the group, else of the cluster.

    One with notes comes before one without.
    """
    if judged.verdict in _UNLIKE:
        return None
    for group, topic in ((judged.group, judged.topic), (judged.group, ""), ("", "")):
        row = db.execute(
            "SELECT incident FROM (SELECT incident, opened FROM had WHERE cluster = ? AND verdict = ? AND grp = ? AND topic = ? "
            "AND opened < ? ORDER BY opened DESC LIMIT ?) AS latest "
            "ORDER BY EXISTS (SELECT 1 FROM note WHERE note.incident = latest.incident AND kind IN ('note', 'resolution')) DESC, "
            "opened DESC LIMIT 1",
            (cluster, judged.verdict, group, topic, before, _LATEST),
        ).fetchone()
        if row is not None:
            found: str = row["incident"]
            return found
    return None


def words_of_similar(db: Database, incident: str) -> str | None:
    """ "3 November 2026, 03:12 UTC: slow processor, payments ← orders; what was done: …"."""
    row = db.execute("SELECT * FROM had WHERE incident = ? ORDER BY topic DESC, grp LIMIT 1", (incident,)).fetchone()
    if row is None:
        return None
    # The other kinds of notes say who has muted or closed it.
    note = db.execute(
        "SELECT words FROM note WHERE incident = ? AND kind IN ('note', 'resolution') "
        "ORDER BY kind = 'resolution' DESC, at DESC LIMIT 1",
        (incident,),
    ).fetchone()
    at = datetime.fromtimestamp(row["opened"], UTC)
    done = f"; what was done: {note['words'][:300]}" if note is not None else ""
    verdict = row["verdict"].replace("_", " ")
    return f"{at.day} {at:%B %Y, %H:%M} UTC: {verdict}, {row['grp']} ← {row['topic']}{done}"
