"""Plans of ranges (`replay-plan/2`): any offset ranges of each partition, given or found by several windows of time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from workbench.errors import GuardError, UsageError
from workbench.humanize import counted, plural
from workbench.logs.windows_in_unordered_logs import Instants, WindowSpan, find_spans, older_at_start, times_at
from workbench.queues.position import merged
from workbench.queues.replay_port import Gateway, names_of
from workbench.queues.snapshot_views import Partition
from workbench.replay.plan import plan_of, survey, whole_topics
from workbench.replay.plan_words import plan_warnings
from workbench.replay.planfile import Plan, PlannedPartition, Resolution
from workbench.replay.replay_request import PlanRequest, Survey
from workbench.window import instant_ms

_RANGE = re.compile(
    r"(?P<topic>[A-Za-z0-9._-]{1,249}):(?P<number>\d{1,9}):(?P<start>\d{1,18})-(?P<end>\d{1,18})", re.ASCII
)
# Ranges of one window in one partition: an instance takes all ranges of a plan in one request, of 64 KiB at most.
_MOST_PIECES = 8
Windows = Sequence[tuple[datetime, datetime]]
OffsetRanges = Mapping[Partition, Sequence[tuple[int, int]]]


def parse_ranges(words: Sequence[str]) -> dict[Partition, list[tuple[int, int]]]:
    """Read `orders:3:100-200`, the end exclusive.

    Raises:
        UsageError: naming the one that is wrong.
    """
    found: dict[Partition, list[tuple[int, int]]] = {}
    for word in words:
        match = _RANGE.fullmatch(word)
        if match is None or int(match["start"]) >= int(match["end"]):
            raise UsageError(f"{word!r} is not a range.", hint="Write orders:3:100-200; the end is exclusive.")
        found.setdefault((match["topic"], int(match["number"])), []).append((int(match["start"]), int(match["end"])))
    return found


def make_range_plan(request: PlanRequest, gateway: Gateway, *, ranges: OffsetRanges, windows: Windows = ()) -> Plan:
    """Plan exactly these ranges, and the records of these windows on all chosen partitions of the topics.

    Args:
        request: groups and topics; its window must be that from the first to the last of `windows`, or that of now without any.

    Raises:
        GuardError: if a range is outside of its log, or no record is in any range.
        UnknownGroupError, SourceUnreachableError: as `survey`.
    """
    partitions, found = survey(gateway, request, with_start=False)
    logs = found.logs
    wanted: dict[Partition, list[tuple[int, int]]] = {key: list(some) for key, some in ranges.items()}
    if unknown := sorted(set(wanted) - set(partitions)):
        raise UsageError(
            f"{names_of(unknown)} is not among the planned partitions.", hint="Add its topic with --topic."
        )
    spans, older = _spans(gateway, partitions, found, windows) if windows else ({}, {})
    for (key, _), span in spans.items():
        wanted.setdefault(key, []).extend(span.pieces)
    ranged: dict[Partition, list[tuple[int, int]]] = {}
    for key in partitions:
        if mine := merged(wanted.get(key, [])):
            low, high = logs.starts[key], max(logs.starts[key], logs.stable_ends.get(key, logs.ends[key]))
            if mine[0][0] < low or mine[-1][1] > high:
                raise GuardError(
                    f"{names_of([key])}: {mine[0][0]:,} to {mine[-1][1]:,} is not within its log, {low:,} to {high:,}.",
                    hint="Retention has deleted the first records, or the last ones are not there yet or not committed.",
                )
            ranged[key] = mine
    times = times_at(gateway, {key: mine[0][0] for key, mine in ranged.items()})
    planned = [_planned(key, mine, found, times.get(key)) for key, mine in ranged.items()]
    unread = [(*key, *span.unread) for (key, _), span in sorted(spans.items()) if span.unread is not None]
    if not planned and unread:
        offsets = plural(sum(stop - start for *_, start, stop in unread), "offset was", "offsets were")
        raise GuardError(
            f"No message of the windows was found, and {offsets} not read: it cannot be told whether there is one.",
            hint="Timestamps may be out of order. Use --since without an end, or exact offsets: --range.",
        )
    if not planned:
        raise GuardError("No record is in any of the ranges.", hint="Check the windows and offsets.")
    found = replace(found, spans=_by_partition(spans), older=older)
    beyond = [number for part in planned if (number := records_beyond(part))]
    warnings = [it for it in plan_warnings(request, planned, found) if "does not stop at the window's end" not in it]
    if beyond:
        warnings.append(
            f"The runtime stops at the end of each range. Other consumers also take {counted(sum(beyond), 'record')} between and "
            f"behind the ranges (in {plural(len(beyond), 'partition')}), and all that arrive until the switch back."
        )
    return plan_of(
        request,
        found,
        schema="workbench.replay-plan/2",
        until=None,
        whole_topics=whole_topics(request) if windows else [],
        warnings=warnings,
        windows=[(since.isoformat(), until.isoformat()) for since, until in windows] or None,
        unread=unread or None,
        beside=[(*key, logs.ends[key]) for key in partitions if windows and key not in ranged] or None,
        partitions=planned,
    )


def _spans(
    gateway: Gateway, partitions: Sequence[Partition], found: Survey, windows: Windows
) -> tuple[dict[tuple[Partition, Instants], WindowSpan], dict[Partition, int]]:
    """Offsets of each window in each partition; and records older than all windows at the start of a partition's first one."""
    asked = [(instant_ms(since), instant_ms(until)) for since, until in windows]
    logs = gateway.logs(partitions, instants_ms=sorted({instant for window in asked for instant in window}))
    if logs.errors:
        raise GuardError(f"{names_of(logs.errors)} does not answer.", hint="Every partition needs a leader.")
    spans = find_spans(gateway, partitions, logs, asked, found.settings, most_pieces=_MOST_PIECES)
    heads: dict[Partition, tuple[int, int]] = {}
    for (key, _), span in spans.items():
        if span.start < span.stop:
            heads[key] = min(heads.get(key, (span.start, span.stop)), (span.start, span.stop))
    return spans, older_at_start(gateway, heads, min(since for since, _ in asked))


