"""Counters that must stay 0: guarantees of the runtime, checked at run time with independent means."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from prometheus_client import CollectorRegistry, Counter

from workbench.runtime.event import Event, Lane

_log = logging.getLogger(__name__)

_REMEMBERED_KEYS = 1024  # a fixed table, so that memory does not grow with the number of keys


class Violation(StrEnum):
    """Violations of the runtime's guarantees."""

    COMMIT_GAP = "commit_gap"  # a commit would have passed an unfinished offset
    COMMIT_BACKWARDS = "commit_backwards"
    KEY_ORDER = "key_order"  # a handler got an event after a later one of its key
    KEY_OVERLAP = "key_overlap"  # two events of one key were in flight at once, also across a revocation


class Sentinels:
    """Counters of violations; any thread may count."""

    def __init__(self, group: str, registry: CollectorRegistry) -> None:
        counter = Counter(
            "wb_sentinel_violations",
            "Violated guarantees of the runtime; must stay 0.",
            ("group", "kind"),
            registry=registry,
        )
        self._counters = {kind: counter.labels(group, kind.value) for kind in Violation}

    def count(self, kind: Violation, what: str) -> None:
        """Count a violation."""
        _log.error("sentinel %s: %s", kind.value, what)
        self._counters[kind].inc()

    def readings(self) -> dict[str, int]:
        """Counts by kind."""
        return {kind.value: int(counter._value.get()) for kind, counter in self._counters.items()}


class KeyWatch:
    """Watches the handlers of one pool: one event of a key at a time, in the order of the log.

    Order is checked for recent keys only (a fixed table), so a violation may be missed, but a reported one is real.
    """

    def __init__(self, sentinels: Sentinels) -> None:
        self._sentinels = sentinels
        self._active: dict[Lane, Event] = {}
        self._last: list[Any] = [None] * _REMEMBERED_KEYS

    def begins(self, event: Event) -> None:
        """Note that a handler gets this event."""
        key, owner, offset = event.lane, event.owner, event.offset
        if self._active.setdefault(key, event) is not event:  # one dict operation: atomic under the interpreter's lock
            self._sentinels.count(Violation.KEY_OVERLAP, _place(event))
        index = hash(key) % _REMEMBERED_KEYS
        last = self._last[index]
        if last is not None and offset < last[2] and last[1] is owner and last[0] == key:
            self._sentinels.count(Violation.KEY_ORDER, _place(event))
        self._last[index] = (key, owner, offset)

    def ends(self, event: Event) -> None:
        """Note that the handler has returned."""
        if self._active.get(event.lane) is event:
            del self._active[event.lane]


class CommitWatch:
    """Offsets of one partition that were received and not completed: a second, simple record of them.

    Only its consumer thread uses it.
    """

    def __init__(self) -> None:
        self._open: dict[int, None] = {}  # in the order of the log
        self._sent = -1

    def received(self, offsets: Iterable[int]) -> None:
        """Note that offsets were read."""
        self._open.update(dict.fromkeys(offsets))

    def completed(self, offsets: Iterable[int]) -> None:
        """Note that offsets are finished."""
        for offset in offsets:
            self._open.pop(offset, None)

    def may_commit(self, offset: int) -> bool:
        """Whether all received offsets below `offset` are finished."""
        first = next(iter(self._open), None)
        return first is None or offset <= first

    def goes_back(self, offset: int) -> bool:
        """Whether a commit of `offset` is below an earlier commit."""
        before, self._sent = self._sent, max(offset, self._sent)
        return offset < before


def _place(event: Event) -> str:
    return f"{event.record.topic}-{event.record.partition}@{event.record.offset}"
