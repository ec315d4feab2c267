"""Partitions that stand still, and those in which nothing can wait."""

from __future__ import annotations

from functools import cached_property

from workbench.features.subscription_measurements import PartitionFeatures
from workbench.judgement_numbers import APART, FEW_SAMPLES, LESS, OLD_REST_SECONDS, PAUSE_SECONDS, QUOTA_PAUSE_SECONDS
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
    equal,
    least,
    minus,
    most,
    plus,
    ratio,
    times,
)
from workbench.triage.facts.work_or_arrivals import WorkFacts, told


def waited(low: Number, arrival: Number, *, surely: bool = False) -> Number:
    """Seconds that the arrivals took to make this lag: 0 without lag, None for a lag without arrivals.

    The oldest of n messages arrived at least n - 1 intervals ago (`surely`), and at most n. With rare messages this is the difference
    between now and a minute ago.
    """
    if low is None:
        return None
    return 0.0 if low == 0 else ratio(max(low - 1, 0.0) if surely else low, arrival)


def still_seconds(p: PartitionFeatures) -> Number:
    """For how long no commit has moved, up to the last sample; None if none has moved."""
    return plus(p.moved_ago_seconds, p.committed_last_seconds)


def is_tail(p: PartitionFeatures) -> bool:
    """Whether only an old rest waits at the log's end, or a last record that may have been read."""
    return equal(told(p, "idle"), 1) is True or is_unmoved(p) or is_short(p)


def is_short(p: PartitionFeatures) -> bool:
    """Whether all that may wait is the last record, each time that one comes: a commit of it, not of the next, looks like that."""
    return equal(told(p, "short"), 1) is True and at_most(p.lag_messages, 1) is True


def is_unmoved(p: PartitionFeatures) -> bool:
    """A record that nobody gets past, or records of an aborted transaction, which nobody is given.

    An open transaction is known by its last stable offset.
    """
    return at_least(told(p, "unmoved"), OLD_REST_SECONDS) is True and below(p.last_stable, p.log_end) is not True


def is_idle(p: PartitionFeatures) -> bool:
    """Whether nothing can be late: empty, an old rest, or never committed with no arrivals, in the baseline either."""
    none_came = all_of(equal(p.arrival_per_second, 0), equal(p.ever_arrived, 0)) is True
    never = not p.lag_ever_samples and none_came
    return at_most(p.log_end, p.log_start) is True or is_tail(p) or never


