"""What each member of a group has done, by the counters of its handlers: when last, and how fast."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from workbench.history.handled_counts import counters_of
from workbench.history.partition_series import FEW_MOVES, PartitionHistory, Track, pace_of, stretches, tracks_of
from workbench.judgement_numbers import DEPLOY_SECONDS, FEW_SAMPLES, MISSED, MOST
from workbench.quantiles import median
from workbench.samples import grown
from workbench.signals import FAILURES, GROUP_STATES, REJOINING, SIGNALS, Grain, ProcessingOutcome
from workbench.window import Window

_Lines = Iterable[tuple[Mapping[str, Any], Track]]
_TRIED = (*FAILURES, ProcessingOutcome.RETRY)
_OF_MEMBERS = [it.name for it in SIGNALS.values() if it.grain is Grain.MEMBER]


@dataclass(slots=True, kw_only=True)
class MemberStory:
    """Facts about a member; times in seconds before the window's end, 0 or less.

    Attributes:
        worked: when one of its counters last grew, or that of attempts that failed; None if none did. Where nobody counts a group's
            handlers: when it last read records. (A client does not read on while it has more than handlers on other threads can take.)
        first, last: its first and last sample.
        before: whether it was there in the good time before the judged one.
        records, seconds: what its handlers have done, and the time that it took: growth of their counters, by processor.
        against_peers: time that its handlers take for a record, as a multiple of what the other members take for those of the same
            processors; None if nobody else has them.
        held: since when its handlers have held something without a break; None if they hold nothing, or nobody tells.
        busy: share of its time that its handlers take for records of its busiest processor.
    """

    worked: float | None
    first: float
    last: float
    before: bool = False
    records: dict[str, list[Track]] = field(default_factory=dict)
    seconds: dict[str, list[Track]] = field(default_factory=dict)
    against_peers: float | None = None
    busy: float | None = None
    held: float | None = None


class CountedMembers(NamedTuple):
    """Members by the counters of their handlers.

    Attributes:
        members: by cluster, group and the topic of the counter (None: it names none).
        shared_stand: for how long, at most, a handler has finished nothing that is counted for no single client, by cluster and group.
            A process with several clients counts its handlers together: a client that has not polled may be at work all the same.
    """

    members: dict[tuple[str, str, str | None], dict[str, MemberStory]]
    shared_stand: dict[tuple[str, str], float]


def members_of(samples: pa.Table, window: Window, groups: Collection[tuple[str, str]]) -> CountedMembers:
    """Members whose handlers are counted, or else what they read.

    If anything else is measured of a group's members, only those with the same name count: a process with several clients is no member.
    Arguments are those of `counters_of`.
    """
    found: dict[tuple[str, str, str | None], dict[str, MemberStory]] = {}
    shared: dict[tuple[str, str], float] = {}
    counters = [it for it in counters_of(samples, window, groups) if it[0]["member"] is not None]
    handled = {(label["cluster"], label["group"]) for label, _ in counters}
    others = counters_of(samples, window, {*groups} - handled, "value", signal="deserialized")
    read = [it for it in others if it[0]["member"] is not None]
    if not (counters or read):
        return CountedMembers(found, shared)
    measured = samples.filter(
        pc.and_(pc.is_in(samples["signal"], pa.array(_OF_MEMBERS)), pc.is_valid(samples["member"]))
    )
    named: dict[str, set[str]] = defaultdict(set)
    for it in measured.group_by(["group", "member"]).aggregate([]).to_pylist():
        named[it["group"]].add(it["member"])
    for label, line in (*counters, *read):
        at, member, whose = line.at, label["member"], (label["cluster"], label["group"])
        # A counter that begins anew has grown, too.
        changed = at[1:][np.diff(line.value) != 0].tolist()
        if named[label["group"]] and member not in named[label["group"]]:
            if whose in handled:
                stands = float(at[-1]) - (changed[-1] if changed else float(at[0]))
                shared[whose] = max(shared.get(whose, 0.0), stands)
            continue
        mine = found.setdefault((*whose, label["topic"]), {})
        known = mine.setdefault(member, MemberStory(worked=None, first=float(at[0]), last=float(at[-1])))
        known.worked = max([*changed[-1:], *([] if known.worked is None else [known.worked])], default=None)
        known.first, known.last = min(known.first, float(at[0])), max(known.last, float(at[-1]))
        known.records.setdefault(label["processor"], []).append(Track(at, grown(line.value)))
    # What is tried again has ended each time, and is timed when it ends at last.
    for label, line in (
        it for stat in _TRIED for it in counters_of(samples, window, handled, stat, signal="processed")
    ):
        story = found.get((label["cluster"], label["group"], label["topic"]), {}).get(label["member"])
        changed = line.at[1:][np.diff(line.value) != 0].tolist()
        if story is not None and changed:
            story.worked = max(changed[-1], story.worked if story.worked is not None else changed[-1])
    summed = ((it, Track(line.at, grown(line.value))) for it, line in counters_of(samples, window, groups, "sum"))
    means, batches = (counters_of(samples, window, groups, it) for it in ("mean", "batch"))
    for label, line in (*summed, *_told_seconds(counters, means, batches)):
        story = found.get((label["cluster"], label["group"], label["topic"]), {}).get(label["member"])
        if story is not None:
            story.seconds.setdefault(label["processor"], []).append(line)
    held = _held_since(samples, window)
    for (cluster, group, _), those in found.items():
        for member, story in those.items():
            story.held = held.get((cluster, group, member))
    return CountedMembers(found, shared)


def _held_since(samples: pa.Table, window: Window) -> dict[tuple[str, str, str], float]:
    """Since when the handlers of each member have held something, in seconds before the window's end, by cluster, group and member."""
    rows = samples.filter(pc.and_(pc.equal(samples["signal"], "in_flight"), pc.is_valid(samples["value"])))
    found: dict[tuple[str, str, str], float] = {}
    for label, line in tracks_of(rows, ("cluster", "group", "topic", "member", "processor", "queue"), window):
        empty = np.flatnonzero(line.value < 1)
        if len(empty) and empty[-1] == len(line) - 1:
            continue
        whose = label["cluster"], label["group"], label["member"]
        found[whose] = min(found.get(whose, 0.0), float(line.at[empty[-1] + 1 if len(empty) else 0]))
    return found


