"""Stuck partitions: frozen, and nothing in the consumer explains it. Hot partitions: far more lag than is typical."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property

from workbench.features.subscription_measurements import PartitionFeatures
from workbench.features.summary_schema import NOW
from workbench.judgement_numbers import APART, BUSY, FAR, FEW_SAMPLES, FREEZES, LESS, MORE, MOST, SEVERAL, TENTH
from workbench.triage.facts import fact
from workbench.triage.facts.offset_events import Events
from workbench.triage.facts.reasons_within_verdict import STALL_CAUSES
from workbench.triage.facts.standstill import is_tail
from workbench.triage.facts.unknown_numbers import (
    Known,
    Number,
    above,
    all_of,
    any_of,
    at_least,
    at_most,
    below,
    first_known,
    least,
    lower_median,
    minus,
    most,
    ratio,
    times,
    total,
)
from workbench.triage.facts.work_or_arrivals import MORE_FAIL, told
from workbench.triage.operand import first_of


class Partitions(Events):
    """Facts about single partitions."""

    def _is_quiet(self, p: PartitionFeatures) -> Known:
        """Nothing in the consumer explains that it stands still.

        Slow events hold commits up for a while, too: with full queues, only a partition that has not moved in the whole time is stuck.
        In a short window (or with a long commit interval) a missing commit proves nothing; hence the age. Nor is it a slow event if its
        consumer waits for records, nor does it wait for its turn if all others have theirs in time.
        """
        # A commit that has not moved proves nothing before something waits; one record of a quiet partition may be in a handler, which
        # is only counted when it ends.
        waiting = told(p, "waiting")
        others_in_time = self.moving_partitions > 0 and self._frozen.issuperset(p.partition for p in self.late_or_soon)
        if self.queueless and (self.own_work is False or others_in_time):
            return at_least(waiting, self.objective_seconds + self.rhythm_seconds(p)) is not False
        return at_least(least(p.moved_ago_seconds, waiting), FREEZES * self.soon_seconds)

    def _is_stuck(self, p: PartitionFeatures) -> bool:
        if told(p, "moved_ago") is not None:
            return self.is_frozen(p) and self._is_quiet(p) is True
        # Nobody has seen it move: there is no rhythm to compare with.
        seen = all_of(above(p.lag_recent_low, 0), at_least(p.committed_samples, FEW_SAMPLES)) is True
        young = below(told(p, "waiting"), self.half_seconds + 2 * self.commit_every_seconds) is True
        return seen and not young and not is_tail(p)

    @fact
    def stuck_partitions(self) -> tuple[int, ...]:
        """Those that stand still, while nothing in the consumer explains it."""
        return tuple(p.partition for p in self.partitions if self._is_stuck(p))

    @fact
    def stuck_count(self) -> int:
        """How many."""
        return len(self.stuck_partitions)

    @fact
    def stalled(self) -> bool:
        """Whether any stands still."""
        return bool(self.stuck_partitions or self.frozen_partitions)

    @fact
    def new_partitions(self) -> int:
        """How many appeared in the window."""
        return sum(1 for p in self.partitions if p.first_period == NOW)

    # How the lag is spread.

    @fact
    def lags(self) -> tuple[float, ...]:
        """Of the partitions where it is known, in messages."""
        return tuple(float(p.lag_messages) for p in self.partitions if p.lag_messages is not None)

    @fact
    def typical_lag(self) -> Number:
        """The smaller one of mean and lower median."""
        return least(sum(self.lags) / len(self.lags), lower_median(self.lags)) if self.lags else None

    @fact
    def highest_lag(self) -> Number:
        """Of the partition with most."""
        return most(*self.lags)

    def _is_hot(self, p: PartitionFeatures) -> Known:
        floor = max(self.limits.hot_factor * (self.typical_lag or 0.0), self.limits.hot_floor_messages)
        return above(p.lag_messages, floor)

    def _is_beside_hotter(self, p: PartitionFeatures) -> bool:
        """Whether it has so much less than another one that it may only wait behind it, in the loop or the pool of their member."""
        return below(p.lag_messages, times(TENTH, self.highest_lag)) is True

    @fact
    def hot_partitions(self) -> tuple[int, ...]:
        """A few that fall behind while the others keep up or catch up; or far more lag than is typical.

        What has about as much as the others is not apart from them, and what has stopped, or may have, is not hot. Nor is what waits
        beside a hot one.
        """
        if self.few_are_behind:
            apart = times(APART, self.typical_lag)
            found = [p for p in self.behind if not self.is_frozen(p) and above(p.lag_messages, apart) is not False]
        else:
            stopped = {*self.standing_partitions, *self.frozen_partitions, *self.stuck_partitions}
            found = [p for p in self.partitions if p.partition not in stopped and self._is_hot(p)]
        return tuple(p.partition for p in found if not self._is_beside_hotter(p))

    @fact
    def hot_count(self) -> int:
        """How many."""
        return len(self.hot_partitions)

    # Why partitions stand still.

    @fact
    def waits_inside(self) -> Known:
        """Whether most of what waits has been read, and a handler finishes clearly less of what arrives than before.

        In a pipeline (Flink), the commit of what is read waits for all of its handlers. Of one that finishes less than what arrives,
        while nothing shows what it did before, that is not known: it may come after a filter.
        """
        arriving = self.arrival_per_second
        found = any_of(
            *(
                first_known(
                    below(p.rate_per_second, times(LESS, times(self.arrival_ratio, p.baseline_rate_per_second))),
                    None if below(p.rate_per_second, times(LESS, arriving)) is True else False,
                )
                for p in self.processors
            )
        )
        return all_of(self.has_read_ahead, found)

    @fact
    def has_read_ahead(self) -> bool:
        """Whether most of what waits has been read."""
        return at_least(_read_of_what_waits(self.partitions), LESS) is True

    @fact
    def read_share(self) -> Number:
        """What those that stand still go on to read, of what arrives in them; where clients tell their positions, of what waits."""
        still = self.still
        by_position = _read_of_what_waits(still)
        if by_position is not None:
            return by_position
        theirs = ratio(total(p.enqueue_count for p in still), self._arrived_meanwhile(still))
        if theirs is not None or self.moving_partitions or not self.processors:
            return theirs
        # Without entry times only all of it together can be compared.
        attempts = sum(p.attempts or 0.0 for p in self.processors)
        return ratio(attempts, self._arrived_meanwhile(self.partitions))

    def _arrived_meanwhile(self, parts: Iterable[PartitionFeatures]) -> Number:
        """Arrivals while members' work was measured: since an onset, from a sample after it on, and the log's from one before it."""
        apart = 2 * (self.sample_interval_seconds or 0.0) if self.work_since_onset else 0.0
        return total(minus(p.arrived, times(p.arrival_per_second, apart)) for p in parts)

    @cached_property
    def still(self) -> list[PartitionFeatures]:
        """Partitions whose commit has stopped."""
        return [p for p in self.partitions if self.is_frozen(p) or p.partition in self.stuck_partitions]

    @cached_property
    def unread(self) -> list[PartitionFeatures]:
        """What of these nobody reads: not what waits for its turn under a quota, for its handlers inside, or for its commit alone."""
        return [] if self.at_quota or self.waits_inside is True or self.stall_cause == "commit_fails" else self.still

    @cached_property
    def tried_again(self) -> bool:
        """Whether records are tried again and again.

        Who counts no second tries counts them as failures: what fails, and is not passed by a commit, is tried again.
        """
        return any(
            all_of(
                at_least(p.retries, SEVERAL),
                above(times(p.retries, p.baseline_attempts), times(FAR * (p.baseline_retries or 0.0), p.attempts)),
            )
            if p.retries
            else all_of(at_least(p.failed, SEVERAL), above(p.failed, times(times(FAR, p.failing_baseline), p.outcomes)))
            for p in self.processors
        )

    @fact
    def held_by_tries(self) -> bool:
        """Whether records are tried again, while more than a few partitions stand still, and no more than one member has.

        Where a poll loop waits for a record, all that its member owns waits with it.
        """
        of_one = self.few_partitions < len(self.still) <= (self.each_members_partitions or 0.0)
        return self.tried_again and of_one

    @fact
    def gives_up(self) -> bool:
        """Whether far more attempts fail than before, and commits pass most of what fails, while some partitions advance.

        A loop that tries again, gives up and reads anew spends its time on that: another partition of its own may wait for it. Where
        fewer attempts are counted than records are passed, some are counted by nobody.
        """
        handled, every = (
            total(minus(p.outcomes, p.failed) for p in self.processors),
            total(p.outcomes for p in self.processors),
        )
        passed = total(p.committed_moved for p in self.partitions if above(p.committed_moved, 0))
        counted = all_of(at_least(every, times(LESS, passed)), below(handled, times(MOST, passed)))
        return all_of(*(it.holds(self) for it in MORE_FAIL), counted) is True

    @fact
    def rebalances_often(self) -> bool:
        """Whether a member has rebalanced as often as in a storm, in the window or since it began."""
        return at_least(most(self.rebalances, self.rebalances_since), self.limits.rebalances) is True

    @fact
    def others_keep_up(self) -> bool:
        """Whether some partitions move, and only those that are stuck fall behind."""
        return self.moving_partitions > 0 and set(self.behind_partitions) <= set(self.stuck_partitions)

    @fact
    def fells_its_owners(self) -> bool:
        """Whether members rebalance again and again, while few partitions stand still and the others keep up.

        What disturbs a whole group holds up all of its partitions; a record that ends each owner in turn, its own. Where one member
        alone starts anew, it may do so for any reason: what it should own waits for it, and the others may have room to work on.
        """
        few = 0 < self.stuck_count <= self.few_partitions
        return self.rebalances_often and few and self.others_keep_up and not self.one_begins_anew

    @fact
    def one_begins_anew(self) -> bool:
        """Whether members rebalance again and again, and a single one of them has started anew."""
        return self.rebalances_often and sum(1 for it in self.members if above(it.restarts, 0)) == 1

    @fact
    def held_count(self) -> int:
        """Partitions that stand still with a record in a handler for most of the time that their records wait."""
        return sum(
            1 for p in self.still if at_least(p.oldest_incomplete_seconds, times(MOST, told(p, "waiting"))) is True
        )

    @fact
    def blocked_share(self) -> Number:
        """Share of what stands still that stands at the last stable offset."""
        return ratio(sum(1 for p in self.still if _is_blocked(p) is True), len(self.still))

    @fact
    def paused_share(self) -> Number:
        """Share of the time that partitions were paused, of the member with most; None: no member tells."""
        return most(*(it.paused_mean for it in self.members if it.live))

    @fact
    def stall_cause(self) -> str | None:
        """Why partitions stand still; None if it is not visible, or none does."""
        return first_of(STALL_CAUSES, self) if self.still else None

    # The pace against before, and what arrives in the partitions that are behind.

    def pace_of(self, partitions: Sequence[PartitionFeatures]) -> Number:
        """Messages/s read lately of these partitions, as a multiple of the baseline's, for each member that is left.

        Where it kept up before, its pace was that of the arrivals. Fewer members have less of it.
        """
        seen = [p for p in partitions if p.committed_recent_per_second is not None and p.arrival_baseline_per_second]
        read = total(p.committed_recent_per_second for p in seen)
        before = total(p.arrival_baseline_per_second for p in seen)
        fewer = ratio(self.usual_members, self.group_members_recent)
        return times(ratio(read, before), max(1.0, 1.0 if fewer is None else fewer))

    @fact
    def pace_ratio(self) -> Number:
        """The pace where it is late, else of all."""
        return self.pace_of(self.behind or self.partitions)

    @fact
    def hot_arrival_ratio(self) -> Number:
        """What arrives in a hot partition, as a multiple of what arrives in a typical one."""
        hot = [p for p in self.partitions if p.partition in self.hot_partitions]
        return ratio(least(*(p.arrival_per_second for p in hot)), self.typical_arrival)

    @fact
    def hot_fills_a_thread(self) -> bool:
        """Whether its own work is the limit, and handling what arrives in a hot partition takes all that its one reader has."""
        records = self.handled_per_second or None
        took = total(times(p.rate_per_second, p.process_seconds) for p in self.processors)
        hot = (p.arrival_per_second for p in self.partitions if p.partition in self.hot_partitions)
        work = times(least(*hot), ratio(took, records))
        return self.queueless and self.own_work is True and at_least(work, BUSY) is True

    def _growth_besides(self, hot: Collection[int]) -> Number:
        """What arrives in all other partitions, as a multiple of the baseline; of all, if too little is known of them."""
        rest = [p for p in self.partitions if p.partition not in hot]
        grown = ratio(total(p.arrival_per_second for p in rest), total(p.arrival_baseline_per_second for p in rest))
        return first_known(grown, self.arrival_ratio)

    @fact
    def hot_growth(self) -> Number:
        """What arrives in a hot partition, as a multiple of the baseline, as a multiple of how the rest has grown."""
        hot = [p for p in self.partitions if p.partition in self.hot_partitions]
        grown = least(*(ratio(p.arrival_per_second, p.arrival_baseline_per_second) for p in hot))
        return ratio(grown, self._growth_besides(self.hot_partitions))

    @fact
    def surely_hot(self) -> bool:
        """A lag in few partitions, to which more arrives than to the others, and, as far as that is known, more than before."""
        grown = times(MORE, self._growth_besides(self.behind_partitions))

        def gets_more(p: PartitionFeatures) -> bool:
            as_before = below(p.arrival_per_second, times(grown, p.arrival_baseline_per_second))
            # Where that is not known: some get more than others at all times.
            more = times(FAR if as_before is None else APART, self.typical_arrival)
            known = as_before is False or (as_before is None and self.queueless)
            return known and at_least(p.arrival_per_second, more) is True

        stands = self.frozen_partitions or self.standing_partitions
        late = [p for p in self.behind if not self._is_beside_hotter(p)]
        return self.few_are_behind and not stands and all(gets_more(p) for p in late)


def _read_of_what_waits(parts: Sequence[PartitionFeatures]) -> Number:
    """What clients have read behind the commits, of all that waits there; None where no client tells its position."""
    return ratio(total(told(p, "ahead") for p in parts), total(p.lag_messages for p in parts))


def _is_blocked(p: PartitionFeatures) -> Known:
    """Everything that may be read has been read."""
    read = all_of(at_least(p.committed, minus(p.last_stable, 2)), at_most(p.committed, p.last_stable))
    return all_of(below(p.last_stable, p.log_end), read)
