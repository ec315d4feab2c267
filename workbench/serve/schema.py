"""Tables of the memory."""

from __future__ import annotations

from workbench.errors import UsageError

VERSION = 1
_TABLES = """
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
TABLES = tuple(it for it in _TABLES.split(";\n") if it.strip())


def newer(where: str) -> UsageError:
    """The error for tables of a later version than ours."""
    return UsageError(f"The memory {where} was written by a newer version of Workbench.", hint="Update Workbench.")
