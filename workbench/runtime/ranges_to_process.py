"""Offset ranges: a task that has them processes exactly these records, and ends when its group has committed them all."""

from __future__ import annotations

import logging
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from time import monotonic

from workbench.commit_note import CommitNote, parse_note
from workbench.errors import GuardError
from workbench.runtime.event import Record, TopicPartition
from workbench.runtime.source import ReadCommits

_log = logging.getLogger(__name__)

_ASK_EVERY_SECONDS = 1.0
_MARK_LENGTH = 8  # there is room for 4 KiB of metadata, and a group rarely has more than one set of ranges

RangeTable = Mapping[str, Mapping[int, Sequence[tuple[int, int]]]]  # topic, partition, [start, end), …


def checked_ranges(table: RangeTable) -> None:
    """Refuse ranges that are empty, reversed, overlapping or not in order.

    Raises:
        ValueError: naming the partition.
    """
    for topic, partitions in table.items():
        for number, ranges in partitions.items():
            last = -1
            for start, end in ranges:
                if number < 0 or start < 0 or end <= start or start < last:
                    raise ValueError(f"{topic}-{number}: {start} to {end} is not a range after the one before it")
                last = end
            if not ranges:
                raise ValueError(f"{topic}-{number} has no range")


def topics_not_read(topics: Sequence[str], table: RangeTable) -> list[str]:
    """Topics with ranges that are none of `topics`, nor match a pattern (`^...`) among them."""
    return [
        name for name in table if not any(re.match(it, name) if it.startswith("^") else it == name for it in topics)
    ]


class Ranges:
    """Which offsets of each partition are processed; other partitions have none. A topic without partitions has the partition 0.

    Args:
        behind: where a commit stands when a range has ended; None: at its end.
    """

    def __init__(self, table: RangeTable, *, behind: Callable[[int], int] | None = None) -> None:
        self._parts = {
            (topic, number): ([start for start, _ in ranges], [end for _, end in ranges])
            for topic, partitions in table.items()
            for number, ranges in partitions.items()
        }
        self._behind = behind or (lambda end: end)

    def _of(self, partition: TopicPartition) -> tuple[list[int], list[int]] | None:
        return self._parts.get((partition[0], max(0, partition[1])))

    def wants(self, partition: TopicPartition, offset: int) -> bool:
        """Whether the record at this offset is processed."""
        found = self._of(partition)
        if found is None:
            return False
        at = bisect_right(found[0], offset) - 1
        return at >= 0 and offset < found[1][at]

    def of_record(self, record: Record) -> object:
        """What records that are taken in together share: partition, epoch, and whether they are processed."""
        partition = record[:2]
        return partition, record.leader_epoch, self.wants(partition, record.offset)

    def start(self, partition: TopicPartition) -> int | None:
        """Start of the first range; None for a partition without one."""
        found = self._of(partition)
        return found[0][0] if found is not None else None

    def mark(self, partition: TopicPartition) -> str | None:
        """Short hash of its ranges, for the notes of commits; None for a partition without one."""
        found = self._of(partition)
        if found is None:
            return None
        text = ",".join(f"{start}-{end}" for start, end in zip(*found, strict=True))
        return sha256(text.encode()).hexdigest()[:_MARK_LENGTH]

    def check_commit(self, group: str, partition: TopicPartition, committed: int | None, note: CommitNote) -> None:
        """Refuse a commit behind the start of the ranges that no task with the same ones has made: what it has passed is not processed.

        Raises:
            GuardError: naming the partition.
        """
        start = self.start(partition)
        if start is None or committed is None or committed <= start or note.ranges == self.mark(partition):
            return
        raise GuardError(
            f"The group {group!r} has a commit at {committed} on {partition[0]}-{partition[1]}, behind the start {start} of its "
            "ranges, and not by a run of the same ranges: their records would be left out.",
            hint="Use a group without commits. Or apply a plan of these ranges to it: workbench replay apply PLAN --allow-existing",
        )

    def are_proved(self, partition: TopicPartition, note: CommitNote) -> bool:
        """Whether a commit with this note proves its ranges: nothing of them was skipped."""
        starts, ends = self._of(partition) or ([], [])
        if not note.is_readable:
            return not starts
        return not any(note.skipped_within(start, end) for start, end in zip(starts, ends, strict=True))

    def unproved(self, notes: Iterable[tuple[TopicPartition, CommitNote]]) -> list[TopicPartition]:
        """Partitions of whose ranges records were skipped, by the notes of their commits."""
        return sorted({partition for partition, note in notes if not self.are_proved(partition, note)})

    def end(self, partition: TopicPartition) -> int:
        """End of the last range, exclusive; 0 for a partition without one."""
        found = self._of(partition)
        return self._behind(found[1][-1]) if found is not None else 0

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """End of each partition."""
        return {partition: self._behind(ends[-1]) for partition, (_, ends) in self._parts.items()}


class GroupEnds:
    """Whether a group has committed all ranges, wherever its members run; asked once per second."""

    def __init__(self, ranges: Ranges, group: str, read: ReadCommits) -> None:
        self._ranges, self._group, self._read = ranges, group, read
        self._next = 0.0
        self._is_over = False
        self.unproved: list[TopicPartition] = []  # whose commits tell that records of the ranges were skipped

    def are_reached(self) -> bool:
        """Ask the coordinator; while it does not answer, they are not."""
        if self._is_over or monotonic() < self._next:
            return self._is_over
        self._next = monotonic() + _ASK_EVERY_SECONDS
        ends = self._ranges.ends
        try:
            commits = self._read(ends)
        except Exception as error:  # it is asked again
            _log.warning("the commits of %s cannot be read: %s", self._group, error)
            return False
        self._is_over = all(part in commits and commits[part][0] >= end for part, end in ends.items())
        if self._is_over:
            self.unproved = self._ranges.unproved((part, parse_note(commits[part][1])) for part in ends)
        return self._is_over