def _by_partition(spans: Mapping[tuple[Partition, Instants], WindowSpan]) -> dict[Partition, WindowSpan]:
    """What is known of all windows of a partition together, for the warnings."""
    found: dict[Partition, WindowSpan] = {}
    for (key, _), span in spans.items():
        before = found.get(key)
        if before is None:
            found[key] = span
            continue
        unread = [it for it in (before.unread, span.unread) if it is not None]
        found[key] = WindowSpan(
            start=min(before.start, span.start),
            stop=max(before.stop, span.stop),
            late=before.late + span.late,
            others=before.others + span.others,
            unread=(min(it[0] for it in unread), max(it[1] for it in unread)) if unread else None,
            why_unread=before.why_unread or span.why_unread,
        )
    return found


def records_beyond(part: PlannedPartition) -> int:
    """Offsets that a consumer takes besides the ranges, from their start to the log's end at the time of planning."""
    return max(0, part.log_end - (part.target or 0) - part.messages)


def _planned(key: Partition, ranges: list[tuple[int, int]], found: Survey, first_ms: int | None) -> PlannedPartition:
    messages = sum(end - start for start, end in ranges)
    size = found.record_bytes.get(key[0])
    return PlannedPartition(
        topic=key[0],
        partition=key[1],
        log_start=found.logs.starts[key],
        log_end=max(found.logs.ends[key], ranges[-1][1]),
        old_committed=found.commits.get(key),
        target=ranges[0][0],
        target_timestamp=first_ms,
        stop=ranges[-1][1],
        messages=messages,
        bytes_estimate=round(messages * size) if size is not None else None,
        resolution=Resolution.GIVEN,
        leader=found.cluster.topics[key[0]].leaders[key[1]],
        ranges=[(str(start), str(end)) for start, end in ranges],
    )
