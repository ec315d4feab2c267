"""Interface to Kafka for a redrive: what it reads, and the transactional producer that writes. The rest is tested without Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from workbench.redrive.letters import Headers, Letter

Positions = Mapping[int, int]  # partition to the next offset


class LettersGoneError(Exception):
    """Letters that a reader must read are deleted."""


class LetterReader(Protocol):
    """Reads the committed letters of one topic. Joins no group, commits nothing."""

    def read(self, start: Positions, stop: Positions) -> Iterator[tuple[list[Letter], Positions]]:
        """Yield letters from `start` up to `stop`, each partition in order, with the positions after them.

        A partition whose last offsets have no record ends at its stop all the same. An empty list is yielded while nothing comes.

        Raises:
            LettersGoneError: if the first records of a range are deleted.
            SourceUnreachableError: if the broker does not answer in time.
        """


class Sink(Protocol):
    """Takes records in batches. After any error it must not be used again; a new one begins at `progress`."""

    def begin(self) -> None:
        """Fence every earlier sink of the same plan; what it had not committed is gone.

        Raises:
            SourceUnreachableError: if Kafka does not answer. GuardError: if a permission is lacking.
        """

    def progress(self) -> tuple[Positions, int | None]:
        """Committed positions by partition, and the number of ordered letters that were produced (None: no commit)."""

    def send(
        self, topic: str, partition: int | None, letter: Letter, headers: Headers, timestamp_ms: int | None
    ) -> None:
        """Take one record; it counts once `commit` has returned."""

    def commit(self, positions: Positions, ordered: int | None) -> None:
        """Make the records and the positions take effect, all or none.

        Raises:
            GuardError: if another process has taken over this plan.
            SourceUnreachableError: if it is unknown whether they took effect; `progress` of a new sink says it.
        """

    def close(self) -> None:
        """Give up what was not committed."""


def letters_at(reader: LetterReader, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Letter]:
    """Read the letters at some places (partition, offset), in one pass over the ranges that hold them; missing ones are left out."""
    low: dict[int, int] = {}
    high: dict[int, int] = {}
    for number, offset in places:
        low[number] = min(offset, low.get(number, offset))
        high[number] = max(offset + 1, high.get(number, 0))
    wanted, found = set(places), {}
    for batch, _ in reader.read(low, high):
        for letter in batch:
            if (letter.partition, letter.offset) in wanted:
                found[letter.partition, letter.offset] = letter
    return found
