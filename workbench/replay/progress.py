"""How far a replay has come: pure, from commits and the plan."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from workbench.humanize import count, duration, plural, rate
from workbench.replay.gateway import Partition
from workbench.replay.planfile import Plan
from workbench.replay.window_end import WindowEnd

# The rate is taken over this stretch: long enough to smooth commits of every 5 s, short enough to follow a change.
_RATE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicProgress:
    """Messages of one topic that lie behind the new group's commits, of those that were planned."""

    topic: str
    done: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayProgress:
    """One look.

    Attributes:
        at: monotonic seconds.
        left: partitions that are not there yet, with their missing offsets.
        waiting: why nobody can say yet that it is complete, although nothing may be left; None if one can.
        new_lag, old_lag: messages from the groups' commits to the log's end now, over the planned partitions; None where one of them
            is not known. The new group may go on long after the window.
        members: of the new group.
    """

    at: float
    topics: tuple[TopicProgress, ...]
    left: Mapping[Partition, int]
    new_lag: int | None
    old_lag: int | None
    members: int
    waiting: str | None = None

    @property
    def done(self) -> int:
        """Messages of all topics."""
        return sum(topic.done for topic in self.topics)

    @property
    def total(self) -> int:
        """Messages of all topics."""
        return sum(topic.total for topic in self.topics)

    @property
    def complete(self) -> bool:
        """Whether every partition's commit has reached the window's end, and that is known."""
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
) -> ReplayProgress:
    """Hold commits against a plan.

    Args:
        ends: of the logs.
        windows: where the window ends, as known now.
        without_records: partitions with no record between the commit and the window's end (transaction markers); they are done.
    """
    done: dict[str, int] = dict.fromkeys(plan.topics, 0)
    total: dict[str, int] = dict.fromkeys(plan.topics, 0)
    left = {}
    for part in plan.partitions:
        stop = windows[part.key].stop
        if part.target is None or stop <= part.target:
            continue
        total[part.topic] += stop - part.target
        committed = new.get(part.key)
        reached = part.target if committed is None else min(max(committed, part.target), stop)
        if part.key in without_records:
            reached = stop
        done[part.topic] += reached - part.target
        if reached < stop:
            left[part.key] = stop - reached
    planned = [part.key for part in plan.partitions if part.target is not None]
    return ReplayProgress(
        at=at,
        topics=tuple(TopicProgress(topic=topic, done=done[topic], total=total[topic]) for topic in plan.topics),
        left=left,
        new_lag=_lag(planned, new, ends),
        old_lag=_lag([key for key in planned if key in old], old, ends),
        members=members,
        waiting=next((words for key in planned if (words := windows[key].open) is not None), None),
    )


def _lag(partitions: list[Partition], commits: Mapping[Partition, int], ends: Mapping[Partition, int]) -> int | None:
    if not partitions or any(key not in commits or key not in ends for key in partitions):
        return None
    return sum(max(0, ends[key] - commits[key]) for key in partitions)


@dataclass(slots=True)
class Pace:
    """Messages per second over the last minute, and when the rest is done at that pace."""

    _looks: deque[ReplayProgress] = field(default_factory=deque)

    def add(self, look: ReplayProgress) -> None:
        """One more look; those of more than a minute ago are dropped, but two are kept."""
        self._looks.append(look)
        while len(self._looks) > 2 and look.at - self._looks[1].at > _RATE_SECONDS:
            self._looks.popleft()

    @property
    def per_second(self) -> float | None:
        """None with fewer than two looks."""
        if len(self._looks) < 2:
            return None
        first, last = self._looks[0], self._looks[-1]
        return (last.done - first.done) / (last.at - first.at) if last.at > first.at else None

    @property
    def eta_seconds(self) -> float | None:
        """None if it is unknown, or if there is no progress."""
        rate, last = self.per_second, self._looks[-1] if self._looks else None
        if last is None:
            return None
        if last.complete:
            return 0.0
        return (last.total - last.done) / rate if rate else None


def in_words(look: ReplayProgress, pace: Pace) -> str:
    """Pace, time to go, members and both groups' lag in one line."""
    eta = pace.eta_seconds
    left = "done" if look.complete else f"ETA {duration(eta)}" if eta is not None else "no progress"
    if look.waiting is not None and not look.left:
        left = look.waiting.rstrip(".")
    members = plural(look.members, "member") if look.members else "NO MEMBERS in the group"
    speed = f"{rate(pace.per_second)}  " if pace.per_second is not None else ""
    return f"{speed}{left}  {members}  lag: new {count(look.new_lag)}, old {count(look.old_lag)}"
