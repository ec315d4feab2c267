"""Progress of a replay: pure, from commits and the plan."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workbench.commit_note import CommitNote
from workbench.humanize import count, duration, plural, rate, shell_word
from workbench.logs.window_done import through
from workbench.logs.window_end import WindowEnd
from workbench.queues.replay_port import names_of
from workbench.queues.snapshot_views import Partition
from workbench.replay.planfile import Plan

# Time span of the rate: long enough to smooth commits every 5 s, short enough to follow a change.
_RATE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProgress:
    """Planned messages of one topic, and those below the new group's commits."""

    topic: str
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayProgress:
    """Progress at one moment.

    Attributes:
        at: monotonic seconds.
        left: partitions that are not complete, with their missing offsets.
        waiting: why it is not certain yet that the replay is complete, even if nothing is left; None if it is certain.
        new_lag, old_lag: messages from the groups' commits to the current log end, over the planned partitions; None if one of them
        is not known. The new group may continue long after the window.
        members: of the new group.
        doubt: why the commits do not prove that all was processed, even if nothing is left; None if nothing speaks against them.
        ranges, ranges_through: of a plan of ranges, and those that are below the new group's commits; 0 for other plans.
    """

    at: float
    topics: tuple[TopicProgress, ...]
    left: Mapping[Partition, int]
    new_lag: int | None
    old_lag: int | None
    members: int
    waiting: str | None = None
    doubt: str | None = None
    ranges: int = 0
    ranges_through: int = 0

    @property
    def done(self) -> int:
        """Messages, summed over the topics."""
        return sum(topic.done for topic in self.topics)

    @property
    def total(self) -> int:
        """Messages, summed over the topics."""
        return sum(topic.total for topic in self.topics)

    @property
    def complete(self) -> bool:
        """Whether every partition's commit has certainly reached the window's end; `doubt` says what that does not prove."""
        return not self.left and self.waiting is None


def progress(
    plan: Plan,
    *,
    new: Mapping[Partition, int],
    old: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    windows: Mapping[Partition, WindowEnd],
    members: int,
    at: float,
    without_records: frozenset[Partition] = frozenset(),
    starts: Mapping[Partition, int] | None = None,
    notes: Mapping[Partition, CommitNote] | None = None,
    lost: Mapping[Partition, str] | None = None,
    begun: Collection[Partition] | None = None,
) -> ReplayProgress:
    """Compare commits with a plan.

    Args:
        ends: of the logs.
        windows: the window's ends, as known now.
        without_records: partitions with no record between the commit and the window's end (transaction markers); they are done.
        starts: of the logs.
        notes: that the group's members have stored with their commits.
        lost: what was certainly not read, by partition, in words.
        begun: partitions where it is known that the group began at the target; None: that was not looked for.
    """
    done: dict[str, int] = dict.fromkeys(plan.topics, 0)
    total: dict[str, int] = dict.fromkeys(plan.topics, 0)
    left = {}
    doubts: dict[Partition, str] = dict(lost or {})
    spans, passed = 0, 0
    for part in plan.partitions:
        stop = windows[part.key].stop
        if part.target is None or stop <= part.target:
            continue
        total[part.topic] += stop - part.target
        found = through(
            part,
            new.get(part.key),
            stop,
            log_start=(starts or {}).get(part.key),
            tail=0 if part.key in without_records else None,
            note=(notes or {}).get(part.key),
            has_begun=begun is None or part.key in begun,
        )
        reached = found.reached
        if found.reservation is not None:
            doubts.setdefault(part.key, found.reservation)
        if part.ranges is not None:
            spans += len(part.spans)
            passed += sum(end <= reached for _, end in part.spans)
        done[part.topic] += reached - part.target
        if found.left:
            left[part.key] = found.left
    planned = [part.key for part in plan.partitions if part.target is not None]
    return ReplayProgress(
        at=at,
        topics=tuple(TopicProgress(topic=topic, done=done[topic], total=total[topic]) for topic in plan.topics),
        left=left,
        new_lag=_lag(planned, new, ends),
        old_lag=_lag([key for key in planned if key in old], old, ends),
        members=members,
        ranges=spans,
        ranges_through=passed,
        doubt=_doubt(doubts),
        waiting=next((words for key in planned if (words := windows[key].open) is not None), None),
    )


