"""What a commit of the runtime says in its metadata, besides an offset: which log it belongs to, and what was never read.

The text is `name=value` words with a space between them, in this order:

    skipped=50-799,900-919 audit=1795660000000 ranges=0c1d2e3f partitions=4 topic-id=CLUSTER:TOPIC

`skipped` has the offsets below the commit that the group was to read and that were gone (both ends belong to it): retention had
deleted them. It stays for as long as the group commits. `audit` is the number of the task that tells an audit of what it does.
`ranges` is a short hash of the partition's ranges, of a task that processes these alone: a commit of another one says nothing of them.
`partitions` is how many the topic had when the group began to read it at the ends of all of them; it stays, too. `topic-id` has
the ids of cluster and topic. Words with another name are ignored, so a later version can add some. `skipped` comes first: versions
that know `topic-id` only take a text that begins otherwise for no note.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_SKIPPED, _AUDIT, _RANGES, _PARTITIONS, _TOPIC_ID = "skipped", "audit", "ranges", "partitions", "topic-id"
NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # zeros: what a broker without topic ids (before Kafka 2.8) answers
# A broker takes 4,096 bytes of metadata (offset.metadata.max.bytes); 32 ranges of two offsets have 1,280 at most.
MOST_RANGES = 32
_RANGE = re.compile(r"(\d{1,19})-(\d{1,19})", re.ASCII)
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_END_OF_OFFSETS = 2**63

OffsetRange = tuple[int, int]  # [start, end)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitNote:
    """A commit's metadata.

    Attributes:
        topic_id: "cluster:topic" ids of the log that the offset belongs to; None: not known.
        skipped: ranges [start, end) of offsets that were never read, in order, neither overlapping nor adjacent.
        audit: incarnation of the task that commits, if it tells an audit of what it does; the next one's is larger.
        ranges: hash of the ranges that the group processes, if it processes nothing else.
        is_readable: False for a note that says that something was skipped, and not what: then nothing is known of what was read.
    """

    topic_id: str | None = None
    skipped: tuple[OffsetRange, ...] = ()
    is_readable: bool = True
    audit: int | None = None
    ranges: str | None = None
    partitions: int | None = None

    @property
    def proves_reading(self) -> bool:
        """Whether nothing was skipped, as far as the note tells."""
        return self.is_readable and not self.skipped

    def skipped_within(self, start: int, end: int) -> int:
        """Number of offsets of [start, end) that were skipped (not of records: an offset need not have one)."""
        return sum(max(0, min(end, last) - max(start, first)) for first, last in self.skipped)


def merged(ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Ranges [start, end) in order, joined where they touch; of more than `MOST_RANGES`, those with the smallest gaps between them are
    joined as well: what was not read may be overstated, never understated."""
    found: list[OffsetRange] = []
    for start, end in sorted(ranges):
        if end <= start:
            continue
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    while len(found) > MOST_RANGES:
        at = min(range(len(found) - 1), key=lambda at: found[at + 1][0] - found[at][1])
        found[at : at + 2] = [(found[at][0], found[at + 1][1])]
    return tuple(found)


def format_note(note: CommitNote) -> str:
    """Text of a note; empty if it says nothing."""
    words = []
    if not note.is_readable:
        words.append(f"{_SKIPPED}=?")
    elif note.skipped:
        words.append(f"{_SKIPPED}=" + ",".join(f"{start}-{end - 1}" for start, end in merged(note.skipped)))
    if note.audit is not None:
        words.append(f"{_AUDIT}={note.audit}")
    if note.ranges is not None:
        words.append(f"{_RANGES}={note.ranges}")
    if note.partitions is not None:
        words.append(f"{_PARTITIONS}={note.partitions}")
    if note.topic_id is not None:
        words.append(f"{_TOPIC_ID}={note.topic_id}")
    return " ".join(words)


def parse_note(text: str | None) -> CommitNote:
    """Note in the metadata of a commit. Anything may be there: what is not a note of the runtime says nothing."""
    words = dict(word.split("=", 1) for word in (text or "").split(" ") if "=" in word)
    topic_id = words.get(_TOPIC_ID) or None
    if topic_id == NO_TOPIC_ID:
        topic_id = None
    said = words.get(_SKIPPED)
    # More ranges than we write are not joined: joining takes a time that grows with their square.
    parts = [] if said is None else said.split(",", MOST_RANGES - 1)
    ranges = [_RANGE.fullmatch(part) for part in parts]
    skipped = [(int(found[1]), int(found[2]) + 1) for found in ranges if found is not None]
    is_readable = len(skipped) == len(ranges) and all(start < end <= _END_OF_OFFSETS for start, end in skipped)
    return CommitNote(
        topic_id=topic_id,
        skipped=merged(skipped) if is_readable else (),
        is_readable=is_readable,
        audit=_number(words.get(_AUDIT, "")),
        ranges=words.get(_RANGES) or None,
        partitions=_number(words.get(_PARTITIONS, "")),
    )


def _number(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) else None