def _told_seconds(counters: _Lines, means: _Lines, batches: _Lines) -> Iterator[tuple[Mapping[str, Any], Track]]:
    """Seconds that handlers have taken, of clients that tell a mean (of a call with a batch of records) beside a count of records."""
    counts, batch_of = ({tuple(it.values()): line for it, line in lines} for lines in (counters, batches))
    for label, mean in means:
        whose = tuple(label.values())
        if (counted := counts.get(whose)) is None or len(counted) < 2:
            continue
        batch = batch_of.get(whose)
        records = np.diff(np.interp(mean.at, counted.at, grown(counted.value)))
        each = 1.0 if batch is None else np.interp(mean.at, batch.at, batch.value)[1:]
        took = np.divide(records * mean.value[1:], each, out=np.zeros(len(records)), where=each > 0)
        yield label, Track(mean.at, np.append(0.0, np.cumsum(took)))


def _since(lines: Sequence[Track], since: float) -> float:
    return sum(float(it.value[-1] - np.interp(since, it.at, it.value)) for it in lines)


def compare(members: Mapping[str, MemberStory], since: float) -> None:
    """Note how busy the handlers of each member are since a time, and how long they take for a record, as a multiple of its peers'."""
    work = {
        name: {
            processor: (_since(lines, since), _since(it.seconds[processor], since))
            for processor, lines in it.records.items()
            if processor in it.seconds
        }
        for name, it in members.items()
    }
    for name, mine in work.items():
        took = peers_take = 0.0
        for processor, (records, seconds) in mine.items():
            others = [it[processor] for peer, it in work.items() if peer != name and processor in it]
            handled = sum(count for count, _ in others)
            if handled > 0:
                took += seconds
                peers_take += records * sum(spent for _, spent in others) / handled
        members[name].against_peers = took / peers_take if peers_take > 0 else None
        if mine and members[name].last > since:
            members[name].busy = max(seconds for _, seconds in mine.values()) / (members[name].last - since)


def states_of(samples: pa.Table, window: Window) -> dict[tuple[str, str], Track]:
    """The state of each group over time (`signals.GROUP_STATES`), of samples in the order of `SERIES_ORDER`, then time."""
    rows = samples.filter(pc.and_(pc.equal(samples["signal"], "group_state"), pc.is_valid(samples["value"])))
    return {(it["cluster"], it["group"]): line for it, line in tracks_of(rows, ("cluster", "group", "signal"), window)}


def counts_of(
    samples: pa.Table, window: Window, states: Mapping[tuple[str, str], Track]
) -> dict[tuple[str, str], Track]:
    """How many members each group was counted with, over time; where none are counted, 0 or 1 by its state.

    Samples are in the order of `SERIES_ORDER`, then time.
    """
    rows = samples.filter(pc.and_(pc.equal(samples["signal"], "group_members"), pc.is_valid(samples["value"])))
    counted = {
        (it["cluster"], it["group"]): line for it, line in tracks_of(rows, ("cluster", "group", "signal"), window)
    }
    stated = {key: Track(it.at, (it.value > GROUP_STATES["empty"]).astype(float)) for key, it in states.items()}
    return {key: line for known in (stated, counted) for key, line in known.items() if len(line) >= 2}


def emptied(counted: Track, since: float) -> int:
    """How often the last member of a group has gone, since a time."""
    gone = (counted.value[1:] == 0) & (counted.value[:-1] > 0)
    return int((gone & (counted.at[1:] > since)).sum())


def rejoined(state: Track, since: float) -> int:
    """How often a group was seen to leave its stable state for a rebalance, since a time: at least so often, as samples miss some.

    0 if that is over, or has gone on for no longer than a deploy takes.
    """
    waits = np.isin(state.value, REJOINING)
    left = state.at[1:][waits[1:] & (state.value[:-1] == GROUP_STATES["stable"])]
    left = left[left > since]
    if (
        len(left) < 2
        or left[-1] - left[0] <= DEPLOY_SECONDS
        or state.at[-1] - left[-1] > MISSED * np.max(np.diff(left))
    ):
        return 0
    return len(left)


