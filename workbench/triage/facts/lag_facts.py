"""Late, growing, draining: the parts of "is it lagging".

The histories of the partitions (`history`) say who is late beyond its own rhythm. Without them the lows of the window's last third
decide: commits at long intervals make a sawtooth whose lows return to nearly 0.
"""

from __future__ import annotations

from functools import cached_property
from math import floor, sqrt

from workbench.features.subscription_measurements import PartitionFeatures
from workbench.judgement_numbers import APART, DRAIN_SECONDS, LESS, MISSED, MOST, PART, SEVERAL
from workbench.triage.facts import fact
from workbench.triage.facts.standstill import Standing, is_idle, is_tail, waited
from workbench.triage.facts.unknown_numbers import (
    Known,
    Number,
    above,
    all_of,
    any_of,
    at_least,
    at_most,
    below,
    equal,
    first_known,
    known,
    least,
    minus,
    most,
    plus,
    ratio,
    times,
    total,
)
from workbench.triage.facts.work_or_arrivals import told

# An age from the lag and the arrival rate is off by up to twice its value on traffic that varies over the day (`features.timelag`).
_KNOWN_AGES = ("exact_record", "interpolated", "broker_time")


def course(p: PartitionFeatures) -> Number:
    """Messages/s by which its lag changes: in the last few samples where it is behind, else in the window's last third."""
    return first_known(told(p, "lag_course"), p.lag_recent_slope)


def _drains_in(p: PartitionFeatures) -> Number:
    """Seconds until a partition has caught up; None if it does not.

    Where partitions take turns, the lag shrinks in each one's turn, and may grow all the same: two turns show it. What has begun to
    grow again does not, however long it shrank. (The age alone may grow: all of a burst was produced at one time.) Of its paces, the
    slower one counts: that of the whole time, and the latest.
    """
    two_turns = at_most(2 * (told(p, "turn") or 0.0), told(p, "drain_seen"))
    grows = all_of(above(told(p, "age_slope"), 0), above(course(p), 0))
    lately = ratio(p.lag_messages, minus(0.0, course(p))) if below(course(p), 0) else None
    return most(told(p, "drain_in"), lately) if two_turns and grows is not True else None


