"""Dead letters in a health report: how many there are, how many are new, and whether anybody has looked at them. From samples alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from workbench.humanize import count, plural, printable
from workbench.json_values import fields_of
from workbench.record_settings import names_of_letters

_Series = list[tuple[float, float]]  # (seconds since the epoch, value), by time


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterLine:
    """One dead-letter topic.

    Attributes:
        letters: log end minus log start of all partitions; None without the log start.
        new: letters that came within the period; None with fewer than two samples of a partition.
        grows: whether letters came in the first and in the second half of the period, too.
        first_at, last_at: between these samples the first and the last of the new letters came; None without one.
        readers: groups with a lag there; redrive plans count, because somebody has redriven letters.
        unread: letters that no reader has passed; None if it cannot be told. Without a reader, all of them. Of a reader that is not
            measured any more, those that came since.
    """

    topic: str
    letters: int | None
    new: int | None
    grows: bool
    first_at: datetime | None
    last_at: datetime | None
    readers: tuple[str, ...]
    unread: int | None

    @property
    def words(self) -> str:
        """What a person must know, in a sentence."""
        if self.letters == 0:
            return "Empty."
        parts = []
        if self.new:
            goes_on = ", and more keep coming" if self.grows else ""
            parts.append(f"{count(self.new)} new in the period{goes_on}.")
        elif self.new == 0:
            parts.append("Nothing new in the period.")
        if not self.readers:
            parts.append("Never looked at: no group has read it, and no plan has redriven it.")
        elif self.unread:
            parts.append(f"{count(self.unread)} that no reader has passed ({plural(len(self.readers), 'reader')}).")
        elif self.unread == 0:
            parts.append(f"All read ({plural(len(self.readers), 'reader')}).")
        return " ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """All fields, and the sentence."""
        times = {name: at.isoformat() for name in ("first_at", "last_at") if (at := getattr(self, name)) is not None}
        return {**fields_of(self), **times, "words": self.words}


def dead_letters_in(
    samples: pa.Table, *, start: datetime, end: datetime, patterns: Sequence[str] = ()
) -> tuple[DeadLetterLine, ...]:
    """Describe the dead-letter topics of some samples; those with the most new letters first.

    Args:
        samples: in `SAMPLES_SCHEMA`; log ends are needed, log starts and lag are used if they are there.
        start, end: the period of the report.
        patterns: names of dead-letter topics in the settings; empty: by convention.
    """
    names = names_of_letters([it for it in pc.unique(samples["topic"]).to_pylist() if it], patterns)
    mine = samples.filter(pc.is_in(samples["topic"], pa.array(names, pa.string())))
    mine = mine.filter(
        pc.and_(pc.greater_equal(mine["ts"], pa.scalar(start)), pc.less_equal(mine["ts"], pa.scalar(end)))
    )
    ends: dict[str, dict[int, _Series]] = defaultdict(lambda: defaultdict(list))
    starts: dict[str, dict[int, float]] = defaultdict(dict)
    lags: dict[str, dict[str, dict[int, tuple[float, float]]]] = defaultdict(lambda: defaultdict(dict))
    for row in _rows(mine.sort_by("ts")):
        topic, number = row["topic"], row["partition"]
        if row["signal"] == "log_end_offset":
            ends[topic][number].append((row["ts"].timestamp(), row["value"]))
        elif row["signal"] == "log_start_offset":
            starts[topic][number] = row["value"]
        elif row["signal"] == "consumer_lag" and row["group"] is not None:
            lags[topic][row["group"]][number] = row["ts"].timestamp(), row["value"]
    found = [_line(name, ends[name], starts[name], lags[name], start, end) for name in names if name in ends]
    return tuple(sorted(found, key=lambda it: (-(it.new or 0), -(it.letters or 0), it.topic)))


def _rows(samples: pa.Table) -> Iterator[dict[str, Any]]:
    names = ["ts", "signal", "group", "topic", "partition", "value"]
    for row in samples.select(names).to_pylist():
        if row["value"] is not None and row["partition"] is not None:
            yield row


def _line(
    topic: str, ends: dict[int, _Series], starts: dict[int, float], lags: dict[str, dict[int, tuple[float, float]]],
    start: datetime, end: datetime,
) -> DeadLetterLine:  # fmt: skip
    letters = None
    if ends.keys() == starts.keys():
        letters = round(sum(max(0.0, series[-1][1] - starts[number]) for number, series in ends.items()))
    came = [
        (before, at, value - last)
        for series in ends.values()
        for (before, last), (at, value) in pairwise(series)
        if value > last
    ]
    known = all(len(series) > 1 for series in ends.values())
    middle = (start.timestamp() + end.timestamp()) / 2
    # A letter has been passed if one reader has passed it. A reader may be gone for long: what came after it has not been passed.
    unread: int | None = None
    if not lags:
        unread = letters
    elif all(any(number in of for of in lags.values()) for number in ends):
        unread = round(
            sum(
                max(0.0, min(_waiting(series, *of[number]) for of in lags.values() if number in of))
                for number, series in ends.items()
            )
        )
    return DeadLetterLine(
        topic=printable(topic),
        letters=letters,
        new=round(sum(it[2] for it in came)) if known else None,
        grows=any(at <= middle for _, at, _ in came) and any(at > middle for _, at, _ in came),
        first_at=datetime.fromtimestamp(min(it[1] for it in came), end.tzinfo) if came else None,
        last_at=datetime.fromtimestamp(max(it[1] for it in came), end.tzinfo) if came else None,
        readers=tuple(sorted(map(printable, lags))),
        unread=unread,
    )


def _waiting(end: _Series, at: float, lag: float) -> float:
    """Letters that wait at the end for a reader whose lag was last measured at a time."""
    known = [value for seen, value in end if seen <= at] or [end[0][1]]
    return lag + end[-1][1] - known[-1]
