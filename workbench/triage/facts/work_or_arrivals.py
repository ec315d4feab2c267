"""Whose side is the limit: the consumer's own work, or what reaches it? Asked of any consumer, by whatever it exports.

Best first: in-process queues, messages that were fetched and wait in the client, the time that the thread waits for records, and
process times against the baseline. A consumer without queues of its own is a shape of consumer, and no lack of data.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import pairwise

from workbench.features.subscription_measurements import MeasuredSubscription, PartitionFeatures
from workbench.judgement_numbers import (
    APART,
    BUSY,
    FAR,
    HELD_SECONDS,
    IDLE,
    LESS,
    MORE,
    MOST,
    NEAR_QUOTA,
    NEVER_EMPTY,
    NOISE,
    PART,
    STALE,
)
from workbench.schedule import Schedule
from workbench.thresholds import Thresholds
from workbench.triage.facts import fact
from workbench.triage.facts.unknown_numbers import (
    Known,
    Number,
    above,
    all_of,
    any_of,
    at_least,
    at_most,
    below,
    known,
    least,
    lower_median,
    minus,
    most,
    ratio,
    times,
    total,
)
from workbench.triage.operand import Operand, Reason, first_of

_MOST_RUNS = 300  # of one schedule: more are not looked through


def told(p: PartitionFeatures, name: str) -> Number:
    """A fact of the partition's history."""
    return p.story.get(name) if p.story else None


