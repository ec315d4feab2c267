"""Tables of the database, as steps from one version to the next: an older database is brought up to date when it is opened."""

from __future__ import annotations

from workbench.errors import UsageError

_FIRST = """
CREATE TABLE incident (
  id TEXT PRIMARY KEY,
  cluster TEXT NOT NULL, cause TEXT NOT NULL, verdict TEXT NOT NULL, state TEXT NOT NULL, headline TEXT NOT NULL,
  opened REAL NOT NULL, changed REAL NOT NULL, closed REAL, looked REAL NOT NULL,
  revision INTEGER NOT NULL,
  told_verdict TEXT NOT NULL, told_members INTEGER NOT NULL, told_at REAL NOT NULL,
  folded TEXT,                        -- the incident whose message names this one, too
  "similar" TEXT                      -- an earlier incident with the same cause
);
CREATE INDEX incident_open ON incident (closed, cluster, cause);
CREATE TABLE alert (
  id INTEGER PRIMARY KEY,
  fingerprint TEXT NOT NULL,          -- Alertmanager's, or a hash of the labels
  started TEXT NOT NULL,              -- one firing of an alert is (fingerprint, started)
  received REAL NOT NULL,
  name TEXT NOT NULL, cluster TEXT NOT NULL, grp TEXT NOT NULL, topic TEXT NOT NULL,
  state TEXT NOT NULL,                -- waiting, judged
  firing INTEGER NOT NULL,
  late INTEGER NOT NULL DEFAULT 0,    -- passed on without a verdict
  incident TEXT REFERENCES incident(id),
  UNIQUE (fingerprint, started)
);
CREATE INDEX alert_state ON alert (state, received);
CREATE INDEX alert_incident ON alert (incident);
CREATE TABLE member (
  incident TEXT NOT NULL REFERENCES incident(id), grp TEXT NOT NULL, topic TEXT NOT NULL,
  verdict TEXT NOT NULL, state TEXT NOT NULL, headline TEXT NOT NULL,
  time_lag REAL, lag INTEGER, at REAL NOT NULL,
  PRIMARY KEY (incident, grp, topic)
);
CREATE INDEX member_of ON member (grp, topic);
CREATE TABLE finding (
  id INTEGER PRIMARY KEY,
  incident TEXT, cluster TEXT NOT NULL, grp TEXT NOT NULL, topic TEXT NOT NULL, at REAL NOT NULL,
  verdict TEXT NOT NULL, state TEXT NOT NULL, headline TEXT NOT NULL, time_lag REAL, lag INTEGER,
  picture BLOB                        -- the finding as HTML, compressed; only of incidents
);
CREATE INDEX finding_of ON finding (cluster, grp, topic, at);
CREATE INDEX finding_in ON finding (incident, grp, topic, at);
CREATE INDEX finding_at ON finding (at);
CREATE TABLE fleet (
  cluster TEXT NOT NULL, grp TEXT NOT NULL, topic TEXT NOT NULL, rank INTEGER NOT NULL,
  verdict TEXT NOT NULL, state TEXT NOT NULL, headline TEXT NOT NULL, time_lag REAL, lag INTEGER, at REAL NOT NULL,
  since REAL NOT NULL,                -- of this verdict
  PRIMARY KEY (cluster, grp, topic)
);
CREATE TABLE outbox (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE,
  incident TEXT NOT NULL, target TEXT NOT NULL, message TEXT NOT NULL,
  state TEXT NOT NULL,                -- waiting, sending, sent, failed
  attempts INTEGER NOT NULL DEFAULT 0, due REAL NOT NULL, made REAL NOT NULL, sent REAL, error TEXT
);
CREATE INDEX outbox_state ON outbox (state, due);
CREATE TABLE note (
  id INTEGER PRIMARY KEY, incident TEXT NOT NULL REFERENCES incident(id), at REAL NOT NULL,
  author TEXT NOT NULL, kind TEXT NOT NULL, words TEXT NOT NULL
);
CREATE INDEX note_of ON note (incident, at);
CREATE TABLE visit (hash TEXT PRIMARY KEY, csrf TEXT NOT NULL, until REAL NOT NULL, token TEXT NOT NULL);
"""
# ending: why an incident was closed (`incidents`). truncated: alerts that Alertmanager left out of the same message. joined: the
# incident's revision when a member began to concern people. advice: JSON. lead: raised by each take-over. telling: see `who_is_told`;
# its lane is the incident whose messages tell it. had: verdicts of incidents, also without topic and group, to find earlier ones.
_SECOND = """
ALTER TABLE incident ADD COLUMN ending TEXT;
ALTER TABLE alert ADD COLUMN truncated INTEGER NOT NULL DEFAULT 0;
ALTER TABLE member ADD COLUMN muted TEXT;
ALTER TABLE member ADD COLUMN joined INTEGER NOT NULL DEFAULT 0;
ALTER TABLE member ADD COLUMN advice TEXT;
CREATE TABLE lead (number INTEGER NOT NULL);
INSERT INTO lead (number) VALUES (0);
CREATE TABLE telling (
  id INTEGER PRIMARY KEY,
  incident TEXT NOT NULL REFERENCES incident(id), target TEXT NOT NULL,
  state TEXT NOT NULL,
  lane TEXT,
  verdict TEXT NOT NULL DEFAULT '', well INTEGER NOT NULL DEFAULT 0,
  revision INTEGER NOT NULL DEFAULT 0,
  first_at REAL, last_at REAL NOT NULL DEFAULT 0, due REAL,
  UNIQUE (incident, target)
);
CREATE INDEX telling_state ON telling (target, state);
CREATE INDEX telling_due ON telling (due);
CREATE INDEX telling_first ON telling (target, first_at);
INSERT INTO telling (incident, target, state, lane, verdict, revision, first_at, last_at)
  SELECT incident.id, outbox.target, 'told', incident.id, incident.told_verdict, incident.revision, incident.opened, incident.told_at
  FROM incident JOIN outbox ON outbox.incident = incident.id WHERE incident.closed IS NULL
  GROUP BY incident.id, outbox.target, incident.told_verdict, incident.revision, incident.opened, incident.told_at;
CREATE INDEX outbox_lane ON outbox (incident, target, id);
CREATE TABLE had (
  cluster TEXT NOT NULL, verdict TEXT NOT NULL, grp TEXT NOT NULL, topic TEXT NOT NULL,
  incident TEXT NOT NULL, opened REAL NOT NULL,
  PRIMARY KEY (incident, grp, topic, verdict)
);
CREATE INDEX had_like ON had (cluster, verdict, grp, topic, opened);
INSERT INTO had (cluster, verdict, grp, topic, incident, opened)
  SELECT DISTINCT finding.cluster, finding.verdict, finding.grp, finding.topic, incident.id, incident.opened
  FROM finding JOIN incident ON incident.id = finding.incident WHERE finding.state NOT IN ('healthy', 'cannot_tell');
INSERT INTO had (cluster, verdict, grp, topic, incident, opened)
  SELECT DISTINCT cluster, verdict, grp, '', incident, opened FROM had WHERE topic <> '' AND grp <> '' ON CONFLICT DO NOTHING;
INSERT INTO had (cluster, verdict, grp, topic, incident, opened)
  SELECT DISTINCT cluster, verdict, '', '', incident, opened FROM had WHERE grp <> '' ON CONFLICT DO NOTHING;
"""
# ended: when an alert ceased to fire.
_THIRD = """
ALTER TABLE alert ADD COLUMN ended REAL;
CREATE INDEX alert_firing ON alert (firing, cluster);
CREATE INDEX alert_ended ON alert (ended);
UPDATE telling SET revision = (SELECT revision FROM incident WHERE incident.id = telling.incident) WHERE state = 'named';
"""
# detail: see `group_detail`, compressed.
_FOURTH = """
ALTER TABLE fleet ADD COLUMN detail BLOB;
"""
# quiet_until: people have muted the incident until then.
_FIFTH = """
ALTER TABLE incident ADD COLUMN quiet_until REAL;
"""
# origin: a cause on brokers as JSON (`broker_causes`), of the row that stands for it. cause: of a subscription that one hits, its key.
_SIXTH = """
ALTER TABLE member ADD COLUMN origin TEXT;
ALTER TABLE fleet ADD COLUMN origin TEXT;
ALTER TABLE fleet ADD COLUMN cause TEXT;
"""
# time_lag_words: the age as screens say it ("about 13 min"), which its seconds alone do not tell.
_SEVENTH = """
ALTER TABLE member ADD COLUMN time_lag_words TEXT;
ALTER TABLE finding ADD COLUMN time_lag_words TEXT;
ALTER TABLE fleet ADD COLUMN time_lag_words TEXT;
"""
_STEPS = (_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH, _SIXTH, _SEVENTH)
VERSION = len(_STEPS)


def statements(version: int) -> list[str]:
    """What brings tables of a version (0: none) to the present one."""
    return [it for step in _STEPS[version:] for it in step.split(";\n") if it.strip()]


def newer(where: str) -> UsageError:
    """The error for tables of a later version than ours."""
    return UsageError(f"The database {where} was written by a newer version of Workbench.", hint="Update Workbench.")
