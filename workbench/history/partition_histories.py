"""From samples to the story of each partition of each subscription, and to the time that each subscription is judged by."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from workbench.history.best_pace import best_paces
from workbench.history.commit_skips import explained, slower_beside, unread_beginnings
from workbench.history.handled_counts import Handled, handled_by
from workbench.history.member_stories import (
    MemberStory,
    back_amid_members,
    compare,
    counts_of,
    disproved,
    emptied,
    members_of,
    moved_by_hand,
    rejoined,
    states_of,
)
from workbench.history.partition_series import Bounds, MeasuredPartition, PartitionHistory, Track, tracks_of
from workbench.history.partition_story import told
from workbench.history.partition_turns import longest_turn
from workbench.history.returns import returned_ago
from workbench.judgement_numbers import (
    APART,
    EXPECTED,
    FAR,
    FEW_SAMPLES,
    MOST,
    PART,
    PAUSE_SECONDS,
    SEVERAL,
    TENTH,
    TREND_SAMPLES,
)
from workbench.samples import DERIVED
from workbench.thresholds import Thresholds
from workbench.window import Window

Subscription = tuple[str, str, str]  # cluster, group, topic
_Key = tuple[str, str | None, str, int]  # cluster, group (None: the log's own), topic, partition

_SIGNALS = {
    "committed_offset": "committed",
    "read_offset": "read",
    "given_offset": "read",
    "log_end_offset": "log_end",
    "log_start_offset": "log_start",
    "consumer_lag": "lag",
    "time_lag": "time_lag",
}
_MICRO = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedHistory:
    """What time a subscription is judged by, in µs since the epoch.

    Attributes:
        start_us: from here to the window's end: from the onset on, where there is one.
        good_until_us: up to here it is the baseline; None: it was not well at any time that the data show.
        work_from_us: from here on the work of its members is measured: later than `start_us` where the last good sample and what the
            first bad one is a mean of would count; an onset that is found too late leaves out some of the bad time, and nothing else.
        onset: seconds before the window's end, negative; None if it is not behind, or since longer than the data show.
    """

    start_us: int
    good_until_us: int | None
    work_from_us: int
    onset: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chronicle:
    """Stories by partition, and the judged time of each subscription that differs from the window; of these the members, too.

    `emptied` says how often the last member of its group has gone since then, `rejoined` how often it was seen to rebalance.
    `repeated` says for how long the source of a subscription's offsets has repeated them, in seconds: all of them stand, and its
    handlers go on. `disproved` are groups whose commits moved on while an exporter counted no member. `shared_stand` says for how
    long handlers stand that no single client has.
    """

    stories: Mapping[Subscription, Mapping[int, PartitionHistory]]
    judged: Mapping[Subscription, JudgedHistory]
    members: Mapping[Subscription, Mapping[str, MemberStory]] = field(default_factory=dict)
    emptied: Mapping[Subscription, int] = field(default_factory=dict)
    rejoined: Mapping[Subscription, int] = field(default_factory=dict)
    repeated: Mapping[Subscription, float] = field(default_factory=dict)
    disproved: frozenset[Subscription] = frozenset()
    shared_stand: Mapping[Subscription, float] = field(default_factory=dict)


def read(samples: pa.Table, window: Window, limits_of: Callable[[str], Thresholds]) -> Chronicle:
    """Read the stories of all partitions that have a group, of samples in the order of `SERIES_ORDER`, then time."""
    lines, outside = lines_of(samples, window)
    stories: dict[Subscription, dict[int, PartitionHistory]] = {}
    measured: dict[Subscription, dict[int, dict[str, Track]]] = {}
    expected = {group: limits_of(group) for group in {key[1] for key in lines} if group is not None}
    bounds = {
        group: Bounds(
            objective=it.time_lag_objective_seconds,
            commit_every=it.commit_every_seconds,
            window_start=-window.seconds,
        )
        for group, it in expected.items()
    }
    for (cluster, group, topic, partition), own in lines.items():
        if group is None:
            continue
        log = lines.get((cluster, None, topic, partition), {})
        both = measured.setdefault((cluster, group, topic), {})[partition] = {**log, **own}
        story = told(MeasuredPartition(**both), bounds[group])
        story.by_client = not ({(cluster, None, topic, partition), (cluster, group, topic, partition)} & outside)
        stories.setdefault((cluster, group, topic), {})[partition] = story
    _explain_skips(samples, window, stories, measured, bounds)
    states = states_of(samples, window)
    counts = counts_of(samples, window, states)
    wrong_counts = disproved(counts, measured)
    for key, parts in stories.items():
        if key not in wrong_counts and (counted := counts.get(key[:2])) is not None:
            moved_by_hand(counted, _with_commits(parts, measured[key]), measured[key])
            back_amid_members(counted, parts)
    repeated = _repeated(samples, window, stories, measured)
    judged = {}
    for key, parts in stories.items():
        limit = expected[key[1]]
        found = _judged(parts, window, limit.growth_floor_ratio * limit.time_lag_objective_seconds)
        if found is not None:
            judged[key] = found
            turn = longest_turn(measured[key], -window.seconds if found.onset is None else found.onset)
            between = max(max(it.interval or 0.0, it.rhythm or 0.0, turn or 0.0) for it in parts.values())
            paces = best_paces(measured[key], found.onset, window.seconds, between)
            back = returned_ago(measured[key], found.onset, max(bounds[key[1]].objective, 2 * between))
            for number, story in parts.items():
                story.turn, story.best_pace, story.returned_ago = turn, paces.get(number), back
    of_members, shared = members_of(samples, window, {key[:2] for key in judged})
    end_us = round(window.end.timestamp() * _MICRO)
    members = {}
    since = {key: (found.start_us - end_us) / _MICRO for key, found in judged.items()}
    for key, found in judged.items():
        members[key] = {**of_members.get((*key[:2], None), {}), **of_members.get(key, {})}
        for it in members[key].values():
            it.before = found.good_until_us is not None and it.first * _MICRO + end_us < found.good_until_us
        compare(members[key], since[key])
    return Chronicle(
        stories=stories,
        judged=judged,
        members=members,
        emptied={key: emptied(counts[key[:2]], since[key]) for key in since if key[:2] in counts},
        rejoined={key: rejoined(states[key[:2]], since[key]) for key in since if key[:2] in states},
        repeated=repeated,
        disproved=wrong_counts,
        shared_stand={key: shared[key[:2]] for key in judged if key[:2] in shared},
    )


def _explain_skips(
    samples: pa.Table,
    window: Window,
    stories: Mapping[Subscription, Mapping[int, PartitionHistory]],
    lines: Mapping[Subscription, Mapping[int, dict[str, Track]]],
    bounds: Mapping[str, Bounds],
) -> None:
    """Say of each commit that passed what waited in one step whether it was read; the counters are only looked at if there is one."""
    for key, parts in stories.items():
        unread_beginnings(parts, lines[key], bounds[key[1]])
        slower_beside(_with_commits(parts, lines[key]), lines[key])
    passed = [key for key, parts in stories.items() if any(it.skipped is not None for it in parts.values())]
    counters = handled_by(samples, window, {key[:2] for key in passed})
    for key in passed:
        own: Handled | None = counters.get(key)
        others: dict[int, Mapping[str, Track]] = {}
        if own is None and (own := counters.get((*key[:2], None))) is not None:
            of_others = (it for topic, it in lines.items() if topic[:2] == key[:2] and topic != key)
            others = dict(enumerate(line for it in of_others for line in it.values()))
        if own is not None:
            explained(_with_commits(stories[key], lines[key]), lines[key], own, others)


def _with_commits(
    parts: Mapping[int, PartitionHistory], lines: Mapping[int, Mapping[str, Track]]
) -> dict[int, PartitionHistory]:
    """Those whose commits are measured: where only the lag is, a story is told from what it says of them, and has no more detail."""
    return {number: it for number, it in parts.items() if "committed" in lines[number]}


def _repeated(
    samples: pa.Table,
    window: Window,
    stories: Mapping[Subscription, Mapping[int, PartitionHistory]],
    lines: Mapping[Subscription, Mapping[int, dict[str, Track]]],
) -> dict[Subscription, float]:
    """Since when ends and commits of a topic all stand, although records usually arrive and the handlers go on as before."""
    suspects = {}
    for key, parts in stories.items():
        step = max(it.interval or 0.0 for it in parts.values())
        moved = [it.moved_ago for it in parts.values() if it.moved_ago is not None]
        stands = min([it.quiet for it in parts.values() if it.quiet is not None] or [0.0])
        stands = min([stands, *moved])
        if stands < max(FEW_SAMPLES * step, PAUSE_SECONDS):
            continue
        ends = [own["log_end"] for own in lines[key].values() if len(own.get("log_end", ())) > 1]
        arrived = sum(float(it.value[-1] - it.value[0]) for it in ends)
        before = -max(it.at[0] for it in ends) - stands if ends else 0.0
        if before > 0 and arrived / before * stands >= EXPECTED:
            suspects[key] = stands - step
    counters = handled_by(samples, window, {key[:2] for key in suspects})
    found = {}
    for key, stands in suspects.items():
        own = counters.get(key)
        if own is None or own.last < -2 * own.every:
            continue
        # In the later part of it: what was fetched before is handled in the first.
        since = -stands / 2
        usual = own.between(own.first, -stands) / (-stands - own.first) if own.first < -stands else 0.0
        now = own.between(since, own.last) / (own.last - since) if own.last > since else 0.0
        if usual > 0 and now >= MOST * usual:
            found[key] = stands
    return found


def comes_again(parts: Collection[PartitionHistory]) -> bool:
    """Whether a group was late several times in the window, whichever partitions it was, and may be so again.

    What comes and goes is not over because it ends once more: it is when it has stayed away for far longer than between its comings.
    """
    step = max((it.interval or 0.0 for it in parts), default=0.0)
    times: list[tuple[float, float]] = []
    for begin, end in sorted(stretch for it in parts for stretch in it.lateness):
        if times and begin - times[-1][1] <= APART * step:
            times[-1] = times[-1][0], max(end, times[-1][1])
        else:
            times.append((begin, end))
    if len(times) < SEVERAL - 1:
        return False
    return -times[-1][1] <= FAR * max(later[0] - before[1] for before, later in pairwise(times))


def _judged(parts: Mapping[int, PartitionHistory], window: Window, floor: float) -> JudgedHistory | None:
    behind = [it for it in parts.values() if not it.idle and (it.waiting or 0.0) > floor]
    behind = [it for it in behind if it.sick_from_start or it.onset is not None]
    if not behind:
        return None
    end_us, start_us = round(window.end.timestamp() * _MICRO), round(window.start.timestamp() * _MICRO)
    from_start = [it for it in behind if it.sick_from_start]
    # What drains is no news where something else does not.
    worst = [it for it in behind if it.drain_in is None] or behind
    moving = [it for it in from_start if it.moved_ago is not None and it.moved_ago <= 2 * (it.interval or 0.0)]
    # What began later is no beginning of what others of them have waited for all the time, and for far longer.
    least = PART * max((it.waiting or 0.0 for it in moving), default=0.0)
    begun = [it.onset for it in worst if it.onset is not None and (it.waiting or 0.0) >= least]
    if len(from_start) > max(len(begun), PART * len(parts)) or (moving and not begun):
        return JudgedHistory(start_us=start_us, good_until_us=None, work_from_us=start_us)
    if not begun:  # a few that have stood still all the time say nothing about the others
        return None
    onset = min(begun)
    # What comes and goes did not begin with its last time; what began before the window did.
    again = any(len(it.lateness) >= SEVERAL - 1 for it in behind)
    step = max((it.interval or 0.0) for it in behind)
    shortest = max(TREND_SAMPLES * step, TENTH * window.seconds)
    # The last good sample belongs to the judged time: growth needs a beginning.
    begun_us = end_us + round((onset - step) * _MICRO)
    from_us = min(start_us, begun_us) if again else begun_us
    latest_us = end_us - round(shortest * _MICRO)
    judged_us = max(start_us, min(from_us, latest_us))
    # ... and a mean does not: at the old pace, a minute of it has more records than five of the new one.
    work_us = judged_us if again else max(judged_us, min(end_us + round((onset + step) * _MICRO), latest_us))
    good_us = min(from_us, judged_us)
    first_us = round(window.baseline_start.timestamp() * _MICRO)
    enough = good_us - first_us >= TREND_SAMPLES * step * _MICRO
    good_until_us = good_us if enough else None
    return JudgedHistory(start_us=judged_us, good_until_us=good_until_us, work_from_us=work_us, onset=onset)


def lines_of(samples: pa.Table, window: Window) -> tuple[dict[_Key, dict[str, Track]], set[_Key]]:
    """Series of partitions by what they are of, and those whose end or lag is measured by somebody else than the client itself."""
    wanted = pc.and_(
        pc.is_in(samples["signal"], pa.array(list(_SIGNALS))),
        pc.and_(pc.is_valid(samples["value"]), pc.equal(samples["stat"], "value")),
    )
    rows = samples.filter(pc.and_(wanted, pc.is_valid(samples["partition"])))
    # Who names a member with a commit or a lag is that member's own client, and so is an end that comes from there.
    clients = set(pc.unique(rows.filter(pc.is_valid(rows["member"]))["source"]).to_pylist())
    clients.add(DERIVED)  # a lag that was worked out is as much the client's own as its end is
    found: dict[_Key, dict[str, Track]] = {}
    outside: set[_Key] = set()
    for label, line in tracks_of(rows, ("cluster", "group", "topic", "signal", "partition"), window, "source"):
        signal = label["signal"]
        group = label["group"] if signal not in ("log_end_offset", "log_start_offset") else None
        key = (label["cluster"], group, label["topic"], label["partition"])
        if group is None and not signal.startswith("log_"):
            continue
        if signal in ("log_end_offset", "consumer_lag") and label["source"] not in clients:
            outside.add(key)
        own = found.setdefault(key, {})
        if signal == "committed_offset":
            own["shown"] = line.once()
        line = line.without_outliers() if signal.endswith("_offset") else line
        own[_SIGNALS[signal]] = line.once()
    return found, outside


_FACTS = tuple(it.name for it in fields(PartitionHistory) if it.name != "lateness")


class Fact(NamedTuple):
    """A fact about a subscription, one of its partitions or a member; booleans are 0 and 1.

    `at` is when it was last measured, in seconds before the window's end, and `before` whether it was so before the judged time, too;
    both of members only.
    """

    key: Subscription
    partition: int | None
    name: str
    value: float | None
    member: str | None = None
    at: float | None = None
    before: bool = False


def facts(chronicle: Chronicle) -> Iterator[Fact]:
    """All that is known, by the names of `PartitionHistory`; of a subscription `group_onset` and `group_without_baseline`."""
    for key, parts in chronicle.stories.items():
        for partition, story in parts.items():
            for name in _FACTS:
                value = getattr(story, name)
                if value is not None:
                    yield Fact(key, partition, name, float(value))
        if comes_again(parts.values()):
            yield Fact(key, None, "group_comes_again", 1.0)
    for key, stands in chronicle.repeated.items():
        yield Fact(key, None, "group_repeated", stands)
    for key in sorted(chronicle.disproved):
        yield Fact(key, None, "group_count_disproved", 1.0)
    for key, judged in chronicle.judged.items():
        if judged.onset is not None:
            yield Fact(key, None, "group_onset", judged.onset)
        yield Fact(key, None, "group_without_baseline", float(judged.good_until_us is None))
        yield Fact(key, None, "group_work_since_onset", float(judged.work_from_us > judged.start_us))
        if times := chronicle.emptied.get(key):
            yield Fact(key, None, "group_emptied", float(times))
        if times := chronicle.rejoined.get(key):
            yield Fact(key, None, "group_rejoined", float(times))
        if (stand := chronicle.shared_stand.get(key)) is not None:
            yield Fact(key, None, "group_shared_stand", stand)
        for name, it in chronicle.members.get(key, {}).items():
            yield Fact(key, None, "member_worked", it.worked, name, it.last)
            if it.against_peers is not None:
                yield Fact(key, None, "member_against_peers", it.against_peers, name, it.last)
            if it.busy is not None:
                yield Fact(key, None, "member_busy", it.busy, name, it.last)
            if it.held is not None:
                yield Fact(key, None, "member_held", it.held, name, it.last)
            if it.before:
                yield Fact(key, None, "member_seen", 1.0, name, it.first, before=True)