def _doubt(doubts: Mapping[Partition, str]) -> str | None:
    """The first doubt, with its partition and the number of others."""
    if not doubts:
        return None
    key, words = min(doubts.items())
    more = f" (And {plural(len(doubts) - 1, 'partition')} more.)" if len(doubts) > 1 else ""
    return f"{names_of([key])}: {words}{more}"


def _lag(partitions: list[Partition], commits: Mapping[Partition, int], ends: Mapping[Partition, int]) -> int | None:
    if not partitions or any(key not in commits or key not in ends for key in partitions):
        return None
    return sum(max(0, ends[key] - commits[key]) for key in partitions)


@dataclass(slots=True)
class Pace:
    """Messages per second over the last minute, and the ETA at that rate."""

    _looks: deque[ReplayProgress] = field(default_factory=deque)

    def add(self, look: ReplayProgress) -> None:
        """Add an observation; those older than a minute are dropped, but at least two are kept."""
        self._looks.append(look)
        while len(self._looks) > 2 and look.at - self._looks[1].at > _RATE_SECONDS:
            self._looks.popleft()

    @property
    def per_second(self) -> float | None:
        """Messages per second; None with fewer than two observations."""
        if len(self._looks) < 2:
            return None
        first, last = self._looks[0], self._looks[-1]
        return (last.done - first.done) / (last.at - first.at) if last.at > first.at else None

    @property
    def eta_seconds(self) -> float | None:
        """Seconds to completion; None if unknown or without progress."""
        rate, last = self.per_second, self._looks[-1] if self._looks else None
        if last is None:
            return None
        if last.complete:
            return 0.0
        return (last.total - last.done) / rate if rate else None


def in_words(look: ReplayProgress, pace: Pace, *, group: str) -> str:
    """Describe rate, ETA, members and both groups' lag in one line; before anything was read, what to start."""
    if not look.members and not look.done and look.left:
        return f"Not started: no consumer in {group}. Start consumers with group.id={group}; {_lags(look)}"
    eta = pace.eta_seconds
    done = "done" if look.doubt is None else "at the window's end, but it cannot be told whether all was processed"
    left = done if look.complete else f"ETA {duration(eta)}" if eta is not None else "no progress"
    if look.waiting is not None and not look.left:
        left = look.waiting.rstrip(".")
    members = plural(look.members, "consumer") if look.members else f"no consumer in {group}"
    if look.ranges:
        left = f"{look.ranges_through:,} of {look.ranges:,} ranges through  {left}"
    speed = f"{rate(pace.per_second)}  " if pace.per_second is not None else ""
    return f"{speed}{left}  {members}  {_lags(look)}"


def _lags(look: ReplayProgress) -> str:
    return f"lag: new {count(look.new_lag)}, old {count(look.old_lag)}"


def next_steps(plan: Plan, look: ReplayProgress, plan_file: Path) -> list[str]:
    """What to do once a replay is complete, a line each; after the last range of a plan of ranges, the switch back."""
    name = shell_word(str(plan_file))
    verify = f"workbench replay verify {name}"
    if not plan.is_of_ranges:
        return [f"Complete. Next: {verify}"]
    lines = [f"All {look.ranges:,} ranges are through." if look.ranges > 1 else "The range is through."]
    if look.members:
        lines.append(
            f"The group {plan.new_group!r} still has {plural(look.members, 'member')}: consumers other than the runtime go on beyond "
            "the ranges until the switch back."
        )
    return [
        *lines,
        f"Next: {verify}",
        f"Then switch back: workbench replay cutover {name} --fleet fleet.toml --back",
        f"And delete the new group: workbench replay retire {name}",
    ]
