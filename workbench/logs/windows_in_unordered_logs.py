"""Windows of time in a log whose timestamps may be in any order.

Kafka finds the FIRST record at or after an instant. With timestamps of the producers (CreateTime) that is a hint: behind the first
record after a window's end there may be more records of the window, from a producer that was late or a clock that is wrong. So what
follows the end is read, within limits, and what is not read is not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.errors import SourceUnreachableError
from workbench.queues.position import joined
from workbench.queues.replay_port import Gateway, LogView, ReadLimits, ReadTimes, TopicSettings
from workbench.queues.snapshot_views import Partition

Instants = tuple[int, int]  # a window [since, until), ms since the epoch

# Behind the ends of windows. Late records mostly come soon after those of their time, and a plan must not take minutes.
TAIL_LIMITS = ReadLimits(records=200_000, bytes=64 << 20, seconds=10.0)
# At the start, for what is older than it: a look is enough, because nothing is lost there.
_HEAD_LIMITS = ReadLimits(records=20_000, bytes=16 << 20, seconds=3.0)
_HEAD_OFFSETS = 1_000  # of each partition
# Where the broker sets the timestamps, so many records behind an end must have such ones: a topic may have been changed to it lately.
_PROBE_OFFSETS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """What was read behind some offset.

    Attributes:
        records: offset and timestamp.
        unread: offsets [start, stop) that may have records of an earlier time; None: none.
    """

    records: Sequence[tuple[int, int]] = ()
    unread: tuple[int, int] | None = None
    why: str | None = None

    def inside(self, windows: Sequence[Instants], *, begin: int = 0) -> list[int]:
        """Offsets from `begin` on with a timestamp in one of the windows."""
        return [at for at, ts in self.records if at >= begin and any(since <= ts < until for since, until in windows)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSpan:
    """Offsets of one window in one partition.

    Attributes:
        pieces: ranges [start, stop) in order, with every known record of the window.
        start, stop: of the first and the last piece; equal if there is none.
        first_timestamp_ms: of the record at `start`; None without one.
        late: records of the window at or behind its end by Kafka's lookup.
        others: records of other times in the pieces, as far as they were read.
        unread: offsets where more records of the window may be; None: nowhere.
        why_unread: if they could not be read at all.
    """

    start: int
    stop: int
    pieces: Sequence[tuple[int, int]] = ()
    first_timestamp_ms: int | None = None
    late: int = 0
    others: int = 0
    unread: tuple[int, int] | None = None
    why_unread: str | None = None


def read_tails(
    gateway: Gateway,
    spans: Mapping[Partition, tuple[int, int]],
    settings: Mapping[str, TopicSettings],
    *,
    committed: bool = False,
) -> dict[Partition, Tail]:
    """Read the timestamps of these offset ranges [start, stop), as far as the limits go. Where the broker sets them, they are in order.

    That records cannot be read is no error: then nothing is known of them.

    Args:
        committed: only records of committed transactions.
    """
    wanted = {key: span for key, span in spans.items() if span[0] < span[1]}
    if not wanted:
        return {}
    ordered = {key for key in wanted if (topic := settings.get(key[0])) is not None and topic.appends_time}
    asked = {key: (start, min(stop, start + _PROBE_OFFSETS)) for key, (start, stop) in wanted.items() if key in ordered}
    try:
        probes = dict(gateway.times(asked, TAIL_LIMITS, committed=committed)) if asked else {}
        exempt = {key for key, it in probes.items() if it.by_broker and it.through >= asked[key][1]}
        left = {key: span for key, span in wanted.items() if key not in exempt}
        read = dict(gateway.times(left, TAIL_LIMITS, committed=committed)) if left else {}
    except SourceUnreachableError as error:
        return {key: Tail(unread=span, why=error.message) for key, span in wanted.items()}
    found = {key: Tail(records=probes[key].records) for key in exempt}
    for key, (_, stop) in left.items():
        it = read[key]
        found[key] = Tail(records=it.records, unread=(it.through, stop) if it.through < stop else None, why=it.why)
    return found


def find_spans(
    gateway: Gateway,
    partitions: Sequence[Partition],
    logs: LogView,
    windows: Sequence[Instants],
    settings: Mapping[str, TopicSettings],
    *,
    most_pieces: int = 1,
) -> dict[tuple[Partition, Instants], WindowSpan]:
    """Find the offsets of windows: by Kafka's lookup, and by the timestamps behind their ends.

    Args:
        logs: with the first records at or after each instant.
        most_pieces: of one window in one partition; those with the fewest offsets between them become one.
    """
    begins: dict[Partition, int] = {}
    for key in partitions:
        for _, until in windows:
            if (after := logs.found[until][key].offset) is not None:
                begins[key] = min(after, begins.get(key, after))
    tails = read_tails(gateway, {key: (at, logs.ends[key]) for key, at in begins.items()}, settings)
    return {
        (key, window): span_of(logs, key, window, tails.get(key, Tail()), most_pieces=most_pieces)
        for key in partitions
        for window in windows
    }


def span_of(logs: LogView, key: Partition, window: Instants, tail: Tail, *, most_pieces: int) -> WindowSpan:
    """Judge one window by the lookups and what was read behind them. Pure."""
    since, until = window
    first, after = logs.found[since][key], logs.found[until][key]
    end = logs.ends[key]
    if first.offset is None:
        return WindowSpan(start=end, stop=end)
    if after.offset is None:  # all records from the first on are before the end
        stop = max(first.offset, end)
        return WindowSpan(
            start=first.offset,
            stop=stop,
            pieces=[(first.offset, stop)] if first.offset < stop else [],
            first_timestamp_ms=first.timestamp_ms,
        )
    behind = min(after.offset, max(first.offset, end))  # the ends were looked up before: records may have come since
    late = tail.inside([window], begin=behind)
    unread = None
    if tail.unread is not None and tail.unread[1] > behind:
        unread = (max(tail.unread[0], behind), tail.unread[1])
    head = [(first.offset, behind)] if first.offset < behind else []  # or the first record is dated behind the window
    pieces = joined([*head, *_runs(tail.records, set(late), behind)], most=most_pieces)
    if not pieces:
        return WindowSpan(start=first.offset, stop=first.offset, unread=unread, why_unread=tail.why)
    start, stop = pieces[0][0], pieces[-1][1]
    inside = sum(at >= behind and any(low <= at < high for low, high in pieces) for at, _ in tail.records)
    return WindowSpan(
        start=start,
        stop=stop,
        pieces=pieces,
        first_timestamp_ms=first.timestamp_ms if head else next(ts for at, ts in tail.records if at == start),
        late=len(late),
        others=inside - len(late),
        unread=unread,
        why_unread=tail.why,
    )


def _runs(records: Sequence[tuple[int, int]], wanted: set[int], begin: int) -> list[tuple[int, int]]:
    """Ranges from the first to the last of wanted records that follow each other; offsets between them may have no record."""
    found: list[tuple[int, int]] = []
    goes_on = False
    for at, _ in records:
        if at < begin:
            continue
        if at in wanted:
            found[-1:] = [(found[-1][0], at + 1)] if goes_on else [*found[-1:], (at, at + 1)]
        goes_on = at in wanted
    return found


def older_at_start(gateway: Gateway, spans: Mapping[Partition, tuple[int, int]], since_ms: int) -> dict[Partition, int]:
    """Records older than `since` among the first ones of some ranges; nothing where they cannot be read.

    They are replayed too, and nothing is lost by them: so a look is enough.
    """
    heads = {key: (start, min(stop, start + _HEAD_OFFSETS)) for key, (start, stop) in spans.items() if start < stop}
    try:
        read: Mapping[Partition, ReadTimes] = gateway.times(heads, _HEAD_LIMITS) if heads else {}
    except SourceUnreachableError:
        return {}
    counts = {key: sum(ts < since_ms for _, ts in it.records) for key, it in read.items()}
    return {key: number for key, number in counts.items() if number}


def times_at(gateway: Gateway, offsets: Mapping[Partition, int]) -> dict[Partition, int]:
    """Timestamps of the records at these offsets; nothing where there is none, it has none, or it cannot be read."""
    try:
        read = gateway.times({key: (at, at + 1) for key, at in offsets.items()}, _HEAD_LIMITS) if offsets else {}
    except SourceUnreachableError:
        return {}
    return {key: ts for key, it in read.items() for _, ts in it.records if ts >= 0}