class Lag(Standing):
    """Facts about the lag."""

    @cached_property
    def half_seconds(self) -> float:
        """Half of the objective, by the settings: what waits less long has not begun to fall behind."""
        return self.limits.growth_floor_ratio * self.objective_seconds

    @fact
    def few_partitions(self) -> int:
        """The largest number of partitions that counts as "a few"."""
        return max(1, floor(self.partition_count * self.limits.few_partitions_ratio + 1e-9))  # a third of 12 is 4

    def _late(self, p: PartitionFeatures) -> Known:
        """By its history; where that knows no age, by how long the arrivals took to make so much of it.

        Where no arrivals are measured either, a lag that fell so often that all of it was read lately is in time: to a sample.
        """
        surely = waited(p.lag_recent_low, p.arrival_per_second, surely=True)
        bound = self.objective_seconds + self.rhythm_seconds(p)
        in_time = at_most(told(p, "age_at_most"), plus(bound, self.sample_interval_seconds))
        by_lag = False if in_time else None
        return any_of(self.is_frozen(p), first_known(equal(told(p, "late"), 1), above(surely, bound), by_lag))

    @fact
    def late(self) -> Known:
        """Whether any partition is late."""
        return any_of(*(False if is_idle(p) else self._late(p) for p in self.partitions))

    @fact
    def abandoned(self) -> Known:
        """No member will read what waits, however little it still is."""
        # A count of members that has always been 0 counts something else, and so does one that is 0 while commits move.
        counts = self.count_disproved is None
        usually = above(self.usual_fewest_members, 0) is not False
        nobody = all_of(equal(self.group_members_recent, 0), counts, usually, not self.moving_now)
        gone = all_of(
            equal(self.live_members, 0),
            above(self.baseline_members, 0),
            equal(self.committed_recent_per_second, 0),
            # A batch that ends its process each time is expected to commit no more often.
            any_of(self.commit_every_seconds == 0, self.late),
        )
        waits = all_of(above(self.lag_messages, 0), above(self.lag_recent_low, 0))
        return any_of(bool(self.unowned_partitions), all_of(waits, any_of(nobody, gone, self.unsubscribed)))

    # Which partitions are behind, and which of them catch up.

    @cached_property
    def late_or_soon(self) -> tuple[PartitionFeatures, ...]:
        """Those that are late, or on the way to it."""

        def is_behind(p: PartitionFeatures) -> Known:
            soon = above(told(p, "waiting"), self.half_seconds + self.rhythm_seconds(p))
            return any_of(equal(told(p, "late"), 1), all_of(soon, below(course(p), 0) is not True))

        return tuple(p for p in self.partitions if is_behind(p) and not is_tail(p))

    @fact
    def behind_partitions(self) -> tuple[int, ...]:
        """Those that are late, or on the way to it, and do not catch up."""
        return tuple(p.partition for p in self.late_or_soon if not is_idle(p) and _drains_in(p) is None)

    @fact
    def behind_stand_still(self) -> bool:
        """Whether all of these have stopped, or may have."""
        stopped = {*self.frozen_partitions, *self.standing_partitions}
        return bool(self.behind_partitions) and stopped.issuperset(self.behind_partitions)

    @fact
    def all_may_have_stopped(self) -> bool:
        """Whether all of these may have stopped: too lately to be sure, or nobody measures them any more."""
        return bool(self.standing_partitions) and not {*self.behind_partitions} - {*self.standing_partitions}

    @cached_property
    def behind(self) -> tuple[PartitionFeatures, ...]:
        """The partitions of `behind_partitions`."""
        numbers = frozenset(self.behind_partitions)
        return tuple(p for p in self.partitions if p.partition in numbers)

    @cached_property
    def few_are_behind(self) -> bool:
        """Whether a few are behind, while others are not."""
        return 1 <= len(self.behind_partitions) <= min(self.few_partitions, self.partition_count - 1)

    @fact
    def eta_drain_seconds(self) -> Number:
        """Until the last of the late partitions has caught up; None if one of them does not."""
        each = [_drains_in(p) for p in self.late_or_soon]
        return most(*each) if all(it is not None for it in each) else None

    @cached_property
    def _reads_the_usual(self) -> Known:
        """Whether those that are behind are read as fast as records usually arrive there: else it is the quiet hour that helps."""
        read = (p.committed_recent_per_second for p in self.late_or_soon)
        usual = (p.arrival_baseline_per_second for p in self.late_or_soon)
        return at_least(total(read), times(LESS, total(usual)))

    @fact
    def draining(self) -> Known:
        """Whether it catches up in time: an end that is days away, or after the loss of messages, calms nobody."""
        bound = max(DRAIN_SECONDS, 2 * (self.time_lag_seconds or 0.0))
        shrinks = below(total(course(p) for p in self.partitions), 0) is not False
        # Of every partition that is behind, and not of their sum; what may have stopped is not known to go on.
        going_on = None if {p.partition for p in self.late_or_soon} & {*self.standing_partitions} else True
        in_time = all_of(
            bool(self.late_or_soon),
            not self.frozen_partitions,
            going_on,
            at_most(self.eta_drain_seconds, bound),
            shrinks,
            self._reads_the_usual is not False,
        )
        before_loss = below(self.eta_drain_seconds, self.loss_seconds) is not False
        # A run that is in time is no burst.
        is_due = self.batch_due_seconds is None or self.batch_late is not False
        return all_of(in_time, before_loss, is_due)

    @fact
    def growing(self) -> Known:
        """Whether the lag grows, beyond what it does between two commits."""
        if all(is_idle(p) for p in self.partitions):
            return False

        def grows(p: PartitionFeatures) -> Known:
            # Between two commits every lag grows.
            by_rate = waited(p.lag_recent_low, p.arrival_per_second)
            long = above(most(told(p, "waiting"), by_rate), self.rhythm_seconds(p) + self.half_seconds)
            # With more arrivals the lag of a constant delay grows, too.
            return all_of(long, above(told(p, "age_slope"), self.limits.growth_ratio / 2) is not False)

        return all_of(
            above(self.lag_slope, times(self.limits.growth_ratio, most(self.arrival_per_second, 1.0))),
            above(self.lag_messages, 0),
            # A sawtooth comes down again and again, as between two commits.
            above(waited(self.lag_recent_lowest, self.arrival_per_second, surely=True), self.half_seconds) is not False,
            above(self.lag_recent_lowest, total(p.lag_mean for p in self.partitions)) is not False,
            any_of(*(grows(p) for p in self.partitions)) is not False,
        )

    # The course of the lag.

    @fact
    def late_in_seconds(self) -> Number:
        """Until one that is in time yet is late, by what was not read of its arrivals in the last few samples."""

        def late_in(p: PartitionFeatures) -> Number:
            unread = ratio(told(p, "lag_course"), most(p.arrival_recent_per_second, p.arrival_per_second))
            if is_idle(p) or above(unread, self.limits.growth_ratio) is not True or below(unread, APART) is not True:
                return None
            return ratio(minus(self.objective_seconds + self.rhythm_seconds(p), told(p, "waiting")), unread)

        soonest = least(*(late_in(p) for p in self.partitions))
        return None if any_of(self.late, self.draining) is True else soonest

    @fact
    def outages(self) -> bool:
        """It has stood still, and was late by it, several times in all the data, and may well do so again."""
        return any(at_least(told(p, "outages"), SEVERAL) for p in self.partitions)

    @fact
    def comes_and_goes(self) -> bool:
        """Late several times in the window, or it has stood still several times in all the data, and may well do so again."""
        return self.comes_again is not None or self.outages

    @fact
    def held_inside(self) -> bool:
        """The oldest events of late partitions have been read and wait inside, while commits move: its own side is the limit."""
        going = [p for p in self.late_or_soon if not self.is_frozen(p)]
        held = [p for p in going if at_least(p.oldest_incomplete_seconds, times(MOST, told(p, "waiting")))]
        return bool(going) and 2 * len(held) > len(going)

    @fact
    def steady(self) -> bool:
        """Late all the time, and no more or less so: on purpose, or for longer than the data show."""
        late = [p for p in self.partitions if equal(told(p, "late"), 1) and not is_tail(p)]
        others = sum(1 for p in self.partitions if not is_idle(p))
        same = all(equal(told(p, "steady"), 1) is True for p in late)
        return bool(late) and not self.frozen_partitions and len(late) == others and same

    @fact
    def unproven(self) -> bool:
        """So late by now that only a commit since the last sample could make it well."""

        def is_late_by_now(p: PartitionFeatures) -> Known:
            # The time lag is of now: since the last sample it may have caught up, if it was not far behind, and no sample is missing.
            overdue = above(times(-1, p.committed_last_seconds), times(MISSED, p.committed_interval_seconds)) is True
            late = above(p.time_lag_seconds, self.objective_seconds + self.rhythm_seconds(p))
            far = above(told(p, "waiting"), self.half_seconds) is not False
            return all_of(above(p.lag_messages, 0), late, overdue or far)

        return any(not is_idle(p) and is_late_by_now(p) is True for p in self.partitions)

    @fact
    def batch_perhaps(self) -> bool:
        """It has stood still about as long before, and usually has no members: when it is due is not known."""
        stood = any_of(*(at_least(told(p, "stood_before"), times(PART, told(p, "waiting"))) for p in self.partitions))
        return all_of(equal(self.usual_fewest_members, 0), self.count_disproved is None, self.late, stood) is True

    @fact
    def recovered_seconds(self) -> Number:
        """Since the latest lateness ended."""
        return least(*(times(-1, told(p, "late_to")) for p in self.partitions))

    # A batch is silent between two runs, and late if what arrived before a run still waits after it.

    @fact
    def batch_ran(self) -> bool:
        """Whether a commit has moved since the run was due."""
        return any(below(p.moved_ago_seconds, self.batch_due_seconds) for p in self.partitions)

    def _waits_for_a_run(self, p: PartitionFeatures) -> Known:
        due, before = self.batch_due_seconds, self.batch_before_seconds
        if is_idle(p) or p.lag_messages == 0:
            return False
        by_broker = p.time_lag_seconds if p.time_lag_method == "broker_time" else None
        if above(most(0.0, told(p, "waiting"), p.time_lag_low, by_broker), due):
            return True
        if p.time_lag_method in _KNOWN_AGES:
            return False
        by_rate = waited(p.lag_messages, p.arrival_per_second)
        # Nearer to the age of what the last run left than to that of the run before it.
        product = times(due, before)
        if at_most(by_rate, sqrt(product) if product is not None else None):
            return False
        return True if above(by_rate, times(2, due)) else None

    @fact
    def batch_late(self) -> Known:
        """Whether messages from before the run wait; None if the data do not reach back so far, or for a group that is no batch."""
        if self.batch_due_seconds is None:
            return None
        return any_of(*(self._waits_for_a_run(p) for p in self.partitions))

    @fact
    def batch_missed(self) -> bool:
        """Late, and nothing ran."""
        return self.batch_late is True and not self.batch_ran

    @fact
    def batch_due_ago_seconds(self) -> Number:
        """Since when that run is due."""
        if self.batch_every_seconds is None:
            return self.batch_due_seconds
        moved = least(*(p.moved_ago_seconds for p in self.partitions))
        ages = (told(p, "waiting") if told(p, "waiting") is not None else p.time_lag_low for p in self.partitions)
        return minus(moved if moved is not None else max(known(*ages), default=None), self.batch_every_seconds)