@dataclass(frozen=True, kw_only=True)
class WorkFacts(MeasuredSubscription):
    """What is expected of a group, and what its consumer's own work looks like.

    Attributes:
        limits: the thresholds of this group.
        schedule: of a batch, if it is one.
        at: the window's end; without it, no group is a batch.
    """

    limits: Thresholds
    schedule: Schedule | None = None
    at: datetime | None = None

    @fact
    def objective_seconds(self) -> float:
        """The time lag that the group may have."""
        return self.limits.time_lag_objective_seconds

    @fact
    def commit_every_seconds(self) -> float:
        """The expected time between two commits; 0 if none is set."""
        return self.limits.commit_every_seconds

    @fact
    def stale_seconds(self) -> float:
        """The age from which a lag counts as unknown: some missed scrapes, and a clock that is a minute off, are none."""
        return max(APART * self.limits.stale_after_seconds, STALE * (self.sample_interval_seconds or 0.0))

    # A batch: when its last run was due that must be over by now, and the run before it.

    @cached_property
    def _runs(self) -> tuple[Number, Number]:
        if self.schedule is None or self.at is None:
            return None, None
        if self.schedule.every is not None:
            every = self.schedule.every.total_seconds()
            return every + self.objective_seconds, 2 * every + self.objective_seconds
        ago: list[float] = []
        for due in self.schedule.due_before(self.at):
            ago.append((self.at - due).total_seconds())
            if (len(ago) >= 2 and ago[-2] >= self.objective_seconds) or len(ago) > _MOST_RUNS:
                break
        return min(((it, before) for it, before in pairwise(ago) if it >= self.objective_seconds), default=(None, None))

    @fact
    def batch_due_seconds(self) -> Number:
        """For how long the last run is due that must be over; None for a group that is no batch."""
        return self._runs[0]

    @fact
    def batch_before_seconds(self) -> Number:
        """For how long the run before it is due."""
        return self._runs[1]

    @fact
    def batch_every_seconds(self) -> Number:
        """Interval of a batch without a cron expression."""
        schedule = self.schedule if self.at is not None else None
        return schedule.every.total_seconds() if schedule is not None and schedule.every else None

    # Measured.

    @cached_property
    def members_now(self) -> Number:
        """Members that share the work."""
        return next((it for it in (self.live_members, self.group_members_recent) if it is not None and it > 0), None)

    @cached_property
    def read_per_second(self) -> float:
        """Messages/s that all members read together."""
        return sum(p.committed_per_second or 0.0 for p in self.partitions)

    @fact
    def best_read_per_second(self) -> Number:
        """Messages/s that all members read together in their best minutes since they are behind."""
        best = known(*(told(p, "best_pace") for p in self.partitions))
        return most(self.committed_recent_per_second, sum(best) if best else None)

    @fact
    def returned_seconds(self) -> Number:
        """Since all of it went on, after it had stood still while messages waited; whom the broker holds back waits again and again."""
        held_back = above(self.throttle_seconds, self.limits.throttle_seconds) is True
        return None if held_back else least(*(told(p, "returned_ago") for p in self.partitions))

    @cached_property
    def arriving_per_read(self) -> Number:
        """How many times what it reads arrives."""
        return ratio(self.arrival_per_second, self.read_per_second)

    @fact
    def has_queues(self) -> bool:
        """Whether the consumer shows queues of its own, and how full they are."""
        filled = any(it.fill is not None for it in self.queues)
        return filled or self.enqueue_mean_seconds is not None or self.enqueue_baseline_seconds is not None

    @cached_property
    def _timed(self) -> bool:
        return any(p.process_seconds is not None for p in self.processors)

    @fact
    def loop_busy(self) -> Number:
        """Process time per second and member."""
        now = 0.0
        for p in self.processors:
            # The attempts since the last sample before the window; its rate divides them by the time since the first one in it.
            if p.rate_per_second and p.rate_per_second > 0 and p.attempts is not None:
                span = p.attempts / p.rate_per_second + (self.sample_interval_seconds or 0.0)
                now += ratio(times(p.attempts, p.process_seconds), span) or 0.0
        return ratio(now, self.members_now) if self._timed else None

    @fact
    def busy_handlers(self) -> Number:
        """Handler threads that are busy in all members together."""
        return times(self.loop_busy, self.members_now)

    @fact
    def loop_busy_baseline(self) -> Number:
        """The same in the baseline."""
        then = sum(times(p.baseline_rate_per_second, p.baseline_seconds) or 0.0 for p in self.processors)
        return ratio(then, self.members_now) if self._timed and then > 0 else None

    @fact
    def poll_idle(self) -> Number:
        """Share of the time that the busiest member's thread waits for records."""
        return min(known(*(it.poll_idle for it in self.members if it.live)), default=None)

    @fact
    def kept_waiting(self) -> Number:
        """The same, unless it is measured that nothing holds up what its client asks for.

        Then it waits because it does not ask: paused, or for handlers on other threads (a pool, Reactor, Quarkus).
        """
        held_up = any_of(above(self.throttle_seconds, self.limits.throttle_seconds), self.slow_round_trips)
        return None if held_up is False else self.poll_idle

    @fact
    def busiest_if_even(self) -> Number:
        """Share of its time that the busiest member needs for what arrives, if the partitions are divided evenly among all members.

        Known where each member tells how long its thread waits for records. A partition cannot be divided.
        """
        told = [it.poll_idle for it in self.members if it.live]
        waits = total(told)
        members = max(len(told), round(self.group_members or 0))
        if waits is None or not told or len(told) < members or not self.partition_count:
            return None
        most_of_one = -(-self.partition_count // members) / self.partition_count
        return times(most_of_one * (members - waits), self.arriving_per_read)

    @fact
    def fetched_low(self) -> Number:
        """The lowest number of fetched messages that wait in the client, of the partition, or the whole client, with most."""
        of_clients = (it.fetch_queue_recent_low for it in self.members if it.live)
        return most(*(p.fetch_queue_recent_low for p in self.partitions), *of_clients)

    @fact
    def quota_share(self) -> Number:
        """Messages/s read lately, as a share of what quotas allow."""
        # A broker that throttles lets a client wait for seconds between two answers: lately it may have read nothing.
        return ratio(most(self.committed_recent_per_second, self.read_per_second), self.read_quota_per_second)

    @fact
    def at_quota(self) -> bool:
        """Whether it reads what its quota allows, and no more."""
        share = self.quota_share
        lately = ratio(self.committed_recent_per_second, self.read_quota_per_second)
        arriving = ratio(self.arrival_per_second, self.read_quota_per_second)
        # Where more arrives than it may read, the quota is enough of a reason, although it reads in bursts with pauses.
        return all_of(at_most(lately, MORE), at_least(share, NEAR_QUOTA), at_least(arriving, MORE)) is True

    @fact
    def typical_arrival(self) -> Number:
        """Messages/s that arrive in a typical partition."""
        return lower_median(p.arrival_per_second for p in self.partitions)

    # Judged.

    @fact
    def busy_of_never_waiting(self) -> Number:
        """Busy handler threads, for each member whose thread hardly ever waits for records. (A hot partition keeps one busy.)"""
        never = sum(1 for it in self.members if it.live and at_most(it.poll_idle, IDLE))
        return ratio(times(self.loop_busy, self.live_members), never)

    @fact
    def own_work(self) -> Known:
        """Whether the consumer's work takes the time; False if it waits for what does not reach it, None if that is not known."""
        return first_of(WORK_REASONS, self)

    @fact
    def queueless(self) -> bool:
        """Whether its client or its handlers are measured, and no queue is: it has none, or none that counts."""
        there = (self.poll_idle, self.loop_busy, self.fetched_low, self.throttle_seconds, self.rtt_seconds)
        return not self.has_queues and any(it is not None for it in there)

    @cached_property
    def slow_round_trips(self) -> Known:
        """Whether round trips are long, and far longer than before."""
        grown = at_least(self.rtt_seconds, times(self.limits.rtt_ratio, self.rtt_baseline_seconds))
        return all_of(at_least(self.rtt_seconds, self.limits.rtt_seconds), grown)

    @fact
    def surely_slow_network(self) -> bool:
        """Round trips that are long also for fetches that wait for records: enough of a reason, whatever else is not known."""
        return all_of(self.slow_round_trips, at_least(self.rtt_seconds, HELD_SECONDS + self.limits.rtt_seconds)) is True

    @fact
    def slower_in_round_trips(self) -> Number:
        """By how much longer than before its handlers take, as a multiple of a round trip."""
        return ratio(
            lower_median(minus(p.process_seconds, p.baseline_seconds) for p in self.processors), self.rtt_seconds
        )

    @fact
    def held_from_outside(self) -> bool:
        """Whether it is measured that little can reach it: by a throttle, or by long round trips."""
        return above(self.throttle_seconds, self.limits.throttle_seconds) is True or self.surely_slow_network

    @fact
    def works_on(self) -> bool:
        """Whether its handlers are busy all the time, and what they handle is committed, and not handled again by the next owner."""
        return at_least(self.loop_busy, BUSY) is True and self.read_per_second >= LESS * self.handled_per_second

    @fact
    def never_rests(self) -> bool:
        """The same of a consumer without queues, whose own work is the limit. (Of many threads, one may be busy while others wait.)"""
        return self.queueless and self.own_work is True and self.works_on

    @cached_property
    def handled_per_second(self) -> float:
        """Records/s that all handlers finish together.

        Where stages of a handler are timed, each has every record: how many these are, the handler's own count says.
        """
        timed = [p for p in self.processors if p.rate_per_second]
        rate, attempts = sum(p.rate_per_second or 0.0 for p in timed), sum(p.attempts or 0.0 for p in timed)
        ended = sum((p.outcomes or 0.0) - (p.failed or 0.0) for p in self.processors)
        by_stages = min(ended, attempts) > 0 and not any(p.outcomes for p in timed)
        return rate * min(1.0, ended / attempts) if by_stages else rate

    @fact
    def every_member_works(self) -> bool:
        """Whether the handlers of each member have ended something lately, whatever became of it: none of them hangs."""
        limit = self.limits.poll_age_seconds
        works = sum(1 for it in self.members if it.live and below(it.worked_ago_seconds, limit) is True)
        return works >= (self.group_members or 1)

    @fact
    def every_member_polls(self) -> bool:
        """Whether it is measured of each member, whatever it says."""
        told = sum(1 for it in self.members if it.live and (it.poll_age_high is not None or it.stats_stand is not None))
        return told >= (self.group_members or 1)

    @fact
    def polling(self) -> Known:
        """True if something proves that somebody polls; None if nothing does."""
        # A client's statistics come with a poll: new ones prove it, as does work that ends.
        alive = any(it.live and it.stats_stand is False for it in self.members)
        works = any(above(p.attempts, 0) for p in self.processors)
        reads = any(at_least(ratio(told(p, "ahead"), p.lag_messages), LESS) for p in self.partitions)
        return True if self.poll_age_seconds is not None or alive or works or reads else None


def _busy(relation: str, number: float, **more: str) -> Operand:
    return Operand("loop_busy", "busy handler threads per consumer", relation, number=number, **more)


_NEVER_WAITS = Operand("poll_idle", "of the time", "<=", number=IDLE)
_IS_BUSY, _HARDLY = _busy(">=", BUSY), _busy("<=", PART)
_IS_UP, _IS_DOWN = (_busy(*it, of="loop_busy_baseline") for it in ((">=", MORE), ("<=", LESS)))
_FEW_WAIT = Operand("fetch_queue_mean", "messages", "<", setting="fetch_queue_messages")
_OF_NEVER_WAITING = Operand("busy_of_never_waiting", "busy handler threads for each such member", "<=", number=PART)

# What far more failures than usual are.
MORE_FAIL = (
    Operand("failing_share", "of the attempts", ">=", setting="failing_ratio"),
    Operand("failing_share", "of the attempts", ">=", number=FAR, of="failing_baseline_share"),
)

# A thread that neither waits for records nor handles them may wait for its commits, over a slow network, or do what nobody measures.
# Of a thread for each partition, an empty queue in the client says nothing, unless what fills it is known to be short.
WORK_REASONS: tuple[Reason[Known], ...] = (
    # Spring commits each record (AckMode RECORD) within its listener's timer.
    Reason(
        "round_trips",
        False,
        "round trips are long also for fetches that wait, and its handlers take as much longer than before as one takes: they wait for"
        " the network, as with a commit after each record",
        (
            Operand("slower_in_round_trips", "× a round trip", ">=", number=LESS),
            Operand("slower_in_round_trips", "× a round trip", "<=", number=MORE),
        ),
        besides=lambda row: row.surely_slow_network,
    ),
    # A back-off, letters, and a poll that is read again: all of them after the handler has failed, in the same thread.
    Reason(
        "failures",
        True,
        "a thread hardly ever waits for records, its handlers take little of that time, round trips are fast, and far more attempts"
        " fail than before: what follows a failure takes it",
        (_NEVER_WAITS, _OF_NEVER_WAITING, *MORE_FAIL),
        besides=lambda row: row.slow_round_trips is False,  # else it may wait for its commits
    ),
    Reason(
        "elsewhere",
        None,
        "a thread hardly ever waits for records, and its handlers take little of that time: what takes it is not measured",
        (_NEVER_WAITS, _OF_NEVER_WAITING),
    ),
    Reason("never_waits", True, "a thread hardly ever waits for records", (_NEVER_WAITS,)),
    Reason(
        "few_busy",
        True,
        "what waits has been read, and the handlers of few members take nearly all of a thread's time, while those of most others have"
        " little to do",
        besides=lambda row: bool(row.hot_members),
    ),
    Reason(
        "waits_inside",
        True,
        "most of what waits has been read, and a handler finishes clearly less of what arrives than before",
        besides=lambda row: row.waits_inside is True,
    ),
    Reason(
        "queued",
        True,
        "in a member, more records always wait for its handlers than usually did, in a queue of its own that tells no capacity",
        (Operand("queued_more", "records more than usual", ">", number=0.0, why="it is never as short as it was"),),
    ),
    # What one answer brought may wait in the client, but its handlers have little to do.
    Reason("little_to_do", False, "its handlers have little to do, and less than before", (_HARDLY, _IS_DOWN)),
    Reason(
        "fetched_wait",
        True,
        "fetched messages always wait for its handlers",
        (Operand("fetched_low", "messages", ">=", number=NEVER_EMPTY),),
    ),
    Reason(
        "held_and_busy",
        None,
        "its handlers are busier than before, yet few fetched messages wait for them, and a throttle or a slow network is measured",
        (_IS_BUSY, _IS_UP, _FEW_WAIT),
        besides=lambda row: row.held_from_outside,
    ),
    Reason("busier", True, "its handlers take nearly all of a thread's time, and more than before", (_IS_BUSY, _IS_UP)),
    Reason(
        "may_wait_inside",
        None,
        "most of what waits has been read, a handler finishes clearly less than arrives, and nothing shows what it did before",
        besides=lambda row: row.waits_inside is None,
    ),
    Reason(
        "waits",
        False,
        "its threads wait for what does not reach them",
        (Operand("kept_waiting", "of the time", ">=", number=MOST), _FEW_WAIT, _IS_DOWN),
        either=True,
    ),
    Reason("more_to_do", True, "its handlers take more of a thread's time than before", (_IS_UP, _busy(">=", PART))),
    Reason(
        "was_busier",
        None,
        "its handlers are busy, and were busier before: its threads could do more",
        (_IS_BUSY, _busy("<", 1 - NOISE, of="loop_busy_baseline", why=NOISE.why)),
    ),
    Reason("busy", True, "its handlers take nearly all of a thread's time", (_IS_BUSY,)),
    Reason("hardly_busy", False, "its handlers have little to do", (_HARDLY,)),
    Reason("not_measured", None, "nothing shows whether its threads work or wait"),
)
