"""Signals of brokers and bookies of a queue that sends entries (Pulsar): the part of `workbench.signals` that no other queue has."""

from __future__ import annotations

# Name, unit, kind, help.
OF_DISPATCHERS: tuple[tuple[str, str, str, str], ...] = (
    ("load_usage", "percent", "gauge", "What a broker reports of its load, by resource: by it, topics are moved."),
    ("bundle_unloads", "bundles", "counter", "Bundles of topics that were unloaded for balance."),
    ("entry_writes", "entries/s", "gauge", "Entries that producers write to a broker, by its last average."),
    (
        "cache_misses",
        "entries/s",
        "gauge",
        "Entries of a topic that its broker reads from bookies, by its last average.",
    ),
    (
        "acknowledgement_writes",
        "writes",
        "counter",
        "Times that the position of a subscription was written to bookies.",
    ),
    ("store_write_time", "seconds", "histogram", "Time that a broker's writes to bookies take."),
    ("quarantines", "times", "counter", "Times that a broker put a bookie into quarantine."),
    ("bookie_writes", "bytes", "counter", "Bytes that were written to a bookie."),
)
