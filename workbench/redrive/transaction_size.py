"""How much goes into the next transaction, by what became of the ones before. Pure.

Letters are not alike: one may be large, slow or refused. A transaction is bounded in records and in bytes; the bytes follow what the
target has taken in a few seconds. After a refusal, the letters of that transaction are tried again carefully: few at a time, and where
the one to blame is not named, in halves down to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from workbench.redrive.commit_marks import Place

_FIRST_BYTES = 256 << 10  # with a quota of 10 kB/s still half a minute
_MOST_BYTES = 64 << 20
_CAREFUL_RECORDS = 500  # of a transaction with suspects: it begins again after each letter that is found
# A transaction should take no longer: readers of committed records wait for its end, and Kafka ends it after a minute.
_GOOD_SECONDS = 5.0


@dataclass(slots=True)
class LetterFlow:
    """Bounds of the transactions of one run.

    Attributes:
        most: records of a transaction.
        bytes: of a transaction, now.
        suspects: letters of a refused transaction, of which at least one is to blame.
        refused: letters that are left out, with Kafka's name of the error.
    """

    most: int
    refused: dict[Place, str] = field(default_factory=dict)
    bytes: int = _FIRST_BYTES
    suspects: set[Place] = field(default_factory=set)
    _few: int = _CAREFUL_RECORDS

    @property
    def records(self) -> int:
        """Records of the next transaction."""
        return min(self.most, self._few) if self.suspects else self.most

    def has_room(self, records: int, size: int, more: int) -> bool:
        """Whether a letter of `more` bytes may join a transaction; the first one always may."""
        return records == 0 or (size + more <= self.bytes and records < (self.records if self.suspects else self.most))

    def took(self, places: Iterable[Place], size: int, seconds: float) -> None:
        """A transaction was committed."""
        if self.suspects:
            self.suspects.difference_update(places)
        if seconds > _GOOD_SECONDS:
            self.bytes = max(1, int(min(size, self.bytes) * _GOOD_SECONDS / seconds))
        elif 2 * size >= self.bytes:
            self.bytes = min(_MOST_BYTES, 2 * self.bytes)

    def was_refused(self, places: list[Place], code: str, named: Mapping[Place, str]) -> set[Place]:
        """A transaction was refused; returns the letters that are now known to be to blame."""
        sent = set(places)
        found = {place: why for place, why in named.items() if place in sent}
        if not found and len(places) == 1:
            found = {places[0]: code}
        was_careful = bool(self.suspects)
        self.refused |= found
        self.suspects = (self.suspects | sent) - self.refused.keys()
        self._few = max(1, len(places) // 2) if was_careful and not found else _CAREFUL_RECORDS
        return set(found)

    def was_slow(self, places: list[Place], size: int) -> bool:
        """A transaction was not taken in time; returns whether a smaller one can be tried."""
        self.bytes = max(1, min(self.bytes, size) // 4)
        return len(places) > 1