class Standing(WorkFacts):
    """Facts about partitions that stand still."""

    # Who has them, as the coordinator says.

    @fact
    def unsubscribed(self) -> bool:
        """Whether the group has members, and none of them any partition of this topic."""
        known = [p.assigned for p in self.partitions if p.assigned is not None]
        return bool(known) and not any(known)

    @fact
    def unowned_partitions(self) -> tuple[int, ...]:
        """Those that wait for somebody to have them, while members have others; what moves all the same is somebody's.

        Of one that nobody has ever committed, all that is there waits.
        """
        stands = {
            p.partition for p in self.partitions if at_least(still_seconds(p), self.soon_seconds / 2) is not False
        }

        def waits(p: PartitionFeatures) -> Known:
            ever_committed = p.lag_ever_samples or p.committed_high is not None
            return above(p.lag_messages, 0) if ever_committed else above(p.log_end, p.log_start or 0)

        mine = (p for p in self.partitions if equal(p.assigned, 0) and waits(p) and not is_idle(p))
        return () if self.unsubscribed else tuple(p.partition for p in mine if p.partition in stands)

    # What has stopped.

    @cached_property
    def soon_seconds(self) -> float:
        """After so long, what stands still counts."""
        return min(self.objective_seconds, PAUSE_SECONDS)

    @cached_property
    def each_members_partitions(self) -> Number:
        """Partitions for each member."""
        return ratio(self.partition_count, self.group_members)

    def rhythm_seconds(self, p: PartitionFeatures) -> float:
        """The usual time between two commits; 0 if it is not known."""
        return self.commit_every_seconds if self.commit_every_seconds > 0 else p.cadence_seconds or 0.0

    @fact
    def quiet_seconds(self) -> Number:
        """From the last arrival to the last sample."""
        return least(*(told(p, "quiet") for p in self.partitions))

    @fact
    def silent_for_seconds(self) -> Number:
        """From the last arrival that is measured to now; what is overdue counts for no more than the usual time between two samples."""
        # Where nobody knows when the last sample was, nothing is known of the time since.
        now = (least(-(p.log_end_last_seconds or 0.0), self.sample_interval_seconds) for p in self.partitions)
        return least(*(plus(told(p, "quiet"), since) for p, since in zip(self.partitions, now, strict=True)))

    def _is_frozen(self, p: PartitionFeatures) -> bool:
        """Whether its commit has stopped, for twice its usual rhythm, while messages wait as long.

        Without a rhythm (no commit has moved, and none is expected) this is not known, and counts as no. Where partitions take turns,
        it has to stand still for longer than two turns; under a quota, which a member's partitions wait for together, longer than that
        holds anybody up. Where the ends of the topic stand as long, nothing shows that somebody still measures: a few samples have to
        say so.
        """
        learned = most(p.cadence_seconds, told(p, "rhythm"))
        rhythm = self.commit_every_seconds if self.commit_every_seconds > 0 else learned
        if not above(p.lag_messages, 0) or is_tail(p) or rhythm is None:
            return False
        since = p.moved_ago_seconds if p.moved_ago_seconds is not None else p.committed_since_seconds
        still = plus(since, p.committed_last_seconds)
        seen = below(self.quiet_seconds, still) is True
        samples = 0.0 if seen else FEW_SAMPLES * (told(p, "interval") or 0.0)
        patience = max(2 * rhythm, self.soon_seconds, 2 * (told(p, "turn") or 0.0), samples)
        over = above(self.arrival_per_second, self.read_quota_per_second)
        held_up = over if self.throttle_seconds is None else self.throttle_seconds > 0
        in_line = all_of(held_up, below(still, QUOTA_PAUSE_SECONDS))
        return all_of(at_least(still, patience), in_line is not True, at_least(told(p, "waiting"), patience)) is True

    @fact
    def frozen_partitions(self) -> tuple[int, ...]:
        """Those whose commit has stopped, for longer than usual, while messages wait."""
        return tuple(p.partition for p in self.partitions if self._is_frozen(p))

    @cached_property
    def _frozen(self) -> frozenset[int]:
        return frozenset(self.frozen_partitions)

    def is_frozen(self, p: PartitionFeatures) -> bool:
        """Whether it is one of `frozen_partitions`."""
        return p.partition in self._frozen

    @fact
    def frozen_count(self) -> int:
        """How many."""
        return len(self.frozen_partitions)

    def _may_have_stopped(self, p: PartitionFeatures) -> Known:
        still = still_seconds(p)
        usual = APART * max(p.cadence_seconds or 0.0, told(p, "turn") or 0.0)
        long = all_of(above(still, usual), at_least(still, self.soon_seconds / 2))
        return all_of(not self.is_frozen(p), long, above(told(p, "waiting"), times(LESS, still)))

    @fact
    def standing_partitions(self) -> tuple[int, ...]:
        """Those that may have stopped: too lately to be sure, or nobody measures them any more."""
        dark = self.dark_partitions
        return tuple(p.partition for p in self.partitions if p.partition in dark or self._may_have_stopped(p))

    @fact
    def moving_now(self) -> bool:
        """Whether any commit has moved in the last two samples (an exporter's count of members may be older than that)."""
        return any(at_most(still_seconds(p), APART * (p.committed_interval_seconds or 0.0)) for p in self.partitions)

    @fact
    def moving_partitions(self) -> int:
        """How many are read."""
        return sum(1 for p in self.partitions if above(p.committed_moved, 0) and not self.is_frozen(p))

    @fact
    def silent_partitions(self) -> int:
        """How many have a lag, and too few samples of a commit."""
        silent = (p for p in self.partitions if (p.committed_samples or 0) < FEW_SAMPLES)
        return sum(1 for p in silent if above(p.lag_recent_low, 0))

    @fact
    def dark_partitions(self) -> tuple[int, ...]:
        """Whose lag was measured before, and is no more, while other lags or ends of logs are: no leader, no client, or hidden.

        Not where the log still ends at the highest commit that was ever seen: nothing can wait there, whoever has forgotten it.
        """
        missed = APART * max(self.limits.stale_after_seconds, self.sample_interval_seconds or 0.0)
        newest = most(*(most(p.lag_last_seconds, p.log_end_last_seconds) for p in self.partitions))
        since = minus(newest, missed)
        gone = (p for p in self.partitions if p.lag_messages is None or below(p.lag_last_seconds, since))

        def all_read(p: PartitionFeatures) -> bool:
            return all_of(equal(p.log_end, p.committed_high), at_least(p.log_end_last_seconds, since)) is True

        return tuple(p.partition for p in gone if above(p.lag_ever_samples, 0) and not all_read(p))

    @fact
    def unmoved_partitions(self) -> tuple[int, ...]:
        """Those that nothing arrives in, with records at their end that have waited as long as the data show."""
        return tuple(p.partition for p in self.partitions if is_unmoved(p))

    @fact
    def short_partitions(self) -> tuple[int, ...]:
        """Those whose commits rest one record before the end, whatever arrives, and for longer than a record may wait."""

        def for_long(p: PartitionFeatures) -> bool:
            return above(most(told(p, "usual_gap"), told(p, "quiet")), self.objective_seconds) is True

        return tuple(p.partition for p in self.partitions if is_short(p) and for_long(p))

    @fact
    def by_client(self) -> Known:
        """Whether some partitions' lag is known from their own client alone."""
        return any_of(*(equal(told(p, "by_client"), 1) for p in self.partitions))

    @fact
    def unseen(self) -> bool:
        """Whether such a lag does not change, as that of a paused client, which fetches nothing: only one that changes is known."""
        lies = any(
            equal(told(p, "by_client"), 1) and equal(p.lag_recent_slope, 0) is not False for p in self.partitions
        )
        return lies and not all(it.paused_mean is not None for it in self.members if it.live)