def _none_since(counted: Track) -> float | None:
    """When it became 0, for good; None if it is not 0."""
    if counted.value[-1] > 0:
        return None
    some = np.flatnonzero(counted.value > 0)
    return float(counted.at[int(some[-1]) + 1 if len(some) else 0])


def _moves_after(parts: Mapping[int, Mapping[str, Track]], since: float, step: float) -> set[float]:
    """Moments at which commits moved on between two samples, both of them well after a time."""
    moves: set[float] = set()
    for own in parts.values():
        committed = own.get("committed", Track())
        before = committed.at[:-1][np.diff(committed.value) > 0]
        moves.update(np.round(before[before > since + 2 * step], 1).tolist())
    return moves


def disproved(
    counts: Mapping[tuple[str, str], Track],
    lines: Mapping[tuple[str, str, str], Mapping[int, Mapping[str, Track]]],
) -> frozenset[tuple[str, str, str]]:
    """Subscriptions whose commits have moved since their group was last counted with members: the count is of something else.

    Of KIP-848's groups, and of those that assign partitions by hand, some exporters count no member at all.
    """
    found = set()
    for key, parts in lines.items():
        counted = counts.get(key[:2])
        since = _none_since(counted) if counted is not None else None
        if counted is None or since is None:
            continue
        # Somebody who moves offsets by hand does so once or twice.
        if len(_moves_after(parts, since, median(np.diff(counted.at)))) >= FEW_MOVES:
            found.add(key)
    return frozenset(found)


def moved_by_hand(
    counted: Track, parts: Mapping[int, PartitionHistory], lines: Mapping[int, Mapping[str, Track]]
) -> None:
    """Note what commits passed while the group had no members, of a group that usually has some: nobody read it.

    Only an administrator commits for a group without members: once or twice, from a commit that stood. A job that starts and ends
    between two counts usually has none, and members that come and go between two counts are seen for a moment, or commit again. The
    stories and series are those of one subscription whose count is not disproved.
    """
    if np.mean(counted.value > 0) < MOST and (counted.value[: len(counted.value) // 2] > 0).mean() < MOST:
        return
    step = median(np.diff(counted.at))
    begins, ends = stretches(counted.value == 0)
    if np.any(begins[1:] - ends[:-1] < FEW_SAMPLES):
        return
    alone = list(zip(counted.at[begins].tolist(), counted.at[ends - 1].tolist(), strict=True))
    found: dict[int, int] = {}
    moments: set[float] = set()
    for partition, story in parts.items():
        committed = lines[partition].get("committed", Track())
        moves = np.diff(committed.value) > 0
        before, after = committed.at[:-1], committed.at[1:]
        # The last commits of those that left are seen a sample or two later, and an exporter of commits may be later than one of
        # members: but they pass no more than what was read by then.
        later = 2 * step + max(story.rhythm or 0.0, story.cadence or 0.0)
        fast = np.zeros(len(before), dtype=bool)
        if story.skipped is not None and not story.skip_new and (story.skip_read or 0.0) < MOST:
            fast = np.abs(after - (committed.at[-1] - (story.skipped_ago or 0.0))) < 1e-6
        # What it usually reads meanwhile, a member may have read that came and went.
        more = np.diff(committed.value) > pace_of(committed) * (after - before)
        stood = np.append(False, ~moves[:-1]) & more
        inside = np.zeros(len(before), dtype=bool)
        for begin, end in alone:
            inside |= (after <= end) & ((stood & (before >= begin + later)) | (fast & (before >= begin)))
        passed = np.flatnonzero(inside & moves) + 1
        if len(passed):
            found[partition] = int(passed[-1])
            moments.update(np.round(committed.at[passed], 1).tolist())
    if len(moments) >= FEW_MOVES:
        return
    for partition, last in found.items():
        story, committed = parts[partition], lines[partition]["committed"]
        first, ago = committed.value[last - 1], committed.at[-1] - committed.at[last]
        story.note_skip(first, committed.value[last] - first, ago, story.skip_rate)
        story.skip_read, story.skip_alone = 0.0, True


def back_amid_members(counted: Track, parts: Mapping[int, PartitionHistory]) -> None:
    """Note which commits went back while the group had members and went on elsewhere: a consumer did it.

    Kafka lets no administrator reset the offsets of a group that has members. Its consumers begin again where `auto.offset.reset` says
    if an offset has expired or is out of range; they seek; and one that comes back commits late what it had before. All partitions at
    once may be reset by an administrator, in no more than the time between two samples. The count is not disproved.
    """
    if all(it.back_ago is not None or it.moved_ago is None for it in parts.values()):
        return
    step = median(np.diff(counted.at))
    for story in parts.values():
        if story.back_ago is not None:
            near = np.abs(counted.at + story.back_ago) <= 2 * step + (story.interval or 0.0)
            story.back_amid_members = bool(near.sum() >= FEW_SAMPLES and (counted.value[near] > 0).all())
